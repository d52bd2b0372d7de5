"""Gradient-boosted trees on top of a model's score: what no sum over columns says, such as a box in several of them.

LightGBM grows them; what it grew is written down as plain arrays, which a kernel of ours reads, so that replaying needs no such library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.events.features import Trees
from dpwitness.mechanisms.terms.protocol import FloatArray

LEAST_ROWS = 4000  # fewer say nothing of interactions that a model has not seen, and the library takes a second to load
_MOST_VALUES = 2**21
_ROUNDS = 80
_PATIENCE = 8
_FOLDS = 4
_WORTH = 4.0  # log-likelihood that held-out outputs must gain in all
_LARGEST = 1e300  # what NaN and infinities count as
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


def boost(matrix: FloatArray, label: NDArray[np.bool_], score: FloatArray) -> tuple[Trees, FloatArray] | None:
    """Trees that add to a score, and for each output what trees that have not seen it add; None where they add nothing.

    `score` are log-odds of the rows of `matrix` by a model that has not seen them.
    """
    if len(label) < LEAST_ROWS:
        return None
    x = np.clip(np.nan_to_num(matrix, nan=_LARGEST), -_LARGEST, _LARGEST)
    fold = np.arange(len(label)) % _FOLDS
    first = _grow(x, label, score, fold != 0, _ROUNDS, fold == 0)
    if not (rounds := first.best_iteration):
        return None
    parts = [first, *(_grow(x, label, score, fold != k, rounds) for k in range(1, _FOLDS))]
    added = np.empty(len(label))
    for k, part in enumerate(parts):
        added[fold == k] = part.predict(x[fold == k], raw_score=True, num_iteration=rounds)
    if (_surprise(score, label) - _surprise(score + added, label)).sum() < _WORTH:
        return None
    return _table(_grow(x, label, score, fold >= 0, rounds).dump_model()["tree_info"]), added


def _grow(x: FloatArray, label: NDArray[np.bool_], score: FloatArray, on: NDArray[np.bool_], rounds: int, off: Any = None) -> Any:
    """A booster trained on some of the rows; with others to look at, its `best_iteration` is where these liked it best, 0 if never."""
    import lightgbm

    rows = np.flatnonzero(on)[:: -(-int(on.sum()) * x.shape[1] // _MOST_VALUES)]
    data = lightgbm.Dataset(x[rows], label[rows], init_score=score[rows])
    if off is None:
        return lightgbm.train(_PARAMETERS, data, rounds)
    losses: dict[str, Any] = {}
    booster = lightgbm.train(
        _PARAMETERS,
        data,
        rounds,
        valid_sets=[lightgbm.Dataset(x[off], label[off], init_score=score[off], reference=data)],
        callbacks=[lightgbm.early_stopping(_PATIENCE, verbose=False), lightgbm.record_evaluation(losses)],
    )
    if losses["valid_0"]["binary_logloss"][booster.best_iteration - 1] >= _surprise(score[off], label[off]).mean():
        booster.best_iteration = 0
    return booster


def _surprise(score: FloatArray, label: NDArray[np.bool_]) -> FloatArray:
    """Negative log-likelihood of labels given log-odds."""
    return np.asarray(np.logaddexp(0.0, np.where(label, -score, score)))


def _table(info: list[dict[str, Any]]) -> Trees:
    """All trees in one table: nodes, and where each tree begins; a node without children is a leaf."""
    feature, left, right = list[int](), list[int](), list[int]()
    threshold, value = list[float](), list[float]()

    def add(node: dict[str, Any]) -> int:
        at = len(feature)
        for column in (feature, left, right):
            column.append(-1)
        threshold.append(0.0)
        value.append(float(node.get("leaf_value", 0.0)))
        if "split_feature" in node:
            feature[at], threshold[at] = int(node["split_feature"]), float(node["threshold"])
            left[at], right[at] = add(node["left_child"]), add(node["right_child"])
        return at

    roots = [add(tree["tree_structure"]) for tree in info]
    at, low, high, first = (np.array(column, dtype=np.int64) for column in (feature, left, right, roots))
    return Trees(at, np.array(threshold), low, high, np.array(value), first)
