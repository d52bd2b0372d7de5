"""Words are promises: code that publishes, shares noise, hides noise or forges a witness gets no
better word than it deserves.
"""

import functools
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness import InvalidArgument, Pair, accounting, domains
from dpwitness import mechanisms as m
from dpwitness.proofs_checks.kernel import checker

sys.path.insert(0, str(Path(__file__).parent))
from command_line import run

PAIR = Pair(np.array([0.0]), np.array([1.0]))


# -- prove

LOOP = """
from dpwitness.proofs_checks import provable

LIMIT = 2


@provable(cost="epsilon", where="epsilon > 0", neighbors="one")
def program(queries, rng, epsilon: float = 1.0):
    out = []
    threshold = rng.laplace(scale=2 / epsilon)
{}
    return out
"""
PUBLISHING = {
    "starred target": "    for *x, q in enumerate(queries):\n        out.append(x[0] + q > 0)",
    "the query itself": "    for q in queries:\n        out.append(q > 1)",
    "the query beside noise": "    for q in queries:\n        out.append(q + threshold * 0)",
    "walrus": "    for q in queries:\n        out.append((x := q) > threshold)\n    out.append(x > 1)",
    "shadowed builtin": "    enumerate = sorted\n    for i, q in enumerate(queries):\n        out.append(q > 1)",
    "global": "    global LIMIT\n    for q in queries:\n        LIMIT = q\n        out.append(LIMIT > 1)",
    "comprehension": "    out = [q > 1 for q in queries]",
    "half of the noise": "    for q in queries:\n        noise = rng.laplace(scale=0.5 / epsilon)\n        out.append(q + noise)",
    "sign of zero": "    for q in queries:\n        out.append(0 * q)\n        break",
    "while": "    while queries:\n        out.append(queries.pop() > 1)",
    "try": "    try:\n        out.append(queries[0] > 1)\n    except IndexError:\n        pass",
}  # fmt: skip


NOISY_ANSWERS = """
    for q in queries:
        noise = rng.laplace(scale=1 / epsilon)
        out.append(q + noise)"""


def prove(folder, name, body):
    pytest.importorskip("z3")
    path = folder / f"publishes_{name.replace(' ', '_')}.py"
    path.write_text(LOOP.format(body))
    code, out, err = run("prove", f"{path}:program", "--seconds", "5", "--trials", "0")
    return code, out + err


@pytest.mark.parametrize("name", PUBLISHING)
def test_a_program_that_publishes_has_no_proof(tmp_path, name):
    code, answer = prove(tmp_path, name, PUBLISHING[name])
    assert code in (1, 2, 3) and "CERTIFIED" not in answer


def test_the_same_program_has_a_proof_if_it_publishes_nothing(tmp_path):
    code, answer = prove(tmp_path, "nothing", NOISY_ANSWERS)
    assert code == 0 and "CERTIFIED" in answer, answer


# -- noise that runs share


def shared_by_a_call(dataset, size, rng):
    return rng.laplace(0.0, 5.0) + rng.laplace(0.0, 1.0, size)


@functools.lru_cache
def _kept(key):
    return float(np.random.default_rng().laplace(0.0, 5.0))


def memoised(dataset, size, rng):
    return np.full(size, _kept(dataset.tobytes()))


def _remembering():
    kept = {}

    def remembered(dataset, size, rng):
        key = dataset.tobytes()
        if key not in kept:
            kept[key] = np.random.default_rng().laplace(0.0, 5.0)
        return np.full(size, kept[key])

    return remembered  # which no other process can load


SHARED = [shared_by_a_call, memoised, _remembering()]


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("mechanism", SHARED, ids=lambda each: each.__name__)
def test_noise_that_runs_share_is_an_error_and_no_violation(mechanism, sequential):
    options = {"sequential": True} if sequential else {}
    found = dpw.audit(
        mechanism, claim="pure:1", pair=PAIR, trials=8_000, seed=1, bits=False, **options
    )
    assert found.verdict.value == "ERROR", found.headline()


def test_given_outputs_that_runs_share_are_an_error():
    rng = np.random.default_rng(1)
    sides = [rng.permutation(np.repeat(rng.laplace(size=1_000), 3)) for _ in range(2)]
    assert dpw.audit_outputs(*sides, "pure:0.1").verdict.value == "ERROR"


# -- noise that nobody records


