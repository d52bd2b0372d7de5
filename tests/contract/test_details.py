"""Details of what is accepted, refused and said, through public names."""

import json
import math
import re
import subprocess
import sys
from concurrent.futures import Executor, Future
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpwitness as dpw
from dpwitness import InvalidArgument, Pair
from dpwitness import mechanisms as m
from dpwitness.auditors import MeanBound
from dpwitness.auditors.witnesses.store import open_store
from dpwitness.core import LabelledVectors

sys.path.insert(0, str(Path(__file__).parent))
from command_line import run

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def audit(mechanism, claim="pure:1", trials=3_000, **options):
    options = {"pair": PAIR, "seed": 1, "bits": False, "trace": False, **options}
    return dpw.audit(mechanism, claim=claim, trials=trials, **options)


def noisy_sum(scale):
    """The sum of the records with Laplace noise."""
    return lambda dataset, size, rng: np.sum(dataset) + rng.laplace(0, scale, size)


# -- datasets and their neighbors
# ------------------------------------------------------------------------------------------


def test_records_that_differ_by_signs_of_zeros_are_merged():
    merged = LabelledVectors([[-0.0], [0.0], [1.0]], [1.0, 1.0, -0.0]).merged()
    assert merged.multiplicity.tolist() == [2, 1]
    assert not np.signbit([merged.x[:, 0], merged.y]).any()


ACCEPTED = {
    "numbers": ([1.0, 2.0], [1.0, 3.0], "replace-one"),
    "numbers and None": ([1, None], [1, 2], "replace-one"),
    "rows": ([[1, "a"], [2, "b"]], [[1, "a"], [2, "c"]], "replace-one"),
    "dicts": ([{"a": 1}], [{"a": 1}, {"a": 2}], "add-remove"),
    "columns": (
        (np.zeros((2, 1)), np.array([0, 1])),
        (np.zeros((2, 1)), np.array([1, 1])),
        "replace-one",
    ),
    "lists as columns": (([1, 2], ["a", "b"]), ([1, 2], ["a", "c"]), "replace-one"),
    "texts": (["a", "b"], ["b"], "add-remove"),
    "two events": ([1, 2, 3, 4], [2, 3, 5, 4], "event:k=2"),
    "an event in the middle": (list("abcdef"), list("abdef"), "event"),
    "two records": ([1, 2, 3], [1, 8, 9], "replace-one:k=2"),
    "vectors": ([1.0, 0.0], [0.5, 0.5], "l1"),
}


@pytest.mark.parametrize("which", ACCEPTED)
def test_neighbors_are_accepted_in_both_orders(which):
    first, second, relation = ACCEPTED[which]
    for one, other in ((first, second), (second, first)):
        assert Pair(one, other, relation).relation.startswith(relation.partition(":")[0])


NOT_NEIGHBORS = {
    "rows of other kinds": (([[1, 2], ["a", "b"]],) * 2, "replace-one", "records of one kind"),
    "numbers and rows": (([1, [2]], [1, [3]]), "replace-one", "records of one kind"),
    "truth values and numbers": (([True, False], [1, 0]), "replace-one", "differ"),
    "two rows, by number": (
        ([1, 2, 3, 4], [1, 9, 3, 9]),
        "replace-one",
        r"2 records differ \(rows 1, 3\)",
    ),
    "rows of one side": (([1, 2, 3], [1]), "add-remove", r"rows 1, 2 of D0"),
    "three events": ((list("abcdef"), list("abf")), "event:k=2", "event"),
    "moved far": (([0.0, 0.0], [1.0, 1.0]), "l1", "neighbors under linf"),
    "numbers that are no answers": (([0.0, 0.0], [5.0, 5.0]), "replace-one", "vectors of answers"),
    "texts that are no answers": ((["a", "b"], ["c", "d"]), "replace-one", "replace-one:k=2"),
}


@pytest.mark.parametrize("which", NOT_NEIGHBORS)
def test_datasets_that_are_no_neighbors_are_refused_with_the_reason(which):
    (first, second), relation, reason = NOT_NEIGHBORS[which]
    with pytest.raises(InvalidArgument) as refused:
        Pair(first, second, relation)
    text = str(refused.value)
    assert re.search(reason, text), text
    assert "rows  of" not in text and text.count("\n") == 0


ZEROS = np.zeros(2)


