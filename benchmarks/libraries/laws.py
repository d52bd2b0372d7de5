"""Exact privacy loss laws of third-party mechanisms on a pair of datasets, from which the limit of
an audit's bound is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from scipy.special import expit

from dpwitness.auditors.density.known_laws import cells, finite, laplace_cdf
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray

Law = Callable[[Pair], LossLaw | None]


def additive(
    noise: Callable[[float], LossLaw], value: Callable[[Any], float], scale: float = 1.0
) -> Law:
    """Return the privacy loss law of noise added to one number: `noise` at the distance of the two
    values, in units of `scale`.
    """
    return lambda pair: noise((value(pair.d1) - value(pair.d0)) / scale)


def response(categories: int, epsilon: float) -> Law:
    """Return the law of generalized randomized response: the true category is e^epsilon times as
    likely as any other.
    """
    truthful = math.exp(epsilon) / (math.exp(epsilon) + categories - 1)
    lie = (1 - truthful) / (categories - 1)
    rest = 1 - truthful - lie
    return lambda pair: finite([truthful, lie, rest], [lie, truthful, rest])


def unary_encoding_law(p: float, q: float) -> Law:
    """Return the law of unary encoding: the item's bit is 1 with probability p, every other bit
    with q.

    Only two bits have different probabilities for two items.
    """
    outcomes = list(product((0, 1), repeat=2))

    def mass(first: float, second: float) -> list[float]:
        return [(first if a else 1 - first) * (second if b else 1 - second) for a, b in outcomes]

    return lambda pair: finite(mass(p, q), mass(q, p))


def decision_tree(pair: Pair) -> LossLaw | None:
    """Return the law of permute-and-flip between two labels in one leaf.

    None if the rows can be in different leaves; the rows are in one leaf for every threshold if all
    features are 0 or all are 1.
    """
    for x in (0.0, 1.0):
        if all(len(d) and np.all(d[:, 0] == x) for d in (pair.d0, pair.d1)):
            sides = []
            for d in (pair.d1, pair.d0):
                lead = float(np.sum(d[:, 1] == 1) - np.sum(d[:, 1] == 0))
                behind = 0.5 * math.exp(-abs(lead))
                sides.append([behind, 1 - behind] if lead > 0 else [1 - behind, behind])
            return finite(*sides)
    return None


def logistic_regression(pair: Pair) -> LossLaw:
    """Return the law of diffprivlib's objective perturbation with one feature, data norm R = 100, C
    = 1 and epsilon = 1.

    The noise b is Laplace of scale 2 R / (epsilon / 2); with c R = R / 4 the extra weight is R / 4
    / expm1(epsilon / 4) - 1 (for n rows together). The minimizer w solves b = -(sum of gradients at
    w) - weight w, which decreases in w.
    """
    scale, weight = 400.0, 25.0 / math.expm1(0.25)
    grid = np.concatenate(
        [
            np.linspace(-60, -0.5, 2000),
            np.linspace(-0.5, 0.5, 4001)[1:-1],
            np.linspace(0.5, 60, 2000),
        ]
    )

    def cdf(rows: FloatArray) -> FloatArray:
        x, y = rows[:, 0], rows[:, 1]
        gradient = ((expit(np.outer(grid, x)) - y) * x).sum(axis=1)
        return 1 - laplace_cdf(-(gradient + weight * grid) / scale)

    return cells(cdf(pair.d1), cdf(pair.d0))


def linear_regression(pair: Pair) -> LossLaw:
    """Return the law of diffprivlib's functional mechanism with one feature in [0.1, 1] and a
    response in [0, 1].

    The release is w = c1 / c2 with noisy sums. c1 = sum x y has Laplace noise of scale 3, and c2 =
    sum x^2 has Laplace noise of scale 0.03, folded at 0 (epsilon = 1 in three parts).
    """
    grid = np.concatenate([-np.geomspace(1e4, 1e-4, 1500), [0.0], np.geomspace(1e-4, 1e4, 1500)])
    noise = np.linspace(-0.45, 0.45, 1801)  # 15 scales on each side
    mass = np.exp(-np.abs(noise) / 0.03)
    mass /= mass.sum()

    def cdf(rows: FloatArray) -> FloatArray:
        x, y = rows[:, 0], rows[:, 1]
        second = np.abs((x**2).sum() + noise)
        return laplace_cdf((np.outer(grid, second) - (x * y).sum()) / 3.0) @ mass

    return cells(cdf(pair.d1), cdf(pair.d0))
