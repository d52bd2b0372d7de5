"""Models of diffprivlib, with the parameters that its documentation asks for; early releases name
bounds differently and take no seed.
"""

import random
import warnings

import diffprivlib
import numpy as np
from diffprivlib import models

LIBRARY = "diffprivlib"

warnings.simplefilter("ignore")
_OLD = tuple(int(part) for part in diffprivlib.__version__.split(".")[:2]) < (0, 3)


def _target(claim, **domain):
    def declare(function):
        function.claim, function.domain, function.seeded, function.batch = claim, domain, False, 256
        return function

    return declare


def _seed(rng):
    np.random.seed(int(rng.integers(2**32, dtype=np.uint64)))
    random.seed(int(rng.integers(2**63)))


def _bounds(low, high, features=1):
    """Bounds of each feature: a list of pairs before release 0.3."""
    return [(low, high)] * features if _OLD else (low, high)


@_target("pure:1", kind="Rows", size=10, features=((0, 1),), outside=True)
def k_means(dataset, size, rng):
    """KMeans(n_clusters=2, bounds=[0, 1]).cluster_centers_ of 10 numbers, of which any may be
    outside.
    """
    _seed(rng)
    fitted = (
        models.KMeans(epsilon=1.0, bounds=_bounds(0.0, 1.0), n_clusters=2).fit(np.asarray(dataset))
        for _ in range(size)
    )
    return np.array([np.sort(model.cluster_centers_.ravel()) for model in fitted])


@_target(
    "pure:1",
    kind="Rows",
    size=6,
    features=((-1, 1),),
    labels=(0, 1),
    every_label=True,
    outside=True,
)
def logistic_regression(dataset, size, rng):
    """LogisticRegression(data_norm=1, fit_intercept=False).coef_ of 6 numbers, of which any may be
    outside.
    """
    _seed(rng)
    x, y = np.asarray(dataset)[:, :1], np.asarray(dataset)[:, 1]
    make = lambda: models.LogisticRegression(epsilon=1.0, data_norm=1.0, fit_intercept=False)  # noqa: E731
    return np.array([make().fit(x, y).coef_.ravel() for _ in range(size)])


@_target(
    "pure:1",
    kind="Rows",
    size=10,
    features=((0, 1),),
    labels=(0, 1),
    every_label=True,
    outside=True,
)
def gaussian_nb(dataset, size, rng):
    """GaussianNB(bounds=[0, 1]): the means of both classes, of 10 numbers, of which any may be
    outside.
    """
    _seed(rng)
    x, y = np.asarray(dataset)[:, :1], np.asarray(dataset)[:, 1]
    return np.array(
        [
            models.GaussianNB(epsilon=1.0, bounds=_bounds(0.0, 1.0)).fit(x, y).theta_.ravel()
            for _ in range(size)
        ]
    )


def _regression():
    if hasattr(
        models.LinearRegression(epsilon=1.0, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0)),
        "data_norm",
    ):
        return models.LinearRegression(epsilon=1.0, data_norm=2**0.5, fit_intercept=False)
    return models.LinearRegression(
        epsilon=1.0, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), fit_intercept=False
    )


@_target("pure:1", kind="Rows", size=10, features=((-1, 1), (-1, 1)))
def linear_regression(dataset, size, rng):
    """LinearRegression(fit_intercept=False).coef_ of 10 rows with one feature and one label in [-1,
    1].
    """
    _seed(rng)
    x, y = np.asarray(dataset)[:, :1], np.asarray(dataset)[:, 1]
    return np.array([np.ravel(_regression().fit(x, y).coef_) for _ in range(size)])


@_target("pure:1", kind="Rows", size=10, features=((-0.7, 0.7), (-0.7, 0.7)))
def pca(dataset, size, rng):
    """PCA(1, data_norm=1, centered=True): the first component and its variance, 10 rows."""
    _seed(rng)
    rows, found = np.asarray(dataset), []
    for _ in range(size):
        model = models.PCA(1, epsilon=1.0, data_norm=1.0, centered=True).fit(rows)
        found.append(np.append(np.abs(model.components_.ravel()), model.explained_variance_))
    return np.array(found)


@_target("pure:1", kind="Rows", size=10, features=((-1, 1), (-1, 1)))
def regression_intercept(dataset, size, rng):
    """LinearRegression with an intercept: coefficient and intercept of 10 rows with one feature and
    one label in [-1, 1].
    """
    _seed(rng)
    x, y = np.asarray(dataset)[:, :1], np.asarray(dataset)[:, 1]
    fitted = (
        models.LinearRegression(epsilon=1.0, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0)).fit(x, y)
        for _ in range(size)
    )
    return np.array([np.append(np.ravel(model.coef_), model.intercept_) for model in fitted])


@_target("pure:1", kind="Rows", size=10, features=((0, 1),), labels=(0, 1), every_label=True)
def class_priors(dataset, size, rng):
    """GaussianNB(bounds=[0, 1]).class_prior_ of 10 labelled numbers in [0, 1], both
    classes public.
    """
    _seed(rng)
    x, y = np.asarray(dataset)[:, :1], np.asarray(dataset)[:, 1]
    return np.array(
        [
            models.GaussianNB(epsilon=1.0, bounds=_bounds(0.0, 1.0)).fit(x, y).class_prior_
            for _ in range(size)
        ]
    )


@_target("pure:1", kind="Rows", size=6, features=((0, 1),), labels=(0, 1))
def gaussian_nb_classes(dataset, size, rng):
    """GaussianNB(bounds=[0, 1]) of 6 labelled numbers in [0, 1]: its classes and their means."""
    _seed(rng)
    x, y = np.asarray(dataset)[:, :1], np.asarray(dataset)[:, 1]
    fitted = (
        models.GaussianNB(epsilon=1.0, bounds=_bounds(0.0, 1.0)).fit(x, y) for _ in range(size)
    )
    return [[*model.classes_.tolist(), *model.theta_.ravel().tolist()] for model in fitted]
