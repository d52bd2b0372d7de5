"""What outputs of libraries have brought up: an atom among numbers, scores that are neighbouring
floats, outputs without numbers.
"""

import numpy as np
import pytest

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.events.posterior import ScoreTable
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.datasets.pairs import Pair

PAIR = Pair(np.array([0.0]), np.array([1.0]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_half_the_outputs_at_a_bound_are_no_serial_correlation(seed):
    """Seven deviations, three seeds, and a claim that is tight, refuted at 1e-9: fails by chance
    with probability below 1e-8.
    """

    def clipped(dataset, size, rng):
        return np.maximum(np.round(1024 * (dataset[0] + rng.laplace(0.0, 1.0, size))) / 1024, 0.0)

    result = audit(
        clipped, claim="pure:1", pair=PAIR, trials=200_000, confidence=1 - 1e-9, seed=seed
    )
    assert result.verdict is Verdict.NOT_REFUTED


def test_scores_that_are_neighbouring_floats():
    scores = np.repeat(
        [1.0, np.nextafter(1.0, 2.0), np.nextafter(np.nextafter(1.0, 2.0), 2.0), 3.0], 50
    )
    table = ScoreTable.build(scores, np.arange(len(scores)) % 2 == 0)
    assert table.ones.min() >= 0 and table.zeros.min() >= 0
    assert (table.ones.sum(), table.zeros.sum()) == (100, 100)
