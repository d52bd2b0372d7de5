"""Search for the worst output under pure DP with a density: maximize |log p(y) - log q(y)| over all
outputs y.

`PairLoss` is the privacy loss as a function of outputs, with a bound on its rounding error. The
search includes infinity and singular points. Where the density is continuous, |L(y)| at a single y
proves that no smaller epsilon holds. Claims CM-05 and CM-06.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray, WhiteBox
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_numbers,
    require_type,
)

# below, a density that was computed before its logarithm is subnormal and has lost digits
_LOG_SUBNORMAL = -707.0
_LOG_SMALLEST = -745.2  # logarithm of the smallest positive number


def sampled(mechanism: Any, dataset: Any, size: int, rng: Generator) -> FloatArray:
    """Return `size` outputs as floats of shape (size, k). Raise InvalidArgument if the outputs are
    not rows of numbers.
    """
    try:
        rows = np.asarray(mechanism.sample(dataset, size, rng), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"worst_output: mechanism must give rows of numbers, got {error}"
        ) from None
    return rows[:, None] if rows.ndim == 1 else rows.reshape(len(rows), -1)


def support_rows(mechanism: Any, pair: Pair) -> FloatArray:
    """Return the possible outputs on both datasets as rows of floats."""
    supports = [np.asarray(mechanism.support(d), dtype=np.float64) for d in (pair.d0, pair.d1)]
    return np.vstack([s.reshape(len(s), -1) for s in supports])


class PairLoss:
    """Privacy loss log p - log q of a pair, with P the law on D1, for many outputs at once."""

    def __init__(self, mechanism: Any, pair: Pair) -> None:
        if not hasattr(mechanism, "log_density"):
            raise InvalidArgument(
                f"worst_output: mechanism must offer log_density, got {type(mechanism).__name__}"
            )
        self._mechanism, self._pair = mechanism, pair

    def logs(self, outputs: FloatArray) -> FloatArray:
        """Return log q on D0 and log p on D1: shape (2, n). Raise InvalidArgument that names the
        first output with a NaN.
        """
        found = np.empty((2, len(outputs)))
        for i, dataset in enumerate((self._pair.d0, self._pair.d1)):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                logs = self._mechanism.log_density(outputs, dataset)
            found[i] = np.asarray(logs, dtype=np.float64).reshape(len(outputs))
            for row in outputs[np.isnan(found[i])][:1]:
                if np.abs(row).max() < 1e100:
                    raise InvalidArgument(
                        f"worst_output: log_density must be a number, got nan on D{i} at "
                        f"{row.tolist()!r}"
                    )
        return np.where(np.isnan(found), -np.inf, found)

    def signed(self, outputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log p - log q, and a bound on its rounding error. The loss is 0 where both
        densities are zero or both are unbounded.
        """
        logs = self.logs(outputs)
        with np.errstate(invalid="ignore"):
            difference = logs[1] - logs[0]
        # a zero next to a tiny density has underflowed
        hidden = np.isinf(difference) & (logs.max(axis=0) < _LOG_SUBNORMAL)
        faint = ((logs > _LOG_SMALLEST) & (logs < _LOG_SUBNORMAL)).any(axis=0)
        # relative to a log-density, which has few terms of its magnitude
        sizes = np.abs(np.where(np.isfinite(logs), logs, 0))
        rounding = np.where(faint, 1.0, 0.0) + 1e-15 * (sizes[0] + sizes[1])
        return np.where(hidden | np.isnan(difference), 0.0, difference), rounding

    def __call__(self, outputs: FloatArray) -> FloatArray:
        """Return |log p - log q| minus the bound on its rounding error, at least 0."""
        difference, rounding = self.signed(outputs)
        return np.maximum(np.abs(difference) - rounding, 0.0)

    def share_of_atoms(self, rows: FloatArray, rng: Generator) -> float:
        """Return the share of outputs that a small move makes impossible, as in discrete columns; 0
        if below a tenth.
        """
        some = rows[np.unique(np.linspace(0, len(rows) - 1, 32).astype(int))]
        moved = some + 1e-7 * (1 + np.abs(some)) * rng.uniform(0.5, 1.0, some.shape)
        possible, before = (self.logs(at).max(axis=0) > -np.inf for at in (moved, some))
        share = float((before & ~possible).mean())
        return share if share > 0.1 else 0.0


