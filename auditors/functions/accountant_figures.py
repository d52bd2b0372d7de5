"""Mechanisms with exact privacy figures, the figures that an accountant returns, and a
rigorous test whether a figure is below the exact one.

**Composition of privacy losses** on a grid, bounded from below by exact integer arithmetic. The
outputs of one step are merged into cells, which is post-processing. The log-ratio of a cell's
masses is rounded down to the grid, and its mass under P is rounded down to a multiple of a power of
two. E_P[(1 - e^(epsilon - L))+] increases in the loss L and in the mass, so each rounding gives a
lower bound. The composed masses are powers of a polynomial with integer coefficients, computed
without error; after each multiplication they are rounded down again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, ctx, fmpz_poly

from dpwitness.auditors.functions.accountant_profiles import (
    Composition,
    DiscreteGaussian,
    Mixture,
    RenyiBound,
    Subsampled,
    Unavailable,
    subsampled_response,
)
from dpwitness.auditors.statistics.mean_limits import bracket
from dpwitness.core.balls.ball import PRECISION, Ball, down
from dpwitness.core.balls.profiles import GaussianProfile, LaplaceProfile, Profile
from dpwitness.core.protocols import FloatArray

_MASS_BITS = 100  # masses are rounded down to multiples of 2^-_MASS_BITS
_TAIL = 1e-18  # mass of the tails that are left out
_AIM = 1e-5  # grid steps by which a cell's log-ratio is aimed past its grid point


# pair of laws on the line whose privacy loss log P/Q increases in the output and is bounded below
Line = LaplaceProfile | Mixture


# masses of the cells of one step under P and under Q
Cells = list[tuple[Ball, Ball]]


@dataclass(frozen=True, slots=True, eq=False)
class Composed:
    """Profile of the composition of equal steps: masses at the losses ``origin + step * k``, for
    both orders of the pair.
    """

    base: Profile  # one step; its Rényi divergences add up
    steps: int
    grids: tuple[tuple[float, float, FloatArray], ...]

    def delta(self, epsilon: Ball) -> Ball:
        return arb(max(self._sum(float(epsilon.upper()), *grid) for grid in self.grids))

    @staticmethod
    def _sum(epsilon: float, origin: float, step: float, masses: FloatArray) -> float:
        """Return a lower bound on E_P[(1 - e^(epsilon - L))+]; all arguments of exponentials are
        moved down past their rounding.
        """
        losses = origin + step * np.arange(len(masses))
        gap = losses - epsilon - 1e-12 * (1 + abs(epsilon) + np.abs(losses))
        # with a relative margin for floating-point rounding in the sum
        return float(np.sum(masses * -np.expm1(-np.clip(gap, 0.0, 700.0)))) * (1 - 1e-9)

    def renyi(self, order: Ball) -> Ball:
        return self.steps * self.base.renyi(order)


def compose(line: Line, base: Profile, steps: int) -> Composed:
    """Return the privacy profile of `steps` independent steps. `line` is the pair of output laws of
    one step, on the real line, and `base` is the profile of one step.
    """
    with ctx.workprec(128):
        # a coarse grid, from the losses of a few outputs
        low, high = float(line.lowest_loss), 1e-6
        while (
            (x := line.output_with_loss(high)) is not None
            and line.masses(x, math.inf)[0] > 1e-9
            and high < 1e6
        ):
            high *= 2
        coarse = _cells(line, (high - low) / 400, _AIM, steps)
        # largest number of grid points of one step
        step = max(_grid_step(coarse, steps), _range(coarse) / 40_000)
        if line.edges:
            # both constant losses are grid points
            step = _range(coarse) / math.ceil(_range(coarse) / step)
        forward, backward = _cells(line, step, _AIM, steps), _cells(line, step, -_AIM, steps)
        # grid points move down a little, so that rounding does not pass them
        origin, below = line.lowest_loss, 1e-9 * arb(step)
        grids = []
        for cells, lowest in (
            (forward, origin - below),
            ([(q, p) for p, q in backward], -origin - below),
        ):
            start, masses = _on_grid(cells, lowest, step)
            grids.append(_powered(masses, steps, down(steps * (lowest + start * arb(step))), step))
    return Composed(base, steps, tuple(grids))


def _cells(line: Line, step: float, aim: float, steps: int) -> Cells:
    """Return cells from the lowest loss upwards; the log-ratio of each cell is just past a grid
    point, in the direction of `aim`.
    """
    origin, edges = float(line.lowest_loss), line.edges
    at = edges[0] if edges else -math.inf
    found = [line.masses(-math.inf, at)] if edges else []
    loss, backward = origin, aim < 0
    # largest number of cells of one step
    while len(found) < 8000 and line.masses(at, math.inf)[backward] * steps > _TAIL:
        # width of distant cells, over their loss
        width = max(1, int(0.01 * abs(loss) / step))  # in grid steps
        goal = origin + step * (math.floor((loss - origin) / step + 0.05) + width)
        cell = _cell(line, at, loss, goal, step, aim)
        if cell is None:
            break
        at, loss, masses = cell
        found.append(masses)
    if edges:
        found.append(line.masses(at, edges[1]))
        at = edges[1]
    found.append(line.masses(at, math.inf))
    return [(p, q) for p, q in found if p > 0 and q > 0]


def _cell(
    line: Line, at: float, loss: float, goal: float, step: float, aim: float
) -> tuple[float, float, tuple[Ball, Ball]] | None:
    """Return the upper end of a cell above `at`, its loss and its masses, found by the secant
    method; None at the largest loss.
    """
    guess, slope, before = 2 * goal - loss, 0.5, None
    found = None
    for _ in range(10):
        x = line.output_with_loss(guess)
        if x is None or not x > at:
            break
        masses = line.masses(at, x)
        found = x, guess, masses
        error = (float((masses[0] / masses[1]).log()) - goal) / step - aim
        if abs(error) < abs(aim) / 2:
            break
        if before is not None and guess != before[0]:
            slope = min(max((error - before[1]) * step / (guess - before[0]), 0.05), 2.0)
        before = guess, error
        guess = max(guess - error * step / slope, loss + step * 1e-3)
    return found


def _grid_step(cells: Cells, steps: int) -> float:
    """Return a grid step that is fine compared with the spread of the composed loss."""
    p, q = np.maximum([[float(x) for x in cell] for cell in cells], 1e-300).T
    loss = np.log(p) - np.log(q)
    spreads = [np.sqrt(np.sum(w * (loss - np.sum(w * loss)) ** 2)) for w in (p, q)]
    spread = math.sqrt(steps) * max(*map(float, spreads), 1e-12)
    # 300 grid steps per standard deviation of the composed loss, by whose thousandth part merging
    # may shift the mean
    return min(spread / 300, math.sqrt(24 * 1e-3 * spread / steps))


def _range(cells: Cells) -> float:
    (first_p, first_q), (last_p, last_q) = cells[0], cells[-1]
    return float((last_p / last_q).log() - (first_p / first_q).log())


def _on_grid(cells: Cells, origin: Ball, step: float) -> tuple[int, list[int]]:
    """Return the index of the lowest grid point, and the integer masses at the grid points from
    there on.
    """
    unit = arb(2) ** _MASS_BITS
    found: dict[int, int] = {}
    for p, q in cells:
        index = _floor(((p / q).log() - origin) / arb(step))
        found[index] = found.get(index, 0) + max(_floor(p * unit), 0)
    start = min(found)
    return start, [found.get(index, 0) for index in range(start, max(found) + 1)]


def _floor(x: Ball) -> int:
    """Return a lower bound on the ball, rounded down. Raise Unavailable if the ball is not a finite
    number.
    """
    found = x.lower().floor().unique_fmpz()
    if found is None:
        raise Unavailable("the probabilities of an output cannot be enclosed at these parameters")
    return int(found)


def _powered(
    masses: list[int], steps: int, lowest: float, step: float
) -> tuple[float, float, FloatArray]:
    """Return (lowest loss, grid step, masses) of the sum of `steps` independent losses; tails are
    left out.
    """
    tail = int(_TAIL * 2.0**_MASS_BITS)
    power, start = fmpz_poly([1 << _MASS_BITS]), 0
    base, shift, left = fmpz_poly(masses), 0, steps
    while True:
        if left & 1:
            power, start = _trimmed(power * base, start + shift, tail)
        left >>= 1
        if not left:
            break
        base, shift = _trimmed(base * base, 2 * shift, tail)
    return (
        lowest + step * start,
        step,
        np.array([float(c) for c in power.coeffs()]) * 2.0**-_MASS_BITS,
    )


def _trimmed(product: fmpz_poly, start: int, tail: int) -> tuple[fmpz_poly, int]:
    """Return a product with its masses rounded down, without tails of mass `tail`, and the index of
    its first term.
    """
    masses = [int(c) >> _MASS_BITS for c in product.coeffs()]
    first, last, sum_low, sum_high = 0, len(masses), 0, 0
    while first < last - 1 and (sum_low := sum_low + masses[first]) <= tail:
        first += 1
    while last > first + 1 and (sum_high := sum_high + masses[last - 1]) <= tail:
        last -= 1
    return fmpz_poly(masses[first:last]), start + first


Point = Mapping[str, Any]  # a number for each parameter


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a mechanism or of a figure: its name, range, kind, default if it may be left
    out, and values that a search tries.

    The figures are defined from `least` to `most`.
    """

    name: str
    low: float
    high: float
    kind: str = "log"  # log, integer or order
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
    return GaussianProfile(arb(at["sensitivity"]) * arb(at["steps"]).sqrt() / arb(at["sigma"]))


