"""dpmm: the noisy marginal of PrivBayesGM over one column. The domain is given where the release
asks for it.
"""

import copy
import inspect
import logging

import numpy as np
import pandas as pd
from dpmm.models.priv_bayes import PrivBayesGM
from library_target import target

LIBRARY = "dpmm"

logging.disable(logging.WARNING)
_NEEDED = inspect.signature(PrivBayesGM).parameters["domain"].default is inspect.Parameter.empty
# copied in each run
_MODEL = PrivBayesGM(
    epsilon=1.0, delta=1e-5, n_jobs=1, compress=False, **({"domain": {"a": 6}} if _NEEDED else {})
)


@target(
    "approx:1,1e-5",
    seeded=False,
    batch=64,
    kind="Records",
    size=8,
    low=0,
    high=5,
    categories=True,
    relation="add-remove",
)
def marginal(dataset, size, rng):
    """PrivBayesGM(epsilon=1, delta=1e-5) of one column of categories from 0 to 5, with two public
    rows: its noisy marginal.
    """
    frame, found = pd.DataFrame({"a": np.array([0, 1, *dataset], dtype=int)}), []
    for _ in range(size):
        model = copy.deepcopy(_MODEL)
        model.set_random_state(np.random.RandomState(rng.integers(2**32, dtype=np.uint64)))
        model.fit(frame, marginals_only=True)
        found.append(
            np.concatenate([np.ravel(y) for _, y, _, _ in model.generator.measures]).tolist()
        )
    return found
