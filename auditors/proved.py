"""The proved route of `certify`: ends that rest on ball arithmetic over the whole output space.

`certify` asks `proved_ends` before it judges. What is given here outranks every other route where it settles the claim; nothing here may
rest on a grid, a sample or an unbounded rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpwitness.mechanisms.notions import Claim
from dpwitness.mechanisms.pairs import Pair

__all__ = ["ProvedEnds", "proved_ends"]


@dataclass(frozen=True, slots=True)
class ProvedEnds:
    """Proved numbers of one pair, both orders together. An end that could not be proved is 0 below and infinity above.

    Attributes
    ----------
    route : str
        For the headline: how it was proved, such as ``balls, 412 boxes in 1 dimension``.
    parameter_lower, parameter_upper : float
        The claim's own parameter: epsilon (at the claim's delta), mu or rho.
    epsilon_lower, epsilon_upper : float
        Epsilon at the claim's delta, at delta = 0 for the other notions.
    notes : tuple of str
        What a person should know beside it.
    """

    route: str
    parameter_lower: float = 0.0
    parameter_upper: float = math.inf
    epsilon_lower: float = 0.0
    epsilon_upper: float = math.inf
    notes: tuple[str, ...] = ()


def proved_ends(mechanism: Any, pair: Pair, claim: Claim) -> ProvedEnds | None:
    """Proved ends for `pair`, or None where no proof applies to this mechanism. Must not raise."""
    return None
