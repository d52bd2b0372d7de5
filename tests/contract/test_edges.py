"""Edges: each wrong answer that was once given, asked again through public names."""

import copy
import json
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import dpwitness as dpw
from dpwitness import InvalidArgument, Pair, domains
from dpwitness import mechanisms as m

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def verdict(mechanism, claim="pure:1", trials=1_000, **options):
    options = {"pair": PAIR, "seed": 1, "bits": False, "trace": False, "causes": False} | options
    return dpw.audit(mechanism, claim=claim, trials=trials, **options).verdict.value


# -- every leaf of an output is looked at
# ------------------------------------------------------------------------------

FRAME = pd.DataFrame({"n": [1.5, 2.5], "who": ["a", "b"]})
LEAVES = {
    "sign of zero": (0.0, -0.0),
    "integer beyond 2^70": (2**71, 2**71 + 1),
    "nanosecond": (pd.Timestamp(10**18), pd.Timestamp(10**18 + 1)),
    "index of a frame": (FRAME, FRAME.set_index(pd.Index([0, 7]))),
    "name of an index": (FRAME, FRAME.rename_axis("rows")),
    "name of a column": (FRAME, FRAME.rename(columns={"who": "name"})),
    "attribute of a frame": (FRAME, FRAME.copy()),
    "dtype of a column": (FRAME, FRAME.astype({"n": "float32"})),
    "name of a series": (FRAME["n"], FRAME["n"].rename("m")),
    "category without rows": (  # one that no row has
        pd.Series(["a"], dtype=pd.CategoricalDtype(["a", "b"])),
        pd.Series(["a"], dtype=pd.CategoricalDtype(["a", "c"])),
    ),
    "order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "mask": (np.ma.masked_array([1.0], mask=[False]), np.ma.masked_array([1.0], mask=[True])),
    "shape": (np.zeros((2, 3)), np.zeros((3, 2))),
    "no columns and no rows": (np.zeros((0, 2)), np.zeros((0, 3))),
    "type of a number": (1, 1.0),
    "bool and int": (True, 1),
    "decimals": (Decimal("1.10"), Decimal("1.1000000000000000001")),
    "complex": (1 + 0j, 1 + 1e-9j),
    "text": ("x", "x "),
    "bytes and text": (b"x", "x"),
    "nested": ({"a": [(1, {"b": 2})]}, {"a": [(1, {"b": 3})]}),
}
LEAVES["attribute of a frame"][1].attrs["source"] = "x"


@pytest.mark.slow_cases("attribute of a frame", "name of an index", "name of a column")
@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_that_differs_is_a_violation(leaf):
    zero, one = LEAVES[leaf]
    found = dpw.audit_outputs([zero] * 1_000, [one] * 1_000, claim="pure:1")
    assert found.verdict.value == "VIOLATED"


def test_leaves_that_are_equal_are_no_violation():
    rng = np.random.default_rng(1)
    ways = [each for pair in LEAVES.values() for each in pair]
    sides = [[copy.deepcopy(ways[i]) for i in rng.permutation(1_100) % len(ways)] for _ in range(2)]
    assert dpw.audit_outputs(*sides, claim="pure:1").verdict.value == "NOT_REFUTED"


def test_the_message_of_an_exception_is_a_violation():
    def mechanism(dataset, size, rng):
        if rng.random() < 0.5:
            raise ValueError(f"row {int(np.sum(dataset))}")
        return np.zeros(size)

    assert verdict(mechanism) == "VIOLATED"


# -- rounds must be independent
# ----------------------------------------------------------------------------------------


def alternating():
    state = [0]

    def mechanism(dataset, size, rng):
        state[0] += 1
        return np.full(size, state[0] % 2) + 0.0 * rng.random(size)

    return mechanism


def test_a_mechanism_that_keeps_state_is_an_error():
    assert verdict(alternating(), trials=4_000) == "ERROR"


def test_noise_of_one_call_is_an_error():
    assert verdict(lambda dataset, size, rng: np.full(size, rng.laplace()), trials=4_000) == "ERROR"


def test_an_exception_that_every_run_raises_is_no_violation():
    def broken(dataset, size, rng):
        raise ImportError("numpy is too new")

    assert verdict(broken) in ("ERROR", "INCONCLUSIVE")


