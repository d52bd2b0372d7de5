"""Estimators by scikit-learn's conventions as mechanisms: a new one for each run, fitted to the dataset; what it learned is the output."""

from __future__ import annotations

from typing import Any, Callable, Optional, Union

import numpy as np

from .errors import InvalidArgument, MechanismFailed, require_callable, shown
from .labels import parts
from .randomness import takes_labels
from .runs import PerRun, made, named, split, told


def from_estimator(
    factory: Callable[..., Any],
    output: Union[str, Callable[[Any], Any]] = "coef_",
    *,
    at: Any = None,
    label: Optional[int] = None,
    time_limit: float = 60.0,
    **arguments: Any,
) -> PerRun:
    """A mechanism from a class with `fit`, as scikit-learn has them.

    Parameters
    ----------
    factory : callable
        Makes the estimator: a class, or a function. Its `random_state` (`rng`, `seed`), if it takes one, is drawn for each run.
    output : str or callable
        What is released: an attribute after `fit`, several with commas (``"coef_,intercept_"``), a method that is called on the points `at`
        (``"predict"``, ``"transform"``), or ``f(estimator)``.
    at : array, optional
        Public points for such a method.
    label : int, optional
        The column of a dataset that holds y, as -1. Default: a dataset is (X, y) or has fields x and y; of an array it is the last column
        where `fit` requires y, and the array is X otherwise.
    time_limit, **arguments
        As in `one_run`; arguments are those of the factory.

    Returns
    -------
    callable
        As `one_run`. MechanismFailed where the attribute does not exist, or `fit` returns something else than the estimator.

    Examples
    --------
    >>> class Mean:
    ...     def __init__(self, random_state=None):
    ...         self.random_state = random_state
    ...     def fit(self, X, y=None):
    ...         self.mean_ = X.mean() + np.random.RandomState(self.random_state).laplace()
    ...         return self
    >>> len(from_estimator(Mean, "mean_")(np.zeros((4, 1)), 3, np.random.default_rng(1)))
    3
    """
    require_callable("from_estimator", "factory", factory)
    if not isinstance(output, str):
        require_callable("from_estimator", "output", output)
    if label is not None and (isinstance(label, bool) or not isinstance(label, (int, np.integer))):
        raise InvalidArgument(f"from_estimator: label must be the number of a column, got {shown(label)}")
    mine, declared = split("from_estimator", factory, arguments)
    make = made("from_estimator", factory, mine)
    points = None if at is None else np.asarray(at)

    def once(dataset: Any, rng: Any) -> Any:
        estimator = make(rng)
        if not callable(getattr(estimator, "fit", None)):
            raise MechanismFailed(f"from_estimator: factory must make an object with fit, {named(factory)} made {shown(estimator)}")
        x, y = parts(dataset, label, labeled=takes_labels(estimator.fit))
        fitted = estimator.fit(x) if y is None else estimator.fit(x, y)
        if fitted is not None and fitted is not estimator:
            raise MechanismFailed(
                f"from_estimator: fit must return the estimator itself, that of {named(factory)} returned {shown(fitted)}"
            )
        return _released(estimator, output, points)

    options = {"at": at, "label": label, "time_limit": time_limit, **mine}
    return PerRun(named(factory), once, (from_estimator, (factory, output), options), told(factory), time_limit, declared)


def _released(estimator: Any, output: Union[str, Callable[[Any], Any]], points: Any) -> Any:
    if not isinstance(output, str):
        return output(estimator)
    if "," in output:
        return tuple(_released(estimator, part.strip(), points) for part in output.split(","))
    name = type(estimator).__name__
    if not hasattr(estimator, output):
        has = ", ".join(key for key in vars(estimator) if key.endswith("_") and key[0] != "_") or "nothing"
        raise MechanismFailed(f"from_estimator: output must exist after fit, {name} has no {output!r}; it has learned {has}")
    found = getattr(estimator, output)
    if not callable(found):
        return np.array(found) if isinstance(found, np.ndarray) else found
    if points is None:
        raise MechanismFailed(f"from_estimator: {output!r} of {name} is a method: say on which public points, at=...")
    return found(points)
