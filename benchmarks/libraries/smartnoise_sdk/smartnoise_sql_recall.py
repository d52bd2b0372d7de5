"""SmartNoise SQL 1.0: approximate bounds of a column; noise of OpenDP, which takes no seed."""

from library_target import target
from snsql.sql._mechanisms.approx_bounds import approx_bounds

LIBRARY = "smartnoise-sql"


@target(
    "pure:1",
    seeded=False,
    batch=256,
    kind="Records",
    size=5,
    low=-1000,
    high=1000,
    missing=True,
    relation="add-remove",
)
def approximate_bounds(dataset, size, rng):
    """approx_bounds of up to five floats, of which any may be missing (NaN), epsilon 1; one value
    more or less.
    """
    values = [float(value) for value in dataset]
    return [
        [None if bound is None else float(bound) for bound in approx_bounds(values, 1.0)]
        for _ in range(size)
    ]