def test_exceptions_enter_with_their_own_first_draw():
    """The function keeps epsilon = 1; counting exceptions twice would refute it."""

    def mechanism(dataset, size, rng):
        values = np.sum(dataset) + rng.laplace(size=size)
        if (values > 4.0).any():
            raise OverflowError("too large")
        return (values > 2.0).astype(float)

    results = [
        dpw.audit(
            mechanism, claim="pure:1", pair=PAIR, trials=4_000, seed=seed, trace=False, causes=False
        ).verdict.value
        for seed in range(6)
    ]
    assert results.count("VIOLATED") <= 1


# -- neighbors are checked, not trusted
# --------------------------------------------------------------------------------

USERS = pd.DataFrame({"user": ["a", "b", None], "spent": [1.0, 2.0, 3.0]})
NOT_NEIGHBORS = {
    "two records": lambda: Pair(np.array([0.0, 0.0]), np.array([1.0, 1.0])),
    "another length": lambda: Pair(np.zeros(2), np.zeros(3)),
    "tuple of arrays": lambda: Pair(
        (np.zeros((2, 2)), np.zeros(2)), (np.zeros((2, 2)), np.ones(2))
    ),
    "large integers": lambda: Pair(np.array([2**60]), np.array([2**60 + 50]), "l1"),
    "user without a name": lambda: Pair(USERS, USERS.iloc[:2], "add-remove", unit="user"),
    "unknown relation": lambda: Pair(np.zeros(2), np.zeros(2), "close"),
}


@pytest.mark.parametrize("which", NOT_NEIGHBORS)
def test_datasets_that_are_no_neighbors_are_refused(which):
    with pytest.raises(InvalidArgument):
        NOT_NEIGHBORS[which]()


@pytest.mark.slow
@pytest.mark.parametrize(
    "domain",
    [domains.Records(3, low=1, high=2), domains.Records(2, low=0.5, high=3.7, integer=True)],
    ids=str,
)
def test_pairs_of_a_domain_lie_in_the_domain(domain):
    found = dpw.audit(
        lambda dataset, size, rng: np.sum(dataset) + rng.laplace(0, 5, size),
        claim="pure:1",
        domain=domain,
        trials=2_000,
    )
    for dataset in (found.pair.d0, found.pair.d1):
        assert np.all(dataset >= domain.low) and np.all(dataset <= domain.high)
    assert (
        dpw.audit_sensitivity(
            lambda x: float(np.sum(x)), domain.high - domain.low, domain, evaluations=200
        ).verdict.value
        == "NOT_REFUTED"
    )


# -- a claim, a budget, a canary that cannot be meant
# ------------------------------------------------------------------

