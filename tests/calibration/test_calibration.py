"""A part of `dpwitness bench calibration` at alpha = .5, where a wrong error rate shows soonest,
and the counting itself.
"""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy.stats import binom

from dpwitness import PureDP, Verdict, certify
from dpwitness.benchmarks import calibration
from dpwitness.benchmarks.calibration import alarms, most
from dpwitness.benchmarks.densities import densities
from dpwitness.benchmarks.specimens import PAIR, specimens

AUDITS = 192  # of each claim kind, pooled over its mechanisms
KINDS = ("pure", "approx", "gdp", "zcdp", "rdp")
SLOW = [
    "Gaussian of a sum, zCDP, pairs searched",
    "Gaussian, zCDP",
    "Gaussian, RDP",
    "Laplace, RDP",
    "Laplace vector of 20",
]
SLOW += ["Gaussian, 8 columns"]


def test_the_number_of_audits_suffices():
    """At a rate of .5 the count passes with probability 1 - 1e-6; at 1.5 times that it fails with
    probability .99.
    """
    allowed = most(AUDITS, 0.5)
    assert binom.sf(allowed, AUDITS, 0.5) <= 1e-6
    assert binom.sf(allowed, AUDITS, 0.75) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_at_one_half(kind):
    """False-failure probability 1e-6; a rate of .75 fails with probability .99."""
    names = [
        name
        for name, s in specimens().items()
        if s.claim.kind == kind and not s.target and name not in SLOW
    ]
    shares = [len(part) for part in np.array_split(np.arange(AUDITS), len(names))]
    wrong = sum(
        alarms(name, 0.5, audits, trials=2_000) for name, audits in zip(names, shares, strict=True)
    )
    assert wrong <= most(AUDITS, 0.5), f"{wrong} of {AUDITS} audits of {', '.join(names)}"


@pytest.mark.slow
def test_a_claim_that_is_broken_is_counted():
    """The same count with claims a third too small: nearly all audits alarm, so the test above can
    fail.
    """
    broken = {name: dataclasses.replace(s, claim=PureDP(0.6)) for name, s in specimens().items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "specimens", lambda: broken)
        assert alarms("randomized response", 0.5, 12, trials=2_000) > 8


def test_every_claim_kind_and_output_kind_is_there():
    found = specimens()
    assert len(found) >= 25 and len(densities()) >= 20
    assert {s.claim.kind for s in found.values()} == set(KINDS)
    assert {s.outputs for s in found.values()} >= {
        "exceptions",
        "atoms",
        "mixed",
        "strings",
        "vectors",
        "workers",
    }


@pytest.mark.slow_cases("dictionaries", "lists of noisy length")
@pytest.mark.parametrize(
    "name",
    [
        "a word or an exception",
        "lists of noisy length",
        "dictionaries",
        "data with probability .01",
        "randomized response, 20 values",
    ],
)
def test_specimens_keep_their_claim(name):
    """Counts of every output in 1e5 runs a side (exceptions one by one in 2e4): no event beats the
    claim by six standard errors.
    """
    specimen = specimens()[name]
    rng, single = np.random.default_rng(0), name == "a word or an exception"
    runs = 20_000 if single else 100_000
    counts = []
    for data in (specimen.pair.d0, specimen.pair.d1):
        outputs = (
            [_once(specimen.run, data, rng) for _ in range(runs)]
            if single
            else list(specimen.run(data, runs, rng))
        )
        told = [repr(o) for o in outputs]
        counts.append({value: len(list(group)) for value, group in itertools.groupby(sorted(told))})
    for here, there in (counts, counts[::-1]):
        for value, count in here.items():
            other = there.get(value, 0)
            allowed = (
                np.exp(specimen.claim.parameter) * other
                + getattr(specimen.claim, "delta_budget", 0.0) * runs
            )
            assert count <= allowed + 6 * np.sqrt(count + np.exp(2) * other + 10), value


def _once(run, data, rng):
    try:
        return run(data, 1, rng)[0]
    except KeyError:
        return "KeyError"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["spike of mass 0.01 and width 0.001", "sentinel value", "normal, mu 1 % large"]
)
def test_densities_are_densities_and_break_their_claim(name):
    """The sampler agrees with the density in mass, and the certifier never calls it CERTIFIED."""
    awkward, rng = densities()[name], np.random.default_rng(1)
    outputs = awkward.sample(PAIR.d1, 20_000, rng)
    ratio = np.exp(awkward.log_density(outputs, PAIR.d0) - awkward.log_density(outputs, PAIR.d1))
    assert np.mean(ratio) <= 1 + 6 * np.std(ratio) / np.sqrt(20_000) + 1e-6  # E_P q/p <= 1
    assert certify(awkward, PAIR, awkward.claim, trials=10_000).verdict is not Verdict.CERTIFIED


@pytest.mark.parametrize("name", densities())
def test_every_density_breaks_its_claim(name):
    """The mass of a slab, or the density at one point, is more than the claim allows: P(S) >
    g(Q(S)) for that S.
    """
    awkward = densities()[name]
    sides = [np.array([PAIR.d1, PAIR.d0]), np.array([PAIR.d0, PAIR.d1])]
    worst = 0.0
    for high, low in sides:
        for piece in awkward.pieces:
            ends = (
                [piece.center1 - 12 * piece.scale, piece.center1 + 12 * piece.scale]
                if piece.law == "normal"
                else [-0.62, 0.62, 1.62]
            )
            for at in (piece.center1, *ends):
                p, q = (
                    np.exp(awkward.log_density(np.array([at]), data)[0]) for data in (high, low)
                )
                width = piece.scale if piece.law == "slab" else 1e-9
                worst = max(
                    worst,
                    float(awkward.claim.parameter_at(min(q * width, 1.0), min(p * width, 1.0))),
                )
    if awkward.claim.kind in ("gdp", "zcdp") and len(awkward.pieces) == 1:
        worst = awkward.pieces[0].center1 ** (1 if awkward.claim.kind == "gdp" else 2) / (
            1 if awkward.claim.kind == "gdp" else 2
        )
    assert worst > awkward.claim.parameter
