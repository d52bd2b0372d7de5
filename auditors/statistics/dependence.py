"""Evidence that runs depend on each other, from counts of a cell in groups of runs, such as calls
or processes.

If runs are independent, the count x_i of a cell among the n_i runs of group i is binomial with one
unknown share p. Noise that the runs of a group have in common gives each group a share of its own.

**Theorem.** Let q(x_1), q(x_2 | x_1), ... be fixed predictions of the counts. With probability at
least 1 - alpha, the ratio of q(x_1) ... q(x_m | x_1, ..., x_(m-1)) to the largest binomial
likelihood max_p P_p(x_1, ..., x_m) is below 1/alpha at all m together.

*Proof.* The ratio is at most that to P_p at the true p, which is a nonnegative martingale that
starts at 1. Ville's inequality bounds its maximum. []

An average of ratios, and a product of ratios of independent counts, has the same property. So no
count is too small for the test. The predictions are beta-binomial. Their mean is that of the shares
of the groups before, weighted by precision; their spread exceeds the binomial by factors that are
averaged.

Reference: Wasserman, Ramdas and Balakrishnan (2020) for the maximum in the denominator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, logsumexp, xlogy

from dpwitness.core.protocols.mechanism import FloatArray

# variance of a count beyond the binomial, in units of the binomial variance at the mean size
_EXCESS = 4.0 ** np.arange(-1, 10)


def log_dependence(*sides: ArrayLike) -> float:
    """Return the log-evidence that groups of runs have shares of their own.

    If runs are independent, the result exceeds ln(1/alpha) with probability at most alpha.

    Parameters
    ----------
    *sides : array_like of int
        For each dataset, the counts of each cell (columns) in each group of runs (rows), in the
        order of the runs. Runs on different datasets have different shares, but the same
        dependence.

    Returns
    -------
    float
        Average over cells, over spreads, and over the datasets, each alone and all together.

    Examples
    --------
    >>> round(log_dependence([[50, 50], [49, 51], [52, 48]]), 1) < 0
    True
    >>> round(log_dependence([[8, 0], [0, 8], [8, 0], [0, 8], [8, 0], [0, 8]]), 1) > 20
    True
    """
    tables = [np.asarray(side, dtype=float) for side in sides]
    tables = [table[table.sum(axis=1) > 0] for table in tables]
    tables = [table for table in tables if len(table) > 1]
    if not tables:
        return 0.0
    found = []
    for cell in range(min(table.shape[1] for table in tables)):
        logs = np.array([_log_ratios(table[:, cell], table.sum(axis=1)) for table in tables])
        found += [*logs, logs.sum(axis=0)]
    return mean_evidence(np.concatenate(found).tolist())


def _log_ratios(counts: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the log-ratio of the predictions to the largest binomial likelihood, for
    each spread.
    """
    total, ones = sizes.sum(), counts.sum()
    null = float(xlogy(ones, ones / total) + xlogy(total - ones, 1 - ones / total))
    # 1 / concentration of the shares of groups; at most 10, where shares are near 0 and 1
    within = np.minimum(_EXCESS[:, None] / max(float(sizes.mean()) - 1.0, 1.0), 10.0)
    weights = 1 / (within + 1 / sizes)
    known = 1 + _before(weights)
    mean, spread = (0.5 + _before(weights * counts / sizes)) / known, within + 1 / known
    a, b = mean / spread, (1 - mean) / spread
    return np.asarray((betaln(counts + a, sizes - counts + b) - betaln(a, b)).sum(axis=1) - null)


def _before(values: FloatArray) -> FloatArray:
    """Return the sum of the values before each, along the last axis."""
    return np.asarray(np.cumsum(values, axis=-1) - values)


def mean_evidence(logs: Sequence[float]) -> float:
    """Return the log of the mean of evidence that may depend on each other."""
    return float(logsumexp(logs) - math.log(len(logs)))


def total_evidence(logs: Sequence[float]) -> float:
    """Return the log-evidence of several stages, of which stage k = 1, 2, ... has the weight 1 / (k
    (k + 1)), however many follow.
    """
    weighted = [log - math.log(k * (k + 1)) for k, log in enumerate(logs, start=1)]
    return float(logsumexp(weighted)) if weighted else 0.0
