"""Tests of exit codes: a failed output does not change the code of a violation, and no error gives
code 1 or a traceback.
"""

import os
import subprocess
import sys

import pytest

from dpwitness.cli import main
from dpwitness.terminal import guarded

PAIR = ["--d0", "[0]", "--d1", "[1]"]
LEAKY = ["audit", "mine.py:leaky", "--claim", "pure:0.5", *PAIR, "--trials", "2e4"]
FINE = ["audit", "mine.py:fine", "--claim", "pure:3", *PAIR, "--trials", "2e4"]


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def _code(shell, arguments, redirection):
    """Run a command under a shell's redirection and return its exit code and standard error."""
    command = f'"$@" 2>err {redirection}'
    done = subprocess.run(
        ["bash", "-c", command, "-", sys.executable, "-m", "dpwitness", *arguments],
        cwd=shell.folder,
        env=shell.environment(),
        timeout=120,
    )
    return done.returncode, _beside((shell.folder / "err").read_text())


def _beside(err):
    """Return standard error without the line on the expected duration."""
    return "".join(
        line for line in err.splitlines(keepends=True) if not line.endswith(" expected\n")
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "redirection", "expected"),
    [
        (LEAKY, ">/dev/full", (1, "No space left on device")),
        (FINE, ">/dev/full", (2, "No space left on device")),
        (LEAKY, ">&-", (1, "")),
        (FINE, ">&- <&-", (0, "")),
        (LEAKY, "| head -0; exit ${PIPESTATUS[0]}", (1, "")),
        (["--version"], "| head -0; exit ${PIPESTATUS[0]}", (0, "")),
        (["--help"], "| head -0; exit ${PIPESTATUS[0]}", (0, "")),
        (["--help"], ">/dev/full", (0, "")),
        ([*LEAKY, "--json"], "| head -1; exit ${PIPESTATUS[0]}", (1, "")),
    ],
)
def test_output_that_cannot_be_written_leaves_the_verdict_in_the_exit_code(
    shell, arguments, redirection, expected
):
    code, err = _code(shell, arguments, redirection)
    assert code == expected[0]
    assert expected[1] in err and err.count("\n") == bool(expected[1])


@pytest.mark.slow_cases("arguments0-1")
@pytest.mark.parametrize(("arguments", "code"), [(LEAKY, 1), (FINE, 2)])
def test_a_report_that_cannot_be_written_does_not_take_the_verdict_along(
    shell, monkeypatch, capsys, arguments, code
):
    (shell.folder / "out" / "audit.md").mkdir(parents=True)
    monkeypatch.chdir(shell.folder)
    assert main([*arguments, "--report", "out"]) == code
    out, err = capsys.readouterr()
    assert out.startswith("VIOLATED" if code == 1 else "NOT REFUTED")
    assert (
        _beside(err).count("\n") == 1 and "report could not be written" in err and "audit.md" in err
    )


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (RuntimeError("out of order"), 3, "RuntimeError: out of order"),
        (Mute(), 3, "Mute: <its text raises>"),
        (RecursionError("too deep"), 3, "RecursionError"),
        (SystemExit(0), 3, "SystemExit: 0"),
        (GeneratorExit(), 3, "GeneratorExit"),
        (MemoryError(), 3, "MemoryError"),
        (OSError(28, "No space left on device", "x.md"), 2, "'x.md'"),
        (KeyboardInterrupt(), 3, "interrupted"),
        (ValueError("a\x1b[31m\nb"), 3, "a\\x1b[31m b"),
    ],
)
def test_whatever_is_raised_ends_in_one_line_and_never_with_1(
    capsys, monkeypatch, error, code, told
):
    def run():
        raise error

    monkeypatch.delenv("DPWITNESS_TRACEBACK", raising=False)
    assert guarded("audit", run) == code
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1) and told in err
    monkeypatch.setenv("DPWITNESS_TRACEBACK", "1")
    guarded("audit", run)
    assert ("Traceback" in capsys.readouterr().err) == (not isinstance(error, KeyboardInterrupt))


@pytest.mark.parametrize(
    "arguments",
    [
        *(["audit", "mine.py:fine", "--time-limit", value] for value in ("1e18", "nan")),
        *(["audit", "mine.py:fine", "--trials", value] for value in ("1e5000000", "inf", "sNaN")),
        *(["audit", "mine.py:fine", "--memory", value] for value in ("-1", "nan", "inf")),
        *(["audit", "mine.py:fine", "--search-seconds", value] for value in ("-2", "2")),
        ["audit", "mine.py:fine", "--workers", "1e18"],
        ["audit", "mine.py:fine", "--confidence", "nan"],
        ["audit", "mine.py:fine", "--claim", "pure:1", "--d0", "\udcff", "--d1", "[1]"],
        ["audit", "mine.py:fine", "--claim", "pure:1", "--d0", '["\\ud800"]', "--d1", '["a"]'],
        ["audit", "mine.py:fine", "--claim", "pure:1", "--d0", "[" * 100_000, "--d1", "[1]"],
        ["audit", "\udcff.py:fine", "--claim", "pure:1", *PAIR],
        ["check", "mine.py", "--trials", "10"],
        ["check", "mine.py", "--time-limit", "0"],
        ["claims", "check", "all", "--seconds", "nan"],
        ["claims", "check", "all", "--seed", "-1"],
        ["replay", "\udcff.json"],
    ],
)
def test_options_out_of_bounds_are_one_line_and_exit_code_2(shell, monkeypatch, refused, arguments):
    monkeypatch.chdir(shell.folder)
    assert len(refused(*arguments)) < 400


INTERRUPTED = """
import os, signal, sys

class Hook:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Hook())
sys.argv = ["dpwitness", "--version"]
from dpwitness.cli import main
main()
"""


@pytest.mark.parametrize("name", ["lazy_loader", "dpwitness.cli", "dpwitness.commands.table"])
def test_ctrl_c_during_the_imports_of_a_command_is_one_line(shell, name):
    ran = shell.run(sys.executable, "-c", INTERRUPTED.format(name=name))
    assert (
        ran.returncode == 3
        and ran.stderr.startswith("dpwitness: interrupted by SIGINT")
        and ran.stderr.count("\n") == 1
    )


@pytest.mark.parametrize(
    "word", ["\uff12\uff10\uff10\uff10", "2_000", "+2000", " 2000", "2\u0660\u0660\u0660"]
)
def test_numbers_in_other_spellings_are_refused(refused, word):
    assert "must be a whole number" in refused("audit", "mine.py:fine", "--trials", word)
    assert "must be a number" in refused("audit", "mine.py:fine", "--time-limit", word)
    assert "claim" in refused("canaries", "scores.csv", "--claim", f"pure:{word}")


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda file: file.symlink_to("/dev/null")], ids=["pipe", "device"]
)
def test_a_store_that_is_no_regular_file_is_refused(shell, monkeypatch, refused, make):
    monkeypatch.chdir(shell.folder)
    make(shell.folder / "run.db")
    assert "store must be a regular file" in refused(*FINE, "--store", "run.db")
