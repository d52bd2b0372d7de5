"""Registry of the classes that a JSON file may name, by their public names and by the names of their modules.

Reading a file imports no other class. A user-defined class is built only if a resolver that the
user has requested finds the class.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Resolver = Callable[[str, str], type]  # (name of a class, path of the field) -> the class, or InvalidArgument

# Module -> its classes. They are written by their public name, that of the package; names of modules, these and those of earlier layouts
# (one module a package, by its last word), are read too.
_CLASSES_OF_MODULE: dict[str, str] = {
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

_PRESENT_MODULE: dict[str, str] = {}  # module of an earlier layout -> module
_LOCATION_OF_NAME: dict[str, tuple[str, str]] = {}  # name in a file -> (module, class)
_PUBLIC_NAME: dict[tuple[str, str], str] = {}  # (module, class) -> public name, used in writing
for _module, _names in _CLASSES_OF_MODULE.items():
    _package, _last = _module.partition(".")[0], _module.rpartition(".")[2]
    _earlier = _EARLIER.get(_module, (f"{_package}.{_last}",))
    _PRESENT_MODULE |= {f"dpwitness.{_name}": f"dpwitness.{_module}" for _name in _earlier}
    for _name in _names.split():
        _place = (f"dpwitness.{_module}", _name)
        _PUBLIC_NAME[_place] = f"dpwitness.{_package}:{_name}"
        for _known in (_package, _module, *_earlier):
            _LOCATION_OF_NAME[f"dpwitness.{_known}:{_name}"] = _place


def known_class(name: str) -> Any:
    """Return the registered class of this name; None if the name is not registered."""
    place = _LOCATION_OF_NAME.get(name)
    return None if place is None else getattr(importlib.import_module(place[0]), place[1])


def is_registered(name: str) -> bool:
    """Return whether a class of this name is registered, without importing the class."""
    return name in _LOCATION_OF_NAME


def public_name(cls: type) -> str:
    """Return the name of a class in files: its public name if registered, else ``module:qualname``."""
    return _PUBLIC_NAME.get((cls.__module__, cls.__qualname__), f"{cls.__module__}:{cls.__qualname__}")


def today(module: str) -> str:
    """Return the present name of a module of an earlier layout; any other name is returned as it is."""
    old = "dpwitness.proofs_checks."
    return _PRESENT_MODULE.get(
        module, f"{old}claims.{module[len(old) :]}" if module.startswith(old) and module.endswith("_claims") else module
    )
