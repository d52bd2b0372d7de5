"""smartnoise-synth 0.2: the histogram from which MWEM draws its synthetic rows."""

import random
import warnings

import numpy as np
from library_target import target
from snsynth import MWEMSynthesizer

LIBRARY = "smartnoise-synth"

warnings.simplefilter("ignore")


@target(
    "pure:1", batch=64, kind="Rows", size=8, features=((0, 1), (0, 1), (0, 1)), categories=(0, 1, 2)
)
def mwem_histogram(dataset, size, rng):
    """MWEMSynthesizer(epsilon=1, iterations=2) of 8 rows of three binary columns and two public
    rows: its synthetic histogram.

    The public rows have the smallest and the largest value of each column.
    """
    seed = int(rng.integers(2**32, dtype=np.uint64))
    np.random.seed(seed)
    random.seed(seed)
    rows = np.array([(0, 0, 0), (1, 1, 1), *np.asarray(dataset, dtype=int).reshape(-1, 3).tolist()])
    found = []
    for _ in range(size):
        synthesizer = MWEMSynthesizer(
            epsilon=1.0, q_count=20, iterations=2, mult_weights_iterations=5, split_factor=3
        )
        synthesizer.fit(rows)
        found.append(np.ravel(synthesizer.synthetic_histograms[0][0]))
    return np.array(found)
