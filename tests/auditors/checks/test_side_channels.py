"""What is not an output of a mechanism is a note of a check, and a failure only for a caller who
asks for it.
"""

import numpy as np
import pytest

from dpwitness import ApproxDP, PureDP, Target, Verdict, check_mechanism, parametrize_with_checks
from dpwitness.auditors.checks.runner import CHECKS
from dpwitness.mechanisms import Records

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


@pytest.mark.slow_cases("coins")
@pytest.mark.parametrize(
    ("mechanism", "trials"),
    [(Rejecting(), 30_000), (Poisson(), 45_500)],
    ids=["rejection", "coins"],
)
def test_a_sound_mechanism_passes_all_checks_without_being_asked(mechanism, trials):
    report = check_mechanism(mechanism, trials=trials)
    assert report.failed == () and report.verdict is Verdict.NOT_REFUTED, report.headline()
    assert [finding.check for finding in report.findings if finding.status == "note"] == DRAWS


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


def test_a_keyword_asks_only_if_it_names_a_check(shell):
    (shell.folder / "mine.py").write_text(CALLS.replace("FACTOR", "1").replace("WASTED", "1"))
    for keyword, status, code in (
        ("not (check_s or check_c or tell or value or few or bits)", "note", 0),
        ("played", "failed", 3),
    ):
        ran = shell.dpwitness("check", "mine.py:mechanism", "-k", keyword, "--trials", "5000")
        (line,) = (
            line
            for line in ran.stdout.splitlines()
            if line.split()[1:2] == ["check_noise_played_back"]
        )
        assert line.split()[0] == status and ran.returncode == code, ran.stdout


@parametrize_with_checks([Rejecting()], trials=2_000)
def test_every_item_of_a_sound_mechanism_passes(mechanism, check):
    check(mechanism)


def test_an_item_of_a_side_channel_is_skipped_with_a_note():
    for expected in ({}, {DRAWS[0]: "rejection"}):
        mark = parametrize_with_checks(
            [Rejecting()], expected_failures=lambda m, expected=expected: expected
        )
        mechanism, check = next(item.values for item in mark.args[1] if item.id.endswith(DRAWS[0]))
        raised = AssertionError if expected else pytest.skip.Exception
        with pytest.raises(raised, match="number of draws, which is not an output"):
            check(mechanism)


def test_side_channels_must_be_a_bool():
    with pytest.raises(ValueError, match="side_channels must be True or False"):
        check_mechanism(Rejecting(), side_channels=1, checks=list(CHECKS)[:1])
