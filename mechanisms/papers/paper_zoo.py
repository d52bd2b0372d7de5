"""Zoo of the papers' algorithms, printed and repaired, audited by the suite `papers`.

Each algorithm comes with the pairs on which its privacy is worst. The parameters are those of the
ledger's witnesses, or small ones of the same kind if those are too expensive to run often.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpwitness.mechanisms.data.datasets import LabelledVectors
from dpwitness.mechanisms.data.pairs import Pair
from dpwitness.mechanisms.numerics.losses import Loss
from dpwitness.mechanisms.papers.aggregation import MirrorAveraging
from dpwitness.mechanisms.papers.convex import ConvexObjectivePerturbation, QuadraticPenalty
from dpwitness.mechanisms.papers.ftrl import PrivateFTRL
from dpwitness.mechanisms.papers.glm import GLMObjectivePerturbation, GLMOutputPerturbation
from dpwitness.mechanisms.papers.independent import TestDataIndependentLearner
from dpwitness.mechanisms.papers.interactive import PrivateInteractivePrediction, hold_gap
from dpwitness.mechanisms.papers.learner import KernelLearner
from dpwitness.mechanisms.papers.logistic import NOISES, LogisticObjectivePerturbation, LogisticOutputPerturbation
from dpwitness.mechanisms.papers.ridge import PrivateRidge
from dpwitness.mechanisms.papers.simplex import SimplexSampling
from dpwitness.mechanisms.papers.transfer import TestDataDependentLearner


@dataclass(frozen=True, slots=True)
class PaperSpecimen:
    """An algorithm of a paper at fixed parameters, with its worst pairs."""

    mechanism: Any  # the algorithm
    pairs: tuple[Pair, ...]  # pairs on which the privacy of the algorithm is worst
    # whether an audit of the suite's size reaches the verdict that the truth implies. False if a violation is so small, so rare
    # or so far from these parameters that black-box runs do not detect it.
    settled: bool = True
    trials: int | None = None  # number of runs, if the suite's number is too many for the cost of a run


def _with_worst_pair(mechanism: Any, *, settled: bool = True, trials: int | None = None) -> PaperSpecimen:
    """Return the specimen of a mechanism with its own worst pair."""
    return PaperSpecimen(mechanism, (mechanism.worst_pair(),), settled, trials)


def _logistic() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield names and specimens of logistic regression with output and objective perturbation."""
    for noise in NOISES:
        for d in (1, 2):
            short = noise.replace("laplace_radius", "laplace").replace("_", "-")
            output = LogisticOutputPerturbation(1.0, 0.1, noise=noise, dimension=d, records=100)
            yield f"logistic-output-{short}-d{d}", _with_worst_pair(output)
            objective = LogisticObjectivePerturbation(1.0, 0.1, noise=noise, dimension=d, records=1)
            yield f"logistic-objective-{short}-d{d}", _with_worst_pair(objective, settled=noise != "gamma")
    corrected = LogisticObjectivePerturbation(1.0, 0.1, corrected=True, records=1)
    yield "logistic-objective-corrected", _with_worst_pair(corrected)
    clipped = LogisticOutputPerturbation(1.0, 0.1, clip=True, records=2)
    inside, outside = (LabelledVectors([[0.5, 0.0], [coordinate, 0.0]], [1.0, -1.0]) for coordinate in (-1.0, 30.0))
    yield "logistic-output-clipped", PaperSpecimen(clipped, (Pair(inside, outside, "replace-one", "a record of norm 30"),))


