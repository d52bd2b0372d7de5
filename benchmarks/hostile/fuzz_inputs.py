"""Inputs of the fuzz campaign: command lines, target files, environments and signals, determined by
a seed.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field

HOSTILE_FILE = '''
import ctypes
import os
import signal
import sys
import threading
import time

import numpy as np


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def fine(dataset, size, rng):
    return np.round(1024 * (np.sum(dataset) + rng.laplace(0.0, 1.0, size))) / 1024


def act(dataset, size, rng, *, how, rate=1.0):
    """Does what `how` says with probability `rate`, and is private otherwise."""
    if rng.random() >= rate:
        return fine(dataset, size, rng)
    return getattr(Acts, how)(dataset, size, rng)


class Acts:
    def raises(d, n, r): raise ValueError("no")
    def mute(d, n, r): raise Mute()
    def exits(d, n, r): sys.exit(7)
    def quits(d, n, r): os._exit(0)
    def aborts(d, n, r): os.abort()
    def interrupts(d, n, r): raise KeyboardInterrupt
    def generator_exit(d, n, r): raise GeneratorExit
    def kills(d, n, r): os.kill(os.getpid(), signal.SIGKILL)
    def kills_group(d, n, r): os.killpg(0, signal.SIGKILL)
    def kills_parent(d, n, r): os.kill(os.getppid(), signal.SIGTERM); return fine(d, n, r)
    def segfault(d, n, r): ctypes.string_at(0)
    def sleeps(d, n, r): time.sleep(60)
    def spins(d, n, r):
        while True: pass
    def holds(d, n, r): ctypes.PyDLL(None).sleep(60)
    def deaf(d, n, r):
        for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(s, signal.SIG_IGN)
        return fine(d, n, r)
    def prints(d, n, r): print("x" * 10_000); os.write(1, b"bytes"); os.write(2, b"\\x1b[31m"); return fine(d, n, r)
    def prints_on(d, n, r):
        while True: sys.stdout.write("x" * 10_000)
    def closes(d, n, r): os.closerange(0, 50); return fine(d, n, r)
    def forks(d, n, r):
        if os.fork() == 0: time.sleep(60)
        return fine(d, n, r)
    def daemon(d, n, r):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0: time.sleep(60)
            os._exit(0)
        return fine(d, n, r)
    def twice(d, n, r): os.fork(); return fine(d, n, r)
    def threads(d, n, r): threading.Thread(target=time.sleep, args=(60,)).start(); return fine(d, n, r)
    def recursion(d, n, r): return Acts.recursion(d, n, r)
    def memory(d, n, r): return np.ones(4 * 10**9)[:n]
    def none(d, n, r): return None
    def short(d, n, r): return fine(d, n, r)[:-1]
    def deep(d, n, r):
        x = []
        for _ in range(3000): x = [x]
        return [x] * n
    def itself(d, n, r): x = []; x.append(x); return [x] * n
    def objects(d, n, r): return [object() for _ in range(n)]
    def huge(d, n, r): return [10**3000] * n
    def nan(d, n, r): return np.full(n, np.nan)
    def texts(d, n, r): return ["\\ud800\\x1b[2J" + str(x) for x in r.random(n) < 0.5]
    def wide(d, n, r): return np.zeros((n, 2000)) + r.laplace(0.0, 1.0, (n, 1))
    def ragged(d, n, r): return [list(range(int(k))) for k in r.integers(0, 4, n)]
    def generator(d, n, r): return (x for x in range(n))
    def endless(d, n, r):
        def on():
            while True: yield 1
        return on()
    def mutates(d, n, r): d[:] = 7; return fine(d, n, r)
    def chdir(d, n, r): os.chdir("/"); return fine(d, n, r)
    def patches(d, n, r): import json; json.dumps = None; return fine(d, n, r)
'''
ACTS = [
    line.split()[1].partition("(")[0]
    for line in HOSTILE_FILE.partition("class Acts:")[2].splitlines()
    if line.startswith("    def ")
]

LAPLACE = [
    "audit",
    "dpwitness.mechanisms:Laplace",
    "--kwargs",
    '{"epsilon": 1, "arithmetic": "grid"}',
    "--trials",
    "1000",
]
PAIR = ["--claim", "pure:1", "--d0", "[0]", "--d1", "[1]", "--trials", "1000"]
_TEXTS = (
    "", "x", "-", "--", "=", "\udcff", "\x1b[31m", "é" * 300, "a\nb", "../..", "/proc/none", "nan", "inf", "-inf", "1e400", "0x10", "٣",
)  # fmt: skip
_NUMBERS = (
    "0", "-1", "1", "2", "0.5", "1e3", "1e18", "1e19", "1e5000000", "-1e18", "1e-400", "nan", "sNaN", "inf", "1_000", "1e", "१", "", "x",
)  # fmt: skip
_DATA = (
    "[0]", "[1]", "[[0, 1], [1, 1]]", "[]", "{}", "null", "true", "0", '""', '["a"]', "[NaN]", "[1e400]", "[1, [2]]", "[" * 3000,
    '{"$type": 1}',
    '{"$type": "array", "dtype": "O", "shape": [1], "value": [1]}', '["\\ud800"]', "[" + "9" * 400 + "]",
    '{"$type": "tuple", "value": [1]}', "[0",
)  # fmt: skip
_CLAIMS = (
    "pure:1", "pure:0", "pure:-1", "pure:nan", "pure:", "approx:1,1e-5", "approx:1", "zcdp:1", "rdp:2,1", "rdp:1,1", "gdp:1", "dp:1",
    ":", "x",
)  # fmt: skip
_VALUES: dict[str, tuple[str, ...]] = {
    "--claim": _CLAIMS, "--d0": _DATA, "--d1": _DATA, "--kwargs": (*_DATA, '{"epsilon": 2}', '{"scale": 1}', '{"epsilon": "x"}'),
    "--relation": ("replace-one", "add-remove", "l1", "linf", *_TEXTS), "--confidence": (*_NUMBERS, "0.99"), "--stop": ("never", "gross",
    "x"),
    "--time-limit": (*_NUMBERS, "5"), "--memory": (*_NUMBERS, "4"), "--trials": _NUMBERS, "--seed": _NUMBERS, "--workers": ("0", "1",
    "2", "-1", "1e18", "x"),
    "--search-seconds": ("0.01", "-1", "nan", "x"), "--report": ("out", "a/b", "/proc/none", "/dev/null", "x.json", ""),
    "--python": ("/bin/true", "/nonexistent", "", "x"),
    "--executor": ("threads:2", "processes:2", "threads:0", "dask-local:x", "mpi", "dask://nobody", *_TEXTS),
}  # fmt: skip
_FLAGS = (
    "--json",
    "--bits",
    "--white-box",
    "--in-process",
    "--help",
    "--version",
    "--nothing",
    "-k",
    "-x",
)
_COMMANDS = ("audit", "claims", "list", "replay", "check", "report", "plan", "Audit", "")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the command line: arguments, additional environment, shell redirection, signal,
    and delay of the signal.
    """

    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    redirection: str = ""
    signal: int = 0
    delay: float = 0.0
    again: bool = False  # whether the signal is sent twice

    def __str__(self) -> str:
        arguments_text = " ".join(
            argument if len(argument) < 60 else argument[:60] + "..." for argument in self.arguments
        )
        more = [f"{key}={value}" for key, value in self.environment.items()] + [self.redirection]
        signal_text = (
            f" [{signal.Signals(self.signal).name} after {self.delay:.2f} "
            f"s{' twice' if self.again else ''}]"
            if self.signal
            else ""
        )
        return ascii(" ".join([*more, "dpwitness", arguments_text]).strip()) + signal_text


