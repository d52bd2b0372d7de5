"""diffprivlib: models with scikit-learn's interface. A dataset is an array of rows, its last column
the label where there is one.
"""

import warnings

import numpy as np
from diffprivlib import models
from diffprivlib.utils import PrivacyLeakWarning

LIBRARY = "diffprivlib"
TESTED = ">=0.6.6,<0.7"
INSTALL = "pip install diffprivlib==0.6.6 scikit-learn==1.7.2"

# scikit-learn's, on deprecated parameters that diffprivlib passes on
warnings.simplefilter("ignore")
warnings.simplefilter("error", PrivacyLeakWarning)


def _target(claim, cause="", **domain):
    def declare(function):
        function.claim, function.domain, function.cause = claim, domain, cause
        return function

    return declare


def _state(rng):
    return np.random.RandomState(rng.integers(2**32, dtype=np.uint64))


_LABELLED = {"kind": "Rows", "labels": (0, 1)}
_LOW_BITS = (
    "The noisy statistics are 64-bit floats that are not rounded to a grid; their low bits "
    "depend on the exact answer."
)


def _tree(dataset, size, rng):
    state = _state(rng)
    x, y = dataset[:, :1], dataset[:, 1]
    call = {
        "max_depth": 1,
        "epsilon": 1.0,
        "bounds": (0, 1),
        "classes": [0, 1],
        "random_state": state,
    }
    probe = np.array([[0.0], [1.0]])
    return np.array(
        [models.DecisionTreeClassifier(**call).fit(x, y).predict(probe) for _ in range(size)]
    )


@_target("pure:1", **_LABELLED, size=2, relation="add-remove")
def decision_tree(dataset, size, rng):
    """DecisionTreeClassifier of depth 1: its labels at 0 and 1, one row added or removed."""
    return _tree(dataset, size, rng)


decision_tree.expected_findings = {
    "CALLS": "an empty leaf draws its label uniformly, which is permute-and-flip without votes"
}


@_target(
    "pure:1",
    "Each leaf picks its label by permute-and-flip for counts that one record can only raise "
    "(`monotonic=True`). A label that is turned "
    "over lowers one count and raises another, so under replacement epsilon is 2; the "
    "documentation does not say which relation holds.",
    **_LABELLED,
    size=2,
)
def decision_tree_replaced(dataset, size, rng):
    """DecisionTreeClassifier of depth 1: its labels at 0 and 1, one row replaced."""
    return _tree(dataset, size, rng)


@_target(
    "pure:1",
    "The noise of the second-degree coefficient takes the square of the lower bound of the "
    "feature for its sensitivity: both entries that "
    "are compared are the lower bound (`bounds_X[0][i]` twice). With bounds (0.1, 1) it is "
    "0.01 where 0.99 is needed.",
    **_LABELLED,
    size=20,
    features=((0.1, 1),),
)
def linear_regression(dataset, size, rng):
    """LinearRegression(fit_intercept=False, bounds_X=(0.1, 1), bounds_y=(0, 1)), 20 rows."""
    state = _state(rng)
    x, y = dataset[:, :1], dataset[:, 1]
    call = {
        "epsilon": 1.0,
        "fit_intercept": False,
        "bounds_X": (0.1, 1),
        "bounds_y": (0, 1),
        "random_state": state,
    }
    return np.array([models.LinearRegression(**call).fit(x, y).coef_ for _ in range(size)])


@_target("pure:1", _LOW_BITS, **_LABELLED, size=20, features=((-1, 1),))
def linear_regression_symmetric(dataset, size, rng):
    """LinearRegression(fit_intercept=False, bounds_X=(-1, 1), bounds_y=(-1, 1)), 20 rows."""
    state = _state(rng)
    x, y = dataset[:, :1], 2 * dataset[:, 1] - 1
    call = {
        "epsilon": 1.0,
        "fit_intercept": False,
        "bounds_X": (-1, 1),
        "bounds_y": (-1, 1),
        "random_state": state,
    }
    return np.array([models.LinearRegression(**call).fit(x, y).coef_ for _ in range(size)])


