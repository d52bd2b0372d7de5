"""Neighbouring sets of labelled vectors: one record replaced among records that change nothing, or that hold the output in place.

The pairs W3 and W4 of objective perturbation with the logistic loss, and the response that costs the most in Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpwitness.mechanisms.numerics.losses import Loss
from dpwitness.mechanisms.terms.datasets import LabelledVectors
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.protocol import FloatArray

Record = tuple[FloatArray, float]


def axis(dimension: int, length: float = 1.0) -> FloatArray:
    """The vector length e1."""
    out = np.zeros(dimension)
    out[0] = length
    return out


def replaced(
    records: int, first: Record, second: Record, why: str, common: Sequence[tuple[FloatArray, float, int]] = (), label: float = 1.0
) -> Pair:
    """The pair whose datasets differ in one record, `first` against `second`.

    `common` are records with their numbers, those of number 0 or less left out; what is missing to `records` is filled up with x = 0
    and `label`, which changes nothing where predictions are linear.
    """
    kept = [entry for entry in common if entry[2] > 0]
    rest = records - 1 - sum(count for _, _, count in kept)
    if rest > 0:
        kept.append((np.zeros_like(first[0]), label, rest))

    def build(x: FloatArray, y: float) -> LabelledVectors:
        rows = [(x, y, 1), *kept]
        return LabelledVectors([x for x, _, _ in rows], [y for _, y, _ in rows], [count for _, _, count in rows])

    return Pair(build(*first), build(*second), "replace-one", why)


def lone_record(records: int, dimension: int, radius: float = 1.0) -> Pair:
    """W3 of the logistic loss: radius e1 against x = 0. The determinants differ most at outputs near 0."""
    return replaced(records, (axis(dimension, radius), 1.0), (axis(dimension, 0.0), 1.0), "W3: a record against x = 0")


def opposed_records(records: int, dimension: int, rate: float, ridge: float, radius: float = 1.0) -> Pair:
    """W4 of the logistic loss, for noise of Gamma norm, in d >= 2 where n has room for its common records; otherwise W3.

    `rate` is that of the noise and `ridge` n times the weight of |w|^2/2, both for records of norm 1: of w radius.
    """
    held, room = 2000, records - 1
    k = 18.0
    # K copies of (t, 0) hold the minimiser at (W, 0) against the ridge and `held` copies that push back.
    reach = math.sqrt(max(0.0, (room - held - 3.6 * held * k) / (3.6 * ridge)))
    if dimension == 1 or reach <= 2 * k:
        return lone_record(records, dimension, radius)
    t = 1.278 / reach
    copies = round((ridge * reach + held * (k / reach) / (1 + math.exp(-k))) * (1 + math.exp(1.278)) / t)
    grid = np.linspace(0.5, 0.999, 5000)
    s = float(grid[np.argmax(rate * grid + np.log1p(grid * (1 - grid) / ridge))])
    first, second, push = (axis(dimension, along) for along in (-math.log(s / (1 - s)) / reach, -k / reach, -k / reach))
    first[1], second[1], push[1] = -math.sqrt(1 - first[0] ** 2), math.sqrt(1 - second[0] ** 2), math.sqrt(1 - push[0] ** 2)
    common = [(axis(dimension, radius * t), 1.0, copies), (radius * push, 1.0, held)]
    return replaced(records, (radius * first, 1.0), (radius * second, 1.0), f"W4: loss approached at w = {reach / radius:.6g} e1", common)


def far_response(loss: Loss, deviation: float, ridge: float, epsilon: float, radius: float = 1.0) -> tuple[float, float, float, float]:
    """(delta reached, response y, ends of the event) of objective perturbation with Gaussian noise, for R e1 against slope +L there.

    With r = R w - y the noise along e1 is -ridge w - R l'(r) on one dataset and -ridge w - R L on the other, and the densities carry
    ridge + R^2 l''(r) and ridge: losses above epsilon lie between two w. They are looked for where the Huber loss is curved, |r| <= h,
    and the response y over eight standard deviations of the minimiser. Negative, at y = 0, where no loss is above epsilon.
    """
    from scipy.special import ndtr

    r = loss.width * np.linspace(-1.0, 1.0, 401)
    slope, most = radius * loss.derivative(r, 0.0), radius * loss.lipschitz()
    jacobian = np.log1p(radius**2 * loss.second(r, 0.0) / ridge)
    best = (-1.0, 0.0, 0.0, 0.0)
    for y in np.linspace(0.0, 8 * deviation * radius / ridge, 400):
        w = (y + r) / radius
        near, far = ridge * w + slope, ridge * w + most
        above = np.flatnonzero((far**2 - near**2) / (2 * deviation**2) + jacobian > epsilon)
        if len(above) > 0:
            ends = above[[0, -1]]
            mass = [-np.diff(ndtr(-side[ends] / deviation))[0] for side in (near, far)]
            best = max(best, (float(mass[0] - math.exp(epsilon) * mass[1]), float(y), float(w[ends[0]]), float(w[ends[1]])))
    return best
