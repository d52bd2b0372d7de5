"""Programs in any language: the protocol, what breaks it, the shims, text mode, limits, crashes,
commands, and replays.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from broken_programs import (
    ALONE,
    BROKEN,
    GOOD,
    NEAR,
    PYTHON,
    SHIMS,
    TOOLS,
    VECTORS,
    WRONG,
    broken,
    rng,
)

from dpwitness import InvalidArgument, Target, Verdict, audit, trace
from dpwitness.auditors.workers.rounds import run_side
from dpwitness.benchmarks.protocol import conformance
from dpwitness.benchmarks.protocol.__main__ import LANGUAGES
from dpwitness.benchmarks.protocol.__main__ import main as protocol
from dpwitness.benchmarks.protocol.conformance import check_protocol
from dpwitness.cli import main
from dpwitness.core.protocols import MechanismFailed


def first_fault(target, limit):
    return next(
        (
            found
            for found in check_protocol(target.slot_of_program, None, limit)
            if found.status == "wrong"
        ),
        None,
    )


@pytest.mark.slow
def test_each_broken_program_is_caught_and_named(tmp_path, monkeypatch):
    """Each by the step that it breaks, and by no earlier one."""
    monkeypatch.setattr(conformance, "_END", 0.5)

    def told(name):
        file = tmp_path / f"{abs(hash(name))}.py"
        file.write_text(broken(name))
        waits = (
            "was due" in BROKEN[name][2]
            or "of a block" in BROKEN[name][2]
            or "bytes" in BROKEN[name][2]
        )
        return first_fault(Target(command=[*PYTHON, str(file)]), 1.0 if waits else 20.0)

    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(BROKEN, pool.map(told, BROKEN), strict=True))
    wrong = {
        name: (step, said, found[name])
        for name, (_, step, said) in BROKEN.items()
        if not named(found[name], step, said)
    }
    assert len(BROKEN) >= 50 and wrong == {}


def named(found, step, said):
    return (
        found is not None
        and found.step == step
        and said in found.reason
        and len(found.reason.splitlines()) == 1
    )


def test_a_good_program_keeps_the_protocol(program):
    found = list(check_protocol(program().slot_of_program))
    assert len(found) == 23 and {finding.status for finding in found} == {"ok"}
    unseeded = program(
        "HELLO.update(seedable=False, claim=None, domain=None)\n_draw = draw\ndef draw(v, n, "
        "s): return _draw(v, n, time.time())"
    )
    found = {finding.step: finding.status for finding in check_protocol(unseeded.slot_of_program)}
    assert (
        "wrong" not in found.values()
        and found["same seed, same answer"] == found["claim and domain"] == "skipped"
    )


def test_datasets_in_json(program):
    shown = program(
        "HELLO['datasets'] = ['json']\ndef answer(v, n, s): say({'kind': 'json', 'rows': "
        "1}); write(json.dumps([v]).encode() + b'\\n')"
    )
    for value, arrives in [
        (np.array([[0.5, np.nan], [np.inf, -0.0]]), [[0.5, "NaN"], ["Infinity", -0.0]]),
        ({"a": (1, None, "é")}, {"a": [1.0, None, "é"]}),
        ([np.int64(3), True], [3.0, True]),
        ("text", "text"),
    ]:
        assert shown.sample(value, 1, rng()) == [[arrives]]
    with pytest.raises(MechanismFailed, match="representable in JSON, got one with a set"):
        shown.sample({1}, 1, rng())
    with pytest.raises(MechanismFailed, match="reads datasets as float64 only"):
        program("HELLO['datasets'] = ['float64']").sample({"a": 1}, 1, rng())


WHOLE = """
HELLO["outputs"] = ["int64"]
def answer(values, size, seed):
    say({"kind": "int64", "rows": size, "columns": 2})
    write(struct.pack("<%dq" % (2 * size), *range(2 * size)))
"""
LINES = """
def answer(values, size, seed):
    say({"kind": "json", "rows": size})
    write(b"".join([b'1\\n', b'NaN\\n', b'{"a": [-Infinity]}\\n', b'"x"\\n'][:size]))
"""


def test_outputs_of_every_kind(program):
    whole = program(WHOLE)
    found = whole.sample(np.zeros(1), 3, rng())
    assert found.dtype == np.int64 and found.tolist() == [[0, 1], [2, 3], [4, 5]]
    lines = program(LINES)
    assert repr(lines.sample(np.zeros(1), 4, rng())) == "[1.0, nan, {'a': [-inf]}, 'x']"
    assert lines.sample_each(np.zeros(1), 3, rng()) == [[1.0, 1.0, 1.0]]


RAISES = """
def answer(values, size, seed):
    out = draw(values, size, seed)
    if max(out) > 2:
        return say({"raised": "Overflow", "text": "too large"})
    say({"kind": "float64", "rows": size, "columns": 1})
    write(pack(out))
"""
RAISES_ON_ONE = """
_answer = answer
def answer(values, size, seed):
    say({"raised": "KeyError"}) if values[0] else _answer(values, size, seed)
