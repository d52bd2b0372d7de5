"""Tests of colors and of the table on a terminal.

Only verdicts are colored, only if colors are requested, and audited code cannot print color codes.
"""

import json
import re

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
