"""SmartNoise SQL 1.0: approximate bounds of a column; noise of OpenDP, which takes no seed."""

from snsql.sql._mechanisms.approx_bounds import approx_bounds

LIBRARY = "smartnoise-sql"


def approximate_bounds(dataset, size, rng):
    """approx_bounds of up to five floats, of which any may be missing (NaN), epsilon 1; one value
    more or less.
    """
    values = [float(value) for value in dataset]
    return [
        [None if bound is None else float(bound) for bound in approx_bounds(values, 1.0)]
        for _ in range(size)
    ]


approximate_bounds.claim, approximate_bounds.seeded, approximate_bounds.batch = "pure:1", False, 256
approximate_bounds.domain = {
    "kind": "Records",
    "size": 5,
    "low": -1000,
    "high": 1000,
    "missing": True,
    "relation": "add-remove",
}