def _search_atoms(loss: PairLoss, rows: FloatArray) -> FloatArray:
    """Return the output with the largest loss found by coordinate search.

    The search starts from the best outputs. A column may take any value seen in this column, or a
    power of ten, while the loss grows.
    """
    k = rows.shape[1]
    sizes = 10.0 ** np.arange(-6, 7)
    seen = [np.concatenate([np.unique(rows[:, j])[:64], sizes, -sizes]) for j in range(k)]
    totals = rows.sum(axis=1)
    # frequencies: add the corners of their simplex
    if k > 1 and np.all(rows >= 0) and np.ptp(totals) <= 1e-9 * abs(totals[0]):
        rows = np.vstack([rows, totals[0] * np.eye(k)])
    found: list[tuple[float, FloatArray]] = []
    values = loss(rows)
    for i in np.argsort(-values)[:4]:
        point, value, before = rows[i].copy(), float(values[i]), -1.0
        while value > before and np.isfinite(value):
            before = value
            for j in range(k):
                trials = np.repeat(point[None, :], len(seen[j]), axis=0)
                trials[:, j] = seen[j]
                losses = loss(trials)
                at = int(np.argmax(losses))
                if losses[at] > value + 1e-12:
                    point, value = trials[at], float(losses[at])
        found.append((value, point))
    return max(found, key=lambda entry: entry[0])[1]


Kind = Literal["attained", "ray", "singularity", "impossible"]

_DOUBLING_DISTANCES = 2.0 ** np.arange(0, 41)
_SHRINKING_DISTANCES = 10.0 ** -np.arange(1.0, 12.0)
_KIND_PHRASES = {
    "attained": "at",
    "singularity": "unbounded towards",
    "impossible": "possible on one dataset only:",
}


@dataclass(frozen=True, slots=True, eq=False)
class WorstOutput:
    """The output with the largest privacy loss."""

    # where |L| is largest; the point towards which |L| is unbounded; or the origin of `ray`
    output: FloatArray
    # |L| at the output: no smaller epsilon holds for this pair; infinite where L is unbounded
    loss: float
    ray: FloatArray | None = None  # direction along which |L| grows without bound
    # "impossible": an output of one dataset that is impossible on the other
    kind: Kind = "attained"
    likelier: int = 0  # the dataset under which the output is likelier

    def describe(self) -> str:
        """Return a one-line description for a report."""
        point = np.array2string(self.output, precision=6, threshold=8)
        if self.ray is not None:
            return (
                f"epsilon = infinity along the ray {point} + t "
                f"{np.array2string(self.ray, precision=6, threshold=8)}"
            )
        value = "infinity" if np.isinf(self.loss) else f"{self.loss:.6g}"
        return f"epsilon = {value}, {_KIND_PHRASES[self.kind]} output {point}"


def worst_output(
    mechanism: WhiteBox,
    pair: Pair,
    *,
    seed: int = 0,
    samples: int = 128,
    starts: FloatArray | None = None,
    thorough: bool = True,
) -> WorstOutput:
    """Return the output at which the privacy loss of `pair` is largest.

    Finite supports are enumerated. Otherwise, BFGS starts from `samples` outputs of each dataset,
    from `starts`, the modes of both densities, kinks, and distant points in many directions. If
    `thorough`, Nelder-Mead follows, or CMA-ES beyond 12 columns. The returned value is reduced by a
    bound on its rounding error. Raises InvalidArgument if the mechanism has no log-density, its
    outputs are not rows of numbers, or the log-density is NaN somewhere.
    """
    require_type("pair", pair, Pair, "be a Pair", "worst_output")
    rng = np.random.default_rng(require_integer("seed", seed, "worst_output", least=0))
    samples = require_integer("samples", samples, "worst_output", most=10**7)
    starts = None if starts is None else require_numbers("starts", starts, "worst_output")
    loss = PairLoss(mechanism, pair)
    if hasattr(mechanism, "support"):
        listed = None
        with suppress(InvalidArgument, MemoryError):  # too many outputs
            listed = support_rows(mechanism, pair)
        if listed is not None:
            return _worst_of(loss, listed)
    first, second = (sampled(mechanism, dataset, samples, rng) for dataset in (pair.d0, pair.d1))
    rows = np.vstack([first, second])
    if starts is not None:
        if starts.size % rows.shape[1]:
            raise InvalidArgument(
                f"worst_output: starts must have rows of {rows.shape[1]} numbers, got shape "
                f"{starts.shape}"
            )
        rows = np.vstack([rows, starts.reshape(-1, rows.shape[1])])
    if np.isinf(loss(rows)).any():
        return _worst_of(loss, rows)
    # A row that is NaN from some column on, where the mechanism stopped, is compared with similar
    # rows and not moved.
    atoms = 1.0 if np.isnan(rows).any() else loss.share_of_atoms(rows, rng)
    if atoms == 0:
        return _search_continuous(mechanism, pair, loss, first, second, rows, rng, thorough)
    atom = _worst_of(loss, _search_atoms(loss, rows)[None, :])
    if atoms == 1:
        return atom
    other = _search_continuous(mechanism, pair, loss, first, second, rows, rng, thorough)
    return other if other.loss > atom.loss else atom


