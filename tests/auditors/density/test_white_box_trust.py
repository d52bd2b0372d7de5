"""Verdicts of the white box that must not say more than was shown: awkward densities, densities
that are not the sampler's, caches.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import laplace, norm

from dpwitness import mechanisms as m
from dpwitness.auditors.density.certify import certify
from dpwitness.auditors.density.density_bets import log_capital_won
from dpwitness.auditors.density.density_check import check_oracle, log_densities, make_side
from dpwitness.auditors.density.mismatch import check_scale, smallest_mismatch
from dpwitness.auditors.density.result import End, decide
from dpwitness.auditors.density.routes import BadOracle, density_of
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.benchmarks.densities import Law, awkward
from dpwitness.core.protocols import one_law, states_one_law
from dpwitness.mechanisms import GDP, RDP, ZCDP, ApproxDP, Pair, PureDP

ZERO_ONE = Pair(np.array([0.0]), np.array([1.0]), "replace-one")
CASES = {case.name: case for case in awkward()}
NORMAL = Law(lambda d, n, rng: d + rng.standard_normal(n), lambda y, d: norm.logpdf(y[:, 0] - d))
LAPLACE = Law(
    lambda d, n, rng: d + rng.laplace(size=n), lambda y, d: -np.abs(y[:, 0] - d) - math.log(2)
)


class Proven:
    """A user's class: the density of Laplace noise of scale 1 with its proof in balls, beside a
    sampler.
    """

    law = m.Laplace(1.0)

    def sample(self, dataset, size, rng):
        return dataset.sum() + rng.laplace(size=(size, 1))

    def __getattr__(self, name):
        if name in ("draws", "domain", "claim"):
            raise AttributeError(name)
        return getattr(self.law, name)

    def log_density(self, outputs, dataset):
        return self.law.log_density(outputs, dataset)


def test_only_sound_ends_decide():
    low, high = End(0.9, "numerical", 0.9), End(1.0, "numerical", 1.0)
    assert decide([low], [high], 1.0)[0] is Verdict.SUPPORTED
    assert decide([low], [high, End(1.0, "statistical(0.001)", 1.0)], 1.0)[0] is Verdict.CERTIFIED
    assert decide([low], [End(1.0, "assumed: nothing else", 1.0)], 1.0)[0] is Verdict.SUPPORTED
    assert (
        decide([End(1.1, "numerical", 1.1)], [End(1.2, "numerical", 1.2)], 1.0)[0]
        is Verdict.INCONCLUSIVE
    )
    verdict, told, _ = decide(
        [End(1.1, "proved", 1.1), End(1.3, "numerical", 1.3)],
        [End(math.inf, "numerical", math.inf)],
        1.0,
    )
    assert (
        verdict is Verdict.VIOLATED
        and told.value == 1.3
        and told.grade == "proved"
        and "up to 1.1, numerical beyond" in told.why
    )
    assert decide([low], [End(math.nan, "numerical", math.nan)], 1.0)[0] is Verdict.INCONCLUSIVE


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_spike_is_not_certified_away(seed):
    """Mass 2e-5 on 1e-7 of the line, on D1 alone, against (3, 1e-5): what samples and grids miss
    may not be called statistical.
    """
    case = CASES["spike of mass 2e-5"]
    result = certify(
        case.mechanism, ZERO_ONE, ApproxDP(3.0, 1e-5), route="sampling", trials=100_000, seed=seed
    )
    assert result.verdict is not Verdict.CERTIFIED


@dataclass(frozen=True)
class Swapped:
    """Laplace noise whose mass on [a, a + w/2] stands on [a + w/2, a + w] under D1: hidden between
    nodes, infinite loss.
    """

    at: float = 0.123456789
    width: float = 1e-8

    def sample(self, dataset, size, rng):
        y = dataset.sum() + rng.laplace(size=(size, 1))
        inside = (y >= self.at) & (y < self.at + self.width / 2) & (dataset.sum() > 0)
        return np.where(inside, y + self.width / 2, y)

    def log_density(self, outputs, dataset):
        y, half = outputs[:, 0], self.width / 2
        value = laplace.logpdf(y - dataset.sum())
        first, second = (
            (y >= self.at) & (y < self.at + half),
            (y >= self.at + half) & (y < self.at + self.width),
        )
        if dataset.sum() == 0:
            return value
        return np.where(
            first,
            -np.inf,
            np.where(second, np.logaddexp(value, laplace.logpdf(y - half - 1)), value),
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "claim", [PureDP(1.0), ApproxDP(1.0, 1e-9), ZCDP(0.5), GDP(1.5), RDP(2.0, 1.0)]
)
def test_what_lies_between_nodes_is_not_certified(claim):
    result = certify(Swapped(), ZERO_ONE, claim, trials=10_000)
    assert result.verdict is not Verdict.CERTIFIED and result.evidence in ("numerical", "assumed")
    assert result.to_json()["evidence"] == result.evidence and "proved" not in result.upper_end


def noisy(factor, dimension=1, normal=False):
    """Noise whose scale is `factor`, beside the density of scale 1."""
    shift = np.eye(dimension)[0]

    def draw(d, n, rng):
        noise = rng.standard_normal((n, dimension)) if normal else rng.laplace(size=(n, dimension))
        return d * shift + factor * noise

    log_density = norm.logpdf if normal else laplace.logpdf
    return Law(draw, lambda y, d: log_density(y - d * shift).sum(axis=1))


def refusals(check, seeds):
    """How many of the seeds end in BadOracle."""
    refused = 0
    for seed in seeds:
        try:
            check(np.random.default_rng(seed))
        except BadOracle:
            refused += 1
    return refused


@pytest.mark.slow
@pytest.mark.parametrize(("dimension", "normal"), [(1, False), (1, True), (3, False)])
def test_the_stated_mismatch_is_noticed(dimension, normal):
    """At the stated size each of 25 runs notices it with probability .9 or more: fewer than 13 do
    with probability below 1e-6.

    At a quarter of the size a bet passes its threshold with probability below 1e-3: more than 3 of
    25 with probability below 1e-6.
    """
    checked = check_oracle(
        noisy(1.0, dimension, normal), ZERO_ONE, 10_000, np.random.default_rng(0)
    )
    bets = check_scale(
        noisy(1.0, dimension, normal), ZERO_ONE, checked, 12_000, np.random.default_rng(1)
    )
    found = smallest_mismatch(checked, np.random.default_rng(2), bets)
    assert 0.01 < found.scale < 0.06 and found.runs == 44_000 and found.atom == math.inf
    for sign in (1, -1):
        times = [
            refusals(
                lambda rng, law=law: check_scale(law, ZERO_ONE, checked, 12_000, rng), range(25)
            )
            for law in (
                noisy((1 + share * found.scale) ** sign, dimension, normal) for share in (1.0, 0.25)
            )
        ]
        assert times[0] >= 13 and times[1] <= 3


def test_only_classes_of_this_package_state_one_law():
    """Neither an attribute nor a mark, a subclass, a module's name or a replaced method takes a
    density for the sampler's.
    """

    class Marked(Proven):
        one_law = declared = states_one_law = True

    Marked.__module__ = "dpwitness.mechanisms.textbook.additive"
    replaced = m.NoisyMax(1.0)
    for mechanism in (
        Proven(),
        one_law(Marked)(),
        type("Laplace", (m.Laplace,), {})(1.0),
        one_law(Proven)(),
    ):
        assert not states_one_law(mechanism)
    assert states_one_law(m.Laplace(1.0)) and states_one_law(replaced)
    result = certify(m.Laplace(1.0), ZERO_ONE, trials=10_000)
    assert result.verdict is Verdict.CERTIFIED and result.declared and result.trials == 20_000
    assert (
        "sampler and density follow from one declared law; a noise scale that differs by"
        in result.headline()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "law", [NORMAL, LAPLACE, CASES["two bumps"].mechanism, CASES["answers"].mechanism]
)
def test_right_densities_pass(law):
    """Four seeds each, 20,000 runs a side: refused with probability 1e-6 at most."""
    for seed in range(4):
        check_oracle(law, ZERO_ONE, 20_000, np.random.default_rng(seed))


FEW_DIGITS = Law(
    lambda d, n, rng: (d + rng.standard_normal(n)).astype(np.float32).astype(float),
    lambda y, d: norm.logpdf(y[:, 0] - d),
)


@pytest.mark.slow_cases("law1-100")
@pytest.mark.parametrize(
    ("law", "seeds"), [(LAPLACE, 60), (FEW_DIGITS, 100), (CASES["answers"].mechanism, 200)]
)
def test_bets_against_a_right_density_win_seldom(law, seeds):
    """The capital has mean at most 1, so it reaches 10 with probability at most .1: in more than a
    third of the seeds with probability below 2e-7.
    """
    rich = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        datasets = ZERO_ONE.d1, ZERO_ONE.d0
        rows = [law.sample(dataset, 1000, rng) for dataset in datasets]
        sides = [
            make_side(
                density_of(law, datasets[i]), rows[i], *log_densities(law, rows[i], pair), rng
            )
            for i, pair in enumerate((ZERO_ONE, ZERO_ONE.swapped()))
        ]
        rich += log_capital_won(sides)[0] >= math.log(10)
    assert rich <= seeds // 3
