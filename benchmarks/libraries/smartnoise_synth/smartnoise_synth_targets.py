"""smartnoise-synth: covariances for linear regression (NumPy's global generator) and MWEM (OpenDP's
noise, not seeded).
"""

import random
import sys
import warnings

import numpy as np
import pandas as pd
import sklearn.linear_model._base
from library_target import seed_numpy, target

# the old name, which 1.0.5 imports
sys.modules.setdefault("sklearn.linear_model.base", sklearn.linear_model._base)

from snsynth.models.dp_covariance import DPcovariance  # noqa: E402
from snsynth.mwem import MWEMSynthesizer  # noqa: E402
from snsynth.transform import BinTransformer, TableTransformer  # noqa: E402

LIBRARY = "smartnoise-synth"

warnings.simplefilter("ignore")


@target(
    "pure:1",
    "Up to 1.0.5 the covariances are those of the data as they were given, not of the "
    "censored ones: a value outside its range moves them "
    "as far as it likes. Since 1.0.6 they are those of the censored data.",
    kind="Rows",
    size=20,
    features=((0, 1), (0, 1)),
    outside=True,
    batch=256,
)
def covariance(dataset, size, rng):
    """DPcovariance.release of 20 rows of two numbers (ranges [0, 1] given), epsilon 1, as
    DPLinearRegression uses it; one row replaced.
    """
    seed_numpy(rng)
    found = []
    for _ in range(size):
        ranges = pd.DataFrame({0: [0.0, 1.0], 1: [0.0, 1.0]})
        frame = pd.DataFrame(np.array(dataset, dtype=float), columns=["x", "y"])
        found.append(DPcovariance(len(frame), ["x", "y"], ranges, 1.0).release(frame))
    return np.array(found)


def _mwem(doc, cause, records, public, **parameters):
    """Return the target of synthetic values for some numbers beside public ones."""

    def run(dataset, size, rng):
        seed = int(rng.integers(2**32))
        np.random.seed(seed)
        random.seed(seed)
        rows = [(float(value),) for value in (*public, *dataset)]
        found = []
        for _ in range(size):
            transformer = TableTransformer([BinTransformer(bins=4, lower=0.0, upper=1.0)])
            synthesizer = MWEMSynthesizer(epsilon=1.0, **parameters)
            synthesizer.fit(rows, transformer=transformer)
            found.append([float(value) for (value,) in synthesizer.sample(4)])
        return np.array(found)

    domain = {"kind": "Records", "size": records, "low": 0, "high": 1, "relation": "add-remove"}
    settings = {"seeded": False, "batch": 16, "trials": 2000}
    return target("pure:1", cause, doc, **settings, **domain)(run)


mwem = _mwem(
    "Four synthetic values of MWEMSynthesizer, 2 iterations, for a public 0 and up to 9 numbers in "
    "four given bins, epsilon 1.",
    "The histogram that is measured reaches from the smallest to the largest bin that occurs "
    "in the data, although the transformer's bins "
    "are given: no synthetic value lies outside.",
    9,
    [0.0],
    iterations=2,
    q_count=2,
)
mwem_iterations = _mwem(
    "The same with the default iterations, for one public record in each bin and 3 more at 0, so "
    "that 8 records make 15 and 3 make 10.",
    "Where the number of iterations is not given it is 10 ceil(log10(number of records)), "
    "which decides how many measurements are made and "
    "how large their noise is: from 10 records to 11 both double.",
    8,
    [0.1, 0.4, 0.6, 0.9, 0.0, 0.0, 0.0],
    mult_weights_iterations=1,
)
