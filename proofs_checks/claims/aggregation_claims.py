"""Claims on averaging the estimates of several organizations: Minami et al., equations (9) and
(10).

Notation: expert m predicts f_m in [-B, B], the truth is f in [-B, B], Y = f + xi with xi
sub-Gaussian of variance proxy sigma^2, and tau >= 2 sigma^2 + 8 B^2 is the temperature. w_t are the
weights prop. to exp(-(1/tau) sum of the squared errors on records before t).
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from flint import arb

from dpwitness.mechanisms import MirrorAveraging, PrivateRidge
from dpwitness.proofs_checks.engine import (
    Ball,
    Box,
    ClaimVerdict,
    Effort,
    Enclosure,
    Evidence,
    certificate,
    claim,
    enclose,
    excess,
    twice,
    unsatisfiable,
    z3,
)

TEMPERATURE = 8  # factor of B^2 in tau = 2 sigma^2 + 8 B^2


def averaging(
    x: list[float], y: list[float], temperature: float, index: str = "t"
) -> MirrorAveraging:
    """Return the mirror-averaging mechanism of two ridge experts in one dimension, with public
    records (x, y).
    """
    return MirrorAveraging(
        PrivateRidge(1.0, 1.0, 1.0, 1.0, 1, 1),
        2,
        np.array(x)[:, None],
        np.array(y),
        temperature,
        index=index,  # type: ignore[arg-type]
    )


@claim(
    "MN-04",
    kind="counterexample",
    source="Minami et al., equation (10), said to be the mirror averaging of Juditsky, Rigollet "
    "and Tsybakov 2008",
    statement="The weights (10) are those of mirror averaging, whose step t uses records i <= t - 1",  # noqa: E501
    formula="sum_{i <= t} = sum_{i <= t - 1}",
    domain=Box(records=(1, 1000)),
)
def index_is_that_of_the_citation(effort: Effort, records: float = 1) -> Evidence:
    """Experts 0 and 1 on records x = y = 1, B = 1, sigma = 0: both rules are run, and the weights
    of expert 1 compared.

    With one record the cited rule has seen nothing and weighs 1/2 each; (10) has seen the record.
    """
    n = int(records)
    printed, cited = (
        float(averaging([1.0] * n, [1.0] * n, 8.0, i).weights(np.array([[0.0, 1.0]]))[0, 1])
        for i in ("t", "t-1")
    )
    return Evidence(
        ClaimVerdict.NOT_REFUTED if abs(printed - cited) <= 1e-12 else ClaimVerdict.FAILS,
        text=(
            f"the better expert's weight after {n} record{'s' * (n > 1)} is {printed:.6g} by (10) "
            f"and {cited:.6g} by the cited rule"
        ),
        method="both rules, run",
        numbers={"printed": printed, "cited": cited},
        at={"records": n},
    )


def step_fails(constant: float) -> list[object]:
    """Return z3 constraints for the negation of: 2 (a - kappa d)^2 <= kappa tau for all a, d of
    experts and truth in [-B, B].

    kappa = 1 - 2 sigma^2 / tau, so kappa tau = tau - 2 sigma^2 >= `constant` x B^2; a = f - f_w, a
    - d = f - f_m.
    """
    a, d, kappa, spare, b = z3.Reals("a d kappa spare B")
    ranges = [
        b > 0,
        kappa >= 0,
        kappa <= 1,
        -2 * b <= a,
        a <= 2 * b,
        -2 * b <= a - d,
        a - d <= 2 * b,
        spare >= constant * b * b,
    ]
    return [*ranges, 2 * (a - kappa * d) * (a - kappa * d) > spare]


def corners() -> list[list[object]]:
    """Return z3 constraints for the points at which the bound of `step_fails` is attained: both
    endpoints of every range.
    """
    a, d, kappa, b = z3.Reals("a d kappa B")
    return [
        [kappa == 0, a == 2 * b],
        [kappa == 0, a == -2 * b],
        [kappa == 1, a - d == 2 * b],
        [kappa == 1, a - d == -2 * b],
    ]


@claim(
    "MN-05-cited",
    kind="certificate",
    source="Minami et al., inequality (9) for weights from i <= t - 1, Juditsky, Rigollet and "
    "Tsybakov 2008",
    statement="E R(beta_agg) <= min_m R(beta_m) + tau log M / n0 for tau >= 2 sigma^2 + 8 B^2, "
    "experts and truth bounded by B",
    formula="2 (a - kappa d)^2 <= tau - 2 sigma^2, kappa = 1 - 2 sigma^2 / tau",
    repairs="MN-05",
)
def mirror_averaging_has_the_oracle_inequality(effort: Effort) -> Evidence:
    """R is convex, so n0 R(agg) <= sum_t R(w_t), and R(w_t) is the mean of (Y - f_w)^2 on the fresh
    record t, f_w = sum_m w_m f_m.

    Claim, for any weights w: E (Y - f_w)^2 <= -tau E log sum_m w_m exp(-(Y - f_m)^2 / tau). Summed
    over t the right side telescopes to -tau E log((1/M) sum_m exp(-(errors of m) / tau)) <= n0
    min_m R(m) + tau log M. With a = f - f_w, d_m = f_m - f_w (of mean 0 under w), it says E log
    sum_m w_m exp((2 (a + xi) d_m - d_m^2) / tau) <= 0. Jensen puts E inside the logarithm; xi
    sub-Gaussian gives E exp(2 xi d / tau) <= exp(2 sigma^2 d^2 / tau^2): sum_m w_m phi(d_m) <= 1 is
    enough, with phi(d) = exp((2 a d - kappa d^2) / tau). phi(0) = 1, so Jensen again, if phi is
    concave where the d_m are: phi'' <= 0 iff 2 (a - kappa d)^2 <= kappa tau. z3 proves that: indeed
    a - kappa d = (1 - kappa) a + kappa (a - d) is at most 2 B in size. Conditional on X throughout.
    """
    return unsatisfiable(
        effort,
        step_fails(TEMPERATURE),
        text="the step function is concave wherever experts and truth lie in [-B, B]",
        where=corners(),
    )


@claim(
    "MN-05",
    kind="experiment",
    source="Minami et al., inequality (9) with the weights (10) as printed, i <= t",
    statement="E R(beta_agg) <= min_m R(beta_m) + tau log M / n0 for tau >= 2 sigma^2 + 8 B^2, "
    "experts and truth bounded by B",
    formula="E R(beta_agg) - min_m R(beta_m) <= tau log M / n0",
    domain=Box(factor=(1e-3, 10.0)),
)
def printed_averaging_has_the_oracle_inequality(effort: Effort, factor: float = 1.0) -> Evidence:
    """Two experts and the truth on a grid of [-1, 1] (B = 1, X = 1), errors 0 or +-sigma with equal
    probability, n0 records.

    The expectation is the sum over all 2^n0 outcomes, by the mechanism's own weights. tau is
    `factor` times 2 sigma^2 + 8 B^2.
    """
    worst, at = -math.inf, {}
    grid = np.linspace(-1, 1, effort.of(21, 11))
    experts = np.array(list(itertools.product(grid, grid)))
    sizes = [(0.0, n0) for n0 in (1, 3, 10, 100, 400)] + [
        (sigma, n0) for sigma in (0.5, 1.0) for n0 in (1, 3, effort.of(6, 4))
    ]
    for (sigma, n0), truth in itertools.product(sizes, grid[len(grid) // 2 :]):
        effort.spend()
        tau = factor * (2 * sigma**2 + TEMPERATURE)
        outcomes = list(itertools.product((-sigma, sigma), repeat=n0)) if sigma else [(0.0,) * n0]
        risk = np.zeros(len(experts))
        for errors in outcomes:
            released = averaging([1.0] * n0, [float(truth + e) for e in errors], tau).aggregate(
                experts
            )[:, 0]
            risk += (released - truth) ** 2 / len(outcomes)
        share = (risk - ((experts - truth) ** 2).min(axis=1)) / (tau * math.log(2) / n0)
        if share.max() > worst:
            worst, (first, second) = float(share.max()), experts[int(share.argmax())]
            at = {
                "factor": factor,
                "sigma": sigma,
                "n0": n0,
                "truth": float(truth),
                "experts": [float(first), float(second)],
            }
    return Evidence(
        ClaimVerdict.FAILS if worst > 1 + 1e-9 else ClaimVerdict.NOT_REFUTED,
        text=(
            f"largest excess risk found is {worst:.4g} of the bound, at n0 = {at['n0']}, sigma = "
            f"{at['sigma']:g}; not proved"
        ),
        method="exact expectations on a grid",
        enclosure=Enclosure(worst - 1, math.inf),
        numbers={"share of the bound": worst},
        at=at,
    )


@claim(
    "MN-05-repair",
    kind="certificate",
    source="Minami et al., inequality (9) with the weights (10) as printed and B^2 / n0 added",
    statement="E R(beta_agg) <= min_m R(beta_m) + (tau log M + B^2) / n0 for tau >= 2 sigma^2 + 8 "
    "B^2",
    formula="sum_{t=2}^{n0+1} (R(w_t) - min R) <= tau log M + B^2",
    repairs="MN-05",
    depends=("MN-05-cited",),
)
def printed_averaging_loses_one_step(effort: Effort) -> Evidence:
    """(10) averages w_2, ..., w_{n0+1}. The cited rule with one record more averages w_1, ...,
    w_{n0+1}, and MN-05-cited bounds the sum of R(w_t) - min R by tau log M. So it is enough that
    the step left out, uniform weights, has R(w_1) - min R >= -B^2: the risk of a mean is the mean
    risk less the variance of the f_m under the weights, and numbers in [-B, B] have variance at
    most B^2 (mean of squares at most B^2). Both steps by z3.
    """
    mean, square, b = z3.Reals("mean square B")
    spread = [b > 0, square <= b * b, square - mean * mean > b * b]
    concave = unsatisfiable(
        effort, step_fails(TEMPERATURE), text="concavity of the step function", where=corners()
    )
    little = unsatisfiable(effort, spread, text=f"{concave.text}, and variance at most B^2")
    return little if concave.verdict is ClaimVerdict.HOLDS else concave


def one_step() -> Ball:
    """Return tau log M / n0 for two estimates and one record, B = 1 and sigma = 0."""
    return TEMPERATURE * arb(2).log()


def first_step_excess(first: Ball, second: Ball) -> Enclosure:
    """Enclose the cited rule's excess risk with experts `first` and `second` on one record x = 1, y
    = 0, relative to tau log 2.

    Here B = 1 and sigma = 0. Both weights are 1/2 for every record.
    """

    def plain(first: Ball, second: Ball) -> Ball:
        # The risk of the mean is the mean risk minus the variance; the better expert's risk is half
        # the gap below the mean risk.
        spread = (first - second) ** 2 / 4
        return excess(abs(first**2 - second**2) / 2 - spread, one_step())

    return enclose(
        twice(
            lambda f, g: excess(((f + g) / 2) ** 2 - (f**2).min(g**2), one_step()),
            plain,
            first,
            second,
        )
    )


@certificate(
    "MN-05-outside",
    source="Minami et al., inequality (9) for weights from i <= t - 1 and estimates by the closed "
    "form (8), which may leave Theta",
    statement="E R(beta_agg) <= min_m R(beta_m) + tau log M / n0 for tau >= 2 sigma^2 + 8 B^2, "
    "estimates not bounded by B",
    formula="((f_1 + f_2) / 2)^2 - min(f_1^2, f_2^2) <= 8 log 2",
    domain=Box(first=(0.0, 10.0), second=(0.0, 100.0)),
    depends=("MN-03",),
    reach=527.48537,
)
def oracle_inequality_survives_large_estimates(first: Ball, second: Ball) -> Enclosure:
    """`first_step_excess`: one record, truth 0; the two estimates in units of B."""
    return first_step_excess(first, second)


@certificate(
    "MN-05-clipped",
    source="Minami et al., inequality (9) for weights from i <= t - 1 and estimates projected onto "
    "Theta",
    statement="On one record, E R(beta_agg) <= min_m R(beta_m) + tau log 2 / n0 for two estimates "
    "bounded by B",
    formula="((f_1 + f_2) / 2)^2 - min(f_1^2, f_2^2) <= 8 log 2",
    domain=Box(first=(-1.0, 1.0), second=(-1.0, 1.0)),
    repairs="MN-05-outside",
    depends=("MN-05-cited",),
    reach=0.27050533,
)
def oracle_inequality_holds_after_clipping(first: Ball, second: Ball) -> Enclosure:
    """The same, after clipping; MN-05-cited proves it for any number of records and estimates."""
    return first_step_excess(first, second)
