"""Mechanisms with exact privacy figures, their parameters, and the ranges in which parameters are
searched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flint import arb

from dpwitness.auditors.functions.accounting.finite import RenyiBound, subsampled_response
from dpwitness.auditors.functions.accounting.loss_grid import compose
from dpwitness.auditors.functions.accounting.profiles import (
    Composition,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Profile,
    Unavailable,
)
from dpwitness.auditors.functions.accounting.subsampled import (
    Mixture,
    Subsampled,
    poisson,
    with_replacement,
)
from dpwitness.core.balls.ball import Ball

Point = Mapping[str, Any]  # a number for each parameter, or a tuple of numbers


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a mechanism or of a figure: its name, range, kind, default if it may be left
    out, and values that a search tries.

    The figures are defined from `least` to `most`.
    """

    name: str
    low: float
    high: float
    kind: str = "log"  # log, integer, order, or list
    default: float | None = None
    hints: tuple[float, ...] = ()
    most: float = math.inf

    @property
    def least(self) -> float:
        """Smallest value: above 1 for an order, 1 for a whole number."""
        return {"order": 1 + 1e-9, "integer": 1.0}.get(self.kind, 0.0)


@dataclass(frozen=True, slots=True)
class Reference:
    """Mechanism with an exact profile; `noise` is the parameter that a calibration returns."""

    parameters: tuple[Parameter, ...]
    build: Callable[[Point], Profile]
    noise: str = ""


def _gaussian(at: Point) -> Profile:
    return Gaussian(arb(at["sensitivity"]) * arb(at["steps"]).sqrt() / arb(at["sigma"]))


def _laplace(at: Point) -> Profile:
    return _repeated_laplace(at["sensitivity"], at["scale"], int(at["steps"]))


@lru_cache(64)
def _repeated_laplace(sensitivity: float, scale: float, steps: int) -> Profile:
    law = Laplace(arb(sensitivity) / arb(scale))
    return law if steps == 1 else compose(law, law, steps)


def _composition(at: Point) -> Profile:
    return Composition(((at["epsilon0"], at["delta0"]),) * int(at["steps"]))


def _heterogeneous(at: Point) -> Profile:
    return Composition(tuple(zip(at["epsilons"], at["deltas"], strict=True)))


def _subsampled(at: Point) -> Profile:
    if at["q"] >= 1:
        return _gaussian({**at, "sensitivity": 1.0})
    return Steps((at["sigma"], at["q"]), int(at["steps"]))


def _with_replacement(at: Point) -> Profile:
    if at["draws"] > 5 * at["records"]:
        raise Unavailable("there are more than 5 draws per record")
    return Steps((at["sigma"], at["draws"], at["records"]), int(at["steps"]))


def _mixture(law: tuple[float, ...]) -> Mixture:
    """Return the pair of Poisson sampling from (sigma, rate), or of sampling with replacement from
    (sigma, draws, records).
    """
    return (
        poisson(law[1], law[0])
        if len(law) == 2
        else with_replacement(int(law[1]), int(law[2]), law[0])
    )


@lru_cache(64)
def _grid(law: tuple[float, ...], steps: int) -> Profile:
    mixture = _mixture(law)
    return compose(mixture, Subsampled(mixture), steps)


@dataclass(frozen=True, slots=True)
class Steps:
    """Profile of several subsampled steps. The grid is built only if a hockey-stick divergence is
    needed.
    """

    law: tuple[float, ...]
    steps: int

    def delta(self, epsilon: Ball) -> Ball:
        single = self.steps == 1
        return (Subsampled(_mixture(self.law)) if single else _grid(self.law, self.steps)).delta(
            epsilon
        )

    def renyi(self, order: Ball) -> Ball:
        return self.steps * Subsampled(_mixture(self.law)).renyi(order)


_SIGMA, _STEPS = Parameter("sigma", 0.05, 1e4), Parameter("steps", 1, 10_000, "integer", 1)
_SENSITIVITY, _FEW = (
    Parameter("sensitivity", 0.1, 10, "log", 1),
    Parameter("steps", 1, 1000, "integer", 1),
)
_EPSILON0, _DELTA0 = (
    Parameter("epsilon0", 1e-4, 10),
    Parameter("delta0", 1e-12, 0.1, "log", 0.0, most=1.0),
)

MECHANISMS: Mapping[str, Reference] = {
    "gaussian": Reference((_SIGMA, _SENSITIVITY, _STEPS), _gaussian, "sigma"),
    "gdp": Reference(
        (Parameter("mu", 1e-4, 30), _STEPS),
        lambda at: Gaussian(arb(at["mu"]) * arb(at["steps"]).sqrt()),
        "mu",
    ),
    "zcdp": Reference(
        (Parameter("rho", 1e-8, 400),), lambda at: Gaussian((2 * arb(at["rho"])).sqrt()), "rho"
    ),
    "renyi": Reference(
        (Parameter("order0", 1.01, 1000, "order"), Parameter("rdp", 1e-6, 100)),
        lambda at: RenyiBound(at["order0"], at["rdp"]),
    ),
    "laplace": Reference((Parameter("scale", 0.05, 1e4), _SENSITIVITY, _FEW), _laplace, "scale"),
    "geometric": Reference(
        (Parameter("scale", 0.05, 1e4), _FEW),
        lambda at: Composition(((1 / at["scale"], 0.0),) * int(at["steps"])),
        "scale",
    ),
    "discrete-gaussian": Reference(
        (Parameter("sigma", 0.1, 200),), lambda at: DiscreteGaussian(at["sigma"]), "sigma"
    ),
    "composition": Reference((_EPSILON0, _DELTA0, _FEW), _composition),
    "heterogeneous-composition": Reference(
        (
            Parameter("epsilons", 1e-3, 3, "list"),
            Parameter("deltas", 1e-12, 1e-2, "list", most=1.0),
        ),
        _heterogeneous,
    ),
    "subsampled-response": Reference(
        (_EPSILON0, Parameter("q", 1e-6, 1, most=1.0)),
        lambda at: subsampled_response(at["epsilon0"], at["q"]),
    ),
    "subsampled-gaussian": Reference(
        (Parameter("sigma", 0.3, 1e3), Parameter("q", 1e-6, 1, most=1.0), _STEPS),
        _subsampled,
        "sigma",
    ),
    "without-replacement-gaussian": Reference(
        (Parameter("sigma", 0.3, 1e3), Parameter("q", 1e-6, 1, most=1.0), _STEPS),
        _subsampled,
        "sigma",
    ),
    "with-replacement-gaussian": Reference(
        (
            Parameter("sigma", 0.3, 1e3),
            Parameter("draws", 1, 10_000, "integer"),
            Parameter("records", 10, 1e7, "integer"),
            _STEPS,
        ),
        _with_replacement,
        "sigma",
    ),
}
