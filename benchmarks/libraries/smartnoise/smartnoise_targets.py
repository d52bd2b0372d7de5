"""SmartNoise SQL: queries over a table of one column. Tens of milliseconds each; the library takes
no seed.
"""

import numpy as np
import pandas as pd
import snsql
from library_target import target

LIBRARY = "smartnoise-sql"

_COLUMN = {"type": "float", "lower": 0.0, "upper": 1.0}
_METADATA = {"": {"": {"T": {"row_privacy": True, "censor_dims": False, "rows": 5, "x": _COLUMN}}}}
_PRIVACY = snsql.Privacy(epsilon=1.0, delta=1e-5)


def _query(sql):
    def reader(values):
        frame = pd.DataFrame({"x": np.asarray(values, dtype=float)})
        return snsql.from_df(frame, privacy=_PRIVACY, metadata=_METADATA)

    def run(dataset, size, rng):
        made = reader(dataset)
        return [made.execute(sql)[1:] for _ in range(size)]

    def claim():
        epsilon, delta = map(float, reader([0.5]).get_privacy_cost(sql))
        return f"approx:{epsilon!r},{delta!r}" if delta > 1e-12 else f"pure:{epsilon!r}"

    domain = {"kind": "Records", "size": 5, "low": 0, "high": 1, "relation": "add-remove"}
    settings = {"seeded": False, "batch": 8, "trials": 2000}
    return target(claim, "", f"{sql}, epsilon 1.", **settings, **domain)(run)


count = _query("SELECT COUNT(*) AS n FROM T")
total = _query("SELECT SUM(x) AS total FROM T")
