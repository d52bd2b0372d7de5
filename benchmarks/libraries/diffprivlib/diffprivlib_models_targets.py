"""diffprivlib: models with scikit-learn's interface. A dataset is an array of rows, its last column
the label where there is one.
"""

import functools
import warnings
from operator import attrgetter

import numpy as np
from diffprivlib import models
from diffprivlib.utils import PrivacyLeakWarning
from library_target import random_state, target

LIBRARY = "diffprivlib"

# scikit-learn's, on deprecated parameters that diffprivlib passes on
warnings.simplefilter("ignore")
warnings.simplefilter("error", PrivacyLeakWarning)

_LOW_BITS = (
    "The noisy statistics are 64-bit floats that are not rounded to a grid; their low bits "
    "depend on the exact answer."
)


def _fitted(
    model,
    read,
    doc,
    cause="",
    label=lambda value: value,
    outputs=np.array,
    parameters=None,
    **declared,
):
    """Return the target of what `read` returns of a fitted model, with epsilon 1 and the given
    parameters; a domain without labels has rows of features only.
    """
    make = functools.partial(model, epsilon=1.0, **(parameters or {}))

    def run(dataset, size, rng):
        state = random_state(rng)
        given = (dataset[:, :1], label(dataset[:, 1])) if "labels" in declared else (dataset,)
        return outputs([read(make(random_state=state).fit(*given)) for _ in range(size)])

    return target("pure:1", cause, doc, kind="Rows", **declared)(run)


_tree = functools.partial(
    _fitted,
    models.DecisionTreeClassifier,
    lambda model: model.predict(np.array([[0.0], [1.0]])),
    parameters={"max_depth": 1, "bounds": (0, 1), "classes": [0, 1]},
    labels=(0, 1),
    size=2,
)
_regression = functools.partial(
    _fitted, models.LinearRegression, attrgetter("coef_"), labels=(0, 1), size=20
)
_moments = attrgetter("theta_", "var_", "class_count_")
_clusters = functools.partial(
    _fitted, functools.partial(models.KMeans, 2), parameters={"bounds": (0, 1)}, size=6
)

decision_tree = _tree(
    "DecisionTreeClassifier of depth 1: its labels at 0 and 1, one row added or removed.",
    relation="add-remove",
    expected_findings={
        "CALLS": "an empty leaf draws its label uniformly, which is permute-and-flip without votes"
    },
)
decision_tree_replaced = _tree(
    "DecisionTreeClassifier of depth 1: its labels at 0 and 1, one row replaced.",
    "Each leaf picks its label by permute-and-flip for counts that one record can only raise "
    "(`monotonic=True`). A label that is turned "
    "over lowers one count and raises another, so under replacement epsilon is 2; the "
    "documentation does not say which relation holds.",
)
linear_regression = _regression(
    "LinearRegression(fit_intercept=False, bounds_X=(0.1, 1), bounds_y=(0, 1)), 20 rows.",
    "The noise of the second-degree coefficient takes the square of the lower bound of the "
    "feature for its sensitivity: both entries that "
    "are compared are the lower bound (`bounds_X[0][i]` twice). With bounds (0.1, 1) it is "
    "0.01 where 0.99 is needed.",
    parameters={"fit_intercept": False, "bounds_X": (0.1, 1), "bounds_y": (0, 1)},
    features=((0.1, 1),),
)
linear_regression_symmetric = _regression(
    "LinearRegression(fit_intercept=False, bounds_X=(-1, 1), bounds_y=(-1, 1)), 20 rows.",
    _LOW_BITS,
    lambda label: 2 * label - 1,
    parameters={"fit_intercept": False, "bounds_X": (-1, 1), "bounds_y": (-1, 1)},
    features=((-1, 1),),
)
logistic_regression = _fitted(
    models.LogisticRegression,
    lambda model: model.coef_.ravel(),
    "LogisticRegression(fit_intercept=False, data_norm=100), two rows, one of each class.",
    "Part of epsilon pays for the change of the determinant of the Hessian. Its bound takes "
    "the norm of a row (the data norm R) times the "
    "curvature bound 1/4, where a row moves the Hessian by R^2 / 4: at R = 100 the term is "
    "100 times too small.",
    parameters={"fit_intercept": False, "data_norm": 100.0},
    labels=(0, 1),
    size=2,
    features=((-100, 100),),
    every_label=True,
)
gaussian_nb = _fitted(
    models.GaussianNB,
    lambda model: np.concatenate(list(map(np.ravel, _moments(model)))),
    "GaussianNB(bounds=(100, 101)): means, variances and counts of both classes, 10 rows.",
    "The sum over a class gets noise for a change by the width of the bounds. A label that "
    "is turned over moves a value from one class to "
    "the other, and the sums change by up to the bound itself: with bounds (100, 101) by "
    "101, not 1.",
    parameters={"bounds": (100, 101)},
    labels=(0, 1),
    size=10,
    features=((100, 101),),
    every_label=True,
)
standard_scaler = _fitted(
    models.StandardScaler,
    lambda model: [model.mean_[0], model.var_[0]],
    "StandardScaler(bounds=(0, 1)): mean and variance, 10 rows.",
    _LOW_BITS,
    parameters={"bounds": (0, 1)},
    size=10,
)
k_means_centers = _clusters(
    lambda model: model.cluster_centers_.ravel(),
    "KMeans(2, bounds=(0, 1)).cluster_centers_, 6 rows.",
    "A cluster without rows is skipped: its centre stays where it was drawn, at least an "
    "eighth of the range away from the bounds, and no "
    "noise is added. One row that makes the cluster non-empty brings the noise, and centres "
    "near the bounds, which were impossible before.",
)
k_means_inertia = _clusters(
    attrgetter("inertia_"),
    "KMeans(2, bounds=(0, 1)).inertia_, 6 rows.",
    "`inertia_` is computed from the rows themselves, without noise.",
)
k_means_labels = _clusters(
    attrgetter("labels_"),
    "KMeans(2, bounds=(0, 1)).labels_, 6 rows.",
    "`labels_` holds the cluster of each row, without noise.",
)
gaussian_nb_classes = _fitted(
    models.GaussianNB,
    attrgetter("classes_"),
    "GaussianNB(bounds=(0, 1)).classes_, 5 rows of three classes.",
    "`classes_` is np.unique of the labels: it says for certain whether a label occurs.",
    outputs=list,
    parameters={"bounds": (0, 1)},
    size=5,
    labels=(0, 1, 2),
)
pca = _fitted(
    functools.partial(models.PCA, 1),
    lambda model: np.append(np.abs(model.components_.ravel()), model.explained_variance_),
    "PCA(1, data_norm=1, centered=True): the first component and its variance, 10 rows.",
    _LOW_BITS,
    parameters={"data_norm": 1.0, "centered": True},
    size=10,
    features=((-0.7, 0.7), (-0.7, 0.7)),
)