"""


def test_what_a_batch_raises_is_an_output_of_single_runs(program):
    """P(Laplace > 2) = 0.068: of 600 single runs 5 to 90 raise but with probability below 1e-6."""
    target = program(RAISES)
    with pytest.raises(Exception, match="too large") as error:
        target.sample(np.zeros(1), 500, rng())
    assert type(error.value).__name__ == "Overflow"
    found = run_side(target.sample, np.zeros(1), 600, rng())
    assert sorted(set(found.names.values()))[0] == "float64[]" and "raises Overflow" in " ".join(
        found.names.values()
    )
    assert 5 < sum(found.names[code].startswith("raises") for code in found.codes) < 90
    only_one = audit(program(RAISES_ON_ONE), trials=2000, seed=1, **ALONE)
    assert only_one.verdict is Verdict.VIOLATED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("put_in", "options", "said"),
    [
        (
            "def answer(*_): print('the last words', file=sys.stderr); os.kill(os.getpid(), 11)",
            {},
            r"SIGSEGV.*the last words.*tried twice",
        ),
        (
            "def answer(*_): time.sleep(60)",
            {"time_limit": 0.7},
            "a batch of 5 runs took longer than time_limit = 0.7 s",
        ),
        ("def answer(*_): say({'failed': 'no such table'})", {}, "the program says: no such table"),
        ("def answer(*_): bytearray(2**32)", {"memory_limit": 1.0}, "MemoryError"),
        ("def keep(*_): time.sleep(60)", {"time_limit": 0.7}, "time_limit"),
        (BROKEN["wrong count"][0], {}, r"specimen0.py answered 4 rows for size = 5"),
        (
            "def answer(*_):\n    while True: sys.stderr.write('no end ' * 1000)",
            {"time_limit": 0.7},
            "took longer than time_limit = 0.7 s",
        ),
    ],
)
def test_a_batch_that_fails(program, put_in, options, said):
    with pytest.raises(MechanismFailed, match=said) as error:
        program(put_in, **options).sample(np.zeros(1), 5, rng())
    assert "\n" not in str(error.value) and len(str(error.value)) < 1000


def test_a_program_cannot_be_traced(program):
    with pytest.raises(InvalidArgument, match="is a program: only Python targets can be inspected"):
        trace(program(), NEAR, "pure:1")


@pytest.mark.slow
def test_audit_check_trace_and_replay_of_a_program(shell):
    (shell.folder / "mine.py").write_text(GOOD.replace("#BREAK", WRONG))
    command = f"{sys.executable} -S mine.py"
    found = shell.dpwitness(
        "audit",
        "--command",
        command,
        "--trials",
        "5000",
        "--report",
        "out",
        "--workers",
        "2",
        "--verbose",
    )
    assert found.returncode == 1 and "audited    mine.py, claim pure:1" in found.stdout, (
        found.stdout + found.stderr
    )
    witness = "out/witness-mine.py.json"
    assert (
        json.loads((shell.folder / witness).read_text())["target"]["kwargs"]["command"]
        == command.split()
    )
    refused = shell.dpwitness("replay", witness)
    assert refused.returncode == 2 and f"to run it, pass --allow '{command}'" in refused.stderr, (
        refused.stderr
    )
    assert shell.dpwitness("replay", witness, "--seed", "8", "--allow", command).returncode == 1
    (shell.folder / "elsewhere").mkdir()
    moved = replace(shell, folder=shell.folder / "elsewhere").dpwitness(
        "replay", f"../{witness}", "--seed", "8", "--allow", command
    )
    assert moved.returncode == 2, moved.stdout
    checked = shell.dpwitness(
        "check", "--command", command, "-k", "output or played", "--trials", "2000"
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "skipped           check_noise_played_back  the noise of a program" in checked.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trace", "--command", "x"], "the noise of a program cannot be recorded"),
        (["audit"], "a target is needed"),
        (["audit", "m:f", "--command", "x"], "--command cannot be combined with a target"),
        (["audit", "--command", "'x"], "must be a command line that a shell can split into words"),
        (["audit", "--command", ""], "must name a program, got ''"),
        (["audit", "m:f", "--text"], "--text needs --command"),
        (["audit", "--command", "x", "--text-runs", "one"], "--text-runs needs --text"),
        (
            ["audit", "--command", "x", "--in-process"],
            "--command cannot be combined with --in-process",
        ),
        (["audit", "--command", "cat | sort"], "is run without a shell"),
        (
            ["check", "--command", "cat", "--text"],
            "which cat does not declare: give --claim and --domain",
        ),
        (
            ["check", "--command", "cat", "--text", "--claim", "pure:1"],
            "which cat does not declare: give --domain",
        ),
        (["check", "mine.py", "--claim", "pure:1"], "--claim and --domain are for programs"),
        (
            ["check", "--command", "cat", "--text", "--claim", "pure:x"],
            "claim must have the form pure:EPSILON",
        ),
        (
            ["check", "--command", "cat", "--text", "--domain", '{"kind": "Nothing"}'],
            "domain kind must be one of",
        ),
    ],
)
def test_usage(arguments, said, capsys):
    assert main(arguments) in (2, 3) and said in "".join(capsys.readouterr())


def test_protocol_tells_each_step(program, capsys):
    target = program(BROKEN["exit code after good answers"][0])
    assert protocol(["check", "--d0", "[0.25]", "--d1", "[0.5]", *target.command]) == 3
    out = capsys.readouterr().out
    assert (
        "ok       says hello\n" in out
        and "wrong    ends with its input: ended with exit code 3" in out
    )
    assert set(LANGUAGES) == set(TOOLS) == {path.name for path in SHIMS.iterdir() if path.is_dir()}
    assert (
        protocol(["shim", "go", str(Path(target.command[-1]).parent)]) == 0
        and "dpwitness.go" in capsys.readouterr().out
    )
    with pytest.raises(SystemExit) as end:
        protocol(["shim", "go", str(Path(target.command[-1]).parent)])
    assert end.value.code == 2 and "can be created" in capsys.readouterr().err
    assert protocol(["vectors"]) == 0 and json.loads(capsys.readouterr().out) == VECTORS
