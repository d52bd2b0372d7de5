"""Tests of the command line as a program: exit codes, one-line errors, JSON, reports, and
interrupted runs.
"""

import json
import re
import shlex
import signal
import time

import pytest

from dpwitness.cli import COMMANDS, _parser, main
from dpwitness.commands.listing import FILES

PAIR = ["--d0", "[0]", "--d1", "[1]"]
LEAKY = ("audit", "mine.py:leaky", "--claim", "pure:1")


def test_a_violation_and_its_witness_are_written(shell):
    found = shell.dpwitness(*LEAKY, *PAIR, "--trials", "80000", "--report", "out")
    assert (
        found.returncode == 1
        and found.stderr.count("\n") == 1
        and found.stderr.endswith(" expected\n")
    )
    lines = found.stdout.splitlines()
    assert lines[0].startswith("VIOLATED: epsilon > 1.") and "confidence 0.99" in lines[0]
    assert len(lines) <= 6 and lines[-1].split() == ["report", "out/audit.html"]
    assert lines[-2].split(":")[1].strip() == "dpwitness replay out/witness-leaky.json"
    written = sorted(p.name for p in (shell.folder / "out").iterdir() if p.suffix != ".svg")
    assert written == ["audit.html", "audit.json", "audit.md", "audit.sarif", "witness-leaky.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("audit",), "a target is needed: MODULE:NAME"),
        (("audit", "mine.py:leaky", *PAIR), "claim must be"),
        (LEAKY, "pair must be given, or a domain"),
        (
            ("audit", "mine.py:leaky", "--claim", "pure:-1", *PAIR),
            "epsilon must be positive and finite, got -1.0",
        ),
        (
            ("audit", "mine.py:leaky", "--claim", "pure:nan", *PAIR),
            "epsilon must be positive and finite, got nan",
        ),
        (("audit", "mine.py:leaky", "--claim", "dp:1", *PAIR), "claim must be one of pure:EPSILON"),
        ((*LEAKY, "--d0", "[0"), "--d0 needs --d1"),
        ((*LEAKY, "--d0", "[0", "--d1", "[1]"), "--d0 must be JSON, got '[0'"),
        ((*LEAKY, "--d0", "[NaN]", "--d1", "[1]"), 'NaN is not a JSON number: write "NaN"'),
        ((*LEAKY, "--d0", "[1e999]", "--d1", "[1]"), "1e999 is beyond the range of floats"),
        ((*LEAKY, "--d0", "[0, 0]", "--d1", "[1, 1]"), "2 records differ (rows 0, 1)"),
        ((*LEAKY, *PAIR, "--relation", "friends"), "relation must be one of replace-one"),
        ((*LEAKY, "--d0", "null", "--d1", "[1]"), "got None"),
        ((*LEAKY, "--d0", "[1]", "--d1", "[1]"), "identical"),
        ((*LEAKY, *PAIR, "--trials", "10"), "trials must be a whole number, between 1000"),
        ((*LEAKY, *PAIR, "--trials", "1e5.5"), "must be a whole number such as"),
        (
            (*LEAKY, *PAIR, "--seconds", "2", "--trials", "2000"),
            "--trials: not allowed with argument --seconds",
        ),
        (
            ("audit", "mine.py:leaky", "--claim", "gdp:1", *PAIR, "--distance", "6"),
            "--distance is for claims metric:EPSILON",
        ),
        ((*LEAKY, *PAIR, "--confidence", "1"), "confidence must lie in (0, 1), got 1.0"),
        ((*LEAKY, *PAIR, "--seed", "-1"), "seed must be a whole number, at least 0"),
        ((*LEAKY, *PAIR, "--workers", "0"), "workers must be a whole number, between 1 and"),
        ((*LEAKY, *PAIR, "--kwargs", "[1]"), "--kwargs must be a JSON object"),
        (
            (*LEAKY, *PAIR, "--report", "mine.py/x"),
            "report folder must be writable, got 'mine.py/x'",
        ),
        (
            ("audit", "mine.py:scaled", "--claim", "pure:1", *PAIR),
            "missing a required argument: 'scale'",
        ),
        (
            ("audit", "mine.py:scaled", "--kwargs", '{"sclae": 1}', "--claim", "pure:1", *PAIR),
            "scaled has no argument 'sclae'; did you mean 'scale'?",
        ),
        (("audit", "mine.py:Answers", "--claim", "pure:1", *PAIR), "kwargs must fit Answers"),
        (
            ("audit", "mine.py:number", "--claim", "pure:1", *PAIR),
            "target must be a mechanism or a function, number is of type int",
        ),
        (("audit", "mine.py:missing", "--claim", "pure:1", *PAIR), "target must name something in"),
        (
            ("audit", "none.py:leaky", "--claim", "pure:1", *PAIR),
            "target must name an existing file",
        ),
        (("audit", "nowhere.to.be:found", "--claim", "pure:1", *PAIR), "no module named 'nowhere'"),
        (("audit", "mine", "--claim", "pure:1", *PAIR), "target must have the form MODULE:NAME"),
        (("audit", "mine.py"), "as in mine.py:leaky, got 'mine.py', which has leaky, "),
        (("audit", "gone.py:"), "target must name an existing file, got 'gone.py'"),
        (
            ("audit", "dpwitness.mechanisms:Laplace", "--kwargs", '{"epsilon": -1}'),
            "Laplace: epsilon must be positive and finite, got -1",
        ),
        (
            ("audit", "mine.py:leaky", "--claim", "pure:1", *PAIR, "--scores", "mine.py:gone"),
            "which is not there",
        ),
        (
            ("audit", "mine.py:leaky", "--claim", "pure:1", *PAIR, "--scores", "x"),
            "must have the form",
        ),
        (
            (*LEAKY, *PAIR, "--white-box"),
            "--white-box needs a mechanism with log_density, but leaky has none",
        ),
        ((*LEAKY, "--search"), "--search needs a mechanism with a domain, but leaky has none"),
        ((*LEAKY, *PAIR, "--search"), "--search chooses the pair: leave out --d0 and --d1"),
        ((*LEAKY, *PAIR, "--search-seconds", "0"), "search seconds must lie in (0, 1e+06], got 0"),
        ((*LEAKY, *PAIR, "--search-seconds", "9"), "--search-seconds needs --search"),
        ((*LEAKY, *PAIR, "--sequential", "--white-box"), "cannot be combined with --white-box"),
        (("plan", "--d0", "[0]", "--d1", "[1]", "--find", "2"), "needs a target MODULE:NAME"),
        (("replay", "none.json"), "replay: none.json must be readable"),
        (("replay", "mine.py"), "mine.py is not a complete JSON file"),
        (("suite", "cellar"), "suite must be one of zoo, papers"),
        (("suite", "zoo", "-k", "laplace and"), "-k must be words with and, or, not"),
        (("suite", "zoo", "-k", "nosuchcase"), "-k must match a case"),
        (("bench", "nosuchbench"), "bench must be one of"),
        (("list", "shoes"), "invalid choice: 'shoes'"),
        (("lisst", "zoo"), "did you mean 'list'?"),
        (("list", "relation"), "did you mean 'relations'?"),
        ((*LEAKY, "--trails", "1e5"), "there is no option --trails; did you mean '--trials'?"),
        (("canaries", "none.npz", "--clam=pure:1"), "no option --clam; did you mean '--claim'?"),
        (("replay", "none.json", "--chek"), "no option --chek; did you mean '--check'?"),
        (("audit", "mine.py:leakey", "--claim", "pure:1"), "did you mean 'leaky'?"),
        (("audit", "dpwitness.mechanisms:Laplase"), "did you mean 'Laplace'?"),
        (("audit", "zoo:laplce-1.0"), "zoo has no mechanism 'laplce-1.0'; did you mean 'laplace"),
        ((*LEAKY, "--domain", '{"kind": "record"}'), "got 'record'; did you mean 'Records'?"),
        ((*LEAKY, "--domain", '{"kind": "Records", "sise": 1}'), "did you mean 'size'?"),
        ((*LEAKY, *PAIR, "--relation", "replace_one"), "did you mean 'replace-one'?"),
        (("suite", "papper"), "got 'papper'; did you mean 'papers'?"),
        (("report", "none.json", "--format", "htlm"), "did you mean 'html'?"),
        (("check", "mine.py", "-k", "drawz"), "-k must match a check"),
        (("list", "zoo", "run.db"), "zoo takes no FILE, got run.db"),
        (("list", "stores"), "stores needs one FILE or more"),
    ],
)
def test_user_errors_are_one_line_and_exit_code_2(shell, monkeypatch, refused, arguments, message):
    monkeypatch.chdir(shell.folder)
    err = refused(*arguments)
    assert err.startswith("dpwitness") and message in err


