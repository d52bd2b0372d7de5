"""Search for the neighboring pairs on which a mechanism leaks most, given its domain, and the
scores that the search maximizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpwitness.auditors.density.search import Loss, sampled, support_rows, worst_output
from dpwitness.auditors.events.learning import expected_certificate
from dpwitness.auditors.events.outputs import WrongShape
from dpwitness.auditors.search.catalogue import pairs_for, require_domain, require_settings
from dpwitness.auditors.search.exploration import explore
from dpwitness.auditors.statistics.mean_limits import bracket
from dpwitness.auditors.workers.engine import run_side, stream
from dpwitness.core.claims import Claim, promised
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.numerics.solvers import ConvergenceError
from dpwitness.core.protocols.capabilities import HasSupport, has_capability
from dpwitness.core.protocols.mechanism import FloatArray, WhiteBox
from dpwitness.core.values.validation import InvalidArgument, require_callable, require_integer


class LossScore:
    """Largest privacy loss of a pair over a few outputs.

    The outputs are one that the search optimizes along with the pair, some samples, and points
    beyond the shift between the two datasets. For outputs with listed support, all of the support
    is used instead.

    Attributes
    ----------
    width : int
        Number of output coordinates that the search optimizes. They are arguments of sinh, in
        units of the outputs' spread.
    """

    def __init__(self, mechanism: Any, pilot: Sequence[Pair], seed: int, samples: int = 4) -> None:
        self._mechanism, self._seed, self._samples = mechanism, seed, samples
        rows = []
        for pair in pilot[:6]:
            try:
                rows.append(sampled(mechanism, pair.d0, 64, np.random.default_rng(seed)))
            except ConvergenceError:
                continue
        if not rows:
            failure = f"{type(mechanism).__name__} converged on none of {min(len(pilot), 6)} pairs"
            raise InvalidArgument(f"search: mechanism must run on the domain, {failure}")
        self._discrete = has_capability(mechanism, HasSupport)
        self._scale = np.maximum(
            np.median([np.median(np.abs(r), axis=0) for r in rows], axis=0), 1e-9
        )
        self.width = 0 if self._discrete else int(rows[0].shape[1])

    def __call__(self, pair: Pair, tail: FloatArray) -> tuple[float, FloatArray | None]:
        """Return the largest loss, and the output that attains it."""
        loss = Loss(self._mechanism, pair)
        if self._discrete:
            try:
                rows = support_rows(self._mechanism, pair)
            except InvalidArgument:  # the support is too large to list
                rows = self._sample_both(pair, 64)
        else:
            rows = np.vstack(
                [
                    self._scale * np.sinh(np.clip(2 * tail, -30, 30))[None, :],
                    self._points_near_shift(pair),
                ]
            )
        values = loss(rows)
        i = int(np.argmax(values))
        return float(values[i]), rows[i]

    def _sample_both(self, pair: Pair, size: int) -> FloatArray:
        """Return `size` sampled outputs on each dataset, with the same seed."""
        return np.vstack(
            [
                sampled(self._mechanism, d, size, np.random.default_rng(self._seed))
                for d in (pair.d0, pair.d1)
            ]
        )

    def _points_near_shift(self, pair: Pair) -> FloatArray:
        """Return samples of both sides, and points beyond them in the direction of the shift.

        Both sides use the same randomness, so that for additive noise the difference of samples
        is the shift.
        """
        try:
            rows = self._sample_both(pair, self._samples)
        except ConvergenceError:
            return np.zeros((1, len(self._scale)))
        first, second = rows[: self._samples], rows[self._samples :]
        shift = (first - second).mean(axis=0)
        length = float(np.linalg.norm(shift))
        if length == 0 or not np.isfinite(length):
            return rows
        far = np.array([1.0, 10.0, 1000.0]) * float(np.linalg.norm(self._scale))
        reach = (far / length)[:, None] * shift
        return np.vstack([rows, first[0] + reach, second[0] - reach])


class PilotScore:
    """Parameter that an event learned on a few runs is expected to certify. All pairs use the same
    randomness.
    """

    def __init__(self, mechanism: Any, claim: Claim, seed: int, runs: int = 1000) -> None:
        self._run, self._claim, self._seed, self._runs = (
            getattr(mechanism, "sample", mechanism),
            claim,
            seed,
            runs,
        )
        if not callable(self._run):
            requirement = "have log_density, or be callable as f(dataset, size, rng)"
            raise InvalidArgument(
                f"search: mechanism must {requirement}, got {type(mechanism).__name__}"
            )

    def __call__(self, pair: Pair) -> float:
        """Return the expected certificate, a cautious estimate that is not a bound."""
        try:
            first, second = (
                run_side(self._run, d, self._runs, stream(self._seed, i))
                for i, d in enumerate((pair.d1, pair.d0))
            )
        except WrongShape as error:
            raise InvalidArgument(f"search: {error}") from None
        return expected_certificate(first, second, self._claim, alpha=0.01, rounds=10**6)


class ProfileScore:
    """Estimate of the claim's parameter on a pair, from the losses of samples. It ranks pairs and
    proves nothing.

    For (epsilon, delta), the estimate is the epsilon at which the mean of (1 - e^(epsilon - L))+
    is delta. For other notions, it is the largest parameter that an event {L >= t} with at least
    ten hits implies.
    """

    def __init__(self, mechanism: Any, claim: Claim, seed: int, samples: int = 2048) -> None:
        self._mechanism, self._claim, self._seed, self._samples = mechanism, claim, seed, samples

    def __call__(self, pair: Pair) -> float:
        """Return the larger estimate of the two orders of the pair."""
        loss = Loss(self._mechanism, pair)
        rng = np.random.default_rng(self._seed)
        zero, one = (
            loss.signed(sampled(self._mechanism, d, self._samples, rng))[0]
            for d in (pair.d0, pair.d1)
        )
        return max(self._one_order(one), self._one_order(-zero))

    def _one_order(self, p_losses: FloatArray) -> float:
        """Return the estimate for one order, from losses sampled under P."""
        claim = self._claim
        if claim.bounds_epsilon:
            if np.mean(p_losses == np.inf) > claim.delta_budget:
                return math.inf
            finite = p_losses[np.isfinite(p_losses)]
            return bracket(
                lambda epsilon: (
                    float(np.mean(-np.expm1(np.minimum(epsilon - p_losses, 0.0))))
                    > claim.delta_budget
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
    pure = claim.is_pure
    black_box = not has_capability(mechanism, WhiteBox)
    if score is not None or black_box or not pure:
        given = score or (PilotScore if black_box else ProfileScore)(mechanism, claim, seed)
        found = explore(
            domain,
            lambda pair, _: (given(pair), None),
            evaluations=evaluations,
            seconds=seconds,
            seed=seed,
            max_candidates=keep,
        )
        return [(c.pair, c.value) for c in found.candidates]
    loss = LossScore(mechanism, pairs_for(domain), seed)

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
        extra=loss.width,
        settle=settle,
        evaluations=evaluations,
        seconds=seconds,
        seed=seed,
        max_candidates=keep,
    )
    return [(c.pair, c.value) for c in found.candidates]
