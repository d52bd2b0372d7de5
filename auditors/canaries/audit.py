"""The canary audit, `audit_canaries`: a test of a claim with the scores of canaries that fair coins
included or left out, from one or a few private training runs.

**Guesses.** The theorems let the guesser use any function of the released output, and the coins of
canaries that the guesser does not name. So the coins of the middle of all scores, where guesses are
worst, and of a few random other canaries are revealed. The revealed coins show how scores order
canaries, and cost only these canaries. A logistic regression with one slope on each side is fitted
to the revealed coins. The other canaries are named in the order of their fitted odds, most certain
first. Equal scores are ordered at random: their order in the caller's arrays depends on the coins.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.auditors.canaries.bounds import (
    Theorem,
    certified_epsilon,
    epsilons_refuted,
    parameter_refuted,
    schedule,
    sizes,
    tests_curve,
)
from dpwitness.auditors.canaries.design import detectable
from dpwitness.auditors.canaries.inputs import Canaries, read
from dpwitness.auditors.canaries.result import (
    ASSUMED,
    CanaryPicture,
    CanaryResult,
    GuessTest,
    best_of,
    result_of_counts,
)
from dpwitness.core.claims import GDP, Claim, promised, resolved
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    require_finite,
    require_integer,
    require_probability,
    require_that,
    require_type,
)

_MAX_FITTED = 20_000  # largest number of coins in the regression
_CLIP = 12.0  # bound on log-odds, and on standardized distances from the middle


@dataclass(frozen=True, slots=True, eq=False)
class GuessOrder:
    """Canaries in the order in which they are guessed."""

    # indices of the canaries, most certain first, without canaries whose coins were revealed
    chosen: np.ndarray
    included: np.ndarray  # guess for each canary
    odds: FloatArray  # expected log-odds of each guess

    def right(self, coins: np.ndarray) -> np.ndarray:
        """Return the number of right guesses among the first r, for r = 0, 1, ..."""
        return np.concatenate([[0], np.cumsum(coins[self.chosen] == self.included)])

    def expected(self, factor: float = 1.0) -> FloatArray:
        """Return the expected number of right guesses among the first r if all fitted log-odds are
        multiplied by `factor`.
        """
        return np.concatenate([[0.0], np.cumsum(1 / (1 + np.exp(-factor * self.odds)))])


def ordered(scores: FloatArray, coins: np.ndarray, rng: np.random.Generator) -> GuessOrder:
    """Order canaries by the certainty of a guess about them. The guesses depend on `coins` only
    through the revealed coins.
    """
    n = scores.size
    shuffled = rng.permutation(n)
    order = shuffled[np.argsort(scores[shuffled], kind="stable")]
    revealed = np.zeros(n, dtype=bool)
    margin = int(n * (1 - 0.55) / 2)  # on either side of the middle scores
    revealed[order[margin : n - margin]] = True
    revealed |= rng.random(n) < 0.02
    training = order[revealed[order]]
    low, middle, high = (scores[order[int(share * (n - 1))]] for share in (0.25, 0.5, 0.75))
    # few distinct values: otherwise guesses at the median would count as coin flips
    if low < high and middle in (low, high):
        middle = (low + high) / 2
    unit = 0.7413 * (high - low) or float(np.std(scores)) or 1.0
    distance = np.clip((scores - middle) / unit, -_CLIP, _CLIP)
    features = np.stack([np.ones(n), distance, np.abs(distance)], axis=1)
    if training.size > _MAX_FITTED:
        training = rng.choice(training, _MAX_FITTED, replace=False)
    odds = np.clip(features @ _fit(features[training], coins[training]), -_CLIP, _CLIP)
    remaining = shuffled[~revealed[shuffled]]
    chosen = remaining[np.argsort(-np.abs(odds[remaining]), kind="stable")]
    return GuessOrder(chosen, odds[chosen] > 0, np.abs(odds[chosen]))


def _fit(features: FloatArray, coins: np.ndarray) -> FloatArray:
    """Return the posterior mode of a logistic regression, by Newton's method."""
    # prior standard deviations: of the log-odds at the middle; of the slope, with prior mean 0.25;
    # of the difference of the two sides' slopes
    center, precision = np.array([0.0, 0.25, 0.0]), 1 / np.array([0.02, 0.12, 0.02]) ** 2
    mode = center.copy()
    for _ in range(30):
        p = 1 / (1 + np.exp(-np.clip(features @ mode, -30, 30)))
        gradient = features.T @ (coins - p) - precision * (mode - center)
        hessian = (features * (p * (1 - p))[:, None]).T @ features + np.diag(precision)
        step = np.linalg.solve(hessian, gradient)
        mode = mode + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return mode


