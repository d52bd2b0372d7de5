"""The classes that a file may name: a fixed table of this project's own, by their public names and by those of the modules they stand in.

Reading a file imports nothing else. A class of somebody's own is built only where a resolver that the user has asked for finds it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Resolver = Callable[[str, str], type]  # (name of a class, path of the field) -> the class, or InvalidArgument

# Module -> its classes. They are written by their public name, that of the package; names of modules, these and those of earlier layouts
# (one module a package, by its last word), are read too.
_TABLE: dict[str, str] = {
    "mechanisms.data.datasets": "LabelledVectors LinearCosts",
    "mechanisms.papers.aggregation": "Organisations MirrorAveraging",
    "mechanisms.numerics.kernels": "Kernel",
    "mechanisms.papers.learner": "KernelLearner",
    "mechanisms.numerics.losses": "Loss",
    "mechanisms.papers.convex": "QuadraticPenalty ConvexObjectivePerturbation",
    "mechanisms.numerics.noise": "SphericalNoise",
    "mechanisms.privacy": "ApproxDP PureDP GDP RDP ZCDP",
    "mechanisms.privacy.base": "ApproxDP PureDP GDP",
    "mechanisms.privacy.renyi": "RDP ZCDP RenyiCurve",
    "mechanisms.privacy.tradeoff_curves": "TradeoffCurve",
    "mechanisms.privacy.accounting": "DPSGD AccountedDP",
    "mechanisms.privacy.pair_budgets": "MetricDP CoordinateDP GroupDP",
    "mechanisms.domains.answers": "Answers",
    "mechanisms.domains.counts": "Counts",
    "mechanisms.domains.records": "Records",
    "mechanisms.domains.rows": "Rows",
    "mechanisms.domains.labelled_ball": "LabelledBall",
    "mechanisms.domains.costs": "Costs",
    "mechanisms.domains.frames": "Events Table",
    "mechanisms.domains.graphs": "Graph",
    "mechanisms.domains.texts": "Texts",
    "mechanisms.textbook.additive": "Laplace Geometric TruncatedGeometric Gaussian",
    "mechanisms.textbook.vectors": "LaplaceVector PrefixSums",
    "mechanisms.textbook.histograms": "NoisyHistogram",
    "mechanisms.textbook.categorical": "SoftmaxDraw",
    "mechanisms.textbook.selection": "ExponentialMechanism PermuteAndFlip NoisyMax",
    "mechanisms.textbook.gradient_steps": "GradientSteps",
    "mechanisms.textbook.local": "RandomizedResponse OneTimeRappor Rappor",
    "mechanisms.textbook.sparse_vector": "SparseVector AboveThreshold BrokenSparseVector",
    "mechanisms.papers.logistic": "LogisticOutputPerturbation LogisticObjectivePerturbation",
    "mechanisms.papers.glm": "GLMOutputPerturbation GLMObjectivePerturbation",
    "mechanisms.papers.ridge": "PrivateRidge",
    "mechanisms.papers.simplex": "SimplexSampling",
    "mechanisms.papers.ftrl": "PrivateFTRL",
    "mechanisms.papers.interactive": "PrivateInteractivePrediction PredictionSession",
    "mechanisms.papers.independent": "TestDataIndependentLearner",
    "mechanisms.papers.transfer": "TestDataDependentLearner",
    "auditors.events.rules": "Atoms Ball Intervals Lattice LowBits Threshold WeightedScore",
    "auditors.events.features": "Affine Distances Levels Places Products Ramps SignedLog Sorted Trees",
    "auditors.events.divergence": "Binned",
    "auditors.bounds.utility_claims": "FailureBound MeanBound Scaling",
}
# Module -> its names in earlier layouts, in which files written then name it. Modules that are not listed stood in their package.
_EARLIER: dict[str, tuple[str, ...]] = {
    "mechanisms.data.datasets": ("mechanisms.datasets", "mechanisms.terms.datasets"),
    "mechanisms.privacy": ("mechanisms.notions", "mechanisms.terms.notions"),
    "mechanisms.privacy.base": ("mechanisms.plain", "mechanisms.terms.notions.plain"),
    "mechanisms.privacy.renyi": ("mechanisms.renyi", "mechanisms.terms.notions.renyi"),
    "mechanisms.privacy.tradeoff_curves": ("mechanisms.curves", "mechanisms.terms.notions.curves"),
    "mechanisms.privacy.accounting": ("mechanisms.accounted", "mechanisms.terms.notions.accounted"),
    "mechanisms.privacy.pair_budgets": ("mechanisms.budgets", "mechanisms.terms.notions.budgets"),
    "auditors.events.rules": ("auditors.events",),
    "auditors.bounds.utility_claims": ("auditors.utility", "auditors.measured.utility_claims"),
} | {f"mechanisms.domains.{name}": ("mechanisms.domains",) for name in ("answers", "counts", "records", "rows", "labelled_ball", "costs")}

_MOVED: dict[str, str] = {}  # module of an earlier layout -> module
_PLACES: dict[str, tuple[str, str]] = {}  # name in a file -> module, class
_PUBLIC: dict[tuple[str, str], str] = {}  # module, class -> name that is written
for _module, _names in _TABLE.items():
    _package, _last = _module.partition(".")[0], _module.rpartition(".")[2]
    _earlier = _EARLIER.get(_module, (f"{_package}.{_last}",))
    _MOVED |= {f"dpwitness.{_name}": f"dpwitness.{_module}" for _name in _earlier}
    for _name in _names.split():
        _place = (f"dpwitness.{_module}", _name)
        _PUBLIC[_place] = f"dpwitness.{_package}:{_name}"
        for _known in (_package, _module, *_earlier):
            _PLACES[f"dpwitness.{_known}:{_name}"] = _place


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


def today(module: str) -> str:
    """Where a module of an earlier layout stands today; any other is returned as it is."""
    old = "dpwitness.proofs_checks."
    return _MOVED.get(module, f"{old}claims.{module[len(old) :]}" if module.startswith(old) and module.endswith("_claims") else module)
