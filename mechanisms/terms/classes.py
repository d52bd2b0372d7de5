"""Registry of the classes that a JSON file may name, by their public names and by the names of their modules.

Reading a file imports no other class. A user-defined class is built only if a resolver that the
user has requested finds the class.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Resolver = Callable[[str, str], type]  # (name of a class, path of the field) -> the class, or InvalidArgument

# Module -> its classes. Files are written with public names (package and class). Names with modules are read too, both of this
# layout and of earlier layouts, in which a package held each module by the last part of its name.
_CLASSES_OF_MODULE: dict[str, str] = {
    "mechanisms.terms.datasets": "LabelledVectors LinearCosts",
    "mechanisms.papers.aggregation": "Organisations MirrorAveraging",
    "mechanisms.numerics.kernels": "Kernel",
    "mechanisms.papers.learner": "KernelLearner",
    "mechanisms.numerics.losses": "Loss",
    "mechanisms.papers.convex": "QuadraticPenalty ConvexObjectivePerturbation",
    "mechanisms.numerics.noise": "SphericalNoise",
    "mechanisms.terms.notions": "ApproxDP PureDP GDP RDP ZCDP",
    "mechanisms.terms.notions.plain": "ApproxDP PureDP GDP",
    "mechanisms.terms.notions.renyi": "RDP ZCDP RenyiCurve",
    "mechanisms.terms.notions.curves": "TradeoffCurve",
    "mechanisms.terms.notions.accounted": "DPSGD AccountedDP",
    "mechanisms.terms.notions.budgets": "MetricDP CoordinateDP GroupDP",
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
    "auditors.measured.utility_claims": "FailureBound MeanBound Scaling",
}
_EARLIER_MODULES = {"auditors.events.rules": "auditors.events", "auditors.measured.utility_claims": "auditors.utility"} | {
    f"mechanisms.domains.{name}": "mechanisms.domains" for name in ("answers", "counts", "records", "rows", "labelled_ball", "costs")
}

_PRESENT_MODULE: dict[str, str] = {}  # module of an earlier layout -> module
_LOCATION_OF_NAME: dict[str, tuple[str, str]] = {}  # name in a file -> (module, class)
_PUBLIC_NAME: dict[tuple[str, str], str] = {}  # (module, class) -> public name, used in writing
for _module, _names in _CLASSES_OF_MODULE.items():
    _package, _last = _module.partition(".")[0], _module.rpartition(".")[2]
    _PRESENT_MODULE[f"dpwitness.{_EARLIER_MODULES.get(_module, f'{_package}.{_last}')}"] = f"dpwitness.{_module}"
    for _name in _names.split():
        _location = (f"dpwitness.{_module}", _name)
        _PUBLIC_NAME[_location] = f"dpwitness.{_package}:{_name}"
        for _prefix in (_package, _module, _EARLIER_MODULES.get(_module, f"{_package}.{_last}")):
            _LOCATION_OF_NAME[f"dpwitness.{_prefix}:{_name}"] = _location


def known_class(name: str) -> Any:
    """Return the registered class of this name; None if the name is not registered."""
    place = _LOCATION_OF_NAME.get(name)
    return None if place is None else getattr(importlib.import_module(place[0]), place[1])


def is_known(name: str) -> bool:
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
