"""pure-ldp: clients of local frequency oracles. Their randomness is `random` and `numpy.random`,
both seeded once per call.
"""

import numpy as np
from library_target import seed_numpy, seed_random, target
from pure_ldp.frequency_oracles.apple_cms import CMSClient
from pure_ldp.frequency_oracles.direct_encoding import DEClient
from pure_ldp.frequency_oracles.hadamard_mechanism import HadamardMechClient
from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient
from pure_ldp.frequency_oracles.histogram_encoding import HEClient
from pure_ldp.frequency_oracles.local_hashing import FastLHClient
from pure_ldp.frequency_oracles.rappor import RAPPORClient
from pure_ldp.frequency_oracles.unary_encoding import UEClient

LIBRARY = "pure-ldp"


# two public hash functions into 4 places
_HASHES = [lambda item: int(item) % 4, lambda item: (int(item) // 2 + 1) % 4]
_COMMON = {"index_mapper": lambda item: item}


def _client(make, doc, claim="pure:1", cause="", read=np.array):
    """Return the target of the reports of a client on one of 4 items; `make()` is the client, and
    `read(reports)` are the outputs.
    """

    def run(dataset, size, rng):
        client, item = make(), int(dataset[0])
        seed_random(rng)
        seed_numpy(rng)
        return read([client.privatise(item) for _ in range(size)])

    item = {"kind": "Records", "size": 1, "low": 0, "high": 3, "categories": True}
    return target(claim, cause, doc, **item)(run)


def _pairs(report):
    return [(int(j), int(h)) for j, h in report]


def _rappor():
    client = RAPPORClient(0.0, 4, [_HASHES], num_of_cohorts=1, **_COMMON)
    # each hash function spends half of epsilon
    client.update_params(f=client.convert_eps_to_f(1.0), hash_funcs=[_HASHES])
    return client


unary = _client(
    lambda: UEClient(0.5, 4, use_oue=False, **_COMMON),
    "UEClient, symmetric unary encoding, d = 4, epsilon 0.5.",
    "pure:0.5",
    "In release 1.1.2 the bit of the true item is 1 with probability at least p, since the "
    "other bits' coin is thrown for it too and a 1 "
    "from there is kept: the two probabilities are further apart than epsilon allows. "
    "Release 1.2.0 resets the bit first.",
)
unary_optimised = _client(
    lambda: UEClient(0.5, 4, use_oue=True, **_COMMON),
    "UEClient, optimised unary encoding, d = 4, epsilon 0.5.",
    "pure:0.5",
    "As for the symmetric encoding: in release 1.1.2 the true item's bit keeps a 1 from the "
    "coin of the other bits.",
)
direct = _client(
    lambda: DEClient(1.0, 4, **_COMMON), "DEClient (generalised randomized response), d = 4."
)
histogram_encoding = _client(
    lambda: HEClient(1.0, 4, **_COMMON),
    "HEClient, d = 4: a noisy one-hot vector.",
    cause="Laplace noise is added to zeros and ones as 64-bit floats: the low bits say which entry "
    "was 1.",
)
fast_hashing = _client(
    lambda: FastLHClient(1.0, 4, 8, use_olh=True, **_COMMON),
    "FastLHClient, optimised local hashing with 8 hash functions, d = 4.",
)
count_mean_sketch = _client(
    lambda: CMSClient(1.0, _HASHES, 4),
    "CMSClient with 2 hash functions into 4 places.",
    read=lambda reports: [np.append(bits, which) for bits, which in reports],
)
hadamard_sketch = _client(
    lambda: CMSClient(1.0, _HASHES, 4, is_hadamard=True),
    "CMSClient(is_hadamard=True) with 2 hash functions into 4 places.",
    read=lambda reports: np.array(reports, dtype=np.int64),
)
hadamard_response = _client(
    lambda: HadamardResponseClient(1.0, 4, None, **_COMMON), "HadamardResponseClient, d = 4."
)
hadamard_mechanism = _client(
    lambda: HadamardMechClient(1.0, 4, 2, **_COMMON),
    "HadamardMechClient, d = 4, t = 2: the report with its type.",
    cause="A report is a list where it is truthful and a zip object where it is not: its type says "
    "whether the response was randomized.",
    read=lambda reports: [(type(report).__name__, _pairs(report)) for report in reports],
)
hadamard_mechanism_values = _client(
    lambda: HadamardMechClient(1.0, 4, 2, **_COMMON),
    "HadamardMechClient, d = 4, t = 2: the values of the report alone.",
    read=lambda reports: np.array([np.array(_pairs(report)).ravel() for report in reports]),
)
rappor = _client(
    _rappor,
    "RAPPORClient with f for epsilon 2 (two hash functions into 4 places, one cohort).",
    "pure:2",
    "Bits of the Bloom filter that are 1 are never set to 0: the loop only writes ones. A 0 "
    "at a place rules out every item that hashes "
    "there, which no finite epsilon allows.",
    read=lambda reports: np.array([bits for bits, _ in reports]),
)
