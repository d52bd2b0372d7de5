"""Transformations of OpenDP with stability maps."""

import math

import opendp.prelude as dp

LIBRARY = "opendp"

dp.enable_features("contrib")

_SIZED = {"type": "vector", "dtype": "i64", "bounds": [0, 9], "size": 3}
_bounded = dp.t.make_metric_bounded(
    dp.vector_domain(dp.atom_domain(T=int), size=3), dp.insert_delete_distance()
)
_resize = dp.t.make_resize(
    dp.vector_domain(dp.atom_domain(T=int)),
    dp.insert_delete_distance(),
    size=3,
    constant=0,
    MO="InsertDeleteDistance",
)
_impute = dp.t.make_impute_uniform_float(
    dp.vector_domain(dp.atom_domain(T=float)), dp.symmetric_distance(), bounds=(0.0, math.inf)
)
_DAY = (1.7e15, 1.7e15 + 8.64e10)  # time of a day in microseconds since 1970
_squares = dp.t.make_sum_of_squared_deviations(
    dp.vector_domain(dp.atom_domain(bounds=_DAY, nan=False), size=100), dp.symmetric_distance()
)

TARGETS = {
    "metric_bounded": {
        "kind": "transformation",
        "map": "bounded_map",
        "input": _SIZED,
        "input_metric": "insert-delete",
        "output_metric": "hamming",
    },
    "resize_ordered": {
        "kind": "transformation",
        "map": "resize_map",
        "input": {"type": "vector", "dtype": "i64", "bounds": [0, 9]},
        "input_metric": "insert-delete",
        "output_metric": "insert-delete",
    },
    "squared_deviations": {
        "kind": "transformation",
        "map": "squares_map",
        "input": {"type": "vector", "dtype": "f64", "bounds": list(_DAY), "size": 100},
        "input_metric": "symmetric",
        "output_metric": "absolute",
        "d_in": [2],
    },
    "impute_uniform": {
        "kind": "transformation",
        "map": "impute_map",
        "input": {"type": "vector", "dtype": "f64", "nan": True},
        "input_metric": "symmetric",
        "output_metric": "symmetric",
    },
}


def metric_bounded(rows):
    """make_metric_bounded of three integers, from insert-delete to Hamming distance."""
    return _bounded([int(value) for value in rows])


def bounded_map(d_in):
    """Return the distance of the outputs that the library allows."""
    return _bounded.map(int(d_in))


def resize_ordered(rows):
    """make_resize to three integers under insert-delete distance."""
    return _resize([int(value) for value in rows])


def resize_map(d_in):
    """Return the distance of the outputs that the library allows."""
    return _resize.map(int(d_in))


def impute_uniform(rows):
    """make_impute_uniform_float in [0, inf)."""
    return _impute([float(value) for value in rows])


def impute_map(d_in):
    """Return the distance of the outputs that the library allows."""
    return _impute.map(int(d_in))


def squared_deviations(rows):
    """make_sum_of_squared_deviations of 100 times of a day in microseconds, under symmetric
    distance.
    """
    return _squares([float(value) for value in rows])


def squares_map(d_in):
    """Return the distance of the outputs that the library allows."""
    return _squares.map(int(d_in))
