"""Scorers: ways to order outputs by the evidence for D1. Each is fitted on training data and can be
turned into an event.

A few are enough. `line` is the only column that varies, unchanged. `model` is a weighted sum of
feature groups whose priors are fitted to the data. `trees` adds boosted trees to the model if they
improve the score. `atoms` orders repeated outputs by their own counts, with the model as prior.
`distance` is the distance from a given output. `trace` is the log-odds for the shift that a traced
run shows.

LightGBM grows the boosted trees: interactions that no sum over columns expresses, such as a box in
several columns. They are stored as plain arrays, the fields of a `Trees` block, which the kernel
`sum_of_trees` evaluates, so a replay does not need LightGBM.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.abc import MetaPathFinder
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.features import (
    CURVED_GROUP,
    MAX_CURVED,
    Affine,
    Block,
    Levels,
    Places,
    Ramps,
    Trees,
    Values,
    merge_trees,
    propose_blocks,
    values_of,
)
from dpwitness.auditors.events.outputs import MIN_ROWS_PER_ATOM, Distinct, TrainingSet
from dpwitness.auditors.events.posterior import cell_counts
from dpwitness.auditors.events.rules import Intervals, Threshold, WeightedScore, mask_other_values
from dpwitness.auditors.statistics.columns import (
    SHARED_CURVES,
    median_shift,
    moments,
    share,
    without_overflow,
)
from dpwitness.auditors.statistics.regression import Expansion, fit_grouped
from dpwitness.core.protocols import FloatArray

_FOLDS = 4
MAX_PLAIN_ATOMS = 16  # maximum number of distinct outputs for which counts alone are enough


@dataclass(frozen=True, slots=True, eq=False)
class LineScorer:
    """Score that is one column, or its negative."""

    column: int
    sign: float

    def score(self, matrix: FloatArray) -> FloatArray:
        return self.sign * matrix[:, self.column]

    def event(self, low: float, high: float) -> Event:
        bounds = [(low, -1.0), (high, +1.0)] if self.sign > 0 else [(-high, +1.0), (-low, -1.0)]
        # in ascending x: the guess below the first edge, no guess, the guess above the second edge
        edges, guesses = [], [0.0]
        if np.isfinite(bounds[0][0]):
            edges, guesses = [np.nextafter(bounds[0][0], -np.inf)], [bounds[0][1], 0.0]
        if np.isfinite(bounds[1][0]):
            edges, guesses = [*edges, bounds[1][0]], [*guesses, bounds[1][1]]
        return Intervals(self.column - 1, np.array(edges), np.array(guesses))


def fit_line(data: TrainingSet) -> LineScorer | None:
    """Return the scorer of the only column that varies, if it holds only finite numbers; otherwise
    None.

    The scorer has few degrees of freedom, which helps with small data and in extreme tails.
    """
    if len(data.varying) != 1 or data.varying == [0]:
        return None
    column = data.varying[0]
    x = data.matrix[:, column]
    if not np.isfinite(x).all() or len(np.unique(x)) < 3:
        return None
    ones, zeros = x[data.label], x[~data.label]
    if len(ones) and len(zeros):
        with np.errstate(over="ignore"):
            shift = without_overflow(np.median, ones) - without_overflow(np.median, zeros)
            shift += 1e-9 * (without_overflow(np.mean, ones) - without_overflow(np.mean, zeros))
    else:
        shift = 0.0
    return LineScorer(column, 1.0 if shift >= 0 else -1.0)


@dataclass(frozen=True, slots=True, eq=False)
class ModelScorer:
    """Log-odds as a weighted sum of features, with the fitted prior precision of each group and the
    exact values of the columns.
    """

    model: WeightedScore
    precision: dict[str, float]
    values: Values
    log_evidence: float = -np.inf  # of the model, by Laplace's approximation
    # groups and precisions of the models of which this is the average; empty: one model
    subsets: tuple[dict[str, float], ...] = ()
    chance: float = 0.0  # share of the score's variance that is chance

    def score(self, matrix: FloatArray) -> FloatArray:
        return self.model(matrix)

    def event(self, low: float, high: float) -> Event:
        return Threshold(self.model, low, high)


# an order of outputs by a number, and the event that guesses D1 where the number exceeds `high` and
# D0 where it is below `low`
Scorer = LineScorer | ModelScorer


def fit_model(
    data: TrainingSet,
    like: ModelScorer | None = None,
    start: dict[str, float] | None = None,
    *,
    tune: bool = True,
) -> ModelScorer | None:
    """Fit a logistic regression on the feature groups that suit the outputs; return None if no
    feature varies.

    If `like` is given, its groups, their prior precisions, its subsets of them and its exact values
    are used unchanged. Otherwise the fit of the precisions of all groups starts at `start`, and
    likely subsets are fitted again. Without `tune` the precisions are not fitted.
    """
    precision, subsets, values = (
        (like.precision, like.subsets, like.values) if like else (None, (), values_of(data.matrix))
    )
    blocks = _used_blocks(data, values, precision)
    if not blocks:
        return None
    sizes = [block.columns(data.matrix[:1]).shape[1] for _, block in blocks]
    # rows times squared number of features are the cost of one step of the fit
    rows, ones, zeros = _rows_to_fit(data, repeated(values), max(30_000, 2**28 // sum(sizes) ** 2))
    features, total = (
        np.concatenate([block.columns(data.matrix[rows]) for _, block in blocks], axis=1),
        ones + zeros,
    )
    step = -(-features.size // 2**22)
    features, ones, zeros, total = features[::step], ones[::step], zeros[::step], total[::step]
    center, spread = moments(features, total)
    # the name of the prior of each feature's weight: the block's group and the feature's kind
    keys = np.array(
        [
            f"{name}/{kind}"
            for (name, block), size in zip(blocks, sizes, strict=True)
            for kind in block.kinds(size)
        ]
    )
    used = _used_features(blocks, sizes, center, spread)
    if not used.any():
        return None
    starts = np.cumsum([0, *sizes]).tolist()
    curves = [
        (first, block.knots)
        for first, (name, block) in zip(starts, blocks, strict=False)
        if name == CURVED_GROUP and isinstance(block, Ramps)
    ]
    shared, placed, shared_names = share(keys, curves, features, ones, zeros)
    shared_center, shared_spread = moments(shared, total)
    names, group = np.unique(np.append(keys[used], shared_names), return_inverse=True)
    known_precision = precision or start or {}
    begin = np.array(
        [
            # large for a group that was not selected
            known_precision.get(name, 1e5 if known_precision else 10.0)
            for name in names.tolist()
        ]
    )
    design = np.column_stack(
        [
            np.ones(len(features)),
            (features[:, used] - center[used]) / spread[used],
            (shared - shared_center) / shared_spread,
        ]
    )
    fit, found = fit_grouped(design, ones, zeros, group, begin, learn=tune and precision is None)
    expansion = Expansion(fit, group, names.tolist(), found)
    average = expansion.average(subsets)
    own_weights, shared_weights = np.split(average.weights[1:], [int(used.sum())])
    weights = placed @ (shared_weights / shared_spread)
    weights[used] += own_weights / spread[used]
    kept_blocks, offset = _without_small_weights(
        blocks, starts, weights, center, spread, float(average.weights[0] - weights @ center)
    )
    whole = ModelScorer(
        WeightedScore(
            data.matrix.shape[1] - 1,
            merge_trees(kept_blocks),
            offset,
            _structures(data, kept_blocks),
        ),
        dict(zip(names.tolist(), found.tolist(), strict=True)),
        values,
        average.log_evidence,
        subsets,
        expansion.chance_share(average, np.array([ones.sum(), zeros.sum()])),
    )
    # a fit of outputs that repeat is a prior of their own counts
    if precision is not None or not tune or data.same is not None:
        return whole
    return _average_if_likelier(data, whole, expansion)


def _used_blocks(
    data: TrainingSet, values: Values, precision: dict[str, float] | None
) -> list[tuple[str, Block]]:
    """Return the blocks for these outputs, each with the name of its group.

    If prior precisions are given, a group is used if it has one, its own or that of shared weights.
    """
    return [
        (name, block)
        for name, several in propose_blocks(data.matrix, data.label, values)
        if precision is None
        or any(
            f"{name}/" in key or (name == CURVED_GROUP and key in SHARED_CURVES)
            for key in precision
        )
        for block in several
    ]


def _used_features(
    blocks: list[tuple[str, Block]], sizes: list[int], center: FloatArray, spread: FloatArray
) -> NDArray[np.bool_]:
    """Return which features get their own weight: all that vary, except indicators of a rare
    position and steps of many curves, which get shared weights only.
    """
    rare = np.repeat([0.05 if isinstance(block, Places) else 0.0 for _, block in blocks], sizes)
    used = np.asarray(spread > np.maximum(1e-9 * (1 + np.abs(center)), rare))
    curved = np.array([name == CURVED_GROUP for name, _ in blocks])
    if curved.sum() > MAX_CURVED:
        used &= ~np.repeat(curved, sizes)
    return used


def _without_small_weights(
    blocks: list[tuple[str, Block]],
    starts: list[int],
    weights: FloatArray,
    center: FloatArray,
    spread: FloatArray,
    offset: float,
) -> tuple[list[tuple[Block, FloatArray]], float]:
    """Return the blocks with their weights, and the offset of the score.

    A block whose weights are all small is left out, and its mean becomes part of the offset.
    """
    kept = list[tuple[Block, FloatArray]]()
    effect = np.abs(weights * spread)
    for (_, block), first, end in zip(blocks, starts, starts[1:], strict=False):
        # least weight of a cross, relative to the largest of all features, in units of their spread
        least = 0.1 * float(effect.max()) if isinstance(block, Trees) else 1e-5
        if effect[first:end].max(initial=0.0) > least:
            kept.append((block, weights[first:end]))
        else:
            offset += float(weights[first:end] @ center[first:end])
    return kept, offset


def _average_if_likelier(
    data: TrainingSet, whole: ModelScorer, expansion: Expansion
) -> ModelScorer:
    """Return the average of the models of likely subsets of the groups, or the model of all groups
    if that has more evidence.
    """
    likely = expansion.likely_subsets()
    some = set[str]().union(*likely)
    if not some:
        return whole
    # the least precision of each group in the subsets
    precisions = {name: min(each.get(name, np.inf) for each in likely) for name in some}
    part = fit_model(data, replace(whole, precision=precisions, subsets=likely))
    return whole if part is None or part.log_evidence < whole.log_evidence else part


def fit_shift(data: TrainingSet, shift: FloatArray) -> list[ModelScorer]:
    """Return the log-odds of numbers that move by `shift` from D0 to D1 and have independent
    Laplace or normal noise.

    Centers and spreads are those of the training outputs, so no weight is fitted. The list is empty
    if `shift` has more entries than a row has numbers, or if a number that moves is missing or has
    no spread.
    """
    width = data.matrix.shape[1] - 1
    at = np.flatnonzero(np.isfinite(shift) & (shift != 0)) + 1
    if not len(at) or len(shift) > width or not np.isfinite(data.matrix[:, at]).all():
        return []
    with np.errstate(over="ignore"):
        aligned = data.matrix[:, at] - data.label[:, None] * shift[at - 1]
    if not np.isfinite(aligned).all():
        return []
    moves = shift[at - 1]
    with np.errstate(over="ignore", invalid="ignore"):  # near the largest float: no spread
        center, spread = np.median(aligned, axis=0), aligned.std(axis=0)
        scale = np.abs(aligned - center).mean(axis=0)
        used = np.flatnonzero(
            (np.minimum(spread, scale) > 0)
            & np.isfinite(spread)
            & np.isfinite(scale)
            # equal numbers may have a spread by rounding
            & (center + moves != center)
        )
    used = np.sort(used[np.argsort(-np.abs(moves[used]) / spread[used], kind="stable")[:512]])
    if not len(used):
        return []
    at, center, spread, scale, moves = (
        at[used],
        center[used],
        spread[used],
        scale[used],
        moves[used],
    )
    ramps = [
        (Ramps(j, -1, np.sort([c, c + s])), np.array([2 * s / b]))
        for j, c, s, b in zip(
            at.tolist(), center.tolist(), moves.tolist(), scale.tolist(), strict=True
        )
    ]
    return [
        ModelScorer(WeightedScore(width, tuple(blocks)), {}, {})
        for blocks in (ramps, [(Affine(at, center + moves / 2, spread), moves / spread)])
    ]


def fit_medians(data: TrainingSet, *, clear: bool) -> ModelScorer | None:
    """Return the log-odds of numbers with Laplace noise that move by the difference of the medians
    of D1 and D0; None if no number moves.

    The columns count as independent, and no weight is fitted, so that few outputs are enough for
    many columns. If `clear`, only the columns whose difference is more than chance count
    (`median_shift`).
    """
    shift = np.zeros(data.matrix.shape[1] - 1)
    at = np.array(
        [j for j in data.varying if j and np.isfinite(data.matrix[:, j]).all()], dtype=np.intp
    )
    if len(at) and data.label.any() and not data.label.all():
        shift[at - 1] = median_shift(data.matrix[:, at], data.label, clear=clear)
    return next(iter(fit_shift(data, shift)), None)


def repeated(values: Values) -> FloatArray | None:
    """Return exact values of continuous columns as pairs (column, value); None if there
    are none.
    """
    found = [
        np.column_stack([np.full(len(keys), float(j)), keys])
        for j, (keys, is_complete) in values.items()
        if not is_complete and len(keys)
    ]
    return np.concatenate(found) if found else None


def _rows_to_fit(
    data: TrainingSet, exact: FloatArray | None, most: int
) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    """Return rows to fit a model to, and how often each came from D1 and from D0; each distinct
    output once if outputs repeat.

    Otherwise return a subset with all outputs of a repeated value. A selection by outputs alone
    does not bias the odds.
    """
    if data.same is not None:
        _, rows, same = np.unique(data.same, return_index=True, return_inverse=True)
        ones, total = cell_counts(same, data.label, len(rows))
        return rows, ones, total - ones
    selected = np.zeros(len(data.label), dtype=np.bool_)
    if exact is not None:
        selected |= ~np.isnan(mask_other_values(data.matrix, exact)[:, 1:]).all(axis=1)
    if np.count_nonzero(selected) > most // 2:
        selected[:] = False
    selected[:: -(-len(selected) // most)] = True
    rows, ones = np.flatnonzero(selected), data.label[selected].astype(np.float64)
    return rows, ones, 1 - ones


def _structures(
    data: TrainingSet, blocks: list[tuple[Block, FloatArray]]
) -> tuple[tuple[str, float], ...]:
    """Return the score of each output structure, largest first; empty if there is only one
    structure.
    """
    codes = np.unique(data.matrix[:, 0])
    if len(codes) < 2:
        return ()
    contributions = sum(
        (
            block.columns(codes[:, None]) @ weights
            for block, weights in blocks
            if isinstance(block, Levels) and block.column == 0
        ),
        np.zeros(len(codes)),
    )
    found = sorted(
        zip((data.names.get(code, "") for code in codes), contributions.tolist(), strict=True),
        key=lambda pair: -abs(pair[1]),
    )
    return tuple(found[:16])


def held_out_scores(
    data: TrainingSet, fit: Callable[[TrainingSet], Scorer | None]
) -> FloatArray | None:
    """Return the score of each output by a scorer that was fitted without that output; None if a
    fit finds none.
    """
    scores, fold = np.empty(len(data.label)), np.arange(len(data.label)) % _FOLDS
    for k in range(_FOLDS):
        part = fit(data.rows(fold != k))
        if part is None:
            return None
        scores[fold == k] = part.score(data.matrix[fold == k])
    return scores


def fit_trees(
    data: TrainingSet, model: ModelScorer, held_out: FloatArray
) -> tuple[ModelScorer, FloatArray] | None:
    """Return the model with boosted trees added, and its held-out scores; None if trees do not
    improve the score.
    """
    found = boost(data.matrix, data.label, held_out)
    if found is None:
        return None
    nodes, added = found
    whole = replace(model.model, blocks=(*model.model.blocks, (Trees(*nodes), np.ones(1))))
    return replace(model, model=whole), held_out + added


def counts_suffice(distinct: int, outputs: int) -> bool:
    """Return whether counts of the distinct outputs are all that there is to learn: there are few,
    and all or most of them repeat.
    """
    return distinct <= MAX_PLAIN_ATOMS and MIN_ROWS_PER_ATOM * distinct <= outputs


def find_atoms(
    data: TrainingSet, *, always: bool = False
) -> tuple[FloatArray, NDArray[np.intp]] | None:
    """Return the distinct outputs and each row's index among them (-1 if not included); None if
    there are too many distinct outputs.
    """
    found = Distinct.of(data.matrix) if data.distinct is None else data.distinct
    size = len(found.first)
    if not always and size > 64 and len(data.label) < MIN_ROWS_PER_ATOM * size:
        return None
    keep = np.sort(np.argsort(-found.counts, kind="stable")[:8192])
    place = np.full(size, -1, dtype=np.intp)
    place[keep] = np.arange(len(keep))
    return data.matrix[found.first[keep]], place[found.place]


NodeTable = tuple[NDArray[Any], ...]  # the fields of a `Trees` block, in order

# with fewer rows, trees find no further interactions, and loading LightGBM takes a second
MIN_TREE_ROWS = 4000
_MAX_MAGNITUDE = 1e300  # replaces NaN and infinities
_PARAMETERS: dict[str, Any] = {
    "objective": "binary",
    "learning_rate": 0.15,
    "num_leaves": 8,
    "min_data_in_leaf": 20,
    "lambda_l2": 5.0,
    "max_bin": 63,
    "boost_from_average": False,
    "use_missing": False,
    "feature_pre_filter": False,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "seed": 1,
    "verbosity": -1,
}


def boost(
    matrix: FloatArray, label: NDArray[np.bool_], score: FloatArray
) -> tuple[NodeTable, FloatArray] | None:
    """Fit trees that correct a score; return them and the held-out correction of each output, or
    None if the gain is too small.

    `score` holds log-odds of the rows of `matrix` from a model that was not trained on them.
    """
    if len(label) < MIN_TREE_ROWS:
        return None
    x = np.clip(np.nan_to_num(matrix, nan=_MAX_MAGNITUDE), -_MAX_MAGNITUDE, _MAX_MAGNITUDE)
    fold = np.arange(len(label)) % _FOLDS
    first = _grow(x, label, score, fold != 0, 80, fold == 0)
    if not (rounds := first.best_iteration):
        return None
    parts = [first, *(_grow(x, label, score, fold != k, rounds) for k in range(1, _FOLDS))]
    added = np.empty(len(label))
    for k, part in enumerate(parts):
        added[fold == k] = part.predict(
            x[fold == k], raw_score=True, num_iteration=rounds, num_threads=1
        )
    # the gain in the total log-likelihood of held-out outputs
    if (_log_loss(score, label) - _log_loss(score + added, label)).sum() < 4.0:
        return None
    return _node_table(_grow(x, label, score, fold >= 0, rounds).dump_model()["tree_info"]), added


def _grow(
    x: FloatArray,
    label: NDArray[np.bool_],
    score: FloatArray,
    training: NDArray[np.bool_],
    rounds: int,
    validation: Any = None,
) -> Any:
    """Train a booster on the rows `training`.

    If rows `validation` are given, they determine `best_iteration` by early stopping; it is 0 if no
    iteration improves their loss.
    """
    lightgbm = _load_lightgbm()
    rows = np.flatnonzero(training)[:: -(-int(training.sum()) * x.shape[1] // 2**21)]
    data = lightgbm.Dataset(x[rows], label[rows], init_score=score[rows])
    if validation is None:
        return lightgbm.train(_PARAMETERS, data, rounds)
    losses: dict[str, Any] = {}
    record = lightgbm.record_evaluation(losses)

    def stop(env: Any) -> None:
        """Stop when the loss no longer falls, as `lightgbm.early_stopping` does, which imports
        LightGBM and its libraries again.
        """
        record(env)
        found = losses["valid_0"]["binary_logloss"]
        best = int(np.argmin(found))
        if len(found) - 1 - best >= 8 or len(found) == rounds:
            raise lightgbm.EarlyStopException(best, env.evaluation_result_list)

    booster = lightgbm.train(
        _PARAMETERS,
        data,
        rounds,
        valid_sets=[
            lightgbm.Dataset(
                x[validation], label[validation], init_score=score[validation], reference=data
            )
        ],
        callbacks=[stop],
    )
    if (
        losses["valid_0"]["binary_logloss"][booster.best_iteration - 1]
        >= _log_loss(score[validation], label[validation]).mean()
    ):
        booster.best_iteration = 0
    return booster


class _OptionalLibraries(MetaPathFinder):
    """Import hook that hides the libraries LightGBM can do without from the thread that loads
    LightGBM.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """Raise ModuleNotFoundError for such a library."""
        if (
            fullname in ("sklearn", "pandas", "pyarrow", "matplotlib", "graphviz", "dask")
            and threading.get_ident() == self._thread
        ):
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


