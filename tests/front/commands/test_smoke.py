"""Smoke tests of the command line: every command and every option is used in a call that succeeds,
the first call of each scenario in a new interpreter.

The commands and options come from the parser. A new command or option without a call in `CALLS`
makes a test fail.
"""

import shlex
import shutil
import sys
from pathlib import Path

import pytest

from dpwitness import cli

DOCS = Path(__file__).parents[3] / "docs"

FILES = {
    "mine.py": """
import numpy as np

def fine(dataset, size, rng):
    return np.round(1024 * (np.sum(dataset) + rng.laplace(0.0, 1.0, size))) / 1024

fine.claim = "pure:1"
fine.domain = {"kind": "Records", "size": 1, "low": 0.0, "high": 1.0}

def leaky(dataset, size, rng, *, scale=0.2):
    return np.sum(dataset) + rng.laplace(0.0, scale, size)

def absolute(outputs):
    return np.abs(outputs[:, 0])
""",
    "prog.py": "import random, sys\nfor _ in range(int(sys.argv[1])):\n    print(random.choice([0, "
    "1]))\n",
    "accepted.toml": '[[accepted]]\nname = "leaky"\nclaim = "pure:1"\nreason = "a test"\nexpires = '
    "2999-01-01\n",
    "scores.csv": "score,included\n"
    + "".join(f"{i % 7 + 3 * (i % 2)},{i % 2}\n" for i in range(40)),
    "pack/__init__.py": '''
import numpy as np

def noisy_sum(data, epsilon):
    """Return an epsilon-differentially private sum of numbers in [0, 1]."""
    return float(np.sum(np.clip(data, 0, 1)) + np.random.laplace(0, 1 / epsilon))
''',
    "test_pack.py": "from pack import noisy_sum\n\n\ndef test_sum():\n    noisy_sum([0.5, 1.0], 1.0)\n",
    "calls.py": "from pack import noisy_sum\n\nnoisy_sum([0.2, 0.4], 0.5)\n",
    "calls.json": '{"schema_version": 1, "calls": []}',
}
PAIR = "--d0 [0] --d1 [1]"
LAPLACE = "dpwitness.mechanisms:Laplace --kwargs '{\"epsilon\": 1.0}'"
# far from the violation that is looked for, so that few runs decide
WEAK = LAPLACE.replace("1.0", "0.2")
PURE = f"--claim pure:1 {PAIR}"
TABLE = '\'{"kind": "Table", "columns": {"x": [0, 1]}, "frame": "dict"}\''
RECORDS = '\'{"kind": "Records", "size": 1}\''
ALL = "--json --color never --summary s.md"
SHOWN = "--color always --quiet"

PROGRAM = "--command 'python prog.py {size}' --text --text-runs batch --cwd ."
HERE = f"--python {shlex.quote(sys.executable)} --memory 8"

