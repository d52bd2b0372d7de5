"""Privacy maps of OpenDP's measurements and combinators against exact figures, and outputs that
only one of two neighbors can have, for the replay of frozen findings.

Figures are lower bounds of the true privacy loss, in decimal arithmetic with 60 digits: a map below
them is certainly too small.
"""

import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction

from opendp_inputs import tried, value_of
from opendp_signatures import NAMESPACE

decimal.getcontext().prec = 60
MARGIN = Decimal(10) ** -45
INT_MAP = "dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=int))"
SPACES = {  # where each constructor is tried: a domain, a metric, and neighbors with their distance
    "make_laplace_threshold": (INT_MAP, "dp.l01inf_distance(dp.absolute_distance(T=int))"),
    "make_gaussian_threshold": (INT_MAP, "dp.l02inf_distance(dp.absolute_distance(T=int))"),
}


def claimed(source, d_in):
    """Return the object that a source text builds and the value of its map; None for each that the
    library refuses.
    """
    measurement = value_of(eval, source, NAMESPACE)
    return measurement, measurement and value_of(measurement.map, d_in)


def exp(number):
    """Return a lower and an upper bound of the exponential of a rational number."""
    value = (Decimal(number.numerator) / Decimal(number.denominator)).exp()
    return value * (1 - MARGIN), value * (1 + MARGIN)


def laplace_tail(scale, t):
    """Return a lower bound of P[X >= t] of the discrete Laplace distribution, for t >= 0."""
    low = exp(-Fraction(t) / Fraction(scale))[0]
    return low / (1 + exp(-1 / Fraction(scale))[1])


def gaussian_tail(scale, t):
    """Return a lower bound of P[X >= t] of the discrete Gaussian distribution, for t >= 0."""
    reach = int(30 * scale) + t
    mass = [exp(-Fraction(x * x) / (2 * Fraction(scale) ** 2)) for x in range(reach)]
    total = mass[0][1] + 2 * sum((m[1] for m in mass[1:]), Decimal(0)) + MARGIN
    return sum((m[0] for m in mass[t:]), Decimal(0)) / total


def finding(source, kind, d_in, claim, exact, inputs, note, release="_{name}(data)"):
    """Return a finding of this part; `release` is the source of one output of the measurement
    `_{name}` for `data`, as a number.
    """
    content = {
        "build": source,
        "kind": kind,
        "distance_in": d_in,
        "allowed": str(claim),
        "found": str(exact)[:40],
    }
    about = {"inputs": inputs, "note": note, "release": release, "part": "measurements"}
    return content | about


def thresholds():
    """Compare the delta of thresholded noise with the probability that a key of one neighbor only
    is released.
    """
    for name, tail in (
        ("make_laplace_threshold", laplace_tail),
        ("make_gaussian_threshold", gaussian_tail),
    ):
        domain, metric = SPACES[name]
        for scale, threshold, value in itertools.product(
            (0.5, 1.0, 2.0, 10.0), (1, 2, 5, 11, 30), (0, 1, 2)
        ):
            source = f"dp.m.{name}({domain}, {metric}, scale={scale}, threshold={threshold})"
            d_in = (1, value, value)
            _, claim = claimed(source, d_in)
            if not claim or threshold < value:
                continue
            # a key is released if its noisy value is at least the threshold
            probability = tail(scale, threshold - value)
            if Decimal(claim[1]) < probability:
                kind = "delta of an absent key" if value else "key with the value zero"
                note = "the output holds 'a' with this probability; without the key it never does"
                release, pair = "len(_{name}(data))", [{"a": value}, {}]
                yield finding(source, kind, d_in, claim, probability, pair, note, release)


def randomized_response():
    """Compare epsilon of randomized response with the exact ratio of probabilities."""
    for count, chosen in itertools.product(range(2, 12), (None, 0.5, 0.75, 0.9)):
        prob = 1 / count if chosen is None else chosen
        source = f"dp.m.make_randomized_response({list(range(count))}, {prob!r})"
        _, claim = claimed(source, 1)
        if claim is None:
            continue
        keep, lie = Fraction(prob), (1 - Fraction(prob)) / (count - 1)
        ratio = max(
            keep / lie, lie / keep, keep * count, 1 / (keep * count), lie * count, 1 / (lie * count)
        )
        if exp(Fraction(claim))[1] < Decimal(ratio.numerator) / Decimal(ratio.denominator):
            yield finding(
                source,
                "epsilon of a ratio",
                1,
                claim,
                float(ratio - 1),
                [0, 1],
                "found: largest ratio of probabilities, minus 1",
            )


def compositions():
    """Query an adaptive compositor until it refuses, and compare the sum of the accepted privacy
    losses with its map.
    """
    space = "dp.atom_domain(T=int), dp.absolute_distance(T=int), dp.max_divergence()"
    for budgets in ([1.0], [0.5, 0.5], [1.0, -1.0], [1.0, -0.5], [2.0, 0.0], [1.0, float("nan")]):
        source = f"dp.c.make_adaptive_composition({space}, 1, {budgets!r})".replace(
            "nan", "float('nan')"
        )
        compositor, claim = claimed(source, 1)
        if claim is None or math.isnan(claim):
            continue
        query = "dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=scale)"
        spent, answered, queryable = Fraction(0), [], compositor(0)
        for budget in budgets:
            scale = 1 / budget if budget > 0 else None
            laplace = scale and value_of(eval, query, NAMESPACE | {"scale": scale})
            if tried(queryable, laplace)[0] == "error":
                break
            spent += Fraction(budget)
            answered.append(scale)
        if Fraction(claim) < spent:
            each = f"queryable({query}) for queryable in [_{{name}}(data)] for scale in {answered}"
            yield finding(
                source,
                "budget",
                1,
                claim,
                spent,
                [0, 1],
                "the compositor answered queries of this total loss",
                f"sum({each})",
            )


def shapes(runs=40):
    """Compare the lengths of outputs on neighbors where the map claims a loss of zero."""
    for weight, f in itertools.product((1, 4, 8), (0.5, 1.0)):
        source = (
            f"dp.m.make_randomized_response_bitvec(dp.bitvector_domain(max_weight={weight}), "
            f"dp.discrete_distance(), f={f})"
        )
        measurement, claim = claimed(source, 1)
        if claim is None:
            continue
        lengths = [{len(measurement(data)) for _ in range(runs)} for data in (b"\x01", b"\x01\x00")]
        if claim == 0 and lengths[0].isdisjoint(lengths[1]):
            yield finding(
                source,
                "length of the output",
                1,
                claim,
                lengths,
                ["01", "0100"],
                "members of the domain, one change apart by the metric",
                "len(_{name}(bytes.fromhex(data)))",
            )


CHECKS = (thresholds, randomized_response, compositions, shapes)
