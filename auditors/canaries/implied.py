"""From an audit of one step to the training that takes many: what follows, and what does not.

Upwards it is sound: if every step obeys the step's law, on all pairs and whatever was released before, then the training obeys its
composition, which is an accountant's theorem. Downwards it is not: a pair on which one step leaks too much refutes the step. The training
may hide it, as it releases the last model only, or never comes near such gradients. So nothing here is a verdict about the training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from scipy.optimize import brentq

from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.certify_result import CertifyResult
from dpwitness.auditors.results.verdicts import SCHEMA, Verdict, strict
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_integer, require_probability, require_type
from dpwitness.mechanisms.textbook.gradient_steps import GradientSteps, step_epsilon

_OWNER = "implied_training"
_LOUDEST = 1e-3  # of the claimed noise, below which there is as good as none


@dataclass(frozen=True, slots=True)
class ImpliedTraining:
    """What an audit of a step implies for the training.

    Attributes
    ----------
    verdict : Verdict
        Of the step. There is none of the training.
    step_claimed, step_lower : float
        Epsilon of the step at its delta: promised, and certified.
    noise_multiplier : float
        The largest at which a step has that epsilon.
    steps, delta
        Of the training.
    claimed, implied : float
        The training's epsilon by dp-accounting: with the noise that is claimed, and with `noise_multiplier`.
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
        """In one line."""
        training = f"{self.steps:,} steps at delta = {self.delta:g}"
        if self.verdict is not Verdict.VIOLATED:
            return (
                f"the step is {self.verdict.value}; {training} compose to epsilon = {self.claimed:.4g}, which bounds the training if "
                "every step obeys the step's law: assumed here, not shown"
            )
        return (
            f"the step is VIOLATED: epsilon >= {self.step_lower:.4g} where {self.step_claimed:.4g} is promised, as with a noise "
            f"multiplier of at most {self.noise_multiplier:.4g}; an accountant told so prints at least {self.implied:.4g} for {training}, "
            f"in place of {self.claimed:.4g}. Implied, not certified: the training's claim has lost its proof, and only an audit of the "
            "training refutes it"
        )

    def to_json(self) -> Json:
        fields = ("step_claimed", "step_lower", "noise_multiplier", "steps", "delta", "claimed", "implied")
        told = {"schema_version": SCHEMA, "kind": "implied training", "step_verdict": self.verdict.value, "headline": self.headline()}
        return told | {name: strict(getattr(self, name)) for name in fields}

    def __str__(self) -> str:
        return self.headline()


def implied_training(result: Any, step: GradientSteps, steps: int, *, delta: float = 1e-5) -> ImpliedTraining:
    """What the audit of one step of DP-SGD implies for a training of `steps` steps, through dp-accounting. It is no verdict.

    Parameters
    ----------
    result : AuditResult or CertifyResult
        Of `step`, against its own claim.
    step : GradientSteps
        One step.
    steps : int
    delta : float
        Of the training.

    Raises
    ------
    InvalidArgument
        If an argument breaks its rule, or the result is about another claim than the step's.

    Examples
    --------
    >>> import dpwitness
    >>> def update(gradients, rng):  # a quarter of the noise
    ...     return gradients[rng.random(len(gradients)) < 0.5].clip(-1, 1).sum(axis=0) + 0.25 * rng.normal(size=1)
    >>> step = GradientSteps(noise_multiplier=1.0, sampling_probability=0.5, delta=1e-3, update=update)
    >>> found = implied_training(dpwitness.audit(step, trials=20_000, bits=False), step, steps=100)
    >>> found.verdict, found.noise_multiplier < 0.8, found.implied > 1.5 * found.claimed
    (<Verdict.VIOLATED: 'VIOLATED'>, True, True)
    """
    require_type("result", result, (AuditResult, CertifyResult), "be a result of audit or certify", _OWNER)
    require_type("step", step, GradientSteps, "be a GradientSteps", _OWNER)
    if step.steps != 1:
        raise InvalidArgument(f"{_OWNER}: step must be one step, got {step.steps} steps")
    if result.claim != step.claim:
        raise InvalidArgument(f"{_OWNER}: result must be about the claim of the step, {step.claim}, got {result.claim}")
    steps = require_integer("steps", steps, _OWNER, most=10**7)
    require_probability("delta", delta, _OWNER)
    noise, lower = step.noise_multiplier, float(result.epsilon_lower)
    if result.verdict is Verdict.VIOLATED:
        noise = _noise_at(lower, step)
    whole = replace(step, steps=steps, delta=delta, update=None)
    return ImpliedTraining(
        verdict=result.verdict,
        step_claimed=step.claim.parameter,
        step_lower=lower,
        noise_multiplier=noise,
        steps=steps,
        delta=delta,
        claimed=whole.claim.parameter,
        implied=replace(whole, noise_multiplier=noise).claim.parameter,
    )


def _noise_at(epsilon: float, step: GradientSteps) -> float:
    """The largest noise multiplier at which a step has this epsilon: epsilon falls as noise grows."""

    def excess(noise: float) -> float:
        return step_epsilon(noise, step.sampling_probability, step.delta) - epsilon

    high, low = step.noise_multiplier, _LOUDEST * step.noise_multiplier
    if excess(high) >= 0:
        return high
    return low if excess(low) < 0 else float(brentq(excess, low, high, xtol=1e-9))
