"""Mechanisms with exact privacy figures, the figures that an accountant returns, and a
rigorous test whether a figure is below the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flint import arb, ctx

from dpwitness.auditors.functions.accounting.loss_grid import compose
from dpwitness.auditors.functions.accounting.profiles import (
    Composition,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Mixture,
    Profile,
    RenyiBound,
    Subsampled,
    Unavailable,
    poisson,
    subsampled_response,
    with_replacement,
)
from dpwitness.core.balls.ball import PRECISION, Ball, down

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
    "composition": Reference(
        (_EPSILON0, _DELTA0, _FEW),
        lambda at: Composition(((at["epsilon0"], at["delta0"]),) * int(at["steps"])),
    ),
    "heterogeneous-composition": Reference(
        (
            Parameter("epsilons", 1e-3, 3, "list"),
            Parameter("deltas", 1e-12, 1e-2, "list", most=1.0),
        ),
        lambda at: Composition(tuple(zip(at["epsilons"], at["deltas"], strict=True))),
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


RELATIVE = 1e-9  # a figure may be below the exact one by this fraction
LOOSE = 1.1  # a figure above the exact one by this factor is called loose
_BITS = PRECISION + 64
_EPSILON, _DELTA = (
    Parameter("epsilon", 1e-3, 30),
    Parameter("delta", 1e-12, 0.5, "log", 0.0, most=1.0),
)
_ORDER = Parameter("order", 1.01, 1000, "order")
_ORDERS = [1 + 2.0**-30, *(1 + 2.0**k for k in range(-8, 15))]
_EPSILONS = [0.0, *(2.0**k for k in range(-8, 7))]
_LARGEST = 1e12  # largest exact figure that is located


@dataclass(frozen=True, slots=True)
class Figure:
    """Kind of figure: its query parameters, and the absolute error that is rounding."""

    queries: tuple[Parameter, ...]
    rounding: float
    symbol: str


FIGURES: Mapping[str, Figure] = {
    "epsilon": Figure((_DELTA,), 1e-12, "epsilon"),
    "delta": Figure((_EPSILON,), 1e-15, "delta"),
    "rdp": Figure((_ORDER,), 1e-12, "Rényi divergence"),
    "zcdp": Figure((), 1e-12, "rho"),
    "mu": Figure((), 1e-12, "mu"),
    "lower-epsilon": Figure((), 0.0, "error probability of the bound"),
    "admitted": Figure((), 1e-15, "delta of the admitted mechanisms"),
    "noise": Figure((_EPSILON, _DELTA), 1e-12, "noise"),
}


# mechanisms that are games, whose tools return one figure each
GAME_FIGURES = {"gaussian-canaries": "lower-epsilon", "privacy-filter": "admitted"}


def allowed_error(returns: str, figure: float) -> float:
    """Return the deficit of a figure that is rounding in double precision."""
    return max(RELATIVE * abs(figure), FIGURES[returns].rounding) if math.isfinite(figure) else 0.0


def is_below(returns: str, value: float, reference: Reference, at: Point) -> bool:
    """Return whether the exact figure at these parameters is certainly larger than `value`."""
    with ctx.workprec(_BITS):
        if value < 0 and returns != "epsilon":
            return True  # only epsilon can be negative
        if returns == "noise":
            return _exceeds(
                "epsilon", at["epsilon"], reference.build({**at, reference.noise: value}), at
            )
        return _exceeds(returns, value, reference.build(at), at)


def _exceeds(returns: str, value: float, profile: Profile, at: Point) -> bool:
    """Return whether the exact figure of a profile is certainly larger than `value`."""
    x = arb(value)
    if returns == "epsilon":
        return bool(1 - x.exp() > arb(at["delta"])) or bool(
            hockey_stick(profile, x) > arb(at["delta"])
        )
    if returns == "delta":
        return bool(profile.delta(arb(at["epsilon"])) > x)
    if returns == "rdp":
        return bool(profile.renyi(arb(at["order"])) > x)
    if returns == "zcdp":
        return any(profile.renyi(arb(order)) > order * x for order in _ORDERS)
    if value <= 0:
        return any(profile.delta(arb(e)) > 0 for e in _EPSILONS)
    return any(profile.delta(arb(e)) > Gaussian(x).delta(arb(e)) for e in _EPSILONS)


def hockey_stick(profile: Profile, epsilon: Ball) -> Ball:
    """Enclose, or bound from below, the hockey-stick divergence of a profile at any epsilon, the
    larger of both orders.

    E_Q[(P/Q - e^x)+] = 1 - e^x + e^x E_P[(Q/P - e^-x)+]: at a negative epsilon, the divergence is
    at least 1 - e^epsilon.
    """
    return (
        1 - epsilon.exp() * (1 - profile.delta(-epsilon)) if epsilon < 0 else profile.delta(epsilon)
    )


def exact_figure(
    returns: str, reference: Reference, at: Point, accuracy: float = 1e-12, *, signed: bool = False
) -> float:
    """Return a rigorous lower bound on the exact figure, within `accuracy` of the largest bound
    that can be proved.

    An epsilon below 0 is returned as 0 unless `signed`.

    Raises
    ------
    Unavailable
        If no figure can be computed at these parameters.
    """
    with ctx.workprec(_BITS):
        if returns == "noise":
            return _largest(lambda value: is_below(returns, value, reference, at), accuracy)
        profile = reference.build(at)
        if returns == "delta":
            return max(0.0, _finite(down(profile.delta(arb(at["epsilon"])).lower())))
        if returns == "rdp":
            found = profile.renyi(arb(at["order"]))
            return (
                math.inf
                if not found.is_nan() and not found.is_finite()
                else max(0.0, _finite(down(found.lower())))
            )
        if returns == "zcdp":
            rates = [profile.renyi(arb(order)) / order for order in _ORDERS]
            return max(
                0.0,
                *(
                    down(x.lower()) if x.is_finite() else 0.0 if x.is_nan() else math.inf
                    for x in rates
                ),
            )
        largest = _largest(lambda value: _exceeds(returns, value, profile, at), accuracy)
        if signed and returns == "epsilon" and largest == 0:
            return _negative(
                lambda value: _exceeds(returns, value, profile, at), at["delta"], accuracy
            )
        return largest


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise Unavailable("the enclosure of the exact figure is too wide")
    return value


def _negative(is_below: Callable[[float], bool], delta: float, accuracy: float) -> float:
    """Return the largest epsilon of at most 0, up to `accuracy`, that is certainly below the exact
    one; delta is at least 1 - e^epsilon.
    """
    low, high = math.log1p(-delta) * (1 + 1e-12) if delta < 1 else -math.inf, 0.0
    if is_below(high):
        return high
    while math.isfinite(low) and high - low > accuracy * max(-low, 1e-3):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low


def _largest(is_below: Callable[[float], bool], accuracy: float) -> float:
    """Return the largest value, up to `accuracy`, that is certainly below the exact figure; 0 if
    there is none.
    """
    if is_below(1.0):
        low, high = 1.0, 2.0
        while is_below(high):
            low, high = high, 2 * high
            if high > _LARGEST:
                return math.inf
    else:
        low, high = 0.5, 1.0
        while not is_below(low):
            low, high = low / 4, low
            if low < 1e-15:
                return 0.0
    while high - low > accuracy * low:
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low
