"""Targets: verdicts, reproducibility, crashes, limits, bad files, and processes that end."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dpwitness import ApproxDP, InvalidArgument, Target, Verdict, audit, replay
from dpwitness.core.protocols import MechanismFailed
from dpwitness.mechanisms import Records
from dpwitness.mechanisms.wrappers.programs.worker_pool import TargetError, target_names

ONE = np.array([1.0])


def draw(target, size=5, seed=1):
    return target.sample(ONE, size, np.random.default_rng(seed))


def gone(pid):
    """Whether the process ends within five seconds."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
            os.kill(pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


def test_a_leaky_target_is_refuted_and_replayed(file, foreign):
    """False-failure probability 1e-9: 80,000 runs, epsilon = 1.11 against the claim 1."""
    target = Target(file, "leaky", foreign)
    result = audit(target, trials=80_000, seed=2)
    assert result.verdict is Verdict.VIOLATED and 1.0 < result.epsilon_lower < 1 / 0.9
    with pytest.raises(
        InvalidArgument,
        match="which is not an environment of `dpwitness targets`; to run it, pass --allow",
    ):
        replay(result.witness)
    with pytest.raises(
        InvalidArgument, match="outside the current folder; to run it, pass --allow"
    ):
        replay(result.witness, allow=[foreign])
    again = replay(result.witness, allow=[foreign, f"{file}:leaky"], seed=8)
    assert again.verdict is Verdict.VIOLATED and again.target["kwargs"]["python"] == foreign


def test_what_the_file_says(file, foreign):
    target = Target(file, "leaky", foreign)
    assert str(target.claim) == "pure:1" and target.domain == Records(1, 0.0, 1.0)
    assert target.describe()["doc"] == "Noise scaled by 0.9: epsilon = 1.11 where 1 is claimed."
    assert target.__name__ == "peculiar:leaky" and target.seeded and target.notes == ()
    assert Target(file, "accounted").claim == ApproxDP(0.1 + 0.2, 1e-5)
    assert {"leaky", "grid", "promises_nothing"} <= set(
        target_names(file)
    ) and "kinds" not in target_names(file)


def test_a_target_is_its_fields(file):
    target = Target(file, "leaky", kwargs={}, time_limit=20.0)
    for twin in (pickle.loads(pickle.dumps(target)), copy.deepcopy(target)):
        assert np.array_equal(draw(twin), draw(target)) and twin.time_limit == 20.0
    for wrong in ({"time_limit": 0}, {"memory_limit": -1.0}, {"file": ""}, {"name": 3}):
        with pytest.raises(InvalidArgument, match=next(iter(wrong))):
            Target(**({"file": file, "name": "leaky"} | wrong))


def test_a_crash_once_is_done_again_with_the_same_seed(file, tmp_path):
    shaky = Target(file, "crashes_once", kwargs={"flag": str(tmp_path / "flag")})
    first = draw(shaky)
    assert (tmp_path / "flag").exists()
    assert np.array_equal(first, draw(shaky))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("hangs", {"time_limit": 0.5}, r"a batch of 5 runs took longer than time_limit = 0\.5 s"),
        ("eats", {"memory_limit": 2.0}, "ran out of memory"),
        ("leaves", {}, "ended its run with SystemExit: enough"),
        ("changes_its_data", {}, "changes its dataset in place"),
    ],
)
def test_what_is_no_output(file, name, options, message):
    started = time.monotonic()
    with pytest.raises(MechanismFailed, match=message):
        draw(Target(file, name, **options))
    assert time.monotonic() - started < 30


def test_a_library_without_seeds_is_said_to_be_irreproducible(file):
    # its noise is new each time
    result = audit(Target(file, "unseeded"), trials=2000, confidence=1 - 1e-9)
    assert result.verdict is Verdict.NOT_REFUTED
    assert [note for note in result.notes if "reproducible" in note] == [
        "not reproducible: the library takes no seed, so the same seed gives other counts"
    ]
    assert not any("outputs under one seed differ" in note for note in result.notes)


@pytest.mark.parametrize(
    ("text", "message", "traced"),
    [
        (
            "import no_such_library\n",
            r"needs 'no_such_library', which .* does not have; install it there: .*-m pip "
            r"install no_such",
            True,
        ),
        ("def f(:\n", "SyntaxError", False),
        ("x = 1 / 0\n", "ZeroDivisionError: division by zero", True),
        ("import sys\nsys.exit(4)\n", "SystemExit: 4", True),
        ("import os\nos._exit(4)\n", "ended with exit code 4", False),
        ("f = 3\n", "must name something in .*, got 'g', which is not there", False),
    ],
)
def test_bad_files(tmp_path, text, message, traced):
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(TargetError, match=message) as error:
        Target(str(path), "g").describe()
    assert ("bad.py" in error.value.traceback) == traced or "SyntaxError" in error.value.traceback
    assert "foreign" not in error.value.traceback and "importlib" not in error.value.traceback


