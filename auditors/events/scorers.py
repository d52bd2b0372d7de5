"""Ways to order outputs by how much they speak for D1. Each is fitted on training data and can become an event.

Few are enough: the one column that varies, as it is (`line`); a weighted sum of groups of features whose priors the data choose (`model`),
with boosted trees where they add to it (`trees`); where outputs repeat, each output by its own counts around what the model says (`atoms`);
and the distance from an output that is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.features import Block, Levels, Values, propose, values_of, within_floats
from dpwitness.auditors.events.outputs import Outputs, row_keys
from dpwitness.auditors.events.posterior import counts_of
from dpwitness.auditors.events.rules import Atoms, Ball, Event, Intervals, Threshold, WeightedScore, distances, name_of_atom, only_exact
from dpwitness.auditors.events.trees import boost
from dpwitness.auditors.statistics.regression import fit_grouped
from dpwitness.mechanisms.terms.protocol import FloatArray

_FIT_ROWS = 30_000  # at least, where there are as many
_FIT_WORK = 2**28  # outputs times the square of features: what a step of the fit costs
_FIT_VALUES = 2**22
_FOLDS = 4
_MANY_ATOMS = 8192
_ROWS_AN_ATOM = 4


class Scorer(Protocol):
    """An order on outputs."""

    def event(self, low: float, high: float) -> Event:
        """D1 where the score exceeds `high`, D0 where it is below `low`."""


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """Training outputs as a matrix (structure code first) and whether each came from D1, in random order.

    Where outputs repeat, `same` numbers the different ones.
    """

    matrix: FloatArray
    label: NDArray[np.bool_]
    names: dict[float, str]
    same: NDArray[np.intp] | None = None

    @classmethod
    def build(cls, outputs: Outputs, ones: int, rng: np.random.Generator) -> Training:
        """`outputs` holds the runs on D1 first."""
        order = rng.permutation(len(outputs))
        matrix = outputs.matrix()[order]
        keys, same = np.unique(row_keys(matrix), return_inverse=True)
        return cls(matrix, order < ones, outputs.names, same if _ROWS_AN_ATOM * len(keys) <= len(matrix) else None)

    def rows(self, which: NDArray[np.bool_]) -> Training:
        """Some of the outputs."""
        return Training(self.matrix[which], self.label[which], self.names, None if self.same is None else self.same[which])

    @property
    def varying(self) -> list[int]:
        """Columns that are not constant."""
        return [j for j, x in enumerate(self.matrix.T) if not np.array_equal(x, np.full(len(x), x[0]), equal_nan=True)]


@dataclass(frozen=True, slots=True, eq=False)
class LineScorer:
    """One column, or its negative."""

    column: int
    sign: float

    def score(self, matrix: FloatArray) -> FloatArray:
        return self.sign * matrix[:, self.column]

    def event(self, low: float, high: float) -> Event:
        bounds = [(low, -1.0), (high, +1.0)] if self.sign > 0 else [(-high, +1.0), (-low, -1.0)]
        # from low to high x: what is named below the first edge, nothing between, what is named above the second
        edges, guesses = [], [0.0]
        if np.isfinite(bounds[0][0]):
            edges, guesses = [np.nextafter(bounds[0][0], -np.inf)], [bounds[0][1], 0.0]
        if np.isfinite(bounds[1][0]):
            edges, guesses = [*edges, bounds[1][0]], [*guesses, bounds[1][1]]
        return Intervals(self.column - 1, np.array(edges), np.array(guesses))


def fit_line(data: Training) -> LineScorer | None:
    """The one column that varies, if it holds numbers only: few degrees of freedom, for small data and extreme tails."""
    if len(data.varying) != 1 or data.varying == [0]:
        return None
    column = data.varying[0]
    x = data.matrix[:, column]
    if not np.isfinite(x).all() or len(np.unique(x)) < 3:
        return None
    ones, zeros = x[data.label], x[~data.label]
    if len(ones) and len(zeros):
        with np.errstate(over="ignore"):
            shift = within_floats(np.median, ones) - within_floats(np.median, zeros)
            shift += 1e-9 * (within_floats(np.mean, ones) - within_floats(np.mean, zeros))
    else:
        shift = 0.0
    return LineScorer(column, 1.0 if shift >= 0 else -1.0)


@dataclass(frozen=True, slots=True, eq=False)
class ModelScorer:
    """Log-odds as a weighted sum of features, the precisions that the data chose for its groups, and the exact values of the columns."""

    model: WeightedScore
    precision: dict[str, float]
    values: Values

    def score(self, matrix: FloatArray) -> FloatArray:
        return self.model(matrix)

    def event(self, low: float, high: float) -> Event:
        return Threshold(self.model, low, high)


def fit_model(
    data: Training, like: ModelScorer | None = None, start: dict[str, float] | None = None, *, tune: bool = True
) -> ModelScorer | None:
    """Logistic regression on the groups of features that fit the outputs; None where nothing varies.

    The priors and exact values of `like` are kept instead of learned; learning begins at the precisions of `start`. Without `tune` the
    priors stay where they begin.
    """
    precision = like.precision if like else None
    values = like.values if like else values_of(data.matrix)
    groups = propose(data.matrix, data.label, values)
    blocks: list[tuple[str, Block]] = [(name, block) for name, several in groups.items() for block in several]
    if not blocks:
        return None
    size = sum(block.columns(data.matrix[:1]).shape[1] for _, block in blocks)
    rows, ones, zeros = _rows_to_fit(data, repeated(values), max(_FIT_ROWS, _FIT_WORK // size**2))
    parts = [block.columns(data.matrix[rows]) for _, block in blocks]
    features, total = np.concatenate(parts, axis=1), ones + zeros
    thin = -(-features.size // _FIT_VALUES)
    features, ones, zeros, total = features[::thin], ones[::thin], zeros[::thin], total[::thin]
    center = np.average(features, axis=0, weights=total)
    spread = np.sqrt(np.average((features - center) ** 2, axis=0, weights=total))
    used = spread > 1e-9 * (1 + np.abs(center))
    if not used.any():
        return None
    names = list(groups)
    group = np.repeat([names.index(name) for name, _ in blocks], [part.shape[1] for part in parts])
    known = precision or start or {}
    begin = np.array([known.get(name, 1e4 if precision else 10.0) for name in names])
    design = np.column_stack([np.ones(len(features)), (features[:, used] - center[used]) / spread[used]])
    fit, found = fit_grouped(design, ones, zeros, group[used], begin, learn=tune and precision is None)
    weights = np.zeros(features.shape[1])
    weights[used] = fit.weights[1:] / spread[used]
    offset = float(fit.weights[0] - weights @ center)
    kept, at = [], 0
    for (_, block), part in zip(blocks, parts, strict=True):
        own = weights[at : at + part.shape[1]]
        if np.abs(own * spread[at : at + part.shape[1]]).max(initial=0.0) > 1e-5:
            kept.append((block, own))
        else:
            offset += float(own @ center[at : at + part.shape[1]])
        at += part.shape[1]
    model = WeightedScore(data.matrix.shape[1] - 1, tuple(kept), offset, _structures(data, kept))
    return ModelScorer(model, dict(zip(names, found.tolist(), strict=True)), values)


def repeated(values: Values) -> FloatArray | None:
    """Exact values among continuous ones, as pairs of a column and a value; None if there are none."""
    found = [np.column_stack([np.full(len(keys), float(j)), keys]) for j, (keys, every) in values.items() if not every and len(keys)]
    return np.concatenate(found) if found else None


def _rows_to_fit(data: Training, exact: FloatArray | None, most: int) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    """Outputs to fit a model to, and how often each came from D1 and from D0: the different ones where they repeat.

    Else a part, and all that hold a repeated value: what is picked by outputs alone keeps its odds.
    """
    if data.same is not None:
        _, rows, same = np.unique(data.same, return_index=True, return_inverse=True)
        ones, total = counts_of(same, data.label, len(rows))
        return rows, ones, total - ones
    taken = np.zeros(len(data.label), dtype=np.bool_)
    if exact is not None:
        taken |= ~np.isnan(only_exact(data.matrix, exact)[:, 1:]).all(axis=1)
    if np.count_nonzero(taken) > most // 2:
        taken[:] = False
    taken[:: -(-len(taken) // most)] = True
    rows, ones = np.flatnonzero(taken), data.label[taken].astype(np.float64)
    return rows, ones, 1 - ones


def _structures(data: Training, blocks: list[tuple[Block, FloatArray]]) -> tuple[tuple[str, float], ...]:
    """What each kind of output adds to the score, where there are several."""
    codes = np.unique(data.matrix[:, 0])
    if len(codes) < 2:
        return ()
    own = [(block, weights) for block, weights in blocks if isinstance(block, Levels) and block.column == 0]
    adds = sum((block.columns(codes[:, None]) @ weights for block, weights in own), np.zeros(len(codes)))
    found = sorted(zip((data.names.get(code, "") for code in codes), adds.tolist(), strict=True), key=lambda pair: -abs(pair[1]))
    return tuple(found[:16])


def held_out_scores(data: Training, whole: ModelScorer) -> FloatArray | None:
    """The score of each output by a model that has not seen it, in the units of the whole model."""
    scores, fold = np.empty(len(data.label)), np.arange(len(data.label)) % _FOLDS
    for k in range(_FOLDS):
        out = fold == k
        part = fit_model(data.rows(~out), whole)
        if part is None:
            return None
        own, asked = part.score(data.matrix[out]), whole.score(data.matrix[out])
        spread = float(own.std())
        scores[out] = (own - own.mean()) / spread * asked.std() + asked.mean() if spread > 0 else asked.mean()
    return scores


def fit_trees(data: Training, model: ModelScorer, held_out: FloatArray) -> tuple[ModelScorer, FloatArray] | None:
    """Boosted trees on top of a model, and the held-out scores of both together; None where they add nothing."""
    found = boost(data.matrix, data.label, held_out)
    if found is None:
        return None
    trees, added = found
    whole = replace(model.model, blocks=(*model.model.blocks, (trees, np.ones(1))))
    return replace(model, model=whole), held_out + added


@dataclass(frozen=True, slots=True, eq=False)
class AtomScorer:
    """Outputs that occurred in training, from the one that speaks most for D0 to the one that speaks most for D1; cells count them."""

    rows: FloatArray
    names: dict[float, str]
    exact: FloatArray | None = None

    def event(self, low: float, high: float) -> Event:
        place = np.arange(len(self.rows))
        guesses = (place >= high).astype(float) - (place < low).astype(float)
        used = np.flatnonzero(guesses)
        rows = self.rows[used]
        return Atoms(rows, guesses[used], tuple(name_of_atom(row, self.names) for row in rows), self.exact)


@overload
def find_atoms(data: Training, *, always: Literal[True]) -> tuple[FloatArray, NDArray[np.intp]]: ...
@overload
def find_atoms(data: Training, *, always: bool = False) -> tuple[FloatArray, NDArray[np.intp]] | None: ...
def find_atoms(data: Training, *, always: bool = False) -> tuple[FloatArray, NDArray[np.intp]] | None:
    """The outputs that occurred, and which of them each one was (-1 for none); None if they are too many to count each by itself."""
    keys, first, inverse, counts = np.unique(row_keys(data.matrix), return_index=True, return_inverse=True, return_counts=True)
    if not always and len(keys) > 64 and len(data.label) < _ROWS_AN_ATOM * len(keys):
        return None
    keep = np.sort(np.argsort(-counts, kind="stable")[:_MANY_ATOMS])
    place = np.full(len(keys), -1, dtype=np.intp)
    place[keep] = np.arange(len(keep))
    return data.matrix[first[keep]], place[inverse]


@dataclass(frozen=True, slots=True, eq=False)
class DistanceScorer:
    """Distance from a given output; `sign` is +1 where outputs near it speak for D1."""

    center: FloatArray
    sign: int

    def score(self, matrix: FloatArray) -> FloatArray:
        distance = distances(matrix[:, 1:], self.center)
        return -self.sign * np.where(np.isnan(distance), np.inf, distance)

    def event(self, low: float, high: float) -> Event:
        inner, outer = (-high, -low) if self.sign > 0 else (low, high)
        return Ball(self.center, inner if np.isfinite(inner) else 0.0, outer, self.sign)


def fit_distance(data: Training, center: FloatArray) -> DistanceScorer | None:
    """Balls around a given output."""
    if data.matrix.shape[1] != len(center) + 1:
        return None
    distance = distances(data.matrix[:, 1:], center)
    near = np.argsort(distance)[: max(len(distance) // 1000, 20)]
    return DistanceScorer(center, 1 if data.label[near].mean() >= data.label.mean() else -1)
