"""Functions that the guide on accountants audits by relations."""

NUMBERS = {"type": "vector", "dtype": "f64", "bounds": [0, 10], "nullable": True, "size": None}


def impute(rows):
    known = [value for value in rows if value is not None]
    mean = sum(known) / len(known) if known else 0.0
    return [mean if value is None else value for value in rows]


def scale(epsilon):
    return 1 / epsilon


TARGETS = {
    "impute": {
        "kind": "metamorphic",
        "function": "impute",
        "row_wise": True,
        "input": NUMBERS,
        "noise": "scale",
    }
}
