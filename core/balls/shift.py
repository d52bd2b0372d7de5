"""Pairs of laws that are one noise law at two locations; only the size of the shift matters for
privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpwitness.core.balls.ball import Ball


@dataclass(frozen=True, slots=True)
class Shift:
    """The pair of laws of c + b and c' + b, for noise b in R^d."""

    # density of b. "Laplace": proportional to exp(-|b|) in d = 1. "normal": proportional to
    # exp(-|b|^2 / 2). "gamma": proportional to exp(-|b|) in d >= 2. "radius": proportional to
    # exp(-|b|) / |b|^(d-1) in d >= 2. Lengths are in units of the noise scale.
    law: Literal["Laplace", "normal", "gamma", "radius"]
    size: Ball  # |c - c'|, in units of the noise scale
    dimension: int = 1  # d. Irrelevant for the normal law.