def _worst_of(loss: PairLoss, rows: FloatArray) -> WorstOutput:
    """Return the WorstOutput among `rows`, with its loss and kind."""
    output = rows[int(np.argmax(loss(rows)))]
    value = float(loss(output[None, :])[0])
    likelier = 1 if loss.signed(output[None, :])[0][0] > 0 else 0
    if np.isfinite(value):
        return WorstOutput(output, value, likelier=likelier)
    kind: Kind = "singularity" if loss.logs(output[None, :]).max() == np.inf else "impossible"
    return WorstOutput(output, value, kind=kind, likelier=likelier)


def _search_continuous(
    mechanism: Any,
    pair: Pair,
    loss: PairLoss,
    first: FloatArray,
    second: FloatArray,
    rows: FloatArray,
    rng: Generator,
    thorough: bool,
) -> WorstOutput:
    """Return the worst output of a continuous law: a singularity, an unbounded ray, or the best
    point of a local search.
    """
    k = rows.shape[1]
    center = np.median(np.vstack([first, second]), axis=0)
    spread = np.maximum(
        np.subtract(*np.percentile(np.vstack([first, second]), [90, 10], axis=0)),
        1e-12 * (1 + np.abs(center)),
    )
    modes = [_mode(loss, side, sample, spread) for side, sample in ((0, first), (1, second))]
    for side, mode in enumerate(modes):
        if _singular(loss, side, mode, spread, rng):
            return WorstOutput(mode, np.inf, kind="singularity", likelier=side)
    ray = _unbounded_ray(loss, modes, center, spread, first, second, rng)
    if ray is not None:
        return ray
    far = _directions(modes, first, second, k, rng)
    far_points = np.concatenate(
        [modes[0] + spread.max() * t * far for t in (0.5, 3.0, 30.0, 1e3, 1e5)]
    )
    pool = np.vstack([rows, *(m[None, :] for m in modes), far_points, *_kinks(mechanism, pair, k)])
    if k == 1:
        pool = np.vstack([pool, (center + spread * np.sinh(np.linspace(-20, 20, 4001))[:, None])])
    values = loss(pool)
    if np.isinf(values).any():
        return _worst_of(loss, pool)
    if k == 1:
        return _worst_of(loss, _refine_grid(loss, pool))
    return _worst_of(loss, _search_locally(loss, pool, values, spread, rng, thorough)[None, :])


def _refine_grid(loss: PairLoss, pool: FloatArray) -> FloatArray:
    """Return candidates for the best output in one dimension, from ever finer grids between the
    neighbors of the best points.

    Grids find jumps as well as smooth maxima. The best point of the pool comes first, so that a
    refined one replaces it only if its loss is larger.
    """
    x = np.unique(pool[:, 0])
    first = x[int(np.argmax(loss(x[:, None])))]
    for _ in range(9):
        best = np.argsort(-loss(x[:, None]))[:12]
        low, high = x[np.maximum(best - 1, 0)], x[np.minimum(best + 1, len(x) - 1)]
        x = np.unique(np.append(x[best], np.linspace(low, high, 65)))
    return np.append(first, x)[:, None]


