"""Inputs of the fuzz campaign, determined by a seed: command lines, target files, environments and
signals, and valid calls of the public functions in which one or two arguments are replaced by junk.

Each call must return a result or raise a one-line `InvalidArgument`.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import inspect
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import dpwitness as dpw
from dpwitness import mechanisms as m
from dpwitness.auditors.audit.audit import OtherSettings
from dpwitness.auditors.density.search import worst_output
from dpwitness.auditors.functions.sensitivity import sensitivity_at
from dpwitness.auditors.functions.utility import FailureBound, MeanBound, Scaling
from dpwitness.core.values.validation import InvalidArgument, short_repr
from dpwitness.mechanisms.textbook.zoo import paper_zoo

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


_ValidCall = tuple[Callable[..., Any], Callable[[], dict[str, Any]]]


class _Hostile:
    """Object on which every operation raises."""

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("junk")

    __repr__ = __str__ = __len__ = __iter__ = __bool__ = __float__ = __int__ = __eq__ = __lt__ = (
        __array__
    ) = _raise
    __hash__ = None  # type: ignore[assignment]


def _junk_makers() -> list[Callable[[], Any]]:
    """Return functions that create junk, so that no call sees an object that an earlier call
    modified.
    """

    def endless() -> list[Any]:
        out: list[Any] = []
        out.append(out)
        return out

    structured = np.dtype([("a", "i4"), ("b", "f8")])
    return [
        *(lambda v=v: v for v in (None, True, False, 0, -1, 3, 10**400, 10**5000, -(2**63), 1.5, -0.0, 1e308, 5e-324)),
        *(lambda v=v: v for v in (float("nan"), float("inf"), -float("inf"), 1j, "", "x", "pure", "pure:", "pure:nan", "1e400")),
        *(lambda v=v: v for v in ("\x1b[31m\n", "\udcff", "a" * 10_000, b"", b"\xff", Decimal("NaN"), Decimal(1), Fraction(1, 3), ...)),
        *(lambda v=v: v for v in (int, object, InvalidArgument, len, print, datetime.date(2020, 1, 1), range(3), frozenset([1]))),
        lambda: [], lambda: {}, lambda: (), lambda: set(), lambda: [None], lambda: [1, "a"], lambda: [[1], 2], lambda: {"a": 1},
        lambda: {1: 2}, lambda: {"a": [1], "b": [1, 2]}, lambda: ({},), endless, lambda: (i for i in range(3)), lambda: bytearray(3),
        lambda: np.array([]), lambda: np.array(1.0), lambda: np.zeros((2, 0)), lambda: np.ones((2, 3)), lambda: np.array([np.nan, 1.0]),
        lambda: np.array([None, 1], dtype=object), lambda: np.array(["a", "b"]), lambda: np.array([1j]), lambda: np.zeros(2, np.longdouble),
        lambda: np.zeros(2, structured), lambda: np.ma.array([1.0, 2.0], mask=[False, True]), lambda: np.array(["2020"], "M8[Y]"),
        lambda: np.arange(3), lambda: np.float32(2), lambda: np.int8(-3), lambda: np.bool_(True), lambda: np.longdouble(1),
        object, _Hostile, lambda: [_Hostile()], lambda: m.Laplace(1.0), lambda: m.PureDP(1.0), lambda: m.Records(1), lambda: m.Laplace,
    ]  # fmt: skip


class Call:
    """One call with junk arguments: ``call()`` executes it, ``str(call)`` describes it."""

    def __init__(
        self, function: Callable[..., Any], arguments: dict[str, Any], spoiled: dict[str, Any]
    ) -> None:
        self._function, self._arguments, self._spoiled = function, arguments, spoiled

    def __call__(self) -> Any:
        return self._function(**{**self._arguments, **self._spoiled})

    def __str__(self) -> str:
        arguments_text = ", ".join(
            f"{name}={short_repr(value)}" for name, value in self._spoiled.items()
        )
        return f"{getattr(self._function, '__name__', self._function)}({arguments_text})"


def fault(call: Call) -> str:
    """Return "" for a call that returns a result or raises a one-line InvalidArgument, else a
    description of the failure.
    """
    try:
        call()
    except InvalidArgument as error:
        text = str(error)
        return (
            ""
            if text and text.isprintable() and len(text) < 1000
            else f"{call}: message {text[:200]!r}"
        )
    except Exception as error:
        return f"{call}: {type(error).__name__}: {str(error)[:200]}"
    return ""


def calls(seed: int, count: int) -> Iterator[Call]:
    """Yield calls of all public functions and constructors, in a random order determined by the
    seed.
    """
    rng = random.Random(seed)
    functions, values = _public_calls(), _junk_makers()
    for _ in range(count):
        function, make = rng.choice(functions)
        arguments = make()
        names = list(inspect.signature(function).parameters)
        if "others" in names:
            names[names.index("others") :] = OtherSettings.__annotations__
        names = [name for name in names if name not in _UNCHANGED_PARAMETERS]
        # exceptions of a user's function are passed on, so junk for function arguments must not be
        # callable
        chosen = rng.sample(names, min(len(names), 1 + (rng.random() < 0.2)))
        spoiled = {
            name: _uncallable_junk(rng, values)
            if name in _FUNCTION_PARAMETERS
            else rng.choice(values)()
            for name in chosen
        }
        yield Call(function, arguments, spoiled)


_UNCHANGED_PARAMETERS = ("args", "kwargs", "options")
_FUNCTION_PARAMETERS = ("function", "error", "score", "norm", "transform", "mechanism", "progress")


def _uncallable_junk(rng: random.Random, values: list[Callable[[], Any]]) -> Any:
    """Return junk that is not callable."""
    while callable(found := rng.choice(values)()):
        pass
    return found


def _public_calls() -> list[_ValidCall]:
    """Return public callables, each with a function that creates the arguments of a small valid
    call.
    """
    return [
        *_audit_calls(),
        *_CLAIM_CALLS,
        *_DATASET_CALLS,
        *((cls, functools.partial(dict, given)) for cls, given in _mechanism_calls()),
    ]


def _audit_calls() -> list[_ValidCall]:
    """Return the calls of audits and searches."""

    def leaky(dataset: Any, size: int, rng: Any) -> Any:
        return np.sum(dataset) + rng.laplace(0.0, 0.5, size)

    def error(size: int, rng: Any) -> Any:
        return np.abs(rng.laplace(size=size))

    def pair() -> Any:
        return dpw.Pair(np.array([0.0]), np.array([1.0]))

    quick = {"evaluations": 30, "seconds": 0.5}
    outputs = np.random.default_rng(0).laplace(size=(2, 1200))
    witness = dpw.audit(leaky, claim="pure:0.1", pair=pair(), trials=20_000, seed=1).witness
    return [
        (
            dpw.audit,
            lambda: {"mechanism": leaky, "claim": "pure:1", "pair": pair(), "trials": 1000},
        ),
        (
            dpw.audit,
            lambda: {"mechanism": leaky, "claim": "pure:1", "domain": m.Records(1), "trials": 1000},
        ),
        (dpw.certify, lambda: {"mechanism": m.Laplace(1.0), "pair": pair(), "trials": 10_000}),
        (
            dpw.domains.search,
            lambda: {"mechanism": leaky, "domain": m.Records(1), "claim": m.PureDP(1.0), **quick},
        ),
        (
            dpw.audit_sensitivity,
            lambda: {"function": np.sum, "claimed_bound": 1.0, "domain": m.Records(2), **quick},
        ),
        (sensitivity_at, lambda: {"function": np.sum, "claimed_bound": 1.0, "pair": pair()}),
        (dpw.audit_utility, lambda: {"error": error, "claim": MeanBound(1.2), "runs": 200}),
        (
            dpw.audit_outputs,
            lambda: {"outputs0": outputs[0], "outputs1": outputs[1], "claim": "pure:1"},
        ),
        (
            dpw.results.limit,
            lambda: {
                "mechanism": m.Laplace(1.0),
                "pair": pair(),
                "claim": "pure:1",
                "trials": 20_000,
                "confidence": 0.95,
            },
        ),
        (
            dpw.check_mechanism,
            lambda: {
                "mechanism": m.Laplace(1.0),
                "trials": 1000,
                "checks": ["check_dataset_is_left_alone"],
            },
        ),
        (dpw.replay, lambda: {"witness": witness, "mechanism": leaky, "trials": 1000}),
        (worst_output, lambda: {"mechanism": m.Laplace(1.0), "pair": pair()}),
    ]


# calls that build claims on privacy and on utility
_CLAIM_CALLS: list[_ValidCall] = [
    (dpw.parse_claim, lambda: {"text": "pure:1"}),
    (dpw.PureDP, lambda: {"epsilon": 1.0}),
    (dpw.ApproxDP, lambda: {"epsilon": 1.0, "delta": 1e-5}),
    (dpw.GDP, lambda: {"mu": 1.0}),
    (dpw.RDP, lambda: {"alpha": 2.0, "epsilon": 1.0}),
    (dpw.ZCDP, lambda: {"rho": 1.0}),
    (dpw.claims.RenyiCurve, lambda: {"orders": (2.0, 4.0), "epsilons": (0.3, 0.7)}),
    (dpw.claims.TradeoffCurve, lambda: {"alpha": [0.0, 0.3, 1.0], "beta": [1.0, 0.3, 0.0]}),
    (dpw.claims.DPSGD, lambda: {"sampling_probability": 0.1, "noise_multiplier": 1.0, "steps": 10}),
    (dpw.claims.MetricDP, lambda: {"epsilon": 1.0, "distance": 2.0}),
    (dpw.claims.CoordinateDP, lambda: {"epsilons": (1.0, 2.0)}),
    (dpw.claims.GroupDP, lambda: {"size": 2, "claim": dpw.PureDP(1.0)}),
    (FailureBound, lambda: {"bound": 1.0, "beta": 0.1}),
    (MeanBound, lambda: {"bound": 1.0}),
    (Scaling, lambda: {"exponent": 1.0, "grid": (1, 4, 16, 64)}),
]


# calls that build domains, datasets and pairs; pairs, which take any objects, are tried four times as
# often
_DATASET_CALLS: list[_ValidCall] = [
    (m.Answers, lambda: {"length": 2}),
    (m.Counts, lambda: {"length": 2}),
    (m.Records, lambda: {"size": 2}),
    (m.Rows, lambda: {"size": 2, "labels": (0, 1)}),
    (m.LabelledBall, lambda: {"dimension": 2, "size": 3}),
    (m.Costs, lambda: {"length": 2, "dimension": 2, "bound": 1.0}),
    (m.LabelledVectors, lambda: {"x": [[0.0], [1.0]], "y": [0, 1]}),
    (m.LinearCosts, lambda: {"x": [[0.0], [1.0]]}),
    *[(dpw.Pair, lambda: {"d0": np.array([0.0]), "d1": np.array([1.0])})] * 4,
]


def _mechanism_calls() -> list[tuple[Any, dict[str, Any]]]:
    """Return the constructors of the reference mechanisms, each with the arguments of an existing
    instance.
    """
    built: dict[Any, dict[str, Any]] = {}
    pending = [*m.zoo().values(), *(specimen.mechanism for specimen in paper_zoo().values())]
    while pending:
        instance = pending.pop()
        if (
            not dataclasses.is_dataclass(instance)
            or isinstance(instance, type)
            or not type(instance).__module__.startswith("dpwitness.mechanisms")
        ):
            continue
        fields = {f.name: getattr(instance, f.name) for f in dataclasses.fields(instance) if f.init}
        if type(instance) not in built:
            built[type(instance)] = fields
            pending += fields.values()  # nested objects: a learner, its loss, its kernel
    return list(built.items())