def test_bad_interpreters(file, bare, tmp_path, monkeypatch):
    monkeypatch.setenv("DPWITNESS_HOME", str(tmp_path))
    for target, message in (
        (
            Target(file, "leaky", bare),
            "must have NumPy, .* does not; install it: .* -m pip install numpy",
        ),
        (
            Target(file, "leaky", "/nowhere/python"),
            "must be an interpreter or an environment of `dpwitness targets`, got "
            "'/nowhere/python'",
        ),
        (
            Target(file, "leaky", "diffprivlib"),
            "environment diffprivlib is missing; make it with: dpwitness targets setup diffprivlib",
        ),
        (Target(file, "leaky", "/bin/true"), "must be a Python interpreter"),
        (Target(str(tmp_path / "gone.py"), "leaky"), "must name an existing file"),
    ):
        with pytest.raises(TargetError, match=message):
            target.describe()


@pytest.mark.parametrize("answer", ['b"\\xff" * 64', 'b"\\x05\\0\\0\\0hello"', 'b""'])
def test_a_program_that_speaks_something_else(file, tmp_path, answer):
    liar = tmp_path / "liar"
    stays = 0 if "xff" in answer or "hello" in answer else 9  # seconds; one that stays is killed
    liar.write_text(
        f"#!{sys.executable}\nimport os, time\nos.write(1, {answer})\nos.close(1)\n"
        f"time.sleep({stays})\n"
    )
    liar.chmod(0o755)
    with pytest.raises(
        TargetError, match=r"must be a Python interpreter \(3.8 or later\), .* did not answer"
    ):
        Target(file, "leaky", str(liar)).describe()


def test_a_target_file_can_import_the_wrappers_where_dpwitness_is_not_installed(foreign, tmp_path):
    path = tmp_path / "wrapped.py"
    path.write_text(
        "import dpwitness as dpw\nfrom dpwitness.wrap import fresh\n\n\n"
        "class Count:\n    def __call__(self, dataset):\n        return len(dataset)\n\n\n"
        "new = fresh(Count, claim='pure:1')\nold = dpw.one_run(len, claim='pure:1')\nassert "
        "dpw.wrap.fresh is fresh\n"
    )
    assert [list(draw(Target(str(path), name, foreign), 2)) for name in ("new", "old")] == [
        [1, 1],
        [1, 1],
    ]


def test_a_relation_of_the_user_lies_in_another_file(foreign, tmp_path):
    (tmp_path / "near.py").write_text(
        "import dpwitness as dpw\nnear = dpw.domains.Relation(\n"
        "    check=lambda d0, d1: abs(d0 - d1) <= 2, generate=lambda rng: (3.0, 5.0), title='near')\n"
    )
    path = tmp_path / "own.py"
    noisy = "def f(dataset, size, rng):\n    return dataset + rng.laplace(size=size)\n"
    path.write_text(noisy + "f.claim = 'pure:1'\nf.domain = 'near.py:near'\n")
    found = audit(Target(str(path), "f", foreign), trials=4_000, seed=1)
    assert found.verdict.value == "VIOLATED" and found.pair.relation == "own:near"
    faults = {
        "import dpwitness\nf.domain = dpwitness.domains.Relation(check=max)": "domains.Relation is "
        "missing in this interpreter",
        "f.domain = 'near.py:far'": "must name a domain or a dpwitness.domains.Relation as FILE.py",
    }
    for i, (line, message) in enumerate(faults.items()):
        path = tmp_path / f"fault{i}.py"
        path.write_text(f"{noisy}{line}\n")
        with pytest.raises(TargetError, match=message):
            assert Target(str(path), "f", foreign).domain


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("workers", [1, 2])
def test_no_worker_survives(file, tmp_path, end, workers):
    """Ctrl-C ends the audit with no verdict, at once; a controller that is killed takes its workers
    with it.
    """
    note = tmp_path / "pids"
    arguments = [
        "audit",
        f"{file}:slow",
        "--python",
        sys.executable,
        "--kwargs",
        f'{{"note": "{note}"}}',
        "--workers",
        str(workers),
    ]
    command = [sys.executable, "-m", "dpwitness", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as controller:
        for _ in range(600):
            if controller.poll() is not None or (note.exists() and note.read_text().endswith("\n")):
                break
            time.sleep(0.05)
        time.sleep(0.3)
        sent = time.monotonic()
        os.killpg(controller.pid, end)
        out, err = controller.communicate(timeout=30)
        assert time.monotonic() - sent < 20
    assert note.exists(), err
    pids = {int(pid) for pid in note.read_text().split()}
    assert pids and all(gone(pid) for pid in pids)
    assert controller.returncode == (-9 if end == signal.SIGKILL else 3)
    assert ("INCONCLUSIVE" in out) == (end != signal.SIGKILL)