@_target(
    "pure:1",
    "Part of epsilon pays for the change of the determinant of the Hessian. Its bound takes "
    "the norm of a row (the data norm R) times the "
    "curvature bound 1/4, where a row moves the Hessian by R^2 / 4: at R = 100 the term is "
    "100 times too small.",
    **_LABELLED,
    size=2,
    features=((-100, 100),),
    every_label=True,
)
def logistic_regression(dataset, size, rng):
    """LogisticRegression(fit_intercept=False, data_norm=100), two rows, one of each class."""
    state = _state(rng)
    x, y = dataset[:, :1], dataset[:, 1]
    call = {"epsilon": 1.0, "fit_intercept": False, "data_norm": 100.0, "random_state": state}
    return np.array(
        [models.LogisticRegression(**call).fit(x, y).coef_.ravel() for _ in range(size)]
    )


@_target(
    "pure:1",
    "The sum over a class gets noise for a change by the width of the bounds. A label that "
    "is turned over moves a value from one class to "
    "the other, and the sums change by up to the bound itself: with bounds (100, 101) by "
    "101, not 1.",
    **_LABELLED,
    size=10,
    features=((100, 101),),
    every_label=True,
)
def gaussian_nb(dataset, size, rng):
    """GaussianNB(bounds=(100, 101)): means, variances and counts of both classes, 10 rows."""
    state = _state(rng)
    x, y = dataset[:, :1], dataset[:, 1]
    found = []
    for _ in range(size):
        model = models.GaussianNB(epsilon=1.0, bounds=(100, 101), random_state=state).fit(x, y)
        found.append(np.concatenate([model.theta_.ravel(), model.var_.ravel(), model.class_count_]))
    return np.array(found)


@_target("pure:1", _LOW_BITS, kind="Rows", size=10)
def standard_scaler(dataset, size, rng):
    """StandardScaler(bounds=(0, 1)): mean and variance, 10 rows."""
    state = _state(rng)
    found = []
    for _ in range(size):
        model = models.StandardScaler(epsilon=1.0, bounds=(0, 1), random_state=state).fit(dataset)
        found.append([model.mean_[0], model.var_[0]])
    return np.array(found)


def _k_means(dataset, size, rng, attribute):
    state = _state(rng)
    return [
        getattr(
            models.KMeans(2, epsilon=1.0, bounds=(0, 1), random_state=state).fit(dataset), attribute
        )
        for _ in range(size)
    ]


@_target(
    "pure:1",
    "A cluster without rows is skipped: its centre stays where it was drawn, at least an "
    "eighth of the range away from the bounds, and no "
    "noise is added. One row that makes the cluster non-empty brings the noise, and centres "
    "near the bounds, which were impossible before.",
    kind="Rows",
    size=6,
)
def k_means_centers(dataset, size, rng):
    """KMeans(2, bounds=(0, 1)).cluster_centers_, 6 rows."""
    return np.array(
        [centers.ravel() for centers in _k_means(dataset, size, rng, "cluster_centers_")]
    )


@_target(
    "pure:1", "`inertia_` is computed from the rows themselves, without noise.", kind="Rows", size=6
)
def k_means_inertia(dataset, size, rng):
    """KMeans(2, bounds=(0, 1)).inertia_, 6 rows."""
    return np.array(_k_means(dataset, size, rng, "inertia_"))


@_target("pure:1", "`labels_` holds the cluster of each row, without noise.", kind="Rows", size=6)
def k_means_labels(dataset, size, rng):
    """KMeans(2, bounds=(0, 1)).labels_, 6 rows."""
    return np.array(_k_means(dataset, size, rng, "labels_"))


@_target(
    "pure:1",
    "`classes_` is np.unique of the labels: it says for certain whether a label occurs.",
    kind="Rows",
    size=5,
    labels=(0, 1, 2),
)
def gaussian_nb_classes(dataset, size, rng):
    """GaussianNB(bounds=(0, 1)).classes_, 5 rows of three classes."""
    state = _state(rng)
    x, y = dataset[:, :1], dataset[:, 1]
    return [
        models.GaussianNB(epsilon=1.0, bounds=(0, 1), random_state=state).fit(x, y).classes_
        for _ in range(size)
    ]


@_target("pure:1", _LOW_BITS, kind="Rows", size=10, features=((-0.7, 0.7), (-0.7, 0.7)))
def pca(dataset, size, rng):
    """PCA(1, data_norm=1, centered=True): the first component and its variance, 10 rows."""
    state = _state(rng)
    found = []
    for _ in range(size):
        model = models.PCA(1, epsilon=1.0, data_norm=1.0, centered=True, random_state=state).fit(
            dataset
        )
        found.append(np.append(np.abs(model.components_.ravel()), model.explained_variance_))
    return np.array(found)