def test_the_help_of_many_options_is_in_groups_the_most_used_first(capsys):
    """Every option is in the group in which a reader looks for it; a usage is one short line."""
    for command, usage in {
        "audit": "[options] MODULE:NAME",
        "canaries": "[options] FILE --claim CLAIM",
    }.items():
        with pytest.raises(SystemExit):
            main([command, "--help"])
        found = capsys.readouterr().out
        assert found.startswith(f"usage: dpwitness {command} {usage}\n\n")
        titles = re.findall(r"^([a-z ]+):$", found, re.MULTILINE)
        assert titles[:3] == ["target and claim", "budget", "output"]
        assert (
            "--claim" in found.partition("budget:")[0] and "--report" in found.split("output:")[1]
        )
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    assert capsys.readouterr().out.partition("rarely needed:")[2].count("\n  --") == 12


def test_without_a_command_eight_are_listed_and_more_lists_the_others(capsys):
    assert main([]) == 2
    first = capsys.readouterr().out
    assert main(["more"]) == 0
    names = [
        re.findall(r"^  (\w+)", text, re.MULTILINE) for text in (first, capsys.readouterr().out)
    ]
    assert names[0] == ["init", "audit", "scan", "check", "trace", "canaries", "replay", "report"]
    assert names[0] + names[1] == list(COMMANDS)