def options(seed: int, count: int) -> Iterator[Run]:
    """Yield command lines that end at once, or that run a thousand rounds of a mechanism of
    dpwitness.
    """
    rng = random.Random(f"options {seed}")
    bases = [
        LAPLACE, [*LAPLACE, *PAIR[2:6]], [*LAPLACE, "--search"], ["claims", "show", "CM-06"], ["claims", "list"], ["list", "mechanisms"],
        ["replay", "none.json"], ["check", "none.py"], ["audit", "none.py:f", *PAIR],
    ]  # fmt: skip
    single_commands = [
        ["suite", "zoo", "-k", "nothing-has-this-name"], ["bench", "no-such-bench"], ["targets", "list"], ["targets", "new", "hostile.py"],
        ["targets", "setup", "no-such-environment"], ["claims", "check", "no-such-claim"], ["replay", "/dev/full"], ["replay", "."],
    ]  # fmt: skip
    for _ in range(count):
        if rng.random() < 0.1:
            base = list(rng.choice(single_commands))
            yield Run(
                (*base, rng.choice(_FLAGS[4:] + _TEXTS)) if rng.random() < 0.5 else tuple(base)
            )
            continue
        found = list(rng.choice(bases))
        for _ in range(rng.choice((1, 1, 2, 3))):
            _change_argument(found, rng)
        yield Run(tuple(found))


