"""Claims computed by an accountant: the trade-off curve of DP-SGD, and its (epsilon,
delta) points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpwitness.core.claims.basic_notions import ApproxDP
from dpwitness.core.claims.claim import Claim, Lines, parse_numbers
from dpwitness.core.claims.tradeoff_curves import Curve, needed
from dpwitness.core.values.validation import (
    InvalidArgument,
    import_problem,
    require,
    require_integer,
    require_probability,
)

_MOST_NOISE = 1e6
_LARGEST_LOSS = 1000.0  # claims with larger losses cannot be refuted by any number of runs


@dataclass(frozen=True)
class DPSGD(Curve):
    """Trade-off curve of DP-SGD with Poisson sampling, from above, by dp-accounting's privacy loss
    distributions.

    The curve is an upper bound, so the claim is never stricter than DP-SGD's. Neighbors add or
    remove one example.

    Parameters
    ----------
    sampling_probability : float
        Probability of an example in each step, in (0, 1].
    noise_multiplier : float
        Standard deviation of the noise divided by the clipping norm. Positive.
    steps : int
        Number of training steps.
    factor : float
        Factor on every e^epsilon_j of the curve; 1 for DP-SGD itself. Positive.

    Raises
    ------
    InvalidArgument
        If a parameter is out of range, the losses are too large for the claim to be refutable, or
        dp-accounting is not installed.

    Examples
    --------
    >>> round(DPSGD(0.01, 1.0, 1000).at(1e-5).epsilon, 2)
    1.83
    """

    sampling_probability: float
    noise_multiplier: float
    steps: int
    factor: float = 1.0

    form: ClassVar[str] = "dpsgd:SAMPLING,NOISE,STEPS[,DELTA]"
    notion: ClassVar[str] = "the privacy of DP-SGD, as dp-accounting computes it"

    def __post_init__(self) -> None:
        require(self).positive("sampling_probability", "noise_multiplier", "factor").integer(
            "steps", most=10**7
        )
        if self.sampling_probability > 1:
            raise InvalidArgument(
                f"DPSGD: sampling_probability must lie in (0, 1], got {self.sampling_probability!r}"
            )
        if self.noise_multiplier > _MOST_NOISE:  # the accountant's squares overflow
            raise InvalidArgument(
                f"DPSGD: noise_multiplier must be at most {_MOST_NOISE:g}, got "
                f"{self.noise_multiplier!r}"
            )
        if _largest_loss(*self.numbers) > _LARGEST_LOSS:
            raise InvalidArgument(
                f"DPSGD: {self} cannot be refuted by runs: its privacy losses exceed "
                f"{_LARGEST_LOSS:g}"
            )

    @property
    def numbers(self) -> tuple[float, ...]:
        return float(self.sampling_probability), float(self.noise_multiplier), float(self.steps)

    @classmethod
    def parse(cls, text: str) -> Claim:
        return DPSGD.of_numbers(parse_numbers(text, 3, 4))

    @staticmethod
    def of_numbers(numbers: Sequence[float]) -> Claim:
        """Return the curve, or its point at a fourth number, delta."""
        sampling, noise, steps, *delta = numbers
        curve = DPSGD(sampling, noise, require_integer("steps", steps, "DPSGD", most=10**7))
        return curve.at(*delta) if delta else curve

    def of(self, numbers: Sequence[float]) -> Claim:
        return DPSGD.of_numbers(numbers)

    def for_canaries(self, owner: str) -> Training:
        return Training(self.sampling_probability, self.noise_multiplier, self.steps)

    def lines(self) -> Lines:
        return _dpsgd_lines(*self.numbers)

    def at(self, delta: float) -> AccountedDP:
        """Return the point (epsilon, delta) of the curve at this delta. Raise InvalidArgument if
        the epsilon is not positive and finite.
        """
        delta = require_probability("delta", delta, "DPSGD")
        epsilon = float(_loss_distribution(*self.numbers).get_epsilon_for_delta(delta))
        if not 0 < epsilon < math.inf:
            raise InvalidArgument(
                f"DPSGD: delta must give {self} a positive and finite epsilon, got delta = "
                f"{delta:g} with epsilon = {epsilon:g}"
            )
        return AccountedDP(epsilon, delta, self)

    def __str__(self) -> str:
        return f"dpsgd:{self.sampling_probability:g},{self.noise_multiplier:g},{self.steps}"


class Training(DPSGD):
    """DP-SGD training within the family of trainings with other noise, on which canaries certify an
    upper bound.
    """

    symbol: ClassVar[str] = "signal"

    @property
    def signal(self) -> float:
        """1 / noise multiplier, which grows with the leak."""
        return 1 / self.noise_multiplier

    def with_parameter(self, value: float) -> Training:
        return Training(self.sampling_probability, 1 / value, self.steps)

    def trivial_parameter(self) -> float:
        return 0.0


@dataclass(frozen=True, init=False, repr=False)
class AccountedDP(ApproxDP):
    """(epsilon, delta)-DP with the accountant's epsilon at this delta."""

    curve: DPSGD

    kind: ClassVar[str] = "dpsgd"

    def __init__(self, epsilon: float, delta: float, curve: DPSGD) -> None:
        ApproxDP.__init__(self, epsilon, delta)
        object.__setattr__(self, "curve", curve)

    @property
    def numbers(self) -> tuple[float, ...]:
        return *self.curve.numbers, self.delta_budget

    @property
    def spelled(self) -> str:
        return f"dpsgd:{','.join(repr(number) for number in self.numbers)}"

    @property
    def remark(self) -> str:
        return (
            f"{self}: dp-accounting computes epsilon = {self.epsilon:.6g} at delta = "
            f"{self.delta_budget:g}"
        )

    def of(self, numbers: Sequence[float]) -> Claim:
        return DPSGD.of_numbers(numbers)

    def __str__(self) -> str:
        return f"{self.curve},{self.delta_budget:g}"