def test_the_example_of_init_is_audited_and_tested(tmp_path, monkeypatch, capsys):
    """The commands in the example file and in the CI job can be parsed, the mechanism runs, and no
    existing file is overwritten.
    """
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0 and sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    command = next(
        line
        for line in FILES["my_mechanism.py"].splitlines()
        if line.startswith("    dpwitness audit")
    )
    assert command.strip() in capsys.readouterr().out
    job = FILES["privacy-ci.yml"].split("dpwitness audit")[1].split("- if")[0]
    for line in (command, f"dpwitness audit {job}"):
        parsed = _parser().parse_args(shlex.split(line)[1:])
        assert (parsed.target, parsed.claim) == ("my_mechanism.py:noisy_count", "pure:1")
    short = [*shlex.split(command)[1:], "--in-process"]
    short[short.index("--trials") + 1] = "1000"
    assert main(short) == 0
    assert main(["init"]) == 2 and "run init in another folder" in capsys.readouterr().err


def test_what_the_users_file_raises_is_shown_without_our_frames(shell):
    (shell.folder / "torn.py").write_text("import json\n\nrate = 1 / 0\n")
    (shell.folder / "typo.py").write_text("def f(dataset, size, rng:\n    pass\n")
    torn = shell.dpwitness("audit", "torn.py:f", "--claim", "pure:1", *PAIR)
    assert torn.returncode == 2
    assert (
        "rate = 1 / 0" in torn.stderr
        and "dpwitness/commands" not in torn.stderr
        and "importlib" not in torn.stderr
    )
    assert torn.stderr.splitlines()[-1].endswith(
        "torn.py could not be loaded: ZeroDivisionError: division by zero"
    )
    typo = shell.dpwitness("audit", "typo.py:f", "--claim", "pure:1", *PAIR)
    assert typo.returncode == 2
    assert "def f(dataset, size, rng:" in typo.stderr


@pytest.mark.slow
def test_interrupt_prints_the_partial_result_writes_the_report_and_exits_3(shell):
    process = shell.start(
        "audit", "mine.py:slow", "--claim", "pure:1", *PAIR, "--trials", "1e8", "--report", "out"
    )
    assert process.stderr.readline().startswith("slow: 100,000,000 runs at ")
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3 and err == ""
    assert out.startswith("INCONCLUSIVE: interrupted")
    assert (
        json.loads((shell.folder / "out" / "audit.json").read_text())["results"][0]["verdict"]
        == "INCONCLUSIVE"
    )
