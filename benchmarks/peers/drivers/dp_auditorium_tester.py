"""Driver of DP-Auditorium: its test runner with a constant pair of datasets.

Documentation: README of DP-Auditorium and ``examples/run_mean_mechanism_example.py``. The tool
tests (epsilon, delta) by a bound on delta.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from dpwitness.benchmarks.peers.drivers.task import leave_out

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
leave_out(
    "vizier.service.clients",
    "vizier.service.pyvizier",
    "vizier.pyvizier",
    "vizier.algorithms",
    "pipeline_dp",
    "pydp",
)  # search of datasets

from dp_auditorium import privacy_test_runner
from dp_auditorium.configs import (
    privacy_property,
    privacy_test_runner_config,
    property_tester_config,
)
from dp_auditorium.testers import hockey_stick_tester

from dpwitness.benchmarks.peers.drivers.task import Answer, Outputs, Task

_EXAMPLE_SIZE = 10_000
_LARGE_BATCH = 1_000


def attack(task: Task) -> Answer:
    """Return whether the tool finds a violation, and with the best settings the bound on epsilon
    that its bound on delta implies.

    The default settings are those of the tool's example on the given pair: the hockey-stick tester
    with its default network and training, 10,000 runs, and the hyperbolic tangent of outputs. The
    best settings train five epochs in larger batches, and standardize outputs. Without a violation
    there is no bound: a test of a smaller epsilon takes as much time again, most of it to compile
    the network.
    """
    tf.keras.utils.set_random_seed(task.seed)
    rng = task.generator()
    if not task.best:
        found, _ = _test(task, rng, task.epsilon, np.zeros(1), np.ones(1))
        return Answer(found, None, f"{2 * _EXAMPLE_SIZE} runs")
    reference = np.vstack([task.draw(side, 1000, rng) for side in (0, 1)])
    center, spread = np.median(reference, axis=0), np.maximum(reference.std(axis=0), 1e-9)
    violated, bound = _test(task, rng, task.epsilon, center, spread)
    return Answer(violated, bound if violated else None, f"{2 * task.size} runs")


def _test(
    task: Task, rng: np.random.Generator, epsilon: float, center: Outputs, spread: Outputs
) -> tuple[bool, float]:
    """Return whether the test runner rejects (epsilon, delta), and the smallest epsilon at the
    claimed delta with its bound on delta.
    """
    training = hockey_stick_tester.make_default_hs_training_config()
    claim = privacy_property.ApproximateDp(epsilon=epsilon, delta=task.delta)
    config = property_tester_config.HockeyStickPropertyTesterConfig(
        training_config=training, approximate_dp=claim
    )
    if task.best:
        training.training_epochs, training.batch_size, config.evaluation_batch_size = (
            5,
            _LARGE_BATCH,
            10 * _LARGE_BATCH,
        )
    processing = privacy_test_runner_config.PostProcessing
    runner = privacy_test_runner.PrivacyTestRunner(
        config=privacy_test_runner_config.PrivacyTestRunnerConfig(
            property_tester=privacy_test_runner_config.PropertyTester.HOCKEY_STICK_TESTER,
            max_num_trials=1,
            failure_probability=1 - task.confidence if task.best else 0.05,
            num_samples=task.size if task.best else _EXAMPLE_SIZE,
            post_processing=processing.NONE if task.best else processing.TANH,
        ),
        dataset_generator=lambda divergence: (0, 1),
        property_tester=hockey_stick_tester.HockeyStickPropertyTester(
            config, hockey_stick_tester.make_default_hs_base_model()
        ),
    )

    def mechanism(side: int, num_samples: int) -> Any:
        return ((task.draw(side, num_samples, rng) - center) / spread).astype(np.float32)

    result = runner.test_privacy(mechanism, "mechanism")
    lower = max(result.lower_bound_divergence_estimates)
    # (E, delta)-DP implies delta(epsilon) <= 1 - (1 - delta) (1 + e^epsilon) / (1 + e^E).
    implied = (
        math.log(max((1 - task.delta) * (1 + math.exp(epsilon)) / (1 - lower) - 1, 1.0))
        if task.delta < lower < 1
        else 0.0
    )
    return result.found_privacy_violation is not None, implied