@cache
def _load_lightgbm() -> Any:
    """Return LightGBM, loaded without its optional libraries unless it is loaded already: they take
    a second and are not used here.

    The copy is private, because a mechanism that imports LightGBM may need these libraries.
    """
    if "lightgbm" in sys.modules:
        return sys.modules["lightgbm"]
    hook = _OptionalLibraries()
    sys.meta_path.insert(0, hook)
    try:
        return importlib.import_module("lightgbm")
    finally:
        sys.meta_path.remove(hook)
        for name in [name for name in sys.modules if name.partition(".")[0] == "lightgbm"]:
            del sys.modules[name]


def _log_loss(score: FloatArray, label: NDArray[np.bool_]) -> FloatArray:
    """Return the negative log-likelihood of each label, given log-odds."""
    return np.asarray(np.logaddexp(0.0, np.where(label, -score, score)))


def _node_table(info: list[dict[str, Any]]) -> NodeTable:
    """Return all trees in one table of nodes with the index of each tree's root; a node without
    children is a leaf.
    """
    nodes = list[list[float]]()  # feature, threshold, left and right child, and value of each

    def add(node: dict[str, Any]) -> int:
        at = len(nodes)
        nodes.append([-1, 0.0, -1, -1, float(node.get("leaf_value", 0.0))])
        if "split_feature" in node:
            nodes[at][:2] = int(node["split_feature"]), float(node["threshold"])
            nodes[at][2:4] = add(node["left_child"]), add(node["right_child"])
        return at

    roots = np.array([add(tree["tree_structure"]) for tree in info], dtype=np.int64)
    feature, threshold, left, right, value = (column.copy() for column in np.array(nodes).T)
    feature, left, right = (column.astype(np.int64) for column in (feature, left, right))
    return feature, threshold, left, right, value, roots
