"""Figures 1 and 2 of Chaudhuri and Monteleoni (2008): errors of private logistic regression, with
printed and with corrected noise, and the datasets of the papers' experiments.

The page compares the paper's numbers with the reproduced numbers, and gives the true epsilon of
each run (claims CM-05 and CM-06).
"""

from __future__ import annotations

import csv
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from dpwitness import mechanisms as m
from dpwitness.core.datasets.datasets import LabelledVectors
from dpwitness.core.numerics.solvers import Problem, minimise, minimize_perturbed_risk
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import import_problem
from dpwitness.mechanisms.papers.logistic import hypercube

PIMA = Path(__file__).resolve().parents[2] / "data" / "pima.csv"


class MissingOptionalDependency(ImportError):
    """Error: an optional dependency is not installed; the message says how to install it."""


def pima() -> LabelledVectors:
    """Return the Pima diabetes data: 532 records x 7, label +1 = diabetic.

    The columns are standardized, then all records are scaled so that the longest has norm 1. This
    scaling depends on the data and is not private, as in the experiments of the paper, which
    concern only the learner.
    """
    with PIMA.open(encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    columns = [name for name in rows[0] if name != "type"]
    x = np.array([[float(row[name]) for name in columns] for row in rows])
    return LabelledVectors(
        _standardize_and_scale(x), [1.0 if row["type"] == "Yes" else -1.0 for row in rows]
    )


def breast_cancer() -> LabelledVectors:
    """Return the Breast Cancer Wisconsin (diagnostic) data: 569 records x 30, label +1 = malignant.

    The records are scaled as in `pima`. The data come with scikit-learn.

    Raises
    ------
    MissingDependency
        If scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError as error:
        reason = import_problem("sklearn", error, "pip install scikit-learn")
        raise MissingOptionalDependency(
            f"breast_cancer: the data come with scikit-learn: {reason}"
        ) from None
    x, y = load_breast_cancer(return_X_y=True)
    return LabelledVectors(_standardize_and_scale(x), np.where(y == 0, 1.0, -1.0))


def sphere_with_margin(n: int, dimension: int, margin: float, rng: Generator) -> LabelledVectors:
    """Return n points uniform on the unit sphere outside |x_1| < margin, labeled by the sign of
    x_1.

    CM08, section 6. x_1 is drawn from its conditional law given |x_1| >= margin, so that no draw is
    rejected. On the sphere x_1^2 is Beta(1/2, (d-1)/2).
    """
    from scipy.stats import beta

    law = beta(0.5, 0.5 * (dimension - 1))
    first = np.sqrt(law.isf(rng.uniform(0.0, law.sf(margin**2), n))) * rng.choice([-1.0, 1.0], n)
    rest = rng.standard_normal((n, dimension - 1))
    rest *= (np.sqrt(np.maximum(0.0, 1 - first**2)) / np.linalg.norm(rest, axis=1))[:, None]
    return LabelledVectors(np.column_stack([first, rest]), np.sign(first))


def padded(dataset: LabelledVectors, extra: int) -> LabelledVectors:
    """Return the records with `extra` zero features appended.

    Zero features change no non-private minimizer. JT14 use them to test whether a mechanism depends
    on the dimension.
    """
    zeros = np.zeros((len(dataset), extra))
    return LabelledVectors(np.column_stack([dataset.x, zeros]), dataset.y, dataset.multiplicity)


def _standardize_and_scale(x: FloatArray) -> FloatArray:
    """Standardize the columns, then scale all records so that the longest has norm 1."""
    standard = (x - x.mean(axis=0)) / x.std(axis=0)
    return np.asarray(standard / np.sqrt((standard**2).sum(axis=1).max()))


EPSILON = 0.2
FOLDS, RESTARTS, MANY = 5, 10, 500
METHODS = {
    "LR": "standard logistic regression",
    "A1 std": (
        "Algorithm 1, printed noise (Laplace length, 2/(n eps lambda) its standard deviation)"
    ),
    "A1 scale": "Algorithm 1, printed noise (Laplace length, 2/(n eps lambda) its scale)",
    "A1 gamma": "Algorithm 1, corrected noise (Gamma length)",
    "A2 std": "Algorithm 2, printed noise (Laplace length, 2/eps its standard deviation)",
    "A2 scale": "Algorithm 2, printed noise (Laplace length, 2/eps its scale)",
    "A2 gamma": "Algorithm 2, corrected noise (Gamma length)",
    "A2 corrected": (
        "Algorithm 2, corrected noise and budget (Chaudhuri, Monteleoni and Sarwate 2011)"
    ),
    "A1 unscaled": (
        "what if: Algorithm 1, printed std, with a normal vector as direction, not scaled to norm 1"
    ),
    "A2 unscaled": (
        "what if: Algorithm 2, printed std, with a normal vector as direction, not scaled to norm 1"
    ),
}
_NOISE_NAMES = {
    "std": "laplace_radius_std",
    "scale": "laplace_radius_scale",
    "gamma": "gamma",
    "corrected": "gamma",
}

# (mean, standard deviation) of the test error as printed in figure 2, in the order sensitivity
# method, new method, standard LR.
FIGURE_2 = {
    "margin 0.1": ((0.0924, 0.0522), (0.0259, 0.0149), (0.0, 0.0)),
    "margin 0.05": ((0.2842, 0.0283), (0.0687, 0.0202), (0.0, 0.0)),
    "Pima": ((0.4976, 0.0546), (0.4262, 0.0496), (0.3184, 0.0155)),
    "breast cancer": ((0.4569, 0.0655), (0.1900, 0.0554), (0.0755, 0.0381)),
}


@dataclass(frozen=True, slots=True)
class FigureRow:
    """Row of figure 2: one problem."""

    paper: str  # key of `FIGURE_2`
    regularization: float  # lambda, from section 6
    records: int  # number of training records in the paper, n in the caption of its table


PROBLEMS = {
    "margin 0.1": FigureRow("margin 0.1", 1e-2, 1000),
    "margin 0.05": FigureRow("margin 0.05", 1e-3, 1000),
    "Pima": FigureRow("Pima", 1e-6, 600),
    "Pima, unstandardized": FigureRow("Pima", 1e-6, 600),
    "breast cancer": FigureRow("breast cancer", 1e-6, 450),
    "breast cancer, unstandardized": FigureRow("breast cancer", 1e-6, 450),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """Test error of one method on one problem, over five folds.

    Parameters
    ----------
    mean, deviation : float
        Mean and standard deviation over folds of the mean over `RESTARTS` restarts, as in the
        paper.
    long_run : float
        Mean over the same folds and `MANY` restarts, which has a smaller error.
    epsilon : float
        True epsilon of the method at this n lambda, where the claim is 0.2; infinite for LR and for
        the printed noise.
    training, dimension : int
        Number of records in the smallest training set, and d.
    """

    mean: float
    deviation: float
    long_run: float
    epsilon: float
    training: int
    dimension: int


def stream(seed: int, *names: object) -> Generator:
    """Return the random generator of one part of an experiment, which depends only on the seed and
    the part's name.
    """
    return default_rng(
        SeedSequence(seed, spawn_key=tuple(zlib.crc32(str(name).encode()) for name in names))
    )


def problem_data(problem: str, seed: int) -> m.LabelledVectors:
    """Return the records of one problem.

    Raises
    ------
    MissingOptionalDependency
        If the package with the records is not installed.
    """
    if problem.startswith("margin"):
        return sphere_with_margin(
            1250, 20, float(problem.split()[1]), stream(seed, problem, "data")
        )
    if problem == "Pima":
        return pima()
    if problem == "breast cancer":
        return breast_cancer()
    return _unstandardized(problem)


def _unstandardized(problem: str) -> m.LabelledVectors:
    """Return the recorded columns, divided by the largest norm of a record: the minimal scaling
    that Algorithms 1 and 2 need.
    """
    if problem.startswith("Pima"):
        with PIMA.open(encoding="utf-8") as handle:
            rows = list(csv.DictReader(handle))
        x = np.array(
            [[float(value) for name, value in row.items() if name != "type"] for row in rows]
        )
        y = pima().y
    else:
        # raises MissingOptionalDependency, which names the package to install
        y = breast_cancer().y
        from sklearn.datasets import load_breast_cancer

        x = np.asarray(load_breast_cancer(return_X_y=True)[0])
    return m.LabelledVectors(x / np.sqrt((x**2).sum(axis=1).max()), y)


def cell(
    problem: str, method: str, seed: int, *, restarts: int = RESTARTS, many: int = MANY
) -> Cell:
    """Return the five-fold test error of one method on one problem."""
    case, data = PROBLEMS[problem], problem_data(problem, seed)
    folds = np.array_split(stream(seed, problem, "folds").permutation(len(data)), FOLDS)
    short_run, long_run, least = [], [], len(data)
    for i, test_fold in enumerate(folds):
        training_indices = np.setdiff1d(np.arange(len(data)), test_fold)
        training = m.LabelledVectors(data.x[training_indices], data.y[training_indices])
        least = min(least, training.n)
        weights = release(
            method,
            training,
            EPSILON,
            case.regularization,
            max(restarts, many),
            stream(seed, problem, method, i),
        )
        errors = ((weights @ data.x[test_fold].T) * data.y[test_fold] <= 0).mean(axis=1)
        short_run.append(errors[:restarts].mean())
        long_run.append(errors.mean())
    kept_epsilon = true_epsilon(method, EPSILON, case.regularization, least, data.dimension)
    return Cell(
        float(np.mean(short_run)),
        float(np.std(short_run, ddof=1)),
        float(np.mean(long_run)),
        kept_epsilon,
        least,
        data.dimension,
    )


def release(
    method: str,
    data: m.LabelledVectors,
    epsilon: float,
    regularization: float,
    size: int,
    rng: Generator,
) -> FloatArray:
    """Return `size` released weight vectors of one method; one vector for LR, which is
    deterministic.
    """
    problem = Problem.of(data, m.Loss("logistic"), data.n * regularization)
    if method == "LR":
        return minimise(problem).w[None, :]
    if method.endswith("unscaled"):
        # The standard deviation of a Laplace law of scale s is sqrt(2) s.
        length = rng.laplace(scale=math.sqrt(2) / epsilon, size=(size, 1))
        noise = length * rng.standard_normal((size, data.dimension))
        if method.startswith("A1"):
            return np.asarray(minimise(problem).w + noise / (data.n * regularization))
        return minimize_perturbed_risk(problem, noise)
    return _mechanism(method, epsilon, regularization).sample(data, size, rng)


def true_epsilon(
    method: str, epsilon: float, regularization: float, records: int, dimension: int
) -> float:
    """Return the true epsilon of a method over all datasets with this n lambda; infinite without
    privacy.
    """
    if method == "LR" or method.endswith("unscaled"):
        return math.inf
    truth = _mechanism(method, epsilon, regularization, records, dimension).truth
    assert truth is not None  # d >= 2
    return truth.parameter


def _mechanism(
    method: str, epsilon: float, regularization: float, records: int = 1, dimension: int = 2
) -> m.LogisticOutputPerturbation | m.LogisticObjectivePerturbation:
    algorithm, kind = method.split()
    if algorithm == "A1":
        return m.LogisticOutputPerturbation(
            epsilon, regularization, _NOISE_NAMES[kind], dimension=dimension, records=records
        )
    corrected = kind == "corrected"
    return m.LogisticObjectivePerturbation(
        epsilon,
        regularization,
        _NOISE_NAMES[kind],
        corrected=corrected,
        dimension=dimension,
        records=records,
    )


CURVE_METHODS = ("LR", "A1 std", "A1 gamma", "A2 std", "A2 gamma")
CURVE_DIMENSION, CURVE_GAMMA = 10, 1e-3


def curve_point(
    method: str, records: int, seed: int, *, datasets: int = 30, restarts: int = 200
) -> float:
    """Return the mean test error on D_10(0.001) after training on `records` records (section 3.1,
    figure 1), with lambda = gamma^2.
    """
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * CURVE_DIMENSION)).reshape(CURVE_DIMENSION, -1).T
    scale = np.full(CURVE_DIMENSION, math.sqrt((1 - CURVE_GAMMA**2) / (CURVE_DIMENSION - 1)))
    scale[0] = CURVE_GAMMA
    # The test error is exact: D_d(gamma) has 2^d equally likely points.
    points = signs * scale * signs[:, :1]
    errors = []
    for i in range(datasets):
        training = hypercube(
            records, CURVE_DIMENSION, CURVE_GAMMA, stream(seed, "curve data", records, i)
        )
        weights = release(
            method,
            training,
            EPSILON,
            CURVE_GAMMA**2,
            restarts,
            stream(seed, "curve", method, records, i),
        )
        margins = weights @ points.T
        errors.append(((margins < 0) + 0.5 * (margins == 0)).mean())
    return float(np.mean(errors))


def curve_floor(records: int, seed: int, draws: int = 400_000) -> float:
    """Return a lower bound on Algorithm 2's expected test error, for any solver, with the printed
    noise and its standard deviation.

    The data move w_1 up by at most gamma, and the noise moves w_1 down by b_1/n. If b_1 > n gamma,
    the released w_1 is negative, and the error is at least 1/2, because the other coordinates are
    symmetric. So the expected error is at least P(b_1 > n gamma)/2, which is simulated.
    """
    rng = stream(seed, "floor", records)
    direction = rng.standard_normal((draws, CURVE_DIMENSION))
    length = rng.exponential(math.sqrt(2) / EPSILON, draws)
    first = length * direction[:, 0] / np.linalg.norm(direction, axis=1)
    return float(np.mean(first > records * CURVE_GAMMA) / 2)


def available(problem: str) -> str | None:
    """Return None if the data of a problem are installed, otherwise the message on what
    is missing.
    """
    try:
        problem_data(problem, 0)
    except MissingOptionalDependency as missing:
        return str(missing)
    return None