def _hidden(size):
    """Laplace noise of scale .3 from a device of the operating system."""
    with Path("/dev/urandom").open("rb") as device:
        numbers = np.frombuffer(device.read(8 * size), dtype=np.uint64)
    uniform = (numbers + 0.5) / 2.0**64 - 0.5
    return -0.3 * np.sign(uniform) * np.log1p(-2 * np.abs(uniform))


def unrecorded(dataset, size, rng):
    return dataset[0] + _hidden(size)


def beside(dataset, size, rng):
    hidden = dataset[0] + _hidden(size) > 0.8
    return np.column_stack([rng.laplace(0.0, 1.0, size), hidden])


unrecorded.seeded = beside.seeded = False


@pytest.mark.parametrize("mechanism", [unrecorded, beside], ids=lambda each: each.__name__)
def test_noise_that_is_not_recorded_supports_nothing(mechanism):
    """Two runs with one record may differ or not, by chance."""
    found = dpw.trace(mechanism, PAIR, "pure:4", confirm=False, seed=1)
    assert found.verdict.value == "INCONCLUSIVE" or (
        found.verdict.value == "NOT_REFUTED"
        and "the privacy loss of some calls is unknown" in found.headline()
    )


def test_an_audit_does_not_support_by_its_trace_what_its_counts_refute():
    found = dpw.audit(unrecorded, claim="pure:1", pair=PAIR, trials=4_000, seed=1)
    assert found.verdict.value == "VIOLATED"
    assert "SUPPORTED" not in " ".join((found.headline(), *found.notes))


