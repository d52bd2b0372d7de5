"""SmartNoise SQL: queries over a table of one column. Tens of milliseconds each; the library takes
no seed.
"""

import numpy as np
import pandas as pd
import snsql

LIBRARY = "smartnoise-sql"
TESTED = ">=1.0.10,<1.1"
INSTALL = "pip install smartnoise-sql==1.0.10"

_COLUMN = {"type": "float", "lower": 0.0, "upper": 1.0}
_METADATA = {"": {"": {"T": {"row_privacy": True, "censor_dims": False, "rows": 5, "x": _COLUMN}}}}
_PRIVACY = snsql.Privacy(epsilon=1.0, delta=1e-5)


def _query(sql):
    def run(dataset, size, rng):
        reader = snsql.from_df(
            pd.DataFrame({"x": np.asarray(dataset, dtype=float)}),
            privacy=_PRIVACY,
            metadata=_METADATA,
        )
        return [reader.execute(sql)[1:] for _ in range(size)]

    def claim():
        reader = snsql.from_df(pd.DataFrame({"x": [0.5]}), privacy=_PRIVACY, metadata=_METADATA)
        epsilon, delta = reader.get_privacy_cost(sql)
        return (
            f"approx:{float(epsilon)!r},{float(delta)!r}"
            if delta > 1e-12
            else f"pure:{float(epsilon)!r}"
        )

    run.__doc__ = f"{sql}, epsilon 1."
    run.claim, run.seeded, run.batch, run.trials = claim, False, 8, 2000
    run.domain = {"kind": "Records", "size": 5, "low": 0, "high": 1, "relation": "add-remove"}
    return run


count = _query("SELECT COUNT(*) AS n FROM T")
total = _query("SELECT SUM(x) AS total FROM T")
