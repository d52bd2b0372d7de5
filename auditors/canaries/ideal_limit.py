"""Largest bound that canaries can certify: ideal scores with a known noise law and without
interference between canaries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr
from scipy.stats import binom

from dpwitness.auditors.canaries.bounds import (
    chance,
    epsilons_refuted,
    largest,
    p_value,
    parameter_refuted,
    refutes,
    schedule,
    sizes,
)
from dpwitness.auditors.witnesses.verdicts import SCHEMA, strict
from dpwitness.core.claims import GDP, Claim, PureDP, parse_claim
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_one_of,
    require_probability,
    require_type,
)

MOST = 10**7  # canaries


@dataclass(frozen=True, slots=True)
class CanaryLimit:
    """Largest bound that canaries can certify.

    Attributes
    ----------
    epsilon, parameter : float
        Median bound of audits with ideal scores, for the best number of guesses under this law,
        known in advance: as an epsilon at `delta`, and as the claim's own parameter.
    guesses : int
        Best number of guesses.
    true : float
        True epsilon at `delta`.
    detectable : float
        Smallest true epsilon that refutes the claim with probability 0.9; infinity if there is
        none.
    claim, delta, canaries, runs, confidence
        Arguments of `dpwitness.canaries.canary_limit`.
    """

    claim: Claim
    delta: float
    canaries: int
    runs: int
    confidence: float
    true: float
    epsilon: float
    parameter: float
    guesses: int
    detectable: float

    def headline(self) -> str:
        """Return a one-line summary."""
        runs = f"each of {self.runs} runs" if self.runs > 1 else "one run"
        at = f" at delta = {self.delta:g}" if self.delta else ""
        found = f"a true epsilon of {self.detectable:.4g} refutes the claim with probability 0.9"
        if math.isinf(self.detectable):
            found = "no epsilon refutes the claim with probability 0.9"
        return (
            f"at most epsilon = {self.epsilon:.3g} of {self.true:.4g}{at} is certified by "
            f"{self.canaries:,} canaries in {runs} "
            f"(median, {self.guesses:,} guesses, {self.claim}, confidence "
            f"{self.confidence:g}); {found}"
        )

    def to_json(self) -> Json:
        """Return the fields as JSON values."""
        fields = (
            "delta",
            "canaries",
            "runs",
            "confidence",
            "true",
            "epsilon",
            "parameter",
            "guesses",
            "detectable",
        )
        found = {name: strict(getattr(self, name)) for name in fields}
        header = {
            "claim": str(self.claim),
            "claim_numbers": list(self.claim.numbers),
            "headline": self.headline(),
        }
        return {"schema_version": SCHEMA, "kind": "canary limit", **header, **found}

    def __str__(self) -> str:
        return f"{self.headline()}\n\n  assumes  {self.assumed}, both kinds of guesses"

    @property
    def assumed(self) -> str:
        """Return the assumptions on noise, scores and coins."""
        noise = "randomized response" if self.claim.is_pure else "Gaussian noise"
        return f"{noise}, scores that do not disturb each other, fair coins"


def canary_limit(
    claim: Claim | str,
    canaries: int,
    runs: int = 1,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
    method: str = "best",
) -> CanaryLimit:
    """Return the largest bound that canaries can certify if the training satisfies the claim
    exactly.

    No audit of one run does much better. The claim is satisfied by Gaussian noise, or without delta
    by randomized response of each coin.

    Parameters
    ----------
    claim : Claim or str
        ``pure:EPSILON``. ``approx:EPSILON,DELTA``: the theorem for (epsilon, delta)-DP, at the
        Gaussian noise with this epsilon and delta. ``gdp:MU``, or an approximate claim with
        ``method="curve"``: the theorem for Gaussian curves. A `DPSGD` or `TradeoffCurve` is
        replaced by the Gaussian curve with the same epsilon at `delta`.
    canaries, runs : int
        Number of canaries of each run, included and left out together, and number of runs.
    delta : float
        Delta at which a GDP claim is converted to an epsilon.
    confidence : float
        Confidence level of the bound, in (0, 1).
    method : {"best", "curve"}
        Theorem; ``curve`` tests an approximate claim by the Gaussian curve with the same epsilon
        and delta.

    Returns
    -------
    CanaryLimit
        Median bound, best number of guesses, and smallest detectable epsilon.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.

    Examples
    --------
    >>> found = canary_limit("approx:8,1e-5", 1000)
    >>> round(found.epsilon, 1), round(canary_limit("approx:8,1e-5", 1000,
    ...     method="curve").epsilon, 1)
    (3.0, 4.8)
    """
    owner = "canary_limit"
    claim = (
        parse_claim(claim)
        if isinstance(claim, str)
        else require_type("claim", claim, Claim, "be a claim", owner)
    )
    claim = claim.for_canaries(owner)
    size = require_integer("canaries", canaries, owner, least=10, most=MOST)
    run_count = require_integer("runs", runs, owner, most=10**6)
    alpha = 1 - require_probability("confidence", confidence, owner)
    require_one_of("method", method, ("best", "curve"), owner)
    if not (claim.has_tangents or claim.bounds_epsilon):
        raise InvalidArgument(
            f"{owner}: claim must be pure, approx, gdp or a curve, which bound how often "
            f"guesses are right, got {claim}"
        )
    if claim.is_pure and method == "curve":
        raise InvalidArgument(
            f"{owner}: method must be 'best' for a claim without delta, got 'curve'"
        )
    if claim.has_tangents:
        claim = GDP.implied_by(claim, require_probability("delta", delta, owner))
    else:
        delta = claim.delta_budget
    by_curve = claim.has_tangents or method == "curve"
    truth = claim if claim.is_pure else GDP.implied_by(claim, delta)
    guesses, parameter = certified(truth, size * run_count, alpha, delta, by_curve)
    epsilon = GDP(parameter).epsilon_at(delta) if by_curve and parameter > 0 else parameter
    return CanaryLimit(
        claim=claim,
        delta=delta,
        canaries=size,
        runs=run_count,
        confidence=confidence,
        true=truth.epsilon_at(delta),
        epsilon=epsilon,
        parameter=parameter if by_curve == claim.has_tangents else epsilon,
        guesses=guesses,
        detectable=detectable(
            truth if by_curve else claim, size * run_count, alpha, delta, by_curve
        ),
    )


def shares(truth: Claim, canaries: int) -> tuple[np.ndarray, np.ndarray]:
    """Return several numbers of guesses, and for each the probability that a guess is right if the
    attack is ideal.
    """
    if truth.is_pure:  # randomized response is equally informative about all coins
        return (guesses := sizes(canaries)), np.full(guesses.size, expit(truth.parameter))
    mu = truth.parameter
    guesses = np.unique(np.geomspace(4, canaries, 40).astype(int))
    grid = np.linspace(mu / 2, mu / 2 + 12, 4_000)  # thresholds of the guess "in"
    guessed_share = 0.5 * (ndtr(-grid) + ndtr(mu - grid))
    at = np.interp(-guesses / (2 * canaries), -guessed_share, grid)
    return guesses, ndtr(mu - at) / (ndtr(-at) + ndtr(mu - at))


def certified(
    truth: Claim, canaries: int, alpha: float, delta: float, by_curve: bool, power: float = 0.5
) -> tuple[int, float]:
    """Return the best number of guesses, and the mu or epsilon that this number certifies with
    probability `power`.
    """
    guesses, p = shares(truth, canaries)
    right = binom.ppf(1 - power, guesses, p)
    if not by_curve:
        lower = epsilons_refuted(right, guesses, delta, canaries, alpha, chance)
        return int(guesses[lower.argmax()]), float(lower.max())
    best, chosen = 0.0, int(guesses[-1])
    for r, v in zip(guesses.tolist(), right.astype(int).tolist(), strict=True):
        found = parameter_refuted(GDP(1.0), v, r, canaries, alpha, best)
        best, chosen = (found, r) if found > best else (best, chosen)
    return chosen, best


def detectable(claim: Claim, canaries: int, alpha: float, delta: float, by_curve: bool) -> float:
    """Return the smallest true epsilon at delta that refutes the claim with probability 0.9.

    The true law is Gaussian noise, or randomized response if `delta` is 0.
    """
    lines = claim.tangents() if by_curve else None
    most = round(0.43 * canaries)  # that may be guessed

    def missed(epsilon: float) -> bool:
        guesses, p = (
            shares(GDP.with_epsilon(epsilon, delta), canaries)
            if delta
            else shares(PureDP(epsilon), most)
        )
        if lines is None:
            right = binom.ppf(0.1, guesses, p)
            return not bool(
                (
                    p_value(right, guesses, claim.parameter, delta, canaries)
                    # the number of guesses is not known in advance
                    <= 0.8 * alpha
                ).any()
            )
        for r, share in schedule(canaries, most, alpha, claim.guess_mu):
            v = int(binom.ppf(0.1, r, np.interp(r, guesses, p)))
            if refutes(v, r, canaries, *lines, share):
                return False
        return True

    low = claim.epsilon_at(delta)
    return math.inf if missed(64.0) else largest(missed, low)