def _convex() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield names and specimens of convex objective perturbation."""
    linear, smooth = Loss("linear"), Loss("log-cosh", width=0.1)
    for noise in ("laplace_radius_std", "laplace_radius_scale", "gamma"):
        short = noise.replace("laplace_radius", "laplace").replace("_", "-")
        one = ConvexObjectivePerturbation(1.0, 1.0, linear, QuadraticPenalty(1.0), noise=noise)
        yield f"convex-linear-{short}-d1", _with_worst_pair(one)
    printed = ConvexObjectivePerturbation(1.0, 1.0, linear, QuadraticPenalty(1.0), dimension=2)
    yield "convex-linear-laplace-std-d2", _with_worst_pair(printed)
    curved = ConvexObjectivePerturbation(1.0, 1.0, smooth, QuadraticPenalty(0.1), noise="gamma", dimension=2)
    yield "convex-log-cosh-gamma-d2", _with_worst_pair(curved)


def _glm() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield names and specimens of generalized linear models."""
    linear, logistic, huber = Loss("linear"), Loss("logistic"), Loss("huber")
    common: dict[str, Any] = {"epsilon": 1.0, "regularization": 1.0, "loss": linear}
    yield "glm-output-gamma", _with_worst_pair(GLMOutputPerturbation(**common))
    yield "glm-output-laplace", _with_worst_pair(GLMOutputPerturbation(**common, noise="laplace_radius"))
    yield "glm-output-gaussian", _with_worst_pair(GLMOutputPerturbation(**common, noise="gaussian", delta=1e-3))
    yield "glm-output-logistic", _with_worst_pair(GLMOutputPerturbation(**{**common, "loss": logistic}))
    for repaired in (False, True):
        form = "repaired" if repaired else "printed"
        for loss in (logistic, huber):
            # Enough records for the many common records of W4; their number does not matter for the Huber loss.
            mechanism = GLMObjectivePerturbation(loss=loss, epsilon=1.0, repaired=repaired, records=10**6 if loss is logistic else 1)
            yield f"glm-objective-{loss.name}-gamma-{form}", _with_worst_pair(mechanism, settled=repaired)
        gamma = GLMObjectivePerturbation(**common, repaired=repaired)
        yield f"glm-objective-linear-gamma-{form}", _with_worst_pair(gamma)
        gaussian = GLMObjectivePerturbation(**common, noise="gaussian", delta=1e-3, repaired=repaired)
        yield f"glm-objective-linear-gaussian-{form}", _with_worst_pair(gaussian)


def _interactive() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield names and specimens of private interactive prediction."""
    kernel_learner = KernelLearner(Loss("absolute"), 1.0, 1, 10**6, label_bound=10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mechanisms warn that the claim can fail, which is the reason to include them
        tiny = PrivateInteractivePrediction(kernel_learner, 1.0, 1e-6, 0.1, 2.73e-5, test_points=np.array([[1.0]]))
        halved = PrivateInteractivePrediction(kernel_learner, 1.0, 1e-6, 0.1, 2.73e-5, test_points=np.array([[1.0]]), constants="theorem9")
    yield "interactive-printed", PaperSpecimen(tiny, (tiny.worst_pair(26),))
    yield "interactive-theorem9", PaperSpecimen(halved, (halved.worst_pair(52),))
    large_learner = KernelLearner(Loss("absolute"), 1.0, 1, 10**7, label_bound=10.0)
    points = np.linspace(-1.0, 1.0, 10)[:, None]
    repaired = PrivateInteractivePrediction(large_learner, 1.0, 1e-6, 0.05, 0.02, test_points=points, constants="repaired")
    yield "interactive-repaired", PaperSpecimen(repaired, (repaired.worst_pair(),))
    yield "interactive-held-at-threshold", _held_at_threshold()


def _held_at_threshold() -> PaperSpecimen:
    """Return the specimen of witness W7, on which the test points keep each answer at the threshold.

    Bottoms then leak, and no budget is spent on bottoms.
    """
    kernel_learner = KernelLearner(Loss("absolute"), 1.0, 2, 10**6, label_bound=10.0)
    delta, rounds = 1e-6, 60
    epsilon = 0.3 * 100 * 2 * math.log(4 / delta)
    spread = math.sqrt(2 * math.log(2 * rounds / 0.1))
    bound = math.sqrt(4 * 200 * spread * math.log(4 / delta) / (10**6 * epsilon)) * (1 - 1e-12)  # B = 4, and not larger by a rounding error
    probe = PrivateInteractivePrediction(kernel_learner, epsilon, delta, 0.1, bound, test_points=np.zeros((rounds, 2)))
    x, copies = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [900_000, 1, 99_999]
    d0, d1 = (LabelledVectors(x, [10.0, y, 0.0], copies) for y in (-10.0, 10.0))
    rule = hold_gap(tuple(kernel_learner.fit(d0).centers[0]), probe.threshold)
    game = PrivateInteractivePrediction(kernel_learner, epsilon, delta, 0.1, bound, rule=rule, horizon=rounds)
    return PaperSpecimen(game, (Pair(d0, d1, "replace-one", "W7: answers held at the threshold"),), trials=5_000)


def _learners() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield names and specimens of the learners with and without test data."""
    kernel_learner = KernelLearner(Loss("absolute"), 4.0, 1, 10, label_bound=100.0)
    for constant in (1.0, 4.0):
        for rounds in (1, 10):
            dependent = TestDataDependentLearner(kernel_learner, 1.0, 1e-3, np.ones((rounds, 1)), constant=constant)
            yield f"transfer-answers-c{constant:g}-T{rounds}", _with_worst_pair(dependent)
    weights = TestDataDependentLearner(kernel_learner, 1.0, 1e-3, np.ones((10, 1)), release="weights")
    yield "transfer-weights", _with_worst_pair(weights)
    small_learner = KernelLearner(Loss("absolute"), 1.0, 1, 5000, label_bound=10.0)  # three rounds
    for units in ("printed", "repaired"):
        full = TestDataIndependentLearner(small_learner, 1.0, 1e-6, 0.1, units=units)
        yield f"independent-full-{units}", _with_worst_pair(full, trials=50_000)
        outputs = TestDataIndependentLearner(small_learner, 1.0, 1e-6, 0.1, units=units, sampler="mixture", release="outputs")
        yield f"independent-outputs-{units}", _with_worst_pair(outputs, trials=50_000)
    plane_learner = KernelLearner(Loss("absolute"), 1000.0, 2, 10**6, label_bound=10.0)
    yield (
        "independent-weights-printed",
        _with_worst_pair(TestDataIndependentLearner(plane_learner, 1.0, 1e-6, 0.05, release="weights"), trials=20_000),
    )


