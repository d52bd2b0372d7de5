"""pure-ldp: clients of local frequency oracles. Their randomness is `random` and `numpy.random`,
both seeded once per call.
"""

import random

import numpy as np
from pure_ldp.frequency_oracles.apple_cms import CMSClient
from pure_ldp.frequency_oracles.direct_encoding import DEClient
from pure_ldp.frequency_oracles.hadamard_mechanism import HadamardMechClient
from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient
from pure_ldp.frequency_oracles.histogram_encoding import HEClient
from pure_ldp.frequency_oracles.local_hashing import FastLHClient
from pure_ldp.frequency_oracles.rappor import RAPPORClient
from pure_ldp.frequency_oracles.unary_encoding import UEClient

LIBRARY = "pure-ldp"
TESTED = ">=1.1.2,<1.3"
INSTALL = (
    "pip install numpy scipy scikit-learn xxhash bitarray && pip install --no-deps pure-ldp==1.2.0"
)


def _target(claim, cause="", d=4):
    def declare(function):
        function.claim, function.cause = claim, cause
        function.domain = {
            "kind": "Records",
            "size": 1,
            "low": 0,
            "high": d - 1,
            "categories": True,
        }
        return function

    return declare


def _index(item):
    return item


def _reports(client, dataset, size, rng):
    random.seed(int(rng.integers(2**63)))
    np.random.seed(int(rng.integers(2**32)))
    item = int(dataset[0])
    return [client.privatise(item) for _ in range(size)]


# two public hash functions into 4 places
_HASHES = [lambda item: int(item) % 4, lambda item: (int(item) // 2 + 1) % 4]


@_target(
    "pure:0.5",
    "In release 1.1.2 the bit of the true item is 1 with probability at least p, since the "
    "other bits' coin is thrown for it too and a 1 "
    "from there is kept: the two probabilities are further apart than epsilon allows. "
    "Release 1.2.0 resets the bit first.",
)
def unary(dataset, size, rng):
    """UEClient, symmetric unary encoding, d = 4, epsilon 0.5."""
    return np.array(
        _reports(UEClient(0.5, 4, use_oue=False, index_mapper=_index), dataset, size, rng)
    )


@_target(
    "pure:0.5",
    "As for the symmetric encoding: in release 1.1.2 the true item's bit keeps a 1 from the "
    "coin of the other bits.",
)
def unary_optimised(dataset, size, rng):
    """UEClient, optimised unary encoding, d = 4, epsilon 0.5."""
    return np.array(
        _reports(UEClient(0.5, 4, use_oue=True, index_mapper=_index), dataset, size, rng)
    )


@_target("pure:1")
def direct(dataset, size, rng):
    """DEClient (generalised randomized response), d = 4."""
    return np.array(_reports(DEClient(1.0, 4, index_mapper=_index), dataset, size, rng))


@_target(
    "pure:1",
    "Laplace noise is added to zeros and ones as 64-bit floats: the low bits say which entry "
    "was 1.",
)
def histogram_encoding(dataset, size, rng):
    """HEClient, d = 4: a noisy one-hot vector."""
    return np.array(_reports(HEClient(1.0, 4, index_mapper=_index), dataset, size, rng))


@_target("pure:1")
def fast_hashing(dataset, size, rng):
    """FastLHClient, optimised local hashing with 8 hash functions, d = 4."""
    return np.array(
        _reports(FastLHClient(1.0, 4, 8, use_olh=True, index_mapper=_index), dataset, size, rng)
    )


@_target("pure:1")
def count_mean_sketch(dataset, size, rng):
    """CMSClient with 2 hash functions into 4 places."""
    return [
        np.append(bits, which)
        for bits, which in _reports(CMSClient(1.0, _HASHES, 4), dataset, size, rng)
    ]


@_target("pure:1")
def hadamard_sketch(dataset, size, rng):
    """CMSClient(is_hadamard=True) with 2 hash functions into 4 places."""
    return np.array(
        _reports(CMSClient(1.0, _HASHES, 4, is_hadamard=True), dataset, size, rng), dtype=np.int64
    )


@_target("pure:1")
def hadamard_response(dataset, size, rng):
    """HadamardResponseClient, d = 4."""
    return np.array(
        _reports(HadamardResponseClient(1.0, 4, None, index_mapper=_index), dataset, size, rng)
    )


@_target(
    "pure:1",
    "A report is a list where it is truthful and a zip object where it is not: its type says "
    "whether the response was randomized.",
)
def hadamard_mechanism(dataset, size, rng):
    """HadamardMechClient, d = 4, t = 2: the report with its type."""
    reports = _reports(HadamardMechClient(1.0, 4, 2, index_mapper=_index), dataset, size, rng)
    return [(type(report).__name__, [(int(j), int(h)) for j, h in report]) for report in reports]


@_target("pure:1")
def hadamard_mechanism_values(dataset, size, rng):
    """HadamardMechClient, d = 4, t = 2: the values of the report alone."""
    reports = _reports(HadamardMechClient(1.0, 4, 2, index_mapper=_index), dataset, size, rng)
    return np.array([np.array([(int(j), int(h)) for j, h in report]).ravel() for report in reports])


@_target(
    "pure:2",
    "Bits of the Bloom filter that are 1 are never set to 0: the loop only writes ones. A 0 "
    "at a place rules out every item that hashes "
    "there, which no finite epsilon allows.",
)
def rappor(dataset, size, rng):
    """RAPPORClient with f for epsilon 2 (two hash functions into 4 places, one cohort)."""
    client = RAPPORClient(0.0, 4, [_HASHES], num_of_cohorts=1, index_mapper=_index)
    # each hash function spends half of epsilon
    client.update_params(f=client.convert_eps_to_f(1.0), hash_funcs=[_HASHES])
    return np.array([bits for bits, _ in _reports(client, dataset, size, rng)])
