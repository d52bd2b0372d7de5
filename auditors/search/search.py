"""Search for the neighboring pairs on which a mechanism leaks most, given its domain: maximization
of a score over the pairs, and the scores.

The stages are:

1. the shapes of the domain's catalog;
2. CMA-ES over the changed record, the common records, their multiplicities and the output;
3. random pairs, and random changes of the best of them;
4. a lattice of the same coordinates on which Hypothesis maximizes the score and shrinks the result;
5. simplification of the best pair."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, Phase, find, settings, target
from hypothesis import strategies as st
from hypothesis.errors import Flaky, NoSuchExample

from dpwitness.auditors.density.search import PairLoss, sampled, support_rows, worst_output
from dpwitness.auditors.events.learning import expected_certificate
from dpwitness.auditors.events.outputs import WrongShape
from dpwitness.auditors.search.catalogue import pairs_for, require_domain, require_settings, shrunk
from dpwitness.auditors.search.coupled import Draft, Drafts
from dpwitness.auditors.statistics.mean_limits import bracket
from dpwitness.auditors.workers.rounds import run_side, stream
from dpwitness.core.claims import Claim, promised
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.domains.base import SearchSpace
from dpwitness.core.domains.frames import Table
from dpwitness.core.domains.records import Tabular
from dpwitness.core.numerics.cma_es import minimize_cma_es
from dpwitness.core.numerics.solvers import ConvergenceError
from dpwitness.core.protocols.capabilities import HasSupport, has_capability
from dpwitness.core.protocols.mechanism import FloatArray, WhiteBox
from dpwitness.core.values.validation import InvalidArgument, require_callable, require_integer

# coordinates of the lattice, simple ones first: the middle, the ends and the quarters of intervals
_LATTICE = (0.0, 1.25, -1.25, 0.625, -0.625)

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
    stop: float = math.inf,
) -> Exploration:
    """Maximize a score over the pairs of a domain, until a limit is reached or a final value
    reaches `stop`.

    ``score(pair, z)`` returns a value and an output that belongs to it, where `z` has `extra` free
    coordinates that are optimized along with the pair. ``settle(pair, output)`` returns the final
    value, which costs more than the score; without `settle`, the score is final. At most
    `max_candidates` candidates are returned.
    """
    found = Exploration(
        domain, score, extra, settle, evaluations, seconds, seed, max_candidates, stop
    )
    found.catalogue()
    found.evolution()
    found.restarts()
    found.lattice()
    found.simplify()
    return found


@dataclass(slots=True)
class Exploration:
    """One search: its settings, and its results so far. Each stage is a method."""

    domain: Domain
    score: Score
    extra: int
    settle: FinalScore | None
    budget: int
    seconds: float
    seed: int
    max_candidates: int
    stop: float
    deadline: float = field(init=False)
    restart_share: float = field(init=False)  # share of the evaluations for random restarts
    candidates: list[Candidate] = field(default_factory=list)  # the best candidates, best first
    # number of evaluations and best value, at each improvement
    trace: list[tuple[int, float]] = field(default_factory=list)
    evaluations: int = 0  # number of scored pairs
    skipped: int = 0  # number of these pairs on which a solver did not converge
    reason: str = ""  # message of the last skipped pair

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.seconds
        # CMA-ES cannot optimize over categories
        self.restart_share = 0.6 if self.domain.unordered else 0.15

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
        same = [c for c in self.candidates if c.pair.why == pair.why]
        winner = max([*same, Candidate(pair, value, output)], key=lambda c: c.value)
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
            or self.best >= self.stop
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
        if best is not None and best.value < self.stop:
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
        for number in itertools.count():
            best: Candidate | None = None
            draft: Draft | None = None
            idle = 0  # changes without improvement
            for step in itertools.count():
                if self.over or self.evaluations >= most or time.monotonic() > until:
                    break
                new = None
                if drafts is not None:
                    new = drafts.draft() if step < 12 or draft is None else drafts.changed(draft)
                if step >= 12 and (new is None or idle > 200):
                    break
                pair = draw(next(turns)) if drafts is None or new is None else drafts.pair(new)
                idle += 1
                if pair is None:
                    continue
                found = self.evaluate(pair)
                if best is None or found.value > best.value:
                    best, draft, idle = found, new, 0
                elif found.value == best.value:
                    best, draft = found, new
            if best is None:
                return
            self.settled_if_close(best, f"found by search, restart {number}")

    def lattice(self) -> None:
        """Add the simplest pair of the lattice that exceeds the best value so far, if there is
        one.
        """
        remaining = min(self.deadline - time.monotonic(), 0.15 * self.seconds)
        if remaining <= 0 or self.over:
            return
        above = self.best + 1e-3 * abs(self.best) if math.isfinite(self.best) else 0.0
        deadline = time.monotonic() + remaining
        simplest: list[Candidate] = []

        def points(turn: int) -> st.SearchStrategy[tuple[SearchSpace, list[float]]]:
            shape = self.domain.shape(np.random.default_rng([self.seed, turn]), turn)
            point = st.lists(st.sampled_from(_LATTICE), min_size=shape.size, max_size=shape.size)
            return st.tuples(st.just(shape), point)

        def exceeds(drawn: tuple[SearchSpace, list[float]]) -> bool:
            pair = drawn[0].decode(np.array(drawn[1], dtype=float))
            # past the deadline, let the remaining examples pass without a score
            if pair is None or time.monotonic() > deadline:
                return False
            found = self.evaluate(pair)
            if math.isfinite(found.value):
                target(found.value)
            if found.value > above:
                simplest[:] = [found]
            return found.value > above

        # Flaky: past the deadline a pair that exceeded no longer does. The pair remains valid.
        with contextlib.suppress(NoSuchExample, Flaky):
            find(
                st.integers(0, 11).flatmap(points),
                exceeds,
                settings=settings(
                    max_examples=int(np.clip(self.budget // 20, 20, 400)),
                    deadline=None,
                    database=None,
                    phases=(Phase.generate, Phase.target, Phase.shrink),
                    suppress_health_check=list(HealthCheck),
                    print_blob=False,
                ),
                random=random.Random(self.seed),
            )
        for found in simplest:
            self.settled(found, "simplest found on a lattice")

    def simplify(self) -> None:
        """Replace the best candidate by a simpler pair that keeps its value within a relative loss
        of 3e-4.
        """
        if not math.isfinite(self.best) or self.best <= 0:
            return
        pair, best, output = self.candidates[0]

        def value_of(candidate: Pair) -> float:
            try:
                if self.settle is not None:
                    return self.settle(candidate, output, thorough=False)[0]
                return self.score(candidate, np.zeros(self.extra))[0]
            except ConvergenceError:
                return -math.inf

        end = time.monotonic() + min(
            max(0.1 * self.seconds, self.deadline - time.monotonic()), 0.25 * self.seconds
        )
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


_SAMPLES = 4  # samples of each side that score a pair


def loss_score(mechanism: Any, pilot: Sequence[Pair], seed: int) -> tuple[Score, int]:
    """Return a score of pairs, and the number of output coordinates that a search optimizes along
    with the pair. They are arguments of sinh, in units of the outputs' spread.

    The score is the largest privacy loss over a few outputs: one that the search optimizes, some
    samples, and points beyond the shift between the two datasets. For outputs with listed support,
    all of the support is used instead.
    """
    pilot_rows = []
    for pair in pilot[:6]:
        with contextlib.suppress(ConvergenceError):
            pilot_rows.append(sampled(mechanism, pair.d0, 64, np.random.default_rng(seed)))
    if not pilot_rows:
        raise InvalidArgument(
            "search: mechanism must run on the domain, "
            f"{type(mechanism).__name__} converged on none of {min(len(pilot), 6)} pairs"
        )
    discrete = has_capability(mechanism, HasSupport)
    scale = np.maximum(np.median([np.median(np.abs(r), axis=0) for r in pilot_rows], axis=0), 1e-9)

    def sample_both(pair: Pair, size: int) -> FloatArray:
        """Return `size` sampled outputs on each dataset, with the same seed."""
        return np.vstack(
            [sampled(mechanism, d, size, np.random.default_rng(seed)) for d in (pair.d0, pair.d1)]
        )

    def points_near_shift(pair: Pair) -> FloatArray:
        """Return samples of both sides, and points beyond them in the direction of the shift.

        Both sides use the same randomness, so that for additive noise the difference of samples
        is the shift.
        """
        try:
            rows = sample_both(pair, _SAMPLES)
        except ConvergenceError:
            return np.zeros((1, len(scale)))
        first, second = rows[:_SAMPLES], rows[_SAMPLES:]
        shift = (first - second).mean(axis=0)
        length = float(np.linalg.norm(shift))
        if length == 0 or not np.isfinite(length):
            return rows
        far = np.array([1.0, 10.0, 1000.0]) * float(np.linalg.norm(scale))
        reach = (far / length)[:, None] * shift
        return np.vstack([rows, first[0] + reach, second[0] - reach])

    def score(pair: Pair, tail: FloatArray) -> tuple[float, FloatArray | None]:
        """Return the largest loss, and the output that attains it."""
        loss = PairLoss(mechanism, pair)
        if discrete:
            try:
                rows = support_rows(mechanism, pair)
            except InvalidArgument:  # the support is too large to list
                rows = sample_both(pair, 64)
        else:
            optimized = scale * np.sinh(np.clip(2 * tail, -30, 30))[None, :]
            rows = np.vstack([optimized, points_near_shift(pair)])
        values = loss(rows)
        i = int(np.argmax(values))
        return float(values[i]), rows[i]

    return score, 0 if discrete else int(pilot_rows[0].shape[1])


def pilot_score(mechanism: Any, claim: Claim, seed: int, pair: Pair) -> float:
    """Return the parameter that an event learned on a few runs is expected to certify, a cautious
    estimate that is not a bound. All pairs use the same randomness.
    """
    run = getattr(mechanism, "sample", mechanism)
    if not callable(run):
        raise InvalidArgument(
            "search: mechanism must have log_density, or be callable as f(dataset, size, rng), got "
            f"{type(mechanism).__name__}"
        )
    try:
        first, second = (
            run_side(run, d, 1000, stream(seed, i)) for i, d in enumerate((pair.d1, pair.d0))
        )
    except WrongShape as error:
        raise InvalidArgument(f"search: {error}") from None
    return expected_certificate(first, second, claim, alpha=0.01, rounds=10**6)


def profile_score(mechanism: Any, claim: Claim, seed: int, pair: Pair) -> float:
    """Return an estimate of the claim's parameter on a pair, from the losses of samples: the larger
    one of the two orders. It ranks pairs and proves nothing.

    For (epsilon, delta), the estimate is the epsilon at which the mean of (1 - e^(epsilon - L))+
    is delta. For other notions, it is the largest parameter that an event {L >= t} with at least
    ten hits implies.
    """
    loss, rng = PairLoss(mechanism, pair), np.random.default_rng(seed)
    zero, one = (loss.signed(sampled(mechanism, d, 2048, rng))[0] for d in (pair.d0, pair.d1))
    return max(_estimate(claim, one), _estimate(claim, -zero))


def _estimate(claim: Claim, p_losses: FloatArray) -> float:
    """Return the estimate for one order, from losses sampled under P."""
    if claim.bounds_epsilon:
        if np.mean(p_losses == np.inf) > claim.delta_budget:
            return math.inf
        finite = p_losses[np.isfinite(p_losses)]
        return bracket(
            lambda epsilon: (
                float(np.mean(-np.expm1(np.minimum(epsilon - p_losses, 0.0)))) > claim.delta_budget
            ),
            0.0,
            float(finite.max(initial=0.0)),
            60,
        )[0]
    if len(p_losses) < 20:
        return 0.0
    thresholds = np.sort(p_losses)[::-1][9::8]
    tpr = np.array([np.mean(p_losses >= t) for t in thresholds])
    # The false-positive rate is also a mean under P (importance sampling), which resolves far
    # smaller rates.
    fpr = np.array(
        [
            np.mean(np.where(p_losses >= t, np.exp(-np.maximum(p_losses, -700.0)), 0.0))
            for t in thresholds
        ]
    )
    return float(np.max(claim.parameter_at(np.minimum(fpr, 1.0), tpr), initial=0.0))


def search(
    mechanism: Any,
    domain: Domain,
    claim: Claim | str,
    *,
    score: Callable[[Pair], float] | None = None,
    evaluations: int = 20_000,
    seconds: float = 60.0,
    seed: int = 0,
    keep: int = 3,
) -> list[tuple[Pair, float]]:
    """Return the pairs of a domain on which a mechanism leaks most, best first, with their values.

    Parameters
    ----------
    mechanism : Mechanism
        With `log_density`, the value of a pair is its exact largest privacy loss (`worst_output`)
        for pure DP, and an estimate of the claim's parameter from samples for other notions.
        Without `log_density`, the value is the certificate that a pilot run is expected to give.
    domain : Domain
        The datasets and their neighboring relation. The search uses no other information about
        where to look.
    claim : Claim or str
        The claim whose parameter the pairs are to exceed.
    score : callable, optional
        ``score(pair) -> float``, used instead of the values above. Larger means a worse leak.
    evaluations, seconds : int, float
        Limits on the number of evaluations and on the duration in seconds; the first one ends the
        search. A search that ends by `evaluations` is reproducible from `seed`.
    seed : int
        Root seed of the search.
    keep : int
        Maximum number of returned pairs.

    Returns
    -------
    list of (Pair, float)
        Pairs with the values that rank them. The value for a pure claim and a density is a proved
        lower bound on epsilon: ``math.inf`` if the loss is unbounded.

    Raises
    ------
    InvalidArgument
        If the domain is empty or has no neighboring pairs, or the mechanism cannot be run.
    """
    require_domain(domain, "search")
    claim = promised(None, claim, "search").on(None)
    require_callable("score", score, "search", arguments=1, optional=True)
    keep = require_integer("keep", keep, "search")
    seed, evaluations = require_settings("search", seed, seconds, evaluations)
    black_box = not has_capability(mechanism, WhiteBox)
    if score is not None or black_box or not claim.is_pure:
        estimate = pilot_score if black_box else profile_score
        given = score or partial(estimate, mechanism, claim, seed)
        found = explore(
            domain,
            lambda pair, _: (given(pair), None),
            evaluations=evaluations,
            seconds=seconds,
            seed=seed,
            max_candidates=keep,
        )
        return [(c.pair, c.value) for c in found.candidates]
    loss, width = loss_score(mechanism, pairs_for(domain), seed)

    def settle(
        pair: Pair, output: FloatArray | None, thorough: bool = True
    ) -> tuple[float, FloatArray | None]:
        starts = None if output is None else output[None, :]
        worst = worst_output(
            mechanism,
            pair,
            seed=seed,
            starts=starts,
            samples=128 if thorough else 16,
            thorough=thorough,
        )
        return worst.loss, worst.output

    found = explore(
        domain,
        loss,
        extra=width,
        settle=settle,
        evaluations=evaluations,
        seconds=seconds,
        seed=seed,
        max_candidates=keep,
    )
    return [(c.pair, c.value) for c in found.candidates]