def _linear_models() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield names and specimens of private ridge regression and mirror averaging."""
    for form in ("printed", "repaired"):
        for p in (1, 2):
            ridge = PrivateRidge(1.0, 0.1, 1.0, 1.0, p, 60, form=form)
            pairs = (ridge.worst_pair("tail"), ridge.worst_pair("bulk"))
            yield f"ridge-{form}-p{p}", PaperSpecimen(ridge, pairs, settled=form == "repaired", trials=100_000)
        ridge = PrivateRidge(1.0, 0.1, 1.0, 1.0, 2, 60, form=form)
        public = np.array([[0.6, 0.2], [-0.3, 0.8], [0.1, -0.5]])
        for release in ("aggregate", "full"):
            protocol = MirrorAveraging(ridge, 2, public, public @ [0.5, -0.2], 8.0, release=release)
            pairs = (protocol.worst_pair("tail"), protocol.worst_pair("bulk"))
            yield f"aggregation-{release}-{form}", PaperSpecimen(protocol, pairs, settled=form == "repaired", trials=50_000)


def _simplex() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield names and specimens of sampling over the simplex."""
    linear = Loss("linear")
    yield "simplex-pure", _with_worst_pair(SimplexSampling(1.0, 40.0, linear, 2, 1))
    lam = 20 * 32 * math.log(1e5) * (1 + 1e-12)  # m = 400 as printed
    unitless = SimplexSampling(1.0, lam, linear, 2, 1, label_bound=100.0, delta=1e-5, draws="approximate")
    yield "simplex-approximate", _with_worst_pair(unitless)
    repaired = SimplexSampling(1.0, lam * 100, linear, 2, 1, label_bound=100.0, delta=1e-5, draws="approximate_repaired")
    yield "simplex-approximate-repaired", _with_worst_pair(repaired)
    yield "simplex-huber", _with_worst_pair(SimplexSampling(10.0, 100.0, Loss("huber"), 3, 20))


def _ftrl() -> Iterator[tuple[str, PaperSpecimen]]:
    """Yield names and specimens of follow-the-regularized-leader."""
    for rule in ("printed", "with_log_p"):
        game = PrivateFTRL(8.0, 0.01, 1.0, 2, 13, lambda_rule=rule)
        yield f"ftrl-{rule.replace('_', '-')}", PaperSpecimen(game, (game.worst_pair(), game.worst_pair(-4.0)))


@lru_cache(maxsize=1)
def _specimens() -> tuple[tuple[str, PaperSpecimen], ...]:
    """Return the names and specimens of all mechanisms."""
    parts = (_logistic, _convex, _glm, _interactive, _learners, _linear_models, _simplex, _ftrl)
    return tuple(entry for part in parts for entry in part())


def paper_zoo() -> dict[str, PaperSpecimen]:
    """Return every specimen by name.

    Examples
    --------
    >>> [name for name in paper_zoo() if name.startswith("ftrl")]
    ['ftrl-printed', 'ftrl-with-log-p']
    """
    return dict(_specimens())