FORMS = {
    "array": np.array, "frame": lambda v: {"x": v}, "text": lambda v: ",".join(map(str, v)),
    "none": lambda v: v[0] if v else None, "no columns": lambda v: np.zeros((len(v), 0)),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_release_without_rows_can_be_traced(form):
    def kept(dataset, size, rng):
        chosen = [each for each in dataset if each > 1.5]
        return [FORMS[form]([float(x + rng.laplace(0, 5)) for x in chosen]) for _ in range(size)]

    pair = Pair(np.array([1.0]), np.array([1.0, 2.0]), "add-remove")
    found = dpw.trace(kept, pair, "pure:1", confirm=False, seed=1)
    assert found.verdict.value != "ERROR" and "zero-size" not in str(found.to_json())


# -- figures of accountants


@pytest.mark.parametrize(
    ("shift", "verdict"), [(0.0, "NOT_REFUTED"), (-0.5, "VIOLATED"), (0.5, "NOT_REFUTED")]
)
def test_an_epsilon_below_zero_is_true_or_too_low(shift, verdict):
    """The Laplace mechanism has delta = 1 - e^epsilon for every epsilon below -1 / scale."""

    def accountant(scale, delta):
        exact = np.log1p(-delta)
        if exact > -1 / scale:
            exact = 1 / scale + 2 * np.log1p(-delta)
        return exact + shift

    found = accounting.audit_accountant(
        accountant, "laplace", "epsilon",
        ranges={"scale": (0.5, 5.0), "delta": (0.05, 0.9)}, evaluations=100,
    )  # fmt: skip
    assert found.verdict.value == verdict, found.headline()
    if verdict == "NOT_REFUTED" and not shift:
        assert "too low" not in found.headline() or "no figure too low" in found.headline()


# -- few runs


def _synthesizer(factor):
    def synthesize(dataset, size, rng):
        means = np.sum(dataset) + rng.laplace(0.0, factor * 4 / 3, (size, 4))
        return list(means[:, None, :] + rng.normal(0.0, 1e-3, (size, 8, 4)))

    return synthesize


@pytest.mark.parametrize(("factor", "verdict"), [(1 / 100, "VIOLATED"), (4.0, "NOT_REFUTED")])
def test_few_runs_with_continuous_outputs_find_a_gross_violation(factor, verdict):
    found = dpw.audit(
        _synthesizer(factor), claim="pure:1", pair=PAIR, trials=1_000, seed=3, trace=False
    )
    assert found.verdict.value == verdict


# -- checks, certificates and what their words cover


class PoissonSum:
    """A sum of the records that coins choose: sound, and its number of draws tells the records."""

    claim = dpw.PureDP(1.0)
    domain = domains.Records(3, relation="add-remove")

    def sample(self, dataset, size, rng):
        values = np.clip(np.nan_to_num(np.asarray(dataset, dtype=float)), 0, 1)
        sums = [float(values[rng.random(len(values)) < 0.5].sum()) for _ in range(size)]
        return np.rint(1024 * (np.array(sums) + rng.laplace(0.0, 1.0, size))) / 1024


def test_draws_are_a_note_of_a_check_and_no_failure():
    found = dpw.check_mechanism(PoissonSum(), trials=20_000, seed=1)
    assert not found.failed and found.verdict.value == "NOT_REFUTED"
    assert [each for each in found.findings if "draws" in each.check]


def test_a_step_that_clips_its_blocks_apart_is_not_supported():
    def update(gradients, rng):
        parts = [gradients[:, :2], gradients[:, 2:]]
        clipped = [p / np.maximum(1.0, np.linalg.norm(p, axis=1, keepdims=True)) for p in parts]
        return np.concatenate([c.sum(axis=0) for c in clipped]) + rng.normal(size=4)

    step = m.GradientSteps(noise_multiplier=1.0, dimension=4, records=3, delta=1e-3, update=update)
    claim = dpw.ApproxDP(1.2 * step.claim.epsilon, 1e-3)
    found = [
        dpw.certify(step, pair, claim, trials=10_000, seed=1)
        for pair in (step.worst_pair(), step.crowded_pair())
    ]
    assert {each.verdict.value for each in found} & {"ERROR", "VIOLATED"}
    assert all("pair" in each.headline() for each in found if each.verdict.value == "SUPPORTED")


# -- the kernel


@pytest.fixture(scope="module")
def witness():
    found = dpw.audit(m.Laplace(1.0, noise_multiplier=0.4), trials=6_000, seed=1)
    return json.loads(json.dumps(found.witness))


def _sealed(content):
    """Return a witness with the hash that it states: SHA-256 of its other fields."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return rest | {"sha256": hashlib.sha256(text.encode()).hexdigest()}


def _kernel(folder, content):
    path = folder / "witness.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    done = subprocess.run(
        [sys.executable, checker.__file__, path], capture_output=True, text=True, timeout=60
    )
    assert not done.stderr
    return done.returncode, done.stdout


def test_the_kernel_prints_what_it_verified(witness, tmp_path):
    code, printed = _kernel(tmp_path, _sealed(witness))
    assert code == 0 and printed.startswith("ACCEPTED ")
    for line in ("claim: pure:1 is refuted", "bound: epsilon > ", "confidence: 0.99"):
        assert line in printed


FORGED = {
    "claim": {"claim": "pure:5"},
    "numbers of another claim": {"claim_numbers": [0.5, 0.0]},
    "confidence below 0": {"confidence": -1},
    "confidence 1": {"confidence": 1},
    "infinite bound": {"bound": "inf"},
    "larger bound": {"bound": 7.5},
    "unknown level": {"level": "other"},
    "unknown field": {"more": 1},
    "seed": {"seed": -1},
}


@pytest.mark.parametrize("name", FORGED)
def test_the_kernel_refuses_a_forged_witness_as_replay_does(witness, tmp_path, name):
    forged = _sealed(witness | FORGED[name])
    assert _kernel(tmp_path, forged)[0] == 1
    with pytest.raises(InvalidArgument):
        dpw.replay(forged, trials=1_000)


def test_the_kernel_says_what_it_did_not_check(witness, tmp_path):
    code, printed = _kernel(tmp_path, _sealed(witness | {"kind": "sensitivity"}))
    assert code == 3 and printed.startswith("NOT CHECKED")


@pytest.mark.parametrize(
    "content",
    [b'{"a": 1e-30000000}', b"[]", b"null", b"[" * 200_000, b"{", b"\xff", b'{"a": 1' + b"0" * 10**6 + b"}"],
    ids=["exponent", "list", "null", "brackets", "open", "bytes", "digits"],
)  # fmt: skip
def test_the_kernel_answers_whatever_it_reads(tmp_path, content):
    assert _kernel(tmp_path, content)[0] in (1, 2)


# -- the marker of pytest

MARKED = """
import unittest

import numpy as np
import pytest

import dpwitness as dpw


def broken(dataset, size, rng):
    return dataset[0] + rng.laplace(0.0, 0.1, size)


class TestUnit(unittest.TestCase):
    @pytest.mark.dp_audit(claim="pure:1", pair=dpw.Pair(np.zeros(1), np.ones(1)), trials=2000)
    def test_returned(self):
        return broken


@pytest.mark.dp_audit(claim="pure:1", pair=dpw.Pair(np.zeros(1), np.ones(1)), trials=2000)
def test_returned():
    return broken
"""


def test_a_marked_item_that_was_not_audited_fails(shell):
    (shell.folder / "test_marked.py").write_text(MARKED)
    done = shell.pytest("-q", ".")
    assert done.returncode == 1 and "2 failed" in done.stdout, done.stdout[-2000:]
