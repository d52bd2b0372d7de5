"""SmartNoise Core: releases of an analysis of a table with one column; the runtime draws its own
noise and takes no seed.
"""

import os
import tempfile

import numpy as np
import opendp.smartnoise.core as sn
from library_target import target

LIBRARY = "opendp-smartnoise-core"


def _releases(values, size, neighboring, query):
    """Release the query `size` times, each in an analysis of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data.csv")
        with open(path, "w", encoding="utf-8") as file:
            file.write("x\n" + "\n".join(repr(float(value)) for value in values) + "\n")
        found = []
        for _ in range(size):
            with sn.Analysis(neighboring=neighboring, protect_floating_point=False) as analysis:
                answer = query(sn.to_float(sn.Dataset(path=path, column_names=["x"])["x"]))
            analysis.release()
            found.append(float(np.ravel(answer.value)[0]))
    return np.array(found)


def _mean(mechanism, text, rows, delta):
    def function(dataset, size, rng):
        usage = {"epsilon": 1.0, "delta": delta}
        return _releases(
            dataset,
            size,
            "substitute",
            lambda data: sn.dp_mean(
                data,
                mechanism=mechanism,
                privacy_usage=usage,
                data_lower=0.0,
                data_upper=1.0,
                data_rows=rows,
            ),
        )

    doc = f"dp_mean of {rows} numbers in [0, 1] by the {text}, epsilon 1, delta {delta}."
    declared = {"seeded": False, "batch": 256, "kind": "Records", "size": rows, "low": 0, "high": 1}
    return target(f"approx:1,{delta}", "", doc, **declared)(function)


# the size, epsilon and delta with which the library's examples and its tests of the Gaussian
# mechanism call dp_mean
gaussian_mean = _mean("Gaussian", "Gaussian mechanism", 1000, 1e-6)
analytic_gaussian_mean = _mean("AnalyticGaussian", "analytic Gaussian mechanism", 5, 1e-5)


@target(
    "pure:1", seeded=False, batch=256, kind="Records", size=8, low=0, high=1, relation="add-remove"
)
def geometric_count(dataset, size, rng):
    """dp_count of up to eight rows by the simple geometric mechanism; 0 and 4 are the estimated
    bounds of the count, epsilon 1.
    """
    count = lambda data: sn.dp_count(data, lower=0, upper=4, privacy_usage={"epsilon": 1.0})  # noqa: E731
    return _releases(dataset, size, "add_remove", count)
