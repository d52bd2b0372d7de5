"""`audit_canaries`: scores of canaries that fair coins included or left out, against a claim, from one run of a private training or few."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from dpwitness.auditors.canaries import counting, recursion, steinke
from dpwitness.auditors.canaries.bounds import epsilons_refuted, largest, parameter_refuted, schedule, sizes
from dpwitness.auditors.canaries.curves import Training, epsilon_told, gaussian_with, held, lines_of
from dpwitness.auditors.canaries.guesses import Guesses, ordered
from dpwitness.auditors.canaries.ideal import detectable
from dpwitness.auditors.canaries.reading import Canaries, read
from dpwitness.auditors.results.canary_result import CanaryPicture, CanaryResult, Guessed
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.terms.notions import GDP, Claim, Curve, parse_claim, resolved
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import (
    InvalidArgument,
    require_finite,
    require_integer,
    require_one_of,
    require_probability,
    require_type,
)

_OWNER = "audit_canaries"
_CELLS = 60  # of the histograms
_COURSE = 24  # numbers of guesses in the picture
_UNSURE = (0.5, 1.0, 2.0)  # by which the fitted log-odds may be off: the number of guesses is best in the mean over them
_FEWER = 0.4  # of the recursion's guesses, at which the bound of Steinke et al. is near its best

ASSUMED = (
    "assumed: each canary was included by a fair coin of its own, apart from all others and from the training's randomness, and scores are "
    "functions of what was released and of nothing that knows the coins"
)
_POOLED = (
    "runs are pooled as canaries of one run: as their randomness is independent, one coin moves its own run alone, which keeps the claim"
)
_GAUSSIAN = "held against the Gaussian curve through the claim's epsilon and delta: a training whose curve is another one may pass it"


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
    """Audit private training by canaries: examples that were put into the training data, or left out, by fair coins.

    Scores say how much each canary looks like one that was trained on: an inner product with the updates, minus the loss, a margin. The
    most telling ones are guessed, and too many right guesses refute the claim. Which canaries are guessed is learnt from all scores and
    from coins that are given away for it; `auditors/canaries/guesses.py` says how, `counting.py` and `recursion.py` prove the bounds.

    Parameters
    ----------
    scores_in, scores_out : array_like, or list of array_like
        Scores of canaries that were included, and of those left out; of several runs, a list of them each.
    claim : Claim or str
        ``pure:EPS``, ``approx:EPS,DELTA``, ``gdp:MU``, ``dpsgd:SAMPLING,NOISE,STEPS``; or a `DPSGD` or
        `TradeoffCurve`. Between data sets that differ in one canary.
    confidence : float
        In (0, 1).
    seed : int
        Of the coins that are given away, and of the order of equal scores.
    name : str, optional
    delta : float
        At which bounds on curves are told as an epsilon; approximate and pure claims have their own.
    inclusion : float
        The probability of inclusion: 1/2, the only one that the theorems are proved for. The sides are tested against it.
    method : {"best", "counting", "steinke", "curve"}
        ``counting``: (epsilon, delta) by this project's theorem; ``steinke``: by that of Steinke, Nasr and Jagielski (2023), at a number
        of guesses that is fixed beforehand; ``curve``: the recursion of Mahloujifar, Melis and Chaudhuri (2025), where an approximate claim
        stands for the Gaussian curve through it. ``best``: counting for pure and approximate claims, curve for others.
    guesses : int, optional
        One number of guesses that was fixed before any score was seen.
    ids_in, ids_out : sequence, optional
        Names of the canaries, each of which may occur once.
    groups : sequence, optional
        For each canary, included ones first, what it shares with others, such as its batch.

    Returns
    -------
    CanaryResult

    Raises
    ------
    InvalidArgument
        If an argument breaks its rule: scores that are missing, equal or not finite, sides that no fair coin gives, a canary twice.

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
    said = resolved(claim, None)[1]
    claim = held(claim, _OWNER)
    alpha = 1 - require_probability("confidence", confidence, _OWNER)
    seed = require_integer("seed", seed, _OWNER, least=0)
    require_type("name", name, str, "be a text", _OWNER, optional=True)
    if require_finite("inclusion", inclusion, _OWNER) != 0.5:
        raise InvalidArgument(f"{_OWNER}: inclusion must be 0.5, the probability that the theorems are proved for, got {inclusion!r}")
    delta = claim.delta_budget if claim.bounds_epsilon else require_probability("delta", delta, _OWNER)
    method, claim, notes = _method(method, claim)
    canaries = read(scores_in, scores_out, ids_in, ids_out, groups)
    size = canaries.scores.size
    rng = np.random.default_rng([seed, size])
    named = ordered(canaries.scores, canaries.coins, rng)
    right = named.right(canaries.coins)
    most = named.chosen.size
    if guesses is not None:
        guesses = require_integer("guesses", guesses, _OWNER, most=most)
    tested = _tested(method, claim, named, right, size, alpha, delta, guesses)
    best = max(tested, key=lambda each: (each.lower, each.alpha))
    p = min(1.0, *(_error(method, claim, each, size, delta, guesses is not None) * alpha / each.alpha for each in tested))
    by_curve = method == "curve"
    gaussian = math.nan
    if delta > 0:
        gaussian = best.lower if by_curve and isinstance(claim, GDP) else _by_curve(GDP(1.0), right, schedule(size, most, alpha), size)
        gaussian = epsilon_told(GDP(1.0), gaussian, delta)
    asked = np.unique(np.geomspace(1, most, _COURSE).astype(int)) if not isinstance(claim, Training) else np.empty(0, dtype=int)
    course = zip(asked.tolist(), right[asked].tolist(), _alone(method, claim, right[asked], asked, size, delta, alpha), strict=True)
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
        epsilon_lower=epsilon_told(claim, best.lower, delta),
        p_value=p,
        gaussian_lower=gaussian,
        detectable=detectable(claim, size, alpha, delta, by_curve),
        tested=tuple(tested),
        picture=_picture(canaries, named, best, tuple(course)),
        notes=(*said, *notes, ASSUMED, *([_POOLED] if canaries.runs > 1 else []), *canaries.notes),
        target=target,
        seconds=time.perf_counter() - begin,
    )


