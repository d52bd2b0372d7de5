"""Files that reports write: never through a link, all of them or none, and never at the price of a
verdict.
"""

import errno
import os
import signal

import pytest

from dpwitness.cli import main
from dpwitness.core.values import atomic_files
from dpwitness.core.values.atomic_files import atomic_folder, write_text
from dpwitness.reports import write_report
from dpwitness.reports.audit.document import build_document
from dpwitness.reports.formats.markdown_formats import append_summary
from dpwitness.reports.plots.album import PLOTS, Plot

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


def test_a_link_that_appears_later_is_refused_and_no_file_is_replaced(tmp_path):
    goal, folder = secret(tmp_path), tmp_path / "out"
    written(folder)
    before = (folder / "audit.json").read_bytes()
    with (  # noqa: PT012
        pytest.raises(ValueError, match=r"z\.svg' is a symbolic link"),
        atomic_folder(folder) as draft,
    ):
        write_text(draft / "audit.json", "new")
        write_text(draft / "z.svg", "new")
        (folder / "z.svg").symlink_to(goal)
    assert goal.read_text() == "mine" and (folder / "audit.json").read_bytes() == before
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


@pytest.mark.parametrize(
    "make",
    [lambda p: p.write_text("file"), lambda p: p.symlink_to(p.parent / "nothing"), os.mkfifo],
)
def test_a_report_folder_that_is_not_a_folder_is_one_line(tmp_path, refused, make):
    make(tmp_path / "out")
    assert "report folder must be writable" in refused(
        "audit", "nowhere.py:f", "--claim", "pure:1", "--report", str(tmp_path / "out")
    )
    assert not (tmp_path / "nothing").exists()


def test_a_report_through_a_link_is_refused_beside_the_link_and_works_elsewhere(tmp_path, refused):
    written(tmp_path / "out")
    (tmp_path / "run.json").symlink_to(tmp_path / "out" / "audit.json")
    assert "symbolic link" in refused(
        "report", str(tmp_path / "run.json"), "--format", "md", "--no-plots"
    )
    assert (
        main(
            [
                "report",
                str(tmp_path / "run.json"),
                "--format",
                "md",
                "--no-plots",
                "--report",
                str(tmp_path / "new"),
            ]
        )
        == 0
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
    monkeypatch.setattr("dpwitness.reports.audit.report.write_json", full)
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


@pytest.mark.parametrize("error", [full, lambda *_: 1 / 0])
def test_a_format_that_fails_costs_no_evidence(tmp_path, monkeypatch, capsys, error):
    folder = tmp_path / "out"
    written(folder)
    monkeypatch.setattr("dpwitness.reports.formats.html_format.html", error)
    assert main([*AUDIT, "--claim", "pure:0.1", "--report", str(folder)]) == 1
    out, err = capsys.readouterr()
    assert (
        f"replay {folder / 'witness-laplace.json'}" in out
        and f"report     {folder / 'audit.json'}" in out
    )
    assert err.count("dpwitness: ") == 1 and "not written: audit.html (" in err
    assert "Laplace" in (folder / "audit.md").read_text() and (folder / "audit.sarif").exists()
    assert not (folder / "audit.html").exists()  # the page of the old report
    assert main(["report", str(folder / "audit.json"), "--format", "html"]) == 2
    assert "audit.html" in capsys.readouterr().err


def test_a_plot_that_fails_is_replaced_by_its_error(tmp_path, monkeypatch):
    def fails(axes, result):
        raise ValueError("zero-size array to reduction operation maximum")

    monkeypatch.setitem(PLOTS, "search", Plot("Search", lambda result: True, fails))
    write_report([RESULT], tmp_path, title="t")
    assert (
        "could not be drawn: ValueError: zero-size array"
        in next(tmp_path.glob("search-*.svg")).read_text()
    )


def test_a_full_disk_leaves_no_half_of_a_summary(tmp_path, monkeypatch):
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    real = type(page).open

    def half(self, *arguments, **more):
        file = real(self, *arguments, **more)

        class Half:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                file.close()

            def write(self, text):
                file.write(text[:10])
                full()

        return Half()

    monkeypatch.setattr(type(page), "open", half)
    with pytest.raises(OSError, match="No space"):
        append_summary(build_document([RESULT], title="t"), page)
    monkeypatch.undo()
    assert page.read_text() == "before\n"


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


def test_an_interrupt_between_two_files_waits_for_the_last(tmp_path, monkeypatch):
    folder, replace, seen = tmp_path / "out", os.replace, []
    folder.mkdir()

    def interrupting(file, place):
        replace(file, place)
        seen.append(place)
        # the third is the first of the two moves: each file is itself written aside
        if len(seen) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(atomic_files.os, "replace", interrupting)
    with pytest.raises(KeyboardInterrupt), atomic_folder(folder) as draft:  # noqa: PT012
        write_text(draft / "a", "new")
        write_text(draft / "b", "new")
    assert sorted(os.listdir(folder)) == ["a", "b"]