def _largest_loss(sampling: float, noise: float, steps: float) -> float:
    """Estimate the largest privacy loss ever observed, of a step and of all (Dong, Roth and Su
    2022, Corollary 5.4).
    """
    signal = min(1 / noise, 1e6)
    mu = sampling * math.sqrt(steps * math.expm1(min(signal**2, 700.0)))
    return max(0.5 * signal**2 + 10 * signal, 0.5 * mu**2 + 10 * mu)


@lru_cache(maxsize=16)
def _loss_distribution(sampling: float, noise: float, steps: float) -> Any:
    """Return dp-accounting's privacy loss distribution of DP-SGD. Raise InvalidArgument if
    dp-accounting is not installed.
    """
    try:
        from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
    except ImportError as error:
        why = import_problem("dp_accounting", error, "pip install dp-accounting")
        raise InvalidArgument(f"DPSGD: the claim needs dp-accounting: {why}") from None
    largest = _largest_loss(sampling, noise, steps)
    width = 1e-3 if largest >= 10 else 1e-4
    if steps == 1:  # the errors of the grid grow with the steps, and one step allows a coarse one
        width = min(max(width, largest / 10_000), 1e-3)
    one = from_gaussian_mechanism(
        noise, sampling_prob=sampling, value_discretization_interval=width, use_connect_dots=True
    )
    return one.self_compose(int(steps)) if steps > 1 else one


@lru_cache(maxsize=16)
def _dpsgd_lines(*numbers: float) -> Lines:
    """Return the lines (epsilon_j, delta_j) of DP-SGD's trade-off curve."""
    loss = _loss_distribution(*numbers)
    # 120 lines of the curve: fewer lines only raise it
    epsilons = np.linspace(max(0.01, float(loss.get_epsilon_for_delta(1e-12))), 0.0, 120)
    deltas = np.asarray(loss.get_delta_for_epsilon(epsilons[::-1]), dtype=float)[::-1]
    return needed(np.exp(epsilons), np.clip(deltas, 0.0, 1.0))
