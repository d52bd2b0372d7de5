"""Entry point of the canary audit, `audit_canaries`.

The audit tests a claim with the scores of canaries that fair coins included or left out, from one or a few private training runs.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from dpwitness.auditors.canaries import guess_counts, recursion, steinke
from dpwitness.auditors.canaries.bounds import certified_epsilon, epsilons_refuted, largest, parameter_refuted, schedule, sizes
from dpwitness.auditors.canaries.guesses import Guesses, ordered
from dpwitness.auditors.canaries.ideal_limit import detectable
from dpwitness.auditors.canaries.inputs import Canaries, read
from dpwitness.auditors.results.canary_result import CanaryPicture, CanaryResult, GuessTest
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import (
    InvalidArgument,
    require_finite,
    require_integer,
    require_one_of,
    require_probability,
    require_type,
)
from dpwitness.mechanisms.privacy import GDP, Claim, parse_claim, resolved

_OWNER = "audit_canaries"
_HISTOGRAM_CELLS = 60  # cells of each histogram
_PICTURE_POINTS = 24  # numbers of guesses in the picture
_ODDS_FACTORS = (0.5, 1.0, 2.0)  # possible errors of the fitted log-odds, as factors; the number of guesses is best on average over them
_STEINKE_FACTOR = 0.4  # factor on the recursion's number of guesses, near which the bound of Steinke et al. is best

ASSUMED = (
    "assumed: each canary was included by a fair coin, independent of all other coins and of the training's randomness, and scores depend "
    "on the coins only through the released output"
)
_POOLED_NOTE = (
    "runs are pooled as canaries of one run: their randomness is independent, so a coin changes one run only, and the claim applies"
)
_GAUSSIAN_NOTE = "tested against the Gaussian curve with the claim's epsilon and delta: a training with another curve may exceed that curve"


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
    """Audit private training with canaries: examples that fair coins added to the training data or left out.

    A score measures how strongly the released output suggests that a canary was included. Examples are an inner product with the
    updates, minus the loss, or a margin. The audit guesses the coins of the canaries with the clearest scores. Too many correct guesses
    refute the claim. The choice of guessed canaries is learned from all scores and from the coins of canaries that are not guessed.
    `auditors/canaries/guesses.py` describes the choice; `counting.py` and `recursion.py` prove the bounds.

    Parameters
    ----------
    scores_in, scores_out : array_like, or list of array_like
        Scores of included canaries, and of canaries that were left out. For several runs, a list with one array for each run.
    claim : Claim or str
        ``pure:EPS``, ``approx:EPS,DELTA``, ``gdp:MU``, ``dpsgd:SAMPLING,NOISE,STEPS``; or a `DPSGD` or
        `TradeoffCurve`. The claim is for datasets that differ in one canary.
    confidence : float
        Confidence level of the bound, in (0, 1).
    seed : int
        Seed for the choice of revealed coins and for the order of equal scores.
    name : str, optional
        Name of the audited training in the result.
    delta : float
        Delta at which a bound on a curve is converted to an epsilon. Approximate and pure claims use their own delta.
    inclusion : float
        Probability of inclusion. Must be 1/2, since the theorems are proved for 1/2 only. The sizes of both sides are tested against 1/2.
    method : {"best", "counting", "steinke", "curve"}
        ``counting``: (epsilon, delta) by this project's theorem. ``steinke``: the theorem of Steinke, Nasr and Jagielski (2023), at a
        number of guesses that is fixed in advance. ``curve``: the recursion of Mahloujifar, Melis and Chaudhuri (2025), where an
        approximate claim is replaced by the Gaussian curve with the same epsilon and delta. ``best``: counting for pure and approximate
        claims, curve for others.
    guesses : int, optional
        A single number of guesses, fixed before any score was seen.
    ids_in, ids_out : sequence, optional
        Names of the canaries. Each name may occur once.
    groups : sequence, optional
        For each canary, included canaries first, the label of a group of canaries, such as a batch.
    target : dict, optional
        Description of the audited target for the result.

    Returns
    -------
    CanaryResult
        Verdict, bounds, counts and notes.

    Raises
    ------
    InvalidArgument
        If an argument is invalid: scores are missing, all equal or not finite; the sides contradict fair coins; or a canary occurs twice.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> included = rng.random(2000) < 0.5
    >>> scores = rng.normal(size=2000) + 2.0 * included
    >>> audit_canaries(scores[included], scores[~included], "approx:1,1e-5").verdict
    <Verdict.VIOLATED: 'VIOLATED'>
    """
    begin = time.perf_counter()
    claim = parse_claim(claim) if isinstance(claim, str) else require_type("claim", claim, Claim, "be a claim", _OWNER)
    claim_notes = resolved(claim, None)[1]
    claim = claim.for_canaries(_OWNER)
    alpha = 1 - require_probability("confidence", confidence, _OWNER)
    seed = require_integer("seed", seed, _OWNER, least=0)
    require_type("name", name, str, "be a text", _OWNER, optional=True)
    if require_finite("inclusion", inclusion, _OWNER) != 0.5:
        raise InvalidArgument(f"{_OWNER}: inclusion must be 0.5, the probability that the theorems are proved for, got {inclusion!r}")
    delta = claim.delta_budget if claim.bounds_epsilon else require_probability("delta", delta, _OWNER)
    method, claim, notes = _choose_method(method, claim)
    canaries = read(scores_in, scores_out, ids_in, ids_out, groups)
    size = canaries.scores.size
    rng = np.random.default_rng([seed, size])
    guessed = ordered(canaries.scores, canaries.coins, rng)
    right = guessed.right(canaries.coins)
    most = guessed.chosen.size
    if guesses is not None:
        guesses = require_integer("guesses", guesses, _OWNER, most=most)
    tested = _test_numbers(method, claim, guessed, right, size, alpha, delta, guesses)
    best = max(tested, key=lambda counts: (counts.lower, counts.alpha))
    p = min(1.0, *(_smallest_error(method, claim, counts, size, delta, guesses is not None) * alpha / counts.alpha for counts in tested))
    by_curve = method == "curve"
    gaussian_epsilon = math.nan
    if delta > 0:
        gaussian_epsilon = (
            best.lower
            if by_curve and isinstance(claim, GDP)
            else _largest_curve_parameter(GDP(1.0), right, schedule(size, most, alpha), size)
        )
        gaussian_epsilon = certified_epsilon(GDP(1.0), gaussian_epsilon, delta)
    guess_counts = np.empty(0, dtype=int) if claim.costly else np.unique(np.geomspace(1, most, _PICTURE_POINTS).astype(int))
    course = zip(
        guess_counts.tolist(),
        right[guess_counts].tolist(),
        _separate_bounds(method, claim, right[guess_counts], guess_counts, size, delta, alpha),
        strict=True,
    )
    return CanaryResult(
        name=name or "canaries",
        claim=claim,
        verdict=Verdict.VIOLATED if best.lower > claim.parameter else Verdict.NOT_REFUTED,
        confidence=confidence,
        seed=seed,
        method=method,
        fixed=guesses is not None or method != "counting",
        canaries=size,
        included=int(canaries.coins.sum()),
        runs=canaries.runs,
        delta=delta,
        guesses=best.guesses,
        right=best.right,
        alpha=best.alpha,
        parameter_lower=best.lower,
        epsilon_lower=certified_epsilon(claim, best.lower, delta),
        p_value=p,
        gaussian_lower=gaussian_epsilon,
        detectable=detectable(claim, size, alpha, delta, by_curve),
        tested=tuple(tested),
        picture=_picture(canaries, guessed, best, tuple(course)),
        notes=(*claim_notes, *notes, ASSUMED, *([_POOLED_NOTE] if canaries.runs > 1 else []), *canaries.notes),
        target=target,
        seconds=time.perf_counter() - begin,
    )


def _choose_method(method: str, claim: Claim) -> tuple[str, Claim, tuple[str, ...]]:
    """Return the theorem to use, the claim or curve that the theorem tests, and notes on a replaced claim."""
    require_one_of("method", method, ("best", "counting", "steinke", "curve"), _OWNER)
    by_curve = claim.has_tangents
    if not (by_curve or claim.bounds_epsilon):
        raise InvalidArgument(f"{_OWNER}: claim must be pure, approx, gdp or a curve, which bound how often guesses are right, got {claim}")
    if method == "best":
        return ("curve" if by_curve else "counting"), claim, ()
    if by_curve and method != "curve":
        raise InvalidArgument(f"{_OWNER}: method must be 'best' or 'curve' for the claim {claim}, got {method!r}")
    if method == "curve" and not by_curve:
        if claim.is_pure:
            raise InvalidArgument(f"{_OWNER}: method must be 'best', 'counting' or 'steinke' for a claim without delta, got 'curve'")
        return method, GDP.with_epsilon(claim.parameter, claim.delta_budget), (_GAUSSIAN_NOTE,)
    return method, claim, ()


def _test_numbers(
    method: str, claim: Claim, guessed: Guesses, right: np.ndarray, size: int, alpha: float, delta: float, fixed: int | None
) -> list[GuessTest]:
    """Return the counts and bounds of the tested numbers of guesses, each at its share of the error."""
    most = guessed.chosen.size
    if fixed is not None:
        planned = [(fixed, alpha)]
    elif method == "counting":  # choose by the expected bound, which does not use the coins of the guessed canaries
        guess_counts, expected = sizes(most), guessed.expected()
        bound = np.sum(
            [epsilons_refuted(guessed.expected(factor)[guess_counts], guess_counts, delta, size, alpha) for factor in _ODDS_FACTORS], axis=0
        )
        expected_z = (expected[guess_counts] - guess_counts / 2) / np.sqrt(guess_counts)  # breaks ties where every expected bound is zero
        planned = [(int(guess_counts[np.lexsort((expected_z, bound))[-1]]), alpha)]
    elif method == "steinke":
        planned = [(max(1, round(_STEINKE_FACTOR * schedule(size, most, alpha)[0][0])), alpha)]
    else:
        planned = schedule(size, most, alpha, claim.guess_mu)
    chosen = fixed is not None or method != "counting"
    return [
        GuessTest(r, int(right[r]), share, refuted_parameter(method, claim, int(right[r]), r, size, delta, share, fixed=chosen))
        for r, share in planned
    ]


def refuted_parameter(
    method: str, claim: Claim, right: int, guesses: int, size: int, delta: float, alpha: float, *, fixed: bool = True
) -> float:
    """Return the largest parameter that the number of right guesses refutes.

    `fixed` means that the number of guesses was chosen before the scores were seen.
    """
    if method == "curve":
        return parameter_refuted(claim, right, guesses, size, alpha)
    if method == "steinke":
        return largest(lambda epsilon: steinke.chance(right, guesses, epsilon, delta, size) <= alpha)
    law = guess_counts.chance if fixed else guess_counts.p_value
    return float(epsilons_refuted(np.array([right]), np.array([guesses]), delta, size, alpha, law)[0])


def _largest_curve_parameter(claim: Claim, right: np.ndarray, planned: list[tuple[int, float]], size: int) -> float:
    """Return the largest parameter of the claim's curve that any of the planned numbers of guesses refutes."""
    best = 0.0
    for r, share in planned:
        best = parameter_refuted(claim, int(right[r]), r, size, share, best)
    return best


