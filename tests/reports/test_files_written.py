"""Files that reports write: never through a link, all of them or none, and never at the price of a
verdict.
"""

import errno
import os
import signal

import pytest

from dpwitness.cli import main
from dpwitness.core.values import atomic_files
from dpwitness.reports import write_report

RESULT = {
    "kind": "black box",
    "name": "leaky",
    "claim": "pure:1",
    "claim_numbers": [1.0],
    "verdict": "NOT_REFUTED",
}
RESULT |= {
    "headline": "NOT REFUTED: no violation of pure:1 found",
    "confidence": 0.99,
    "seed": 1,
    "trials": 1000,
    "notes": [],
}


def written(folder):
    return write_report([RESULT], folder, title="t", plots=False)


def secret(tmp_path):
    found = tmp_path / "secret.txt"
    found.write_text("mine")
    return found


@pytest.mark.parametrize(
    "name", ["audit.json", "audit.md", "audit.html", "audit.sarif", "witness-leaky.json"]
)
@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_the_report_folder_is_refused_before_anything_runs(
    tmp_path, refused, name, there
):
    """Also one that points to nothing; what lies behind the link and what is beside it stay as they
    are.
    """
    goal, folder = secret(tmp_path), tmp_path / "out"
    folder.mkdir()
    (folder / name).symlink_to(goal if there else tmp_path / "nothing")
    err = refused("audit", "nowhere.py:f", "--claim", "pure:1", "--report", str(folder))
    assert name in err and "symbolic link" in err
    assert (
        goal.read_text() == "mine"
        and os.listdir(folder) == [name]
        and not (tmp_path / "nothing").exists()
    )


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "audit.html")


AUDIT = [
    "audit",
    "dpwitness.mechanisms:Laplace",
    "--kwargs",
    '{"epsilon": 1.0}',
    "--d0",
    "[0]",
    "--d1",
    "[1]",
    "--trials",
    "20000",
]


def test_a_full_disk_keeps_the_verdict_and_the_old_report(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "out"
    written(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr("dpwitness.reports.report.write_json", full)
    assert main([*AUDIT, "--report", str(folder)]) == 2
    out, err = capsys.readouterr()
    assert (
        out.startswith("NOT REFUTED")
        and err.count("dpwitness: ") == 1
        and "No space left on device" in err
    )
    assert main(["report", str(folder / "audit.json"), "--no-plots"]) == 2
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and "No space left on device" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", ["report", "compare"])
def test_a_signal_is_named_and_leaves_the_old_files(tmp_path, monkeypatch, capsys, sign, command):
    """The signal comes once the files are written, before the first takes its place."""
    folder = tmp_path / "out"
    written(folder)
    file = str(folder / "audit.json")
    calls = {
        "report": ["report", file, "--format", "md", "--no-plots"],
        "compare": ["compare", file, file, "--report", str(folder)],
    }
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def interrupted(*_, **__):
        os.kill(os.getpid(), sign)
        return before  # not reached

    monkeypatch.setattr(atomic_files, "_rename", interrupted)
    code = main(calls[command])
    monkeypatch.undo()
    err = capsys.readouterr().err
    assert code == (3 if command == "report" else 2) and err.count("\n") == 1 and sign.name in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