_OWNER = "audit_canaries"
_HISTOGRAM_CELLS = 60  # cells of each histogram


def audit_canaries(
    scores_in: Any,
    scores_out: Any,
    claim: Claim | str,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    name: str | None = None,
    delta: float = 1e-5,
    inclusion: float = 0.5,
    method: str = "best",
    guesses: int | None = None,
    ids_in: Any = None,
    ids_out: Any = None,
    groups: Any = None,
    target: Json | None = None,
) -> CanaryResult:
    """Audit private training with canaries: examples that fair coins added to the training data or
    left out.

    A score measures how strongly the released output suggests that a canary was included. Examples
    are an inner product with the updates, minus the loss, or a margin. The audit guesses the coins
    of the canaries with the clearest scores. Too many correct guesses refute the claim. The choice
    of guessed canaries is learned from all scores and from the coins of canaries that are not
    guessed. The module describes the choice; `auditors/canaries/bounds.py` proves the bounds.

    Parameters
    ----------
    scores_in, scores_out : array_like, or list of array_like
        Scores of included canaries, and of canaries that were left out. For several runs, a list
        with one array for each run.
    claim : Claim or str
        ``pure:EPS``, ``approx:EPS,DELTA``, ``gdp:MU``, ``dpsgd:SAMPLING,NOISE,STEPS``; or a `DPSGD`
        or `TradeoffCurve`. The claim is for datasets that differ in one canary.
    confidence : float
        Confidence level of the bound, in (0, 1).
    seed : int
        Seed for the choice of the canaries whose coins are not guessed, and for the order of equal
        scores.
    name : str, optional
        Name of the audited training in the result.
    delta : float
        Delta at which a bound on a curve is converted to an epsilon. Approximate and pure claims
        use their own delta.
    inclusion : float
        Probability of inclusion. Must be 1/2, since the theorems are proved for 1/2 only. The
        numbers of included and of left-out canaries are tested against 1/2.
    method : {"best", "curve"}
        ``best``: for pure and approximate claims, this project's theorem for (epsilon, delta), with
        the name ``counting`` in the result; for others, ``curve``. ``curve``: the recursion of
        Mahloujifar, Melis and Chaudhuri (2025), where an approximate claim is replaced by the
        Gaussian curve with the same epsilon and delta.
    guesses : int, optional
        A single number of guesses, fixed before any score was seen.
    ids_in, ids_out : sequence, optional
        Names of the canaries. Each name may occur once in a run. Canaries with the same name in
        several runs must have a new coin in each run, which is tested.
    groups : sequence, optional
        For each canary, included canaries first, the label of a group of canaries, such as a batch.
        The canaries of a group must have separate coins, which is tested.
    target : dict, optional
        Description of the audited target for the result.

    Returns
    -------
    CanaryResult
        Verdict, bounds, counts and notes.

    Raises
    ------
    InvalidArgument
        If an argument is invalid: scores are missing, all equal or not finite; the numbers of
        included and of left-out canaries contradict fair coins; or a canary occurs twice.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> included = rng.random(2000) < 0.5
    >>> scores = rng.normal(size=2000) + 2.0 * included
    >>> audit_canaries(scores[included], scores[~included], "approx:1,1e-5").verdict
    <Verdict.VIOLATED: 'VIOLATED'>
    """
    begin = time.perf_counter()
    claim = promised(None, claim, _OWNER)
    claim_notes = resolved(claim, None)[1]
    alpha = 1 - require_probability("confidence", confidence, _OWNER)
    seed = require_integer("seed", seed, _OWNER, least=0)
    require_type("name", name, str, "be a text", _OWNER, optional=True)
    require_that(
        require_finite("inclusion", inclusion, _OWNER) == 0.5,
        f"inclusion must be 0.5, the probability that the theorems are proved for, got "
        f"{inclusion!r}",
        _OWNER,
    )
    claim = claim.for_canaries(_OWNER)
    delta = (
        claim.delta_budget if claim.bounds_epsilon else require_probability("delta", delta, _OWNER)
    )
    notes = list(claim_notes)
    by_curve = tests_curve(claim, method, _OWNER)
    if by_curve and not claim.has_tangents:
        claim = GDP.with_epsilon(claim.parameter, claim.delta_budget)
        notes.append(
            "tested against the Gaussian curve with the claim's epsilon and delta: a training with "
            "another curve may exceed that curve"
        )
    canaries = read(scores_in, scores_out, ids_in, ids_out, groups)
    size = canaries.scores.size
    rng = np.random.default_rng([seed, size])
    guessed = ordered(canaries.scores, canaries.coins, rng)
    right = guessed.right(canaries.coins)
    most = guessed.chosen.size
    if guesses is not None:
        guesses = require_integer("guesses", guesses, _OWNER, most=most)
    method = "curve" if by_curve else "counting"
    theorem = Theorem(method, claim, size, delta, fixed=guesses is not None or by_curve)
    tested = [
        GuessTest(r, int(right[r]), share, theorem.refuted(int(right[r]), r, share))
        for r, share in (
            [(guesses, alpha)] if guesses is not None else _planned_guesses(theorem, guessed, alpha)
        )
    ]
    best = best_of(tested)
    return result_of_counts(
        theorem,
        tested,
        name=name or "canaries",
        confidence=confidence,
        seed=seed,
        included=int(canaries.coins.sum()),
        runs=canaries.runs,
        p_value=min(
            1.0,
            *(
                theorem.smallest_error(counts.right, counts.guesses) * alpha / counts.alpha
                for counts in tested
            ),
        ),
        gaussian_lower=_gaussian_epsilon(theorem, best, right, schedule(size, most, alpha)),
        detectable=detectable(claim, size, alpha, delta, by_curve),
        picture=_picture(canaries, guessed, best),
        notes=(
            *notes,
            ASSUMED,
            *(
                [
                    "runs are pooled as canaries of one run: their randomness is independent, so a "
                    "coin changes one run only, and the claim applies"
                ]
                if canaries.runs > 1
                else []
            ),
            *canaries.notes,
        ),
        target=target,
        seconds=time.perf_counter() - begin,
    )


