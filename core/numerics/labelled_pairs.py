"""Neighboring datasets of labeled vectors in which one record is replaced.

The common records either do not change the output or fix its position. The pairs W3 and W4 for
objective perturbation with the logistic loss are here, and the worst response under Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpwitness.core.datasets.datasets import LabelledVectors
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.numerics.losses import Loss
from dpwitness.core.protocols.mechanism import FloatArray

Record = tuple[FloatArray, float]


def axis(dimension: int, length: float = 1.0) -> FloatArray:
    """Return the vector length e1 in R^dimension."""
    out = np.zeros(dimension)
    out[0] = length
    return out


def replaced(
    records: int,
    first: Record,
    second: Record,
    why: str,
    common: Sequence[tuple[FloatArray, float, int]] = (),
    label: float = 1.0,
) -> Pair:
    """Return a pair of datasets with n = `records` that differ in one record, `first` or `second`.

    `common` lists further records with their multiplicities; entries with multiplicity 0 or less
    are dropped. Missing records are filled with x = 0 and label `label`, which change nothing if
    predictions are linear. `why` is the description of the pair.
    """
    entries = [entry for entry in common if entry[2] > 0]
    missing = records - 1 - sum(count for _, _, count in entries)
    if missing > 0:
        entries.append((np.zeros_like(first[0]), label, missing))

    def build(x: FloatArray, y: float) -> LabelledVectors:
        """Return the dataset in which (x, y) is the record that differs."""
        rows = [(x, y, 1), *entries]
        return LabelledVectors(
            [x for x, _, _ in rows], [y for _, y, _ in rows], [count for _, _, count in rows]
        )

    return Pair(build(*first), build(*second), "replace-one", why)


def zero_record_pair(records: int, dimension: int, radius: float = 1.0) -> Pair:
    """Return the pair W3 of the logistic loss: the record radius e1 is replaced by x = 0.

    The determinants of the two Hessians differ most at outputs near 0.
    """
    return replaced(
        records,
        (axis(dimension, radius), 1.0),
        (axis(dimension, 0.0), 1.0),
        "W3: a record against x = 0",
    )


def opposed_records_pair(
    records: int, dimension: int, rate: float, ridge: float, radius: float = 1.0
) -> Pair:
    """Return the pair W4 of the logistic loss for Gamma-norm noise, or W3 if d = 1 or n is too
    small.

    `rate` is the rate of the noise and `ridge` is n times the weight of |w|^2/2. Both refer to
    records of norm 1, which means to the parameter w radius.
    """
    opposing, common_records = 2000, records - 1
    k = 18.0
    # K copies of (t, 0) fix the minimizer at (W, 0), against the ridge and against the opposing
    # records.
    position = math.sqrt(max(0.0, (common_records - opposing - 3.6 * opposing * k) / (3.6 * ridge)))
    if dimension == 1 or position <= 2 * k:
        return zero_record_pair(records, dimension, radius)
    t = 1.278 / position
    copies = round(
        (ridge * position + opposing * (k / position) / (1 + math.exp(-k)))
        * (1 + math.exp(1.278))
        / t
    )
    grid = np.linspace(0.5, 0.999, 5000)
    s = float(grid[np.argmax(rate * grid + np.log1p(grid * (1 - grid) / ridge))])
    first, second, opposing_x = (
        axis(dimension, along)
        for along in (-math.log(s / (1 - s)) / position, -k / position, -k / position)
    )
    first[1], second[1], opposing_x[1] = (
        -math.sqrt(1 - first[0] ** 2),
        math.sqrt(1 - second[0] ** 2),
        math.sqrt(1 - opposing_x[0] ** 2),
    )
    common = [(axis(dimension, radius * t), 1.0, copies), (radius * opposing_x, 1.0, opposing)]
    return replaced(
        records,
        (radius * first, 1.0),
        (radius * second, 1.0),
        f"W4: loss approached at w = {position / radius:.6g} e1",
        common,
    )


def far_response(
    loss: Loss, deviation: float, ridge: float, epsilon: float, radius: float = 1.0
) -> tuple[float, float, float, float]:
    """Return the worst response under Gaussian objective perturbation: (delta, response y, ends of
    the event).

    The pair is R e1 with response y, and R e1 with a response so far away that its slope is +L. Let
    r = R w - y. The noise along e1 is -ridge w - R l'(r) on one dataset and -ridge w - R L on the
    other; the densities carry the factors ridge + R^2 l''(r) and ridge. Losses above epsilon lie
    between two values of w. The search covers the curved part of the Huber loss, |r| <= h, and
    responses y up to eight standard deviations of the minimizer. If no loss exceeds epsilon, the
    returned delta is -1 and y is 0.
    """
    from scipy.special import ndtr

    r = loss.width * np.linspace(-1.0, 1.0, 401)
    slope, steepest = radius * loss.derivative(r, 0.0), radius * loss.lipschitz()
    jacobian = np.log1p(radius**2 * loss.second(r, 0.0) / ridge)
    best = (-1.0, 0.0, 0.0, 0.0)
    for y in np.linspace(0.0, 8 * deviation * radius / ridge, 400):
        w = (y + r) / radius
        near, far = ridge * w + slope, ridge * w + steepest
        above = np.flatnonzero((far**2 - near**2) / (2 * deviation**2) + jacobian > epsilon)
        if len(above) > 0:
            event = above[[0, -1]]
            mass = [-np.diff(ndtr(-side[event] / deviation))[0] for side in (near, far)]
            best = max(
                best,
                (
                    float(mass[0] - math.exp(epsilon) * mass[1]),
                    float(y),
                    float(w[event[0]]),
                    float(w[event[1]]),
                ),
            )
    return best