def _method(method: str, claim: Claim) -> tuple[str, Claim, tuple[str, ...]]:
    """The theorem, and what it is held against."""
    require_one_of("method", method, ("best", "counting", "steinke", "curve"), _OWNER)
    by_curve = isinstance(claim, GDP | Curve)
    if not (by_curve or claim.bounds_epsilon):
        raise InvalidArgument(f"{_OWNER}: claim must be pure, approx, gdp or a curve, which bound how often guesses are right, got {claim}")
    if method == "best":
        return ("curve" if by_curve else "counting"), claim, ()
    if by_curve and method != "curve":
        raise InvalidArgument(f"{_OWNER}: method must be 'best' or 'curve' for the claim {claim}, got {method!r}")
    if method == "curve" and not by_curve:
        if claim.is_pure:
            raise InvalidArgument(f"{_OWNER}: method must be 'best', 'counting' or 'steinke' for a claim without delta, got 'curve'")
        return method, gaussian_with(claim.parameter, claim.delta_budget), (_GAUSSIAN,)
    return method, claim, ()


def _tested(
    method: str, claim: Claim, named: Guesses, right: np.ndarray, size: int, alpha: float, delta: float, fixed: int | None
) -> list[Guessed]:
    """The numbers of guesses that are tested, each at its share of the error."""
    most = named.chosen.size
    if fixed is not None:
        planned = [(fixed, alpha)]
    elif method == "counting":  # the expected bound chooses: the coins of the guesses are not looked at
        asked, expected = sizes(most), named.expected()
        bound = np.sum([epsilons_refuted(named.expected(factor)[asked], asked, delta, size, alpha) for factor in _UNSURE], axis=0)
        clear = (expected[asked] - asked / 2) / np.sqrt(asked)  # decides where nothing is expected to be refuted
        planned = [(int(asked[np.lexsort((clear, bound))[-1]]), alpha)]
    elif method == "steinke":
        planned = [(max(1, round(_FEWER * schedule(size, most, alpha)[0][0])), alpha)]
    else:
        planned = schedule(size, most, alpha, claim.mu if isinstance(claim, GDP) else 1.0)
    chosen = fixed is not None or method != "counting"
    return [
        Guessed(r, int(right[r]), share, lower_of(method, claim, int(right[r]), r, size, delta, share, fixed=chosen))
        for r, share in planned
    ]


