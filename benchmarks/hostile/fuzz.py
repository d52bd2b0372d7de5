"""Fuzz campaign of ten thousand inputs.

Each input must end in time, without a traceback, with a documented exit code, and without leftover
processes.
"""

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

from dpwitness.benchmarks.hostile.inputs import (
    HOSTILE_FILE,
    Run,
    environments,
    options,
    signals,
    targets,
)
from dpwitness.benchmarks.table import Row, Table, root_seed, seed_note

COUNTS = {
    "options": 4000,
    "files": 3000,
    "calls": 2500,
    "targets": 300,
    "signals": 100,
    "environments": 150,
}
# time limit of one input in seconds, on a busy machine: a search alone takes 30
_TIME_LIMIT = 120.0
_TOKEN_VARIABLE = "DPWITNESS_FUZZ"
_OWN_FRAME = re.compile(
    r'File "[^"]*/(dpwitness|mechanisms|auditors|proofs_checks|reports)/[^"]*\.py"'
)


@dataclass(slots=True)
class Tally:
    """Outcome counts of one kind of input."""

    inputs: int = 0
    tracebacks: int = 0
    hangs: int = 0
    orphans: int = 0
    undocumented: int = 0
    unknown: int = 0  # ended with one line and code 3, by an unexpected error
    faults: list[str] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)

    def take(
        self, what: str, code: int | None, text: str, left: int, also: tuple[int, ...] = ()
    ) -> None:
        """Count one input: its exit code (None if it hung), its output, and the number of leftover
        processes.
        """
        self.inputs += 1
        self.codes[str(code)] = self.codes.get(str(code), 0) + 1
        found = {
            "hangs": code is None,
            "tracebacks": "Traceback (most recent call last)" in text
            and bool(_OWN_FRAME.search(text)),
            "undocumented": code is not None and code not in (0, 1, 2, 3, *also),
            "orphans": left > 0,
            "unknown": code == 3 and "an unexpected error" in text,
        }
        for name, occurred in found.items():
            if occurred:
                setattr(self, name, getattr(self, name) + 1)
                self.faults.append(f"{name} (exit code {code}): {what}: {text[-300:]!a}")


def campaign(
    seed: int, counts: dict[str, int] | None = None, say: Callable[[str], None] = lambda _: None
) -> dict[str, Tally]:
    """Run `counts` inputs of each kind (default: `COUNTS`) in a temporary folder, passing a line to
    `say` when a kind is finished.
    """
    kinds: dict[str, Callable[[int, int, Tally], None]] = {
        "options": lambda seed, count, tally: _run_in_process(options(seed, count), tally),
        "files": _replay_mutants,
        "calls": _call_api,
        "targets": lambda seed, count, tally: _run_in_process(targets(seed, count), tally),
        "signals": lambda seed, count, tally: _run_as_programs(signals(seed, count), tally),
        "environments": lambda seed, count, tally: _run_as_programs(
            environments(seed, count), tally
        ),
    }
    found: dict[str, Tally] = {}
    for kind, count in (COUNTS if counts is None else counts).items():
        found[kind] = Tally()
        started = time.monotonic()
        with _folder():
            kinds[kind](seed, count, found[kind])
        say(
            f"{kind}: {found[kind].inputs} inputs, {len(found[kind].faults)} faults, "
            f"{time.monotonic() - started:.0f} s"
        )
        for fault in found[kind].faults:
            say(f"  {fault}")
    return found


@contextlib.contextmanager
def _folder() -> Iterator[None]:
    """Change into a temporary folder with the hostile target file."""
    before, path = os.getcwd(), list(sys.path)
    with tempfile.TemporaryDirectory(prefix="dpwitness-fuzz-") as folder:
        os.chdir(folder)
        Path("hostile.py").write_text(HOSTILE_FILE, encoding="utf-8")
        try:
            yield
        finally:
            os.chdir(before)
            sys.path[:] = path


def _run_in_process(runs: Iterator[Run], tally: Tally) -> None:
    """Run command lines through `main` in this process, a hundred times faster than in new
    processes.
    """
    for run in runs:
        code, text, left = _call_main(list(run.arguments))
        tally.take(str(run), code, text, left)


class _Hung(BaseException):
    """Exception of the timer when an input exceeds its time limit."""

    pass


def _call_main(arguments: list[str]) -> tuple[int | None, str, int]:
    """Run one command line in this process; return its exit code, its output, and the number of
    leftover processes.
    """
    from dpwitness.cli import main

    out, token, timed_out = io.StringIO(), uuid.uuid4().hex, [False]

    def alarm(*_: Any) -> None:
        timed_out[0] = True
        raise _Hung

    before = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, _TIME_LIMIT)
    os.environ[_TOKEN_VARIABLE] = token
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
        del os.environ[_TOKEN_VARIABLE]
    return None if timed_out[0] else code, out.getvalue(), _count_leftovers(token)


def signs(data: Any, size: int, rng: np.random.Generator) -> Any:
    """Return three uniform numbers whose product of signs is positive more often on D1.

    No single column or pair of columns separates the datasets, but trees do.
    """
    values = rng.uniform(-1.0, 1.0, (size, 3))
    agree = rng.random(size) < (0.9 if data[0] else 0.1)
    values[:, 2] = (
        np.abs(values[:, 2]) * np.sign(values[:, 0] * values[:, 1]) * np.where(agree, 1, -1)
    )
    return values


