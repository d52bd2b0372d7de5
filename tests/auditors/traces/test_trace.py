"""The trace: every fault that it must find beside its twin, exact losses, what is put back, and
what it refuses.
"""

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.auditors.traces.calls import permute_and_flip
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.textbook.zoo import zoo
from dpwitness.mechanisms.wrappers.programs.target import Target

sys.path.insert(0, str(Path(__file__).parent))
import traced
from traced import PAIR, kinds

CONFIRMED = {
    "fewer_calls",
    "nan_input",
    "second_of_two",
    "raw_added",
    "weak_noise",
    "add_remove_sensitivity",
    "iterations",
}
CONFIRMED |= {"clipped_late", "inferred_bound", "raises_on_one", "charges_the_largest"}


@pytest.mark.slow
@pytest.mark.parametrize("name", traced.FAULTS)
def test_a_fault_is_found_in_few_runs_and_certified_where_outputs_show_it(name):
    run, expected = traced.FAULTS[name]
    result = dpw.trace(
        traced.many(run, name), PAIR, "pure:1", traced.PRIMITIVES, confidence=1 - 1e-9
    )
    assert kinds(result) & expected and result.runs <= 50
    if name in CONFIRMED:
        assert (
            result.verdict is dpw.Verdict.VIOLATED
            and result.epsilon_lower > 1
            and result.witness["pair"] == PAIR.to_json()
        )
    assert (result.verdict is dpw.Verdict.VIOLATED) == (
        result.audit is not None and result.audit.verdict is dpw.Verdict.VIOLATED
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["right", *traced.TWINS])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_twin_without_the_fault_raises_no_alarm(name, seed):
    twin = traced.right if name == "right" else traced.many(traced.TWINS[name], name)
    result = dpw.trace(twin, PAIR, "pure:1", traced.PRIMITIVES, seed=seed)
    assert (
        result.verdict is dpw.Verdict.NOT_REFUTED and result.findings == () and result.audit is None
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        n
        for n, m in zoo().items()
        if m.truth is not None and m.truth.parameter <= m.claim.parameter * 1.0001
    ],
)
def test_right_mechanisms_of_the_zoo_raise_no_alarm(name):
    mechanism = zoo()[name]
    assert dpw.trace(mechanism, mechanism.worst_pair()).findings == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["gaussian-0.8", "prefix-sums-uncalibrated", "histogram-one-count", "histogram-wrong-scale"],
)
def test_wrong_scales_of_the_zoo_are_found_through_its_kernels(name):
    """Draws in compiled kernels are seen: the kernels run as the Python that they were
    written in.
    """
    mechanism = zoo()[name]
    result = dpw.trace(mechanism, mechanism.worst_pair(), confirm=False)
    assert kinds(result) == {"LOSS"} and result.loss == pytest.approx(
        mechanism.truth.parameter, rel=2e-3
    )


def bins(data, size, rng):
    return np.histogram(data, bins=2000, range=(0, 1))[0] + rng.laplace(0.0, 2.0, (size, 2000))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "claim", "loss"),
    [
        (lambda d, n, r: d.sum() + r.laplace(0, 1, n) + 100 * d[0], "pure:1", 101.0),
        (lambda d, n, r: r.laplace(d.sum(), 0.5, n), "pure:2", 2.0),
        (lambda d, n, r: (d.sum() + r.normal(0, 1.0, n)) / 4, "gdp:1", 1.0),
        (
            lambda d, n, r: d.sum() + r.normal(0, 1, n) + r.normal(0, 1, n),
            "gdp:1",
            1 / math.sqrt(2),
        ),
        (lambda d, n, r: d.sum() + r.normal(0, 2, n), "zcdp:1", 0.125),
        (lambda d, n, r: d.sum() + r.normal(0, 2, n), "rdp:4,1", 0.5),
        (
            lambda d, n, r: (d > 0.9).sum() + r.geometric(0.5, n) - r.geometric(0.5, n),
            "pure:1",
            math.log(2),
        ),
        (lambda d, n, r: np.round(d.sum() + r.laplace(0, 1, n), 1), "pure:1", 1.0),
        (bins, "pure:1", 1.0),
    ],
)
def test_the_loss_of_plain_numpy_is_exact(run, claim, loss):
    """Noise that is added to the data later: how far it has to move is found from runs."""
    result = dpw.trace(run, PAIR, claim, confirm=False)
    assert result.loss == pytest.approx(loss, rel=1e-6)
    assert any(call.aligned or call.distance > 0 for call in result.calls)