def _smallest_error(method: str, claim: Claim, counts: GuessTest, size: int, delta: float, fixed: bool) -> float:
    """Return the smallest error probability at which the counts refute the claim."""
    if method == "steinke":
        return steinke.chance(counts.right, counts.guesses, claim.parameter, delta, size)
    if method == "counting":
        law = guess_counts.chance if fixed else guess_counts.p_value
        return float(law(counts.right, counts.guesses, claim.parameter, delta, size))
    lines = claim.tangents()
    low, high = -40.0, 0.0  # logarithm of the error
    for _ in range(40):
        middle = 0.5 * (low + high)
        refuted = recursion.refutes(counts.right, counts.guesses, size, *lines, math.exp(middle))
        low, high = (low, middle) if refuted else (middle, high)
    return math.exp(high)


def _separate_bounds(
    method: str, claim: Claim, right: np.ndarray, guesses: np.ndarray, size: int, delta: float, alpha: float
) -> list[float]:
    """Return the bound that each number of guesses would certify as the only number tested."""
    if method == "counting":
        return [float(lower) for lower in epsilons_refuted(right, guesses, delta, size, alpha, guess_counts.chance)]
    counts = zip(right.tolist(), guesses.tolist(), strict=True)
    return [refuted_parameter(method, claim, v, r, size, delta, alpha) for v, r in counts]


def _picture(canaries: Canaries, guessed: Guesses, best: GuessTest, course: tuple[tuple[int, int, float], ...]) -> CanaryPicture:
    """Return histograms of the scores for plots.

    The histograms certify nothing. The outermost cells also count the scores beyond the edges.
    """
    low, high = np.quantile(canaries.scores, [0.001, 0.999])
    edges = np.linspace(low, high, _HISTOGRAM_CELLS + 1) if high > low else np.linspace(low - 0.5, high + 0.5, _HISTOGRAM_CELLS + 1)
    cell = np.clip(np.searchsorted(edges, canaries.scores, side="right") - 1, 0, _HISTOGRAM_CELLS - 1)
    chosen, is_in = guessed.chosen[: best.guesses], guessed.included[: best.guesses]

    def histogram(mask: Any) -> tuple[int, ...]:
        return tuple(np.bincount(cell[mask], minlength=_HISTOGRAM_CELLS).tolist())

    return CanaryPicture(
        edges=tuple(edges.tolist()),
        included=histogram(canaries.coins),
        left_out=histogram(~canaries.coins),
        guessed_in=histogram(chosen[is_in]),
        guessed_out=histogram(chosen[~is_in]),
        course=course,
    )