def _planned_guesses(
    theorem: Theorem, guessed: GuessOrder, alpha: float
) -> list[tuple[int, float]]:
    """Return the numbers of guesses to test, each with its share of the error."""
    most, size, claim = guessed.chosen.size, theorem.canaries, theorem.claim
    # choose by the expected bound, which does not use the coins of the guessed canaries
    if theorem.method == "counting":
        numbers, expected = sizes(most), guessed.expected()
        # the number of guesses is best on average over possible errors of the fitted log-odds
        bounds = [
            epsilons_refuted(guessed.expected(factor)[numbers], numbers, theorem.delta, size, alpha)
            for factor in (0.5, 1.0, 2.0)
        ]
        # breaks ties where every expected bound is zero
        expected_z = (expected[numbers] - numbers / 2) / np.sqrt(numbers)
        return [(int(numbers[np.lexsort((expected_z, np.sum(bounds, axis=0)))[-1]]), alpha)]
    return schedule(size, most, alpha, claim.guess_mu)


def _gaussian_epsilon(
    theorem: Theorem, best: GuessTest, right: np.ndarray, planned: list[tuple[int, float]]
) -> float:
    """Return the epsilon of the largest mu that any of the planned numbers of guesses refutes; NaN
    if the theorem's delta is 0.
    """
    if theorem.delta == 0:
        return math.nan
    mu = 0.0
    if theorem.method == "curve" and isinstance(theorem.claim, GDP):
        mu = best.lower
    else:
        for r, share in planned:
            mu = parameter_refuted(GDP(1.0), int(right[r]), r, theorem.canaries, share, mu)
    return certified_epsilon(GDP(1.0), mu, theorem.delta)


def _picture(canaries: Canaries, guessed: GuessOrder, best: GuessTest) -> CanaryPicture:
    """Return histograms of the scores for plots, which certify nothing. The outermost cells also
    count the scores beyond the edges.
    """
    low, high = np.quantile(canaries.scores, [0.001, 0.999])
    margin = 0.0 if high > low else 0.5
    edges = np.linspace(low - margin, high + margin, _HISTOGRAM_CELLS + 1)
    cell = np.clip(
        np.searchsorted(edges, canaries.scores, side="right") - 1, 0, _HISTOGRAM_CELLS - 1
    )
    chosen, is_in = guessed.chosen[: best.guesses], guessed.included[: best.guesses]
    sides = (canaries.coins, ~canaries.coins, chosen[is_in], chosen[~is_in])
    counts = (np.bincount(cell[side], minlength=_HISTOGRAM_CELLS).tolist() for side in sides)
    return CanaryPicture(tuple(edges.tolist()), *map(tuple, counts))
