"""Privacy filters: the exact composition of the mechanisms that a filter admits, compared with the
budget.

The adversary is adaptive. It releases randomized response, and continues with one of two sequences
of mechanisms, depending on the output (Rogers, Roth, Ullman and Vadhan 2016). Each sequence is cut
where the filter stops. The composed privacy is an exact finite sum.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flint import arb, ctx

from dpwitness.auditors.functions.accounting.mechanisms import Point
from dpwitness.auditors.functions.accounting.profiles import Composition, Unavailable
from dpwitness.auditors.functions.accounting.search import Comparison, Found, number_of
from dpwitness.core.balls.ball import PRECISION, Ball, down
from dpwitness.core.values.validation import InvalidArgument, short_repr

MECHANISM = "privacy-filter"
RETURNS = "admitted"
ARGUMENTS = ("epsilons", "deltas", "epsilon", "delta")
_LONGEST = 200  # largest number of mechanisms in one sequence

Call = Callable[[Sequence[Mapping[str, Any]]], Sequence[Any]]


def points(seed: int) -> Iterator[Point]:
    """Return budgets and pairs of sequences to try: equal sequences, then sequences that differ
    after the first output.
    """
    rng = np.random.default_rng(seed)
    while True:
        epsilon, delta = (
            float(rng.choice([0.1, 0.5, 1.0, 3.0])),
            float(rng.choice([1e-9, 1e-6, 1e-3, 1e-2])),
        )
        count = int(rng.choice([1, 2, 3, 10, 50, _LONGEST]))
        size = float(rng.choice([0.05, 0.2, 0.5, 0.9])) * epsilon
        failure = 0.0 if rng.random() < 0.5 else delta / float(rng.choice([2.0, 10.0, 100.0]))
        after = [(size * float(scale), failure) for scale in rng.choice([0.3, 1.0, 3.0], size=2)]
        if rng.random() < 0.4:
            after = [(size, failure)] * 2
        sequences = [[(size, failure), *[each] * (count - 1)] for each in after]
        yield {
            "epsilons": tuple(e for e, _ in sequences[0]),
            "deltas": tuple(d for _, d in sequences[0]),
            "other_epsilons": tuple(e for e, _ in sequences[1]),
            "other_deltas": tuple(d for _, d in sequences[1]),
            "epsilon": epsilon,
            "delta": delta,
        }


def search_filter(
    call: Call, names: Mapping[str, str], seconds: float, evaluations: int, seed: int
) -> Found:
    """Compare the budget's delta with that of the admitted composition, until the search budget is
    spent or a composed delta is larger.
    """
    end, found = time.monotonic() + seconds, Found()
    for count, at in enumerate(points(seed)):
        if count >= evaluations or (count > 0 and time.monotonic() > end):
            break
        found = compared_filter(found, call, names, at)
        if found.violation is not None:
            return replace(found, violation=_shortened(call, names, found.violation))
    return found


def compared_filter(found: Found, call: Call, names: Mapping[str, str], at: Point) -> Found:
    """Return the state of a search after the comparison at one budget and pair of sequences."""
    first, second = (
        {"epsilons": at[e], "deltas": at[d]}
        for e, d in (("epsilons", "deltas"), ("other_epsilons", "other_deltas"))
    )
    budget = {"epsilon": at["epsilon"], "delta": at["delta"]}
    answers = call([_arguments(names, sequence | budget) for sequence in (first, second)])
    try:
        lengths = [_count(answer, len(at["epsilons"])) for answer in answers]
        exact = composed_delta(at, lengths)
    except ValueError as error:
        kept = (
            found.failures
            if len(found.failures) >= 3
            else tuple(dict.fromkeys((*found.failures, str(error))))
        )
        return replace(found, failed=found.failed + 1, failures=kept)
    except Unavailable:
        return replace(found, unavailable=found.unavailable + 1)
    new = Comparison(at, at["delta"], exact)
    worse = found.lowest is None or new.ratio < found.lowest.ratio
    violation = new if exact > at["delta"] * (1 + 1e-9) + 1e-15 else found.violation
    return replace(
        found,
        lowest=new if worse else found.lowest,
        violation=violation,
        compared=found.compared + 1,
    )


def composed_delta(at: Point, lengths: Sequence[int]) -> float:
    """Return a lower bound on the delta of the admitted mechanisms at the budget's epsilon."""
    if min(lengths) == 0:
        return 0.0
    with ctx.workprec(PRECISION):
        size, failure = arb(at["epsilons"][0]), arb(at["deltas"][0])
        total = failure
        names = (("epsilons", "deltas"), ("other_epsilons", "other_deltas"))
        for loss, (e, d), length in zip((size, -size), names, lengths, strict=True):
            mass = (1 - failure) / (1 + (-loss).exp())
            total += mass * _rest(
                tuple(zip(at[e][1:length], at[d][1:length], strict=True)), arb(at["epsilon"]) - loss
            )
        return max(down(total.lower()), 0.0)


def _rest(factors: tuple[tuple[float, float], ...], epsilon: Ball) -> Ball:
    """Return the hockey-stick divergence of a composition, also at a negative epsilon. Without
    factors the laws are equal.
    """
    if not factors:
        return (1 - epsilon.exp()) if epsilon < 0 else arb(0)
    return Composition(factors).delta(epsilon)


def _shortened(call: Call, names: Mapping[str, str], violation: Comparison) -> Comparison:
    """Return a violation with shorter sequences, if there is one."""
    best = violation
    for length in range(1, len(violation.at["epsilons"])):
        at = {
            key: value[:length] if isinstance(value, tuple) else value
            for key, value in violation.at.items()
        }
        found = compared_filter(Found(), call, names, at)
        if found.violation is not None:
            return found.violation
    return best


def _count(answer: Any, most: int) -> int:
    """Return the number of admitted mechanisms. Raise ValueError for anything else."""
    found, problem = number_of(answer)
    if problem:
        raise ValueError(problem)
    if not 0 <= found <= most or found != int(found):
        raise ValueError(
            f"returned {short_repr(answer)}, not a number of mechanisms from 0 to {most}"
        )
    return int(found)


def _arguments(names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value := values[key], tuple) else value
        for name, key in names.items()
    }


def require_point(at: Mapping[str, Any]) -> Point:
    """Return the budget and the sequences of a witness. Raise InvalidArgument unless they may be
    tried.
    """
    lists = ("epsilons", "deltas", "other_epsilons", "other_deltas")
    for key in lists:
        value = at.get(key)
        high = 1.0 if key.endswith("deltas") else 100.0
        if (
            not isinstance(value, tuple)
            or not 1 <= len(value) <= _LONGEST
            or not all(0 <= x <= high for x in value)
        ):
            raise InvalidArgument(
                f"at.{key} must be a list of at most {_LONGEST} numbers in [0, {high:g}], "
                f"got {short_repr(value)}"
            )
    if (
        len({len(at[key]) for key in lists}) > 1
        or at["epsilons"][0] != at["other_epsilons"][0]
        or at["deltas"][0] != at["other_deltas"][0]
    ):
        raise InvalidArgument(
            "at must have sequences of equal length that begin with the same mechanism"
        )
    for key, high in (("epsilon", 100.0), ("delta", 1.0)):
        value = at.get(key)
        if not isinstance(value, int | float) or not 0 < value <= high or math.isnan(value):
            raise InvalidArgument(f"at.{key} must be in (0, {high:g}], got {short_repr(value)}")
    return dict(at)
