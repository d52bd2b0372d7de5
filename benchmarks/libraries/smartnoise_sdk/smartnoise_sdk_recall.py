"""SmartNoise SDK 0.1: SQL queries on a pandas frame; noise of SmartNoise Core, which
takes no seed.
"""

import logging
import warnings

import numpy as np
import pandas as pd
from library_target import target
from opendp.smartnoise.metadata import CollectionMetadata
from opendp.smartnoise.sql import PandasReader, PrivateReader

LIBRARY = "opendp-smartnoise"

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
_DELTA = 1e-5


_QUERY = "SELECT SUM(x) AS total FROM PUBLIC.DATA"
_METADATA = CollectionMetadata.from_dict(
    {
        "": {
            "PUBLIC": {
                "DATA": {
                    "rows": 8,
                    "max_ids": 1,
                    "id": {"type": "int", "private_id": True},
                    "x": {"type": "float"},
                }
            }
        }
    }
)


def _reader(dataset):
    frame = pd.DataFrame({"id": range(len(dataset)), "x": np.asarray(dataset, dtype=float)})
    return PrivateReader(_METADATA, PandasReader(_METADATA, frame), 1.0, _DELTA)


def _claim():
    try:
        paid = max(1, len(_reader(np.zeros(1)).get_privacy_cost(_QUERY)))
    except ValueError:  # the release refuses the query
        paid = 1
    return f"approx:{paid},{paid * _DELTA}"


@target(
    _claim, seeded=False, batch=64, kind="Records", size=8, low=0, high=1, relation="add-remove"
)
def unbounded_sum(dataset, size, rng):
    """SELECT SUM(x) of up to eight users with one row each; the metadata states no bounds of x;
    epsilon 1 and delta 1e-5 per column.
    """
    private = _reader(dataset)
    return np.array([float(private.execute(_QUERY)[1][0]) for _ in range(size)])
