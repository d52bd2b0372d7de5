"""What the white-box audits reach: enclosures, pairs found by search alone, attained sensitivities. Each row is computed when asked for.

The searches are told the mechanism, its domain and nothing else. Figures that an audit must meet from both sides are rows of a distance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from statistics import median
from typing import Any

import numpy as np

from dpwitness import ApproxDP, Pair, audit, audit_sensitivity, certify
from dpwitness import mechanisms as m
from dpwitness.auditors import CertifyResult, SensitivityResult, search, worst_output
from dpwitness.auditors.loss.routes import composed, enclosed_law
from dpwitness.auditors.statistics.loss_law import EnclosedLaw
from dpwitness.bench.table import Row, Table
from dpwitness.mechanisms.numerics.solvers import Problem, minimise

_MANY = 10**7  # records, where their number is free
_CROWD = 10**12


@cache
def gaussian(route: str) -> CertifyResult:
    """The calibrated Gaussian at (1, 1e-5), whose epsilon is 1 by its calibration."""
    pair = Pair(np.array([0.0]), np.array([1.0]))
    return certify(m.Gaussian(1.0, 1e-5), pair, ApproxDP(1.0, 1e-5), trials=100_000, route=route)


def _objective(dimension: int, records: int) -> m.LogisticObjectivePerturbation:
    """eps = .1, n lambda = .1, Gamma noise."""
    return m.LogisticObjectivePerturbation(0.1, 0.1 / records, dimension=dimension, records=records)


# Mechanism, and evaluations that the search may make.
SEARCHES: dict[str, tuple[Any, int]] = {
    "CM08 Algorithm 2, d=1, n=1": (_objective(1, 1), 800),
    "CM08 Algorithm 2, d=2, n free": (_objective(2, _MANY), 4000),
    "CM08 Algorithm 1, printed noise, d=2": (m.LogisticOutputPerturbation(1.0, 0.1, noise="laplace_radius_std", dimension=2), 800),
    "JT14 objective, gamma, Huber": (m.GLMObjectivePerturbation(loss=m.Loss("huber"), epsilon=1.0, dimension=1), 800),
    "output perturbation, Gamma noise, d=3, hinge": (
        m.GLMOutputPerturbation(loss=m.Loss("hinge"), epsilon=1.0, dimension=3, regularization=1.0),
        200,
    ),
    "output perturbation, Gamma noise, d=3, logistic": (m.LogisticOutputPerturbation(1.0, 1e-8, dimension=3, records=_CROWD), 1500),
    "Laplace": (m.zoo()["laplace"], 800),
    "exponential mechanism": (m.zoo()["exponential"], 800),
}


@cache
def searched(name: str) -> tuple[Any, Pair, float]:
    """A mechanism, the worst pair that the search finds, and the privacy loss there."""
    mechanism, evaluations = SEARCHES[name]
    found = search(mechanism, mechanism.domain, mechanism.claim, evaluations=evaluations, seconds=60.0)
    return (mechanism, *found[0])


@cache
def ball_audit() -> float:
    """Black-box confirmation of the printed noise, on fresh randomness: a ball around the output that the search over outputs names.

    The median of three seeds: some ten outputs on the rarer side decide, and one seed's bound scatters by .3.
    """
    mechanism, pair, _ = searched("CM08 Algorithm 1, printed noise, d=2")
    near = worst_output(mechanism, pair).output
    return median(audit(mechanism, pair=pair, near=near, trials=2_000_000, bits=False, seed=seed).epsilon_lower for seed in range(3))


def _minimiser(loss: m.Loss, regularization: float) -> Callable[[m.LabelledVectors], Any]:
    """The minimiser of regularization/2 |w|^2 + mean loss, with its certified radius."""
    return lambda dataset: minimise(Problem.of(dataset, loss, regularization * dataset.n))


# Function, bound 2 L R / (lambda n), domain, evaluations.
SENSITIVITIES: dict[str, tuple[m.Loss, float, m.LabelledBall, int]] = {
    "hinge": (m.Loss("hinge"), 1.0, m.LabelledBall(2, 1), 1000),
    "absolute": (m.Loss("absolute"), 0.1, m.LabelledBall(2, 1, (-10, 10)), 1000),
    "Huber, h=1, n lambda=1": (m.Loss("huber"), 1.0, m.LabelledBall(2, 1, (-10, 10)), 1000),
    "logistic, d=1": (m.Loss("logistic"), 1e-8, m.LabelledBall(1, _CROWD), 4000),
    "logistic, d=2": (m.Loss("logistic"), 1e-8, m.LabelledBall(2, _CROWD), 4000),
}
_SPENT: dict[str, float] = {}


@cache
def sensitivity(name: str) -> SensitivityResult:
    """The search for the largest move of a regularised minimiser."""
    loss, lam, domain, evaluations = SENSITIVITIES[name]
    started = time.process_time()
    result = audit_sensitivity(_minimiser(loss, lam), 2 / (domain.size * lam), domain, evaluations=evaluations, name=name)
    _SPENT[name] = time.process_time() - started
    return result


def _repeated(mechanism: Any, times: int) -> EnclosedLaw | None:
    pair = mechanism.worst_pair()
    return composed([(mechanism, pair.d0, pair.d1)] * times)


def _softmax() -> EnclosedLaw | None:
    rng, draw = np.random.default_rng(0), m.SoftmaxDraw(5)
    return composed([(draw, w := rng.normal(size=5), w + 0.05 * rng.normal(size=5)) for _ in range(1000)])


ENCLOSURES: dict[str, Callable[[], EnclosedLaw | None]] = {
    "Laplace vector of 20": lambda: enclosed_law(m.LaplaceVector(1.0), m.LaplaceVector(1.0).spread_pair()),
    "1000 Gaussians": lambda: _repeated(m.Gaussian(1.0, 1e-5, noise_multiplier=10.0), 1000),
    "1000 Laplace": lambda: _repeated(m.Laplace(0.1), 1000),
    "1000 different softmax draws": _softmax,
}


def _width(name: str) -> float:
    """Width of the enclosure of epsilon at delta = 1e-5, over its upper end."""
    found = ENCLOSURES[name]()
    assert found is not None
    low, high = found.lower.epsilon(1e-5), found.upper.epsilon(1e-5)
    return (high - low) / high


@dataclass(frozen=True, slots=True)
class Measurement:
    """A row of the table, not yet measured."""

    name: str
    required: float
    find: Callable[[], float]
    unit: str = "epsilon"
    at_most: bool = False

    def measured(self) -> Row:
        return Row(self.name, self.required, self.find(), self.unit, self.at_most)


def _near(name: str, target: float, tolerance: float, find: Callable[[], float]) -> Measurement:
    return Measurement(f"{name}: distance from {target:.6g}", tolerance, lambda: abs(find() - target), "distance", at_most=True)


def _loss(name: str, unit: float = 1.0) -> float:
    return searched(name)[2] / unit


def _ratio(name: str) -> float:
    return sensitivity(name).ratio


def _search_cases() -> list[Measurement]:
    one, many, singular, huber, *correct = SEARCHES
    truth = SEARCHES[many][0].truth.parameter
    cases = [
        _near(f"{one}, found", 1.228, 1e-3, partial(_loss, one)),
        Measurement(f"{many}, found", 1.30, partial(_loss, many)),
        Measurement(f"{many}, over its supremum", 1 + 1e-9, partial(_loss, many, truth), "ratio", at_most=True),
        Measurement(f"{singular}, found", math.inf, partial(_loss, singular)),
        Measurement(f"{singular}, certified in a ball", 4.0, ball_audit),
        _near(f"{huber}, found", 1 + math.log(1.5), 1e-3, partial(_loss, huber)),
    ]
    for name in correct:
        tight = 0.5 if "hinge" in name else 1.0  # the loss of a hinge moves by half of what its claim pays for
        cases.append(Measurement(f"{name}, over its truth", 0.95, partial(_loss, name, tight), "ratio"))
        cases.append(
            Measurement(f"{name}, over its claim", 1 + 1e-9, partial(_loss, name, SEARCHES[name][0].claim.parameter), "ratio", at_most=True)
        )
    return cases


def _sensitivity_cases() -> list[Measurement]:
    *reached, line, plane = SENSITIVITIES
    return [
        *(_near(f"sensitivity, {name}", 1.0, 5e-4, partial(_ratio, name)) for name in reached),
        _near(f"sensitivity, {line}", 0.5257, 5e-4, partial(_ratio, line)),
        Measurement(f"sensitivity, {plane}", 0.98, partial(_ratio, plane), "ratio"),
        Measurement("sensitivities, longest search", 60.0, _longest, "CPU s", at_most=True),
    ]


def _longest() -> float:
    for name in SENSITIVITIES:
        sensitivity(name)
    return max(_SPENT.values())


CASES: tuple[Measurement, ...] = (
    Measurement("Gaussian (1, 1e-5), 1e5 runs, at least", 0.998, lambda: gaussian("sampling").epsilon_lower),
    Measurement("Gaussian (1, 1e-5), 1e5 runs, at most", 1.002, lambda: gaussian("sampling").epsilon_upper, at_most=True),
    _near("Gaussian (1, 1e-5), law, at least", 1.0, 1e-9, lambda: gaussian("law").epsilon_lower),
    _near("Gaussian (1, 1e-5), law, at most", 1.0, 1e-9, lambda: gaussian("law").epsilon_upper),
    *_search_cases(),
    *_sensitivity_cases(),
    *(Measurement(f"width over epsilon, {name}", 0.01, partial(_width, name), "ratio", at_most=True) for name in ENCLOSURES),
)


def measure() -> Table:
    """All rows: about half a minute."""
    notes = ("searches get the mechanism and its domain; a distance is that of what was found from the figure named",)
    return Table("white-box", tuple(case.measured() for case in CASES), notes)
