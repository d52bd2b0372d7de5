"""Estimators with scikit-learn's conventions as mechanisms: each run fits a new one, and the
learned attributes are the output.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Union

import numpy as np

from .arguments import parts, seeding_notes, takes_labels
from .errors import InvalidArgument, MechanismFailed, require_callable, short_repr
from .single_runs import PerRun, made, named, split


def from_estimator(
    factory: Callable[..., Any],
    output: Union[str, Callable[[Any], Any]] = "coef_",
    *,
    at: Any = None,
    label: Optional[int] = None,
    time_limit: float = 60.0,
    **arguments: Any,
) -> PerRun:
    """Return a mechanism that fits a new estimator in each run and releases what it learned.

    Parameters
    ----------
    factory : callable
        Class or function that makes the estimator. Its `random_state` (`rng`, `seed`), if it has
        one, is drawn for each run.
    output : str or callable
        Released output: the name of an attribute after `fit`, several names with commas
        (``"coef_,intercept_"``), a method that is called on the points `at` (``"predict"``,
        ``"transform"``), or ``f(estimator)``.
    at : array, optional
        Public points for such a method.
    label : int, optional
        Column of the dataset that contains y, such as -1. By default a dataset is (X, y) or has
        fields x and y. In an array, y is the last column if `fit` requires y; otherwise the array
        is X.
    time_limit, **arguments
        As in `one_run`; arguments are those of the factory.

    Returns
    -------
    callable
        As for `one_run`. A run raises MechanismFailed if the attribute does not exist or if `fit`
        does not return the estimator.

    Raises
    ------
    InvalidArgument
        If `factory` or `output` is not callable, `label` is not an integer, or an argument is
        unknown.

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
        raise InvalidArgument(
            f"from_estimator: label must be the number of a column, got {short_repr(label)}"
        )
    factory_arguments, declared = split("from_estimator", factory, arguments)
    make = made("from_estimator", factory, factory_arguments)
    points = None if at is None else np.asarray(at)

    def run(dataset: Any, rng: Any) -> Any:
        estimator = make(rng)
        if not callable(getattr(estimator, "fit", None)):
            raise MechanismFailed(
                f"from_estimator: factory must make an object with fit, {named(factory)} "
                f"made {short_repr(estimator)}"
            )
        x, y = parts(dataset, label, labeled=takes_labels(estimator.fit))
        fitted = estimator.fit(x) if y is None else estimator.fit(x, y)
        if fitted is not None and fitted is not estimator:
            raise MechanismFailed(
                "from_estimator: fit must return the estimator itself, that of "
                f"{named(factory)} returned {short_repr(fitted)}"
            )
        return _read_output(estimator, output, points)

    options = {"at": at, "label": label, "time_limit": time_limit, **factory_arguments}
    return PerRun(
        named(factory),
        run,
        (from_estimator, (factory, output), options),
        seeding_notes(factory, named(factory)),
        time_limit,
        declared,
    )


def _read_output(estimator: Any, output: Union[str, Callable[[Any], Any]], points: Any) -> Any:
    """Return the released output of a fitted estimator."""
    if not isinstance(output, str):
        return output(estimator)
    if "," in output:
        return tuple(_read_output(estimator, part.strip(), points) for part in output.split(","))
    name = type(estimator).__name__
    if not hasattr(estimator, output):
        learned = (
            ", ".join(key for key in vars(estimator) if key.endswith("_") and key[0] != "_")
            or "nothing"
        )
        raise MechanismFailed(
            f"from_estimator: output must exist after fit, {name} has no {output!r}; it has "
            f"learned {learned}"
        )
    value = getattr(estimator, output)
    if not callable(value):
        return np.array(value) if isinstance(value, np.ndarray) else value
    if points is None:
        raise MechanismFailed(
            f"from_estimator: {output!r} of {name} is a method: give the public points to "
            "call it on, at=..."
        )
    return value(points)
