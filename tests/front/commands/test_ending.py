"""Tests of exit codes: a failed output does not change the code of a violation, and no error gives
code 1 or a traceback.
"""

import contextlib
import dataclasses
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from dpwitness import Pair, audit
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


def _killed(dataset, size, rng):
    """Add Laplace noise, but kill the process with probability 1/8 per batch."""
    if rng.random() < 0.125:
        os.kill(os.getpid(), 9)
    return dataset[0] + rng.laplace(0.0, 1.0, size)


def test_a_worker_killed_between_two_chunks_is_an_error_of_the_mechanism():
    """The pool is broken before the first task, so that `submit` itself raises."""
    with ProcessPoolExecutor(2) as pool:
        with contextlib.suppress(Exception):
            pool.submit(os._exit, 1).result()
        result = audit(
            _killed,
            claim="pure:1",
            pair=Pair(np.zeros(1), np.ones(1)),
            trials=20_000,
            executor=pool,
        )
    assert result.verdict.value == "ERROR" and "worker process died" in result.notes[0]


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


@pytest.mark.slow
def test_optimised_python_and_a_plotting_backend_that_is_not_there(shell):
    """An audit with a report works with PYTHONOPTIMIZE=2 and an unknown MPLBACKEND.

    The package cma needs docstrings, which PYTHONOPTIMIZE=2 drops, and imports matplotlib, which
    reads MPLBACKEND.
    """
    found = shell.run(
        sys.executable, "-m", "dpwitness", *LEAKY, "--report", "out", MPLBACKEND="nonsense"
    )
    assert (
        found.returncode == 1
        and found.stderr.count("\n") == 1
        and found.stderr.endswith(" expected\n")
    )
    assert list((shell.folder / "out").glob("*.svg"))
    import_cma = (
        "from dpwitness.core.numerics.cma_es import _package; "
        "print(_package().CMAEvolutionStrategy.__name__)"
    )
    assert (
        shell.run(sys.executable, "-OO", "-c", import_cma, MPLBACKEND="nonsense").stdout
        == "CMAEvolutionStrategy\n"
    )


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


@pytest.mark.slow
def test_a_store_that_is_full_says_why_with_quiet(shell):
    command = [
        "bash",
        "-c",
        'ulimit -f 50; "$@"',
        "-",
        sys.executable,
        "-m",
        "dpwitness",
        *FINE,
        "--store",
        "run.db",
        "--quiet",
    ]
    ran = shell.run(*command)
    assert (
        ran.returncode == 2
        and ran.stdout.startswith("NOT REFUTED")
        and "the store could not be written to the end" in ran.stderr
    )


CAUSES = """
import os

def nan(dataset):
    return float("nan")

def constant(dataset):
    return {"a": [1, None]}

def forks(dataset):
    if os.fork() == 0:
        return sum(dataset)
    os.wait()
    return 0
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nan", "every output on D0 and D1 is NaN (float)"),
        ("constant", "every output on D0 and D1 is the same {'a': "),
        ("forks", "the mechanism forks, and the child returns from the call too"),
    ],
)
def test_the_cause_of_outputs_that_never_change_is_named(shell, name, told):
    (shell.folder / "causes.py").write_text(CAUSES)
    ran = shell.dpwitness(
        "audit",
        f"causes.py:{name}",
        "--claim",
        "pure:8",
        *PAIR,
        "--trials",
        "1000",
        "--no-trace",
        "--verbose",
    )
    assert told in ran.stdout and ran.stdout.count(told) == 1, ran.stdout


def test_the_advice_on_leaking_low_bits_fits_the_verdict(shell):
    ran = shell.dpwitness("audit", "mine.py:bare", "--claim", "pure:1", *PAIR, "--trials", "2e4")
    assert (
        ran.returncode == 0 and "round outputs to a grid, because their low bits leak" in ran.stdout
    )
    assert "confirm the violation" not in ran.stdout


def test_an_exception_in_a_check_is_its_error_and_the_others_go_on(monkeypatch):
    from dpwitness import check_mechanism
    from dpwitness.auditors.checks import runner
    from dpwitness.mechanisms import Laplace

    names = list(runner.CHECKS)[:3]

    def broken(subject):
        raise TypeError("of the check")

    monkeypatch.setitem(
        runner.CHECKS, names[0], dataclasses.replace(runner.CHECKS[names[0]], function=broken)
    )
    found = check_mechanism(Laplace(1.0, arithmetic="grid"), trials=4_000, checks=names)
    assert [finding.check for finding in found.findings] == names and found.verdict.value == "ERROR"
    assert found.findings[0].reason == "ERROR: the check stopped with TypeError: of the check"
    assert all(finding.status != "failed" for finding in found.findings[1:])


TWICE = {
    "an option": (
        ["audit", "x:f", "--trials", "1000", "--trials", "2000"],
        "--trials: is given twice, the second time as '2000'",
    ),
    "a claim": (
        ["canaries", "x.npz", "--claim", "pure:1", "--claim", "pure:9"],
        "--claim: is given twice",
    ),
    "a parameter": (
        ["claims", "check", "CM-04", "--set", "epsilon=1", "epsilon=2"],
        "--set must give each parameter once, got 'epsilon' twice",
    ),
    "a parameter in two options": (
        ["claims", "check", "CM-04", "--set", "a=1", "--set", "a=2"],
        "--set must give each parameter once",
    ),
    "a keyword": (["audit", "x:f", "--kwargs", '{"a": 1, "a": 2}'], "--kwargs must be JSON"),
    "a field of a domain": (
        [
            "audit",
            "dpwitness.mechanisms:Laplace",
            "--kwargs",
            '{"epsilon": 1}',
            "--domain",
            '{"kind": "answers", "kind": "rows"}',
        ],
        "--domain must be JSON",
    ),
}


@pytest.mark.parametrize("case", TWICE)
def test_an_argument_that_is_given_twice_is_an_error(case, refused):
    words, message = TWICE[case]
    assert message in refused(*words)