@lru_cache(64)
def _repeated_laplace(sensitivity: float, scale: float, steps: int) -> Profile:
    law = LaplaceProfile(arb(sensitivity) / arb(scale))
    return law if steps == 1 else compose(law, law, steps)


def _subsampled(at: Point) -> Profile:
    if at["q"] >= 1:
        return _gaussian({**at, "sensitivity": 1.0})
    return Steps(at["q"], at["sigma"], int(at["steps"]))


@lru_cache(64)
def _steps(rate: float, sigma: float, steps: int) -> Profile:
    """Return the profile of several steps, on a grid that is built if it is needed."""
    mixture = Mixture(rate, sigma)
    single = Subsampled(mixture)
    return single if steps == 1 else compose(mixture, single, steps)


@dataclass(frozen=True, slots=True)
class Steps:
    """Privacy profile of several subsampled steps. The grid of losses for their composition is
    built only if a hockey-stick divergence is needed.
    """

    rate: float
    sigma: float
    steps: int

    def delta(self, epsilon: Ball) -> Ball:
        return _steps(self.rate, self.sigma, self.steps).delta(epsilon)

    def renyi(self, order: Ball) -> Ball:
        return self.steps * _steps(self.rate, self.sigma, 1).renyi(order)


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
        lambda at: GaussianProfile(arb(at["mu"]) * arb(at["steps"]).sqrt()),
        "mu",
    ),
    "zcdp": Reference(
        (Parameter("rho", 1e-8, 400),),
        lambda at: GaussianProfile((2 * arb(at["rho"])).sqrt()),
        "rho",
    ),
    "renyi": Reference(
        (Parameter("order0", 1.01, 1000, "order"), Parameter("rdp", 1e-6, 100)),
        lambda at: RenyiBound(at["order0"], at["rdp"]),
    ),
    "laplace": Reference(
        (Parameter("scale", 0.05, 1e4), _SENSITIVITY, _FEW),
        lambda at: _repeated_laplace(at["sensitivity"], at["scale"], int(at["steps"])),
        "scale",
    ),
    "geometric": Reference(
        (Parameter("scale", 0.05, 1e4), _FEW),
        lambda at: Composition(1 / at["scale"], 0.0, int(at["steps"])),
        "scale",
    ),
    "discrete-gaussian": Reference(
        (Parameter("sigma", 0.1, 200),), lambda at: DiscreteGaussian(at["sigma"]), "sigma"
    ),
    "composition": Reference(
        (_EPSILON0, _DELTA0, _FEW),
        lambda at: Composition(at["epsilon0"], at["delta0"], int(at["steps"])),
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
}


