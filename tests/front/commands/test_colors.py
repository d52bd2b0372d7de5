"""Tests of colors and of the table on a terminal.

Only verdicts are colored, only if colors are requested, and audited code cannot print color codes.
"""

import json
import re
import sys
from types import SimpleNamespace

import pytest

from dpwitness.cli import COMMANDS, main
from dpwitness.reports.audit.document import build_document
from dpwitness.reports.phrasing.wording import plain
from dpwitness.terminal import CODES, NO_CODES, Stream, mark_verdict, show, wanted

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


@pytest.mark.parametrize(
    ("choice", "terminal", "environment", "expected"),
    [
        ("auto", True, {}, True),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", True, {"NO_COLOR": "0"}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", False, {}, False),
        ("always", False, {"NO_COLOR": "1", "TERM": "dumb"}, True),
        ("never", True, {}, False),
    ],
)
def test_where_colours_are_wanted(monkeypatch, choice, terminal, environment, expected):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wanted(choice, SimpleNamespace(isatty=lambda: terminal)) is expected


def test_plain_takes_marks_out_and_only_show_reads_them(capsys):
    assert plain(MARKS).isascii()
    stream = Stream(sys.stdout)
    stream.colored = True
    stream.write(mark_verdict("VIOLATED\n"))
    assert CODE.search(capsys.readouterr().out) is None
    show(mark_verdict(f"VIOLATED {HOSTILE[:5]}"), stream)
    assert capsys.readouterr().out == "\x1b[1;31mVIOLATED\x1b[0m \\x1b[31m\n"
    show(mark_verdict("CERTIFIED for"))  # no stream of ours
    assert capsys.readouterr().out == "CERTIFIED for\n"


def test_a_verdict_is_marked_where_it_stands_alone():
    assert (
        mark_verdict("VIOLATEDLY") == "VIOLATEDLY"
        and mark_verdict("not VIOLATED") == "not VIOLATED"
    )
    assert mark_verdict("ab NOT REFUTED", at=3).translate(CODES) == "ab \x1b[1mNOT REFUTED\x1b[0m"
    assert mark_verdict("ab NOT REFUTED", at=3).translate(NO_CODES) == "ab NOT REFUTED"


def test_every_command_takes_the_option(capsys):
    for command in [
        *([name] for name in COMMANDS),
        *(["claims", action] for action in ("list", "show", "check")),
    ]:
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        assert "--color {auto,always,never}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["list", "--color", "sometimes"])
    assert stopped.value.code == 2


RESULTS = [
    {
        "kind": "black box",
        "name": "kept",
        "claim": "pure:1",
        "verdict": "NOT_REFUTED",
        "parameter_lower": 0.5,
        "detectable": 1.25,
    },
    {
        "kind": "black box",
        "name": HOSTILE,
        "claim": "pure:1",
        "verdict": "VIOLATED",
        "parameter_lower": 3.0,
        "detectable": 1.5,
    }
    | {"trials": 900},
    {
        "kind": "white box",
        "name": "a*b_c<d",
        "claim": "gdp:1",
        "verdict": "CERTIFIED",
        "parameter": "mu",
        "parameter_lower": 0.9,
    },
]


@pytest.fixture
def report(tmp_path):
    file = tmp_path / "audit.json"
    file.write_text(json.dumps(build_document(RESULTS, title="Three")))
    return file


def test_the_table_shows_the_worst_first_in_the_words_of_the_page(ran, report, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = ran("report", str(report), "--show", "--color", "always")
    assert (
        code == 0
        and _only_own_codes(out)
        and CODE.sub("", out) == ran("report", str(report), "--show")[1]
    )
    answer, table = CODE.sub("", out).split("\n\n")
    assert answer.startswith("VIOLATED in 1 of 3 audits") and "Largest" in answer
    rows = [re.split(r"  +", line.strip()) for line in table.splitlines()]
    assert rows[0] == ["verdict", "audit", "claim", "certified", "detectable", "cost"]
    assert rows[1] == ["VIOLATED", plain(HOSTILE), "pure:1", "epsilon > 3", "1.5", "900 runs"]
    assert rows[2] == ["NOT REFUTED", "kept", "pure:1", "epsilon > 0.5", "1.25", "-"]
    assert rows[3] == ["CERTIFIED", "a*b_c<d", "gdp:1", "mu > 0.9", "-", "-"]
    assert sorted(path.name for path in report.parent.iterdir()) == ["audit.json", "theirs.py"]
    assert ran("report", str(report), "--show", "--report", "out")[0] == 2


@pytest.mark.parametrize("columns", [45, 70, 100])
def test_the_table_fits_the_terminal_and_loses_nothing(ran, report, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    table = ran("report", str(report), "--show")[1].split("\n\n")[1].splitlines()
    assert max(map(len, table)) <= columns
    first, second = (table[0].index(head) for head in ("audi", "clai"))
    rows = table[next(i for i, line in enumerate(table) if line.startswith("VIOLATED")) :]
    assert "".join(line[first:second].strip() for line in rows) == f"{plain(HOSTILE)}kepta*b_c<d"
    assert sum(line.startswith("NOT REFUTED ") for line in table) == 1


def test_a_report_of_nothing_has_no_table(ran, tmp_path):
    (tmp_path / "none.json").write_text(json.dumps(build_document([], title="None")))
    assert ran("report", "none.json", "--show")[1] == "No audit was run.\n"
