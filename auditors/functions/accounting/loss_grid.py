"""Composition of privacy losses on a grid, bounded from below by exact integer arithmetic.

The outputs of one step are merged into cells, which is post-processing. The log-ratio of a cell's
masses is rounded down to the grid, and its mass under P is rounded down to a multiple of a power of
two. E_P[(1 - e^(epsilon - L))+] increases in the loss L and in the mass, so each rounding gives a
lower bound. The composed masses are powers of a polynomial with integer coefficients, computed
without error; after each multiplication they are rounded down again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx, fmpz_poly

from dpwitness.auditors.functions.accounting.profiles import Laplace, Mixture, Profile, Unavailable
from dpwitness.core.balls.ball import Ball, down
from dpwitness.core.protocols.mechanism import FloatArray

_PRECISION = 128  # bits of the balls of masses
_BITS = 100  # masses are rounded down to multiples of 2^-_BITS
_TAIL = 1e-18  # mass of the tails that are left out
_ITERATIONS = 10
_AIM = 1e-5  # grid steps by which a cell's log-ratio is aimed past its grid point
_MARGIN = 1e-9  # relative margin for floating-point rounding in the last sum


# pair of laws on the line whose privacy loss log P/Q increases in the output and is bounded below
Line = Laplace | Mixture


@dataclass(frozen=True, slots=True)
class Cells:
    """Masses of the cells of one step under P and Q."""

    p: tuple[Ball, ...]
    q: tuple[Ball, ...]


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
        return float(np.sum(masses * -np.expm1(-np.clip(gap, 0.0, 700.0)))) * (1 - _MARGIN)

    def renyi(self, order: Ball) -> Ball:
        return self.steps * self.base.renyi(order)


def compose(line: Line, base: Profile, steps: int) -> Composed:
    """Return the profile of `steps` independent steps of one pair on the line; `base` is the
    profile of one step.
    """
    with ctx.workprec(_PRECISION):
        coarse = _cells(line, _first_grid_step(line), _AIM, steps)
        # largest number of grid points of one step
        step = max(_grid_step(coarse, steps), _range(coarse) / 40_000)
        if line.edges:
            # both constant losses are grid points
            step = _range(coarse) / math.ceil(_range(coarse) / step)
        forward, backward = _cells(line, step, _AIM, steps), _cells(line, step, -_AIM, steps)
        # grid points move down a little, so that rounding does not pass them
        origin, below = line.lowest_loss, 1e-9 * arb(step)
        losses = [(p / q).log() for p, q in zip(forward.p, forward.q, strict=True)]
        start, masses = _on_grid(losses, forward.p, origin - below, step)
        grids = [(down(steps * (origin - below + start * arb(step))), masses)]
        losses = [(q / p).log() for p, q in zip(backward.p, backward.q, strict=True)]
        start, masses = _on_grid(losses, backward.q, -origin - below, step)
        grids.append((down(steps * (start * arb(step) - origin - below)), masses))
    return Composed(
        base, steps, tuple(_powered(masses, steps, lowest, step) for lowest, masses in grids)
    )


def _first_grid_step(line: Line) -> float:
    """Return a coarse grid step, from the losses of a few outputs."""
    low, high = float(line.lowest_loss), 1e-6
    while (
        (x := line.output_with_loss(high)) is not None
        and line.masses(arb(x), None)[0] > 1e-9
        and high < 1e6
    ):
        high *= 2
    return (high - low) / 400


def _cells(line: Line, step: float, aim: float, steps: int) -> Cells:
    """Return cells from the lowest loss upwards; the log-ratio of each cell is just past a grid
    point, in the direction of `aim`.
    """
    origin, edges = float(line.lowest_loss), line.edges
    at = arb(edges[0]) if edges else None
    found = [line.masses(None, at)] if edges else []
    loss, backward = origin, aim < 0
    # largest number of cells of one step
    while len(found) < 8000 and line.masses(at, None)[backward] * steps > _TAIL:
        # width of distant cells, over their loss
        width = max(1, int(0.01 * abs(loss) / step))  # in grid steps
        goal = origin + step * (math.floor((loss - origin) / step + 0.05) + width)
        cell = _cell(line, at, loss, goal, step, aim)
        if cell is None:
            break
        at, loss, masses = cell
        found.append(masses)
    if edges:
        found.append(line.masses(at, arb(edges[1])))
        at = arb(edges[1])
    found.append(line.masses(at, None))
    found = [(p, q) for p, q in found if p > 0 and q > 0]
    return Cells(tuple(p for p, _ in found), tuple(q for _, q in found))


def _cell(
    line: Line, at: Ball | None, loss: float, goal: float, step: float, aim: float
) -> tuple[Ball, float, tuple[Ball, Ball]] | None:
    """Return the upper end of a cell above `at`, its loss and its masses, found by the secant
    method; None at the largest loss.
    """
    guess, slope, before = 2 * goal - loss, 0.5, None
    found = None
    for _ in range(_ITERATIONS):
        x = line.output_with_loss(guess)
        if x is None or (at is not None and not arb(x) > at):
            break
        masses = line.masses(at, arb(x))
        found = arb(x), guess, masses
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
    p, q = (np.maximum([float(x) for x in side], 1e-300) for side in (cells.p, cells.q))
    loss = np.log(p) - np.log(q)
    spreads = [np.sqrt(np.sum(w * (loss - np.sum(w * loss)) ** 2)) for w in (p, q)]
    spread = math.sqrt(steps) * max(*map(float, spreads), 1e-12)
    # 300 grid steps per standard deviation of the composed loss, by whose thousandth part merging
    # may shift the mean
    return min(spread / 300, math.sqrt(24 * 1e-3 * spread / steps))


def _range(cells: Cells) -> float:
    return float((cells.p[-1] / cells.q[-1]).log() - (cells.p[0] / cells.q[0]).log())


def _on_grid(
    losses: list[Ball], masses: tuple[Ball, ...], origin: Ball, step: float
) -> tuple[int, list[int]]:
    """Return the index of the lowest grid point, and the integer masses at the grid points from
    there on.
    """
    unit = arb(2) ** _BITS
    found: dict[int, int] = {}
    for loss, mass in zip(losses, masses, strict=True):
        index = _floor((loss - origin) / arb(step))
        found[index] = found.get(index, 0) + max(_floor(mass * unit), 0)
    start = min(found)
    return start, [found.get(index, 0) for index in range(start, max(found) + 1)]


def _floor(x: Ball) -> int:
    """Return a lower bound on the ball, rounded down. Raise Unavailable if the ball is not a finite
    number.
    """
    found = x.lower().floor().unique_fmpz()
    if found is None:
        raise Unavailable("the masses of a cell are not enclosed")
    return int(found)


def _powered(
    masses: list[int], steps: int, lowest: float, step: float
) -> tuple[float, float, FloatArray]:
    """Return (lowest loss, grid step, masses) of the sum of `steps` independent losses; tails are
    left out.
    """
    tail = int(_TAIL * 2.0**_BITS)
    power, start = fmpz_poly([1 << _BITS]), 0
    base, shift, left = fmpz_poly(masses), 0, steps
    while True:
        if left & 1:
            power, start = _trimmed(power * base, start + shift, tail)
        left >>= 1
        if not left:
            break
        base, shift = _trimmed(base * base, 2 * shift, tail)
    return lowest + step * start, step, np.array([float(c) for c in power.coeffs()]) * 2.0**-_BITS


def _trimmed(product: fmpz_poly, start: int, tail: int) -> tuple[fmpz_poly, int]:
    """Return a product with its masses rounded down, without tails of mass `tail`, and the index of
    its first term.
    """
    masses = [int(c) >> _BITS for c in product.coeffs()]
    first, last, sum_low, sum_high = 0, len(masses), 0, 0
    while first < last - 1 and (sum_low := sum_low + masses[first]) <= tail:
        first += 1
    while last > first + 1 and (sum_high := sum_high + masses[last - 1]) <= tail:
        last -= 1
    return fmpz_poly(masses[first:last]), start + first
