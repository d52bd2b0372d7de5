"""Audits of tools whose figure is the claim of a game: lower bounds from canary scores, and privacy
filters.

Canary scores: exact error probability of a tool that returns a lower confidence bound on epsilon.
The scores are 1 if a normal variable exceeds a threshold, and 0 otherwise; the mean of the variable
is mu for canaries inside, and 0 for those outside. So the mechanism is Gaussian with this mu, its
counts are binomial, and the probability that the bound exceeds the true epsilon is a finite sum.

Filters: the exact composition of the mechanisms that a filter admits, compared with the budget. The
adversary is adaptive. It releases randomized response, and continues with one of two sequences of
mechanisms, depending on the output (Rogers, Roth, Ullman and Vadhan 2016). Each sequence is cut
where the filter stops. The composed privacy is an exact finite sum.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flint import arb, ctx, fmpz

from dpwitness.auditors.functions.accounting.mechanisms import Point
from dpwitness.auditors.functions.accounting.profiles import Composition, Unavailable
from dpwitness.auditors.functions.accounting.search import (
    Call,
    Comparison,
    Found,
    narrowed,
    number_of,
)
from dpwitness.core.balls.ball import PRECISION, Ball, down
from dpwitness.core.balls.profiles import Gaussian, normal_cdf
from dpwitness.core.values.validation import InvalidArgument, short_repr

_LONGEST = 200  # largest number of mechanisms in one sequence
_SEQUENCES = (("epsilons", "deltas"), ("other_epsilons", "other_deltas"))


@dataclass(frozen=True, slots=True)
class Game:
    """Game that tests a tool: the arguments, those that it needs, the parameter that is the claimed
    probability, the points to try, and the check of recorded points.

    In its comparisons, the figure is the probability that the tool claims, and the exact figure is
    the true one. `exact` returns the exact figure and the problems of failed calls; it raises
    ValueError if no figure can be computed from the answers.
    """

    arguments: tuple[str, ...]
    needed: tuple[str, ...]
    claimed: str
    points: Callable[[int], Iterator[Point]]
    exact: Callable[[Call, Point], tuple[float, list[str]]]
    require_point: Callable[[Mapping[str, Any]], Point]

    def search(self, call: Call, seconds: float, evaluations: int, seed: int) -> Found:
        """Compare claimed and exact probabilities, until the search budget is spent or an exact one
        is larger, which is then shown with the shortest lists.
        """
        end, found = time.monotonic() + seconds, Found()
        for at in itertools.islice(self.points(seed), evaluations):
            found = self.compared(found, call, at)
            if found.violation is not None or time.monotonic() > end:
                break
        return narrowed(
            found, lambda at: self.compared(Found(), call, at).violation, (), seconds / 2
        )

    def compared(self, found: Found, call: Call, at: Point) -> Found:
        """Return the state of a search after the comparison at one point."""
        try:
            exact, problems = self.exact(call, at)
        except Unavailable:
            return replace(found, unavailable=found.unavailable + 1)
        except ValueError as error:
            return found.with_failures([str(error)])
        new = Comparison(at, at[self.claimed], exact)
        worse = found.lowest is None or new.ratio < found.lowest.ratio
        violated = exact > new.figure * (1 + 1e-9) + 1e-15
        return replace(
            found.with_failures(problems),
            lowest=new if worse else found.lowest,
            violation=new if violated else found.violation,
            compared=found.compared + 1,
        )


# -- lower confidence bounds from canary scores
# --------------------------------------------------------------------------------------------------


def _laws(seed: int) -> Iterator[Point]:
    """Return the laws of the scores to try, with few canaries first."""
    for canaries, significance, delta, mu, threshold in itertools.product(
        (5, 10), (0.05, 0.01), (1e-5, 1e-3), (1e-6, 0.5, 2.0), (0.0, 1.5, -1.5)
    ):
        yield {
            "canaries": canaries,
            "mu": mu,
            "threshold": threshold,
            "significance": significance,
            "delta": delta,
        }


def _error_of_tool(call: Call, at: Point) -> tuple[float, list[str]]:
    """Return the exact error probability at one law of the scores, and the problems of calls."""
    total = at["canaries"]
    pairs = list(itertools.product(range(total + 1), range(total + 1)))
    scores = [[1.0] * count + [0.0] * (total - count) for count in range(total + 1)]
    answers = call(
        [
            {**at, "in_scores": scores[inside], "out_scores": scores[outside]}
            for inside, outside in pairs
        ]
    )
    read = [number_of(answer) for answer in answers]
    # no bound is never wrong
    bounds = {
        pair: 0.0 if problem else bound for pair, (bound, problem) in zip(pairs, read, strict=True)
    }
    return exact_error(bounds, at), [problem for _, problem in read if problem]


def exact_error(bounds: Mapping[tuple[int, int], float], at: Point) -> float:
    """Return a lower bound on the probability that the tool's bound exceeds the true epsilon."""
    with ctx.workprec(PRECISION):
        mu, threshold, canaries = arb(at["mu"]), arb(at["threshold"]), at["canaries"]
        inside, outside = normal_cdf(mu - threshold), normal_cdf(-threshold)
        profile, delta, total = Gaussian(mu), arb(at["delta"]), arb(0)
        for (a, b), bound in bounds.items():
            # error of a bound that is a solver's tolerance
            value = bound - 1e-5 * (1 + abs(bound)) if math.isfinite(bound) else bound
            if value > 0 and (value == math.inf or profile.delta(arb(value)) < delta):
                total += _binomial(a, canaries, inside) * _binomial(b, canaries, outside)
        return max(down(total.lower()), 0.0)


