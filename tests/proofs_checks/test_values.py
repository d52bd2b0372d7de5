"""Verdicts and numbers of claims at chosen parameters, against closed forms and earlier analyses."""

import math

import pytest
from scipy.stats import gamma

from dpwitness.proofs_checks.engine import ClaimVerdict, check

HOLDS, TIGHT, FAILS = ClaimVerdict.HOLDS, ClaimVerdict.HOLDS_TIGHT, ClaimVerdict.FAILS
OPEN, PASSED = ClaimVerdict.INCONCLUSIVE, ClaimVerdict.NOT_REFUTED
SOME = ClaimVerdict.UNDERSPECIFIED

VERDICTS = [
    ("CM-06-experiments", {"epsilon": 10.0}, PASSED),
    ("CM-06-line", {"epsilon": 1.0, "n_lambda": 0.11}, FAILS),
    ("CM-06-line", {"epsilon": 1.0, "n_lambda": 10.0}, HOLDS),
    ("CM-06-line-repair", {}, HOLDS),
    ("CM-08-consistency", {"epsilon": 1.0, "dimension": 2.0, "delta": 0.05}, HOLDS),
    ("CM-08-runs", {"quick": True, "dimension": 1}, PASSED),
    ("JK-05", {}, HOLDS),
    ("JK-06-repair", {}, HOLDS),
    ("JK-08", {"quick": True}, FAILS),
    ("JK-08", {"quick": True, "norm_bound": 1.0}, PASSED),
    ("JK-08-potential", {"norm_bound": 0.2, "spread": 11.0}, HOLDS),
    ("JK-09-records", {"quick": True}, PASSED),
    ("JK-09-theorem-3", {"quick": True}, FAILS),
    ("JK-16-repair", {"quick": True}, PASSED),
    ("JK-16-substitution", {}, FAILS),
    ("JK-17-slack", {"rounds": 1.0, "loss": 0.6, "slack": 0.5}, PASSED),
    ("JK-17-slack", {"rounds": 1000.0, "loss": 0.01, "slack": 1e-6}, PASSED),
    ("JK-17-slack", {"rounds": 1000.0, "loss": 0.6, "slack": 1e-9}, PASSED),
    ("JT-05", {"epsilon": 1.0}, PASSED),
    ("JT-05", {"epsilon": 1e12, "constant": 1e4}, FAILS),
    ("JT-07", {"epsilon": 1.0, "delta": 8.9e-5}, FAILS),
    ("JT-07", {"epsilon": 1.0, "delta": 9.1e-5}, HOLDS),
    ("JT-08", {"epsilon": 100.0, "norm": 1.0, "curvature": 0.25}, HOLDS),
    ("JT-09", {"radius": 1.0}, PASSED),
    ("JT-09", {"radius": 1e-12, "constant": 1e6}, FAILS),
    *[
        ("JT-16-limit", {"epsilon": first + change, "delta": delta}, verdict)
        for delta, first in ((0.01, 6.3), (1e-3, 7.0), (1e-5, 8.0), (1e-8, 9.0))
        for change, verdict in ((-0.1, HOLDS), (0.1, FAILS))
    ],
    ("MN-03-bulk", {"epsilon": 1.0, "n_lambda": 0.0, "label_ratio": 1.0}, OPEN),
    ("MN-04", {"records": 1}, FAILS),
    ("MN-05", {"quick": True, "factor": 0.1}, FAILS),
    ("MN-06", {"quick": True, "p": 5, "epsilon": 0.3}, SOME),
    ("ZOO-NOISY-MAX-value", {"epsilon": 1.0, "answers": 3}, FAILS),
    ("ZOO-SVT-no-threshold-noise-cost", {"calls": 5.0}, FAILS),
    ("ZOO-SVT-no-threshold-noise-cost", {"calls": (1.0, 3.999)}, HOLDS),
]
SLOW_VERDICTS = [
    ("CM-06", {"epsilon": 1.0, "n_lambda": (2.001, 1000.0)}, TIGHT),
    ("CM-06", {"epsilon": 1.0, "n_lambda": 1.98}, FAILS),
    ("CM-06-W4", {"epsilon": 2.0, "n_lambda": 2.0}, PASSED),
    ("JK-10-one", {}, FAILS),
    ("JK-10-one", {"rounds": 1.0}, PASSED),
    ("JK-10-one", {"rounds": 100.0, "epsilon": 0.2}, FAILS),
    ("JK-15", {"regularization": 1e-3}, PASSED),
    ("JK-15-weights", {"quick": True, "regularization": 1.0}, PASSED),
]
# lower ends of the relative excess
EXCESSES = [
    ("CM-02", {"epsilon": 1.0}, math.sqrt(2) - 1, {"abs": 1e-12}),
    ("CM-07", {"epsilon": 1.0, "curvature": 1000.0}, math.log(1001) - 1, {"abs": 1e-9}),
    ("CM-07-line", {}, math.sqrt(2) - 1, {"abs": 1e-9}),
    ("CM-08-gamma", {"delta": 0.05}, gamma.sf(2 * math.log(20), 5) / 0.05 - 1, {"abs": 1e-9}),
    *[
        (id, {"quick": True}, share - 1, {"abs": 1e-9})
        for id, share in (
            ("JK-02", 2.0),
            ("JK-02-repair", 1.0),
            ("JK-03", 1.0),
            ("JK-04", 0.5),
            ("JK-04-sharp", 1.0),
        )
    ],
    ("JK-06", {}, 1.0, {"rel": 1e-6}),
    ("JK-13", {"prediction": 0.3, "accuracy": 0.5}, 1.0, {"rel": 1e-6}),
    ("JK-17-approximate", {"rounds": 100.0, "leak": 1e-4, "slack": 1e-6}, 9949.1, {"rel": 1e-4}),
    ("JT-06", {"epsilon": 1.0}, math.log(1.5), {"abs": 1e-12}),
    ("JT-06-logistic", {"epsilon": 1.0}, 0.2013, {"rel": 0.05}),
    (
        "MN-05-outside",
        {"first": 3.0, "second": 20.0},
        (11.5**2 - 9) / (8 * math.log(2)) - 1,
        {"rel": 1e-9},
    ),
]
NUMBERS = [
    ("JK-08", {"quick": True}, "B", 0.277, 1e-3),
    ("JK-09-theorem-3", {"quick": True}, "slope", 0.75, 0.01),
    # in a fixed dimension the noise averages out: faster than the bound
    ("JK-12", {"quick": True}, "slope", -1.0, 0.1),
    ("JK-16", {"quick": True}, "slope", -0.4, 0.1),
    ("JT-08", {"epsilon": 0.3, "norm": 3.0, "curvature": 1.0}, "least_n", 445, 0),
    ("MN-03-W13", {}, "loss over epsilon", 1.1099, 1e-4),
    ("MN-06", {}, "exact price over bound", 1.0, 1e-12),
    ("MN-06", {}, "measured price over bound", 1.0, 0.03),
]


@pytest.mark.parametrize(
    ("id", "settings", "verdict"),
    [*VERDICTS, *(pytest.param(*row, marks=pytest.mark.slow) for row in SLOW_VERDICTS)],
)
def test_verdict(id, settings, verdict):
    assert check(id, **settings).claim_verdict is verdict


@pytest.mark.parametrize(("id", "settings", "excess", "tolerance"), EXCESSES)
def test_relative_excess(id, settings, excess, tolerance):
    assert check(id, **settings).evidence.enclosure.lower == pytest.approx(excess, **tolerance)


@pytest.mark.parametrize(("id", "settings", "name", "value", "tolerance"), NUMBERS)
def test_number(id, settings, name, value, tolerance):
    assert check(id, **settings).evidence.numbers[name] == pytest.approx(value, abs=tolerance)