def lower_of(method: str, claim: Claim, right: int, guesses: int, size: int, delta: float, alpha: float, *, fixed: bool = True) -> float:
    """The largest parameter that so many right guesses refute; `fixed`: their number was chosen before the scores were seen."""
    if method == "curve":
        return parameter_refuted(claim, right, guesses, size, alpha)
    if method == "steinke":
        return largest(lambda epsilon: steinke.chance(right, guesses, epsilon, delta, size) <= alpha)
    law = counting.chance if fixed else counting.p_value
    return float(epsilons_refuted(np.array([right]), np.array([guesses]), delta, size, alpha, law)[0])


def _by_curve(claim: Claim, right: np.ndarray, planned: list[tuple[int, float]], size: int) -> float:
    """The largest parameter of the curve that one of these numbers of guesses refutes."""
    best = 0.0
    for r, share in planned:
        best = parameter_refuted(claim, int(right[r]), r, size, share, best)
    return best


def _error(method: str, claim: Claim, each: Guessed, size: int, delta: float, fixed: bool) -> float:
    """The smallest error at which this number of right guesses refutes the claim."""
    if method == "steinke":
        return steinke.chance(each.right, each.guesses, claim.parameter, delta, size)
    if method == "counting":
        law = counting.chance if fixed else counting.p_value
        return float(law(each.right, each.guesses, claim.parameter, delta, size))
    lines = lines_of(claim)
    low, high = -40.0, 0.0  # of its logarithm
    for _ in range(40):
        middle = 0.5 * (low + high)
        refuted = recursion.refutes(each.right, each.guesses, size, *lines, math.exp(middle))
        low, high = (low, middle) if refuted else (middle, high)
    return math.exp(high)


def _alone(method: str, claim: Claim, right: np.ndarray, guesses: np.ndarray, size: int, delta: float, alpha: float) -> list[float]:
    """What each number of guesses would certify, had it been the only one."""
    if method == "counting":
        return [float(lower) for lower in epsilons_refuted(right, guesses, delta, size, alpha, counting.chance)]
    each = zip(right.tolist(), guesses.tolist(), strict=True)
    return [lower_of(method, claim, v, r, size, delta, alpha) for v, r in each]


def _picture(canaries: Canaries, named: Guesses, best: Guessed, course: tuple[tuple[int, int, float], ...]) -> CanaryPicture:
    """For a person: it certifies nothing. Far scores stand in the outermost cells."""
    low, high = np.quantile(canaries.scores, [0.001, 0.999])
    edges = np.linspace(low, high, _CELLS + 1) if high > low else np.linspace(low - 0.5, high + 0.5, _CELLS + 1)
    cell = np.clip(np.searchsorted(edges, canaries.scores, side="right") - 1, 0, _CELLS - 1)
    chosen, says_in = named.chosen[: best.guesses], named.included[: best.guesses]

    def counted(which: Any) -> tuple[int, ...]:
        return tuple(np.bincount(cell[which], minlength=_CELLS).tolist())

    return CanaryPicture(
        edges=tuple(edges.tolist()),
        included=counted(canaries.coins),
        left_out=counted(~canaries.coins),
        guessed_in=counted(chosen[says_in]),
        guessed_out=counted(chosen[~says_in]),
        course=course,
    )