_RELATIVE = 1e-9  # a figure may be below the exact one by this fraction
_BITS = PRECISION + 64
_EPSILON, _DELTA = (
    Parameter("epsilon", 1e-3, 30),
    Parameter("delta", 1e-12, 0.5, "log", 0.0, most=1.0),
)
_ORDERS = [1 + 2.0**-30, *(1 + 2.0**k for k in range(-8, 15))]
_EPSILONS = [0.0, *(2.0**k for k in range(-8, 7))]


@dataclass(frozen=True, slots=True)
class Figure:
    """Kind of figure: its query parameters, the absolute error that is rounding, and the test
    whether the figure of a profile is certainly larger than a value.

    A figure that is the largest of some enclosed numbers has these `numbers` in place of the test.
    """

    queries: tuple[Parameter, ...]
    rounding: float
    symbol: str
    exceeds: Callable[[Profile, Ball, Point], bool] = lambda profile, x, at: False
    numbers: Callable[[Profile, Point], Iterator[Ball]] | None = None


def _epsilon_exceeds(profile: Profile, x: Ball, at: Point) -> bool:
    """Return whether delta at the epsilon `x` certainly exceeds that of the point.

    E_Q[(P/Q - e^x)+] = 1 - e^x + e^x E_P[(Q/P - e^-x)+]: at a negative epsilon, delta is at least
    1 - e^epsilon.
    """
    delta = arb(at["delta"])
    if 1 - x.exp() > delta:
        return True
    found = 1 - x.exp() * (1 - profile.delta(-x)) if x < 0 else profile.delta(x)
    return bool(found > delta)