@pytest.mark.parametrize(
    ("first", "second", "suggested", "answers"),
    [
        (ZEROS, np.full(2, 0.5), "they are neighbors under", False),
        (ZEROS, np.full(2, 5.0), "neighbors under replace-one:k=2", True),
        (["a", "b"], list("cdefghijkl"), 'relation="stated"', False),
    ],
)
def test_a_relation_is_suggested_only_if_it_fits(first, second, suggested, answers):
    with pytest.raises(InvalidArgument, match=suggested) as refused:
        Pair(first, second)
    assert ("vectors of answers" in str(refused.value)) is answers


# -- outputs
# ------------------------------------------------------------------------------------------


@pytest.mark.slow_cases("row {}: 0x{:x}")
@pytest.mark.parametrize("form", ["{}", "row {}: 0x{:x}"])
def test_numbers_in_texts_are_read_in_their_base(form):
    """A text that holds the answer, plus noise, as a decimal or hexadecimal number."""

    def mechanism(scale):
        def run(dataset, size, rng):
            values = 1000 + 20 * int(np.sum(dataset)) + np.round(rng.laplace(0, scale, size))
            return [form.format(*[int(value)] * form.count("{")) for value in values]

        return run

    assert audit(mechanism(5.0), trials=1_500).verdict.value == "VIOLATED"
    assert audit(mechanism(30.0), trials=1_000).verdict.value == "NOT_REFUTED"


def changes_its_argument(outputs):
    outputs[:] = 0.0
    return outputs[:, 0]


def test_a_score_cannot_change_the_outputs():
    left_out = audit(noisy_sum(0.2), trials=2_000, scores=[changes_its_argument])
    assert left_out.verdict.value == "VIOLATED"
    assert any("changes_its_argument" in note for note in left_out.notes)
    used = audit(noisy_sum(0.2), trials=2_000, scores=[np.negative])
    assert used.verdict.value == "VIOLATED" and not any("left out" in n for n in used.notes)


# -- what a violation is due to
# ------------------------------------------------------------------------------------------


def raises_for_one(share, scale=1.0):
    """Raise in a share of the runs on D1, and in some of those on D0; otherwise return a noisy
    sum.
    """

    def run(dataset, size, rng):
        if rng.random() < (share if np.sum(dataset) > 0 else 0.02):
            raise KeyError(f"{rng.random()}")
        return np.sum(dataset) + rng.laplace(0, scale, size)

    return run


def test_causes_of_a_violation_are_judged_apart():
    found = audit(raises_for_one(0.5), trials=2_000)
    judged = {cause.kind: cause.verdict.value for cause in found.causes}
    assert found.verdict.value == "VIOLATED" and judged["exceptions"] == "VIOLATED"
    assert judged["values"] == "NOT_REFUTED", judged
    both = audit(raises_for_one(0.5, scale=0.1), trials=2_000)
    assert {cause.verdict.value for cause in both.causes} == {"VIOLATED"}


@pytest.mark.slow
def test_a_class_of_exceptions_shows_where_no_text_repeats():
    def run(dataset, size, rng):
        if rng.random() < 0.4:
            raise (KeyError if np.sum(dataset) > 0 else OSError)(f"{rng.random()}")
        return rng.laplace(0, 1.0, size)

    found = audit(run, trials=2_000)
    judged = {cause.kind: cause.verdict.value for cause in found.causes}
    assert found.verdict.value == judged["exceptions"] == "VIOLATED", judged


FILE = """
import numpy as np


def raises(dataset, size, rng):
    if rng.random() < (0.999 if np.sum(dataset) > 0 else 0.02):
        raise KeyError(f"{rng.random()}")
    return np.sum(dataset) + rng.laplace(0, 1.0, size)


def sound(dataset, size, rng):
    return np.round(np.sum(dataset) + rng.laplace(0, 4.0, size), 3)
"""
HERE = "--claim pure:1 --d0 [0] --d1 [1]"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "mine.py").write_text(FILE)
    return tmp_path


@pytest.mark.slow
def test_a_report_with_causes_is_read_back(folder):
    code, _, _ = run(*f"audit mine.py:raises {HERE} --trials 2000 --report out".split())
    data = json.loads((folder / "out" / "audit.json").read_text())
    causes = {each["kind"]: each for each in data["results"][0]["causes"]}
    assert code == 1 and causes["exceptions"]["verdict"] == "VIOLATED"
    assert causes["values"]["verdict"] == "INCONCLUSIVE" and causes["values"]["event"] is None
    code, out, err = run("report", "out/audit.json", "--show")
    assert code == 0 and "VIOLATED" in out, err
    causes["exceptions"]["verdict"] = "NOT_REFUTED"
    (folder / "out" / "audit.json").write_text(json.dumps(data))
    code, _, err = run("report", "out/audit.json", "--show")
    assert code == 2 and "damaged or edited" in err


