"""Junk for the public functions: valid calls in which one or two arguments are replaced by junk.

Each call must return a result or raise a one-line `InvalidArgument`. `calls` yields any number of
calls, determined by a seed.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import inspect
import random
from collections.abc import Callable, Iterator
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
from dpwitness.core.datasets.pairs import RELATIONS
from dpwitness.core.values.validation import InvalidArgument, short_repr
from dpwitness.mechanisms.textbook.zoo import paper_zoo

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


def pair_calls(seed: int, count: int) -> Iterator[Call]:
    """Yield pairs of nested junk: lists, tuples, dicts and arrays of each other and of all junk
    values.
    """
    rng, values = random.Random(seed), _junk_makers()

    def nested(depth: int) -> Any:
        if depth > 2 or rng.random() > 0.35:
            return (
                rng.choice(values)()
                if rng.random() < 0.7
                else rng.choice([1, 0.5, "a", np.array([1.0, 2.0])])
            )
        items = [nested(depth + 1) for _ in range(rng.randrange(4))]
        kind = rng.randrange(3)
        return (
            {rng.choice("abc$"): item for item in items}
            if kind == 2
            else tuple(items)
            if kind
            else items
        )

    for _ in range(count):
        d0 = nested(0)
        d1 = d0 if rng.random() < 0.1 else nested(0)
        yield Call(dpw.Pair, {"relation": rng.choice(list(RELATIONS))}, {"d0": d0, "d1": d1})


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
