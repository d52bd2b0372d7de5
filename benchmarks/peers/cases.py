"""Mechanisms of the zoo on which tools are compared: those of the papers of the peers, with known
truth and a given worst pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpwitness.core.claims import ApproxDP
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.textbook.zoo import zoo

# The mechanisms of the experiments of StatDP and DP-Sniper that are in the zoo, and the Gaussian
# mechanism of Delta-Siege.
NAMES = (
    "laplace",
    "truncated-geometric",
    "histogram",
    "noisy-max",
    "rappor-one-time",
    "svt1",
    "gaussian",
    "laplace-0.9",
    "histogram-wrong-scale",
    "noisy-max-value",
    "svt4",
    "svt5",
    "svt6",
    "gaussian-0.8",
)


@dataclass(frozen=True)
class Case:
    """Mechanism of the zoo with its claim and its true privacy."""

    name: str

    @cached_property
    def mechanism(self) -> Any:
        return zoo()[self.name]

    @property
    def _claim(self) -> ApproxDP:
        claim = self.mechanism.claim
        assert isinstance(claim, ApproxDP)
        return claim

    @property
    def epsilon(self) -> float:
        """Claimed epsilon."""
        return self._claim.epsilon

    @property
    def delta(self) -> float:
        """Claimed delta; 0 for a pure claim."""
        return self._claim.delta_budget

    @property
    def truth(self) -> float:
        """True epsilon at the claimed delta."""
        return float(self.mechanism.truth.parameter)

    @property
    def broken(self) -> bool:
        """Whether the claim is false."""
        return bool(self.mechanism.truth.breaks(self.mechanism.claim))


def case_named(name: str) -> Case:
    """Return the case with this name. Raise InvalidArgument if there is none."""
    if name not in NAMES:
        raise InvalidArgument(f"case must be one of {', '.join(NAMES)}, got {name!r}")
    return Case(name)
