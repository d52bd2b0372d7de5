"""SmartNoise SDK 0.1: SQL queries on a pandas frame; noise of SmartNoise Core, which takes no seed."""

import logging
import warnings

import numpy as np
import pandas as pd
from opendp.smartnoise.metadata import CollectionMetadata
from opendp.smartnoise.sql import PandasReader, PrivateReader

LIBRARY = "opendp-smartnoise"

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
_DELTA = 1e-5


def _metadata(**columns):
    table = {"rows": 8, "row_privacy": True, **columns}
    return CollectionMetadata.from_dict({"": {"PUBLIC": {"DATA": table}}})


def _query(metadata, names, sql):
    """A target for one query: each numeric column of its rewritten form costs epsilon 1 and delta 1e-5."""

    def reader(dataset):
        frame = pd.DataFrame(np.asarray(dataset, dtype=float).reshape(-1, len(names)), columns=names)
        return PrivateReader(metadata, PandasReader(metadata, frame), 1.0, _DELTA)

    def function(dataset, size, rng):
        private = reader(dataset)
        return np.array([float(private.execute(sql)[1][0]) for _ in range(size)])

    def claim():
        try:
            paid = len(reader(np.zeros((1, len(names)))).get_privacy_cost(sql))
        except ValueError:  # the release refuses the query
            paid = 1
        return f"approx:{max(1, paid)},{max(1, paid) * _DELTA}"

    function.claim, function.seeded, function.batch = claim, False, 64
    function.__doc__ = f"{sql}, epsilon 1 and delta 1e-5 for each column."
    return function


unbounded_sum = _query(_metadata(x={"type": "float"}), ["x"], "SELECT SUM(x) AS total FROM PUBLIC.DATA")
unbounded_sum.domain = {"kind": "Records", "size": 8, "low": 0, "high": 1, "relation": "add-remove"}
_UNIT = {"type": "float", "lower": 0.0, "upper": 1.0}
added_columns = _query(_metadata(x=_UNIT, y=_UNIT), ["x", "y"], "SELECT SUM(x + y) AS total FROM PUBLIC.DATA")
added_columns.domain = {"kind": "Rows", "size": 8, "features": ((0, 1), (0, 1)), "relation": "add-remove"}
