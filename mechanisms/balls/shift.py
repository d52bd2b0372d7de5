"""Pairs whose two laws are one noise at two places: all that can be said of them depends on the size of the shift alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpwitness.mechanisms.balls.ball import Ball


@dataclass(frozen=True, slots=True)
class Shift:
    """The law of c + b against that of c' + b, b in R^d.

    Parameters
    ----------
    law : {"Laplace", "normal", "gamma", "radius"}
        Density of b proportional to exp(-|b|) in d = 1, exp(-|b|^2 / 2), exp(-|b|) or exp(-|b|) / |b|^(d-1) in d >= 2: lengths
        are in units of the scale.
    size : Ball
        |c - c'|.
    dimension : int
        d. Laws that are normal depend on it not at all.
    """

    law: Literal["Laplace", "normal", "gamma", "radius"]
    size: Ball
    dimension: int = 1