def _mu_exceeds(profile: Profile, x: Ball, at: Point) -> bool:
    if x <= 0:
        return any(profile.delta(arb(e)) > 0 for e in _EPSILONS)
    return any(profile.delta(arb(e)) > GaussianProfile(x).delta(arb(e)) for e in _EPSILONS)


FIGURES: Mapping[str, Figure] = {
    "epsilon": Figure((_DELTA,), 1e-12, "epsilon", _epsilon_exceeds),
    "delta": Figure(
        (_EPSILON,),
        1e-15,
        "delta",
        numbers=lambda profile, at: iter([profile.delta(arb(at["epsilon"]))]),
    ),
    "rdp": Figure(
        (Parameter("order", 1.01, 1000, "order"),),
        1e-12,
        "Rényi divergence",
        numbers=lambda profile, at: iter([profile.renyi(arb(at["order"]))]),
    ),
    "zcdp": Figure(
        (),
        1e-12,
        "rho",
        numbers=lambda profile, at: (profile.renyi(arb(order)) / order for order in _ORDERS),
    ),
    "mu": Figure((), 1e-12, "mu", _mu_exceeds),
    "lower-epsilon": Figure((), 0.0, "error probability of the bound"),
    "noise": Figure(
        (_EPSILON, _DELTA),
        1e-12,
        "noise",
        lambda profile, x, at: _epsilon_exceeds(profile, arb(at["epsilon"]), at),
    ),
}


# a game tests a tool, which returns the figure of the game
GAME, GAME_FIGURE = "gaussian-canaries", "lower-epsilon"


def allowed_error(returns: str, figure: float) -> float:
    """Return the deficit of a figure that is rounding in double precision."""
    return max(_RELATIVE * abs(figure), FIGURES[returns].rounding) if math.isfinite(figure) else 0.0


def is_below(returns: str, value: float, reference: Reference, at: Point) -> bool:
    """Return whether the exact figure at these parameters is certainly larger than `value`."""
    if value < 0 and returns != "epsilon":
        return True  # only epsilon can be negative
    figure, noise = FIGURES[returns], {reference.noise: value} if returns == "noise" else {}
    with ctx.workprec(_BITS):
        profile, x = reference.build({**at, **noise}), arb(value)
        if figure.numbers is not None:
            return any(number > x for number in figure.numbers(profile, at))
        return figure.exceeds(profile, x, at)


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

    def below(value: float) -> bool:
        return is_below(returns, value, reference, at)

    numbers = FIGURES[returns].numbers
    if numbers is None:
        largest = _largest(below, accuracy)
        negative = signed and returns == "epsilon" and largest == 0
        return _negative(below, at["delta"], accuracy) if negative else largest
    with ctx.workprec(_BITS):
        found = [down(each.lower()) for each in numbers(reference.build(at), at)]
    known = [each for each in found if each > -math.inf]  # not NaN
    if not known:
        raise Unavailable("the enclosure of the exact figure is too wide")
    return max(0.0, *known)


def _negative(is_below: Callable[[float], bool], delta: float, accuracy: float) -> float:
    """Return the largest epsilon of at most 0, up to `accuracy`, that is certainly below the exact
    one; delta is at least 1 - e^epsilon.
    """
    low, high = math.log1p(-delta) * (1 + 1e-12) if delta < 1 else -math.inf, 0.0
    if is_below(high):
        return high
    return _between(is_below, low, high, accuracy * 1e-3) if math.isfinite(low) else low


def _largest(is_below: Callable[[float], bool], accuracy: float) -> float:
    """Return the largest value, up to `accuracy`, that is certainly below the exact figure; 0 if
    there is none.
    """
    if is_below(1.0):
        low, high = 1.0, 2.0
        while is_below(high):
            low, high = high, 2 * high
            if high > 1e12:
                return math.inf
    else:
        low, high = 0.5, 1.0
        while not is_below(low):
            low, high = low / 4, low
            if low < 1e-15:
                return 0.0
    return _between(is_below, low, high, accuracy * low)


def _between(is_below: Callable[[float], bool], low: float, high: float, accuracy: float) -> float:
    """Return the largest value that is certainly below the exact figure, to this accuracy."""
    steps = math.ceil(math.log2(max((high - low) / accuracy, 1.0)))
    return bracket(is_below, low, high, steps)[0]
