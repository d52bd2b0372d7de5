"""Outcomes of a transformation, and the comparison of two outcomes with the stability map."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from dpwitness.auditors.functions.stability.exact_numbers import Exact, Incomparable, rounds
from dpwitness.auditors.functions.stability.metrics import Metric
from dpwitness.core.values.validation import error_text
from dpwitness.mechanisms.wrappers.programs.declared import Aborted, Unfinished

_NEAR = 1 - 1e-9  # share of a bound from which an estimate is replaced by the exact distance

EXCEEDS, ROUNDING, RAISES, ABORTS = "exceeds", "rounding", "raises", "aborts"
# of a randomized transformation: outputs exceed the map in more runs than random numbers explain
LAW = "law"
SEVERITY = (EXCEEDS, ABORTS, RAISES, ROUNDING)


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception or an abort as an outcome."""

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text if self.kind == ABORTS else f"raises {self.text}"


@dataclass(frozen=True, slots=True)
class Excess:
    """Comparison of two outcomes: the kind of finding, the distance to the power `root` (None for
    errors), and its ratio to the bound.
    """

    kind: str
    measured: Exact | None
    ratio: float


def outcome_of(value: Any) -> Any:
    """Return a value as it is, and an exception as a Failure."""
    if not isinstance(value, BaseException):
        return value
    if isinstance(value, Unfinished):
        return value
    if isinstance(value, Aborted):
        return Failure(ABORTS, str(value))
    return Failure(RAISES, error_text(value))


def applier(transformation: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that applies a transformation to datasets, which it may change, and returns
    the outcomes in order.
    """
    apply_all = getattr(transformation, "apply_all", None)
    if callable(apply_all):
        return lambda datasets: [outcome_of(value) for value in apply_all(list(datasets))]
    return partial(_apply, transformation)


def _apply(transformation: Any, datasets: Sequence[Any]) -> list[Any]:
    """Return the outcomes of a transformation on datasets."""
    found: list[Any] = []
    for dataset in datasets:
        try:
            found.append(transformation(copied(dataset)))
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:
            found.append(outcome_of(error))
    return found


def copied(dataset: Any) -> Any:
    """Return a copy of a dataset that a transformation may change."""
    if type(dataset) is list:
        return dataset[:]
    if type(dataset) is dict:
        return {
            key: column[:] if type(column) is list else copy.deepcopy(column)
            for key, column in dataset.items()
        }
    return dataset if isinstance(dataset, int | float | str | None) else copy.deepcopy(dataset)


class Comparison:
    """Comparison of outcomes with the values of a stability map."""

    def __init__(self, metric: Metric, bounds: Mapping[Any, Exact]) -> None:
        self.metric, self.bounds = metric, dict(bounds)
        self._floats = {d: float(bound) for d, bound in bounds.items()}
        self.incomparable = ""

    def ratio(self, first: Any, second: Any, d_in: Any) -> float:
        """Return the estimated ratio of the outputs' distance to the bound; NaN if there is none,
        or an outcome is an error.
        """
        if isinstance(first, Failure | Unfinished) or isinstance(second, Failure | Unfinished):
            return math.nan
        try:
            distance = self.metric.estimate(first, second)
        except (Incomparable, TypeError) as error:  # TypeError: a value without a hash
            self.incomparable = self.incomparable or str(error)
            return math.nan
        except OverflowError:
            return math.inf
        bound = self._floats[d_in]
        return distance / bound if bound > 0 else math.inf if distance > 0 else 0.0

    def is_suspect(self, ratio: float) -> bool:
        """Return whether an estimated ratio needs an exact comparison."""
        return not ratio < _NEAR

    def excess(self, first: Any, second: Any, d_in: Any) -> Excess | None:
        """Return what two outcomes show beyond the map, by exact arithmetic; None if nothing."""
        if isinstance(first, Unfinished) or isinstance(second, Unfinished):
            return None
        failures = [side for side in (first, second) if isinstance(side, Failure)]
        if failures:
            kinds = {side.kind for side in failures}
            if len(failures) == 2 and len(kinds) == 1:
                return None
            return Excess(ABORTS if ABORTS in kinds else RAISES, None, math.inf)
        bound, root = self.bounds[d_in], self.metric.root
        try:
            measured = self.metric.measure(first, second)
        except (Incomparable, TypeError) as error:
            self.incomparable = self.incomparable or str(error)
            return None
        allowed = bound**root
        if not measured > allowed:
            return None
        ratio = _ratio(measured, allowed, root)
        rounded = rounds(
            measured if isinstance(measured, float) else measured - allowed,
            allowed,
            root,
            [first, second],
        )
        return Excess(ROUNDING if rounded else EXCEEDS, measured, ratio)


def _ratio(measured: Exact, allowed: Exact, root: int) -> float:
    """Return the ratio of a distance to its bound as a float."""
    if isinstance(measured, float) or not allowed:
        return math.inf
    try:
        ratio = float(Fraction(measured) / Fraction(allowed))
        return math.sqrt(ratio) if root == 2 else ratio
    except OverflowError:
        return math.inf
