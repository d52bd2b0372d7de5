"""Tumult Core: noise mechanisms, each with the claim of its privacy function. The library takes no
seed.
"""

import functools

import numpy as np
from library_target import target
from tmlt.core.domains.numpy_domains import NumpyFloatDomain
from tmlt.core.measurements import noise_mechanisms

LIBRARY = "tmlt.core"

_REAL = {"kind": "Answers", "length": 1, "low": -10, "high": 10}
_WHOLE = {"kind": "Counts", "length": 1, "low": 0, "high": 100}


@functools.cache
def _made(name, **parameters):
    domain = (
        {"input_domain": NumpyFloatDomain()}
        if name in ("AddLaplaceNoise", "AddGaussianNoise")
        else {}
    )
    return getattr(noise_mechanisms, name)(**domain, **parameters)


def _noise(name, notion, domain, cause="", **parameters):
    def run(dataset, size, rng):
        mechanism = _made(name, **parameters)
        value = np.float64(dataset[0]) if domain["kind"] == "Answers" else np.int64(dataset[0])
        return np.array([mechanism(value) for _ in range(size)])

    def claim():
        return f"{notion}:{_made(name, **parameters).privacy_function(1).to_float(round_up=True)!r}"

    doc = f"{name}({', '.join(f'{k}={v}' for k, v in parameters.items())})."
    relation = "l1" if notion == "pure" else "l2"
    return target(claim, cause, doc, seeded=False, **domain, relation=relation)(run)


laplace = _noise("AddLaplaceNoise", "pure", _REAL, scale=1)
geometric = _noise("AddGeometricNoise", "pure", _WHOLE, alpha=1)
gaussian = _noise(
    "AddGaussianNoise",
    "zcdp",
    _REAL,
    "The noise is drawn around 0 to full float precision and then added to the answer as a "
    "64-bit float (AddLaplaceNoise draws around the "
    "answer instead). Small outputs with fine low bits are possible under an answer of 0 and "
    "impossible under 1.",
    sigma_squared=1,
)
discrete_gaussian = _noise("AddDiscreteGaussianNoise", "zcdp", _WHOLE, sigma_squared=1)
geometric_large = _noise("AddGeometricNoise", "pure", _WHOLE | {"high": 2**61}, alpha=1)
