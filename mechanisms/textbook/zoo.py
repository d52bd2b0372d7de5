"""The zoo: named mechanisms, correct and broken, whose true privacy is known. The auditors are
measured on the zoo.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Protocol

from dpwitness.core import Claim, Pair, PureDP, Truth
from dpwitness.core.domains import Domain
from dpwitness.core.protocols.mechanism import WhiteBox
from dpwitness.core.values.class_registry import modules_of


class Specimen(WhiteBox, Protocol):
    """Protocol of a mechanism with a density, a privacy claim and a known true privacy
    parameter.
    """

    @property
    def claim(self) -> Claim: ...

    @property
    def truth(self) -> Truth: ...

    @property
    def domain(self) -> Domain: ...

    def worst_pair(self) -> Pair:
        """Return neighboring datasets on which the true privacy parameter is attained."""


@dataclass(frozen=True, slots=True)
class PureMechanism:
    """Base of the mechanisms that claim epsilon-DP."""

    epsilon: float

    @property
    def claim(self) -> PureDP:
        return PureDP(self.epsilon)


def zoo() -> dict[str, Specimen]:
    """Return the textbook mechanisms by name."""
    return specimens_of("dpwitness.mechanisms.textbook")


@functools.cache
def _specimens_of(package: str) -> dict[str, Any]:
    parts = [module.specimens() for module in modules_of(package) if hasattr(module, "specimens")]
    return {name: found for part in parts for name, found in dict(part).items()}


def specimens_of(package: str) -> dict[str, Any]:
    """Return the specimens of all modules of a package by name, from the function `specimens` of
    each.
    """
    return dict(_specimens_of(package))
