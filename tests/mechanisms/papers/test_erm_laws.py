"""Each sampler against its own density: the density integrates to 1, and the runs fall into its
cells as often as it says.

Cells are polar about the minimiser, where the printed noise has its singularity: its density times
the radius is smooth.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import beta, chi, expon, gamma, kstest

from dpwitness import mechanisms as m
from dpwitness.core.numerics.noise import SphericalNoise
from dpwitness.core.numerics.solvers import Problem, minimise
from dpwitness.mechanisms import LabelledVectors, Loss
from dpwitness.mechanisms.papers.logistic import QuadraticPenalty

LINE = LabelledVectors([[0.9], [-0.4], [1.0], [0.0]], [1, 1, -1, 1], [3, 2, 1, 1])
PLANE = LabelledVectors(
    [[0.9, 0.1], [-0.4, 0.7], [0.3, -0.9], [0.0, 0.0]], [1, 1, -1, 1], [3, 2, 1, 1]
)

PIECES = 5
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def cells(log_density, center, edges, sectors=8):
    """Probability of each (radial, angular) cell about `center`; the last radial cell reaches to
    infinity. r = e^t on each cell.
    """
    d = len(center)
    inner = np.log(edges)
    bounds = [(inner[0] - 40.0 / d, inner[0]), *pairwise(inner)]
    bounds += [(inner[-1] + k / 2, inner[-1] + (k + 1) / 2) for k in range(8)]
    if d == 1:
        directions, angle_weight, count = np.array([[1.0], [-1.0]]), np.ones(2), 2
    else:
        # Far out the density turns over an angle of 1/r, hence the finer pieces.
        width = 2 * np.pi / (PIECES * sectors)
        angles = (
            np.arange(PIECES * sectors)[:, None] * width + width / 2 * (1 + NODES[None, :])
        ).ravel()
        directions, angle_weight = (
            np.column_stack([np.cos(angles), np.sin(angles)]),
            np.tile(width / 2 * WEIGHTS, PIECES * sectors),
        )
        count = sectors
    masses = []
    for low, high in bounds:
        # kinks of the smoothed Huber loss need short pieces
        pieces = math.ceil((high - low) * (8 if d == 1 else 1))
        t = np.concatenate(
            [low + (high - low) / pieces * (k + 0.5 * (1 + NODES)) for k in range(pieces)]
        )
        t_weight = np.tile(0.5 * (high - low) / pieces * WEIGHTS, pieces)
        points = center + (np.exp(t)[:, None, None] * directions[None, :, :])
        density = (
            np.exp(log_density(points.reshape(-1, d))).reshape(len(t), -1) * np.exp(d * t)[:, None]
        )
        masses.append(
            ((density * t_weight[:, None]).sum(axis=0) * angle_weight)
            .reshape(count, -1)
            .sum(axis=1)
        )
    table = np.array(masses)
    return np.vstack([table[: len(edges)], table[len(edges) :].sum(axis=0)])


def counts(rows, center, edges, sectors=8):
    away = rows - center
    radius = np.searchsorted(edges, np.linalg.norm(away, axis=1))
    if len(center) == 1:
        return np.histogram2d(radius, away[:, 0] < 0, bins=[np.arange(len(edges) + 2), [0, 1, 2]])[
            0
        ]
    angle = np.floor(np.arctan2(away[:, 1], away[:, 0]) % (2 * np.pi) / (2 * np.pi / sectors))
    return np.histogram2d(
        radius,
        np.minimum(angle, sectors - 1),
        bins=[np.arange(len(edges) + 2), np.arange(sectors + 1)],
    )[0]


def cases():
    for noise in ("gamma", "laplace_radius_scale", "laplace_radius_std"):
        yield f"output-{noise}", m.LogisticOutputPerturbation(0.7, 0.05, noise)
        yield f"objective-{noise}", m.LogisticObjectivePerturbation(0.7, 0.05, noise)
        yield (
            f"convex-{noise}",
            m.ConvexObjectivePerturbation(
                0.7, 1.0, Loss("log-cosh", width=0.4), QuadraticPenalty(0.8), noise
            ),
        )
    yield "corrected", m.LogisticObjectivePerturbation(3.0, 0.05, corrected=True)
    yield "corrected-with-ridge", m.LogisticObjectivePerturbation(0.3, 0.05, corrected=True)
    for noise in ("gamma", "gaussian", "laplace_radius"):
        delta = 1e-3 if noise == "gaussian" else 0.0
        yield (
            f"glm-output-{noise}",
            m.GLMOutputPerturbation(
                loss=Loss("absolute"), epsilon=1.0, delta=delta, regularization=2.0, noise=noise
            ),
        )
        if noise == "laplace_radius":
            continue
        for repaired in (False, True):
            for name in ("logistic", "smoothed-huber", "linear"):
                loss = Loss(name, smoothing=1.0, scale=0.8)
                kwargs = {
                    "loss": loss,
                    "epsilon": 1.5,
                    "delta": delta,
                    "regularization": 3.0,
                    "noise": noise,
                    "repaired": repaired,
                }
                yield (
                    f"glm-objective-{noise}-{name}-{repaired}",
                    m.GLMObjectivePerturbation(**kwargs),
                )


def minimiser(mechanism, data):
    if isinstance(mechanism, m.LogisticOutputPerturbation | m.LogisticObjectivePerturbation):
        return minimise(mechanism._risk(data)[0]).w
    ridge = (
        mechanism.penalty.weight
        if isinstance(mechanism, m.ConvexObjectivePerturbation)
        else mechanism._ridge
    )
    return minimise(Problem.of(data, mechanism.loss, ridge)).w


@pytest.mark.slow
@pytest.mark.parametrize("data", [LINE, PLANE], ids=["d=1", "d=2"])
@pytest.mark.parametrize("mechanism", [pytest.param(each, id=name) for name, each in cases()])
def test_sampler_follows_its_density(mechanism, data, chi_square):
    """Quadrature within 1e-6 of 1; chi-square p above 1e-6 at 1e6 runs."""
    rows = mechanism.sample(data, 1_000_000, np.random.default_rng(5))
    center = minimiser(mechanism, data)
    distance = np.sort(np.linalg.norm(rows - center, axis=1))
    edges = distance[(np.linspace(0.02, 0.98, 17) * len(distance)).astype(int)]
    expected = cells(lambda w: mechanism.log_density(w, data), center, edges)
    assert abs(expected.sum() - 1) < 1e-6
    assert chi_square(counts(rows, center, edges), len(rows) * expected) > 1e-6


def test_huber_density_with_its_jumps_integrates_to_one(chi_square):
    """d = 1, one record: the density jumps at w = y +- h, which the quadrature is told."""
    data = LabelledVectors([[1.0]], [0.4])
    mechanism = m.GLMObjectivePerturbation(loss=Loss("huber", width=0.5), epsilon=1.0, dimension=1)
    points = np.concatenate(
        [
            -np.geomspace(400, 1, 60) + 0.4 - 0.5,
            np.linspace(-0.1, 0.9, 9),
            0.9 + np.geomspace(1, 400, 60),
        ]
    )
    points = np.unique(
        np.concatenate([points, np.linspace(-1.1, -0.1, 5), np.linspace(0.9, 1.9, 5), [0.0]])
    )
    masses = []
    for low, high in pairwise(points):
        w = low + 0.5 * (high - low) * (1 + NODES)
        masses.append(
            0.5 * (high - low) * float(WEIGHTS @ np.exp(mechanism.log_density(w[:, None], data)))
        )
    assert abs(sum(masses) - 1) < 1e-6
    runs = mechanism.sample(data, 1_000_000, np.random.default_rng(6))[:, 0]
    first, last = np.searchsorted(points, (-0.1, 0.9))
    expected = np.append(masses[first:last], 1 - sum(masses[first:last]))
    observed = np.histogram(runs, points[first : last + 1])[0]
    assert chi_square(np.append(observed, len(runs) - observed.sum()), len(runs) * expected) > 1e-6


@pytest.mark.parametrize("dimension", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", ["gamma", "laplace_radius", "gaussian"])
def test_noise_length_and_direction(kind, dimension):
    """|b| by its law (Kolmogorov-Smirnov), the direction by its first coordinate's: p
    above 1e-6.
    """
    law = {"gamma": gamma(dimension), "laplace_radius": expon(), "gaussian": chi(dimension)}[kind]
    rows = SphericalNoise(kind, 2.5, dimension).sample(200_000, np.random.default_rng(7))
    length = np.linalg.norm(rows, axis=1)
    assert kstest(2.5 * length, law.cdf).pvalue > 1e-6
    assert abs((rows[:, 0] > 0).mean() - 0.5) < 5 / (2 * math.sqrt(len(rows)))
    if dimension > 1:
        assert (
            kstest((rows[:, -1] / length) ** 2, beta(0.5, 0.5 * (dimension - 1)).cdf).pvalue > 1e-6
        )
