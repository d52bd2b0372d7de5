"""PyDP: Python bindings of Google's differential privacy library. It takes no seed."""

import numpy as np
import pydp.algorithms.laplacian as algorithms
from pydp.algorithms.numerical_mechanisms import GaussianMechanism, LaplaceMechanism

LIBRARY = "python-dp"
TESTED = ">=1.1.5,<1.2"
INSTALL = "pip install python-dp==1.1.5"


def _target(claim, cause="", **domain):
    def declare(function):
        function.claim, function.domain, function.cause, function.seeded = (
            claim,
            domain,
            cause,
            False,
        )
        return function

    return declare


_REAL = {"kind": "Answers", "length": 1, "low": -10, "high": 10, "relation": "l1"}
_RECORDS = {"kind": "Records", "size": 5, "low": 0, "high": 1, "relation": "add-remove"}
_LOW_BITS = (
    "Gaussian noise on a grid is added to the answer as it is, not rounded to that grid: its low "
    "bits stay in the sum."
)


@_target("pure:1", **_REAL)
def laplace(dataset, size, rng):
    """LaplaceMechanism(epsilon=1, sensitivity=1)."""
    mechanism, value = LaplaceMechanism(epsilon=1.0, sensitivity=1.0), float(dataset[0])
    return np.array([mechanism.add_noise(value) for _ in range(size)])


@_target("approx:1,1e-5", _LOW_BITS, **(_REAL | {"relation": "l2"}))
def gaussian(dataset, size, rng):
    """GaussianMechanism(epsilon=1, delta=1e-5, sensitivity=1)."""
    mechanism, value = (
        GaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=1.0),
        float(dataset[0]),
    )
    return np.array([mechanism.add_noise(value) for _ in range(size)])


def _algorithm(name, cause="", domain=_RECORDS, **parameters):
    kind = "int" if domain.get("integer") else "float"

    def run(dataset, size, rng):
        algorithm = getattr(algorithms, name)(epsilon=1.0, dtype=kind, **parameters)
        values = [int(v) for v in dataset] if kind == "int" else [float(v) for v in dataset]
        return np.array([algorithm.quick_result(values) for _ in range(size)])

    run.__doc__ = (
        f"laplacian.{name}(epsilon=1, {', '.join(f'{k}={v}' for k, v in parameters.items())}) on "
        f"{kind}s."
    )
    return _target("pure:1", cause, **domain)(run)


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
