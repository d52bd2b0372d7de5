"""WhiteNoise 0.1: SQL queries on a pandas frame. Its noise is drawn from the operating system."""

import warnings

import numpy as np
import pandas as pd
from library_target import target
from opendp.whitenoise.metadata import CollectionMetadata
from opendp.whitenoise.sql import PandasReader, PrivateReader

LIBRARY = "opendp-whitenoise"

warnings.simplefilter("ignore")
_EPSILON, _DELTA = 1.0, 1e-5
_PLACES = list("abcd")


def _reader(described, **columns):
    """Return a private reader of a table with one row per user, and columns of one type."""
    rows = len(next(iter(columns.values())))
    metadata = CollectionMetadata.from_dict(
        {
            "": {
                "PUBLIC": {
                    "DATA": {
                        "rows": rows,
                        "max_ids": 1,
                        "id": {"type": "int", "private_id": True},
                        **dict.fromkeys(columns, described),
                    }
                }
            }
        }
    )
    frame = pd.DataFrame({"id": range(rows), **columns})
    private = PrivateReader(metadata, PandasReader(metadata, frame), _EPSILON, _DELTA)
    private.options.use_dpsu = False
    return private


_COUNTS = "SELECT place, COUNT(*) AS n FROM PUBLIC.DATA GROUP BY place"
_SQUARES = "SELECT SUM(POWER(x, 2)) AS s FROM PUBLIC.DATA"
_BOTH = "SELECT SUM(x + y) AS s FROM PUBLIC.DATA"
_UNIT = {"type": "float", "lower": 0.0, "upper": 1.0}


# the budget is that of each column with noise: here the number of users of a group and their count
@target(
    f"approx:{2 * _EPSILON},{2 * _DELTA}",
    seeded=False,
    batch=64,
    kind="Records",
    size=10,
    low=0,
    high=3,
    categories=True,
    relation="add-remove",
)
def counts_by_place(dataset, size, rng):
    """SELECT place, COUNT(*) ... GROUP BY place of up to 10 users and a public one, epsilon 1 and
    delta 1e-5 per column.
    """
    places = ["a", *(_PLACES[int(value)] for value in dataset)]
    private = _reader({"type": "string", "cardinality": 4}, place=places)
    query = private.parse_query_string(_COUNTS)
    found = []
    for _ in range(size):
        counts = {place: float(count) for place, count in private.execute_ast(query)[1:]}
        found.append([counts.get(place) for place in _PLACES])
    return found


@target(
    f"approx:{_EPSILON},{_DELTA}",
    seeded=False,
    batch=64,
    kind="Records",
    size=8,
    low=0,
    high=1,
    relation="replace-one",
)
def sum_of_squares(dataset, size, rng):
    """SELECT SUM(POWER(x, 2)) of 8 users' numbers in [0, 1] (bounds given), epsilon 1."""
    return _answers(_reader(_UNIT, x=np.asarray(dataset, dtype=float).ravel()), _SQUARES, size)


@target(
    f"approx:{_EPSILON},{_DELTA}",
    seeded=False,
    batch=64,
    kind="Rows",
    size=8,
    features=((0, 1), (0, 1)),
    relation="replace-one",
)
def sum_of_columns(dataset, size, rng):
    """SELECT SUM(x + y) of 8 users with two numbers in [0, 1] (bounds given), epsilon 1."""
    x, y = np.asarray(dataset, dtype=float).reshape(-1, 2).T
    return _answers(_reader(_UNIT, x=x, y=y), _BOTH, size)


def _answers(private, text, size):
    query = private.parse_query_string(text)
    return np.array([float(private.execute_ast(query)[1][0]) for _ in range(size)])