@pytest.mark.parametrize("utilities", [(0.0, 0.0), (3.0, 1.0, 2.0), (0.0, -1.0, -1.0, -5.0)])
def test_permute_and_flip_by_enumeration(utilities):
    coins, total = np.exp(np.array(utilities) - max(utilities)), np.zeros(len(utilities))
    orders = list(itertools.permutations(range(len(utilities))))
    for order in orders:
        left = 1.0
        for i in order:
            total[i] += left * coins[i] / len(orders)
            left *= 1 - coins[i]
    assert permute_and_flip(np.array(utilities)) == pytest.approx(total, abs=1e-12)


def test_composition_at_delta_is_below_the_sum_and_above_the_best():
    def twenty(data, size, rng):
        return rng.laplace(np.full((size, 20), 0.1 * data[0]), 1.0)

    pure, exact = (
        dpw.trace(twenty, PAIR, claim, confirm=False).loss for claim in ("pure:1", "approx:1,1e-3")
    )
    assert pure == pytest.approx(2.0)
    assert 0.5 < exact < 1.9


def unseen_draw(data, size, rng):
    return [
        traced.laplace_mechanism(
            data.sum() + traced._cached.random_raw() % 1_000_003, 1.0, 1.0, rng
        )
        for _ in range(size)
    ]


def test_unseen_randomness_that_only_an_input_shows_is_found():
    """The recorded output hides it: the same dataset must give the same inputs too."""
    result = dpw.trace(unseen_draw, PAIR, "pure:1", traced.PRIMITIVES, confirm=False)
    assert kinds(result) == {"SOURCE"} and "a PCG64 kept as '_cached'" in str(result.findings[0])


def test_two_primitives_that_wrap_one_another_are_counted_once():
    def outer(value, rng):
        return traced.laplace_mechanism(value, 1.0, 1.0, rng)

    traced.outer = outer
    outer.__module__, outer.__qualname__ = "traced", "outer"

    def run(data, size, rng):
        return [traced.outer(float(data[0]), rng) for _ in range(size)]

    both = {
        **traced.PRIMITIVES,
        "traced.outer": {"law": "laplace", "input": "value", "scale": "1.0"},
    }
    result = dpw.trace(run, PAIR, "pure:1", both, confirm=False)
    assert [(call.primitive, call.times, call.epsilon) for call in result.calls] == [
        ("traced.outer", 1, 1.0)
    ]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("pair", [None, 3, []]),
        ("claim", [None, "pure"]),
        ("pairs", [0]),
        ("time_limit", [0]),
        ("seed", [-1]),
        ("trials", [3, 0]),
    ],
)
def test_arguments_that_cannot_be(name, values):
    for value in values:
        with pytest.raises(InvalidArgument):
            dpw.trace(traced.right, **{"pair": PAIR, "claim": "pure:1"} | {name: value})


TARGET = """
import numpy as np

def add_noise(value, sensitivity, epsilon, rng):
    return value + rng.laplace(0, sensitivity / epsilon)

PRIMITIVES = {"add_noise": {"law": "laplace", "input": "value", "scale": "sensitivity / epsilon", "sensitivity": "sensitivity"}}

def mean(dataset, size, rng):
    present = dataset[dataset > 0]
    return np.array([add_noise(present.mean() if len(present) else 0.0, 1 / len(dataset), 1.0, rng) for _ in range(size)])

mean.claim = "pure:1"
mean.domain = {"kind": "Records", "size": 5, "low": 0.0, "high": 1.0}

def total(dataset, size, rng):
    return np.array([add_noise(dataset.sum(), 1.0, 1.0, rng) for _ in range(size)])

total.claim, total.domain = mean.claim, mean.domain
"""


@pytest.mark.slow
def test_a_target_file_in_its_own_interpreter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(TARGET)
    wrong, right = (dpw.trace(Target("mine.py", name)) for name in ("mean", "total"))
    assert wrong.verdict is dpw.Verdict.VIOLATED and kinds(wrong) == {"SENSITIVITY", "LOSS"}
    assert wrong.calls[0].declared == pytest.approx(0.2) and wrong.calls[0].where.startswith(
        "mine.py:"
    )
    assert right.verdict is dpw.Verdict.NOT_REFUTED and right.loss == pytest.approx(1.0)


@pytest.mark.parametrize(("name", "status"), [("mean", "failed"), ("total", "passed")])
def test_the_check_fails_and_passes(tmp_path, name, status):
    (tmp_path / "mine.py").write_text(TARGET)
    (finding,) = dpw.check_mechanism(
        Target(str(tmp_path / "mine.py"), name), checks=["check_noise_played_back"]
    ).findings
    assert finding.status == status and ("SENSITIVITY" in finding.reason) == (name == "mean")
