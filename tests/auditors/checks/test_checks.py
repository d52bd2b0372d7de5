"""Each named check fails on a mechanism that has the fault, and passes on one that has not."""

from dataclasses import dataclass

import numpy as np
import pytest

from dpwitness import (
    ApproxDP,
    InvalidArgument,
    Pair,
    PureDP,
    Target,
    Verdict,
    check_mechanism,
    parametrize_with_checks,
)
from dpwitness.auditors.checks.runner import CHECKS
from dpwitness.mechanisms import Laplace, Records

SOUND = Laplace(1.0, arithmetic="grid")


@dataclass(frozen=True)
class Faulty:
    """A Laplace mechanism with one fault."""

    fault: str
    scale: float = 1.0

    claim = PureDP(1.0)
    domain = Records(1)

    def sample(self, dataset, size, rng):
        if self.fault == "own randomness":
            rng = np.random.default_rng()
        if self.fault == "in place":
            dataset[0] = 0.0
        noise = (
            np.full(size, rng.laplace())
            if self.fault == "one draw"
            else rng.laplace(0, 0.7 if self.fault == "scale" else 1.0, size)
        )
        extra = 1 if self.fault == "one more" else 0
        return np.append(np.rint(1024 * (dataset[0] + noise)) / 1024, np.zeros(extra))

    def log_density(self, outputs, dataset):
        log = -np.abs(np.asarray(outputs)[:, 0] - dataset[0])
        return log + (dataset[0] if self.fault == "density" else 0.0)

    def __reduce__(self):
        if self.fault == "pickle":
            raise TypeError("this one stays here")
        return (Faulty, (self.fault, self.scale))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("one more", "check_one_output_per_run"),
        ("own randomness", "check_same_stream_same_output"),
        ("one draw", "check_rounds_are_independent"),
        ("in place", "check_dataset_is_left_alone"),
        ("scale", "check_claim"),
        ("pickle", "check_survives_pickling"),
        ("none", "check_parameters_are_validated"),
    ],
)
def test_fault_is_found(fault, check):
    fresh = Pair(np.array([0.5]), np.array([1.0])) if fault == "in place" else None
    report = check_mechanism(Faulty(fault), pair=fresh)
    assert check in {finding.check for finding in report.failed}
    assert report.verdict in (Verdict.VIOLATED, Verdict.ERROR)
    assert check in report.headline() or len(report.failed) > 1


def test_density_that_does_not_integrate_is_found():
    check, pair = "check_density_agrees_with_sampler", Pair(np.array([1.0]), np.array([0.0]))
    assert check_mechanism(Faulty("density"), pair=pair, checks=[check]).failed


def test_sound_mechanism_passes_everything():
    report = check_mechanism(SOUND)
    assert report.failed == () and report.verdict is Verdict.NOT_REFUTED
    assert {finding.check for finding in report.findings} == set(CHECKS)


def test_expected_failures_must_fail_and_exist():
    check = "check_dataset_is_left_alone"
    unexpected = check_mechanism(SOUND, checks=[check], expected_failures={check: "no reason"})
    assert "the check passes, but" in unexpected.failed[0].reason
    with pytest.raises(InvalidArgument, match="expected_failures must name checks"):
        check_mechanism(SOUND, expected_failures={"check_nothing": ""})
    with pytest.raises(InvalidArgument, match="pair must be given"):
        check_mechanism(lambda d, n, rng: rng.random(n))


@pytest.mark.slow_cases(
    "Laplace-check_claim0",
    "Laplace-check_claim1",
    "Laplace-check_density_agrees_with_sampler1",
    "Laplace-check_noise_played_back0",
    "Laplace-check_noise_played_back1",
    "Laplace-check_special_values_inside0",
    "Laplace-check_special_values_inside1",
    "Laplace-check_low_bits1",
)
@parametrize_with_checks(
    [SOUND, Laplace(1.0)],
    expected_failures=lambda m: {} if m is SOUND else {"check_low_bits": "float noise"},
)
def test_the_decorator_makes_items(mechanism, check):
    check(mechanism)


DRAWS = ["check_draws_do_not_tell"]


