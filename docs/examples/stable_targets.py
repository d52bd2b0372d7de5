"""Transformations of a library, with the stability maps that it claims, as a target file for
`dpwitness audit FILE:NAME`.
"""

NUMBERS = {"type": "vector", "dtype": "f64", "bounds": [0, 10], "nullable": True, "size": None}


def count(rows):
    return len(rows)


def impute(rows):
    known = [value for value in rows if value is not None]
    mean = sum(known) / len(known) if known else 0.0
    return [mean if value is None else value for value in rows]


def same(d_in):
    return d_in


TARGETS = {
    "count": {
        "kind": "transformation",
        "map": "same",
        "input": NUMBERS,
        "input_metric": "symmetric",
        "output_metric": "absolute",
    },
    "impute": {
        "kind": "transformation",
        "map": "same",
        "input": NUMBERS,
        "input_metric": "symmetric",
        "output_metric": "symmetric",
    },
}
