"""The classes that a file may name: a fixed table of this project's own, by their public names and by those of the modules they stand in.

Reading a file imports nothing else. A class of somebody's own is built only where a resolver that the user has asked for finds it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["Resolver", "is_known", "known_class", "public_name"]

Resolver = Callable[[str, str], type]  # (name of a class, path of the field) -> the class, or InvalidArgument

_TABLE: dict[str, dict[str, str]] = {
    "dpwitness.mechanisms": {
        "datasets": "LabelledVectors LinearCosts",
        "aggregation": "Organisations MirrorAveraging",
        "kernels": "Kernel",
        "learner": "KernelLearner",
        "losses": "Loss",
        "convex": "QuadraticPenalty ConvexObjectivePerturbation",
        "noise": "SphericalNoise",
        "notions": "ApproxDP PureDP GDP RDP ZCDP",
        "domains": "Answers Counts Records Rows LabelledBall Costs",
        "additive": "Laplace Geometric TruncatedGeometric Gaussian",
        "vectors": "LaplaceVector PrefixSums",
        "histograms": "NoisyHistogram",
        "categorical": "SoftmaxDraw",
        "selection": "ExponentialMechanism PermuteAndFlip NoisyMax",
        "local": "RandomizedResponse OneTimeRappor Rappor",
        "sparse_vector": "SparseVector AboveThreshold BrokenSparseVector",
        "logistic": "LogisticOutputPerturbation LogisticObjectivePerturbation",
        "glm": "GLMOutputPerturbation GLMObjectivePerturbation",
        "ridge": "PrivateRidge",
        "simplex": "SimplexSampling",
        "ftrl": "PrivateFTRL",
        "interactive": "PrivateInteractivePrediction",
        "independent": "TestDataIndependentLearner",
        "transfer": "TestDataDependentLearner",
    },
    "dpwitness.auditors": {
        "events": "Atoms Ball Intervals Lattice LowBits Threshold WeightedScore",
        "features": "Affine Distances Levels Places Products Ramps SignedLog Sorted Trees",
        "divergence": "Binned",
        "utility": "FailureBound MeanBound Scaling",
    },
}

_PLACES: dict[str, tuple[str, str]] = {}  # name in a file -> module, class
_PUBLIC: dict[tuple[str, str], str] = {}  # module, class -> name that is written
for _package, _modules in _TABLE.items():
    for _module, _names in _modules.items():
        for _name in _names.split():
            _place = (f"{_package}.{_module}", _name)
            _PUBLIC[_place] = f"{_package}:{_name}"
            _PLACES[f"{_package}:{_name}"] = _PLACES[f"{_package}.{_module}:{_name}"] = _place


def known_class(name: str) -> Any:
    """The class of the table under this name; None if the table has none."""
    place = _PLACES.get(name)
    return None if place is None else getattr(importlib.import_module(place[0]), place[1])


def is_known(name: str) -> bool:
    """Whether the table has a class under this name; imports nothing."""
    return name in _PLACES


def public_name(cls: type) -> str:
    """What a file calls a class: its public name if it is in the table, else its module and name."""
    return _PUBLIC.get((cls.__module__, cls.__qualname__), f"{cls.__module__}:{cls.__qualname__}")
