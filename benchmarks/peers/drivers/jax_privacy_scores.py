"""Driver of the auditor of jax-privacy, ``CanaryScoreAuditor``, which reads scores.

Documentation: the docstrings of ``jax_privacy.auditing``. The mechanism's runs on the two datasets
are the held-in and held-out canaries.
"""

from __future__ import annotations

import numpy as np
from jax_privacy import auditing
from sklearn.ensemble import HistGradientBoostingClassifier

from dpwitness.benchmarks.peers.drivers.task import Answer, NotExpressible, Outputs, Task

_DEFAULT_SIZE = 10_000  # the library has no default number of canaries


def attack(task: Task) -> Answer:
    """Return the Clopper-Pearson bound of the library.

    By default the output of a scalar mechanism is its score, with the library's default strategy
    (Bonferroni over all thresholds). The best setting scores outputs by the log odds of gradient
    boosting, trained on other runs, and chooses the threshold on half of the scores.
    """
    rng = task.generator()
    if task.best:
        return _best(task, rng)
    first, second = (task.draw(side, _DEFAULT_SIZE, rng) for side in (0, 1))
    if first.shape[1] != 1:
        raise NotExpressible("the output has several numbers, and the tool reads one score")
    auditor = auditing.CanaryScoreAuditor(second[:, 0], first[:, 0])
    # the library has no default
    bound = auditor.epsilon_clopper_pearson(0.05, task.delta)
    return Answer(bound > task.epsilon, bound, f"{2 * _DEFAULT_SIZE} runs")


def _best(task: Task, rng: np.random.Generator) -> Answer:
    train = max(int(task.size * 0.25), 50)
    learned = [task.draw(side, train, rng) for side in (0, 1)]
    model = HistGradientBoostingClassifier(random_state=task.seed).fit(
        np.vstack(learned), np.repeat([0, 1], train)
    )

    def scores(outputs: Outputs) -> Outputs:
        return np.asarray(model.decision_function(outputs), dtype=np.float64)

    first, second = (scores(task.draw(side, task.size - train, rng)) for side in (0, 1))
    auditor = auditing.CanaryScoreAuditor(second, first)
    split = auditing.Split(seed=task.seed)
    bound = auditor.epsilon_clopper_pearson(
        1 - task.confidence, task.delta, one_sided=False, threshold_strategy=split
    )
    return Answer(bound > task.epsilon, bound, f"{2 * task.size} runs")