def test_stored_bounds_follow_from_their_counts(folder):
    command = f"audit mine.py:sound {HERE} --trials 2000 --store runs.db"
    assert run(*command.split())[0] == 0 and run("list", "stores", "runs.db")[0] == 0
    with open_store("runs.db") as store:
        entry = store.entries()[0]
        edited = entry.result | {"parameter_lower": entry.result["parameter_lower"] + 0.5}
        change = "UPDATE audits SET result = ? WHERE id = ?"
        store.connection.execute(change, (json.dumps(edited), entry.id))
        store.reseal(entry.id)
    code, _, err = run("list", "stores", "runs.db")
    assert code == 2 and "damaged or edited" in err


# -- calls and slices
# ------------------------------------------------------------------------------------------


def test_a_trace_names_its_pair():
    noisy = noisy_sum(2.0)
    named = dpw.trace(noisy, Pair(np.zeros(1), np.ones(1), why="the first pair"), "pure:1")
    assert "the pair 'the first pair'" in named.headline()
    assert "epsilon = 0.5" in named.headline() and "claimed 1" in named.headline()
    without = dpw.trace(noisy, Pair(np.zeros(1), np.ones(1), why=""), "pure:1")
    assert "this pair" in without.headline()


def test_calls_of_watch_add_up(folder):
    def runs():
        command = f"watch mine.py:sound {HERE} --store w.db --trials 1500 --json"
        code, out, err = run(*command.split())
        assert code == 0, err
        return json.loads(out)[0]["trials"]

    first, second, third = runs(), runs(), runs()
    assert 1_000 < first < second < third


def test_watch_of_a_mechanism_that_fails_has_no_verdict(folder):
    (folder / "mine.py").write_text(
        "def fails(dataset, size, rng):\n    raise RuntimeError('out of order')\n"
    )
    code, out, err = run(*f"watch mine.py:fails {HERE} --store w.db --trials 1500".split())
    assert code == 3 and "out of order" in out + err and "Traceback" not in err


class Full(Executor):
    """An executor whose calls fail."""

    def submit(self, *arguments, **options):
        future = Future()
        future.set_exception(self.error)
        return future


@pytest.mark.parametrize(
    ("kind", "module", "said"),
    [
        ("OSError", "builtins", "no room"),
        ("CommClosedError", "distributed.comm", "the cluster is lost"),
        ("KilledWorker", "distributed.scheduler", "worker processes died"),
        ("ValueError", "distributed.core", "no room"),
        ("CommClosedError", "elsewhere", "no room"),
    ],
)
def test_an_executor_that_fails_is_not_called_a_worker_that_died(kind, module, said):
    executor = Full()
    executor.error = type(kind, (Exception,), {"__module__": module})("no room")
    try:
        text = audit(noisy_sum(2.0), executor=executor).headline()
    except Exception as error:
        text = str(error)
    assert said in text and ("died" in text) == ("died" in said)


def test_a_gross_violation_shows_long_before_the_end():
    found = dpw.audit(m.Laplace(epsilon=5.0), claim="pure:1", trials=200_000, seed=1, stop="never")
    (runs, bound), *_ = found.looks
    assert 1 < bound <= found.parameter_lower and runs < 0.5 * found.trials


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("batch", [64, 1])
def test_a_batch_that_raises_is_run_again_one_by_one(batch):
    def run(dataset, size, rng):
        if size >= batch and rng.random() < 0.5:
            raise ValueError("too large")
        return np.sum(dataset) + rng.laplace(0, 0.2, size)

    found = audit(run, trials=4_000)
    assert found.verdict.value == "VIOLATED" and found.trials <= 4_100


def test_outputs_must_be_a_thousand():
    sides = np.random.default_rng(1).laplace(0.0, 1.0, (2, 999))
    with pytest.raises(InvalidArgument, match="at least 1000"):
        dpw.audit_outputs(*sides, claim="pure:1")


def test_a_report_says_what_was_tested_and_what_was_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "def count(data, size, rng):\n    return data.sum() + rng.laplace(0.0, 1.1, size)\n"
    )
    line = "audit mine.py:count --claim pure:1 --d0 [0] --d1 [1] --trials 3000 --report out"
    code, out, err = run(*line.split())
    text = (tmp_path / "out" / "audit.md").read_text()
    assert code == 0, out + err
    assert "one record is replaced" in text and "the one neighboring pair" in text


