"""Speed of the reference mechanisms on one core, through the public classes: runs per second of processor time.

Rates depend on the machine. Ratios compare two measurements of one run: output perturbation with its noise alone, objective perturbation
with the fit of a library's logistic regression, the memory of a chunk with its outputs.
"""

from __future__ import annotations

import tracemalloc
import warnings
from importlib import import_module
from typing import Any

import numpy as np
from numpy.random import default_rng
from threadpoolctl import threadpool_limits

from dpwitness import mechanisms as m
from dpwitness.bench.table import Row, Table, best_time
from dpwitness.mechanisms.numerics.noise import SphericalNoise
from dpwitness.mechanisms.papers.generators import MissingDependency, breast_cancer

SEED = 20080101


def measure() -> Table:
    """All rows. Half a minute, the first time longer by the compilation."""
    notes: list[str] = []
    library = _library(notes)  # before the threads are held: only those of loaded libraries are
    with threadpool_limits(1):
        rows = _objective_perturbation(notes)
        if library is not None:
            rows.append(_against_a_library(*library, notes))
        rows.append(_against_noise())
        rows += [Row(case, required, _rate(mechanism, data, size), "runs/s") for case, required, size, mechanism, data in _interactive()]
    return Table("mechanisms", (*rows, *_memory()), tuple(notes))


def _objective_perturbation(notes: list[str]) -> list[Row]:
    rows = []
    for n, d, required, size in ((1, 1, 4e6, 1_000_000), (20, 2, 8e5, 200_000), (100, 2, 2.5e5, 100_000), (100, 5, 1.2e5, 100_000)):
        mechanism, data = _objective(n, d)
        rows.append(Row(f"objective perturbation n={n} d={d}", required, _rate(mechanism, data, size), "runs/s"))
    try:
        cancer = breast_cancer()
    except MissingDependency as missing:
        notes.append(f"breast cancer not measured: {missing}")
        return rows
    for lam, required, size in ((0.1, 3e4, 20_000), (0.01, 1.4e4, 10_000), (1e-4, 1.5e3, 3_000)):
        mechanism = m.LogisticObjectivePerturbation(1.0, lam)
        rows.append(Row(f"objective perturbation breast cancer lambda={lam:g}", required, _rate(mechanism, cancer, size), "runs/s"))
    return rows


def _ball(n: int, d: int, seed: int) -> m.LabelledVectors:
    """Records uniform in the unit ball, labels by the sign of x_1 with a tenth turned over."""
    rng = default_rng(seed)
    x = rng.standard_normal((n, d))
    x *= (rng.uniform(size=(n, 1)) ** (1 / d)) / np.linalg.norm(x, axis=1, keepdims=True)
    y = np.where(rng.uniform(size=n) < 0.1, -1.0, 1.0) * np.where(x[:, 0] >= 0, 1.0, -1.0)
    return m.LabelledVectors(x, y)


def _objective(n: int, d: int) -> tuple[m.LogisticObjectivePerturbation, m.LabelledVectors]:
    """Objective perturbation at epsilon = 1 and n lambda = 1, on n records of d features."""
    return m.LogisticObjectivePerturbation(1.0, 1.0 / n), _ball(n, d, SEED)


def _rate(mechanism: Any, data: Any, size: int) -> float:
    """Runs per second in a chunk of `size` runs, the chunk's one fit of the non-private minimiser included."""
    rng = default_rng(SEED)
    return size / best_time(lambda: mechanism.sample(data, size, rng))


def _against_noise() -> Row:
    """Output perturbation adds its noise in place, so that it costs little more than the noise."""
    data, size = _ball(200, 10, SEED), 100_000
    mechanism = m.LogisticOutputPerturbation(1.0, 0.01, noise="gamma")
    noise, rng = SphericalNoise("gamma", 1.0, 10), default_rng(SEED)
    alone = best_time(lambda: noise.sample(size, rng))
    whole = best_time(lambda: mechanism.sample(data, size, rng))
    return Row("output perturbation gamma d=10, speed against its noise alone", 0.5, alone / whole, "ratio")


