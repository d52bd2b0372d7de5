"""inf-tda 0.1: hierarchical counts from the top down. Noise is OpenDP's discrete Gaussian; the
library takes no seed.
"""

import numpy as np
import pandas as pd
from InfTDA import inf_tda

LIBRARY = "inf-tda"
TESTED = ">=0.1,<0.2"
INSTALL = "pip install inf-tda==0.1"

_CELLS = pd.MultiIndex.from_product([["A", "B"], ["a", "b"]])


def _target(claim, cause="", **domain):
    def declare(function):
        function.claim, function.domain, function.cause, function.seeded = (
            claim,
            domain,
            cause,
            False,
        )
        function.batch, function.trials = 256, 20_000
        return function

    return declare


def _release(dataset, size, each, **parameters):
    counts = each * np.bincount(np.asarray(dataset, dtype=int), minlength=4)
    data = pd.Series(counts, index=_CELLS)
    found = (
        inf_tda(data=data, budget=(1.0, 1e-5), privacy_type="bounded", **parameters)
        for _ in range(size)
    )
    return np.array(
        [cells.reindex(_CELLS, fill_value=0).to_numpy(dtype=np.int64) for cells in found]
    )


_USERS = {"kind": "Records", "size": 40, "low": 0, "high": 3, "categories": True}


@_target("approx:1,1e-5", "", **_USERS)
def one_tuple(dataset, size, rng):
    """inf_tda over 2 x 2 cells, 40 users with one tuple each, one user replaced; epsilon 1, delta
    1e-5.
    """
    return _release(dataset, size, 1, contribution=1, distinct_tuples=True)


@_target(
    "approx:1,1e-5",
    "The documented table gives sqrt(2) m for m tuples that may coincide and sqrt(2 m) for m "
    "distinct ones; get_sensitivity has the two"
    " the other way round, so with distinct_tuples=False the noise is sqrt(m) times too small.",
    **_USERS,
)
def many_tuples(dataset, size, rng):
    """inf_tda over 2 x 2 cells, 40 users with nine tuples in one cell each (distinct_tuples=False),
    one user replaced.
    """
    return _release(dataset, size, 9, contribution=9, distinct_tuples=False)