REFUSED = {
    "negative epsilon": lambda: dpw.parse_claim("pure:-1"),
    "words": lambda: dpw.parse_claim("pure:one"),
    "two numbers": lambda: dpw.parse_claim("pure:1,2"),
    "delta above 1": lambda: dpw.parse_claim("approx:1,2"),
    "nan": lambda: dpw.parse_claim("pure:nan"),
    "unknown notion": lambda: dpw.parse_claim("local:1"),
    "trials": lambda: dpw.audit(m.Laplace(1.0), trials=10),
    "confidence": lambda: dpw.audit(m.Laplace(1.0), confidence=1.0, trials=1_000),
    "seconds": lambda: dpw.audit(m.Laplace(1.0), seconds=-1.0),
    "trials and seconds": lambda: dpw.audit(m.Laplace(1.0), trials=1_000, seconds=1.0),
    "no claim": lambda: dpw.audit(
        lambda dataset, size, rng: rng.random(size), pair=PAIR, trials=1_000
    ),
    "no function": lambda: dpw.audit(3, claim="pure:1", pair=PAIR, trials=1_000),
    "flag": lambda: dpw.audit(m.Laplace(1.0), trials=1_000, bits="yes"),
    "mask of canaries": lambda: dpw.audit_canaries(
        np.array([True, False]), np.array([True, True]), "pure:1"
    ),
    "one array on both sides": lambda: dpw.audit_canaries(
        np.arange(50.0), np.arange(50.0), "pure:1"
    ),
    "matrix of scores": lambda: dpw.audit_canaries(np.zeros((5, 5)), np.zeros((5, 5)), "pure:1"),
    "copies of a run": lambda: dpw.audit_canaries(
        *[[np.arange(60.0) + k for _ in range(3)] for k in (0, 0.5)], "pure:1"
    ),
    "numbers": lambda: dpw.audit_canaries(["a"], ["b"], "pure:1"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_an_argument_that_cannot_be_meant_is_refused_in_one_line(which):
    with pytest.raises(InvalidArgument) as refused:
        REFUSED[which]()
    assert str(refused.value) and "\n" not in str(refused.value)


def test_a_result_is_no_truth_value():
    with pytest.raises(TypeError):
        bool(dpw.audit(m.Laplace(1.0), trials=1_000))


# -- witnesses
# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def witness():
    found = dpw.audit(m.Laplace(1.0, noise_multiplier=0.4), trials=6_000, seed=1)
    assert found.verdict.value == "VIOLATED"
    return json.loads(json.dumps(found.witness))


def _changed(witness, path, value):
    copy = json.loads(json.dumps(witness))
    *folders, last = path
    place = copy
    for folder in folders:
        place = place[folder]
    place[last] = value
    return copy


EDITS = {
    "bound": (("bound",), 9.0),
    "counts": (("counts", "correct"), 10**6),
    "claim": (("claim",), "pure:0.1"),
    "confidence": (("confidence",), 0.999999),
    "unknown field": (("extra",), 1),
    "missing pair": (("pair",), None),
    "level": (("level",), "other"),
    "relation": (("pair", "relation"), "add-remove"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_witness_is_refused(witness, edit):
    with pytest.raises(InvalidArgument):
        dpw.replay(_changed(witness, *EDITS[edit]), trials=2_000)


def test_a_replay_confirms_with_fresh_randomness(witness):
    one, other = dpw.replay(witness, trials=4_000), dpw.replay(witness, trials=4_000)
    assert one.verdict.value == other.verdict.value == "VIOLATED" and one.seed != other.seed


@pytest.mark.parametrize(
    "target", ["subprocess:Popen", "os:system", "builtins:eval", "shutil:rmtree"]
)
def test_a_witness_does_not_choose_what_runs(witness, target):
    with pytest.raises(InvalidArgument):
        dpw.replay(_changed(witness, ("target",), {"target": target, "kwargs": {}}))


# -- datasets that differ in what is no number
# --------------------------------------------------------------------------------------------------


def test_categories_of_a_row_tell_rows_apart():
    who = [pd.Categorical(names, ["a", "b", "c"]) for names in (["a", "b"], ["c", "b"], ["c", "c"])]
    one, two, three = (pd.DataFrame({"who": each}) for each in who)
    assert dpw.Pair(one, two).relation == "replace-one"
    with pytest.raises(InvalidArgument, match="2 records differ"):
        dpw.Pair(one, three)


def test_attributes_of_a_frame_belong_to_no_record():
    marked = FRAME.copy()
    marked.attrs["source"] = "another file"
    with pytest.raises(InvalidArgument, match="attrs"):
        dpw.Pair(FRAME, marked.assign(n=[0.0, 2.5]))


# -- stores
# --------------------------------------------------------------------------------------------------


def _store_audit(mechanism, store, **more):
    return dpw.audit(
        mechanism,
        claim="pure:1",
        pair=PAIR,
        trials=2_000,
        seed=1,
        store=store,
        name="stored",
        **more,
    )


def test_a_store_gives_the_same_result_and_a_changed_mechanism_is_noticed(tmp_path):
    scale = [1.0]

    def mechanism(dataset, size, rng):
        return np.sum(dataset) + rng.laplace(0.0, scale[0], size)

    path = tmp_path / "runs.db"
    first, again = _store_audit(mechanism, path), _store_audit(mechanism, path)
    assert first.parameter_lower == again.parameter_lower and first.tally == again.tally
    scale[0] = 0.1
    with pytest.raises(InvalidArgument, match="stored"):
        _store_audit(mechanism, path)


def test_a_damaged_store_is_named(tmp_path):
    path = tmp_path / "runs.db"
    _store_audit(m.Laplace(1.0), path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :] = b"x" * (len(content) - len(content) // 2)
    path.write_bytes(content)
    with pytest.raises(InvalidArgument):
        _store_audit(m.Laplace(1.0), path)


# -- reproducible
# --------------------------------------------------------------------------------------------------


def test_workers_change_no_count():
    from dpwitness import executors

    alone = dpw.audit(m.Laplace(1.0), trials=8_000, seed=3)
    with executors.executor("processes:2") as pool:
        shared = dpw.audit(m.Laplace(1.0), trials=8_000, seed=3, executor=pool)
    assert alone.tally == shared.tally and alone.parameter_lower == shared.parameter_lower


def test_importing_loads_neither_numpy_nor_numba():
    code = "import sys, dpwitness; print(sorted({'numpy', 'numba', 'scipy'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
