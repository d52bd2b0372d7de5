"""Mechanisms whose claims hold with equality, for every kind of claim and output, to count false
alarms.

Each is a plain function of (dataset, size, rng), so that a worker process can build it by name.
The datasets are [0] and [1], or pairs that a search finds in a domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq
from scipy.stats import norm

from dpwitness import Pair
from dpwitness import mechanisms as m
from dpwitness.core.claims import Claim
from dpwitness.core.domains import Domain
from dpwitness.mechanisms import GDP, RDP, ZCDP, ApproxDP, PureDP, Records

PAIR = Pair(np.array([0.0]), np.array([1.0]))
GRID = 2.0**20


@dataclass(frozen=True, slots=True)
class Specimen:
    """Mechanism at its exact privacy parameter.

    `outputs` names the kind of output for the table. If `target` names a mechanism in
    `TARGET_FILE`, workers run it instead of `run`. If `domain` is given, the audit searches pairs
    in it instead of using `pair`.
    """

    outputs: str
    claim: Claim
    run: Any
    pair: Any = PAIR
    target: str = ""
    domain: Domain | None = None


def laplace(epsilon: float) -> Callable[..., Any]:
    """Return Laplace noise on a grid, so that low-order bits leak nothing."""
    return lambda data, size, rng: (
        np.round(rng.laplace(scale=1 / epsilon, size=size) * GRID) / GRID + data[0]
    )


def gaussian(mu: float, width: int = 1) -> Callable[..., Any]:
    """Return Gaussian noise of scale 1 / mu on a shift of 1, spread over `width` coordinates."""

    def run(data: Any, size: int, rng: Generator) -> Any:
        values = data[0] / math.sqrt(width) + rng.standard_normal((size, width)) / mu
        return values[:, 0] if width == 1 else values

    return run


def gaussian_shift(epsilon: float, delta: float) -> float:
    """Return the largest mu at which a Gaussian shift is (epsilon, delta)-DP."""

    def excess(mu: float) -> float:
        return (
            float(
                norm.cdf(mu / 2 - epsilon / mu)
                - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
            )
            - delta
        )

    return float(brentq(excess, 1e-3, 60.0))


def _random_bits(data: Any, size: int, rng: Generator, epsilon: float = 1.0) -> Any:
    """Return randomized response: the true bit with odds e^epsilon."""
    truth = int(data[0] > 0)
    return np.where(rng.random(size) < 1 / (1 + math.exp(-epsilon)), truth, 1 - truth)


def _words(data: Any, size: int, rng: Generator) -> list[Any]:
    """Return randomized response with words as outputs."""
    return [("yes", "no")[bit] for bit in _random_bits(data, size, rng).tolist()]


def _raises_word(data: Any, size: int, rng: Generator) -> list[Any]:
    """Return randomized response in which one answer is an exception, for single runs
    or batches.
    """
    if np.any(_random_bits(data, size, rng)):
        raise KeyError("no")
    return ["yes"] * size


def _overflows(data: Any, size: int, rng: Generator) -> Any:
    """Return Laplace noise that raises OverflowError above 4; the exception is part of the output,
    by post-processing.
    """
    values = laplace(1.0)(data, size, rng)
    if np.any(values > 4.0):
        raise OverflowError("too large")
    return values


def _mixed_types(data: Any, size: int, rng: Generator) -> list[Any]:
    """Return a number, None or a word, depending on the range of the noisy value."""
    values = laplace(1.0)(data, size, rng)
    return [None if v < -0.5 else "large" if v > 1.5 else float(v) for v in values.tolist()]


def _records(data: Any, size: int, rng: Generator) -> list[Any]:
    """Return randomized response inside dictionaries."""
    return [
        {"answer": int(b), "noise": (int(n), "unit")}
        for b, n in zip(_random_bits(data, size, rng), rng.integers(0, 3, size), strict=True)
    ]


def _lengths(data: Any, size: int, rng: Generator) -> list[Any]:
    """Return lists whose length is a discrete Laplace count."""
    share = 1 - math.exp(-1.0)
    counts = np.clip(
        6 + int(data[0]) + rng.geometric(share, size) - rng.geometric(share, size), 0, 12
    )
    return [[0.5] * int(count) for count in counts]


def _categories(data: Any, size: int, rng: Generator) -> Any:
    """Return randomized response over 20 values: the true value has odds e against each other
    value.
    """
    k, truth = 20, 3 + int(data[0])
    others = rng.integers(0, k - 1, size)
    return np.where(rng.random(size) < math.e / (math.e + k - 1), truth, others + (others >= truth))


def _tight_approx_dp(epsilon: float, delta: float, raises: bool = False) -> Callable[..., Any]:
    """Return the mechanism that outputs the data with probability delta, else randomized response.

    This law is the worst case of (epsilon, delta)-DP.
    """

    def run(data: Any, size: int, rng: Generator) -> Any:
        revealed, bits = rng.random(size) < delta, _random_bits(data, size, rng, epsilon)
        if raises and data[0] > 0 and revealed.any():
            raise ValueError("told")
        return np.where(revealed, 2 + int(data[0] > 0), bits)

    return run


def _renyi_of_bits(epsilon: float, order: float) -> float:
    """Return the Renyi divergence of randomized response."""
    p = 1 / (1 + math.exp(-epsilon))
    return math.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)) / (
        order - 1
    )


def _renyi_of_laplace(epsilon: float, order: float) -> float:
    """Return the Renyi divergence of the Laplace mechanism."""
    a = order
    return math.log(
        a / (2 * a - 1) * math.exp((a - 1) * epsilon)
        + (a - 1) / (2 * a - 1) * math.exp(-a * epsilon)
    ) / (a - 1)


def _zcdp_of_bits(epsilon: float) -> float:
    """Return the tight zCDP parameter of randomized response."""
    orders = np.concatenate([1 + np.geomspace(1e-6, 1, 400), np.linspace(2, 60, 400)])
    return max(float(_renyi_of_bits(epsilon, order) / order) for order in orders.tolist())


def _of_sum(run: Callable[..., Any]) -> Callable[..., Any]:
    """Apply a mechanism to the sum of the records."""
    return lambda data, size, rng: run([float(np.sum(data))], size, rng)


def _noisy_histogram(data: Any, size: int, rng: Generator) -> Any:
    """Return counts of the values 0, 1 and 2 with Laplace noise of scale 2 on a grid; a replaced
    record changes two counts by 1.
    """
    counts = np.bincount(np.asarray(data, dtype=int), minlength=3)
    return np.round(rng.laplace(scale=2.0, size=(size, 3)) * GRID) / GRID + counts


def _searched_specimens() -> dict[str, Specimen]:
    """Return the specimens whose audits search pairs. In each domain some pair attains
    the claim.
    """
    sums, bits = Records(size=3, low=0.0, high=1.0), Records(size=4, low=0, high=1, integer=True)
    mu = gaussian_shift(1.0, 1e-3)
    entries = {
        "Laplace of a sum": Specimen("floats", PureDP(1.0), _of_sum(laplace(1.0)), domain=sums),
        "noisy histogram": Specimen(
            "vectors",
            PureDP(1.0),
            _noisy_histogram,
            domain=Records(size=4, low=0, high=2, integer=True),
        ),
        "number, None or word of a sum": Specimen(
            "mixed", PureDP(1.0), _of_sum(_mixed_types), domain=sums
        ),
        "noisy length of a count": Specimen("lengths", PureDP(1.0), _of_sum(_lengths), domain=bits),
        "Gaussian of a sum, delta .001": Specimen(
            "floats", ApproxDP(1.0, 1e-3), _of_sum(gaussian(mu)), domain=sums
        ),
        "Gaussian of a sum": Specimen("floats", GDP(1.0), _of_sum(gaussian(1.0)), domain=sums),
        "Gaussian of a sum, 4 columns": Specimen(
            "vectors", GDP(1.0), _of_sum(gaussian(1.0, 4)), domain=sums
        ),
        "Gaussian of a sum, zCDP": Specimen(
            "floats", ZCDP(0.5), _of_sum(gaussian(1.0)), domain=sums
        ),
        "Gaussian of a sum, RDP": Specimen(
            "floats", RDP(2.0, 1.0), _of_sum(gaussian(1.0)), domain=sums
        ),
    }
    for name in ("noisy-max", "randomized-response-5", "above-threshold"):
        specimen = m.zoo()[name]
        entries[name] = Specimen("zoo", specimen.claim, specimen, domain=specimen.domain)
    return {f"{name}, pairs searched": specimen for name, specimen in entries.items()}


def specimens() -> dict[str, Specimen]:
    """Return all specimens by name."""
    pairs = [PAIR, Pair(np.array([0.0]), np.array([0.5])), Pair(np.array([1.0]), np.array([0.0]))]
    entries = {
        "Laplace": Specimen("floats", PureDP(1.0), laplace(1.0)),
        "Laplace, three pairs": Specimen("floats", PureDP(1.0), laplace(1.0), pairs),
        "Laplace vector of 20": Specimen(
            "vectors", PureDP(1.0), m.LaplaceVector(1.0), m.LaplaceVector(1.0).spread_pair()
        ),
        "randomized response": Specimen("atoms", PureDP(1.0), _random_bits),
        "randomized response, 20 values": Specimen("atoms", PureDP(1.0), _categories),
        "words": Specimen("strings", PureDP(1.0), _words),
        "a word or an exception": Specimen("exceptions", PureDP(1.0), _raises_word),
        "Laplace, overflow beyond 4": Specimen("exceptions", PureDP(1.0), _overflows),
        "number, None or word": Specimen("mixed", PureDP(1.0), _mixed_types),
        "dictionaries": Specimen("mixed", PureDP(1.0), _records),
        "lists of noisy length": Specimen("lengths", PureDP(1.0), _lengths),
        "data with probability .01": Specimen(
            "atoms", ApproxDP(1.0, 0.01), _tight_approx_dp(1.0, 0.01)
        ),
        "exception with probability .005": Specimen(
            "exceptions", ApproxDP(0.5, 0.005), _tight_approx_dp(0.5, 0.005, raises=True)
        ),
        "Gaussian, delta .01": Specimen(
            "floats", ApproxDP(1.0, 0.01), gaussian(gaussian_shift(1.0, 0.01))
        ),
        "Gaussian, delta 1e-5": Specimen(
            "floats", ApproxDP(2.0, 1e-5), gaussian(gaussian_shift(2.0, 1e-5))
        ),
        "Gaussian, delta .001, 5 columns": Specimen(
            "vectors", ApproxDP(1.0, 1e-3), gaussian(gaussian_shift(1.0, 1e-3), 5)
        ),
        "Gaussian": Specimen("floats", GDP(1.0), gaussian(1.0)),
        "Gaussian, 8 columns": Specimen("vectors", GDP(0.5), gaussian(0.5, 8)),
        "sign of a Gaussian": Specimen(
            "atoms", GDP(2.0), lambda d, size, rng: (gaussian(2.0)(d, size, rng) > 0.5).astype(int)
        ),
        "Gaussian, zCDP": Specimen("floats", ZCDP(0.5), gaussian(1.0)),
        "randomized response, zCDP": Specimen("atoms", ZCDP(_zcdp_of_bits(1.0)), _random_bits),
        "Gaussian, RDP": Specimen("floats", RDP(2.0, 1.0), gaussian(1.0)),
        "randomized response, RDP": Specimen(
            "atoms", RDP(3.0, _renyi_of_bits(1.0, 3.0)), _random_bits
        ),
        "Laplace, RDP": Specimen("floats", RDP(4.0, _renyi_of_laplace(1.0, 4.0)), laplace(1.0)),
        "words, RDP": Specimen("strings", RDP(2.0, _renyi_of_bits(1.0, 2.0)), _words),
        "worker: words": Specimen("workers", PureDP(1.0), None, target="words"),
        "worker: a word or an exception": Specimen("workers", PureDP(1.0), None, target="raises"),
        "worker: Gaussian": Specimen("workers", GDP(1.0), None, target="noise"),
    }
    for name in (
        "exponential",
        "permute-and-flip",
        "above-threshold",
        "noisy-max",
        "truncated-geometric",
        "randomized-response-5",
    ):
        found = m.zoo()[name]
        entries[name] = Specimen("zoo", found.claim, found, found.worst_pair())
    return entries | _searched_specimens()


TARGET_FILE = """
import math

import numpy as np


def _bits(data, size, rng):
    truth = int(data[0] > 0)
    return np.where(rng.random(size) < 1 / (1 + math.exp(-1.0)), truth, 1 - truth)


def words(data, size, rng):
    return [("yes", "no")[b] for b in _bits(data, size, rng).tolist()]


def raises(data, size, rng):
    bits = _bits(data, size, rng)
    if bits.any():
        raise KeyError("no")
    return ["yes"] * size


def noise(data, size, rng):
    return data[0] + rng.standard_normal(size)


words.claim = raises.claim = "pure:1"
noise.claim = "gdp:1"
words.domain = raises.domain = noise.domain = {"kind": "Records", "size": 1}
"""