def _binomial(count: int, total: int, p: Ball) -> Ball:
    return arb(fmpz.bin_uiui(total, count)) * p**count * (1 - p) ** (total - count)


def _require_law(at: Mapping[str, Any]) -> Point:
    """Return the law of a witness. Raise InvalidArgument unless it is one that may be tried."""
    # largest number of canaries on each side in a witness
    rules: dict[str, Callable[[Any], bool]] = {
        "canaries": lambda v: isinstance(v, int) and 1 <= v <= 30,
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


# -- privacy filters
# --------------------------------------------------------------------------------------------------


def _budgets(seed: int) -> Iterator[Point]:
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
        at: dict[str, Any] = {}
        for names, each in zip(_SEQUENCES, after, strict=True):
            sequence = [(size, failure), *[each] * (count - 1)]
            at |= zip(names, zip(*sequence, strict=True), strict=True)
        yield {**at, "epsilon": epsilon, "delta": delta}


def _delta_of_admitted(call: Call, at: Point) -> tuple[float, list[str]]:
    """Return the delta of the mechanisms that a filter admits at one budget and pair of
    sequences.
    """
    answers = call([{**at, "epsilons": at[e], "deltas": at[d]} for e, d in _SEQUENCES])
    return composed_delta(at, [_count(answer, len(at["epsilons"])) for answer in answers]), []


def composed_delta(at: Point, lengths: Sequence[int]) -> float:
    """Return a lower bound on the delta of the admitted mechanisms at the budget's epsilon."""
    if min(lengths) == 0:
        return 0.0
    with ctx.workprec(PRECISION):
        size, failure = arb(at["epsilons"][0]), arb(at["deltas"][0])
        total = failure
        for loss, (e, d), length in zip((size, -size), _SEQUENCES, lengths, strict=True):
            mass = (1 - failure) / (1 + (-loss).exp())
            rest = tuple(zip(at[e][1:length], at[d][1:length], strict=True))
            # the divergence of a composition also at a negative epsilon
            total += mass * Composition(rest).delta(arb(at["epsilon"]) - loss)
        return max(down(total.lower()), 0.0)


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


def _require_budget(at: Mapping[str, Any]) -> Point:
    """Return the budget and the sequences of a witness. Raise InvalidArgument unless they may be
    tried.
    """
    lists = [key for names in _SEQUENCES for key in names]
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


GAMES: Mapping[str, Game] = {
    "gaussian-canaries": Game(
        ("in_scores", "out_scores", "significance", "delta"),
        ("in_scores", "out_scores"),
        "significance",
        _laws,
        _error_of_tool,
        _require_law,
    ),
    "privacy-filter": Game(
        ("epsilons", "deltas", "epsilon", "delta"),
        ("epsilons", "deltas", "epsilon", "delta"),
        "delta",
        _budgets,
        _delta_of_admitted,
        _require_budget,
    ),
}
