"""Driver of Delta-Siege: its search on a given pair, with one trial.

Documentation: README of Delta-Siege, "Minimal Working Example for Auditing New DP Mechanisms".
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.benchmarks.peers.drivers.task import leave_out

# Libraries of the example mechanisms.
leave_out(
    "diffprivlib.mechanisms",
    "opendp.mod",
    "opendp.measurements",
    "opendp.combinators",
    "pydp.algorithms.numerical_mechanisms",
)
leave_out("mbi", "mst", "aim", "cdp2adp", "autodp", "dpopt.probability.estimators")
leave_out("dpopt.optimizer.optimizer_generator", "dpopt.optimizer.optimizers")

from deltasiege import DeltaSiege
from deltasiege.attack import LinesearchEstimator, WitnessOptimization
from deltasiege.classifiers import BitPatternFeatureTransformer, SklearnClassifier
from deltasiege.ddsampler import SimpleSampler
from deltasiege.logging import Logger
from deltasiege.mechanism import Mechanism
from deltasiege.utils import Config
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from dpwitness.benchmarks.peers.drivers.task import Answer, NotExpressible, Recorded, Task
from dpwitness.mechanisms.textbook.additive import epsilon_of_shift, shift_over_sigma

_DELTAS = 100


class Sampled(Mechanism):
    """Mechanism in the tool's form: inputs are the numbers of the datasets, and rho is the
    guarantee of the noise that the claim allows.

    For a pure claim rho is 1 / epsilon, as in the tool's Laplace mechanism; for an approximate
    claim, the smallest standard deviation of Gaussian noise with sensitivity 1.
    """

    task: Task  # set before the search

    def _init_helper(self, epsilon: float, delta: float) -> None:
        self.rng = self.task.generator()
        super()._init_helper(epsilon, delta)

    def __call__(self, x: Any, n: int) -> Any:
        outputs = self.task.draw(int(x), n, self.rng)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def constraint(self, epsilon: float, delta: float) -> bool:
        """Return whether the pair is on the curve of claims."""
        return epsilon > 0 and (delta == 0 if self.task.delta == 0 else 0 < delta < 1)

    def guarantee_(self, epsilon: float, delta: float) -> float:
        """Return rho, which falls with epsilon and delta."""
        if epsilon <= 0:
            return float("inf")
        if self.task.delta == 0:
            return 1 / epsilon if delta == 0 else float("inf")
        return (
            1 / shift_over_sigma(epsilon, delta)
            if 0 < delta < 1 and np.isfinite(epsilon)
            else float("inf")
        )

    def perturb_delta(self, new_delta: float, a: float = 0.0, b: float = 10.0) -> float | None:
        """Return epsilon at another delta with the same rho; None if there is none."""
        if self.task.delta == 0:
            return self.epsilon if new_delta == 0 else None
        return float(epsilon_of_shift(1 / self.g0, new_delta, 50)) if 0 < new_delta < 1 else None


def attack(task: Task) -> Answer:
    """Return whether the tool's confident ratio of rho is below 1, and the epsilon at the claimed
    delta that belongs to this ratio.

    The default settings are those of the minimal example: bit patterns and logistic regression. The
    best settings are gradient boosting on the outputs, or the bit patterns of the example if the
    fault is in low bits, one trial, and sizes that fit the budget.
    """
    dimensions = task.draw(0, 1, np.random.default_rng(0)).shape[1]
    if not task.best and dimensions > 1:
        raise NotExpressible("the bit patterns of the example read one number")
    Sampled.task = task
    size = task.size
    sizes = {
        "n_train": size,
        "n_init": size,
        "n_check": size,
        "n_final": 5 * size,  # five times the runs of each step before, as in the tool's defaults
        "batch_size": size,
        "confidence": task.confidence,
    }
    config = Config(n_jobs=1, n_experiments=1, seed=task.seed, **(sizes if task.best else {}))
    classifier = [("boosting", HistGradientBoostingClassifier(random_state=task.seed))]
    if not task.best or (task.bits and dimensions == 1):
        classifier = [
            ("bit_transformer", BitPatternFeatureTransformer()),
            ("log_reg", LogisticRegression()),
        ]
    with tempfile.TemporaryDirectory() as folder:  # the tool fails without one
        ratio = _search(task, config, Pipeline(classifier), Path(folder))
    return Answer(ratio < 1, _epsilon(task, ratio), f"{config.n_final} runs for the bound")


def _search(task: Task, config: Config, classifier: Pipeline, folder: Path) -> float:
    """Return the tool's confident ratio of rho for its better witness."""
    search = DeltaSiege(
        config=config,
        search_space=SimpleSampler(
            Sampled, [(0, 1)], epsilon=(task.epsilon, task.epsilon), delta=(task.delta, task.delta)
        ),
        classifier_factories=SklearnClassifier.get_factory(classifier=classifier),
        witnesses_factories=WitnessOptimization.get_factory(
            estimator=LinesearchEstimator(delta_steps=_deltas(task))
        ),
        logger=Logger(Logger.State.SILENT),
        base_folder=folder,
    )
    trial = search.run("run").experiments[0].trials[0]
    return float(trial.witnesses[trial.best_witness_idx].estimate_c)


def _deltas(task: Task) -> Any:
    """Return the deltas at which the tool evaluates rho: its default, or fewer, because rho of
    Gaussian noise has no closed form.

    The claim of a library is one point: at other deltas, its noise may lose more than Gaussian
    noise with this claim.
    """
    if isinstance(task.mechanism, Recorded):
        return np.array([task.delta])
    return (
        np.concatenate([[0.0, task.delta], np.geomspace(1e-9, 1, _DELTAS)]) if task.best else None
    )


def _epsilon(task: Task, ratio: float) -> float:
    """Return the epsilon at the claimed delta whose rho is the ratio times that of the claim."""
    if task.delta == 0:
        return task.epsilon / ratio if ratio > 0 else float("inf")
    if not np.isfinite(ratio) or ratio <= 0:
        return 0.0
    return float(
        epsilon_of_shift(shift_over_sigma(task.epsilon, task.delta) / ratio, task.delta, 50)
    )