def _change_argument(arguments: list[str], rng: random.Random) -> None:
    """Change one random argument."""
    how = rng.random()
    place = rng.randrange(1, len(arguments)) if len(arguments) > 1 else 0
    if how < 0.6:
        option = rng.choice(list(_VALUES))
        arguments += [option, rng.choice(_VALUES[option])]
    elif how < 0.75:
        arguments.append(rng.choice(_FLAGS))
    elif how < 0.85 and "--trials" not in arguments[place - 1 : place + 1]:
        del arguments[place]
    elif how < 0.95:
        arguments.insert(place, rng.choice(_TEXTS))
    elif arguments and arguments[0] != "suite":
        arguments[0] = rng.choice(_COMMANDS)


def targets(seed: int, count: int) -> Iterator[Run]:
    """Yield audits of misbehaving functions, which misbehave always or occasionally, with one
    worker or two.
    """
    rng = random.Random(f"targets {seed}")
    for i in range(count):
        how, rate = ACTS[i % len(ACTS)], rng.choice((1.0, 1.0, 0.2, 0.02))
        limits = ["--time-limit", "2", "--memory", "4"]
        more = rng.choice(([], ["--json"], ["--workers", "2"], ["--report", "out"]))
        yield Run(
            (
                "audit",
                "hostile.py:act",
                "--kwargs",
                f'{{"how": "{how}", "rate": {rate}}}',
                *PAIR,
                *limits,
                *more,
            )
        )


def signals(seed: int, count: int) -> Iterator[Run]:
    """Yield runs that get a signal at a random moment: audits in workers and in pools, and checks
    of claims.
    """
    rng = random.Random(f"signals {seed}")
    slow = ["audit", "hostile.py:fine", *PAIR[:-1], "1e10"]
    commands = [
        [*slow, "--workers", "2"], [*slow, "--workers", "2", "--in-process"], slow, [*slow, "--in-process", "--report", "out"],
        ["audit", "hostile.py:act", "--kwargs", '{"how": "deaf"}', *PAIR[:-1], "1e10", "--workers", "2"],
        ["claims", "check", "all", "--quick", "--workers", "2"], ["audit", *LAPLACE[1:-1], "1e11", "--workers", "2"],
    ]  # fmt: skip
    for i in range(count):
        sign = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)[i % 4]
        yield Run(
            tuple(rng.choice(commands)),
            signal=sign,
            delay=rng.uniform(0.0, 4.0),
            again=sign != signal.SIGKILL and rng.random() < 0.25,
        )


def environments(seed: int, count: int) -> Iterator[Run]:
    """Yield runs with unusual home folders, locales, standard streams and interpreter settings."""
    rng = random.Random(f"environments {seed}")
    variables = [
        {}, {"HOME": "/proc/none"}, {"HOME": ""}, {"HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none", "NUMBA_CACHE_DIR": "/proc/none"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {"LC_ALL": "xx_XX.nothing"}, {"PYTHONIOENCODING": "ascii"},
        {"TERM": "dumb", "COLUMNS": "1"},
        {"PYTHONOPTIMIZE": "2"}, {"MPLBACKEND": "nonsense"}, {"PYTHONHASHSEED": "3", "PYTHONDONTWRITEBYTECODE": "1"},
        {"TMPDIR": "/proc/none"}, {"PATH": ""},
        {"DPWITNESS_HOME": "/proc/none"}, {"DPWITNESS_HOME": "~nobody-has-this-name/x"}, {"PYTHONWARNINGS": "always"},
        {"PYTHONUNBUFFERED": "1"},
    ]  # fmt: skip
    streams = [
        "", ">/dev/full", ">&-", "2>&-", ">&- 2>&- <&-", "2>/dev/full",
        "| head -0; exit ${PIPESTATUS[0]}", "| head -1; exit ${PIPESTATUS[0]}", "<&-",
    ]  # fmt: skip
    commands = [
        ["list"], ["claims", "list"], LAPLACE, [*LAPLACE, "--json"], [*LAPLACE, "--report", "out"], ["audit", "hostile.py:fine", *PAIR],
        ["audit", "hostile.py:act", "--kwargs", '{"how": "texts"}', *PAIR], ["targets", "list"], ["--help"], ["--version"], ["audit",
        "none.py:f"],
        [*LAPLACE, "--report", "/dev/full"], ["claims", "show", "CM-06"],
    ]  # fmt: skip
    for _ in range(count):
        yield Run(
            tuple(rng.choice(commands)),
            environment=rng.choice(variables),
            redirection=rng.choice(streams),
        )
