"""The zoo: named mechanisms, correct and broken, whose true privacy is known. The auditors are measured on the zoo."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

from dpwitness.mechanisms.data.pairs import Pair
from dpwitness.mechanisms.domains import Domain
from dpwitness.mechanisms.privacy import Claim
from dpwitness.mechanisms.protocols.mechanism import Truth, WhiteBox
from dpwitness.mechanisms.textbook.additive import Gaussian, Geometric, Laplace, TruncatedGeometric
from dpwitness.mechanisms.textbook.histograms import NoisyHistogram
from dpwitness.mechanisms.textbook.local import OneTimeRappor, RandomizedResponse, Rappor
from dpwitness.mechanisms.textbook.selection import ExponentialMechanism, NoisyMax, PermuteAndFlip
from dpwitness.mechanisms.textbook.sparse_vector import AboveThreshold, BrokenSparseVector, SparseVector
from dpwitness.mechanisms.textbook.vectors import LaplaceVector, PrefixSums


class Specimen(WhiteBox, Protocol):
    """Protocol of a mechanism with a density, a privacy claim and a known true privacy parameter."""

    @property
    def claim(self) -> Claim: ...

    @property
    def truth(self) -> Truth: ...

    @property
    def domain(self) -> Domain: ...

    def worst_pair(self) -> Pair:
        """Return neighboring datasets on which the true privacy parameter is attained."""


@lru_cache(maxsize=1)
def _specimens() -> tuple[tuple[str, Any], ...]:
    return (
        ("laplace", Laplace(1.0)),
        ("laplace-grid", Laplace(1.0, arithmetic="grid")),
        ("laplace-discrete", Laplace(1.0, arithmetic="discrete")),
        ("laplace-0.9", Laplace(1.0, arithmetic="grid", noise_multiplier=0.9)),
        ("laplace-vector", LaplaceVector(1.0)),
        ("geometric", Geometric(1.0)),
        ("truncated-geometric", TruncatedGeometric(1.0)),
        ("gaussian", Gaussian(1.0, 1e-5)),
        ("gaussian-grid", Gaussian(1.0, 1e-5, arithmetic="grid")),
        ("gaussian-0.8", Gaussian(1.0, 1e-5, noise_multiplier=0.8, arithmetic="grid")),
        ("prefix-sums", PrefixSums(1.0)),
        ("prefix-sums-uncalibrated", PrefixSums(1.0, calibrated=False)),
        ("histogram", NoisyHistogram(1.0)),
        ("histogram-one-count", NoisyHistogram(1.0, noise="one count")),
        ("histogram-wrong-scale", NoisyHistogram(0.5, noise="inverted")),
        ("exponential", ExponentialMechanism(1.0)),
        ("permute-and-flip", PermuteAndFlip(1.0)),
        ("noisy-max", NoisyMax(1.0)),
        ("noisy-max-value", NoisyMax(1.0, release="value")),
        ("noisy-max-both", NoisyMax(1.0, release="both")),
        ("randomized-response", RandomizedResponse(1.0)),
        ("randomized-response-5", RandomizedResponse(1.0, categories=5)),
        ("rappor-one-time", OneTimeRappor(1.0)),
        ("rappor", Rappor(1.0)),
        ("above-threshold", AboveThreshold(1.0)),
        *((f"svt{variant}", SparseVector(1.0, variant=variant)) for variant in range(1, 7)),
        ("broken-svt", BrokenSparseVector(1.0)),
    )


def zoo() -> dict[str, Specimen]:
    """Return all specimens by name.

    The claim is epsilon = 1 (with delta = 1e-5 for Gaussian noise), but epsilon = 0.5 for the
    wrong-scale histogram.

    Examples
    --------
    >>> broken = sorted(name for name, mechanism in zoo().items() if mechanism.truth.breaks(mechanism.claim))
    >>> broken[:3]
    ['broken-svt', 'gaussian-0.8', 'histogram-one-count']
    """
    return dict(_specimens())
