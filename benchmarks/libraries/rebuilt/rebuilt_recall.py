"""Algorithms of libraries that no registry offers, rebuilt from their descriptions."""

import sys
from pathlib import Path

import numpy as np
from library_target import target

sys.path.append(str(Path(__file__).resolve().parent))
import rebuilt_algorithms as rebuilt

_LAMBDA = 0.5


@target(
    f"pure:{_LAMBDA}",
    kind="Records",
    size=5,
    low=0,
    high=1,
    categories=True,
    relation="replace-one",
)
def pategan_label(dataset, size, rng):
    """The label that five teachers give a record, with lambda 0.5; one vote may be another."""
    return rebuilt.noisy_label(dataset, _LAMBDA, size, rng)


_NOISE, _CLIP = 2.0, 0.5


@target(
    f"gdp:{2 / _NOISE}", kind="Rows", size=5, features=((-1, 1), (-1, 1)), relation="replace-one"
)
def sprint_gan_gradient(dataset, size, rng):
    """The noisy gradient of a step over five records, clip norm 0.5 and noise 2."""
    rows = np.asarray(dataset, dtype=float).reshape(-1, 2)
    return rebuilt.optimizer_gradient(rows, _CLIP, _NOISE, size, rng)


_MULTIPLIER = 1.0


@target(
    f"gdp:{1 / _MULTIPLIER}", kind="Rows", size=5, features=((-1, 1),) * 4, relation="add-remove"
)
def jax_example_gradient(dataset, size, rng):
    """The noisy gradients of two layers with two weights each, clip norm 1 and multiplier 1; one
    example more or less.
    """
    rows = np.asarray(dataset, dtype=float).reshape(-1, 4)
    return rebuilt.layered_gradient(rows, 1.0, _MULTIPLIER, size, rng)


_RHO, _SHARE = 1.5, 1 / 3


@target(
    f"zcdp:{_RHO * _SHARE}",
    kind="Rows",
    size=8,
    features=((0, 1), (0, 2)),
    categories=(0, 1),
    relation="add-remove",
)
def mst_one_way(dataset, size, rng):
    """The one-way marginals of the MST mechanism, which get a third of 1.5-zCDP, of a table with
    columns of two and three values.
    """
    rows = np.asarray(dataset, dtype=int).reshape(-1, 2)
    return rebuilt.one_way_marginals(rows, (2, 3), _RHO, _SHARE, size, rng)


@target("pure:1", kind="Records", size=8, low=0, high=10, relation="add-remove")
def derived_bins(dataset, size, rng):
    """The bins of a numeric column in [0, 10] of up to 8 rows and a public one, epsilon 1."""
    values = np.append(np.asarray(dataset, dtype=float).ravel(), 5.0)
    return rebuilt.numeric_bins(values, (0.0, 10.0), 8, 1.0, size, rng)


_PARTITIONS = list("abcd")


@target(
    "pure:1",
    batch=256,
    kind="Table",
    columns={"partition": _PARTITIONS, "value": ["v", "w"]},
    size=12,
    user="user",
    per_user=4,
    relation="add-remove:unit=user",
    frame="records",
)
def distinct_values(dataset, size, rng):
    """The noisy number of distinct values of each of four public partitions, epsilon 1; a user may
    contribute one value, and one user, with up to 4 rows, is present or not.
    """
    return rebuilt.distinct_per_key(dataset, _PARTITIONS, 1.0, size, rng)


_EPSILON, _DELTA = 1.0, 1e-3


@target(
    f"approx:{_EPSILON},{_DELTA}",
    kind="Records",
    size=4,
    low=0,
    high=1,
    categories=True,
    relation="replace-one",
)
def discriminator_labels(dataset, size, rng):
    """The labels of four records after noise, epsilon 1 and delta 1e-3; one may be another."""
    return rebuilt.noisy_discriminator_labels(dataset, _EPSILON, _DELTA, size, rng)


@target(
    f"approx:{_EPSILON},{_DELTA}", kind="Records", size=10, low=0, high=1, relation="add-remove"
)
def counters(dataset, size, rng):
    """Two noisy counters, epsilon 1 and delta 1e-3: the traffic of up to 10 users, each at most 1,
    and the number of relays, which no user changes. Counts of 5 each are expected.
    """
    traffic = float(np.sum(np.asarray(dataset, dtype=float)))
    return rebuilt.noisy_counters(
        [traffic, 5.0], [1.0, 0.0], [5.0, 5.0], _EPSILON, _DELTA, size, rng
    )


@target(
    "pure:0.5",
    kind="Rows",
    size=10,
    features=((0, 1), (0, 1), (0, 1)),
    categories=(0, 1, 2),
    relation="replace-one",
)
def privbayes_distributions(dataset, size, rng):
    """The noisy distributions of PrivBayes, epsilon 1, of which they get a half, for 10 rows of
    three binary columns in a fixed network, where a node has one parent at most.
    """
    rows = np.asarray(dataset, dtype=int).reshape(-1, 3)
    return rebuilt.noisy_distributions(rows, (2, 2, 2), ((0, 1), (1, 2)), 0.5, size, rng)
