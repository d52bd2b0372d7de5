"""Gradient-boosted trees on top of a model's score: interactions that no sum over columns
expresses, such as a box in several columns.

LightGBM grows the trees. They are stored as plain arrays, the fields of a `Trees` block, which the
kernel `sum_of_trees` evaluates, so a replay does not need LightGBM.
"""

from __future__ import annotations

import importlib
import sys
import threading
from functools import cache
from importlib.abc import MetaPathFinder
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.numerics.jit import jit
from dpwitness.core.protocols.mechanism import FloatArray

NodeTable = tuple[NDArray[Any], ...]  # the fields of a `Trees` block, in order

# with fewer rows, trees find no further interactions, and loading LightGBM takes a second
MIN_TREE_ROWS = 4000
_FOLDS = 4
_MAX_MAGNITUDE = 1e300  # replaces NaN and infinities
_OPTIONAL_LIBRARIES = ("sklearn", "pandas", "pyarrow", "matplotlib", "graphviz", "dask")
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
        if fullname in _OPTIONAL_LIBRARIES and threading.get_ident() == self._thread:
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
    at, low, high, first = (
        np.array(column, dtype=np.int64) for column in (feature, left, right, roots)
    )
    return at, np.array(threshold), low, high, np.array(value), first


@jit
def sum_of_trees(
    matrix: FloatArray,
    feature: NDArray[np.int64],
    threshold: FloatArray,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    value: FloatArray,
    roots: NDArray[np.int64],
) -> FloatArray:
    """Return the sum of the tree values for each row.

    A row goes left where its number is at most the threshold, else right (also for NaN), until it
    reaches a leaf.
    """
    total = np.zeros(len(matrix))
    for i in range(len(matrix)):
        for root in roots:
            node = root
            while left[node] >= 0:
                node = left[node] if matrix[i, feature[node]] <= threshold[node] else right[node]
            total[i] += value[node]
    return total