# Calls of each scenario, in order and in one folder, with the exit code that is right.
CALLS = {
    "no command": [
        (0, "--version"),
        (0, "more"),
        (0, "init --color never"),
        (0, "list zoo --json --color never"),
    ],
    "audit": [
        (
            1,
            f"audit mine.py:leaky {PURE} --as batch --relation replace-one --kwargs "
            f"'{{\"scale\": 0.3}}' --confidence 0.9 --stop gross "
            "--scores mine.py:absolute --bits --time-limit 60 --no-trace --no-causes "
            "--in-process --store run.db --trials 4000 --seed 3 "
            f"--report out {ALL}",
        ),
        (0, "replay out/witness-leaky.json --check"),
        (
            1,
            "replay out/witness-leaky.json --target mine.py:leaky --allow mine.py:absolute "
            "--confidence 0.99 --trials 2000 --seed 4 "
            f"--workers 1 --report again {ALL}",
        ),
        (1, f"replay out/witness-leaky.json --executor threads:1 --trials 2000 {SHOWN}"),
        (1, "replay out/witness-leaky.json --trials 2000 --verbose"),
        (0, "report out --format md --report shown --no-plots --color never"),
        (0, "report out --show"),
        (0, "compare out out --report compared --format html --explain --color never"),
        (0, "compare out out --json"),
        (0, "list stores run.db --json --color never"),
        (0, "store gc run.db --color never"),
    ],
    "audit with other options": [
        (
            0,
            f"audit mine.py:fine --domain {RECORDS} --seconds 1 --clock cpu --workers 1 "
            f"{HERE} {SHOWN}",
        ),
        (
            0,
            f"audit mine.py:fine {PURE} --sequential --find 2 --trials 2000 --executor "
            "threads:1 --verbose",
        ),
        (0, f"audit mine.py:leaky {PURE} --trials 2000 --baseline accepted.toml --quiet"),
        (0, f"audit mine.py:fine {PURE} --trials 2000 --store run.db --quiet"),
        (
            0,
            "audit mine.py:fine --claim pure:1 --d0 [0] --d1 [1] --trials 2000 --store "
            "run.db --extend 4000 --quiet",
        ),
    ],
    "audit with a density": [
        (
            0,
            f"audit {LAPLACE} --claim metric:1 --distance 1 {PAIR} --white-box --trials "
            "10000 --quiet",
        ),
        (0, f"audit {LAPLACE} --search --search-seconds 1 --trials 2000 --quiet"),
        (
            0,
            f"certify {LAPLACE} --claim metric:1 --distance 1 {PAIR} --relation l1 "
            "--confidence 0.9 --time-limit 60 --trials 10000 "
            f"--seed 1 --workers 1 --report out {ALL}",
        ),
        (
            0,
            f"certify {LAPLACE} {PAIR} --executor threads:1 --baseline accepted.toml "
            f"--trials 10000 {SHOWN}",
        ),
        (0, f"certify {LAPLACE} --trials 10000 --verbose"),
    ],
    "audit of a program": [
        (0, f"audit {PROGRAM} {PURE} --trials 1000 --quiet"),
        (
            0,
            "audit --dsn sqlite:///:memory: --query 'SELECT total + random() % 1000 FROM "
            "summed' --table rows --setup 'CREATE VIEW summed "
            f"AS SELECT sum(x) AS total FROM rows' --domain {TABLE} --claim pure:5 --trials "
            "1000 --quiet",
        ),
        (0, "audit stable_targets.py:count --visible-errors --seconds 1 --quiet"),
    ],
    "check": [
        (
            0,
            "check mine.py:fine -k shape --seconds 3 --clock cpu --seed 1 --workers 1 "
            f"--time-limit 60 --report out {HERE} {ALL}",
        ),
        (
            0,
            f"check {PROGRAM} --claim pure:1 --domain {RECORDS} -k shape --trials 2000 "
            "--executor threads:1",
        ),
    ],
    "trace": [
        (
            0,
            f"trace mine.py:fine --as batch {PURE} --relation replace-one --kwargs {{}} "
            f"--primitives {{}} --pairs 1 --confidence 0.9 "
            "--time-limit 60 --in-process --baseline accepted.toml --trials 2000 --seed 1 "
            f"--workers 1 --report out {ALL}",
        ),
        (
            0,
            f"trace mine.py:fine --claim metric:1 --distance 1 {PAIR} --no-confirm "
            f"--executor threads:1 {HERE} {SHOWN}",
        ),
        (0, f"trace mine.py:fine {PURE} --no-confirm --verbose"),
    ],
    "canaries": [
        (
            0,
            "canaries scores.csv --claim approx:8,1e-5 --method best --guesses 10 --delta "
            "1e-5 --confidence 0.9 --name mine --seed 1 "
            f"--report out --baseline accepted.toml {ALL}",
        ),
        (0, f"canaries scores.csv --claim pure:8 {SHOWN}"),
        (0, "canaries scores.csv --claim pure:8 --verbose"),
    ],
    "plan": [
        (
            0,
            f"plan {WEAK} --claim metric:1 --distance 1 {PAIR} --relation l1 --find 4 "
            "--power 0.8 --confidence 0.9 --workers 1 "
            "--time-limit 60 --in-process --json --color never",
        ),
        (0, f"plan mine.py:fine --as batch {PURE} --trials 5000 --executor threads:1 {HERE}"),
        (0, "plan --claim pure:1 --find 2 --coin"),
        (0, "plan --claim pure:1 --find 2 --laplace"),
        (0, "plan --claim gdp:1 --find 2 --gaussian"),
        (0, "plan --claim pure:1 --canaries 100 --runs 2"),
    ],
    "watch": [
        (
            0,
            f"watch mine.py:fine --store w.db {PURE} --relation replace-one --confidence 0.9 "
            "--time-limit 60 --seconds 1 --trials 2000 "
            f"--baseline accepted.toml --report out {HERE} {ALL}",
        )
    ],
    "suite": [
        (
            0,
            "suite zoo -k laplace-grid --confidence 0.9 --baseline accepted.toml --store "
            "s.db --trials 2000 --seed 1 --workers 1 "
            f" --report out {ALL}",
        ),
        (0, "suite zoo -k laplace-grid --seconds 1 --clock cpu --executor threads:1"),
    ],
    "scan": [
        (0, f"scan pack --seconds 8 --clock cpu --seed 1 --report out {HERE} {ALL} --quiet"),
        (0, "scan pack --seconds 3 --tests test_pack.py --script calls.py --calls calls.json"),
        (0, "scan pack --dry-run --verbose"),
        (0, "targets new proposed.py --color never"),
        (0, "targets list --json"),
    ],
    "claims": [
        (0, "claims --color never list --json --color never"),
        (0, "claims show CM-01 --json --color never"),
        (
            1,
            "claims check CM-02 --set epsilon=0.5:1 --quick --seconds 5 --seed 1 --json "
            "--color never",
        ),
        (
            0,
            "prove loops.py:sparse_vector --seconds 30 --trials 0 --confidence 0.9 --seed 1 "
            "--json --color never",
        ),
    ],
    "bench": [(0, "bench adversarial --seed 1 --part 'other digits' --json --color never")],
}

