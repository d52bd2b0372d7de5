"""Commands of programs: invalid commands and arguments, other processes, files that go along, and
text programs.
"""

import sys

import numpy as np
import pytest
from broken_programs import NORMAL, rng, text

from dpwitness import InvalidArgument, Pair, Target, audit
from dpwitness.core.protocols import MechanismFailed
from dpwitness.mechanisms.wrappers.programs.worker_pool import TargetError


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["./nowhere"], "must name a program that exists, got './nowhere'"),
        (["no-such-program"], "must name a program that exists"),
        (["cd", "/tmp"], "and sh -c '...' for commands of a shell"),
        (["./plain 1"], "give each argument as a separate text"),
        (["~/nowhere"], "must name a program that exists, got '~/nowhere'"),
        (["plain"], r"write \./plain for a file in the folder"),
        (["cat", "x", "|", "sort"], r"run without a shell, got '\|' in it"),
        (["./plain"], r"executable program, got './plain', .* not executable: chmod \+x ./plain"),
        (["./folder"], "which is a folder or not executable"),
        (["./script"], "nor a script whose first line names its interpreter"),
        (["false"], "false ended with exit code 1 .hello was due."),
    ],
)
def test_commands_that_cannot_be(tmp_path, command, said):
    (tmp_path / "plain").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "script").write_text("echo 1\n")
    (tmp_path / "script").chmod(0o755)
    with pytest.raises(TargetError, match=said) as error:
        Target(command=command, cwd=str(tmp_path)).describe()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"command": "./x"}, "command must be a list of texts"),
        ({"command": ["./x", 3]}, "command must be a list of texts"),
        ({"command": ["./x"], "file": "a.py"}, "command excludes file"),
        ({"command": ["./x"], "cwd": "/nowhere"}, "cwd must be a folder"),
        ({"command": ["./x"], "text": "often"}, "text must be"),
        ({"file": "a.py", "name": "f", "text": "one"}, "text is for programs"),
        ({}, "file must be a non-empty text"),
    ],
)
def test_arguments_that_cannot_be(options, said):
    with pytest.raises(InvalidArgument, match=said):
        Target(**options)


def test_one_output_a_line():
    target = text(NORMAL + "print(*[g.random() for _ in range(n)], sep=chr(10))")
    assert (
        target.sample(np.zeros(1), 3, rng())
        == target.sample(np.zeros(1), 3, rng())
        != target.sample(np.zeros(1), 3, rng(2))
    )
    assert target.seeded and "it is started again for each batch of runs" in target.notes[0]
    shown = text(
        "import sys; print('\\n'.join(sys.argv[1:]))", "{size}", "{dataset}", "nan", "1 2,5", "a b"
    )
    assert (
        repr(shown.sample(np.array([0.5]), 5, rng()))
        == "[5.0, '[0.5]', nan, [1.0, 2.0, 5.0], 'a b']"
        and not shown.seeded
    )
    one = text(NORMAL + "print(g.random())", runs="one")
    assert len(set(one.sample(np.zeros(1), 4, rng()))) == 4
    with pytest.raises(MechanismFailed, match="printed 3 lines for size = 2"):
        text("print('1\\n2\\n3')").sample(np.zeros(1), 2, rng())
    assert [
        type(error).__name__
        for (error,) in text("raise SystemExit(3)").sample_each(np.zeros(1), 1, rng())
    ] == ["Exit3"]
    with pytest.raises(MechanismFailed, match="SIGKILL"):
        text("import os; os.kill(os.getpid(), 9)").sample(np.zeros(1), 1, rng())


def test_an_error_of_a_program_is_shown(tmp_path):
    (tmp_path / "strict.py").write_text(
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--epsilon', type=float)\nparser.parse_args()\n"
    )
    command = [sys.executable, "strict.py", "--epsilon", "one"]
    target = Target(command=command, cwd=str(tmp_path), text="batch")
    found = audit(target, claim="pure:1", pair=Pair([0.0], [1.0]), trials=1_000)
    assert "always raises Exit2; it last printed: usage: strict.py" in found.headline()
    assert found.headline().count("invalid float value: 'one'") == 1