def _search_locally(
    loss: PairLoss,
    pool: FloatArray,
    values: FloatArray,
    spread: FloatArray,
    rng: Generator,
    thorough: bool,
) -> FloatArray:
    """Return the best output of local searches from the best starting points, each in units of its
    own distance from the sample.
    """
    best: FloatArray = pool[int(np.argmax(values))]
    top = float(loss(best[None, :])[0])
    signs = np.sign(loss.signed(pool)[0])
    heads = [
        i
        for sign in (-1.0, 1.0)
        for i in _spaced_best(
            pool, np.where(signs == sign, values, -1.0), spread, 5 if thorough else 2
        )
    ]

    def consider(point: FloatArray) -> None:
        nonlocal best, top
        value = float(loss(point[None, :])[0])
        if value > top:
            best, top = point, value

    for i in heads:
        consider(_bfgs(lambda y: -loss(y), pool[i], spread))
    if not thorough:
        return best
    before = float(values.max())
    if len(best) > 12:
        if top <= before * (1 + 1e-6):
            from dpwitness.core.numerics.cma_es import minimize_cma_es

            start = best
            found = minimize_cma_es(
                lambda zs: -loss(start + np.sinh(zs) * spread),
                np.zeros(len(start)),
                0.7,
                seed=int(rng.integers(1, 2**31)),
                evaluations=300 + 60 * len(start),
            )
            consider(start + np.sinh(found) * spread)
            consider(_bfgs(lambda y: -loss(y), best, spread))
        return best
    for scale in (0.3, 1e-3):
        reached = top
        consider(_nelder_mead(lambda y: -loss(y), best, scale * spread))
        if top <= reached * (1 + 1e-7):
            break
    return best


def _spaced_best(pool: FloatArray, values: FloatArray, spread: FloatArray, count: int) -> list[int]:
    """Return the indices of the best points that are not too close to each other."""
    chosen: list[int] = []
    for i in map(int, np.argsort(-values)):
        if len(chosen) == count or values[i] <= 0:
            break
        if all(
            np.max(np.abs(pool[i] - pool[j]) / (spread + 0.1 * np.abs(pool[j]))) > 0.2
            for j in chosen
        ):
            chosen.append(i)
    return chosen


Batch = Callable[[FloatArray], FloatArray]


