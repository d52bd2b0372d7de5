"""Choice of the strongest route from a mechanism and a pair to the law of the privacy loss:
enumeration, composition, quadrature.

**Quadrature** in one to three dimensions is adaptive. The output space is cut into boxes. Each box
has its masses under P and Q by a Gauss-Legendre product rule, and the smallest and largest loss at
the nodes. Boxes are halved until the last Legendre coefficients of both densities, and the spread
of the loss, are small. This criterion finds kinks and jumps; at known breakpoints the boxes are cut
from the start. The sizes of the boxes grow geometrically outwards, so that tails need no
transformation.

The following is numerical and not rigorous. The error of each rule is estimated from the decay of
its Legendre coefficients, and the range of L in a box is the range at the nodes. The estimated
errors, and the mass outside the boxes, count as unseen mass of the upper law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.density.composition import compose, content_key, declared_points
from dpwitness.auditors.statistics.loss_law import EnclosedLaw, LossLaw, atoms, unaccounted_mass
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray, log_density_at

LogDensity = Callable[[FloatArray], FloatArray]
LogDensities = Callable[[FloatArray, NDArray[np.intp]], tuple[FloatArray, FloatArray]]

_MAX_LOG_DENSITY = 1e5  # log-densities beyond this size have too few digits to compute L
_MAX_MISSING = 1e-3  # largest unseen mass; with more, quadrature fails


@dataclass(frozen=True)
class _Settings:
    """Settings of the integration in a given dimension."""

    nodes: int
    tolerance: float  # largest error of one box
    steps: int  # range of the loss, divided by the largest spread in one box
    light: float  # boxes with less mass may have any spread
    evaluations: int


_SETTINGS = {
    1: _Settings(12, 1e-15, 3000, 1e-16, 1_500_000),
    2: _Settings(7, 1e-10, 1000, 1e-9, 1_500_000),
    3: _Settings(5, 1e-8, 200, 1e-7, 2_500_000),
}
_EDGE_DISTANCES = {
    1: np.concatenate([[0.0], 2.0 ** np.arange(-2, 41), 2.0 ** np.arange(45, 350, 5)]),
    2: np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 48.0]),
    3: np.array([0.0, 0.5, 1.5, 5.0, 20.0]),
}


class _Rule:
    """Gauss-Legendre product rule on [-1, 1]^k, with the functionals of the last two Legendre
    coefficients along each axis.
    """

    def __init__(self, nodes: int, k: int) -> None:
        x, w = np.polynomial.legendre.leggauss(nodes)
        self.points = np.stack(np.meshgrid(*[x] * k, indexing="ij"), axis=-1).reshape(-1, k)
        axes = [w / 2] * k
        self.weights = _product(axes)
        last = [
            np.polynomial.legendre.Legendre.basis(nodes - j)(x) * (2 * (nodes - j) + 1) * w / 2
            for j in (1, 2)
        ]
        self.tails = np.array(
            [[_product([*axes[:a], row, *axes[a + 1 :]]) for row in last] for a in range(k)]
        )
        if k == 1:
            # A jump between the last node and the end of a box would be missed: compare the ends
            # with the prediction from the nodes.
            ends = np.array([-1.0, 1.0]) * (1 - 1e-6)
            predicted = [
                [np.prod((end - np.delete(x, i)) / (x[i] - np.delete(x, i))) for i in range(nodes)]
                for end in ends
            ]
            gap = (1 - x[-1]) / 2
            self.points = np.append(x, ends)[:, None]
            self.weights = np.append(self.weights, [0.0, 0.0])
            plain = np.pad(self.tails[0], ((0, 0), (0, 2)))
            self.tails = np.concatenate(
                [plain, gap * np.hstack([-np.array(predicted), np.eye(2)])]
            )[None]


def _product(axes: list[FloatArray]) -> FloatArray:
    """Return the outer product of the axes, flattened."""
    out = np.ones(1)
    for axis in axes:
        out = np.multiply.outer(out, axis).ravel()
    return out


# boxes [low, high], of a combination `which` of discrete columns, with the rule's results for each
_Boxes = np.recarray[Any, np.dtype[np.void]]


def _evaluated(
    low: FloatArray,
    high: FloatArray,
    which: NDArray[np.intp],
    f: LogDensities,
    rule: _Rule,
    tolerance: float,
) -> _Boxes:
    """Apply the rule to all boxes, and return them with masses, errors and ranges of the loss."""
    n, k = low.shape
    m = len(rule.points)
    half = 0.5 * (high - low)
    points = (0.5 * (high + low))[:, None, :] + half[:, None, :] * rule.points
    log_p, log_q = (v.reshape(n, m) for v in f(points.reshape(-1, k), np.repeat(which, m)))
    volume = np.prod(2 * half, axis=1)
    p, q = np.exp(log_p), np.exp(log_q)
    mass_p, mass_q = volume * (p @ rule.weights), volume * (q @ rule.weights)
    # (axis, n): sizes of the last coefficients, summed over both densities
    tails = (
        sum(np.abs(np.einsum("nm,ajm->ajn", f_, rule.tails)).sum(axis=1) for f_ in (p, q)) * volume
    )
    if k > 1:
        # The error of a Gauss rule of n nodes is given by the coefficients from 2n on. With
        # geometric decay, they are about the square of the n-th coefficient; with slow decay, as at
        # a kink, the n-th coefficient itself is the estimate.
        larger = np.maximum(np.maximum(mass_p, mass_q), 1e-300)
        tails = tails * np.minimum(1.0, 20.0 * tails / larger)
    error = tails.max(axis=0)
    with np.errstate(invalid="ignore"):
        loss = log_p - log_q
    seen = ~np.isnan(loss)
    upper, lower = np.maximum(log_p, log_q), np.minimum(log_p, log_q)
    sure = seen & (upper > -_MAX_LOG_DENSITY) & ~((lower <= -_MAX_LOG_DENSITY) & np.isfinite(loss))
    # exclude densities that underflowed before the logarithm was taken
    sure &= ~(((lower > -745.2) & (lower < -707.0)) | ((upper < -707.0) & np.isinf(loss)))
    axis = np.zeros(n, dtype=np.intp)
    if k > 1:
        cube = np.nan_to_num(loss, nan=0.0, posinf=1e3, neginf=-1e3).reshape(
            n, *[round(m ** (1 / k))] * k
        )
        spread = np.array([np.ptp(cube, axis=a + 1).reshape(n, -1).mean(axis=1) for a in range(k)])
        score = np.where(error > tolerance, tails / np.maximum(tails.max(axis=0), 1e-300), spread)
        axis = np.argmax(score + 1e-9 * half.T, axis=0)
    columns = {
        "low": low,
        "high": high,
        "which": which,
        "p": mass_p,
        "q": mass_q,
        "error": error,
        "least": np.min(loss, axis=1, where=seen, initial=np.inf),
        "most": np.max(loss, axis=1, where=seen, initial=-np.inf),
        "sure_least": np.min(loss, axis=1, where=sure, initial=np.inf),
        "sure_most": np.max(loss, axis=1, where=sure, initial=-np.inf),
        "axis": axis,  # along which the box is cut
    }
    kinds = [(name, values.dtype, values.shape[1:]) for name, values in columns.items()]
    return np.rec.fromarrays(list(columns.values()), dtype=kinds)


def _halved(boxes: _Boxes) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
    """Return the corners of the two halves of each box, and their combinations."""
    rows = np.arange(len(boxes))
    middle = 0.5 * (boxes.low[rows, boxes.axis] + boxes.high[rows, boxes.axis])
    first, second = boxes.high.copy(), boxes.low.copy()
    first[rows, boxes.axis] = second[rows, boxes.axis] = middle
    low, high = np.concatenate([boxes.low, second]), np.concatenate([first, boxes.high])
    return low, high, np.tile(boxes.which, 2)


def _joined(boxes: Sequence[_Boxes]) -> _Boxes:
    """Return all boxes together."""
    return np.concatenate(boxes).view(np.recarray)


def integrate(
    f: LogDensities, rows: FloatArray, prefixes: int, breaks: FloatArray
) -> EnclosedLaw | None:
    """Enclose the law of the privacy loss by adaptive quadrature; None if the required number of
    boxes is too large.

    `f` returns log p and log q at points, given the index of the combination of discrete columns
    (`prefixes` in number). `rows` are sampled outputs of both datasets, continuous columns only;
    they show where the mass is. One-dimensional densities have kinks or jumps at `breaks`.
    """
    k = rows.shape[1]
    settings, rule = _SETTINGS[k], _Rule(_SETTINGS[k].nodes, k)
    boxes = _evaluated(*_initial_boxes(rows, prefixes, breaks), f, rule, settings.tolerance)
    spent = len(boxes) * len(rule.points)
    finished: list[_Boxes] = []
    for _ in range(200):
        heavy = (boxes.p > settings.light) | (boxes.q > settings.light)
        if not heavy.any():
            break
        score = _scores(boxes, heavy, settings, k)
        width = np.max(boxes.high - boxes.low, axis=1)
        more = (score > 1) & ~(width <= 1e-14 * np.maximum(1.0, np.max(np.abs(boxes.low), axis=1)))
        finished.append(boxes[~more])
        boxes = boxes[more]
        room = (settings.evaluations - spent) // (2 * len(rule.points))
        if len(boxes) == 0 or room <= 0:
            break
        order = np.argsort(-score[more]) if len(boxes) > room else np.arange(len(boxes))
        finished.append(boxes[order[room:]])
        boxes = _evaluated(*_halved(boxes[order[:room]]), f, rule, settings.tolerance)
        spent += len(boxes) * len(rule.points)
    boxes = _joined([*finished, boxes])
    found = _enclosure(boxes, k)
    if found is None or k > 1:
        return found

    def refine(losses: Sequence[float]) -> EnclosedLaw:
        """Return a finer law: for each t in `losses`, every box in which the loss takes the value t
        is bisected down to rounding.
        """
        cells = boxes
        for t in losses:
            for _ in range(60):
                width = cells.high[:, 0] - cells.low[:, 0]
                crossed = (
                    (cells.least < t) & (cells.most > t) & (np.maximum(cells.p, cells.q) > 1e-18)
                )
                crossed &= width > 1e-15 * np.maximum(1.0, np.abs(cells.low[:, 0]))
                if not crossed.any() or np.count_nonzero(crossed) > 1000:
                    break
                halves = _evaluated(*_halved(cells[crossed]), f, rule, settings.tolerance)
                cells = _joined([cells[~crossed], halves])
        return _enclosure(cells, k) or found

    return replace(found, refine=refine)


def _scores(boxes: _Boxes, heavy: NDArray[np.bool_], settings: _Settings, k: int) -> FloatArray:
    """Return a score for each box; boxes with a score above 1 have too large an error or too wide a
    range of losses, and are halved.
    """
    top, bottom = boxes.most[heavy], boxes.least[heavy]
    scale = np.ptp(np.concatenate([top[np.isfinite(top)], bottom[np.isfinite(bottom)], [0.0]]))
    step = max(scale, 1e-9) / settings.steps
    with np.errstate(invalid="ignore"):
        spread = np.where(boxes.most > boxes.least, boxes.most - boxes.least, 0.0)
    mass = np.maximum(boxes.p, boxes.q)
    if k > 1:
        spread_score = (np.minimum(spread, 10 * scale) / step) ** 2 * mass * settings.steps
    else:
        fine = np.where(heavy & (mass > 1e-13 / settings.steps), step, 10 * step)
        spread_score = np.where(mass > 1e-290, np.minimum(spread, 1e6) / fine, 0.0)
    return np.asarray(np.maximum(boxes.error / settings.tolerance, spread_score))


def _initial_boxes(
    rows: FloatArray, prefixes: int, breaks: FloatArray
) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
    """Return corners of boxes whose sizes grow geometrically with the distance from the samples."""
    k = rows.shape[1]
    edges = []
    for column in rows.T:
        low, middle, high = np.quantile(column, [0.1, 0.5, 0.9])
        distances = (high - low or 1.0) * _EDGE_DISTANCES[k]
        grid = [middle - distances, middle + distances]
        if k == 1:
            grid += [np.quantile(column, np.linspace(0.0, 1.0, 33)), breaks]
        else:
            far = max(abs(column.max() - middle), abs(column.min() - middle)) * 3
            grid = [g[np.abs(g - middle) <= 2 * far] for g in grid]
        edges.append(np.unique(np.concatenate(grid)))
    lows, highs = (
        np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1).reshape(-1, k)
        for ends in ([e[:-1] for e in edges], [e[1:] for e in edges])
    )
    which = np.repeat(np.arange(prefixes), len(lows))
    return np.tile(lows, (prefixes, 1)), np.tile(highs, (prefixes, 1)), which


def _enclosure(boxes: _Boxes, k: int) -> EnclosedLaw | None:
    """Return lower and upper laws from the boxes, or None if the unseen mass is too large."""
    error_sum = float(boxes.error.sum()) if k > 1 else float(boxes.error[boxes.error > 1e-14].sum())
    unseen_p, unseen_q = (
        max(0.0, 1 - float(mass.sum())) + error_sum for mass in (boxes.p, boxes.q)
    )
    if max(unseen_p, unseen_q) > _MAX_MISSING and error_sum > 0.1 * _MAX_MISSING:
        return None
    sure_least, sure_most = (
        float(boxes.sure_least.min(initial=np.inf)),
        float(boxes.sure_most.max(initial=-np.inf)),
    )
    boxes = boxes[(boxes.p > 0) | (boxes.q > 0)]
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = np.log(boxes.p) - np.log(boxes.q)
    # A mass that underflows is not zero: use the loss at the nodes, on the safe side for the order
    # of the pair in which the cell counts.
    faint = (
        (np.minimum(boxes.p, boxes.q) < 1e-290) & np.isfinite(boxes.least) & np.isfinite(boxes.most)
    )
    ahead = boxes.p >= boxes.q
    middle = np.where(faint, np.where(ahead, boxes.least, boxes.most), middle)
    lower = LossLaw.of(middle, boxes.p, boxes.q, 0.0, 0.0, (sure_least, sure_most))
    middle = np.where(faint, np.where(ahead, boxes.most, boxes.least), middle)
    boxes.least, boxes.most = (
        np.where(faint, middle, boxes.least),
        np.where(faint, middle, boxes.most),
    )
    growing = (_loss_grows(boxes, -1) if sure_least > -np.inf else False, _loss_grows(boxes, +1))
    extremes = (-math.inf if growing[0] else sure_least, math.inf if growing[1] else sure_most)
    upper = LossLaw.of(*_split(middle, boxes), unseen_p, unseen_q, extremes)
    route = f"quadrature in {k} dimension{'s' if k > 1 else ''}, {len(boxes.p)} cells"
    return EnclosedLaw(lower, upper, route, "enclosure", k, unaccounted_mass(lower, upper))


def _loss_grows(boxes: _Boxes, sign: int) -> bool:
    """Return whether the loss still grows where both densities are almost zero. Then its supremum
    is assumed to be infinite.
    """
    value = boxes.sure_most if sign > 0 else -boxes.sure_least
    near = value[np.maximum(boxes.p, boxes.q) > 1e-12].max(initial=-np.inf)
    return bool(value.max(initial=-np.inf) > 1.05 * near + 1e-6)


def _split(middle: FloatArray, boxes: _Boxes) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return each box as two atoms at the ends of the box's loss, with the same total masses."""
    low, high = np.minimum(boxes.least, middle), np.maximum(boxes.most, middle)
    with np.errstate(invalid="ignore"):
        spread = high - low
    p_high, q_high = np.zeros_like(middle), np.zeros_like(middle)
    plain = np.isfinite(low) & np.isfinite(high) & (spread > 1e-13)
    # p_high + p_low = p and p_high e^-high + p_low e^-low = q
    share = np.expm1(low[plain] - middle[plain]) / np.expm1(low[plain] - high[plain])
    p_high[plain] = np.clip(share, 0.0, 1.0) * boxes.p[plain]
    q_high[plain] = p_high[plain] * np.exp(-high[plain])
    flat = ~plain & (spread <= 1e-13)
    p_high[flat], q_high[flat] = boxes.p[flat], boxes.q[flat]
    one_sided = np.isinf(middle)
    high = np.where(one_sided, middle, high)
    p_high[one_sided], q_high[one_sided] = boxes.p[one_sided], boxes.q[one_sided]
    # a jump to a one-sided region inside a box: the region may hold all of the box's P-mass, or all
    # of its Q-mass
    jump = ~(plain | flat | one_sided)
    high = np.where(jump, np.inf, high)
    low = np.where(jump, -np.inf, low)
    p_high[jump] = boxes.p[jump]
    return (
        np.concatenate([high, low]),
        np.concatenate([p_high, boxes.p - p_high]),
        np.concatenate([q_high, np.maximum(boxes.q - q_high, 0)]),
    )


