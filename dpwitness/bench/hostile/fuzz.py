"""The fuzz campaign: ten thousand inputs of every kind, each of which must end in time, in words, with a documented exit code, alone."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.bench.hostile.fuzz_inputs import HOSTILE_FILE, Run, environments, options, signals, targets
from dpwitness.bench.table import Row, Table

COUNTS = {"options": 4000, "files": 3000, "calls": 2500, "targets": 300, "signals": 100, "environments": 150}
SEED = 20_261_121
_DOCUMENTED = (0, 1, 2, 3)
_LIMIT = 120.0  # seconds that one input may take, on a machine with other work: a search takes 30 by itself
_TOKEN = "DPWITNESS_FUZZ"
_OURS = re.compile(r'File "[^"]*/(dpwitness|mechanisms|auditors|proofs_checks|reports)/[^"]*\.py"')


@dataclass(slots=True)
class Tally:
    """What one kind of input came to."""

    inputs: int = 0
    tracebacks: int = 0
    hangs: int = 0
    orphans: int = 0
    undocumented: int = 0
    unknown: int = 0  # ended in one line and with code 3, by an error that nobody had foreseen
    faults: list[str] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)

    def take(self, what: str, code: int | None, text: str, left: int, also: tuple[int, ...] = ()) -> None:
        """Count one input: its exit code (None if it hung), what it printed, and how many processes it left."""
        self.inputs += 1
        self.codes[str(code)] = self.codes.get(str(code), 0) + 1
        found = {
            "hangs": code is None,
            "tracebacks": "Traceback (most recent call last)" in text and bool(_OURS.search(text)),
            "undocumented": code is not None and code not in (*_DOCUMENTED, *also),
            "orphans": left > 0,
            "unknown": "an unexpected error" in text,
        }
        for name, true in found.items():
            if true:
                setattr(self, name, getattr(self, name) + 1)
                self.faults.append(f"{name} (exit code {code}): {what}: {text[-300:]!a}")


def campaign(seed: int = SEED, counts: dict[str, int] | None = None, say: Callable[[str], None] = lambda _: None) -> dict[str, Tally]:
    """Run `counts` inputs of each kind, in a folder of its own that is gone afterwards.

    Parameters
    ----------
    seed : int
    counts : dict
        Kind -> how many; `COUNTS` if left out.
    say : callable
        Is told each kind as it ends.
    """
    kinds: dict[str, Callable[[int, int, Tally], None]] = {
        "options": lambda seed, count, tally: _inside(options(seed, count), tally),
        "files": _files,
        "calls": _calls,
        "targets": lambda seed, count, tally: _inside(targets(seed, count), tally),
        "signals": lambda seed, count, tally: _outside(signals(seed, count), tally),
        "environments": lambda seed, count, tally: _outside(environments(seed, count), tally),
    }
    found: dict[str, Tally] = {}
    for kind, count in (COUNTS if counts is None else counts).items():
        found[kind] = Tally()
        started = time.monotonic()
        with _folder():
            kinds[kind](seed, count, found[kind])
        say(f"{kind}: {found[kind].inputs} inputs, {len(found[kind].faults)} faults, {time.monotonic() - started:.0f} s")
        for fault in found[kind].faults:
            say(f"  {fault}")
    return found


@contextlib.contextmanager
def _folder() -> Iterator[None]:
    before, path = os.getcwd(), list(sys.path)
    with tempfile.TemporaryDirectory(prefix="dpwitness-fuzz-") as folder:
        os.chdir(folder)
        Path("hostile.py").write_text(HOSTILE_FILE, encoding="utf-8")
        try:
            yield
        finally:
            os.chdir(before)
            sys.path[:] = path


def _inside(runs: Iterator[Run], tally: Tally) -> None:
    """Through `main`, in this process: a hundred times as fast."""
    for run in runs:
        code, text, left = _called(list(run.arguments))
        tally.take(str(run), code, text, left)


class _Hung(BaseException):
    pass


def _called(arguments: list[str]) -> tuple[int | None, str, int]:
    from dpwitness.cli import main

    out, token, late = io.StringIO(), uuid.uuid4().hex, [False]

    def alarm(*_: Any) -> None:
        late[0] = True
        raise _Hung

    before = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, _LIMIT)
    os.environ[_TOKEN] = token
    code: int | None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = main(arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 99
    except _Hung:
        code = None
    except BaseException as error:
        code = 99
        out.write(f'Traceback (most recent call last) File "dpwitness/x.py" {type(error).__name__}')
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        del os.environ[_TOKEN]
    return None if late[0] else code, out.getvalue(), _left(token)


def signs(data: Any, size: int, rng: np.random.Generator) -> Any:
    """Three uniform numbers the product of whose signs is positive more often on D1: no columns or pairs of them tell, trees do."""
    values = rng.uniform(-1.0, 1.0, (size, 3))
    agree = rng.random(size) < (0.9 if data[0] else 0.1)
    values[:, 2] = np.abs(values[:, 2]) * np.sign(values[:, 0] * values[:, 1]) * np.where(agree, 1, -1)
    return values


def _files(seed: int, count: int, tally: Tally) -> None:
    """Witnesses gone wrong, replayed: of a score that is a line, and of one with trees."""
    from dpwitness.auditors.black_box.audit import audit
    from dpwitness.bench.mutants import mutants
    from dpwitness.mechanisms import Laplace, Pair

    line = audit(Laplace(1.0, arithmetic="grid", noise_multiplier=0.3), trials=10_000, seed=seed, bits=False)
    trees = audit(signs, claim="pure:1", pair=Pair([0.0], [1.0]), trials=20_000, seed=seed, bits=False)
    for number, result in enumerate((line, trees)):
        assert result.witness is not None and (number == 0 or result.method == "trees")
        for mutant in mutants(json.loads(json.dumps(result.witness)), (count + number) // 2, seed + number):
            Path("witness.json").write_bytes(mutant.content)
            code, text, left = _called(["replay", "witness.json", "--trials", "1000"])
            tally.take(mutant.what, code, text, left)


def _calls(seed: int, count: int, tally: Tally) -> None:
    """Junk into the Python API: a result, or an InvalidArgument of one line; anything else counts as a traceback."""
    import warnings

    from dpwitness.bench.hostile.junk import calls, fault

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls(seed, count):
            wrong = fault(call)
            tally.take(str(call), 0, f'Traceback (most recent call last) File "/dpwitness/x.py" {wrong}' if wrong else "", 0)


def _outside(runs: Iterator[Run], tally: Tally) -> None:
    """As a program of its own, to which no signal is dead: what is ignored here (nohup, a background job) would be ignored there."""
    before = [(signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_DFL))]
    before.append((signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler)))
    try:
        for run in runs:
            code, text, left = _started(run)
            tally.take(str(run), code, text, left, also=(-signal.SIGKILL,) if run.signal == signal.SIGKILL else ())
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _started(run: Run) -> tuple[int | None, str, int]:
    token = uuid.uuid4().hex
    command = [sys.executable, "-m", "dpwitness", *run.arguments]
    environment = {**os.environ, **run.environment, _TOKEN: token}
    if run.redirection:
        command = ["/bin/bash", "-c", f'"$@" {run.redirection}', "-", *command]
    with tempfile.TemporaryFile("w+b") as said:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True)
        try:
            if run.signal:
                _send(process, run)
            code: int | None = process.wait(_LIMIT)
        except subprocess.TimeoutExpired:
            code = None
            process.kill()
            process.wait()
        left = _left(token)
        said.seek(0)
        text = said.read(200_000).decode(errors="replace")
    # what a process says that was killed from outside is nobody's message
    return code, "" if run.signal == signal.SIGKILL else text, left


def _send(process: subprocess.Popen[bytes], run: Run) -> None:
    """Once the program has begun to listen to signals: what the interpreter does before that is its own."""
    for _ in range(1200):
        if process.poll() is not None or _listens(process.pid):
            break
        time.sleep(0.025)
    time.sleep(run.delay)
    for _ in range(2 if run.again else 1):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(run.signal)
        time.sleep(0.2 if run.again else 0.0)


def _listens(pid: int) -> bool:
    try:
        caught = re.search(r"SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return True
    return caught is not None and bool(int(caught.group(1), 16) >> (signal.SIGHUP - 1) & 1)


def _left(token: str) -> int:
    """Processes that carry the token two seconds after the end; they are then ended."""
    for _ in range(80):
        found = [pid for pid in _carriers(token) if pid != os.getpid()]
        if not found:
            return 0
        time.sleep(0.025)
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def _carriers(token: str) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    if token.encode() in file.read():
                        found.append(int(name))
    return found


def measure() -> Table:
    """The whole campaign: about twenty minutes on two cores."""
    return told(campaign(say=lambda line: print(line, file=sys.stderr, flush=True)))


def told(found: dict[str, Tally]) -> Table:
    """What a campaign came to, kind by kind."""
    rows = []
    for kind, tally in found.items():
        rows.append(Row(f"{kind}: inputs", COUNTS[kind], tally.inputs, "inputs"))
        for name in ("tracebacks", "hangs", "orphans", "undocumented"):
            what = "undocumented exit codes" if name == "undocumented" else name
            rows.append(Row(f"{kind}: {what}", 0, getattr(tally, name), "inputs", at_most=True))
        rows.append(Row(f"{kind}: errors in one line that nobody had foreseen", 0, tally.unknown, "inputs", at_most=True))
    notes = [f"seed {SEED}; {sum(tally.inputs for tally in found.values())} inputs"]
    notes += [f"{kind}: exit codes {dict(sorted(tally.codes.items()))}" for kind, tally in found.items()]
    notes += [fault for tally in found.values() for fault in tally.faults[:5]]
    return Table("fuzz", tuple(rows), tuple(notes))
