"""Completion of a command line by the shell."""

import sys

import pytest


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("dpwitness au", {"audit"}),
        ("dpwitness audit mine.py:noisy --tri", {"--trials"}),
        ("dpwitness audit --stop ", {"gross", "violation", "never"}),
    ],
)
def test_a_line_is_completed(shell, line, words):
    answer = shell.folder / "words"
    answer.touch()
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    ran = shell.run(sys.executable, "-m", "dpwitness", **asked)
    assert ran.returncode == 0, ran.stderr
    assert set(answer.read_text().split()) == words