class Poisson:
    """DP-SGD step as in textbooks: one coin for each record, the clipped sum of the sample, normal
    noise.
    """

    def __init__(self, relation="add-remove", scalar=False):
        self.domain, self.claim, self.scalar = (
            Records(3, relation=relation),
            ApproxDP(2.5, 1e-3),
            scalar,
        )

    def sample(self, dataset, size, rng):
        def coins():
            return (
                np.array([rng.random() for _ in dataset])
                if self.scalar
                else rng.random(len(dataset))
            )

        values = np.clip(np.nan_to_num(dataset), 0, 1)
        sums = np.array([values[coins() < 0.5].sum() for _ in range(size)])
        return np.rint(1024 * (sums + rng.normal(0, 2.5, size))) / 1024


class Rejecting:
    """Sound mechanism that draws until a number is small, more often on one dataset than on the
    other.
    """

    claim, domain = PureDP(1.0), Records(1)

    def sample(self, dataset, size, rng):
        for _ in range(size):
            while rng.random() > 0.9 - 0.8 * float(np.sum(dataset) > 0.5):
                pass
        return (
            np.rint(
                1024 * (np.clip(np.nan_to_num(dataset), 0, 1).sum() + rng.laplace(0, 1.0, size))
            )
            / 1024
        )


@pytest.mark.parametrize(
    "mechanism",
    [Poisson(), Poisson(scalar=True), Rejecting()],
    ids=["coins", "scalars", "rejection"],
)
def test_a_difference_in_draws_is_a_note_unless_it_is_asked_for(mechanism):
    report = check_mechanism(mechanism, trials=45_500, checks=DRAWS, side_channels=False)
    (finding,) = report.findings
    assert (finding.status, report.verdict, report.failed) == (
        "note",
        Verdict.NOT_REFUTED,
        (),
    ) and "not an output" in finding.reason
    assert "1 note" in report.headline() and report.to_json()["findings"][0]["status"] == "note"
    asked = check_mechanism(mechanism, trials=45_500, checks=DRAWS)
    assert asked.findings[0].status == "failed" and asked.findings[0].reason == finding.reason
    expected = check_mechanism(
        mechanism, trials=45_500, checks=DRAWS, expected_failures={DRAWS[0]: "coins per record"}
    )
    assert expected.findings[0].status == "expected failure"


CALLS = """
import numpy as np
PRIMITIVES = {"add_noise": {"law": "laplace", "input": "value", "scale": "1.0", "sensitivity": "1.0"}}

def add_noise(value, rng):
    return np.rint(1024 * (value + rng.laplace())) / 1024

def one(dataset, rng):
    noisy = add_noise(FACTOR * float(np.clip(dataset, 0, 1).sum()), rng)
    for _ in range(len(dataset) * WASTED):
        add_noise(0.0, rng)
    return noisy

def mechanism(dataset, size, rng):
    return np.array([one(dataset, rng) for _ in range(size)])

mechanism.claim, mechanism.domain = "pure:1", {"kind": "Records", "size": 2, "relation": "add-remove"}
"""


@pytest.mark.parametrize(
    ("factor", "wasted", "statuses"),
    [(1, 0, ["passed"] * 2), (1, 1, ["note", "failed"]), (3, 0, ["failed"] * 2)],
)
def test_noise_calls_whose_number_depends_on_the_data(tmp_path, factor, wasted, statuses):
    (tmp_path / "mine.py").write_text(
        CALLS.replace("FACTOR", str(factor)).replace("WASTED", str(wasted))
    )
    target = Target(str(tmp_path / "mine.py"), "mechanism")
    for asked, status in zip((False, None), statuses, strict=True):
        (finding,) = check_mechanism(
            target, trials=5000, checks=["check_noise_played_back"], side_channels=asked
        ).findings
        assert finding.status == status and ("CALLS" in finding.reason) == bool(wasted), (
            finding.reason
        )


def test_side_channels_must_be_a_bool():
    with pytest.raises(ValueError, match="side_channels must be True or False"):
        check_mechanism(Rejecting(), side_channels=1, checks=list(CHECKS)[:1])
