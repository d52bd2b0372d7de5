"""Each check of special data fails on a target that has the fault; the commands say
what they find.
"""

import json
import os

import numpy as np
import pytest

from dpwitness import Pair, PureDP, Target, Verdict, check_mechanism, parametrize_with_checks
from dpwitness.auditors.checks.runner import CHECKS
from dpwitness.benchmarks.installation import install, state_of
from dpwitness.commands.listing import TEMPLATE
from dpwitness.mechanisms import Counts, Records, Rows
from dpwitness.mechanisms.wrappers.programs.worker_pool import (
    Environment,
    TargetError,
    environments,
)

ALWAYS_SKIPPED = {
    "check_parameters_are_validated",
    "check_survives_pickling",
    "check_density_agrees_with_sampler",
    "check_huge_counts",
}


def failures(report):
    return {finding.check for finding in report.failed}


@pytest.mark.slow_cases("leaky-check_low_bits-Verdict.VIOLATED")
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


class InProcess:
    """A mechanism with a claim, for checks that need no worker."""

    claim = PureDP(1.0)

    def __init__(self, domain, run):
        self.domain, self.sample = domain, run


def _grid(values):
    return np.round(1024 * values) / 1024


def test_few_records():
    def count(dataset, size, rng):
        if len(dataset) == 0:
            raise ValueError("no data")
        return _grid(len(dataset) + rng.laplace(0, 1, size))

    check = ["check_few_records"]
    added = check_mechanism(
        InProcess(Records(3, relation="add-remove"), count), pair=None, trials=40_000, checks=check
    )
    assert added.verdict is Verdict.VIOLATED and "one record against none" in added.headline()
    assert check_mechanism(InProcess(Records(3), count), trials=40_000, checks=check).failed == ()


def test_rows_out_of_range_are_held_against_the_claim_where_the_domain_admits_them():
    def first_sum(dataset, size, rng):
        return _grid(
            np.clip(np.nan_to_num(dataset[:, 0]), -1e9, 1e9).sum() + rng.laplace(0, 1, size)
        )

    check = ["check_values_outside_domain"]
    admitted = check_mechanism(
        InProcess(Rows(2, ((0.0, 1.0),), outside=True), first_sum), trials=40_000, checks=check
    )
    assert admitted.verdict is Verdict.VIOLATED
    assert (
        check_mechanism(
            InProcess(Rows(2, ((0.0, 1.0),)), first_sum), trials=40_000, checks=check
        ).failed
        == ()
    )


def test_counts_that_lose_their_noise():
    def floats(dataset, size, rng):
        return (dataset[0].astype(float) + np.rint(rng.laplace(0, 1, size))).astype(np.int64)

    def whole(dataset, size, rng):
        return dataset[0] + np.rint(rng.laplace(0, 1, size)).astype(np.int64)

    check = ["check_huge_counts"]
    lost = check_mechanism(InProcess(Counts(1), floats), trials=40_000, checks=check)
    assert lost.verdict is Verdict.ERROR and "published without noise" in lost.headline()
    assert check_mechanism(InProcess(Counts(1), whole), trials=40_000, checks=check).failed == ()


def test_an_exception_within_the_claim_is_no_failure():
    """P(raise) = 0.2 and 0.4: a factor 2 < e in either direction."""

    def sometimes(dataset, size, rng):
        if rng.random() < 0.2 * (1 + dataset[0]):
            raise ValueError("unlucky")
        return np.zeros(size)

    pair = Pair(np.zeros(1), np.ones(1))
    mechanism = InProcess(Records(1), sometimes)
    assert (
        check_mechanism(
            mechanism, pair=pair, trials=40_000, checks=["check_exceptions_do_not_tell"]
        ).failed
        == ()
    )


def test_the_decorator_takes_expected_failures_from_the_file(file, tmp_path):
    path = tmp_path / "template.py"
    path.write_text(TEMPLATE + 'noisy_sum.expected_failures = {"check_low_bits": "no reason"}\n')
    mark = parametrize_with_checks(
        [Target(str(path), "noisy_sum"), Target(str(tmp_path / "gone.py"), "f")], trials=20_000
    )
    by_id = {item.id: item for item in mark.args[1]}
    assert [m.name for m in by_id["template:noisy_sum-check_low_bits"].marks] == ["xfail"]
    assert by_id["template:noisy_sum-check_claim"].marks == []
    with pytest.raises(TargetError, match="existing file"):  # no library that is missing: it fails
        next(item for name, item in by_id.items() if name.startswith("gone")).values[1](
            Target(str(tmp_path / "gone.py"), "f")
        )
    mechanism, check = by_id["template:noisy_sum-check_one_output_per_run"].values
    check(mechanism)


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
    assert every.returncode == 2 and "bad: two:bad: claim must be finite" in every.stdout, (
        every.stdout
    )
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


@pytest.mark.slow
def test_environments_are_made_and_a_failure_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("DPWITNESS_HOME", str(tmp_path))
    said: list[str] = []
    empty = Environment("empty")
    assert state_of(empty) == "missing"
    install(empty, said.append)
    assert state_of(empty) == "ready" and "-m venv" in said[0] and "ready in" in said[-1]
    assert state_of(Environment("empty", requirements=("thing==1",))) == "outdated"
    broken = Environment("broken", no_deps=(str(tmp_path / "no-such-wheel.whl"),))
    with pytest.raises(
        ValueError, match=r"environment broken cannot be made: .*no-such-wheel.* ended with 1"
    ):
        install(broken, said.append)
    assert state_of(broken) == "unfinished"


@pytest.mark.skipif(os.name == "nt", reason="the interpreters are shell scripts")
def test_an_interpreter_that_does_not_run_is_passed_over(tmp_path, monkeypatch):
    """A shim of pyenv for a version that is not active is on the PATH, but only fails."""
    shim, real = (
        tmp_path / "shims" / "python9.9",
        tmp_path / "pyenv" / "versions" / "9.9.1" / "bin" / "python",
    )
    for file, code in ((shim, 127), (real, 0)):
        file.parent.mkdir(parents=True)
        file.write_text(f"#!/bin/sh\nexit {code}\n")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("DPWITNESS_HOME", str(tmp_path / "home"))
    said: list[str] = []
    install(Environment("old", python="9.9"), said.append)
    assert said[0].startswith(f"old: {real} -m venv")
    monkeypatch.delenv("PYENV_ROOT")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(
        ValueError, match=r"needs python9\.9 on the PATH, which is not installed or does not run"
    ):
        install(Environment("older", python="9.9"), said.append)