# runs per side that show the form of outputs if the mechanism offers no support
_SAMPLE_SIZE = 4096


def loss_law(mechanism: Any, pair: Pair) -> LossLaw | None:
    """Return the law of the privacy loss of `pair`, or None if no exact route applies.

    The law is exact if the outputs can be enumerated. Otherwise, it is the lower end of
    `enclosed_law`, whose distance from the truth does not matter to any audit.
    """
    found = enclosed_law(mechanism, pair)
    return None if found is None else found.lower


_CACHE: dict[Any, EnclosedLaw | None] = {}
_NO_ATOMS: FloatArray = np.empty(0)


def enclosed_law(mechanism: Any, pair: Pair, atoms: FloatArray = _NO_ATOMS) -> EnclosedLaw | None:
    """Return laws below and above the privacy loss of `pair` by the strongest route that applies,
    or None.

    Routes: enumeration of the support; composition of independent factors; quadrature in one to
    three dimensions, with discrete columns enumerated. `atoms` are known atoms, for outputs that
    are one number. Up to 16 results are cached by content.
    """
    key = content_key(mechanism, pair.d0, pair.d1, atoms)
    if key is None:
        return law_of(mechanism, pair.d0, pair.d1, atoms)
    if key not in _CACHE:
        if len(_CACHE) >= 16:
            _CACHE.clear()
        _CACHE[key] = law_of(mechanism, pair.d0, pair.d1, atoms)
    return _CACHE[key]