# Options with a need that a smoke test cannot meet: the claims minutes or a clone; `certify --as` a
# form with a density; and `trace` refuses programs with an advice (test_trace.py).
ELSEWHERE = {"claims check --workers", "claims check --report", "certify --as"}
ELSEWHERE |= {f"trace --{name}" for name in ("command", "cwd", "text", "text-runs")}


def places(parser, name=""):
    """Return the option strings of each command, by its words, without ``--help``."""
    found = {
        name: {action.option_strings[-1] for action in parser._actions if action.option_strings}
        - {"--help"}
    }
    for action in parser._actions:
        for word, below in action.choices.items() if isinstance(action.choices, dict) else ():
            found |= places(below, f"{name} {word}".strip())
    return found


def used(line):
    """Return the words of the command of a call, and its options."""
    words, known, name = shlex.split(line), places(cli._parser()), ""
    for word in words:
        if f"{name} {word}".strip() in known:
            name = f"{name} {word}".strip()
    return name, set(words) & set().union(
        *(options for place, options in known.items() if f"{name} ".startswith(f"{place} "))
    )


def uncovered(calls, parser):
    """Return the commands and options of the parser that no call uses."""
    covered = {}
    for line in (line for scenario in calls.values() for _, line in scenario):
        name, options = used(line)
        for place in (" ".join(name.split()[:count]) for count in range(len(name.split()) + 1)):
            covered.setdefault(place, set()).update(options)
    found = []
    for name, options in places(parser).items():
        missing = [f"{name} {option}" for option in sorted(options - covered.get(name, set()))]
        found += [*missing, *([] if name in covered or _has_actions(parser, name) else [name])]
    return [each for each in found if each not in ELSEWHERE]


def _has_actions(parser, name):
    """Return whether a command is run only with one of its actions."""
    return not name or any(place.startswith(f"{name} ") for place in places(parser))


def test_every_command_and_option_has_a_call():
    assert uncovered(CALLS, cli._parser()) == []


@pytest.mark.slow_cases(
    "audit",
    "audit with other options",
    "audit with a density",
    "audit of a program",
    "check",
    "scan",
    "suite",
    "plan",
    "trace",
    "canaries",
    "watch",
    "claims",
)
@pytest.mark.parametrize("scenario", CALLS)
def test_calls_succeed(shell, scenario):
    for name, text in FILES.items():
        (shell.folder / name).parent.mkdir(exist_ok=True)
        (shell.folder / name).write_text(text)
    for example in ("stable_targets.py", "loops.py"):
        shutil.copy(DOCS / "examples" / example, shell.folder)
    for number, (code, line) in enumerate(CALLS[scenario]):
        words = shlex.split(line)
        if number == 0:
            ran = shell.run(sys.executable, "-m", "dpwitness", *words)
        else:
            ran = shell.dpwitness(*words)
        told = f"{line}\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}"
        assert (
            ran.returncode == code
            and "unexpected error" not in ran.stderr
            and "Traceback" not in ran.stderr
        ), told


def test_the_help_of_every_command_is_in_the_reference(capsys):
    """The page shows the output of ``--help``: an option in it exists, and an option that exists is
    in it.
    """
    shown = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    known = places(cli._parser())
    names = [name for name in known if name not in ("", "more")]
    assert [
        name for name in names if f"{{command-output}} dpwitness {name} --help\n" not in shown
    ] == []
    for name in ["", *names]:
        with pytest.raises(SystemExit, match=r"^0$"):
            cli.main([*name.split(), "--help"])
        out = capsys.readouterr().out
        assert "usage: dpwitness" in out and all(option in out for option in known[name])
