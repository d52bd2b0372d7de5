"""Tests of existing reports: a run removes witnesses of earlier runs, and does not replace a good
report by an empty one.
"""

import json

import numpy as np
import pytest

from dpwitness import Pair, audit
from dpwitness.reports.audit.report import write_report

TESTS = """
import numpy as np
from dpwitness import Pair

def fine(dataset, size, rng):
    return np.round(1024 * (dataset[0] + rng.laplace(0.0, SCALE, size))) / 1024

def test_fine(dp_audit):
    dp_audit(fine, claim="pure:1", pair=Pair(np.zeros(1), np.ones(1)), trials=20_000)

def test_stop():
    STOP
"""


def _mechanism(scale):
    def mechanism(dataset, size, rng):
        return np.round(1024 * (dataset[0] + rng.laplace(0.0, scale, size))) / 1024

    return mechanism


def test_witness_of_a_report_goes_with_it(tmp_path):
    pair = Pair(np.zeros(1), np.ones(1))
    (tmp_path / "witness-other.json").write_text("{}")
    for scale, there in ((0.4, True), (1.5, False)):
        result = audit(_mechanism(scale), claim="pure:1", pair=pair, trials=20_000)
        write_report([result], tmp_path, title="t")
        assert (tmp_path / "witness-mechanism.json").exists() == there
    assert (tmp_path / "witness-other.json").exists()  # is not of this report
    lying = json.loads((tmp_path / "audit.json").read_text())
    lying["results"][0]["witness_file"] = "../witness-other.json"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "audit.json").write_text(json.dumps(lying))
    write_report([result], tmp_path / "in", title="t")
    assert (tmp_path / "witness-other.json").exists()


@pytest.mark.slow
def test_pytest_reports_that_are_empty_or_broken_off(shell):
    file = shell.folder / "test_them.py"

    def run(scale, stop, *arguments):
        file.write_text(TESTS.replace("SCALE", str(scale)).replace("STOP", stop))
        return shell.pytest("test_them.py", "--dp-report", "out/audit.md", *arguments)

    first = run(1.5, "pass", "--collect-only")
    assert "only collected" in first.stdout and not (shell.folder / "out" / "audit.md").exists()
    run(1.5, "pass")
    good = (shell.folder / "out" / "audit.md").read_text()
    for arguments in (["--collect-only"], ["-k", "stop"]):
        again = run(1.5, "pass", *arguments)
        assert "is unchanged" in again.stdout
        assert (shell.folder / "out" / "audit.md").read_text() == good
    cut = run(1.5, "raise KeyboardInterrupt")
    assert "interrupted: finished audits only" in cut.stdout
    assert (
        "interrupted: finished audits only"
        in (shell.folder / "out" / "audit.md").read_text().splitlines()[0]
    )