def _bfgs(objective: Batch, start: FloatArray, unit: FloatArray) -> FloatArray:
    """Minimize by BFGS in units of `unit`. A value and its gradient, from central differences, use
    one batch of outputs.
    """
    from scipy.optimize import minimize  # takes a tenth of a second to load

    k, step = len(start), 1e-5
    moves = np.vstack([np.zeros(k), step * np.eye(k), -step * np.eye(k)])

    def value_and_gradient(z: FloatArray) -> tuple[float, FloatArray]:
        found = np.clip(
            np.nan_to_num(objective(start + (z + moves) * unit), nan=1e300), -1e300, 1e300
        )
        return float(found[0]), (found[1 : k + 1] - found[k + 1 :]) / (2 * step)

    options = {"maxiter": 60, "maxls": 40, "ftol": 1e-13, "gtol": 1e-12}
    result = minimize(value_and_gradient, np.zeros(k), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(start + result.x * unit)


def _nelder_mead(objective: Batch, start: FloatArray, unit: FloatArray) -> FloatArray:
    """Minimize by Nelder-Mead, for losses with kinks or jumps."""
    from scipy.optimize import minimize  # takes a tenth of a second to load

    k = len(start)
    simplex = np.vstack([np.zeros(k), np.eye(k)])
    options = {"initial_simplex": simplex, "xatol": 1e-9, "fatol": 1e-12, "maxfev": 200 * k}
    result = minimize(
        lambda z: float(objective((start + z * unit)[None, :])[0]),
        np.zeros(k),
        method="Nelder-Mead",
        options=options,
    )
    return np.asarray(start + result.x * unit)


def _mode(loss: PairLoss, side: int, sample: FloatArray, spread: FloatArray) -> FloatArray:
    """Return the likeliest output of one dataset.

    Minimizes p^(-2/(k-1)), which is quadratic around a singularity of the kind 1/r^(k-1).
    """
    k = sample.shape[1]
    point: FloatArray = sample[int(np.argmax(loss.logs(sample)[side]))]
    unit = spread
    for iteration in range(4):
        reference = float(loss.logs(point[None, :])[side][0])
        if not np.isfinite(reference):
            return point

        def surprise(y: FloatArray, reference: float = reference) -> FloatArray:
            return np.asarray(
                np.exp(np.clip((reference - loss.logs(y)[side]) * 2 / max(k - 1, 1), -700, 60))
            )

        moved = _bfgs(surprise, point, unit)
        reached = float(loss.logs(moved[None, :])[side][0])
        if reached >= reference:
            point = moved
        # the density is bounded and the point close enough; towards a singularity, the density
        # would keep rising
        if iteration > 1 and reached < reference + 1e-2:
            break
        unit = unit * 1e-2
    return point


def _singular(
    loss: PairLoss, side: int, point: FloatArray, spread: FloatArray, rng: Generator
) -> bool:
    """Return whether only one of the densities grows without bound towards `point`: steadily, each
    time the distance shrinks tenfold.
    """
    k = len(point)
    logs = loss.logs(point[None, :])
    if logs[side][0] == np.inf:
        return bool(np.isfinite(logs[1 - side][0]))
    u = rng.standard_normal((8, k))
    u = np.concatenate([u, -u])  # opposite directions, so that a slope at the point cancels out
    u /= np.linalg.norm(u, axis=1)[:, None]
    found = loss.logs(
        (point + (_SHRINKING_DISTANCES[:, None, None] * u * spread.max())).reshape(-1, k)
    )
    heights = [
        np.median(side_logs.reshape(len(_SHRINKING_DISTANCES), -1), axis=1) for side_logs in found
    ]
    with np.errstate(invalid="ignore"):  # invalid where both densities are zero
        rise, own = np.diff(heights[side] - heights[1 - side]), np.diff(heights[side])
    # The rise stops at the accuracy of the point, so six decades must suffice.
    steady = (rise > 0.5) & (own > 0.5)
    return bool(steady[1:6].all() and own[5] > 0.8 * own[2])


def _directions(
    modes: list[FloatArray], first: FloatArray, second: FloatArray, k: int, rng: Generator
) -> FloatArray:
    """Return unit vectors in both directions: along the axes, between the centers, and
    at random.
    """
    between = [modes[0] - modes[1], first.mean(axis=0) - second.mean(axis=0)]
    axes = np.eye(k)[: min(k, 32)]
    rows = np.vstack([axes, rng.standard_normal((24, k)), *(v[None, :] for v in between)])
    lengths = np.linalg.norm(rows, axis=1)
    rows = rows[lengths > 0] / lengths[lengths > 0][:, None]
    return np.vstack([rows, -rows])


def _unbounded_ray(
    loss: PairLoss,
    modes: list[FloatArray],
    center: FloatArray,
    spread: FloatArray,
    first: FloatArray,
    second: FloatArray,
    rng: Generator,
) -> WorstOutput | None:
    """Return a ray along which |L| grows by increments that do not shrink as the distance doubles,
    or None.
    """
    directions = _directions(modes, first, second, len(center), rng)
    points = center + (_DOUBLING_DISTANCES[None, :, None] * directions[:, None, :] * spread.max())
    signed, rounding = loss.signed(points.reshape(-1, len(center)))
    signed, rounding = (np.asarray(a).reshape(len(directions), -1) for a in (signed, rounding))
    rays: list[tuple[float, WorstOutput]] = []
    for direction, value, error in zip(directions, signed, rounding, strict=True):
        reliable = np.flatnonzero(np.isfinite(value) & (error < 1e-3))
        last = int(reliable[-1]) + 1 if len(reliable) and len(reliable) == reliable[-1] + 1 else 0
        if last < 10:
            continue
        increments = np.diff(np.abs(value[:last]))[-7:]
        if increments.min() > 0.02 and increments[-1] > 0.8 * increments[0]:
            ray = WorstOutput(center, np.inf, direction, "ray", int(value[last - 1] > 0))
            rays.append((float(np.abs(value[last - 1])), ray))
    return max(rays, key=lambda entry: entry[0])[1] if rays else None


def _kinks(mechanism: Any, pair: Pair, k: int) -> list[FloatArray]:
    """Return the points where a one-dimensional density has kinks or jumps, and points on both
    sides of each.
    """
    if k != 1 or not hasattr(mechanism, "breakpoints"):
        return []
    points = np.concatenate([np.ravel(mechanism.breakpoints(d)) for d in (pair.d0, pair.d1)])
    step = 1e-9 * (1 + np.abs(points))
    return [np.concatenate([points - step, points, points + step])[:, None]]
