"""Does every specimen draw from the law that it states? Seeds are fixed; each test fails by chance
with probability below 1e-6.
"""

import numpy as np
import pytest
from scipy.stats import kstest

from dpwitness.core.numerics.laplace_laws import laplace_log_cdf
from dpwitness.mechanisms import RandomizedResponse, zoo

ZOO = zoo()
LEVEL = 1e-6
DISCRETE = [name for name, m in ZOO.items() if hasattr(m, "support")]
CONTINUOUS = [name for name, m in ZOO.items() if hasattr(m, "breakpoints")]
PRODUCTS = [name for name, m in ZOO.items() if hasattr(m, "factors")]
OTHERS = ["noisy-max-both", "svt3"]


def rng(seed):
    return np.random.Generator(np.random.SFC64(seed))


def sides(mechanism):
    pair = mechanism.worst_pair()
    return [pair.d0, pair.d1]


def test_every_specimen_is_tested_once():
    assert sorted(DISCRETE + CONTINUOUS + PRODUCTS + OTHERS) == sorted(ZOO)


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_counts_match_the_masses(name, chi_square):
    mechanism = ZOO[name]
    for seed, dataset in enumerate(sides(mechanism)):
        rows = mechanism.support(dataset)
        mass = np.exp(mechanism.log_density(rows, dataset))
        assert abs(mass.sum() - 1) < 1e-9
        outputs = mechanism.sample(dataset, 200_000, rng(seed))
        assert outputs.shape == (200_000, rows.shape[1]) and outputs.dtype == np.float64
        # one number a row; distinct rows of small whole numbers stay distinct
        weights = np.pi ** np.arange(rows.shape[1])
        keys, drawn = rows @ weights, outputs @ weights
        order = np.argsort(keys)
        place = np.clip(np.searchsorted(keys[order], drawn - 1e-7), 0, keys.size - 1)
        assert np.allclose(keys[order][place], drawn, atol=1e-6)  # nothing outside the support
        counts = np.zeros(keys.size)
        np.add.at(counts, order[place], 1)
        if keys.size > 2000:  # a fine grid: merge neighbours, so that cells are well filled
            mass, counts = (
                np.add.reduceat(v, np.arange(0, keys.size, keys.size // 500))
                for v in (mass, counts)
            )
        assert chi_square(counts, mass * counts.sum()) > LEVEL


def cumulative(mechanism, dataset):
    """Distribution function by Gauss-Legendre between breakpoints, on panels short against every
    scale of the zoo.
    """
    breaks = mechanism.breakpoints(dataset)
    edges = np.unique(
        np.concatenate([breaks, np.linspace(breaks.min() - 90, breaks.max() + 90, 4001)])
    )
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(edges) / 2
    points = (edges[:-1] + half)[:, None] + half[:, None] * nodes
    density = np.exp(mechanism.log_density(points.reshape(-1, 1), dataset)).reshape(points.shape)
    return edges, np.append(0.0, np.cumsum((density * half[:, None]) @ weights))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_draws_match_the_density(name):
    mechanism = ZOO[name]
    for seed, dataset in enumerate(sides(mechanism)):
        edges, cdf = cumulative(mechanism, dataset)
        assert abs(cdf[-1] - 1) < 1e-9
        outputs = mechanism.sample(dataset, 100_000, rng(seed))
        assert outputs.shape == (100_000, 1)
        assert kstest(np.interp(outputs[:, 0], edges, cdf), "uniform").pvalue > LEVEL


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_match_their_factors(name, chi_square):
    """Each coordinate against its factor, their sum's variance against independence, and the
    density against the factors' sum.
    """
    mechanism = ZOO[name]
    d0, d1 = sides(mechanism)
    outputs = mechanism.sample(d1, 100_000, rng(3))
    factors = mechanism.factors(d0, d1)
    assert outputs.shape == (100_000, len(factors))
    total = np.zeros(1000)
    for j, (factor, _, center) in enumerate(factors):
        column = outputs[:, j]
        if isinstance(factor, RandomizedResponse):
            ones = np.array([np.sum(column == 0), np.sum(column == 1)])
            mass = np.exp(factor.log_density(np.array([[0.0], [1.0]]), center))
            assert ones.sum() == column.size and chi_square(ones, mass * column.size) > LEVEL / len(
                factors
            )
        else:
            assert kstest(
                np.exp(laplace_log_cdf(column - center[0], factor.scale)), "uniform"
            ).pvalue > LEVEL / len(factors)
        total += factor.log_density(column[:1000, None], center)
    np.testing.assert_allclose(total, mechanism.log_density(outputs[:1000], d1), rtol=1e-12)
    correlation = np.corrcoef(outputs.T) - np.eye(len(factors))
    # 190 pairs at most: 190 * 2 Phi(-6.5) = 2e-8
    assert np.abs(correlation).max() < 6.5 / np.sqrt(100_000)


def test_svt3_numbers_and_halts(chi_square):
    """Masses of the patterns of calls by integrating the density over the released numbers, against
    counts; and the numbers' law.

    With cut-off 1 the density of one released number is integrated on a fine grid: those masses and
    that of no release add to 1.
    """
    mechanism = type(ZOO["svt3"])(1.0, length=4, variant=3, cutoff=1)
    for seed, answers in enumerate(([0.0, 1.0, 0.3, 0.0], [1.0, 0.0, 0.0, 1.0])):
        answers = np.array(answers)
        outputs = mechanism.sample(answers, 200_000, rng(seed))
        edges = np.unique(np.concatenate([answers, [0.0], np.linspace(-90, 100, 8001)]))
        nodes, weights = np.polynomial.legendre.leggauss(8)
        half = np.diff(edges) / 2
        points = ((edges[:-1] + half)[:, None] + half[:, None] * nodes).ravel()
        mass, counts = [], []
        for last in range(4):
            rows = np.full((points.size, 4), -1.0)
            rows[:, :last], rows[:, last] = 0.0, points
            density = np.exp(mechanism.log_density(rows, answers)).reshape(half.size, -1)
            cdf = np.append(0.0, np.cumsum((density * half[:, None]) @ weights))
            chosen = (
                (outputs[:, last] != 0)
                & (outputs[:, :last] == 0).all(axis=1)
                & (outputs[:, last + 1 :] == -1).all(axis=1)
            )
            mass.append(cdf[-1])
            counts.append(chosen.sum())
            assert (
                kstest(np.interp(outputs[chosen, last], edges, cdf / cdf[-1]), "uniform").pvalue
                > LEVEL / 4
            )
        mass.append(float(np.exp(mechanism.log_density(np.zeros((1, 4)), answers)[0])))
        counts.append((outputs == 0).all(axis=1).sum())
        assert abs(sum(mass) - 1) < 1e-6 and sum(counts) == 200_000
        assert chi_square(counts, 200_000 * np.array(mass)) > LEVEL
