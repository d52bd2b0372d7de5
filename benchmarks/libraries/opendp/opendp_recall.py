"""OpenDP from release 0.12 on: measurements as its documentation calls them; each claim is what the
privacy map says.
"""

import functools
import operator

import numpy as np
import opendp.prelude as dp
from library_target import target
from opendp.mod import OpenDPException

LIBRARY = "opendp"

dp.enable_features("contrib", "honest-but-curious", "floating-point")


def _mapped(build):
    return lambda: f"pure:{build().map(1)!r}"


@functools.cache
def _bitvec():
    return dp.m.make_randomized_response_bitvec(
        dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f=0.5
    )


@target(_mapped(_bitvec), kind="Records", size=1, low=0, high=7, categories=True, seeded=False)
def bitvec(dataset, size, rng):
    """make_randomized_response_bitvec with f = 0.5 of one of eight categories as a vector with one
    bit.
    """
    bits = np.zeros(8, dtype=np.uint8)
    bits[int(dataset[0])] = 1
    packed = np.packbits(bits).tobytes()
    return np.array(
        [np.unpackbits(np.frombuffer(_bitvec()(packed), dtype=np.uint8)) for _ in range(size)]
    )


@functools.cache
def _laplace():
    return dp.m.make_laplace(
        dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=1.0
    )


@target(_mapped(_laplace), kind="Counts", length=1, low=0, high=100, seeded=False)
def laplace_integers(dataset, size, rng):
    """make_laplace with scale 1 on integers, one coordinate a run."""
    return np.array(_laplace()([int(dataset[0])] * size))


@functools.cache
def _float_sum():
    space = dp.vector_domain(dp.atom_domain(T=float)), dp.symmetric_distance()
    steps = (
        dp.t.then_clamp((0.0, 1.0)),
        dp.t.then_resize(5, constant=0.0),
        dp.t.then_sum(),
        dp.m.then_laplace(scale=1.0),
    )
    try:
        return functools.reduce(operator.rshift, steps, space)
    except OpenDPException:  # the documentation's step for a domain that the library says holds NaN
        return functools.reduce(operator.rshift, steps, space >> dp.t.then_impute_constant(0.0))


@target(
    _mapped(_float_sum),
    kind="Records",
    size=5,
    low=0,
    high=1,
    missing=True,
    relation="add-remove",
    seeded=False,
)
def float_sum(dataset, size, rng):
    """Clamp to [0, 1], resize to 5 and sum a list of floats, with Laplace noise of scale 1."""
    rows = [float(value) for value in dataset]
    return np.array([_float_sum()(rows) for _ in range(size)])


@functools.cache
def _threshold():
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    return space >> dp.t.then_count_by() >> dp.m.then_laplace_threshold(scale=1.0, threshold=5)


def _threshold_claim():
    epsilon, delta = _threshold().map(1)
    return f"approx:{epsilon!r},{delta!r}"


@target(
    _threshold_claim,
    kind="Records",
    size=4,
    low=0,
    high=2,
    categories=True,
    relation="add-remove",
    seeded=False,
)
def thresholded_counts(dataset, size, rng):
    """Counts of the keys that occur among up to four rows, released by
    make_laplace_threshold(scale=1, threshold=5).
    """
    rows = [int(value) for value in dataset]
    found = [_threshold()(rows) for _ in range(size)]
    return [[release.get(key) for key in range(3)] for release in found]


@functools.cache
def _eigenvector():
    from opendp.extras.numpy import _sscp_domain
    from opendp.extras.sklearn._make_eigenvector import make_private_eigenvector

    return make_private_eigenvector(
        _sscp_domain(norm=1.0, p=2, num_features=2), dp.symmetric_distance(), unit_epsilon=2.0
    )


@target(
    _mapped(_eigenvector),
    kind="Rows",
    size=6,
    features=((-0.7, 0.7), (-0.7, 0.7)),
    relation="add-remove",
    seeded=False,
)
def eigenvector(dataset, size, rng):
    """make_private_eigenvector(unit_epsilon=2) of the squares and products of up to six rows of
    norm at most 1; its sign is arbitrary.

    Two public rows keep the matrix positive definite, despite rounding, and its eigenvalues apart:
    the library refuses equal ones.
    """
    rows = np.concatenate([np.diag([0.5, 0.3]), np.asarray(dataset, dtype=float).reshape(-1, 2)])
    return np.abs([_eigenvector()(rows.T @ rows) for _ in range(size)])
