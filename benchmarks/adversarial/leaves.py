"""Attacks with violations that an audit may overlook.

A leak in one part of an output, below or next to noise: an audit that ignores a part must not pass
it. Slow mechanisms with continuous outputs, of which 100 to 500 runs fit in the time budget, in a
random form with 1 to 200 numbers. A faulty one has noise that is 10 to 150 times too small, so that
each number that moves does so by at least eight times the scale of its noise, or no noise on one
number. Its sound twin has the noise of the claim. Only mechanisms advance the clock, so that the
number of runs does not depend on the machine.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.random import Generator

from dpwitness import Verdict, audit
from dpwitness.auditors.audit import options as audit_options
from dpwitness.auditors.workers import chunks
from dpwitness.benchmarks.adversarial.attack import (
    PAIR,
    Attack,
    failure_unless_verdict,
    false_alarm,
    response,
    seed_of,
)
from dpwitness.core.protocols import FloatArray
from dpwitness.mechanisms import PureDP

_Left, _Right = namedtuple("_Left", "value"), namedtuple("_Right", "value")
_CLASSES: tuple[Any, ...] = (_Left, _Right)
_Color = enum.Enum("_Color", "RED BLUE")


class _Slotted:
    """Object that stores the secret in a slot."""

    __slots__ = ("secret",)

    def __init__(self, secret: int) -> None:
        self.secret = secret


class _Plain:
    """Object that stores the secret deep in its attributes."""

    def __init__(self, secret: int) -> None:
        self.inner = {"deep": [secret]}


def _pandas() -> Any:
    """Import pandas on demand."""
    import pandas

    return pandas


def _attrs(noise: float, bit: int) -> Any:
    """Return a Series with the bit in its `attrs`."""
    series = _pandas().Series([noise])
    series.attrs["count"] = bit
    return series


# A leaf maps (noise, bit, place) to an output that holds the bit in one position. `place` is a
# random number that varies the position.
Leaf = Callable[[float, int, int], Any]
PLAIN: dict[str, Leaf] = {
    "order of a dict": lambda noise, bit, place: {
        f"k{i}": noise for i in ((0, 1) if bit else (1, 0))
    },
    "order of an OrderedDict": lambda noise, bit, place: OrderedDict(
        (f"k{i}", noise) for i in ((0, 1) if bit else (1, 0))
    ),
    "key of a dict": lambda noise, bit, place: {f"key {place + bit}": noise},
    "sign of zero": lambda noise, bit, place: [noise, -0.0 if bit else 0.0],
    "integer above 2^70": lambda noise, bit, place: [noise, 2 ** (70 + place) + bit],
    "integer in a dict above 2^70": lambda noise, bit, place: {
        "n": 2 ** (70 + place) + bit,
        "noise": noise,
    },
    "digit of a Decimal": lambda noise, bit, place: (
        noise,
        Decimal("1." + "0" * (25 + place) + str(bit)),
    ),
    "zeros of a Decimal": lambda noise, bit, place: (noise, Decimal("1.0" if bit else "1.00")),
    "zone of a datetime": lambda noise, bit, place: (
        noise,
        dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=bit))),
    ),
    "fold of a datetime": lambda noise, bit, place: (noise, dt.datetime(2020, 1, 1, fold=bit)),
    "name of a named tuple": lambda noise, bit, place: _CLASSES[bit](noise),
    "member of an enum": lambda noise, bit, place: (noise, list(_Color)[bit]),
    "type of an array": lambda noise, bit, place: [
        noise,
        np.zeros(1, dtype=("int32", "int64")[bit]),
    ],
    "shape of an array": lambda noise, bit, place: [noise, np.zeros((1, 2) if bit else (2, 1))],
    "None against NaN": lambda noise, bit, place: [noise, None if bit else float("nan")],
    "bool against int": lambda noise, bit, place: [noise, True if bit else 1],
    "bytes against text": lambda noise, bit, place: [noise, b"x" if bit else "x"],
    "tuple against list": lambda noise, bit, place: [noise, (1,) if bit else [1]],
    "attribute of an unknown object": lambda noise, bit, place: [noise, _Slotted(bit)],
    "deep in an unknown object": lambda noise, bit, place: [noise, _Plain(bit)],
    "element of a set": lambda noise, bit, place: (noise, {f"u{place}", f"v{bit}"}),
    "text of equal length": lambda noise, bit, place: [noise, "x" * place + "ab"[bit]],
    "real part of a complex": lambda noise, bit, place: [noise, complex(bit, 1)],
    "imaginary part of a complex": lambda noise, bit, place: [noise, complex(1, bit)],
}
FRAMES: dict[str, Leaf] = {
    "name of a Series": lambda noise, bit, place: _pandas().Series(
        [noise], name=f"users={place + bit}"
    ),
    "index of a Series": lambda noise, bit, place: _pandas().Series(
        [noise] * 2, index=["a", f"u{place + bit}"]
    ),
    "type of a Series": lambda noise, bit, place: _pandas().Series(
        [noise, 1.0], dtype=("float64", "object")[bit]
    ),
    "attrs of a Series": lambda noise, bit, place: _attrs(noise, bit),
    "label of a column": lambda noise, bit, place: _pandas().DataFrame(
        {"a": [noise], f"c{place + bit}": [1.0]}
    ),
    "order of the columns": lambda noise, bit, place: _pandas().DataFrame(
        {"ab"[i]: [noise] for i in ((0, 1) if bit else (1, 0))}
    ),
    "index of a frame": lambda noise, bit, place: _pandas().DataFrame(
        {"a": [noise]}, index=[place + bit]
    ),
    "name of an index": lambda noise, bit, place: _pandas().DataFrame(
        {"a": [noise]}, index=_pandas().Index([0], name=f"i{bit}")
    ),
    "text cell": lambda noise, bit, place: _pandas().DataFrame(
        {"a": [noise, 1.0], "t": ["x", f"v{bit}"]}
    ),
    "flag cell": lambda noise, bit, place: _pandas().DataFrame({"a": [noise], "f": [bool(bit)]}),
    "unused category": lambda noise, bit, place: (
        noise,
        _pandas().Series(_pandas().Categorical(["a"], categories=["a", f"b{bit}"])),
    ),
    "order of the categories": lambda noise, bit, place: (
        noise,
        _pandas().Series(
            _pandas().Categorical(["a"], categories=["a", "b"] if bit else ["b", "a"])
        ),
    ),
    "nanosecond of a Timestamp": lambda noise, bit, place: (
        noise,
        _pandas().Timestamp(1_600_000_000_000_000_000 + bit),
    ),
    "nanosecond of a Timedelta": lambda noise, bit, place: (
        noise,
        _pandas().Timedelta(10**9 * place + bit),
    ),
    "end of an Interval": lambda noise, bit, place: (
        noise,
        _pandas().Interval(0, 1, closed="left" if bit else "right"),
    ),
    "Period": lambda noise, bit, place: (noise, _pandas().Period("2020-01", freq="M") + bit),
    "NA against NaT": lambda noise, bit, place: (noise, _pandas().NA if bit else _pandas().NaT),
}


def _nested(value: Any, container_kinds: list[int]) -> Any:
    """Wrap a value in nested containers."""
    for step in container_kinds:
        value = ([value, "end"], {"part": value, "n": 1}, ("head", value))[step]
    return value


def hidden_leak(leaves: dict[str, Leaf], trials: int, rng: Generator) -> str:
    """Run an attack with one random leaf at a random depth that reveals the dataset in all or in
    some runs.
    """
    name, place = str(rng.choice(list(leaves))), int(rng.integers(0, 40))
    container_kinds = [int(step) for step in rng.integers(0, 3, int(rng.integers(0, 3)))]
    often = float(rng.choice([1.0, rng.uniform(0.3, 1.0)]))
    swap = int(rng.integers(2))

    def run(dataset: Any, size: int, draws: Generator) -> list[Any]:
        noise, shows = response(1.0)(dataset, size, draws), draws.random(size) < often
        return [
            _nested(
                leaves[name](float(noise[i]), int(dataset[0]) ^ swap if shows[i] else 0, place),
                container_kinds,
            )
            for i in range(size)
        ]

    result = audit(
        run, claim=PureDP(1.0), pair=PAIR, trials=trials, seed=seed_of(rng), name="attack"
    )
    return failure_unless_verdict(
        result,
        (Verdict.VIOLATED, Verdict.INCONCLUSIVE),
        f"leak in {name}, place {place}, nested {container_kinds}, share {often:.2f}",
    )


_COST = 0.3  # seconds of a run


class _Clock:
    """Clock that mechanisms advance."""

    now = 0.0


def _frame(values: FloatArray) -> Any:
    import pandas as pd

    return (
        pd.DataFrame(values[: len(values) // 2 * 2].reshape(-1, 2), columns=["a", "b"])
        if len(values) > 1
        else pd.Series(values)
    )


_FORMS: dict[str, Callable[[FloatArray, Generator], Any]] = {
    "vector": lambda x, rng: x,
    "matrix": lambda x, rng: np.outer(x, [1.0, -0.5]),
    "tuple of an integer and numbers": lambda x, rng: (int(rng.integers(5)), *x.tolist()),
    "dict of arrays": lambda x, rng: {"weights": x, "bias": rng.normal(size=2)},
    "rows": lambda x, rng: [{"place": k, "value": value} for k, value in enumerate(x.tolist())],
    "list of random length": lambda x, rng: x.tolist() + rng.normal(size=rng.integers(3)).tolist(),
    "frame": lambda x, rng: _frame(x),
}


def _mechanism(rng: Generator, *, faulty: bool) -> tuple[Any, str]:
    """Draw a mechanism with a pure claim of 1 on the pair of the datasets [0] and [1], and describe
    it.
    """
    form, size = str(rng.choice(list(_FORMS))), int(np.exp(rng.uniform(0, np.log(200))))
    factor = float(np.exp(rng.uniform(np.log(10), np.log(150))))
    size += size % 2 if form == "frame" and size > 1 else 0
    # scales of its noise by which each number moves at least
    moving = rng.permutation(size)[: rng.integers(1, max(2, min(size, int(factor / 8 + 1))))]
    # the numbers that move have a sensitivity of 1 each
    move, scale = np.zeros(size), np.full(size, 1.0 * len(moving))
    move[moving] = rng.choice([-1.0, 1.0], len(moving))
    exact = faulty and rng.random() < 0.25
    if exact:
        scale[moving[0]] = 0.0
    elif faulty:
        scale[moving] /= factor
    center, unit, build = rng.normal(0, 10, size), 10 ** rng.uniform(-3, 3, size), _FORMS[form]

    def sample(dataset: Any, runs: int, draws: Generator) -> list[Any]:
        _Clock.now += _COST * runs
        noise = scale * draws.laplace(size=(runs, size))
        return [build(row, draws) for row in unit * (center + float(dataset[0]) * move + noise)]

    fault = (
        "sound"
        if not faulty
        else "one number without noise"
        if exact
        else f"noise {factor:.0f} times too small"
    )
    return sample, f"{form} of {size} numbers, {len(moving)} of which move, {fault}"


def slow(rng: Generator, *, faulty: bool, confidence: float) -> str:
    """Audit a slow mechanism with a budget for few runs."""
    mechanism, description = _mechanism(rng, faulty=faulty)
    runs = int(np.exp(rng.uniform(np.log(120), np.log(500))))
    options: dict[str, Any] = {
        "pair": PAIR,
        "confidence": confidence,
        "seed": seed_of(rng),
        "causes": False,
    }
    with (
        patch.object(audit_options, "read_clock", lambda name: lambda: _Clock.now),
        patch.object(chunks, "perf_counter", lambda: _Clock.now),
    ):
        found = audit(
            mechanism,
            claim="pure:1",
            seconds=_COST * runs,
            trace=bool(rng.random() < 0.5),
            **options,
        )
    text = f"{description}, {found.trials} runs"
    return (
        failure_unless_verdict(found, (Verdict.VIOLATED,), text)
        if faulty
        else false_alarm(found, text)
    )


ATTACKS = (
    Attack("leak in one leaf of a plain output passes", partial(hidden_leak, PLAIN, 2000)),
    Attack("leak in one leaf of a frame passes", partial(hidden_leak, FRAMES, 1000)),
    Attack(
        "gross violation of a slow mechanism missed in few runs",
        partial(slow, faulty=True, confidence=0.99),
        0.05,
        60,
    ),
    Attack(
        "sound slow mechanism reported as VIOLATED from few runs, alpha .05",
        partial(slow, faulty=False, confidence=0.95),
        0.05,
        60,
    ),
)
