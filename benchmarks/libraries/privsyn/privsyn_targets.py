"""privsyn-core 0.1.1: synthetic tables of category numbers. All noise is NumPy's global
generator.
"""

import numpy as np
import pandas as pd
from library_target import runs, seed_numpy, target
from privsyn import PrivSynModel
from privsyn.rho_cdp import cdp_rho

LIBRARY = "privsyn-core"

# as the model finds it from epsilon and delta in every fit, which takes 0.1 s
_RHO = cdp_rho(1.0, 1e-5)
_DOMAIN = {"a": 3, "b": 2, "c": 2}
_FEW = {"update_iterations": 1, "consist_iterations": 1}


def _model(dataset):
    # a public row first: the model refuses an empty table
    rows = [(0, 0, 0), *np.asarray(dataset, dtype=int).reshape(-1, 3).tolist()]
    frame = pd.DataFrame(rows, columns=list(_DOMAIN))
    return PrivSynModel(epsilon=1.0, delta=1e-5, rho=_RHO, extra_params=dict(_FEW)).fit(
        frame, _DOMAIN
    )


_TABLE = target(
    "approx:1,1e-5",
    batch=16,
    trials=3000,
    kind="Rows",
    size=20,
    features=((0, 2), (0, 1), (0, 1)),
    categories=(0, 1, 2),
    relation="add-remove",
)


def _rows(dataset):
    model = _model(dataset)
    try:
        return model.sample(4).to_numpy(dtype=np.int64).ravel()
    except ValueError:  # noisy counts of a marginal add up to nothing: decided after the noise
        return np.full(12, -1)


@_TABLE
def synthetic(dataset, size, rng):
    """Four synthetic rows of PrivSynModel for up to 20 rows of three columns (domain given),
    epsilon 1, delta 1e-5; a row more or less.
    """
    return runs(seed_numpy, _rows)(dataset, size, rng)


@_TABLE
def marginals(dataset, size, rng):
    """The marginals that PrivSynModel.fit selects, as it tells them in selected_marginals_."""
    seed_numpy(rng)
    return [
        "|".join("".join(pair) for pair in _model(dataset).selected_marginals_) for _ in range(size)
    ]