def test_canaries_need_a_curve_without_dents():
    rng = np.random.default_rng(1)
    scores = rng.normal(1.0, 1.0, 200), rng.normal(0.0, 1.0, 200)
    convex, dented = "fdp:0=0.8,0.5=0.2,1=0", "fdp:0=0.8,0.4=0.55,0.6=0.1,1=0"
    assert dpw.audit_canaries(*scores, convex).verdict.value in ("VIOLATED", "NOT_REFUTED")
    with pytest.raises(InvalidArgument, match="concave"):
        dpw.audit_canaries(*scores, dented)


def test_signs_of_zeros_that_agree_on_one_side_only_are_found():
    def run(dataset, size, rng):
        first, other = rng.choice([-1.0, 1.0], size), rng.choice([-1.0, 1.0], size)
        second = first if np.sum(dataset) > 0 else other
        return np.copysign(0.0, np.column_stack([first, second]))

    assert audit(run).verdict.value == "VIOLATED"


def test_a_sequential_audit_stops_where_the_violation_is_excluded():
    weak = m.Laplace(epsilon=0.2)
    found = dpw.audit(weak, claim="pure:1", find=3.0, sequential=True, trials=100_000, seed=1)
    assert found.verdict.value == "NOT_REFUTED" and 100 < found.trials < 20_000
    assert found.parameter_lower < 0.2


# -- what survived when the code was changed
# ------------------------------------------------------------------------------------------


def response_curve(epsilon):
    """The curve of randomized response."""
    half = 1 / (1 + math.exp(epsilon))
    return dpw.claims.TradeoffCurve([0, half, 1], [1, half, 0])


def test_a_curve_of_groups_is_the_curve_composed_with_itself():
    response = response_curve(1.0)
    rates = np.array([0.01, 0.1, 0.5, 0.9])
    twice = response.tradeoff(response.tradeoff(rates))
    assert response.group(2).tradeoff(rates) == pytest.approx(twice, rel=1e-9)


@pytest.mark.parametrize(
    ("rates", "proved"),
    [((0.02, 0.02 * math.exp(1.5)), 0.5), ((1 - 0.02 * math.exp(1.2), 0.98), 0.2)],
)
def test_a_curve_states_what_a_test_proves_on_either_side(rates, proved):
    assert response_curve(1.0).parameter_at(*rates) == pytest.approx(math.exp(proved), rel=1e-9)


@pytest.mark.slow
def test_canaries_certify_a_part_of_a_curve_that_is_kept():
    rng = np.random.default_rng(1)
    scores = rng.normal(1.0, 1.0, 2_000), rng.normal(0.0, 1.0, 2_000)
    found = dpw.audit_canaries(*scores, response_curve(3.0))
    assert found.verdict.value == "NOT_REFUTED" and 0.2 < found.parameter_lower < 1
    verdicts = {
        noise: dpw.audit_canaries(*scores, f"dpsgd:1,{noise},1", seed=1).verdict.value
        for noise in (0.5, 2)
    }
    assert verdicts == {0.5: "NOT_REFUTED", 2: "VIOLATED"}


@pytest.mark.parametrize("content", ["", "\n\n", "alpha,beta\n"])
def test_a_curve_file_without_points_is_refused(tmp_path, content):
    (tmp_path / "empty.csv").write_text(content)
    with pytest.raises(InvalidArgument, match=r"empty\.csv"):
        dpw.parse_claim(f"fdp:{tmp_path / 'empty.csv'}")


@pytest.mark.slow_cases("narrows")
@pytest.mark.parametrize(
    ("scales", "direction"),
    [((1.0, 1.3), "from D1 to D0"), ((1.3, 1.0), "from D0 to D1")],
    ids=["widens", "narrows"],
)
def test_a_renyi_rule_says_its_order_and_direction(scales, direction):
    def run(dataset, size, rng):
        return rng.normal(0.0, scales[int(np.sum(dataset))], size)

    found = audit(run, "rdp:2,0.02", trials=200_000, causes=False)
    assert found.verdict.value == "VIOLATED"
    assert "Renyi divergence of order 2" in found.event.describe()
    assert direction in found.event.describe()


LABELLED = {"a": [1, 2], "b": ["x", "y"], "label": [0, 1]}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"label": [0, 0]}, ""),
        ({"label": [0, 0], "b": ["x", "z"]}, "column b differs too"),
        ({"a": [1, 3]}, "column a differs too"),
    ],
)
@pytest.mark.parametrize("form", ["frame", "dicts"])
def test_only_the_label_may_differ(changed, reason, form):
    sides = [pd.DataFrame(LABELLED), pd.DataFrame(LABELLED | changed)]
    if form == "dicts":
        sides = [each.to_dict("records") for each in sides]
    if not reason:
        assert Pair(*sides, "label").relation == "label"
        return
    with pytest.raises(InvalidArgument, match=reason):
        Pair(*sides, "label")


