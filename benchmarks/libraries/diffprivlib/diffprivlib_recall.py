"""Models of diffprivlib, with the parameters that its documentation asks for; early releases name
bounds differently and take no seed.
"""

import warnings

import diffprivlib
import numpy as np
from diffprivlib import models
from library_target import seed_numpy, seed_random, target

LIBRARY = "diffprivlib"

warnings.simplefilter("ignore")
_OLD = tuple(int(part) for part in diffprivlib.__version__.split(".")[:2]) < (0, 3)


def _bounds(low, high, features=1):
    """Bounds of each feature: a list of pairs before release 0.3."""
    return [(low, high)] * features if _OLD else (low, high)


def _fitted(make, read, doc, separate=True, outputs=np.array, **declared):
    """Return the target of what `read` returns of a model of rows, whose last column is the label
    if it is given separately.
    """

    def run(dataset, size, rng):
        seed_numpy(rng)
        seed_random(rng)
        rows = np.asarray(dataset)
        given = (rows[:, :1], rows[:, 1]) if separate else (rows,)
        return outputs([read(make().fit(*given)) for _ in range(size)])

    return target("pure:1", "", doc, kind="Rows", seeded=False, batch=256, **declared)(run)


def _regression():
    if hasattr(
        models.LinearRegression(epsilon=1.0, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0)),
        "data_norm",
    ):
        return models.LinearRegression(epsilon=1.0, data_norm=2**0.5, fit_intercept=False)
    return models.LinearRegression(
        epsilon=1.0, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), fit_intercept=False
    )


def _bayes():
    return models.GaussianNB(epsilon=1.0, bounds=_bounds(0.0, 1.0))


_CLASSES = {"features": ((0, 1),), "labels": (0, 1)}

k_means = _fitted(
    lambda: models.KMeans(epsilon=1.0, bounds=_bounds(0.0, 1.0), n_clusters=2),
    lambda model: np.sort(model.cluster_centers_.ravel()),
    "KMeans(n_clusters=2, bounds=[0, 1]).cluster_centers_ of 10 numbers, of which any may be "
    "outside.",
    separate=False,
    size=10,
    features=((0, 1),),
    outside=True,
)
logistic_regression = _fitted(
    lambda: models.LogisticRegression(epsilon=1.0, data_norm=1.0, fit_intercept=False),
    lambda model: model.coef_.ravel(),
    "LogisticRegression(data_norm=1, fit_intercept=False).coef_ of 6 numbers, of which any may be "
    "outside.",
    size=6,
    features=((-1, 1),),
    labels=(0, 1),
    every_label=True,
    outside=True,
)
gaussian_nb = _fitted(
    _bayes,
    lambda model: model.theta_.ravel(),
    "GaussianNB(bounds=[0, 1]): the means of both classes, of 10 numbers, of which any may be "
    "outside.",
    size=10,
    every_label=True,
    outside=True,
    **_CLASSES,
)
linear_regression = _fitted(
    _regression,
    lambda model: np.ravel(model.coef_),
    "LinearRegression(fit_intercept=False).coef_ of 10 rows with one feature and one label in "
    "[-1, 1].",
    size=10,
    features=((-1, 1), (-1, 1)),
)
pca = _fitted(
    lambda: models.PCA(1, epsilon=1.0, data_norm=1.0, centered=True),
    lambda model: np.append(np.abs(model.components_.ravel()), model.explained_variance_),
    "PCA(1, data_norm=1, centered=True): the first component and its variance, 10 rows.",
    separate=False,
    size=10,
    features=((-0.7, 0.7), (-0.7, 0.7)),
)
regression_intercept = _fitted(
    lambda: models.LinearRegression(epsilon=1.0, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0)),
    lambda model: np.append(np.ravel(model.coef_), model.intercept_),
    "LinearRegression with an intercept: coefficient and intercept of 10 rows with one feature and "
    "one label in [-1, 1].",
    size=10,
    features=((-1, 1), (-1, 1)),
)
class_priors = _fitted(
    _bayes,
    lambda model: model.class_prior_,
    "GaussianNB(bounds=[0, 1]).class_prior_ of 10 labelled numbers in [0, 1], both classes public.",
    size=10,
    every_label=True,
    **_CLASSES,
)
gaussian_nb_classes = _fitted(
    _bayes,
    lambda model: [*model.classes_.tolist(), *model.theta_.ravel().tolist()],
    "GaussianNB(bounds=[0, 1]) of 6 labelled numbers in [0, 1]: its classes and their means.",
    outputs=list,
    size=6,
    **_CLASSES,
)
