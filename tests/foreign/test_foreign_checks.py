"""Each check of special data fails on a target that has the fault; the commands say
what they find.
"""

import json

import pytest

from dpwitness import Target, Verdict, check_mechanism
from dpwitness.auditors.checks.runner import CHECKS
from dpwitness.commands.listing import TEMPLATE
from dpwitness.mechanisms.wrappers.programs.environments import environments

ALWAYS_SKIPPED = {
    "check_parameters_are_validated",
    "check_survives_pickling",
    "check_density_agrees_with_sampler",
    "check_huge_counts",
}


def failures(report):
    return {finding.check for finding in report.failed}


@pytest.mark.slow_cases(
    "leaky-check_low_bits-Verdict.VIOLATED", "ones-check_special_values_inside-Verdict.VIOLATED"
)
@pytest.mark.parametrize(
    ("name", "check", "verdict"),
    [
        ("raises_on_one", "check_exceptions_do_not_tell", Verdict.VIOLATED),
        ("shape_tells", "check_shapes_do_not_tell", Verdict.VIOLATED),
        ("draws_tell", "check_draws_do_not_tell", Verdict.VIOLATED),
        ("remembers", "check_other_data_leave_no_trace", Verdict.ERROR),
        ("nan_passes", "check_values_outside_domain", Verdict.ERROR),
        ("ones", "check_special_values_inside", Verdict.VIOLATED),
        ("changes_its_data", "check_dataset_is_left_alone", Verdict.ERROR),
        ("leaky", "check_low_bits", Verdict.VIOLATED),
    ],
)
def test_fault_is_found(file, foreign, name, check, verdict):
    report = check_mechanism(Target(file, name, foreign), trials=20_000, checks=[check])
    assert failures(report) == {check} and report.verdict is verdict, report.headline()


def test_a_sound_target_passes_everything(file, foreign):
    """False-failure probability below 1e-8: each check errs with 1e-9 or less."""
    report = check_mechanism(Target(file, "grid", foreign), trials=50_000)
    assert failures(report) == set(), report.headline()
    assert {f.check for f in report.findings if f.status == "skipped"} == ALWAYS_SKIPPED
    assert {f.check for f in report.findings} == set(CHECKS)


def test_a_library_without_seeds_skips_with_that_reason(file):
    report = check_mechanism(
        Target(file, "unseeded"),
        trials=20_000,
        checks=["check_same_stream_same_output", "check_draws_do_not_tell"],
    )
    assert [(f.status, f.reason) for f in report.findings] == [
        ("skipped", "the library cannot be seeded")
    ] * 2


def test_check_exits_by_what_it_found(shell, file, foreign):
    found = shell.dpwitness(
        "check",
        f"{file}:raises_on_one",
        "--python",
        foreign,
        "--trials",
        "5000",
        "-k",
        "exceptions or trace",
        "--json",
    )
    assert found.returncode == 1
    (report,) = json.loads(found.stdout)
    assert {f["check"]: f["status"] for f in report["findings"]} == {
        "check_exceptions_do_not_tell": "failed",
        "check_other_data_leave_no_trace": "passed",
    }
    assert shell.dpwitness("check", f"{file}:crashes", "-k", "one_output").returncode == 3
    assert shell.dpwitness("check", f"{file}:nothing").returncode == 2


def test_targets_that_cannot_be_checked_are_told_and_the_others_are_checked(shell):
    text = TEMPLATE + "def bad(d, n, r): return r.random(n)\nbad.claim = 'pure:inf'\n"
    (shell.folder / "two.py").write_text(text + "again = noisy_sum\n")
    every = shell.dpwitness("check", "two.py", "-k", "one_output")
    assert (
        every.returncode == 2
        and "bad: two:bad: PureDP: epsilon must be positive and finite" in every.stdout
    ), every.stdout
    assert "two:noisy_sum: 1 passed" in every.stdout and "two:again: 1 passed" in every.stdout


def test_targets_are_listed_with_their_state(shell, tmp_path):
    listed = shell.dpwitness("targets", "--json", DPWITNESS_HOME=tmp_path / "home")
    rows = {row["name"]: row for row in json.loads(listed.stdout)}
    assert set(rows) == set(environments()) and {row["state"] for row in rows.values()} == {
        "missing"
    }
    assert shell.dpwitness("targets", DPWITNESS_HOME=tmp_path / "home").returncode == 0
    refused = shell.dpwitness("targets", "setup", "no-such-library")
    assert refused.returncode == 2 and "diffprivlib" in refused.stderr
