"""Audits of training steps: a sequential canary audit of one training run, in which coins are
revealed during the training until the guesses certify a violation; and the consequences of an audit
of one training step for the training of many steps.

**Sequential audit.** After each step of the training, the scores of some canaries are computed from
what was released so far, the coins of these canaries are guessed, and then revealed. Each coin is
revealed once.

**Theorem.** Let Y be all that the training releases, (epsilon, delta)-DP with respect to each of m
coins, and p0 = e^epsilon / (1 + e^epsilon). Let the order of the canaries, the guesses, and the
moment at which the audit stops depend in any way on the coins revealed before and on what was
released before. Then E(p0) >= 1/alpha at some time, for the evidence E of the right and wrong
guesses (`statistics/anytime`, Theorem 1), with probability at most alpha + m delta.

*Proof.* Fix a history: a set R of revealed coins with values r, and the next canary i. Let p_b be
the density of Y given S_R = r and S_i = b, a mixture over the other coins. Given Y = y and S_i = 1,
flag i with probability (1 - e^epsilon p_0/p_1)_+, given S_i = 0 with the orders of p_0 and p_1
exchanged. Given (Y, S_R, the flags of R), the masses of "S_i = b and not flagged" are in proportion
to min(p_b, e^epsilon p_(1-b)). The ratio of the two is at most e^epsilon. So a guess is right and
not flagged with at most e^epsilon times the probability of wrong and not flagged. For p >= p0, the
mean of the next factor of K(p) over "not flagged" is then at most 1, so that K(p) with value 0 from
the first flag on is a supermartingale, and Ville's inequality bounds its crossing by alpha. It
remains to bound the flags. Given S_i = 1, let B be the set of (Y, S_-i) with a history that leads
to i and p_1 > e^epsilon p_0; the histories exclude each other. The probability of a flag of i with
S_i = 1 is half of P(B | S_i = 1) - e^epsilon P(B | S_i = 0), at most delta/2 by the claim. The same
holds for S_i = 0. The m flags have probability m delta at most. []

A claim with another curve is tested at its (epsilon, delta) point with m delta = alpha / 10.

References: Steinke, Nasr and Jagielski (2023) for one run and fixed guesses; Ville (1939).

**From step to training.** The conclusion is sound. If every step obeys the step's law, on all pairs
and for all earlier releases, then the training obeys the composition of the steps, by an
accountant's theorem. From training to step, the conclusion is not sound. A pair on which one step
leaks too much refutes the step only. The training may hide the leak, since the training releases
the last model only, or never has similar gradients. So this module returns no verdict about the
training.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit

from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.density.result import CertifyResult
from dpwitness.auditors.statistics.anytime import lower_limit
from dpwitness.auditors.statistics.regression import fit_logistic
from dpwitness.auditors.witnesses.verdicts import SCHEMA, Verdict, strict
from dpwitness.core.claims import Claim, promised
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    require_integer,
    require_numbers,
    require_probability,
    require_that,
    require_type,
)
from dpwitness.mechanisms.textbook.gradient_steps import GradientSteps, step_epsilon


@dataclass(frozen=True, slots=True)
class CanaryProgress:
    """State of a sequential canary audit.

    Attributes
    ----------
    revealed, guesses, right : int
        Numbers of revealed coins, of guesses, and of right guesses.
    epsilon_lower : float
        Lower confidence bound on epsilon at `delta`, valid at all times together.
    delta : float
        Delta of the claim, or of the point of its curve that is tested.
    violated : bool
        Whether the claim is refuted at the stated confidence.
    """

    revealed: int
    guesses: int
    right: int
    epsilon_lower: float
    delta: float
    violated: bool


class CanaryMonitor:
    """Sequential canary audit of one training run, which may stop as soon as a violation is
    certified.

    Parameters
    ----------
    claim : Claim or str
        The claim for datasets that differ in one canary, for all that the training releases.
    canaries : int
        Number of canaries whose coins may be revealed, fixed before the training.
    confidence : float
        Confidence of the bound, in (0, 1).

    Raises
    ------
    InvalidArgument
        If an argument is invalid, or canaries * delta is not below 1 - confidence.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> monitor = CanaryMonitor("approx:1,1e-6", canaries=1000)
    >>> for step in range(50):  # ten canaries in each step of the training
    ...     coins = rng.random(10) < 0.5
    ...     progress = monitor.update(rng.normal(size=10) + 6.0 * coins, coins)
    ...     if progress.violated:
    ...         break
    >>> progress.violated, progress.revealed < 100
    (True, True)
    """

    def __init__(self, claim: Claim | str, canaries: int, confidence: float = 0.95) -> None:
        self.claim = claim = promised(None, claim, "CanaryMonitor")
        self.canaries = require_integer("canaries", canaries, "CanaryMonitor", least=1)
        alpha = 1 - require_probability("confidence", confidence, "CanaryMonitor")
        # a tenth of alpha for the flags of a claim without a delta of its own
        self.delta = claim.delta_budget if claim.bounds_epsilon else 0.1 * alpha / self.canaries
        self.epsilon = claim.epsilon_at(self.delta)
        self.error = alpha - self.canaries * self.delta
        require_that(
            self.error > 0,
            f"canaries * delta must be below 1 - confidence = {alpha:.3g}, got {self.canaries} * "
            f"{self.delta:g}; use fewer canaries or a smaller delta",
            "CanaryMonitor",
        )
        self._scores, self._coins = np.empty(0), np.empty(0, dtype=bool)
        self._right = self._wrong = 0
        self._lower = 0.0

    def update(self, scores: ArrayLike, included: ArrayLike) -> CanaryProgress:
        """Guess the coins of canaries from their scores, then reveal them, and return the state of
        the audit.

        Parameters
        ----------
        scores : array_like
            Scores of canaries that were not revealed before, from the outputs that the training has
            released so far.
        included : array_like of bool
            Coins of these canaries. The coins are compared with the guesses, and used for later
            guesses only.

        Returns
        -------
        CanaryProgress
            Counts, bound and verdict.

        Raises
        ------
        InvalidArgument
            If the sizes differ, a score is not finite, or more canaries are revealed than planned.
        """
        values = require_numbers("scores", scores, "CanaryMonitor").ravel()
        coins = np.asarray(included).ravel()
        require_that(
            len(values) == len(coins) and coins.dtype == bool,
            f"included must hold one bool for each of {len(values)} scores, got {len(coins)}",
            "CanaryMonitor",
        )
        revealed = len(self._coins) + len(coins)
        require_that(
            revealed <= self.canaries,
            f"at most canaries = {self.canaries} coins may be revealed, each once, got {revealed}",
            "CanaryMonitor",
        )
        guesses = np.zeros(len(values), dtype=np.int8)  # 1, -1, or 0 to abstain
        # the first coins are revealed without a guess, to learn what scores mean
        if len(self._coins) >= 16 and 0 < self._coins.sum() < len(self._coins):
            center, scale = float(np.median(self._scores)), float(np.std(self._scores)) or 1.0
            known, new = (
                np.column_stack([np.ones(len(each)), (each - center) / scale])
                for each in (self._scores, values)
            )
            precision = np.array([1e-4, 1e-2])  # of the priors of the constant and the slope
            fit = fit_logistic(
                known, self._coins.astype(float), (~self._coins).astype(float), precision
            )
            share = expit(new @ fit.weights)
            # guess where the model expects more right guesses than the claim allows
            confident = np.maximum(share, 1 - share) > expit(self.epsilon)
            guesses[confident] = np.where(share > 0.5, 1, -1)[confident]
        self._right += int(np.sum((guesses > 0) & coins | (guesses < 0) & ~coins))
        self._wrong += int(np.sum((guesses > 0) & ~coins | (guesses < 0) & coins))
        self._scores, self._coins = np.append(self._scores, values), np.append(self._coins, coins)
        theta = float(lower_limit(self._right, self._wrong, (0.0, 0.0), self.error))
        self._lower = max(self._lower, math.log(theta / (1 - theta)) if theta > 0.5 else 0.0)
        return self.progress

    @property
    def progress(self) -> CanaryProgress:
        """State after the last update."""
        guesses = self._right + self._wrong
        return CanaryProgress(
            len(self._coins),
            guesses,
            self._right,
            self._lower,
            self.delta,
            self._lower > self.epsilon,
        )


_OWNER = "implied_training"


@dataclass(frozen=True, slots=True)
class ImpliedTraining:
    """Consequences of a step's audit for the training.

    Attributes
    ----------
    verdict : Verdict
        Verdict on the step. There is no verdict on the training.
    step_claimed, step_lower : float
        Epsilon of the step at the step's delta: claimed, and certified lower bound.
    noise_multiplier : float
        Largest noise multiplier at which a step has the epsilon `step_lower`.
    steps, delta
        Number of steps and delta of the training.
    claimed, implied : float
        Epsilon of the training by dp-accounting: with the claimed noise, and with
        `noise_multiplier`.
    """

    verdict: Verdict
    step_claimed: float
    step_lower: float
    noise_multiplier: float
    steps: int
    delta: float
    claimed: float
    implied: float

    def headline(self) -> str:
        """Return a one-line summary."""
        training = f"{self.steps:,} steps at delta = {self.delta:g}"
        if self.verdict is not Verdict.VIOLATED:
            return (
                f"the step is {self.verdict.value}; {training} compose to epsilon = "
                f"{self.claimed:.4g}, which bounds the training if "
                "every step obeys the step's law: assumed here, not shown"
            )
        return (
            f"the step is VIOLATED: epsilon >= {self.step_lower:.4g} where "
            f"{self.step_claimed:.4g} is promised, as with a noise "
            f"multiplier of at most {self.noise_multiplier:.4g}; an accountant then prints "
            f"at least {self.implied:.4g} for {training}, "
            f"in place of {self.claimed:.4g}. Implied, not certified: the training's claim "
            "has lost its proof, and only an audit of the "
            "training refutes it"
        )

    def to_json(self) -> Json:
        """Return the fields as JSON values."""
        return {
            "schema_version": SCHEMA,
            "kind": "implied training",
            "step_verdict": self.verdict.value,
            "headline": self.headline(),
            **strict({key: value for key, value in asdict(self).items() if key != "verdict"}),
        }

    def __str__(self) -> str:
        return self.headline()


def implied_training(
    result: Any, step: GradientSteps, steps: int, *, delta: float = 1e-5
) -> ImpliedTraining:
    """Return the consequences of an audit of one DP-SGD step for a training of `steps` steps,
    through dp-accounting.

    The consequences are not a verdict on the training.

    Parameters
    ----------
    result : AuditResult or CertifyResult
        Result for `step`, against the step's own claim.
    step : GradientSteps
        The audited step, with ``steps=1``.
    steps : int
        Number of steps of the training.
    delta : float
        Delta of the training.

    Returns
    -------
    ImpliedTraining
        Claimed and implied epsilon of the training, and the noise multiplier that explains the
        step.

    Raises
    ------
    InvalidArgument
        If an argument is invalid, or the result is about another claim than the step's.

    Examples
    --------
    >>> import dpwitness
    >>> def update(gradients, rng):  # a quarter of the noise
    ...     chosen = gradients[rng.random(len(gradients)) < 0.5]
    ...     return chosen.clip(-1, 1).sum(axis=0) + 0.25 * rng.normal(size=1)
    >>> step = GradientSteps(noise_multiplier=1.0, sampling_probability=0.5, delta=1e-3,
    ...     update=update)
    >>> found = implied_training(dpwitness.audit(step, trials=8_000, bits=False), step, steps=100)
    >>> found.verdict, found.noise_multiplier < 0.8, found.implied > 1.5 * found.claimed
    (<Verdict.VIOLATED: 'VIOLATED'>, True, True)
    """
    require_type(
        "result", result, (AuditResult, CertifyResult), "be a result of audit or certify", _OWNER
    )
    require_type("step", step, GradientSteps, "be a GradientSteps", _OWNER)
    require_that(step.steps == 1, f"step must be one step, got {step.steps} steps", _OWNER)
    require_that(
        result.claim == step.claim,
        f"result must be about the claim of the step, {step.claim}, got {result.claim}",
        _OWNER,
    )
    steps = require_integer("steps", steps, _OWNER, most=10**7)
    require_probability("delta", delta, _OWNER)
    noise, lower = step.noise_multiplier, float(result.epsilon_lower)

    def excess(multiplier: float) -> float:
        return step_epsilon(multiplier, step.sampling_probability, step.delta) - lower

    # the epsilon of a step falls as the noise grows
    if result.verdict is Verdict.VIOLATED and excess(noise) < 0:
        least = 1e-3 * noise
        noise = least if excess(least) < 0 else float(brentq(excess, least, noise, xtol=1e-9))
    composed = replace(step, steps=steps, delta=delta, update=None)
    return ImpliedTraining(
        verdict=result.verdict,
        step_claimed=step.claim.parameter,
        step_lower=lower,
        noise_multiplier=noise,
        steps=steps,
        delta=delta,
        claimed=composed.claim.parameter,
        implied=replace(composed, noise_multiplier=noise).claim.parameter,
    )
