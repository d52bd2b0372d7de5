"""Tests of colors and of line breaks on a terminal.

Only verdicts are colored, only if colors are requested, and audited code cannot print color codes.
"""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from dpwitness.cli import main
from dpwitness.terminal import CODES

MARKS = "".join(map(chr, CODES))
HOSTILE = f"\x1b[31mred\x9b1m{MARKS}"
SHOWN = "\\x1b[31mred\\x9b1m\\uf8cf\\uf8d0"
CODE = re.compile(r"\x1b\[[0-9;]*m")
PAIR = ["--d0", "[0]", "--d1", "[1]", "--claim", "pure:1", "--trials", "2e4"]
TARGETS = f"""
import sys

HOSTILE = {HOSTILE!r}

def texts(dataset, size, rng):
    print(HOSTILE, "VIOLATED")
    print(HOSTILE, file=sys.stderr)
    return [HOSTILE if draw < 0.1 + 0.8 * float(sum(dataset)) else "no" for draw in rng.random(size)]

def raises(dataset, size, rng):
    raise RuntimeError(HOSTILE)

raises.claim = "pure:1"
raises.domain = {{"kind": "Records", "size": 3, "low": 0.0, "high": 1.0, "relation": "replace-one"}}
"""


@pytest.fixture
def ran(tmp_path, monkeypatch, capsys):
    """Run a command in the folder of `TARGETS` and return its exit code, standard output and
    standard error.
    """
    (tmp_path / "theirs.py").write_text(TARGETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(*arguments):
        code = main(list(arguments))
        return code, *capsys.readouterr()

    return run


def _only_own_codes(text):
    found = CODE.findall(text)
    return (
        text.count("\x1b") == len(found)
        and set(found) <= set(CODES.values())
        and not set(text) & {"\x9b", *MARKS}
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "colored"),
    [
        (
            ["audit", "theirs.py:texts", "--in-process", *PAIR],
            1,
            "\x1b[1;31mVIOLATED\x1b[0m: epsilon",
        ),
        (["audit", "theirs.py:raises", *PAIR], 3, "\x1b[33mERROR\x1b[0m: mechanism"),
        (
            ["check", "theirs.py:raises", "-k", "claim", "--trials", "2e4"],
            3,
            "  \x1b[33mfailed\x1b[0m            ",
        ),
        (
            ["suite", "zoo", "-k", "svt5", "--trials", "2e4"],
            0,
            "svt5  \x1b[1;31mVIOLATED\x1b[0m      eps",
        ),
        (["trace", "theirs.py:raises", *PAIR[:6]], 3, "\x1b[33mINCONCLUSIVE\x1b[0m: "),
    ],
)
def test_colours_change_no_word_and_nobody_else_chooses_one(ran, arguments, code, colored):
    always, never = (ran(*arguments, "--color", when) for when in ("always", "never"))
    assert always[0] == never[0] == code
    # a suite says how long it took
    out, without = (
        re.sub(r" +\d+(\.\d+)? (CPU )?s\b *", " s ", found[1]) for found in (always, never)
    )
    assert colored in out and _only_own_codes(out) and CODE.sub("", out) == without
    assert "\x1b" not in without and not set(without) & set(MARKS)
    assert "theirs.py" not in arguments[1] or SHOWN in out
    assert not CODE.search(always[2]) and "\x1b" not in always[2]  # what a mechanism prints


def test_a_pipe_and_json_have_no_colours(ran):
    arguments = ["audit", "theirs.py:raises", *PAIR]
    assert "\x1b" not in ran(*arguments)[1]
    assert json.loads(ran(*arguments, "--json", "--color", "always")[1])["verdict"] == "ERROR"


def _on_a_terminal(shell, columns, *arguments):
    """Return what a command prints on a terminal of this width."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dpwitness", *arguments]
    variables = {**shell.environment(), "COLUMNS": str(columns)}
    with subprocess.Popen(command, stdout=theirs, cwd=shell.folder, env=variables) as process:
        os.close(theirs)
        chunks = []
        try:
            while chunk := os.read(ours, 2**16):
                chunks.append(chunk)
        except OSError:  # Linux's sign of the end
            pass
        os.close(ours)
    assert process.returncode == 0
    return b"".join(chunks).decode().replace("\r\n", "\n")


def test_lines_break_at_words_on_a_terminal_only(shell):
    """No word is lost or broken, a command stays in one piece, and JSON is unchanged."""
    printed = shell.dpwitness("list", "relations").stdout
    narrow = _on_a_terminal(shell, 60, "list", "relations")
    assert max(map(len, printed.splitlines())) > 80
    assert max(map(len, narrow.splitlines())) <= 60 and narrow.split() == printed.split()
    start = narrow.splitlines()[1].index("one record")
    assert {row[start - 1] for row in narrow.splitlines()[1:]} == {
        " "
    }  # texts stay in their column
    told = _on_a_terminal(shell, 60, "init")
    assert re.search(r"^next: ?\ndpwitness audit my_mechanism.py:noisy_count .* 1e5$", told, re.M)
    assert json.loads(_on_a_terminal(shell, 20, "list", "suites", "--json"))
