"""What outputs of libraries have brought up: an atom among numbers, scores that are neighbouring
floats, outputs without numbers.
"""

import numpy as np

from dpwitness.auditors.events.posterior import ScoreTable


def test_scores_that_are_neighbouring_floats():
    scores = np.repeat(
        [1.0, np.nextafter(1.0, 2.0), np.nextafter(np.nextafter(1.0, 2.0), 2.0), 3.0], 50
    )
    table = ScoreTable.build(scores, np.arange(len(scores)) % 2 == 0)
    assert table.ones.min() >= 0 and table.zeros.min() >= 0
    assert (table.ones.sum(), table.zeros.sum()) == (100, 100)
