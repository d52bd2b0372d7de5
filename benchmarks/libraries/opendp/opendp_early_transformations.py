"""Transformations of OpenDP before release 0.6: the map is the smallest distance that the relation
accepts.
"""

from opendp import mod, trans

LIBRARY = "opendp"

mod.enable_features("contrib")

_WHOLE = {"type": "vector", "dtype": "i32", "bounds": [0, 9]}
_resize = trans.make_bounded_resize(3, (0, 9), 0)
_sum = trans.make_sized_bounded_sum(3, (0, 9))

TARGETS = {
    "resize": {
        "kind": "transformation",
        "map": "resize_map",
        "input": _WHOLE,
        "input_metric": "symmetric",
        "output_metric": "symmetric",
    },
    "sized_sum": {
        "kind": "transformation",
        "map": "sum_map",
        "input": {**_WHOLE, "size": 3},
        "input_metric": "symmetric",
        "output_metric": "absolute",
    },
}


def _smallest(step, d_in):
    return next(d_out for d_out in range(1_000) if step.check(int(d_in), d_out))


def resize(rows):
    """make_bounded_resize to three rows."""
    return _resize([int(value) for value in rows])


def resize_map(d_in):
    """Return the distance of the outputs that the library allows."""
    return _smallest(_resize, d_in)


def sized_sum(rows):
    """make_sized_bounded_sum of three integers in [0, 9]."""
    return _sum([int(value) for value in rows])


def sum_map(d_in):
    """Return the distance of the outputs that the library allows."""
    return _smallest(_sum, d_in)
