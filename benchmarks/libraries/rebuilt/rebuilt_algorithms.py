"""Algorithms of libraries that no registry offers, each with its fault and as it was repaired.

They are written anew from the descriptions of the algorithms and of the repairs, without code of
the libraries. The environment whose name ends in ``before`` has the fault.
"""

import sys
from statistics import NormalDist

import numpy as np

BEFORE = sys.prefix.rstrip("/").endswith("before")


def noisy_label(votes, parameter, size, rng):
    """Label of PATE-GAN: the majority of the votes after Laplace noise with parameter lambda."""
    scale = parameter if BEFORE else 1 / parameter
    votes = np.asarray(votes).ravel()
    shares = (np.sum(votes == 1) + rng.laplace(0, scale, size)) / len(votes)
    return (shares > 0.5).astype(int)


def clipped(rows, norm):
    """Rows, each scaled down to an L2 norm."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(lengths / norm, 1)


def optimizer_gradient(gradients, clip_norm, noise, size, rng):
    """Noisy sum of clipped gradients of a private optimizer; `noise` is relative to the norm."""
    gradients = np.asarray(gradients, dtype=float)
    deviation = noise * clip_norm * (clip_norm if BEFORE else 1)
    total = clipped(gradients, clip_norm).sum(axis=0)
    return total + rng.normal(0, deviation, (size, len(total)))


def layered_gradient(gradients, clip_norm, multiplier, size, rng):
    """Noisy sums of clipped gradients of two layers of one shape.

    The key of the random numbers of a step is given to both layers, or split between them.
    """
    gradients = np.asarray(gradients, dtype=float)
    total = clipped(gradients, clip_norm).sum(axis=0).reshape(2, -1)
    found = []
    for _ in range(size):
        key = int(rng.integers(2**62))
        keys = [key, key] if BEFORE else [key, key + 1]
        noise = [np.random.default_rng(k).normal(0, 1, total.shape[1]) for k in keys]
        found.append((total + clip_norm * multiplier * np.array(noise)).ravel())
    return np.array(found)


def one_way_marginals(rows, domain, rho, share, size, rng):
    """Noisy counts of the values of each column, with a share of a budget of zCDP."""
    rows = np.asarray(rows, dtype=int)
    sigma = rho * share if BEFORE else np.sqrt(0.5 / (rho * share))
    counts = [np.bincount(column, minlength=n) for column, n in zip(rows.T, domain, strict=True)]
    exact = np.concatenate(counts).astype(float)
    return exact + rng.normal(0, sigma * np.sqrt(len(domain)), (size, len(exact)))


def numeric_bins(values, bounds, cells, epsilon, size, rng):
    """Lower end, median and upper end of the bins of a numeric column.

    The median is that of a histogram with Laplace noise.
    """
    values = np.asarray(values, dtype=float).ravel()
    low, high = (values.min(), values.max()) if BEFORE else bounds
    high = high if high > low else low + 1
    edges = np.linspace(low, high, cells + 1)
    counts = np.histogram(values, edges)[0] + rng.laplace(0, 1 / epsilon, (size, cells))
    sums = np.cumsum(np.maximum(counts, 0), axis=1)
    reached = np.argmax(sums >= sums[:, -1:] / 2, axis=1)
    return np.column_stack([np.full(size, low), edges[reached + 1], np.full(size, high)])


def _one_each(rows, keys, rng):
    """One random row of each key; a key is a tuple of columns."""
    chosen = {}
    for i in rng.permutation(len(rows)):
        chosen.setdefault(tuple(rows[i][key] for key in keys), rows[i])
    return list(chosen.values())


def distinct_per_key(rows, partitions, epsilon, size, rng):
    """Noisy number of distinct values in each public partition; a user may contribute one value."""
    found = []
    for _ in range(size):
        if BEFORE:
            kept = _one_each(_one_each(rows, ("partition", "value"), rng), ("user",), rng)
        else:
            kept = _one_each(_one_each(rows, ("user",), rng), ("partition", "value"), rng)
        counts = [sum(row["partition"] == partition for row in kept) for partition in partitions]
        found.append(np.array(counts) + rng.laplace(0, 1 / epsilon, len(counts)))
    return np.array(found)


def noisy_discriminator_labels(labels, epsilon, delta, size, rng):
    """Labels of a discriminator's batch after noise of the Gaussian mechanism."""
    inner = 1.25 * 10**delta if BEFORE else 1.25 / delta
    scale = np.sqrt(2 * np.log(inner)) / epsilon
    labels = np.asarray(labels, dtype=float).ravel()
    return (labels + rng.normal(0, scale, (size, len(labels))) > 0.5).astype(int)


def _epsilon_of(deviation, sensitivity, delta):
    """Smallest epsilon that the privacy loss of normal noise exceeds with probability `delta`."""
    ratio = sensitivity / deviation
    return max(ratio * (ratio / 2 - NormalDist().inv_cdf(delta)), 0.0)


def noisy_counters(counts, sensitivities, expected, epsilon, delta, size, rng):
    """Counters with normal noise, whose deviation is the same part of each expected count."""
    counts = np.asarray(counts, dtype=float)
    each = delta / len(counts)

    def spent(ratio):
        deviations = [ratio * value for value in expected]
        return sum(
            _epsilon_of(deviation, sensitivity, each) if deviation and sensitivity else 0.0
            for deviation, sensitivity in zip(deviations, sensitivities, strict=True)
        )

    # ratios that spend an equal part of epsilon on each counter limit the search
    parts = epsilon / len(counts)
    limits = [
        4 / 3 * sensitivity / parts * np.sqrt(2 * np.log(1 / each)) / value
        for sensitivity, value in zip(sensitivities, expected, strict=True)
        if BEFORE or sensitivity
    ]
    low, high = min(limits), max(limits)
    if not BEFORE:
        low = min(low, 1e-6)
    if spent(low) <= epsilon:
        high = low
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (low, middle) if spent(middle) <= epsilon else (middle, high)
    return counts + rng.normal(0, 1, (size, len(counts))) * high * np.asarray(expected)


def noisy_distributions(rows, domain, cliques, epsilon, size, rng):
    """Distributions of PrivBayes: shares of the values of each clique, with Laplace noise."""
    rows = np.asarray(rows, dtype=int)
    scale = 2 * len(cliques) / epsilon / (len(rows) if BEFORE else 1)
    found = []
    for clique in cliques:
        sizes = [domain[column] for column in clique]
        cells = np.ravel_multi_index(tuple(rows[:, column] for column in clique), sizes)
        counts = np.bincount(cells, minlength=int(np.prod(sizes)))
        noisy = np.maximum(counts + rng.laplace(0, scale, (size, len(counts))), 0) + 1e-9
        found.append(noisy / noisy.sum(axis=1, keepdims=True))
    return np.concatenate(found, axis=1)
