"""multi-freq-ldpy: local frequency oracles, once and over time. Compiled functions have a separate
generator, seeded once per call.
"""

import numpy as np
from library_target import target
from multi_freq_ldpy.long_freq_est.dBitFlipPM import dBitFlipPM_Client
from multi_freq_ldpy.long_freq_est.L_GRR import L_GRR_Client
from multi_freq_ldpy.long_freq_est.L_OSUE import L_OSUE_Client
from multi_freq_ldpy.long_freq_est.L_OUE import L_OUE_Client
from multi_freq_ldpy.long_freq_est.L_SOUE import L_SOUE_Client
from multi_freq_ldpy.long_freq_est.L_SUE import L_SUE_Client
from multi_freq_ldpy.mdim_freq_est.RSpFD_solution import RSpFD_GRR_Client
from multi_freq_ldpy.mdim_freq_est.SMP_solution import SMP_GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.HE import HE_Client
from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client
from numba import njit

LIBRARY = "multi-freq-ldpy"

D = 4


@njit
def _seed_compiled(seed):
    np.random.seed(seed)


_ITEM = {"kind": "Records", "size": 1, "low": 0, "high": D - 1, "categories": True}
_TUPLE = {"kind": "Rows", "size": 1, "features": ((0, D - 1), (0, D - 1)), "categories": (0, 1)}


def _seed(rng):
    _seed_compiled(int(rng.integers(2**32)))
    np.random.seed(int(rng.integers(2**32)))


def _client(claim, client, *parameters, cause="", **more):
    def run(dataset, size, rng):
        _seed(rng)
        item = int(dataset[0])
        return np.array([client(item, D, *parameters, **more) for _ in range(size)])

    shown = ", ".join(
        ["item", str(D), *map(str, parameters), *(f"{k}={v}" for k, v in more.items())]
    )
    return target(claim, cause, f"{client.__name__}({shown}).", **_ITEM)(run)


_LOW_BITS = (
    "Laplace noise is added to zeros and ones as 64-bit floats: the low bits say which entry was 1."
)
grr = _client("pure:1", GRR_Client, 1.0)
sue = _client("pure:1", UE_Client, 1.0, optimal=False)
oue = _client("pure:1", UE_Client, 1.0, optimal=True)
subset = _client("pure:1", SS_Client, 1.0)
histogram_encoding = _client("pure:1", HE_Client, 1.0, cause=_LOW_BITS)
longitudinal_grr = _client("pure:0.5", L_GRR_Client, 1.0, 0.5)
longitudinal_sue = _client("pure:0.5", L_SUE_Client, 1.0, 0.5)
longitudinal_oue = _client("pure:0.5", L_OUE_Client, 1.0, 0.5)
longitudinal_osue = _client("pure:0.5", L_OSUE_Client, 1.0, 0.5)
longitudinal_soue = _client("pure:0.5", L_SOUE_Client, 1.0, 0.5)
d_bit_flip = _client("pure:1", dBitFlipPM_Client, 4, 2, 1.0)


def _tuples(client, doc, cause="", domain=_TUPLE):
    """Return the target of the reports of a user with two attributes of four values each."""

    def run(dataset, size, rng):
        _seed(rng)
        user = [int(value) for value in dataset.ravel()]
        return np.array([client(user, [D, D], 2, 1.0) for _ in range(size)])

    return target("pure:1", cause, doc, **domain)(run)


sampled_attribute = _tuples(
    SMP_GRR_Client, "SMP_GRR_Client: one of two attributes is reported, the whole tuple may change."
)
fake_data_one_attribute = _tuples(
    RSpFD_GRR_Client,
    "RSpFD_GRR_Client: one attribute reported among fake ones; one of two attributes may change.",
    domain={**_ITEM, "size": 2},
)
fake_data = _tuples(
    RSpFD_GRR_Client,
    "RSpFD_GRR_Client: one attribute reported among fake ones; the whole tuple may change.",
    "One of d attributes is reported with the larger parameter ln(d (e^epsilon - 1) + 1), "
    "the others are fake. Amplification by sampling "
    "covers a change in one attribute; where all attributes change, the likelihood ratio of "
    "the old tuple itself is e to the larger "
    "parameter, 1.49 for d = 2 and epsilon = 1.",
)
