"""Consequences of an audit of one training step for the training of many steps.

From step to training, the conclusion is sound. If every step obeys the step's law, on all pairs and
for all earlier releases, then the training obeys the composition of the steps, by an accountant's
theorem. From training to step, the conclusion is not sound. A pair on which one step leaks too much
refutes the step only. The training may hide the leak, since the training releases the last model
only, or never has similar gradients. So this module returns no verdict about the training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from scipy.optimize import brentq

from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.density.result import CertifyResult
from dpwitness.auditors.witnesses.verdicts import SCHEMA, Verdict, strict
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_probability,
    require_type,
)
from dpwitness.mechanisms.textbook.gradient_steps import GradientSteps, step_epsilon

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
        fields = (
            "step_claimed",
            "step_lower",
            "noise_multiplier",
            "steps",
            "delta",
            "claimed",
            "implied",
        )
        header = {
            "schema_version": SCHEMA,
            "kind": "implied training",
            "step_verdict": self.verdict.value,
            "headline": self.headline(),
        }
        return header | {name: strict(getattr(self, name)) for name in fields}

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
    >>> found = implied_training(dpwitness.audit(step, trials=20_000, bits=False), step, steps=100)
    >>> found.verdict, found.noise_multiplier < 0.8, found.implied > 1.5 * found.claimed
    (<Verdict.VIOLATED: 'VIOLATED'>, True, True)
    """
    require_type(
        "result", result, (AuditResult, CertifyResult), "be a result of audit or certify", _OWNER
    )
    require_type("step", step, GradientSteps, "be a GradientSteps", _OWNER)
    if step.steps != 1:
        raise InvalidArgument(f"{_OWNER}: step must be one step, got {step.steps} steps")
    if result.claim != step.claim:
        raise InvalidArgument(
            f"{_OWNER}: result must be about the claim of the step, {step.claim}, got "
            f"{result.claim}"
        )
    steps = require_integer("steps", steps, _OWNER, most=10**7)
    require_probability("delta", delta, _OWNER)
    noise, lower = step.noise_multiplier, float(result.epsilon_lower)
    if result.verdict is Verdict.VIOLATED:
        noise = _noise_at(lower, step)
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


def _noise_at(epsilon: float, step: GradientSteps) -> float:
    """Return the largest noise multiplier at which a step has this epsilon: epsilon falls as noise
    grows.
    """

    def excess(noise: float) -> float:
        return step_epsilon(noise, step.sampling_probability, step.delta) - epsilon

    # less than a thousandth of the claimed noise is negligible
    high, low = step.noise_multiplier, 1e-3 * step.noise_multiplier
    if excess(high) >= 0:
        return high
    return low if excess(low) < 0 else float(brentq(excess, low, high, xtol=1e-9))
