"""inf-tda 0.1: hierarchical counts from the top down. Noise is OpenDP's discrete Gaussian; the
library takes no seed.
"""

import numpy as np
import pandas as pd
from InfTDA import inf_tda
from library_target import target

LIBRARY = "inf-tda"

_CELLS = pd.MultiIndex.from_product([["A", "B"], ["a", "b"]])


def _release(doc, cause="", each=1, **parameters):
    """Return the target of the cells of 40 users with as many tuples each, one user replaced."""

    def run(dataset, size, rng):
        counts = each * np.bincount(np.asarray(dataset, dtype=int), minlength=4)
        data = pd.Series(counts, index=_CELLS)
        options = {"budget": (1.0, 1e-5), "privacy_type": "bounded", "contribution": each}
        found = (inf_tda(data=data, **options, **parameters) for _ in range(size))
        return np.array(
            [cells.reindex(_CELLS, fill_value=0).to_numpy(dtype=np.int64) for cells in found]
        )

    users = {"kind": "Records", "size": 40, "low": 0, "high": 3, "categories": True}
    settings = {"seeded": False, "batch": 256, "trials": 20_000}
    return target("approx:1,1e-5", cause, doc, **settings, **users)(run)


one_tuple = _release(
    "inf_tda over 2 x 2 cells, 40 users with one tuple each, one user replaced; epsilon 1, delta "
    "1e-5.",
    distinct_tuples=True,
)
many_tuples = _release(
    "inf_tda over 2 x 2 cells, 40 users with nine tuples in one cell each (distinct_tuples=False), "
    "one user replaced.",
    "The documented table gives sqrt(2) m for m tuples that may coincide and sqrt(2 m) for m "
    "distinct ones; get_sensitivity has the two"
    " the other way round, so with distinct_tuples=False the noise is sqrt(m) times too small.",
    each=9,
    distinct_tuples=False,
)
