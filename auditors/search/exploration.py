"""Maximization of a score over the neighboring pairs of a domain.

The stages are:

1. the shapes of the domain's catalog;
2. CMA-ES over the changed record, the common records, their multiplicities and the output;
3. random pairs, and random steps from the best of them;
4. a lattice on which Hypothesis maximizes the score and shrinks the result: its pairs have few
   records, coordinates in quarters, and multiplicities that are powers of ten;
5. simplification of the best pair."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings, target

from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.search.shrinking import shrunk
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.domains.base import SearchSpace
from dpwitness.core.numerics.cma_es import minimize_cma_es
from dpwitness.core.numerics.solvers import ConvergenceError
from dpwitness.core.protocols.mechanism import FloatArray


class _ThresholdExceeded(Exception):
    """Raised at a pair whose score exceeds the threshold: Hypothesis shrinks examples
    that raise.
    """


STEPS = 0.6  # RESTARTS for domains of categories, over which CMA-ES cannot optimize
# share of the evaluations reserved for random pairs and random steps from the best of them
RESTARTS = 0.15

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


@dataclass(slots=True)
class Exploration:
    """Results of a search."""

    candidates: list[Candidate] = field(default_factory=list)  # the best candidates, best first
    # number of evaluations and best value, at each improvement
    trace: list[tuple[int, float]] = field(default_factory=list)
    evaluations: int = 0  # number of scored pairs
    skipped: int = 0  # number of these pairs on which a solver did not converge
    reason: str = ""  # message of the last skipped pair

    @property
    def best(self) -> float:
        """Return the highest score; minus infinity if every pair was skipped."""
        return self.candidates[0].value if self.candidates else -math.inf

    def add(self, candidate: Candidate, keep: int) -> None:
        """Insert a candidate. Keep the best candidate of each origin (`pair.why`), and at most
        `keep` in total.
        """
        if not candidate.value > -math.inf:
            return
        if candidate.value > self.best:
            self.trace.append((self.evaluations, candidate.value))
        others = [c for c in self.candidates if c.pair.why != candidate.pair.why]
        same = [c for c in self.candidates if c.pair.why == candidate.pair.why]
        winner = max([*same, candidate], key=lambda c: c.value)
        self.candidates = sorted([*others, winner], key=_rank)[:keep]


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
    stop: float = math.inf,
) -> Exploration:
    """Maximize a score over the pairs of a domain, until a limit is reached or a final value
    reaches `stop`.

    ``score(pair, z)`` returns a value and an output that belongs to it, where `z` has `extra` free
    coordinates that are optimized along with the pair. ``settle(pair, output)`` returns the final
    value, which costs more than the score; without `settle`, the score is final. At most
    `max_candidates` candidates are returned.
    """
    run = _Run(
        domain,
        score,
        extra,
        settle,
        evaluations,
        time.monotonic() + seconds,
        seconds,
        seed,
        max_candidates,
        stop,
    )
    run.catalogue()
    run.evolution()
    run.restarts()
    run.lattice()
    run.simplify()
    return run.found


@dataclass(slots=True)
class _Run:
    """One search: its settings, and the results so far in `seen`. Each stage is a method."""

    domain: Domain
    score: Score
    extra: int
    settle: FinalScore | None
    budget: int
    deadline: float
    seconds: float
    seed: int
    max_candidates: int
    stop: float
    found: Exploration = field(default_factory=Exploration)

    def evaluate(self, pair: Pair, tail: FloatArray) -> tuple[float, FloatArray | None]:
        """Return the score and its output; minus infinity where a solver does not converge."""
        self.found.evaluations += 1
        try:
            value, output = self.score(pair, tail)
        except ConvergenceError as error:
            self.found.skipped += 1
            self.found.reason = str(error)
            return -math.inf, None
        return (value, output) if not math.isnan(value) else (-math.inf, None)

    def settled(
        self, pair: Pair, output: FloatArray | None, value: float, why: str | None = None
    ) -> Candidate:
        """Add a candidate with its final value to the results, and return the candidate."""
        if self.settle is not None:
            try:
                value, output = self.settle(pair, output)
            except ConvergenceError as error:
                self.found.skipped += 1
                self.found.reason = str(error)
                value = -math.inf
        labeled = pair if why is None else Pair(pair.d0, pair.d1, pair.relation, why)
        candidate = Candidate(labeled, value, output)
        self.found.add(candidate, self.max_candidates)
        return candidate

    @property
    def restart_share(self) -> float:
        """Return the share of the evaluations that is reserved for restarts."""
        return STEPS if self.domain.unordered else RESTARTS

    @property
    def over(self) -> bool:
        """Return whether a limit of the search is reached."""
        return (
            self.found.evaluations >= self.budget
            or time.monotonic() > self.deadline
            or self.found.best >= self.stop
        )

    def catalogue(self) -> None:
        """Score the pairs of the catalog, and compute the final values of the best."""
        scored: list[tuple[float, int, Pair, FloatArray | None]] = []
        limit = self.deadline - 0.6 * self.seconds
        for i, pair in enumerate(pairs_for(self.domain)):
            if scored and (time.monotonic() > limit or self.over):
                break
            value, output = self.evaluate(pair, np.zeros(self.extra))
            scored.append((value, i, pair, output))
        for value, _, pair, output in sorted(scored, key=lambda row: (-row[0], row[1]))[
            : max(self.max_candidates, 4)
        ]:
            self.settled(pair, output, value)
            if self.over:
                return

    def evolution(self) -> None:
        """Run CMA-ES from several layouts, then again with more patience from the best
        end points.
        """
        end_points: list[tuple[float, int, SearchSpace, FloatArray]] = []
        start_time, horizon = time.monotonic(), self.deadline - 0.2 * self.seconds
        middle = start_time + 0.5 * (horizon - start_time)
        turn, spent, share = (
            0,
            self.found.evaluations,
            min(0.45, 0.85 - self.restart_share) * self.budget,
        )
        while (
            not self.over and time.monotonic() < middle and self.found.evaluations - spent < share
        ):
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
            turn += 1
        end_points.sort(key=lambda row: (-row[0], row[1]))
        for index, (_, _, shape, point) in enumerate(end_points[:2]):
            value, start = -math.inf, point
            for again in range(6):
                left = int((1 - self.restart_share) * self.budget) - self.found.evaluations
                if self.over or left <= 0 or time.monotonic() > horizon:
                    return
                patience = min(max(200, int(0.25 * self.budget)), left)
                found, start = self.climb(
                    shape,
                    start[None, :],
                    0.4 / (1 + again % 3),
                    patience,
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
        best: list[Any] = [-math.inf, starts[0], None, None]

        def cost(points: FloatArray) -> FloatArray:
            found = np.full(len(points), np.inf)
            for i, z in enumerate(points):
                if time.monotonic() > until:
                    break
                pair = shape.decode(z[: shape.size])
                if pair is None:
                    continue
                value, output = self.evaluate(pair, z[shape.size :])
                found[i] = -value
                if value > best[0]:
                    best[:] = [value, z.copy(), pair, output]
            return found

        cost(starts)
        if best[2] is not None and best[0] < self.stop:
            minimize_cma_es(
                cost,
                best[1],
                step,
                seed=1 + (self.seed * 1009 + number) % (2**31 - 2),
                evaluations=patience,
                deadline=until,
            )
        if best[2] is not None and (best[0] > 0.98 * self.found.best or not self.found.candidates):
            self.settled(best[2], best[3], best[0], f"found by search, start {number}")
        return float(best[0]), np.asarray(best[1])

    def restarts(self) -> None:
        """Draw random pairs, and take random steps from the best of every dozen.

        The first dozen includes the best candidate so far.
        """
        rng = np.random.default_rng([self.seed, 2**31])
        draw, counter = self.domain.draws(rng), itertools.count()
        moves = draw.moves()
        most = min(self.budget, self.found.evaluations + int(self.restart_share * self.budget))
        until = self.deadline - 0.1 * self.seconds
        starts = [candidate.pair for candidate in self.found.candidates[:1]]
        for number in range(most):
            best = self.best_of(
                [*starts, *(draw(next(counter)) for _ in range(12 - len(starts)))], most, until
            )
            if best is None:
                return
            given, starts, idle_steps = starts, [], 0
            while (
                moves is not None
                # after so many steps without improvement, the next restart begins
                and idle_steps < 100
                and best.value < math.inf
                and self.found.evaluations < most
            ):
                if self.over or time.monotonic() > until:
                    break
                part, pair = moves.step(best.pair)
                idle_steps += 1
                if pair is None:
                    continue
                value, output = self.evaluate(pair, np.zeros(self.extra))
                moves.learn(part, best.value, value)
                if value > best.value:
                    idle_steps = 0
                if value >= best.value:
                    best = Candidate(pair, value, output)
            if best.pair not in given and (
                best.value > 0.98 * self.found.best or not self.found.candidates
            ):
                self.settled(
                    best.pair, best.output, best.value, f"found by search, restart {number}"
                )

    def best_of(self, pairs: Sequence[Pair | None], most: int, until: float) -> Candidate | None:
        """Return the best of the pairs that can be scored within the evaluation and time limits;
        None if none was scored.
        """
        best: Candidate | None = None
        for pair in pairs:
            if self.over or self.found.evaluations >= most or time.monotonic() > until:
                break
            if pair is not None:
                value, output = self.evaluate(pair, np.zeros(self.extra))
                if best is None or value > best.value:
                    best = Candidate(pair, value, output)
        return best

    def lattice(self) -> None:
        """Add the simplest lattice pair that exceeds the best value so far, if there is one."""
        remaining = min(self.deadline - time.monotonic(), 0.15 * self.seconds)
        pairs = self.domain.lattice()
        if remaining <= 0 or self.over or pairs is None:
            return
        tail, best = np.zeros(self.extra), self.found.best
        above = best + 1e-3 * abs(best) if math.isfinite(best) else 0.0
        deadline = time.monotonic() + remaining
        simplest: list[tuple[Pair, float]] = []

        @seed(self.seed)
        @settings(
            max_examples=int(np.clip(self.budget // 20, 20, 400)),
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.target, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
        )
        @given(pairs)
        def attempt(pair: Pair) -> None:
            if time.monotonic() > deadline:  # let the remaining examples pass without a score
                return
            value, _ = self.evaluate(pair, tail)
            if math.isfinite(value):
                target(value)
            if value > above:
                simplest[:] = [(pair, value)]
                raise _ThresholdExceeded

        try:
            attempt()
        except _ThresholdExceeded:
            pass
        except BaseExceptionGroup as group:
            if not all(isinstance(error, _ThresholdExceeded) for error in group.exceptions):
                raise
        except Exception as error:
            # Past the deadline a failing example no longer fails, and Hypothesis reports it as
            # flaky. The pair remains valid.
            if type(error).__name__ not in ("Flaky", "FlakyFailure", "FlakyReplay") or not simplest:
                raise
        for pair, value in simplest:
            self.settled(pair, None, value, "simplest found on a lattice")

    def simplify(self) -> None:
        """Replace the best candidate by a simpler pair that keeps its value within a relative loss
        of 3e-4.
        """
        if not self.found.candidates:
            return
        pair, best, output = self.found.candidates[0]
        if not math.isfinite(best) or best <= 0:
            return

        def value_of(candidate: Pair) -> float:
            try:
                if self.settle is not None:
                    return self.settle(candidate, output, thorough=False)[0]
                return self.score(candidate, np.zeros(self.extra))[0]
            except ConvergenceError:
                return -math.inf

        least = best * (1 - 3e-4)
        left = max(0.1 * self.seconds, self.deadline - time.monotonic())
        end = time.monotonic() + min(left, 0.25 * self.seconds)
        simple = shrunk(
            pair,
            self.domain.simpler,
            lambda candidate: value_of(candidate) >= least,
            lambda: time.monotonic() >= end,
        )
        if simple is not pair:
            value = value_of(simple)
            # A simple pair is worth more to a reader than the last 3e-4 of the value.
            self.found.candidates[0] = Candidate(simple, value, output)
            self.found.candidates.sort(key=_rank)
