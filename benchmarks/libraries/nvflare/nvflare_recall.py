"""NVIDIA FLARE: the sparse vector filter of a client's update.

The documentation states no total. The claim is what its parameters pay for, by the parts that the
filter computes from them: epsilon for the threshold, epsilon (2 c)^(2/3) for the queries, and
noise_var for each of the c values that are released.
"""

import logging

import numpy as np

if not hasattr(np, "float"):
    np.float = float  # noqa: NPY001 - releases before 2.1 use the old alias

from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.filters.svt_privacy import SVTPrivacy

LIBRARY = "nvflare"

logging.disable(logging.CRITICAL)
_WEIGHTS, _SENT, _EPSILON, _NOISE = 4, 2, 0.5, 0.5


def _filtered(dataset, size, rng):
    np.random.seed(int(rng.integers(2**32, dtype=np.uint64)))
    found = []
    for _ in range(size):
        chosen = SVTPrivacy(
            fraction=_SENT / _WEIGHTS, epsilon=_EPSILON, noise_var=_NOISE, gamma=1.0, tau=0.1
        )
        update = DXO(
            data_kind=DataKind.WEIGHT_DIFF, data={"layer": np.array(dataset, dtype=float).ravel()}
        ).to_shareable()
        found.append(from_shareable(chosen.process(update, FLContext())).data["layer"])
    return np.array(found)


def sparse_vector(dataset, size, rng):
    """SVTPrivacy(fraction=0.5, gamma=1) of an update with four weights in [-1, 1]."""
    return _filtered(dataset, size, rng)


def sparse_vector_outside(dataset, size, rng):
    """The same of weights of which any may be outside of [-1, 1]."""
    return _filtered(dataset, size, rng)


for _target, _outside in ((sparse_vector, False), (sparse_vector_outside, True)):
    _target.claim = f"pure:{_EPSILON * (1 + (2 * _SENT) ** (2 / 3)) + _SENT * _NOISE!r}"
    _target.domain = {
        "kind": "Rows",
        "size": 1,
        "features": ((-1, 1),) * _WEIGHTS,
        "outside": _outside,
    }
    _target.batch = 4096
