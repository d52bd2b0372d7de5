"""PyDP: Python bindings of Google's differential privacy library. It takes no seed."""

import numpy as np
import pydp.algorithms.laplacian as algorithms
from library_target import target
from pydp.algorithms.numerical_mechanisms import GaussianMechanism, LaplaceMechanism

LIBRARY = "python-dp"


_REAL = {"kind": "Answers", "length": 1, "low": -10, "high": 10}
_RECORDS = {"kind": "Records", "size": 5, "low": 0, "high": 1, "relation": "add-remove"}
_LOW_BITS = (
    "Gaussian noise on a grid is added to the answer as it is, not rounded to that grid: its low "
    "bits stay in the sum."
)


def _noise(mechanism, doc, claim, relation, cause="", **parameters):
    """Return the target of a mechanism that adds noise to one number."""

    def run(dataset, size, rng):
        made, value = mechanism(epsilon=1.0, sensitivity=1.0, **parameters), float(dataset[0])
        return np.array([made.add_noise(value) for _ in range(size)])

    return target(claim, cause, doc, seeded=False, **_REAL, relation=relation)(run)


laplace = _noise(LaplaceMechanism, "LaplaceMechanism(epsilon=1, sensitivity=1).", "pure:1", "l1")
gaussian = _noise(
    GaussianMechanism,
    "GaussianMechanism(epsilon=1, delta=1e-5, sensitivity=1).",
    "approx:1,1e-5",
    "l2",
    _LOW_BITS,
    delta=1e-5,
)


def _algorithm(name, cause="", domain=_RECORDS, **parameters):
    kind = "int" if domain.get("integer") else "float"

    def run(dataset, size, rng):
        algorithm = getattr(algorithms, name)(epsilon=1.0, dtype=kind, **parameters)
        values = [int(v) for v in dataset] if kind == "int" else [float(v) for v in dataset]
        return np.array([algorithm.quick_result(values) for _ in range(size)])

    doc = (
        f"laplacian.{name}(epsilon=1, {', '.join(f'{k}={v}' for k, v in parameters.items())}) on "
        f"{kind}s."
    )
    return target("pure:1", cause, doc, seeded=False, **domain)(run)


_BOUNDS = {"lower_bound": 0, "upper_bound": 1}
count = _algorithm("Count")
bounded_sum = _algorithm("BoundedSum", **_BOUNDS)
bounded_sum_int = _algorithm(
    "BoundedSum", domain=_RECORDS | {"high": 5, "integer": True}, lower_bound=0, upper_bound=5
)
bounded_sum_outside = _algorithm("BoundedSum", domain=_RECORDS | {"outside": True}, **_BOUNDS)
bounded_mean = _algorithm("BoundedMean", **_BOUNDS)
bounded_variance = _algorithm("BoundedVariance", **_BOUNDS)
bounded_deviation = _algorithm("BoundedStandardDeviation", **_BOUNDS)
maximum = _algorithm("Max", **_BOUNDS)
minimum = _algorithm("Min", **_BOUNDS)
median = _algorithm("Median", **_BOUNDS)
