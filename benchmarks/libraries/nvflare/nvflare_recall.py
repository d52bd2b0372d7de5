"""NVIDIA FLARE: the sparse vector filter of a client's update.

The documentation states no total. The claim is what its parameters pay for, by the parts that the
filter computes from them: epsilon for the threshold, epsilon (2 c)^(2/3) for the queries, and
noise_var for each of the c values that are released.
"""

import logging

import numpy as np

if not hasattr(np, "float"):
    np.float = float  # noqa: NPY001 - releases before 2.1 use the old alias

from library_target import runs, seed_numpy, target
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.filters.svt_privacy import SVTPrivacy

LIBRARY = "nvflare"

logging.disable(logging.CRITICAL)
_WEIGHTS, _SENT, _EPSILON, _NOISE = 4, 2, 0.5, 0.5


def _filtered(doc, outside):
    """Return the target of the filtered update of four weights, of which any may be outside of
    [-1, 1] if `outside`.
    """

    def one(dataset):
        chosen = SVTPrivacy(
            fraction=_SENT / _WEIGHTS, epsilon=_EPSILON, noise_var=_NOISE, gamma=1.0, tau=0.1
        )
        update = DXO(
            data_kind=DataKind.WEIGHT_DIFF, data={"layer": np.array(dataset, dtype=float).ravel()}
        ).to_shareable()
        return from_shareable(chosen.process(update, FLContext())).data["layer"]

    return target(
        f"pure:{_EPSILON * (1 + (2 * _SENT) ** (2 / 3)) + _SENT * _NOISE!r}",
        "",
        doc,
        batch=4096,
        kind="Rows",
        size=1,
        features=((-1, 1),) * _WEIGHTS,
        outside=outside,
    )(runs(seed_numpy, one))


sparse_vector = _filtered(
    "SVTPrivacy(fraction=0.5, gamma=1) of an update with four weights in [-1, 1].", False
)
sparse_vector_outside = _filtered(
    "The same of weights of which any may be outside of [-1, 1].", True
)