def law_of(mechanism: Any, d0: Any, d1: Any, atoms: FloatArray = _NO_ATOMS) -> EnclosedLaw | None:
    """Return the enclosed law for two datasets that need not be neighbors, such as the datasets of
    a factor.
    """
    if not hasattr(mechanism, "log_density"):
        return None
    if hasattr(mechanism, "support"):
        rows = np.concatenate([np.asarray(mechanism.support(d), dtype=float) for d in (d0, d1)])
        return _enumerated(
            mechanism, np.unique(rows.reshape(len(rows), -1), axis=0), d0, d1, "enumeration"
        )
    if hasattr(mechanism, "factors"):
        found = composed(mechanism.factors(d0, d1))
        if found is not None:
            return found
    return _integrated(mechanism, d0, d1, atoms)


def composed(factors: Sequence[tuple[Any, Any, Any]]) -> EnclosedLaw | None:
    """Enclose the law of the sum of the losses of factors (mechanism, d0, d1); None if some factor
    has no exact law.
    """
    known: dict[Any, tuple[EnclosedLaw, int]] = {}
    for number, (mechanism, d0, d1) in enumerate(factors):
        key = content_key(mechanism, d0, d1) or number
        law = known[key][0] if key in known else law_of(mechanism, d0, d1)
        if law is None:
            return None
        known[key] = law, known[key][1] + 1 if key in known else 1
    return compose(list(known.values()))


