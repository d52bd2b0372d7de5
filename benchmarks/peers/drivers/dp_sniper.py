"""Driver of DP-Sniper: DD-Search on a given pair, with the classifiers of the tool.

Documentation: README of DP-Sniper, ``dpsniper/example.py`` and
``dpsniper/experiments/exp_default.py``.
"""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import torch
from dpsniper.attack.dpsniper import DPSniper
from dpsniper.classifiers.classifier_factory import (
    LogisticRegressionFactory,
    MultiLayerPerceptronFactory,
)
from dpsniper.classifiers.feature_transformer import FlagsFeatureTransformer
from dpsniper.classifiers.torch_optimizer_factory import AdamOptimizerFactory, SGDOptimizerFactory
from dpsniper.mechanisms.abstract import Mechanism
from dpsniper.probability.estimators import EpsEstimator, PrEstimator
from dpsniper.search.ddconfig import DDConfig
from dpsniper.search.ddwitness import DDWitness
from dpsniper.utils.paths import set_output_directory

from dpwitness.benchmarks.peers.drivers.task import Answer, NotExpressible, Task

# value of an answer that the sparse vector technique does not give; the tool's experiments flag it
_SENTINELS = [-1.0]


class Sampler(Mechanism):
    """Mechanism in the tool's form."""

    def __init__(self, task: Task) -> None:
        self.task, self.rng = task, task.generator()

    def m(self, a: Any, n_samples: int = 1) -> Any:
        """Return outputs, (n,) or (n, d), on the dataset with the number ``a[0]``."""
        outputs = self.task.draw(int(a[0]), n_samples, self.rng)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs


def attack(task: Task) -> Answer:
    """Return the lower confidence bound of the tool, for the better order of the two datasets by
    its own estimate.

    The default settings are those of the tool's example. The best settings are the neural network
    of its experiments, equal numbers of runs to train and to choose the threshold, and five times
    as many for the final bound.
    """
    if task.delta:
        raise NotExpressible("the tool tests pure differential privacy only")
    np.random.seed(task.seed)
    torch.manual_seed(task.seed)
    torch.set_num_threads(1)
    config = _sizes(task) if task.best else DDConfig(n_processes=1)
    mechanism, witnesses = Sampler(task), []
    with tempfile.TemporaryDirectory() as folder:
        set_output_directory(folder)
        for order in ((0, 1), (1, 0)):
            inputs = [np.array([side]) for side in order]
            witness = DDWitness(
                *inputs, DPSniper(mechanism, _classifier(task), config).best_attack(*inputs)
            )
            witness.compute_eps_using_estimator(
                EpsEstimator(PrEstimator(mechanism, config.n_check, config))
            )
            witnesses.append(witness)
        best = max(witnesses, key=lambda witness: witness.eps)
        best.compute_eps_using_estimator(
            EpsEstimator(PrEstimator(mechanism, config.n_final, config))
        )
    return Answer(
        best.lower_bound > task.epsilon, best.lower_bound, f"{config.n_final} runs for the bound"
    )


def _sizes(task: Task) -> DDConfig:
    step = 1000 if task.size >= 10_000 else 200  # the tool needs multiples of 1,000 from 10,000 on
    size = max(task.size // step, 1) * step
    return DDConfig(
        n_train=size,
        n=size,
        n_check=size,
        n_final=5 * size,
        n_processes=1,
        confidence=task.confidence,
    )


def _classifier(task: Task) -> Any:
    outputs = task.draw(0, 100, np.random.default_rng(0))
    flags = (
        FlagsFeatureTransformer(_SENTINELS)
        if outputs.shape[1] > 1 and np.isin(outputs, _SENTINELS).any()
        else None
    )
    options = {"in_dimensions": outputs.shape[1] * (2 if flags else 1), "feature_transform": flags}
    if not task.best:
        return LogisticRegressionFactory(optimizer_factory=SGDOptimizerFactory(), **options)
    adam = AdamOptimizerFactory(learning_rate=0.1, step_size=500)
    network = {"hidden_sizes": (10, 5), "regularization_weight": 0.0001, "epochs": 10}
    return MultiLayerPerceptronFactory(optimizer_factory=adam, **network, **options)
