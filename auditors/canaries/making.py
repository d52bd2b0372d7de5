"""Canaries for a user's training, and what a guesser sees of them: gradients, records, and scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument, require, require_integer, require_numbers, require_one_of

_FARTHEST = 3.0  # ranges of a column beyond its ends, of an extreme record


@dataclass(frozen=True, eq=False)
class GradientCanaries:
    """Gradients at right angles to one another, so that each shows in updates by itself; for the white box.

    Nasr et al. (2023), section 4 (Dirac); Steinke, Nasr and Jagielski (2023), section 6. A canary's record may be anything whose gradient
    it is: one number of a layer of its own, for Dirac gradients.

    Parameters
    ----------
    count, dimension : int
        Canaries, at most as many as gradients have entries.
    norm : float
        Length of each. Well above the clipping norm, or a training that forgets to clip passes.
    kind : {"dirac", "orthogonal"}
        One entry each, the first ones; or a random orthonormal system, for training code that treats entries apart.
    seed : int
        Of the orthonormal system.

    Examples
    --------
    >>> canaries = GradientCanaries(count=3, dimension=8, norm=10.0)
    >>> canaries.rows([1])
    array([[ 0., 10.,  0.,  0.,  0.,  0.,  0.,  0.]])
    >>> canaries.scores(np.arange(8.0))
    array([0., 1., 2.])
    """

    count: int
    dimension: int
    norm: float = 1.0
    kind: str = "dirac"
    seed: int = 0
    _system: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require(self).integer("count", "dimension").positive("norm").one_of("kind", ["dirac", "orthogonal"])
        require_integer("seed", self.seed, "GradientCanaries", least=0)
        if self.count > self.dimension:
            raise InvalidArgument(f"GradientCanaries: count must be at most dimension, {self.dimension}, got {self.count}")
        system = np.empty((0, self.dimension))
        if self.kind == "orthogonal":
            drawn = np.random.default_rng(self.seed).normal(size=(self.dimension, self.count))
            system = np.linalg.qr(drawn)[0].T
        object.__setattr__(self, "_system", system)

    def rows(self, which: ArrayLike) -> FloatArray:
        """Gradients of the canaries `which`, by number or by a mask: (k, dimension)."""
        chosen = np.arange(self.count)[np.asarray(which)]
        if self.kind == "orthogonal":
            return np.asarray(self.norm * self._system[chosen])
        found = np.zeros((len(chosen), self.dimension))
        found[np.arange(len(chosen)), chosen] = self.norm
        return found

    def scores(self, update: ArrayLike) -> FloatArray:
        """Inner product of each canary's direction with a noisy sum of gradients, to be added up over steps: (count,).

        An update that goes against the gradient, such as a change of the model's parameters, is to be turned around first: large scores
        speak for canaries that were included.
        """
        found = np.asarray(require_numbers("update", update, "GradientCanaries"), dtype=float).ravel()
        if found.size != self.dimension:
            raise InvalidArgument(f"GradientCanaries: update must have as many entries as gradients, {self.dimension}, got {found.size}")
        return found[: self.count].copy() if self.kind == "dirac" else np.asarray(self._system @ found)


def canary_records(
    features: ArrayLike, labels: ArrayLike, count: int, *, kind: str = "mislabelled", seed: int = 0
) -> tuple[FloatArray, np.ndarray]:
    """Records that a training would have to learn by heart: (features, labels) of `count` canaries, for the black box.

    Parameters
    ----------
    features, labels : array_like
        The real table, (n, k) and (n,), from which canaries are made.
    count : int
    kind : {"mislabelled", "blank", "extreme"}
        Real records with another label that occurs, drawn without replacement as long as there are any; records of zeros with random
        labels; or records whose every column lies three ranges beyond an end, at random ends and with random labels.
    seed : int

    Raises
    ------
    InvalidArgument
        If an argument breaks its rule: labels must be of at least two kinds.

    Notes
    -----
    Blank canaries with one label are one record many times: the model's bias moves with their number, and a single one hardly shows.

    Examples
    --------
    >>> table, truth = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
    >>> x, y = canary_records(table, truth, 2)
    >>> [bool(y[i] != truth[np.flatnonzero((table == x[i]).all(axis=1))[0]]) for i in range(2)]
    [True, True]
    """
    owner = "canary_records"
    table = np.asarray(require_numbers("features", features, owner), dtype=float)
    known = np.asarray(labels)
    if table.ndim != 2 or not len(table):
        raise InvalidArgument(f"{owner}: features must be a table with a row a record, got shape {table.shape}")
    if known.shape != (len(table),):
        raise InvalidArgument(f"{owner}: labels must be one a record, {len(table)}, got shape {known.shape}")
    require_integer("count", count, owner)
    require_one_of("kind", kind, ["mislabelled", "blank", "extreme"], owner)
    kinds, codes = np.unique(known, return_inverse=True)
    if len(kinds) < 2:
        raise InvalidArgument(f"{owner}: labels must be of at least two kinds, all are {kinds[0]}")
    rng = np.random.default_rng(require_integer("seed", seed, owner, least=0))
    if kind == "mislabelled":
        turns = [rng.permutation(len(table)) for _ in range(-(-count // len(table)))]
        chosen = np.concatenate(turns)[:count]
        return table[chosen], kinds[(codes[chosen] + rng.integers(1, len(kinds), count)) % len(kinds)]
    drawn = kinds[rng.integers(len(kinds), size=count)]
    if kind == "blank":
        return np.zeros((count, table.shape[1])), drawn
    low, high = table.min(axis=0), table.max(axis=0)
    reach = _FARTHEST * np.where(high > low, high - low, 1.0)
    return np.where(rng.random((count, table.shape[1])) < 0.5, low - reach, high + reach), drawn


def prediction_scores(predictions: ArrayLike, labels: ArrayLike, kind: str = "margin") -> FloatArray:
    """How well a released model fits each canary: the black box's scores, and those at a released minimiser.

    Parameters
    ----------
    predictions : array_like
        What the model says of each canary: (m,) numbers for labels -1 and 1, such as <w, x> at a released minimiser w; or (m, classes)
        log-odds up to a constant, for labels 0, 1, ...
    labels : array_like
        (m,).
    kind : {"margin", "loss"}
        By how much the label's prediction exceeds the best other one; or minus the logistic loss, log P(label).

    Raises
    ------
    InvalidArgument
        If an argument breaks its rule.

    Examples
    --------
    >>> prediction_scores([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]], [1, 2])
    array([ 1., -3.])
    >>> prediction_scores([2.0, -1.0], [1, 1], "loss").round(3)
    array([-0.127, -1.313])
    """
    owner = "prediction_scores"
    found = np.asarray(require_numbers("predictions", predictions, owner), dtype=float)
    known = np.asarray(require_numbers("labels", labels, owner), dtype=float)
    require_one_of("kind", kind, ["margin", "loss"], owner)
    if found.ndim not in (1, 2) or known.shape != found.shape[:1]:
        raise InvalidArgument(f"{owner}: labels must be one a row of predictions, got shapes {known.shape} and {found.shape}")
    if found.ndim == 1:
        if not np.isin(known, (-1, 1)).all():
            raise InvalidArgument(f"{owner}: labels must be -1 or 1 for one number a canary, got {_odd(known, (-1, 1))}")
        margins = known * found
        return np.asarray(margins if kind == "margin" else -np.logaddexp(0.0, -margins))
    classes = found.shape[1]
    if classes < 2 or not np.isin(known, np.arange(classes)).all():
        raise InvalidArgument(f"{owner}: labels must be 0 to {classes - 1}, of at least two classes, got {_odd(known, range(classes))}")
    places = np.arange(len(found)), known.astype(int)
    own = found[places]
    if kind == "loss":
        return np.asarray(own - np.logaddexp.reduce(found, axis=1))
    others = found.copy()
    others[places] = -np.inf
    return np.asarray(own - others.max(axis=1))


def _odd(labels: FloatArray, allowed: Any) -> str:
    wrong = labels[~np.isin(labels, list(allowed))]
    return f"{wrong[0]:g}" if len(wrong) else f"{len(list(allowed))} class"
