"""dpart: synthetic rows of the engine PrivBayes. All noise is NumPy's global generator."""

import logging
import warnings

import numpy as np
import pandas as pd
from dpart.engines import PrivBayes
from library_target import seed_numpy, target

LIBRARY = "dpart"

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)


@target("pure:1", batch=16, kind="Rows", size=10, features=((0, 1), (0, 1)))
def synthetic_rows(dataset, size, rng):
    """Three synthetic rows of PrivBayes(epsilon=1) for 10 rows of two numbers in [0, 1], whose
    bounds are given.
    """
    seed_numpy(rng)
    frame = pd.DataFrame(np.asarray(dataset, dtype=float).reshape(-1, 2), columns=["a", "b"])
    found = []
    for _ in range(size):
        bounds = {name: {"min": 0.0, "max": 1.0} for name in frame.columns}
        engine = PrivBayes(epsilon=1.0, bounds=bounds, n_parents=1)
        engine.fit(frame)
        found.append(engine.sample(3).to_numpy().ravel())
    return np.array(found)
