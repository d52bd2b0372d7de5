"""Exact error probability of a tool that returns a lower confidence bound on epsilon from canary
scores.

The scores are 1 if a normal variable exceeds a threshold, and 0 otherwise; the mean of the variable
is mu for canaries inside, and 0 for those outside. So the mechanism is Gaussian with this mu, its
counts are binomial, and the probability that the bound exceeds the true epsilon is a finite sum.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flint import arb, ctx, fmpz

from dpwitness.auditors.functions.accounting.mechanisms import Point
from dpwitness.auditors.functions.accounting.profiles import Gaussian, normal_cdf
from dpwitness.auditors.functions.accounting.search import Comparison, Found, number_of
from dpwitness.core.balls.ball import PRECISION, Ball, down
from dpwitness.core.values.validation import InvalidArgument, short_repr

MECHANISM = "gaussian-canaries"
RETURNS = "lower-epsilon"
ARGUMENTS = ("in_scores", "out_scores", "significance", "delta")
_CANARIES, _MUS, _THRESHOLDS = (5, 10), (1e-6, 0.5, 2.0), (0.0, 1.5, -1.5)
_SIGNIFICANCES, _DELTAS = (0.05, 0.01), (1e-5, 1e-3)
_MOST_CANARIES = 30  # largest number of canaries on each side in a witness
_SOLVER = 1e-5  # error of a bound that is a solver's tolerance

Call = Callable[[Sequence[Mapping[str, Any]]], Sequence[Any]]


def points() -> Iterator[Point]:
    """Return the laws of the scores to try, with few canaries first."""
    for canaries, significance, delta, mu, threshold in itertools.product(
        _CANARIES, _SIGNIFICANCES, _DELTAS, _MUS, _THRESHOLDS
    ):
        yield {
            "canaries": canaries,
            "mu": mu,
            "threshold": threshold,
            "significance": significance,
            "delta": delta,
        }


def search_coverage(
    call: Call, names: Mapping[str, str], seconds: float, evaluations: int, seed: int
) -> Found:
    """Compare the claimed error probability with the exact one, until the time is spent or the
    exact probability is larger.
    """
    end, found = time.monotonic() + seconds, Found()
    for at in itertools.islice(points(), evaluations):
        found = compared_error(found, call, names, at)
        if found.violation is not None or time.monotonic() > end:
            break
    return found


def compared_error(found: Found, call: Call, names: Mapping[str, str], at: Point) -> Found:
    """Return the state of a search after the comparison at one law of the scores."""
    counts = range(at["canaries"] + 1)
    pairs = list(itertools.product(counts, counts))
    answers = call([_arguments(names, at, inside, outside) for inside, outside in pairs])
    read = [number_of(answer) for answer in answers]
    failed = [problem for _, problem in read if problem]
    # no bound is never wrong
    bounds = {
        pair: 0.0 if problem else bound for pair, (bound, problem) in zip(pairs, read, strict=True)
    }
    error = exact_error(bounds, at)
    new = Comparison(at, at["significance"], error)
    violated = error > at["significance"] * (1 + 1e-9)
    worse = found.lowest is None or new.ratio < found.lowest.ratio
    return Found(
        lowest=new if worse else found.lowest,
        violation=new if violated else found.violation,
        compared=found.compared + 1,
        failed=found.failed + len(failed),
        failures=tuple(sorted({*found.failures, *failed}))[:3],
    )


def exact_error(bounds: Mapping[tuple[int, int], float], at: Point) -> float:
    """Return a lower bound on the probability that the tool's bound exceeds the true epsilon."""
    with ctx.workprec(PRECISION):
        mu, threshold, canaries = arb(at["mu"]), arb(at["threshold"]), at["canaries"]
        inside, outside = normal_cdf(mu - threshold), normal_cdf(-threshold)
        profile, delta, total = Gaussian(mu), arb(at["delta"]), arb(0)
        for (a, b), bound in bounds.items():
            value = bound - _SOLVER * (1 + abs(bound)) if math.isfinite(bound) else bound
            if value > 0 and (value == math.inf or profile.delta(arb(value)) < delta):
                total += _binomial(a, canaries, inside) * _binomial(b, canaries, outside)
        return max(down(total.lower()), 0.0)


def _binomial(count: int, total: int, p: Ball) -> Ball:
    return arb(fmpz.bin_uiui(total, count)) * p**count * (1 - p) ** (total - count)


def _arguments(names: Mapping[str, str], at: Point, inside: int, outside: int) -> dict[str, Any]:
    values = {
        "in_scores": [1.0] * inside + [0.0] * (at["canaries"] - inside),
        "out_scores": [1.0] * outside + [0.0] * (at["canaries"] - outside),
        "significance": at["significance"],
        "delta": at["delta"],
    }
    return {argument: values[parameter] for argument, parameter in names.items()}


def require_point(at: Mapping[str, Any]) -> Point:
    """Return the law of a witness. Raise InvalidArgument unless it is one that may be tried."""
    rules: dict[str, Callable[[Any], bool]] = {
        "canaries": lambda v: isinstance(v, int) and 1 <= v <= _MOST_CANARIES,
        "mu": lambda v: 0 < v <= 30,
        "threshold": lambda v: abs(v) <= 30,
        "significance": lambda v: 0 < v < 1,
        "delta": lambda v: 0 < v < 1,
    }
    for key, rule in rules.items():
        if key not in at or isinstance(at[key], bool | str | tuple) or not rule(at[key]):
            raise InvalidArgument(
                f"at.{key} must be in the range of a law of scores, got {short_repr(at.get(key))}"
            )
    return dict(at)
