"""Search for the pairs of a domain on which the output density of a mechanism shows the largest
privacy loss.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dpwitness.auditors.density.search import PairLoss, sampled, support_rows, worst_output
from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.search.explore import Candidate, Score, explore
from dpwitness.auditors.statistics.mean_limits import bracket
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.numerics.solvers import ConvergenceError
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import InvalidArgument, require_that

_SAMPLES = 4  # samples of each side that score a pair


def loss_score(mechanism: Any, pilot: Sequence[Pair], seed: int) -> tuple[Score, int]:
    """Return a score of pairs, and the number of output coordinates that a search optimizes along
    with the pair. The coordinates are arguments of sinh, in units of the outputs' spread.

    The score is the largest privacy loss over a few outputs: one that the search optimizes, some
    samples, and points beyond the shift between the two datasets. For outputs with listed support,
    all of the support is used instead.
    """
    pilot_rows = []
    for pair in pilot[:6]:
        with contextlib.suppress(ConvergenceError):
            pilot_rows.append(sampled(mechanism, pair.d0, 64, np.random.default_rng(seed)))
    require_that(
        pilot_rows,
        f"mechanism must run on the domain, {type(mechanism).__name__} converged on "
        f"none of {min(len(pilot), 6)} pairs",
        "search",
    )
    discrete = hasattr(mechanism, "support")
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


def profile_score(mechanism: Any, claim: Claim, seed: int, pair: Pair) -> float:
    """Return an estimate of the claim's parameter on a pair, from the losses of samples: the larger
    one of the two orders (D0, D1) and (D1, D0). The estimate ranks pairs and proves nothing.

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


def worst_pairs(
    mechanism: Any,
    domain: Domain,
    claim: Claim,
    *,
    evaluations: int,
    seconds: float,
    seed: int,
    keep: int,
) -> list[Candidate]:
    """Return the pairs of a domain on which a mechanism with a density leaks most, best first.

    The value of a pair is its exact largest privacy loss (`worst_output`) for pure DP, and an
    estimate of the claim's parameter from samples for other notions. The limits are those of
    `explore`; `keep` is the maximum number of returned pairs.
    """
    limits: dict[str, Any] = {
        "evaluations": evaluations,
        "seconds": seconds,
        "seed": seed,
        "max_candidates": keep,
    }
    if not claim.is_pure:
        estimate = partial(profile_score, mechanism, claim, seed)
        return explore(domain, lambda pair, _: (estimate(pair), None), **limits).candidates

    def settle(
        pair: Pair, output: FloatArray | None, thorough: bool = True
    ) -> tuple[float, FloatArray | None]:
        worst = worst_output(
            mechanism,
            pair,
            seed=seed,
            starts=None if output is None else output[None, :],
            samples=128 if thorough else 16,
            thorough=thorough,
        )
        return worst.loss, worst.output

    loss, width = loss_score(mechanism, pairs_for(domain), seed)
    return explore(domain, loss, extra=width, settle=settle, **limits).candidates