def _replay_mutants(seed: int, count: int, tally: Tally) -> None:
    """Replay damaged witnesses of a linear score and of a score with trees."""
    from dpwitness.auditors.audit.audit import audit
    from dpwitness.benchmarks.damaged_witnesses import mutants
    from dpwitness.mechanisms import Laplace, Pair

    line = audit(
        Laplace(1.0, arithmetic="grid", noise_multiplier=0.3), trials=10_000, seed=seed, bits=False
    )
    asked: Any = {"claim": "pure:1", "pair": Pair([0.0], [1.0]), "trials": 20_000, "bits": False}
    # about every second seed learns a score with trees
    learned = (audit(signs, seed=seed + turn, **asked) for turn in range(30))
    trees = next(result for result in learned if result.method == "trees")
    for number, result in enumerate((line, trees)):
        assert result.witness is not None
        for mutant in mutants(
            json.loads(json.dumps(result.witness)), (count + number) // 2, seed + number
        ):
            Path("witness.json").write_bytes(mutant.content)
            code, text, left = _call_main(["replay", "witness.json", "--trials", "1000"])
            tally.take(mutant.what, code, text, left)


def _call_api(seed: int, count: int, tally: Tally) -> None:
    """Call the Python API with junk arguments; anything except a result or a one-line
    InvalidArgument counts as a traceback.
    """
    import warnings

    from dpwitness.benchmarks.hostile.inputs import calls, fault

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls(seed, count):
            failure = fault(call)
            tally.take(
                str(call),
                0,
                f'Traceback (most recent call last) File "/dpwitness/x.py" {failure}'
                if failure
                else "",
                0,
            )


def _run_as_programs(runs: Iterator[Run], tally: Tally) -> None:
    """Run command lines as programs with default signal handlers.

    A signal that is ignored in this process (nohup, a background job) would also be ignored in the
    programs.
    """
    before = [(signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_DFL))]
    before.append((signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler)))
    try:
        for run in runs:
            code, text, left = _run_program(run)
            tally.take(
                str(run),
                code,
                text,
                left,
                also=(-signal.SIGKILL,) if run.signal == signal.SIGKILL else (),
            )
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _run_program(run: Run) -> tuple[int | None, str, int]:
    """Run one command line as a program; return its exit code, its output, and the number of
    leftover processes.
    """
    token = uuid.uuid4().hex
    command = [sys.executable, "-m", "dpwitness", *run.arguments]
    environment = {**os.environ, **run.environment, _TOKEN_VARIABLE: token}
    if run.redirection:
        command = ["/bin/bash", "-c", f'"$@" {run.redirection}', "-", *command]
    with tempfile.TemporaryFile("w+b") as output_file:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output_file,
            stderr=output_file,
            start_new_session=True,
        )
        try:
            if run.signal:
                _send_signal(process, run)
            code: int | None = process.wait(_TIME_LIMIT)
        except subprocess.TimeoutExpired:
            code = None
            process.kill()
            process.wait()
        left = _count_leftovers(token)
        output_file.seek(0)
        text = output_file.read(200_000).decode(errors="replace")
    # the output of a killed process is not a message of the program
    return code, "" if run.signal == signal.SIGKILL else text, left


def _send_signal(process: subprocess.Popen[bytes], run: Run) -> None:
    """Send the run's signal after the program has installed its signal handlers; earlier signals
    would only hit the interpreter.
    """
    for _ in range(1200):
        if process.poll() is not None or _handles_signals(process.pid):
            break
        time.sleep(0.025)
    time.sleep(run.delay)
    for _ in range(2 if run.again else 1):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(run.signal)
        time.sleep(0.2 if run.again else 0.0)


def _handles_signals(pid: int) -> bool:
    """Return whether a process has installed a handler for SIGHUP."""
    try:
        caught = re.search(r"SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return True
    return caught is not None and bool(int(caught.group(1), 16) >> (signal.SIGHUP - 1) & 1)


def _count_leftovers(token: str) -> int:
    """Return the number of processes with the token in their environment two seconds after the end,
    and kill them.
    """
    for _ in range(80):
        found = [pid for pid in _processes_with_token(token) if pid != os.getpid()]
        if not found:
            return 0
        time.sleep(0.025)
    for pid in found:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def _processes_with_token(token: str) -> list[int]:
    """Return the ids of processes with the token in their environment."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    if token.encode() in file.read():
                        found.append(int(name))
    return found


def measure(seed: int | None = None) -> Table:
    """Run the complete campaign, in about twenty minutes on two cores, and return its table."""
    seed = root_seed(seed)
    found, rows = campaign(seed, say=lambda line: print(line, file=sys.stderr, flush=True)), []
    for kind, tally in found.items():
        rows.append(Row(f"{kind}: inputs", COUNTS[kind], tally.inputs, "inputs"))
        for name in ("tracebacks", "hangs", "orphans", "undocumented"):
            what = "undocumented exit codes" if name == "undocumented" else name
            rows.append(Row(f"{kind}: {what}", 0, getattr(tally, name), "inputs", at_most=True))
        rows.append(
            Row(f"{kind}: unforeseen errors in one line", 0, tally.unknown, "inputs", at_most=True)
        )
    notes = [seed_note("fuzz", seed)]
    notes += [
        f"{kind}: exit codes {dict(sorted(tally.codes.items()))}" for kind, tally in found.items()
    ]
    notes += [fault for tally in found.values() for fault in tally.faults[:5]]
    return Table("fuzz", tuple(rows), tuple(notes))