def _library(notes: list[str]) -> tuple[str, Any] | None:
    """A name and a model with `fit`: diffprivlib's logistic regression, otherwise scikit-learn's."""
    try:
        private = import_module("diffprivlib.models").LogisticRegression
        return "diffprivlib", private(epsilon=1.0, data_norm=1.0, C=1.0, fit_intercept=False)
    except ImportError:
        pass
    try:
        plain = import_module("sklearn.linear_model").LogisticRegression
    except ImportError:
        notes.append("no library to compare with: neither diffprivlib nor scikit-learn is installed")
        return None
    notes.append("diffprivlib is not installed: the fit of scikit-learn's LogisticRegression, which adds no noise, stands in for its own")
    return "scikit-learn", plain(C=1.0, fit_intercept=False)


def _against_a_library(name: str, model: Any, notes: list[str]) -> Row:
    """Runs of objective perturbation in the time of one fit."""
    mechanism, data = _objective(100, 2)
    ours = 1.0 / _rate(mechanism, data, 100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = best_time(lambda: model.fit(data.x, data.y), repeats=50)
    notes.append(
        f"one {name} fit takes {1e3 * theirs:.3g} ms on one thread, one run of the mechanism {1e6 * ours:.3g} us; the bar of 3,000 "
        "was set against a fit of 22 ms; with linear-algebra threads competing for busy cores a fit takes tens of ms"
    )
    return Row(f"objective perturbation n=100 d=2, speed against {name}", 3000.0, theirs / ours, "ratio")


def _interactive() -> list[tuple[str, float, int, Any, Any]]:
    data, points = _ball(200, 3, SEED), _ball(100, 3, SEED + 1).x
    learner = m.KernelLearner(m.Loss("logistic"), 0.01, 3, 200, kernel=m.Kernel("rbf"))
    # epsilon so large that some answers are updates: B = 15.
    prediction = m.PrivateInteractivePrediction(learner, 3e7, 1e-6, 0.1, 1.0, test_points=points)
    transfer = m.TestDataDependentLearner(learner, 1.0, 1e-6, points)
    leader = m.PrivateFTRL(1.0, 1e-5, 1.0, 10, 1000)
    simplex = m.SimplexSampling(1.0, 40.0, m.Loss("linear"), 1000, 20, draws=400)
    return [
        ("PINP T=100 n=200 RBF", 1e4, 20_000, prediction, data),
        ("TDDL T=100", 2e4, 50_000, transfer, data),
        ("FTRL T=1000 p=10", 2e4, 5_000, leader, leader.worst_pair().d0),
        ("simplex sampling m=400 p=1000", 1e5, 5_000, simplex, simplex.worst_pair().d0),
    ]


def _memory() -> list[Row]:
    """Bytes that a run more in a chunk costs at the peak, over the bytes of its output row. Seen by tracemalloc, which numpy reports to."""
    objective, data = _objective(100, 5)
    cases = [
        ("output perturbation d=5", m.LogisticOutputPerturbation(1.0, 0.01), data),
        ("objective perturbation n=100 d=5", objective, data),
        *((case, mechanism, dataset) for case, _, _, mechanism, dataset in _interactive()),
    ]
    return [Row(f"memory a run over its output, {case}", 1.1, _memory_ratio(x, data), "ratio", at_most=True) for case, x, data in cases]


def _memory_ratio(mechanism: Any, data: Any) -> float:
    rng = default_rng(SEED)
    peaks, outputs = [], []
    for size in (4_000, 12_000):
        mechanism.sample(data, 2, rng)
        tracemalloc.start()
        outputs.append(mechanism.sample(data, size, rng).nbytes)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return float((peaks[1] - peaks[0]) / (outputs[1] - outputs[0]))