def test_only_the_values_of_a_dict_may_differ():
    first, relation = {"a": 1, "b": 2}, "attribute:columns=value"
    assert Pair(first, {"a": 1, "b": 3}, relation).relation == relation
    with pytest.raises(InvalidArgument, match="column key differs too, only value may"):
        Pair(first, {"a": 1, "c": 2}, relation)


def test_a_result_is_shown_by_its_name_and_headline():
    found = audit(noisy_sum(2.0), name="sum of the ages")
    assert repr(found).startswith("<AuditResult sum of the ages: ")
    assert " ".join(found.headline().split()) in repr(found)
    assert len(repr(audit(noisy_sum(2.0), name="x" * 1_000))) < 600
    long = dpw.trace(noisy_sum(2.0), Pair(np.zeros(1), np.ones(1), why="x" * 1_000), "pure:1")
    assert len(long.headline()) > 1_000 and len(repr(long)) < 600


@pytest.mark.slow
def test_watch_says_what_is_new_and_nothing_more(folder):
    command = f"watch mine.py:sound {HERE} --store w.db --trials 1500"
    code, out, err = run(*command.split())
    assert code == 0 and "new release" not in out + err
    line = next(each for each in out.splitlines() if each.startswith("sound"))
    assert re.search(r"release [0-9a-f]{8}$", line), line
    (folder / "mine.py").write_text(FILE.replace("4.0", "5.0"))
    code, out, err = run(*command.split())
    assert code == 0 and "new release, its evidence starts again" in out + err


def test_a_mean_of_skewed_errors_is_judged_by_their_deviation():
    def run(size, rng):
        return 9.0 - rng.exponential(1.0, size)

    def measured(bound):
        return dpw.audit_utility(run, MeanBound(bound, deviation=1.0), runs=9_000, seed=1)

    assert measured(7.9).verdict.value == "VIOLATED"
    assert measured(7.97).verdict.value == "NOT_REFUTED"  # the lower limit is 7.961


def test_a_witness_of_a_measured_bound_is_replayed(folder, monkeypatch):
    (folder / "mine.py").write_text(
        "import numpy as np\n\n\ndef mean(data):\n    return np.mean(data)\n\n\n"
        "def error(size, rng):\n    return np.abs(rng.laplace(size=size))\n"
    )
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    import mine

    del sys.modules["mine"]  # other tests have files of this name
    too_low = dpw.audit_sensitivity(mine.mean, 0.2, dpw.domains.Records(4), evaluations=200)
    too_small = dpw.audit_utility(mine.error, MeanBound(0.8), runs=9_000, seed=1)
    for name, found in (("sensitivity", too_low), ("utility", too_small)):
        path = folder / f"{name}.json"
        path.write_text(json.dumps(found.witness))
        code, out, err = run("replay", path.name, "--allow", "mine.py")
        assert code == 1 and "VIOLATED" in out, (out, err)


SCRIPT = """
import numpy as np
import dpwitness as dpw

SIZES = []
for size in (2, 3):
    SIZES.append(size)
try:
    import a_module_that_is_not_there as optional
except ImportError:
    optional = None
NOISE = np.random.default_rng().laplace(0, 10, SIZES[0])  # for all runs of the process


def answer(dataset, size, rng):
    return np.full(size, NOISE[int(np.sum(dataset))]) if optional is None else None


if __name__ == "__main__":
    pair = dpw.Pair(np.zeros(1), np.ones(1))
    print(dpw.audit(answer, claim="pure:1", pair=pair, trials=2_000, seed=1).headline())
"""


def test_noise_that_a_script_keeps_is_no_violation(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.stdout.startswith("ERROR"), ran.stdout + ran.stderr


def test_a_zero_with_a_sign_in_some_calls_is_no_dependence():
    """One output with another column in a call, and the form of all outputs of the call changed."""

    class Rounded:
        claim, domain = "pure:1", dpw.domains.Records(1, relation="add-remove")

        def sample(self, dataset, size, rng):
            values = np.sum(dataset) + rng.laplace(0, 1.0, size)
            return np.where(rng.random(size) < 0.004, -0.0, np.rint(1024 * values + 0.25) / 1024)

    for seed in range(6):
        report = dpw.check_mechanism(
            Rounded(), trials=45_500, seed=seed, checks=["check_shapes_do_not_tell"]
        )
        assert not report.failed, report.headline()