def _enumerated(mechanism: Any, rows: FloatArray, d0: Any, d1: Any, route: str) -> EnclosedLaw:
    """Return the law of finitely many outputs."""
    law = atoms(*(log_density_at(mechanism, rows, d) for d in (d1, d0)))
    unseen_p, unseen_q = max(0.0, 1 - math.fsum(law.p)), max(0.0, 1 - math.fsum(law.q))
    unseen = max(unseen_p, unseen_q)
    # rounding error of a sum of a thousand masses
    missing = unseen if unseen > 1e-13 * max(1.0, 1e-3 * len(rows)) else 0.0
    return EnclosedLaw(
        law,
        replace(law, unseen_p=unseen_p, unseen_q=unseen_q),
        f"{route} of {len(rows)} outputs",
        "enclosure" if missing else "exact",
        missing=missing,
    )


def _integrated(mechanism: Any, d0: Any, d1: Any, atoms: FloatArray) -> EnclosedLaw | None:
    """Return the law by quadrature over the continuous columns, for each combination of the other
    columns, or None.
    """
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0x1A3,)))
    try:
        parts = [rows_of_call(mechanism, d, _SAMPLE_SIZE, rng) for d in (d0, d1)]
    except BadOracle:  # outputs are not rows of numbers
        return None
    if parts[0].shape != parts[1].shape or not np.all(np.isfinite(parts)):
        return None
    rows = np.concatenate(parts)
    if rows.shape[1] == 1:
        # known atoms, atoms that the mechanism names, and numbers that were drawn twice
        named = declared_points(mechanism, "atoms", d0, d1)
        values, counts = np.unique(rows, return_counts=True)
        at = np.unique(np.concatenate([atoms, values[counts > 1], named]))
        others = rows[~np.isin(rows[:, 0], at)]
        if 0 < len(at) <= 64 and len(others) > len(rows) // 64:
            rest = _quadrature(mechanism, others, np.zeros(1, dtype=bool), d0, d1)
            listed = _enumerated(mechanism, at[:, None], d0, d1, "").lower
            return None if rest is None else _with_atoms(listed, rest)
    distinct = np.array([len(np.unique(column)) for column in rows.T])
    discrete = distinct <= len(rows) // 32
    if discrete.all():
        seen = np.unique(rows, axis=0)
        if len(seen) > len(rows) // 8:
            return None
        return _enumerated(mechanism, seen, d0, d1, "enumeration of those seen:")
    if not (np.count_nonzero(~discrete) <= 3) or np.any(distinct[~discrete] < len(rows) // 2):
        return None
    for d, part in zip((d0, d1), parts, strict=True):
        if not fills_space(density_of(mechanism, d), part, ~discrete, rng):
            return None
    return _quadrature(mechanism, rows, discrete, d0, d1)


class BadOracle(ValueError):
    """Error for a log-density that cannot be the sampler's, or cannot be a log-density."""


def rows_of_call(mechanism: Any, dataset: Any, size: int, rng: np.random.Generator) -> FloatArray:
    """Return the outputs of one call as rows of numbers. Raise BadOracle if they are not one row of
    numbers per run.
    """
    try:
        rows = np.asarray(mechanism.sample(dataset, size, rng), dtype=float)
    except Exception as error:
        raise BadOracle(
            f"sample must give rows of numbers, it raises {type(error).__name__}: {error}"
        ) from error
    if rows.ndim not in (1, 2) or len(rows) != size:
        raise BadOracle(
            f"sample must return one row for each of {size} runs, got shape {rows.shape}"
        )
    return rows.reshape(size, -1)


def density_of(mechanism: Any, dataset: Any) -> LogDensity:
    """Return the log-density of a mechanism on one dataset, as a function of rows."""
    return lambda rows: log_density_at(mechanism, rows, dataset)


def fills_space(
    density: Callable[[FloatArray], FloatArray],
    rows: FloatArray,
    columns: NDArray[np.bool_],
    rng: np.random.Generator,
) -> bool:
    """Return whether outputs stay possible after small moves in `columns`.

    Outputs become impossible if the law lies on a surface. Then `log_density` is relative to the
    area of the surface, and cannot be compared with the density at a point next to the surface.
    """
    rows = rows[:256]
    try:
        aside = density(rows + step_aside(rows, columns, rng))
    except Exception:
        return False
    return int(np.isneginf(aside).sum()) <= 2


def step_aside(
    rows: FloatArray, columns: NDArray[np.bool_], rng: np.random.Generator
) -> FloatArray:
    """Return small random moves of rows in `columns`: 1e-7 of a column's spread plus a few units in
    the last place, with random signs.

    The spread is the distance between the 10 and the 90 % quantile of the column, or the largest
    absolute value if the quantiles are equal.
    """
    with np.errstate(invalid="ignore"):
        spread = np.subtract(*np.percentile(rows, [90, 10], axis=0))
    usable = np.isfinite(spread) & (spread > 0)
    spread = np.where(usable, spread, np.abs(rows).max(axis=0, initial=0.0))
    sizes = (1e-7 * spread + 8 * np.spacing(np.abs(rows))) * columns
    return np.asarray(
        sizes * rng.uniform(0.5, 1.0, rows.shape) * rng.choice([-1.0, 1.0], rows.shape)
    )


def _with_atoms(part: LossLaw, rest: EnclosedLaw) -> EnclosedLaw:
    """Return the law of a density together with separate atoms. The density's law counts the atoms'
    mass as unseen.
    """

    def added(law: LossLaw) -> LossLaw:
        """Return `law` with the atoms added."""
        least, most = law.extremes or (math.inf, -math.inf)
        some = np.maximum(part.p, part.q) > 0
        extremes = (
            min(least, float(part.loss[some].min(initial=np.inf))),
            max(most, float(part.loss[some].max(initial=-np.inf))),
        )
        unseen = [
            max(0.0, u - float(m.sum())) if u else 0.0
            for u, m in ((law.unseen_p, part.p), (law.unseen_q, part.q))
        ]
        loss, p, q = (
            np.concatenate([getattr(law, name), getattr(part, name)]) for name in ("loss", "p", "q")
        )
        return LossLaw.of(loss, p, q, unseen[0], unseen[1], extremes)

    def refine(losses: Sequence[float]) -> EnclosedLaw:
        return _with_atoms(part, rest.refined(losses))

    route = f"{rest.route} and {len(part.loss)} atoms"
    lower, upper = added(rest.lower), added(rest.upper)
    return EnclosedLaw(
        lower,
        upper,
        route,
        rest.label,
        rest.dimension,
        unaccounted_mass(lower, upper),
        refine if rest.refine else None,
    )


def _quadrature(
    mechanism: Any, rows: FloatArray, discrete: NDArray[np.bool_], d0: Any, d1: Any
) -> EnclosedLaw | None:
    """Return the law by quadrature near the sampled outputs.

    Integrates over the columns that are not `discrete`, for each combination of the discrete
    columns.
    """
    prefixes = np.unique(rows[:, discrete], axis=0)
    if len(prefixes) > 64:
        return None

    def log_densities(points: FloatArray, which: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        full = np.empty((len(points), rows.shape[1]))
        full[:, discrete], full[:, ~discrete] = prefixes[which], points
        return log_density_at(mechanism, full, d1), log_density_at(mechanism, full, d0)

    breaks = declared_points(mechanism, "breakpoints", d0, d1)
    return integrate(log_densities, rows[:, ~discrete], len(prefixes), breaks)
