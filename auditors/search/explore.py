"""Maximization of a score over the pairs of a domain.

The stages are:

1. the shapes of the domain's catalog;
2. CMA-ES over the changed record, the common records, their multiplicities and the output;
3. random pairs, and random changes of the best of them;
4. simplification of the best pair."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.search.drafts import Draft, Drafts
from dpwitness.auditors.search.maximize import shrunk
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.domains.base import SearchSpace
from dpwitness.core.domains.frames import Table
from dpwitness.core.domains.records import Tabular
from dpwitness.core.numerics.cma_es import minimize_cma_es
from dpwitness.core.numerics.solvers import ConvergenceError
from dpwitness.core.protocols import FloatArray

Score = Callable[[Pair, FloatArray], tuple[float, FloatArray | None]]


# final value of a pair, which costs more than its score; with `thorough=False` it is cheaper, which
# suits pairs near one whose value is known
FinalScore = Callable[..., tuple[float, FloatArray | None]]


class Candidate(NamedTuple):
    """A pair, its score, and the output that attains the score, if there is one."""

    pair: Pair
    value: float
    output: FloatArray | None


def _rank(candidate: Candidate) -> float:
    """Return a sort key, best candidate first.

    Values that agree up to rounding keep their order of arrival, which is from simple to
    intricate.
    """
    return -float(f"{candidate.value:.9g}")


def explore(
    domain: Domain,
    score: Score,
    *,
    extra: int = 0,
    settle: FinalScore | None = None,
    evaluations: int,
    seconds: float,
    seed: int,
    max_candidates: int = 3,
) -> Exploration:
    """Maximize a score over the pairs of a domain, until a limit is reached.

    ``score(pair, z)`` returns a value and an output that belongs to it, where `z` has `extra` free
    coordinates that are optimized along with the pair. ``settle(pair, output)`` returns the final
    value, which costs more than the score; without `settle`, the score is final. At most
    `max_candidates` candidates are returned.
    """
    found = Exploration(domain, score, extra, settle, evaluations, seconds, seed, max_candidates)
    found.catalogue()
    found.evolution()
    found.restarts()
    found.simplify()
    return found


class Exploration:
    """One search, and its results so far. Each stage is a method.

    Attributes
    ----------
    candidates : list of Candidate
        The best candidates, best first.
    trace : list of (int, float)
        Number of evaluations and best value, at each improvement.
    evaluations, skipped : int
        Number of scored pairs, and of those on which a solver did not converge.
    reason : str
        Message of the last skipped pair.
    """

    def __init__(
        self,
        domain: Domain,
        score: Score,
        extra: int,
        settle: FinalScore | None,
        budget: int,
        seconds: float,
        seed: int,
        max_candidates: int,
    ) -> None:
        self.domain, self.score, self.extra, self.settle = domain, score, extra, settle
        self.budget, self.seconds, self.seed = budget, seconds, seed
        self.max_candidates, self.deadline = max_candidates, time.monotonic() + seconds
        # share of the evaluations for random restarts: CMA-ES cannot optimize over categories
        self.restart_share = 0.6 if domain.unordered else 0.15
        self.candidates: list[Candidate] = []
        self.trace: list[tuple[int, float]] = []
        self.evaluations = self.skipped = 0
        self.reason = ""

    @property
    def best(self) -> float:
        """Return the highest score; minus infinity if every pair was skipped."""
        return self.candidates[0].value if self.candidates else -math.inf

    def _value(self, score: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
        """Return a score and its output; minus infinity where a solver does not converge."""
        try:
            value, output = score(*arguments)
        except ConvergenceError as error:
            self.skipped += 1
            self.reason = str(error)
            return -math.inf, None
        return (value, output) if not math.isnan(value) else (-math.inf, None)

    def evaluate(self, pair: Pair, tail: FloatArray | None = None) -> Candidate:
        """Score a pair, whose output has the free coordinates `tail`, zero by default."""
        self.evaluations += 1
        return Candidate(
            pair, *self._value(self.score, pair, np.zeros(self.extra) if tail is None else tail)
        )

    def settled(self, candidate: Candidate, why: str | None = None) -> None:
        """Add a candidate with its final value. Keep the best candidate of each origin (`why`), and
        at most `max_candidates` in total.
        """
        pair, value, output = candidate
        if self.settle is not None:
            value, output = self._value(self.settle, pair, output)
        if not value > -math.inf:
            return
        if why is not None:
            pair = Pair(pair.d0, pair.d1, pair.relation, why)
        if value > self.best:
            self.trace.append((self.evaluations, value))
        others = [c for c in self.candidates if c.pair.why != pair.why]
        winner = max(
            [
                *[c for c in self.candidates if c.pair.why == pair.why],
                Candidate(pair, value, output),
            ],
            key=lambda c: c.value,
        )
        self.candidates = sorted([*others, winner], key=_rank)[: self.max_candidates]

    def settled_if_close(self, candidate: Candidate | None, why: str) -> None:
        """Add a candidate whose score is close to the best value so far."""
        if candidate is not None and (candidate.value > 0.98 * self.best or not self.candidates):
            self.settled(candidate, why)

    @property
    def over(self) -> bool:
        """Return whether a limit of the search is reached."""
        return (
            self.evaluations >= self.budget
            or time.monotonic() > self.deadline
            or self.best == math.inf
        )

    def catalogue(self) -> None:
        """Score the pairs of the catalog, and compute the final values of the best."""
        scored: list[Candidate] = []
        limit = self.deadline - 0.6 * self.seconds
        for pair in pairs_for(self.domain):
            if scored and (time.monotonic() > limit or self.over):
                break
            scored.append(self.evaluate(pair))
        scored.sort(key=lambda candidate: -candidate.value)
        for candidate in scored[: max(self.max_candidates, 4)]:
            self.settled(candidate)
            if self.over:
                return

    def evolution(self) -> None:
        """Run CMA-ES from several layouts, then again with more patience from the best
        end points.
        """
        end_points: list[tuple[float, int, SearchSpace, FloatArray]] = []
        start_time, horizon = time.monotonic(), self.deadline - 0.2 * self.seconds
        middle = start_time + 0.5 * (horizon - start_time)
        most = self.evaluations + min(0.45, 0.85 - self.restart_share) * self.budget
        for turn in itertools.count():
            if self.over or time.monotonic() >= middle or self.evaluations >= most:
                break
            rng = np.random.default_rng([self.seed, turn])
            shape = self.domain.shape(rng, turn)
            dimension = shape.size + self.extra
            if dimension == 0:  # categories alone leave no coordinate to optimize
                return
            patience = min(40 * dimension, max(self.budget // 12, 4 * dimension))
            value, point = self.climb(
                shape, rng.standard_normal((8, dimension)), 0.8, patience, middle, turn
            )
            end_points.append((value, turn, shape, point))
        end_points.sort(key=lambda row: (-row[0], row[1]))
        for index, (_, _, shape, point) in enumerate(end_points[:2]):
            value, start = -math.inf, point
            for again in range(6):
                left = int((1 - self.restart_share) * self.budget) - self.evaluations
                if self.over or left <= 0 or time.monotonic() > horizon:
                    return
                found, start = self.climb(
                    shape,
                    start[None, :],
                    0.4 / (1 + again % 3),
                    min(max(200, int(0.25 * self.budget)), left),
                    horizon,
                    100 + 10 * index + again,
                )
                if found <= value + 1e-4 * abs(value):
                    break
                value = found

    def climb(
        self,
        shape: SearchSpace,
        starts: FloatArray,
        step: float,
        patience: int,
        until: float,
        number: int,
    ) -> tuple[float, FloatArray]:
        """Run CMA-ES once from the best of some starting points, and return the best value and
        point.

        If the best point is close to the best value so far, its pair becomes a candidate with its
        final value.
        """
        best: Candidate | None = None
        best_point = starts[0]

        def cost(points: FloatArray) -> FloatArray:
            nonlocal best, best_point
            found = np.full(len(points), np.inf)
            for i, z in enumerate(points):
                if time.monotonic() > until:
                    break
                pair = shape.decode(z[: shape.size])
                if pair is None:
                    continue
                scored = self.evaluate(pair, z[shape.size :])
                found[i] = -scored.value
                if scored.value > (-math.inf if best is None else best.value):
                    best, best_point = scored, z.copy()
            return found

        cost(starts)
        if best is not None and best.value < math.inf:
            minimize_cma_es(
                cost,
                best_point,
                step,
                seed=1 + (self.seed * 1009 + number) % (2**31 - 2),
                evaluations=patience,
                deadline=until,
            )
        self.settled_if_close(best, f"found by search, start {number}")
        return -math.inf if best is None else best.value, best_point

    def restarts(self) -> None:
        """Score random pairs, and random changes of the best of every dozen."""
        rng = np.random.default_rng([self.seed, 2**31])
        draw, turns = self.domain.draws(rng), itertools.count()
        drafts = Drafts(self.domain, (), rng) if isinstance(self.domain, Tabular | Table) else None
        most = min(self.budget, self.evaluations + int(self.restart_share * self.budget))
        until = self.deadline - 0.1 * self.seconds

        def proposed(step: int, draft: Draft | None) -> tuple[Draft | None, Pair | None]:
            """Return a random pair; after a dozen, a change of the best draft."""
            if drafts is None:
                return None, draw(next(turns))
            new = drafts.draft() if step < 12 or draft is None else drafts.changed(draft)
            return new, drafts.pair(new)

        for number in itertools.count():
            best: Candidate | None = None
            draft: Draft | None = None
            idle = 0  # changes without improvement
            for step in range(12) if drafts is None else itertools.count():
                if self.over or self.evaluations >= most or time.monotonic() > until:
                    break
                new, pair = proposed(step, draft)
                if idle > 200:
                    break
                idle += 1
                found = None if pair is None else self.evaluate(pair)
                if found is not None and (best is None or found.value >= best.value):
                    idle = 0 if best is None or found.value > best.value else idle
                    best, draft = found, new
            if best is None:
                return
            self.settled_if_close(best, f"found by search, restart {number}")

    def simplify(self) -> None:
        """Replace the best candidate by a simpler pair that keeps its value within a relative loss
        of 3e-4.
        """
        if not 0 < self.best < math.inf:
            return
        pair, best, output = self.candidates[0]

        def value_of(candidate: Pair) -> float:
            try:
                if self.settle is not None:
                    return self.settle(candidate, output, thorough=False)[0]
                return self.score(candidate, np.zeros(self.extra))[0]
            except ConvergenceError:
                return -math.inf

        left = max(0.1 * self.seconds, self.deadline - time.monotonic())
        end = time.monotonic() + min(left, 0.25 * self.seconds)
        simple = shrunk(
            pair,
            self.domain.simpler,
            lambda candidate: value_of(candidate) >= best * (1 - 3e-4),
            lambda: time.monotonic() >= end,
        )
        if simple is not pair:
            # A simple pair is worth more to a reader than the last 3e-4 of the value.
            self.candidates[0] = Candidate(simple, value_of(simple), output)
            self.candidates.sort(key=_rank)
