"""PrivateRidge and MirrorAveraging: laws, ledger numbers MN-01 to MN-05, refusals. Statistical
tests fail falsely with probability 1e-6.
"""

import math

import numpy as np
import pytest
from scipy import stats

from dpwitness import mechanisms as m
from dpwitness.mechanisms import LabelledVectors

LINE = LabelledVectors([[0.3], [-0.9], [1.0]], [0.5, 1.0, -0.3])
PLANE = LabelledVectors([[0.3, 0.2], [-0.7, 0.3], [0.0, 1.0]], [0.5, 1.0, -0.3])


def ridge(form, p, epsilon=1.0, **change):
    fields = {
        "epsilon": epsilon,
        "regularization": 0.1,
        "radius": 1.0,
        "label_bound": 1.0,
        "dimension": p,
        "records": 3,
        "form": form,
    }
    return m.PrivateRidge(**{**fields, **change})


def panels(count):
    """Composite Gauss-Legendre on [-1, 1]."""
    x, w = np.polynomial.legendre.leggauss(20)
    left = np.linspace(-1, 1, count + 1)[:-1, None]
    return (left + (x + 1) / count).ravel(), np.tile(w / count, count)


def disc(radius, radial=160, angular=360):
    """Polar quadrature: points, weights, and their shape."""
    x, w = panels(radial // 20)
    r, angle = radius * (x + 1) / 2, 2 * np.pi * (np.arange(angular) + 0.5) / angular
    points = np.stack([np.outer(r, np.cos(angle)), np.outer(r, np.sin(angle))], -1)
    return points.reshape(-1, 2), np.repeat(r * w * radius / 2 * (2 * np.pi / angular), angular)


def circle(angular=360):
    angle = 2 * np.pi * (np.arange(angular) + 0.5) / angular
    return np.stack([np.cos(angle), np.sin(angle)], -1)


def test_printed_law_on_the_line():
    estimate = ridge("printed", 1)
    grid = np.linspace(-60, 60, 2_400_001)
    density = np.exp(estimate.log_density(grid[:, None], LINE))
    cumulated = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    assert cumulated[-1] == pytest.approx(1, abs=1e-6)
    drawn = estimate.sample(LINE, 1_000_000, np.random.default_rng(1))[:, 0]
    assert stats.kstest(np.interp(drawn, grid, cumulated), "uniform").pvalue > 1e-6


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_repaired_law_on_the_line_has_atoms_at_the_ends(epsilon):
    estimate = ridge("repaired", 1, epsilon)
    x, w = panels(200)
    inside = np.exp(estimate.log_density((x * (1 - 1e-10))[:, None], LINE))
    ends = np.exp(estimate.log_density(np.array([[-1.0], [1.0]]), LINE))
    assert (inside * w).sum() + ends.sum() == pytest.approx(1, abs=1e-6)
    drawn = estimate.sample(LINE, 400_000, np.random.default_rng(2))[:, 0]
    assert stats.binomtest(int((drawn <= -1 + 1e-12).sum()), 400_000, ends[0]).pvalue > 1e-6
    assert stats.binomtest(int((drawn >= 1 - 1e-12).sum()), 400_000, ends[1]).pvalue > 1e-6
    between = drawn[np.abs(drawn) < 1 - 1e-12]
    cumulated = np.cumsum(inside * w) / (inside * w).sum()
    assert stats.kstest(np.interp(between, x, cumulated), "uniform").pvalue > 1e-6


@pytest.mark.parametrize(
    ("form", "epsilon"), [("printed", 1.0), ("repaired", 0.5), ("repaired", 20.0)]
)
def test_law_in_the_plane(form, epsilon, chi_square):
    estimate = ridge(form, 2, epsilon)
    radius = 1 - 1e-11 if form == "repaired" else 60.0
    points, weights = disc(radius, radial=160 if form == "repaired" else 1200)
    mass = np.exp(estimate.log_density(points, PLANE)) * weights
    on_circle = (
        np.exp(estimate.log_density(circle(), PLANE)) * 2 * np.pi / 360
        if form == "repaired"
        else np.zeros(360)
    )
    assert mass.sum() + on_circle.sum() == pytest.approx(1, abs=2e-6)
    drawn = estimate.sample(PLANE, 300_000, np.random.default_rng(3))
    sphere = (
        np.linalg.norm(drawn, axis=1) > 1 - 1e-11
        if form == "repaired"
        else np.zeros(300_000, dtype=bool)
    )
    # eighths of the circle
    quarter = np.floor(
        np.mod(np.arctan2(drawn[:, 1], drawn[:, 0]), 2 * np.pi) / (np.pi / 4)
    ).astype(int)
    # cells: eighth of the circle, and for points inside, whether they lie within the median radius
    cut = 0.4 if form == "repaired" else 3.0
    near = np.linalg.norm(drawn, axis=1) < cut
    counts = np.bincount(np.where(sphere, 16, np.where(near, 0, 8)) + quarter, minlength=24)
    eighth = np.tile(np.arange(360) // 45, len(points) // 360)
    within = np.linalg.norm(points, axis=1) < cut
    fine, fine_weights = disc(cut)
    inner = np.bincount(
        np.tile(np.arange(360) // 45, 160),
        np.exp(estimate.log_density(fine, PLANE)) * fine_weights,
        8,
    )
    both = np.bincount(eighth, mass, 8)
    assert inner.sum() == pytest.approx(mass[within].sum(), abs=0.05)
    expected = 300_000 * np.concatenate(
        [inner, both - inner, np.bincount(np.arange(360) // 45, on_circle, 8)]
    )
    assert chi_square(counts, expected) > 1e-6


def protocol(index="t", clip=False, release="full", organisations=3):
    rng = np.random.default_rng(6)
    x = rng.uniform(-0.7, 0.7, (5, 2))
    return m.MirrorAveraging(
        ridge("printed", 2), organisations, x, x @ [0.5, -0.2], 2.0, index, clip, release
    )


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("index", ["t", "t-1"])
def test_mirror_averaging_is_equation_10(index, clip):
    agg = protocol(index, clip)
    data = m.Organisations((PLANE, PLANE, LabelledVectors([[1.0, 0.0]], [1.0], [3])))
    rows = agg.sample(data, 4, np.random.default_rng(7))
    assert rows.shape == (4, 8)
    for row in rows:
        beta = row[:6].reshape(3, 2)
        if clip:
            beta = beta / np.maximum(1, np.linalg.norm(beta, axis=1, keepdims=True))
        errors = (agg.public_y[:, None] - agg.public_x @ beta.T) ** 2
        sums = (
            np.cumsum(errors, axis=0)
            if index == "t"
            else np.vstack([np.zeros(3), np.cumsum(errors, axis=0)[:-1]])
        )
        a = np.exp(-sums / 2.0)
        a = (a / a.sum(axis=1, keepdims=True)).mean(axis=0)
        np.testing.assert_allclose(row[6:], a @ beta, rtol=1e-12)
        np.testing.assert_allclose(agg.weights(row[None, :6])[0], a, rtol=1e-12)


def test_mn05_clipping_restores_the_oracle_inequality():
    """b=0, b1=3, b2=20, n0=1, x=1, no noise: index t-1 averages the two blindly, 22 times over the
    bound; clipped it keeps it.
    """
    bound = 8.0 * math.log(2)  # tau log M / n0 with tau = 8 B^2
    excess = {}
    for clip in (False, True):
        agg = m.MirrorAveraging(
            ridge("printed", 1), 2, np.array([[1.0]]), np.array([0.0]), 8.0, "t-1", clip
        )
        beta = agg.aggregate(np.array([[3.0, 20.0]]))[0, 0]
        best = 1.0 if clip else 9.0
        excess[clip] = (beta**2 - best) / bound
    assert excess[False] == pytest.approx(22.2, abs=0.05) and excess[True] <= 1
