"""Checker of witnesses: one file, the standard library only, integers with directed rounding
instead of floating point.

``python checker.py witness.json`` prints ACCEPTED with the claim, the relation, the bound and the
confidence that it verified, and what is taken on faith; REFUSED with the reason; or NOT CHECKED
with the part that is not modelled here. The exit codes are 0, 1 and 3, and 2 for a file that cannot
be read. Counts must refute the claim and prove the bound (theorems: `auditors/statistics`). Real
numbers are integers in units of 1 / ONE; enclosures are (low, high).
"""

import hashlib
import json
import math
import os
import re
import sys
from collections import Counter, namedtuple
from fractions import Fraction
from functools import lru_cache

BITS, ONE, STOP = 384, 1 << 384, 1 << 144  # a walk over binomial weights ends below STOP
# floor(ONE ln 2)
LN2 = 0xB17217F7D1CF79ABC9E3B39803F2F6AF40F343267298B62D8A0D175B8BAAFA2BE7B876206DEBAC98559552FB4AFA1B10  # noqa: E501
# floor(ONE / sqrt(2 pi))
DENSITY = 0x662114CF50D942343F2CF1402EAE38BFD3829F30512706D8C0471B4802639D2E9DF8AC55447D3DB723F5D3ABB374E88D  # noqa: E501
FAR, TINY = 16 * ONE, 1 << BITS - 188  # a normal variable is beyond FAR with probability below TINY
# conditional errors: the part 2^-GUARD is spent on large p-values, errors below LEAST count as 0
GUARD, LEAST = 24, ONE >> 140
# relative errors of a bound in floating point, from one stage and from several
SLACK, SLACKS = Fraction(1, 10**9), Fraction(9, 10**7)
# part of the error for the frequency of guesses; parameters above MOST count as infinite
SHARE, MOST = Fraction(1, 50), 2000
# limits of a file: bytes, nesting, digits of a number, characters of a text
SIZE, DEPTH, DIGITS, LONGEST = 1 << 18, 80, 2000, 200_000
# most rounds, largest and least positive double
RUNS, LARGEST, LEAST_DOUBLE = 10**12, ((1 << 53) - 1) << 971, Fraction(1, 1 << 1074)
EFFORT = 45_000  # see `effort`
DECIMAL = "(?:0|[1-9][0-9]*)(?:[.][0-9]+)?(?:e[-+]?[0-9]+)?"
# of claims
FORMS = {
    "pure": "N",
    "approx": "N,N",
    "gdp": "N",
    "zcdp": "N",
    "rdp": "N,N|N=N(,N=N)*",
    "fdp": "N=N(,N=N)+",
}
SYMBOLS = {"pure": "epsilon", "approx": "epsilon", "gdp": "mu", "zcdp": "rho", "rdp": "epsilon"}
# Forms of values, see `fits`.
ANY, NULL, BOOL, TEXT, COUNT, ROUNDS = (
    object,
    {None},
    {False, True},
    (str, 0, LONGEST),
    (int, 0, RUNS),
    (int, 1, RUNS),
)
FINITE, INNER, NUMBER = (
    (float, -LARGEST, LARGEST),
    (float, LEAST_DOUBLE, 1 - LEAST_DOUBLE),
    (float, -(10**DIGITS), 10**DIGITS),
)
ARRAY = {
    "$type": {"array"},
    "dtype": (str, 0, 40),
    "shape": [(int, 0, 1 << 31), 0, 32],
    "value": [ANY, 0, SIZE],
}
ENTRIES, NO_NUMBER = (
    {"<f8": FINITE, "<i8": (int, -(1 << 63), (1 << 63) - 1)},
    {"$type": {"float"}, "value": {"inf", "-inf", "nan"}},
)
VECTORS = {
    "$type": {"object"},
    "class": {"dpwitness.mechanisms:LabelledVectors"},
    "fields": {"x": ARRAY, "y": ARRAY, "multiplicity": ARRAY},
}
STAGE = {
    "correct": COUNT,
    "wrong": COUNT,
    "rounds": ROUNDS,
    "directions": (int, 1, 2),
    "prior?": [(float, 0, LARGEST), 3, 3],
}
COUNTS = {
    **STAGE,
    "alpha?": INNER,
    "lost?": COUNT,
    "tested?": ROUNDS,
    "stages?": [{**STAGE, "lost": COUNT, "weight": (float, 0, 1)}, 0, 100],
    "combination?": {"conditional error"},
    "cells?": [[COUNT, 1, 300], 2, 2],
    "cells_alpha?": INNER,
}
TARGET = (NULL, {"target": (str, 1, 1000), "kwargs?": {"*": ANY}})
AUDIT = {
    "schema_version": (int, 1, 1),
    "kind": {"black box"},
    "name": (str, 0, 2000),
    "level": {"value", "bit"},
    "target": TARGET,
    "claim": (str, 1, 100_000),
    "claim_numbers": [FINITE, 1, 4000],
    "pair": {"d0": ANY, "d1": ANY, "relation": (str, 1, 500), "why": (str, 0, 10_000)},
    "bound": ({"inf"}, (float, LEAST_DOUBLE, LARGEST)),
    "confidence": INNER,
    "seed": (int, 0, 1 << 128),
    "event": {"kind": TEXT, "rule": ANY},
    "description": TEXT,
    "trials": ROUNDS,
    "counts": COUNTS,
    "ledger?": (str, 0, 200),
    "sha256": (str, 64, 64),
    "source?": (NULL, {"file": (str, 0, 1000), "sha256": (str, 0, 64), "line?": (int, 1, LARGEST)}),
    "versions?": {"*": (str, 0, 200)},
    "own_claim?": BOOL,
    "scores?": [
        {"name": (str, 1, 200), "target": TARGET, "suggested": BOOL, "keys": [ANY, 1, 256]},
        1,
        64,
    ],
}
COLUMN, SIDE, BOUNDED, EXTENDED = (
    (int, 0, 1 << 17),
    (int, -1, 1),
    FINITE[1:],
    (FINITE, {"$type": {"float"}, "value": {"inf", "-inf"}}),
)
TWO = {"$type": {"tuple"}, "value": [ANY, 2, 2]}
TEXTS, PAIRS = ({"$type": {"tuple"}, "value": [form, 0, SIZE]} for form in (TEXT, TWO))
# An array of a rule: its sides by name (`name+` is longer by one), the least and most entry, or
# their set, or None for all, and its dtype.
Array = namedtuple("Array", "sides within dtype", defaults=["<f8"])
# least and most length
SIDES = {
    **{"2": (2, 2), "knots": (2, 256), "keys": (0, 256)},
    **dict.fromkeys(("at", "roots"), (1, 256)),
}
SIDES.update(dict.fromkeys(("rows", "columns", "nodes"), (1, SIZE)))
RISING = {"edges", "codes", "keys", "knots"}  # arrays in increasing order
WIDE, GUESSES, KNOTS = (
    (-math.inf, math.inf),
    Array("rows", {-1.0, 0.0, 1.0}),
    Array("knots", BOUNDED),
)
NODES, NUMBERS = Array("nodes", None, "<i8"), Array("nodes", BOUNDED)
AT, CENTER = Array("at", COLUMN[1:], "<i8"), Array("at", BOUNDED)
SCALED = {"at": AT, "center": CENTER, "scale": Array("at", (LEAST_DOUBLE, LARGEST))}
APART = {**SCALED, "one": CENTER, "zero": CENTER}
RULES = {  # fields of the classes of events, scores and features
    "LowBits": {"column": COLUMN, "below": EXTENDED, "side": {-1, 1}},
    "Intervals": {
        "column": COLUMN,
        "edges": Array("edges", WIDE),
        "guesses": Array("edges+", GUESSES.within),
        "missing?": SIDE,
    },
    "Lattice": {"column": COLUMN, "rows": Array("rows 2", None), "guesses": GUESSES},
    "Atoms": {
        "rows": Array("rows columns", None),
        "guesses": GUESSES,
        "names?": TEXTS,
        "exact?": Array("pairs 2", None),
    },
    "Threshold": {"score": ANY, "low": EXTENDED, "high": EXTENDED},
    "Restricted": {
        "event": ANY,
        "codes": Array("codes", WIDE),
        "mask?": ANY,
        "inside?": BOOL,
        "side?": SIDE,
    },
    "Binned": {
        "events": {"$type": {"tuple"}, "value": [ANY, 1, 256]},
        "loss": Array("cells", (-50, 50)),
        "order": (float, 1 + Fraction(1, 1 << 52), 10**4),
        "forward": BOOL,
        "bets": Array("2", (0, INNER[2])),
    },
    "WeightedScore": {"width": COLUMN, "blocks": PAIRS, "offset?": FINITE, "structures?": PAIRS},
    "Levels": {"column": COLUMN, "keys": Array("keys", WIDE)},
    "Ramps": {"column": COLUMN, "less": (int, -1, COLUMN[2]), "knots": KNOTS},
    **dict.fromkeys(("Affine", "SignedLog", "Sorted", "Products"), SCALED),
    "Distances": APART,
    "WhitenedDistances": {**APART, "whitening": Array("at at", BOUNDED)},
    "ProjectedRamps": {**SCALED, "direction": CENTER, "knots": KNOTS},
    "Places": {"at": AT, "value": EXTENDED},
    "Trees": {
        **dict.fromkeys(("feature", "left", "right"), NODES),
        **dict.fromkeys(("threshold", "value"), NUMBERS),
        "roots": Array("roots", COLUMN[1:], "<i8"),
    },
}
# kinds
SIMPLE = {
    **{name: name.lower() for name in ("Intervals", "Lattice", "Atoms", "Threshold")},
    "LowBits": "low bits",
}
NESTED = {**SIMPLE, "Restricted": "restricted"}
EVENTS = {**NESTED, "Binned": "binned"}
# (a, b, c): a feature on n columns, keys or knots has a n (n - 1) / 2 + b n + c weights
WEIGHTS = {
    **dict.fromkeys(("Levels", "Affine", "SignedLog", "Sorted"), (0, 1, 0)),
    **dict.fromkeys(("Ramps", "ProjectedRamps"), (0, 1, -1)),
    **dict.fromkeys(("Distances", "WhitenedDistances"), (0, 0, 3)),
    **{"Products": (1, 1, 0), "Places": (0, 3, 2), "Trees": (0, 0, 1)},
}
FAITH = (
    "the rounds are independent runs of the mechanism on the two datasets, and the counts "
    "are theirs",
    "the event, the number of rounds and the error of the test were fixed before the rounds",
)


class Refused(Exception):
    """The witness is malformed, contradicts itself, or its counts do not prove what it states."""


class NotChecked(Exception):
    """The witness states something that is not modelled here."""


def require(condition, message):
    """Raise Refused with the message unless the condition holds."""
    if not condition:
        raise Refused(message)


def side(n, start, first, last, a, c, one, stop):
    """Return bounds on sums of binomial weights after `start`, where the weight is 1: of all from
    below, of [first, last] from above.
    """
    j, low, high, sum_low, sum_high = start, one, one, 0, 0
    while j < n and high > stop:
        up, down = (n - j) * a, (j + 1) * c
        j, low, high = j + 1, low * up // down, -(-high * up // down)
        sum_low += low
        if first <= j <= last:
            sum_high += high
    return sum_low, sum_high + max(0, last - max(j, first - 1)) * high


def tail(n, k, a, c, one=ONE, stop=STOP):
    """Return an integer U with P(Bin(n, a / (a + c)) >= k) <= U / one, for 0 <= k <= n, a > 0 and c
    > 0.
    """
    mode = (n + 1) * a // (a + c)
    low_above, high_above = side(n, mode, k, n, a, c, one, stop)
    # mirrored: n - X is binomial with c / (a + c)
    low_below, high_below = side(n, n - mode, 0, n - k, c, a, one, stop)
    return min(
        one,
        -(
            -(high_above + high_below + (one if k <= mode else 0))
            * one
            // (low_above + low_below + one)
        ),
    )


def floor(x):
    """Return the largest number in units of 1 / ONE that is at most the fraction x."""
    return (x.numerator << BITS) // x.denominator


def ceil(x):
    """Return the smallest number in units of 1 / ONE that is at least the fraction x."""
    return -floor(-x)


def log(n, d):
    """Enclose ln(n / d) for integers n, d > 0: 4 ln m + k ln 2 with m^4 in [1, 2), where ln m = 2
    artanh((m - 1) / (m + 1)).
    """
    require(n > 0 and d > 0, "counts: a rate is too small to be computed with")
    k = n.bit_length() - d.bit_length()
    k -= (n << max(-k, 0)) < (d << max(k, 0))
    m = math.isqrt(math.isqrt((n << 2 * BITS + max(-k, 0)) // (d << max(k, 0))) << BITS)
    power, total, j = ((m - ONE) << BITS) // (m + ONE), 0, 1
    square = power * power >> BITS
    while power:  # at most 56 terms, each rounded down by less than 4 units
        power, total, j = power * square >> BITS, total + power // j, j + 2
    value, error = 8 * total + k * LN2, (abs(k) + 1) << 12
    return value - error, value + error


def exp(x):
    """Enclose e^x: 2^k e^r with r in [0, ln 2], and the series of e^(r / 256), whose rest is below
    its last term.
    """
    k, r = divmod(x, LN2)
    term, total, j, r = ONE, 0, 1, r >> 8
    while term:
        term, total, j = (term * r >> BITS) // j, total + term, j + 1
    for _ in range(8):
        total = total * total >> BITS
    value = total << k if k >= 0 else total >> -k
    return max(0, value - (value >> 320) - 1), value + (value >> 320) + 1


def normal(t):
    """Enclose P(Z > t) = 1/2 - phi(t) (t + t^3/3 + t^5/15 + ...) of a standard normal Z; all terms
    have one sign.
    """
    if t < 0:
        return ONE - normal(-t)[1], ONE - normal(-t)[0]
    if t > FAR:
        return 0, TINY
    square, total, term, j = t * t >> BITS, 0, t, 1
    while term:
        total, j = total + term, j + 2
        term = (term * square >> BITS) // j
    value = ONE // 2 - ((density(t) * total) >> BITS)
    return max(0, value - (1 << 196)), value + (1 << 196)


def density(t):
    """Return phi(t) = e^(-t^2/2) / sqrt(2 pi), up to 2^-318."""
    return (exp(-(t * t >> BITS + 1))[0] * DENSITY) >> BITS


def bisect(holds, low, high, width):
    """Return a point within `width` of the smallest one at which `holds` is true. `holds` is false
    below that point and true from there to `high`.
    """
    while high - low > width:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def quantile(level):
    """Return a t with P(Z > t) <= level, for a level of at least TINY, by Newton's steps, which do
    not pass the root from 0 on.
    """
    t, step, rest = 0, ONE, min(level, ONE - level)
    while step >> BITS - 64 > 0:
        step = (normal(t)[0] - rest) * ONE // density(t)
        t += step
    t, step = t if rest == level else -t, ONE >> 110
    while normal(t)[1] > level:
        t, step = t + step, 2 * step
    return t


def allowed(claim, x, total, several):
    """Return integers (a, c): at most a / (a + c) of the guesses are right if the parameter is at
    most x and their rate at least `total`.

    They are rates of right and wrong guesses of a point on or above the trade-off curve with a + c
    <= total.
    """
    kind, numbers, _ = claim
    if kind == "gdp":
        mu = ceil(x)
        t = bisect(
            lambda u: normal(u)[1] + normal(u - mu)[1] <= total,
            -FAR - mu,
            FAR + mu + ONE,
            ONE >> 120,
        )
        return normal(t - mu)[1], normal(t)[0]
    if kind in ("zcdp", "rdp"):
        return renyi_allowed(budgets(claim, x), total)
    wrong = max(
        (total - start) * ONE // (ONE + slope) for slope, start in lines(kind, numbers, x, several)
    )
    return total - max(0, wrong), max(0, wrong)


def lines(kind, numbers, x, several):
    """Return lines above the trade-off curve, (slope, start), rounded up. Of several stages,
    (epsilon, delta) uses the steep line only.
    """
    steep, before = (
        [(exp(ceil(x))[1], ceil(numbers[1]))] if kind in ("pure", "approx") else [],
        None,
    )
    # the pieces of a curve through points
    for a, b, later, below in zip(numbers[::2], numbers[1::2], numbers[2::2], numbers[3::2]):
        slope, start = (b - below) / (later - a), 1 - b - a * (b - below) / (later - a)
        require(
            before is None or slope <= before, "claim: the points are not those of a convex curve"
        )
        before = slope
        if slope > 0:
            # of the line and its mirror image, the steep one
            slope, start = max((slope, start), (1 / slope, (slope + start - 1) / slope))
            steep.append((ceil(x * slope), ceil(max(start, Fraction(0)))))
    # datasets exchanged
    mirrored = [
        (-(-ONE * ONE // slope), max(0, ONE - (ONE - start) * ONE // slope))
        for slope, start in steep
    ]
    return steep if kind == "pure" or (kind == "approx" and several) else steep + mirrored


def budgets(claim, x):
    """Return (order, (order - 1) * allowed divergence), rounded up, at the orders of RDP, or 1 +
    10^(-3 + 7 i / 239) of zCDP.
    """
    ten, pairs = log(10, 1)[0], list(zip(claim[1][::2], claim[1][1::2]))
    pairs = (
        pairs
        if claim[0] != "zcdp"
        else [
            (a, a)
            for i in range(240)
            for a in [Fraction(ONE + exp(ten * (7 * i - 717) // 239)[0], ONE)]
        ]
    )
    return [(floor(order), ceil((order - 1) * unit * x)) for order, unit in pairs]


def renyi_allowed(entries, total):
    """Return `allowed` of a Renyi claim: a point whose divergence at one order is proved to be at
    least the budget of the order.
    """

    def excess(order, budget, backward, right):
        p, q = (total - right, right) if backward else (right, total - right)
        sides = [(log(p, ONE)[0], log(q, ONE)[1]), (log(ONE - p, ONE)[0], log(ONE - q, ONE)[1])]
        # ln p^a q^(1-a), and of 1 - p and 1 - q
        one, other = (order * up - (order - ONE) * down >> BITS for up, down in sides)
        return (max(one, other) + log(ONE + exp(-abs(one - other))[0], ONE)[0]) * ONE // budget

    least, most = total // 2 + 1, min(total, ONE) - 1
    right, best, before = (least + most) // 2, (0, 0, None), None
    # the best order at a point, then the point of this order: from the second on, the points fall
    while best[1:] != before:
        before, reach = best[1:], len(entries)
        for stride in (16, 4, 1):
            near = range(max(0, best[1] - reach), min(len(entries), best[1] + reach + 1), stride)
            best, reach = (
                max(
                    (excess(*entries[i], back, right), i, back)
                    for i in near
                    for back in (False, True)
                ),
                stride,
            )
        right = bisect(
            lambda rate, best=best: excess(*entries[best[1]], best[2], rate) >= ONE,
            least,
            most,
            ONE >> 80,
        )
    return (right, total - right) if excess(*entries[best[1]], best[2], right) >= ONE else (1, 0)


def chance(n, k, a, c, error):
    """Return `tail` in units of 1 / ONE, with as many digits as a comparison with the error needs.
    The odds are rounded up to this number of digits.
    """
    bits = min(BITS, 128 + BITS - error.bit_length())
    shift = max(0, max(a, c).bit_length() - bits)
    a, c = (a >> shift) + (shift > 0), c >> shift
    return min(ONE, tail(n, k, a, c, 1 << bits, 1 << 64) << BITS - bits) if c else ONE


@lru_cache(maxsize=None)
def frequency(rounds, guesses, error):
    """Return a lower limit on the probability of a guess: an s with P(Bin(rounds, s) >= guesses) <=
    error, sought in floating point.
    """
    if not guesses:
        return 0
    rate, aim = guesses / rounds, log(error, ONE)[0] / ONE
    before, s = rate / 4, max(rate / 2, rate - 2 * math.sqrt(rate / rounds))
    score_before, score, steps = log_tail(rounds, guesses, before), log_tail(rounds, guesses, s), 0
    while abs(s - before) > 1e-13 * s and score != score_before and steps < 60:
        before, s = (
            s,
            min(
                max(s + (s - before) * (aim - score) / (score - score_before), s / 4),
                (s + rate) / 2,
            ),
        )
        score_before, score, steps = score, log_tail(rounds, guesses, s), steps + 1
    mantissa, exponent = math.frexp(s)
    # coarse, so that all machines compute the same
    low, step = int(mantissa * 2**34) << BITS + exponent - 34, 1 << BITS + exponent - 34
    while low > 0 and chance(rounds, guesses, low, ONE - low, error) > error:
        low, step = low - step, 2 * step
    return max(low, 0)


def log_tail(n, k, s):
    """Return ln P(Bin(n, s) >= k) in floating point, for k > 0 and s < k / n."""
    total = term = 1.0
    j = k
    while j < n and term > 1e-17 * total:
        term *= (n - j) / (j + 1) * (s / (1 - s))
        total, j = total + term, j + 1
    return (
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(s)
        + (n - k) * math.log1p(-s)
        + math.log(total)
    )


def conditional_error(level, more, as_many, share):
    """Return a lower bound on the error that a stage leaves: the mean of A(u) over [more, as_many],
    with the guards of `combination`.

    With z = Phi^-1(1 - u), A is Phi(slope z - shift) up to `cut` and constant beyond. Any share
    known before the stage is valid.
    """
    if level < LEAST:
        return 0
    share, cut, more, as_many = (
        min(max(share, 0), Fraction(49, 50)),
        ONE - (level >> GUARD),
        max(more, LEAST),
        max(as_many, LEAST),
    )
    slope = math.isqrt(floor(share / (1 - share)) << BITS)
    shift = (
        quantile(level - (level >> GUARD)) * math.isqrt(ONE * ONE + slope * slope) >> BITS
    ) + 32
    last, beyond, mass = (
        min(as_many, cut),
        max(0, as_many - max(more, cut)),
        max(LEAST, as_many - more),
    )
    # A at the upper end
    least = max(0, normal(shift + (slope * quantile(ONE - last) >> BITS) + 1)[0])
    low, high = quantile(last), -quantile(ONE - min(more, cut))
    terms = 30 + (2 * BITS - max(least, LEAST).bit_length() - mass.bit_length()) // 2
    mean = (
        normal_integral(low, max(low, high), slope, shift, terms) * ONE + beyond * least
    ) // mass - 4 * TINY
    return min(max(mean, least), ONE - (ONE >> GUARD))


def normal_integral(low, high, slope, shift, terms):
    """Return a lower bound on the integral of f(z) = phi(z) Phi(slope z - shift) over [low, high],
    up to 2^-188 of its weight.

    Panels of half width h <= 1 / (4 (1 + slope)^2) use the Taylor series: f' = -z f + g, g' = -(z +
    slope (slope z - shift)) g. On a disc of radius 1 / (1 + slope), |f| < 2: the terms fall at
    least as 2 * 4^-n, so the rest is below (high - low) 4^-terms.
    """
    panels = (high - low) * 2 * (ONE + slope) ** 2 // ONE**3 + 1
    h, integral = (high - low) // (2 * panels), -((high - low) >> 2 * terms) - (1 << 80)
    for i in range(panels):
        m = low + h * (2 * i + 1)
        at = (slope * m >> BITS) - shift
        f, g = (
            density(m) * normal(-at)[0] >> BITS,
            density(m) * (slope * density(at) >> BITS) >> BITS,
        )
        centre, square, f_before, g_before = (
            m + (slope * at >> BITS),
            ONE + (slope * slope >> BITS),
            0,
            0,
        )
        for n in range(terms):
            integral += 0 if n % 2 else (h * f >> BITS - 1) // (n + 1)
            f_next = (h * (((-m * f - h * f_before) >> BITS) + g) >> BITS) // (n + 1)
            g_next = (h * ((-centre * g - (square * h >> BITS) * g_before) >> BITS) >> BITS) // (
                n + 1
            )
            f, f_before, g, g_before = f_next, f, g_next, g
    return integral


def refutes(claim, x, stages, alpha, rule=None):
    """Return whether the counts refute "the parameter is at most x" at error alpha: those of
    stages, or those of the cells of a rule.
    """
    if rule:
        return cells_excess(claim, x, rule, stages[-1]["cells"], alpha) > 0
    # error of the frequency of guesses in a stage
    gamma = Fraction(0) if claim[0] == "pure" else alpha * SHARE / len(stages)
    level, left = floor(alpha - gamma * len(stages)), Fraction(1)
    if level < LEAST:
        return False
    for stage in stages[:-1]:
        more, as_many = p_values(claim, x, stage, gamma, True, LEAST)
        level = conditional_error(
            level, more, as_many, Fraction(stage["weight"]) ** 2 / left if left > 0 else left
        )
        left -= Fraction(stage["weight"]) ** 2
    return (
        level >= LEAST and p_values(claim, x, stages[-1], gamma, len(stages) > 1, level)[1] <= level
    )


def p_values(claim, x, stage, gamma, several, error):
    """Return upper bounds on the probabilities of more right guesses than in the stage and of at
    least as many, if the claim's parameter is x.

    `gamma` is the error of the limit on the frequency of guesses, `several` is true if the stages
    are combined, and `error` is the level at which a bound is of interest.
    """
    right, guesses = stage["correct"], stage["correct"] + stage["wrong"]
    total = (
        2 * frequency(stage["rounds"], guesses - stage["lost"], floor(gamma)) // stage["directions"]
        if gamma
        else ONE
    )
    # too few guesses prove nothing
    a, c = allowed(claim, x, total, several) if total >= LEAST else (1, 0)
    more = (
        0 if right == guesses else chance(guesses, right + 1, a, c, error) if c and several else ONE
    )
    return more, chance(guesses, right, a, c, error) if c else ONE


def cells_excess(claim, x, rule, cells, alpha):
    """Return by how much a Renyi divergence that cells prove at error alpha exceeds the one that x
    allows, times (order - 1) ONE^2.
    """
    loss, order, bets = rule["loss"], rule["order"], rule["bets"]
    units = (
        [order]
        if claim[0] == "zcdp"
        else [unit for a, unit in zip(claim[1][::2], claim[1][1::2]) if a == order]
    )
    require(
        order > 1 and units and all(0 <= bet <= Fraction(99, 100) for bet in bets),
        "event: order or bets are not those of the claim",
    )
    first = [exp(floor((order - 1) * (value - max(loss))))[0] for value in loss]
    second = [ONE - exp(ceil(order * (value - max(loss))))[1] for value in loss]
    p, q = cells if rule["forward"] else cells[::-1]
    low, high = (
        mean_limit(first, p, bets[0], alpha / 2),
        ONE - mean_limit(second, q, bets[1], alpha / 2),
    )
    gain = (
        floor(order) * log(low, ONE)[0] - (floor(order) - ONE) * log(high, ONE)[1] if low > 0 else 0
    )
    return gain - ceil((order - 1) * units[0] * x) * ONE


def mean_limit(values, counts, bet, error):
    """Return a lower confidence limit of the mean of a variable in [0, 1] that took each of
    `values` `counts` times, by a bet.
    """
    aim, stake, unit, seen = (
        log(error.denominator, error.numerator)[1],
        floor(bet),
        ONE >> 60,
        list(zip(values, counts)),
    )
    above = bisect(
        lambda i: (
            sum(n * log(ONE + (stake * (v - i * unit) >> BITS), ONE)[0] for v, n in seen) < aim
        ),
        0,
        1 << 60,
        1,
    )
    return (above - 1) * unit


def canonical(value):
    """Return the canonical JSON of a value: sorted names, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def read(content):
    """Return the value of strict JSON: no name twice, whole numbers and finite doubles, of bounded
    lengths and depth.
    """

    def number(digits, kind=float):
        require(
            len(digits) <= DIGITS and (kind is int or abs(float(digits)) <= LARGEST),
            "file: a number is too long or too large",
        )
        return kind(digits)

    def unique(pairs):
        require(len(dict(pairs)) == len(pairs), "file: a name occurs twice in an object")
        return dict(pairs)

    hooks = {
        "parse_float": number,
        "parse_int": lambda digits: number(digits, int),
        "object_pairs_hook": unique,
    }
    try:
        found = json.loads(
            content,
            parse_constant=lambda word: require(False, "file: %s is not a number" % word),
            **hooks,
        )
    except (ValueError, RecursionError):
        raise Refused("file: it is not complete JSON, or nested too deep") from None
    level, depth = [found], 0
    while level:
        named = [field for value in level if isinstance(value, dict) for field in value.items()]
        texts = [name for name, _ in named] + [value for value in level if isinstance(value, str)]
        require(
            depth <= DEPTH and all(len(each) <= LONGEST for each in texts),
            "file: it is nested too deep, or a text is too long",
        )
        level, depth = (
            [v for _, v in named]
            + [v for value in level if isinstance(value, list) for v in value],
            depth + 1,
        )
    return found


def fits(value, form):
    """Return whether a value has a form: any, one of a set, a list, an object, a text or number
    from least to most, or one of several.
    """
    if form is ANY:
        return True
    if isinstance(form, set):
        return any(type(value) is type(each) and value == each for each in form)
    if isinstance(form, list):  # the form of its entries, and its least and most length
        if not isinstance(value, list) or not form[1] <= len(value) <= form[2]:
            return False
        (kind, *ends), kinds = (
            form[0] if isinstance(form[0], tuple) else (ANY,),
            set(map(type, value)),
        )
        if kind in (int, float) and kinds <= {int, kind}:  # as below, but fast
            return all(ends[0] <= entry <= ends[1] for entry in value)
        return all(fits(entry, form[0]) for entry in value)
    if isinstance(form, dict):
        known = isinstance(value, dict) and all(name in value or name[-1] in "?*" for name in form)
        return known and all(
            fits(inner, form.get(name, form.get(name + "?", form.get("*", set()))))
            for name, inner in value.items()
        )
    if form[0] is str:
        return isinstance(value, str) and form[1] <= len(value) <= form[2]
    if form[0] in (int, float):  # true is not a number; a whole number is a number
        return type(value) in (int, form[0]) and form[1] <= value <= form[2]
    return any(fits(value, each) for each in form)


def require_fields(value, path, form):
    """Raise Refused, with the name of the field, unless an object has the form."""
    require(isinstance(value, dict), "%s: it is not an object" % path)
    for name in [*(name for name in form if name[-1] not in "?*"), *value]:
        require(name in value, "%s: %s is missing" % (path, name))
        inner = form.get(name, form.get(name + "?"))
        require(inner is not None, "%s: %s is not a known field" % (path, ascii(name)[:60]))
        require(
            fits(value[name], inner),
            "%s: %s has a type or a value that is not allowed" % (path, name),
        )


def decode_claim(text, numbers):
    """Return kind, numbers and parameter of a claim from its text; `numbers` are its numbers as
    doubles, and each is read as its shortest decimal.
    """
    kind, _, rest = text.partition(":")
    if kind not in FORMS:
        raise NotChecked("claims of the kind %s are not modelled" % ascii(kind)[:60])
    require(
        re.fullmatch(FORMS[kind].replace("N", DECIMAL), rest),
        "claim: it does not have the form of %s" % kind,
    )
    stated = [float(part) for part in re.split("[,=]", rest)] + [0.0] * (kind == "pure")
    require(stated == numbers, "claim: claim_numbers differ from the numbers of its text")
    found = [Fraction(repr(number)) for number in stated]
    points, is_curve = list(zip(found[::2], found[1::2])), "=" in rest
    require(
        not is_curve or all(a < b for (a, _), (b, _) in zip(points, points[1:])),
        "claim: the points do not rise",
    )
    if kind == "fdp":
        is_valid = (
            points[0][0] == 0
            and points[-1][0] == 1
            and all(b >= d for (_, b), (_, d) in zip(points, points[1:]))
        )
        is_valid = is_valid and all(0 <= b <= 1 - a + SLACK for a, b in points)
        found = [number for point in lower_hull(points) for number in point]
    elif kind == "rdp":
        is_valid = points[0][0] > 1 and all(b > 0 for _, b in points)
    else:
        is_valid = found[0] > 0 and found[-1] < (1 if kind == "approx" else LARGEST)
    require(is_valid, "claim: a number is out of its range")
    if kind == "rdp" and not is_curve:
        return kind, [found[0], Fraction(1)], found[1]
    return kind, found, Fraction(1) if is_curve else found[0]


def lower_hull(points):
    """Return the points on the lower convex envelope of points from left to right."""
    hull = []
    for a, b in points:
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (a - hull[-2][0]) >= (
            b - hull[-2][1]
        ) * (hull[-1][0] - hull[-2][0]):
            hull.pop()
        hull.append((a, b))
    return hull


def decode_array(value):
    """Return dtype, shape and entries of an array with as many entries as its shape says, each of
    its dtype.
    """
    require_fields(value, "array", ARRAY)
    dtype, shape, entries, size = value["dtype"], value["shape"], value["value"], 1
    for side in shape:
        size *= side
    require(size == len(entries), "array: its entries are more or fewer than its shape says")
    if dtype not in ENTRIES or not shape or 0 in shape[1:]:
        raise NotChecked(
            "arrays of dtype %s and %d axes are not modelled" % (ascii(dtype), len(shape))
        )
    words = [entry for entry in entries if isinstance(entry, dict)] if dtype == "<f8" else []
    is_right = fits(
        [entry for entry in entries if not isinstance(entry, dict)] if words else entries,
        [ENTRIES[dtype], 0, SIZE],
    )
    require(is_right and fits(words, [NO_NUMBER, 0, SIZE]), "array: an entry is not of its dtype")
    return (
        dtype,
        shape,
        [float(v["value"] if isinstance(v, dict) else v) for v in entries]
        if dtype == "<f8"
        else entries,
    )


def rows(dtype, shape, entries):
    """Return the rows of an array as texts, which differ if a bit differs: 0.0 from -0.0, but not
    NaN from NaN.
    """
    width = len(entries) // max(shape[0], 1)
    return [repr(entries[i * width : (i + 1) * width]) for i in range(shape[0])]


def decode_records(dataset):
    """Return the records of a dataset as texts, each with its number of copies; whether they are in
    order; and what all share.
    """
    if fits(dataset, NUMBER):
        return [(repr(dataset), 1)], True, "number"
    if isinstance(dataset, list):
        if not any(fits(dataset, [form, 0, SIZE]) for form in (NUMBER, TEXT, [NUMBER, 0, SIZE])):
            raise NotChecked("lists of these records are not modelled")
        return [(record, 1) for record in map(repr, dataset)], True, "list"
    tag = dataset.get("$type") if isinstance(dataset, dict) else None
    if tag == "array":
        dtype, shape, entries = decode_array(dataset)
        return [(row, 1) for row in rows(dtype, shape, entries)], True, (dtype, shape[1:])
    if tag != "object" or not fits(dataset.get("class"), VECTORS["class"]):
        raise NotChecked("datasets of this kind are not modelled")
    require_fields(dataset, "dataset", VECTORS)
    x, y, copies = (decode_array(dataset["fields"][name]) for name in ("x", "y", "multiplicity"))
    is_valid = [(part[0], len(part[1])) for part in (x, y, copies)] == [
        ("<f8", 2),
        ("<f8", 1),
        ("<i8", 1),
    ]
    is_valid = (
        is_valid
        and x[1][0] == y[1][0] == copies[1][0] > 0
        and fits(copies[2], [(int, 1, 1 << 53), 1, SIZE])
    )
    require(
        is_valid and fits(x[2] + y[2], [FINITE, 0, SIZE]),
        "dataset: its arrays do not fit together, or a number is out of range",
    )
    # -0.0 is 0.0 here
    parts = [
        rows(dtype, shape, [entry + 0.0 for entry in entries]) for dtype, shape, entries in (x, y)
    ]
    return list(zip(zip(*parts), copies[2])), False, x[1][1]


def check_records(relation, most, d0, d1):
    """Raise Refused unless one to `most` records of two datasets differ."""
    (first, is_ordered, about), (second, _, other) = decode_records(d0), decode_records(d1)
    require(about == other, "pair: the datasets are of different kinds")
    if isinstance(d0, list):
        decode_records(d0 + d1)  # the records of both are of one kind
    counts = Counter(), Counter()
    for count, dataset in zip(counts, (first, second)):
        for key, copies in dataset:
            count[key] += copies
    removed, added = (sum((a - b).values()) for a, b in (counts, counts[::-1]))
    require(relation == "add-remove" or removed == added, "pair: the numbers of records differ")
    apart = (
        removed + added
        if relation == "add-remove"
        else sum(a != b for a, b in zip(first, second))
        if is_ordered
        else removed
    )
    require(0 < apart <= most, "pair: %d records differ, 1 to %d may" % (apart, most))


def decode_vector(dataset):
    """Return the numbers of a vector of answers, and its kind."""
    if isinstance(dataset, dict):
        dtype, shape, entries = decode_array(dataset)
        require(
            len(shape) == 1 and fits(entries, [FINITE, 0, SIZE]),
            "pair: a vector has several axes, or is not finite",
        )
        return entries, dtype
    if not fits(dataset, (NUMBER, [NUMBER, 0, SIZE])):
        raise NotChecked("vectors of this kind are not modelled")
    return (dataset, "list") if isinstance(dataset, list) else ([dataset], "number")


def check_distance(norm, d0, d1):
    """Raise Refused unless two vectors are at distance at most 1. Return whether only the rounding
    of entries brings them there.

    An entry with a fraction may be any number that rounds to it, and a step over several entries
    may have been divided by its norm. Distances are whole numbers in units of 2^-1075.
    """
    (first, kind), (second, other) = decode_vector(d0), decode_vector(d1)
    require(
        kind == other and len(first) == len(second),
        "pair: the vectors are of different kinds or lengths",
    )
    is_typed = all(a != b or type(a) is type(b) for a, b in zip(first, second))
    require(
        is_typed and repr(first) != repr(second),
        "pair: the vectors are identical, or an equal entry is of another type",
    )
    moved, one = [(a, b) for a, b in zip(first, second) if a != b], 1 << 1075
    ratios = [[number.as_integer_ratio() for number in each] for each in moved]
    steps = [abs(n * (one // d) - m * (one // e)) for (n, d), (m, e) in ratios]
    free = [
        sum(1 << max(math.frexp(number)[1] + 1021, 0) for number in each if number % 1)
        for each in moved
    ]
    room = len(moved) * one >> 52 if len(moved) > 1 and any(free) and norm != "linf" else 0

    def within(sizes, limit):
        if norm == "l2":
            return sum(size * size for size in sizes) <= limit * limit
        return (sum(sizes) if norm == "l1" else max(sizes, default=0)) <= limit

    is_near = within(
        [step - min(step, half) for step, half in zip(steps, free)], one + room
    ) and within(steps, one + (one >> 20))
    require(is_near, "pair: the distance exceeds 1")
    return not within(steps, one)


def check_pair(pair):
    """Raise Refused unless the datasets are neighbors. Return the relation, as it was checked."""
    found = re.fullmatch(
        "(replace-one|add-remove)(:k=([1-9][0-9]{0,5}))?|l1|l2|linf", pair["relation"]
    )
    if not found:
        raise NotChecked("the relation %s is not modelled" % ascii(pair["relation"])[:60])
    if found[1]:
        check_records(found[1], int(found[3] or 1), pair["d0"], pair["d1"])
        return found[0]
    return found[0] + ", up to the rounding of entries (below 1e-6)" * check_distance(
        found[0], pair["d0"], pair["d1"]
    )


def decode_rule(value, names):
    """Return the class of a rule, a score or a feature, and its fields: arrays and tuples as lists,
    infinities as numbers.
    """
    require(
        fits(value, {"$type": {"object"}, "class": TEXT, "fields": {"*": ANY}}),
        "event: a part is not an object of a class",
    )
    package, _, name = value["class"].partition(":")
    if package != "dpwitness.auditors" or name not in RULES:
        raise NotChecked("events with the class %s are not modelled" % ascii(value["class"])[:80])
    require(name in names, "event: a %s is at the place of another class" % name)
    forms = {field.rstrip("?"): form for field, form in RULES[name].items()}
    content = {
        field: inner
        for field, inner in value["fields"].items()
        if inner is not None or field not in ("exact", "mask")
    }
    plain = {
        field: ARRAY if isinstance(form, Array) else form for field, form in RULES[name].items()
    }
    require_fields(content, "event", plain)
    lengths = {}
    for field, inner in content.items():
        if isinstance(forms[field], Array):
            content[field] = decode_entries(inner, field, forms[field], lengths)
        elif isinstance(inner, dict) and forms[field] is not ANY:
            content[field] = float(inner["value"]) if forms[field] is EXTENDED else inner["value"]
        require(
            type(inner) is not int or abs(inner) <= 1 << 53,
            "event: %s is a whole number that no double represents" % field,
        )
    return name, content


def decode_entries(value, field, form, lengths):
    """Return the entries of an array of a rule. `lengths` holds the known lengths of named sides,
    and gets the new ones.
    """
    (dtype, shape, entries), sides, within = decode_array(value), form.sides.split(), form.within
    is_right = dtype == form.dtype and len(shape) == len(sides)
    for side, found in zip(sides, shape):
        name, size = side.rstrip("+"), found - side.count("+")
        least, most = SIDES.get(name, (0, SIZE))
        is_right = is_right and least <= size <= most and lengths.setdefault(name, size) == size
    is_right = is_right and (
        field not in RISING or all(a < b for a, b in zip(entries, entries[1:]))
    )
    if within is not None and is_right:
        is_right = (
            all(entry in within for entry in entries)
            if isinstance(within, set)
            else fits(entries, [(float, *within), 0, SIZE])
        )
    require(
        is_right, "event: %s has another dtype, length or order, or an entry out of range" % field
    )
    return entries


def directions(rule, names):
    """Return how many of the two guesses a rule of a class among `names` can make, 1 or 2. Raise
    Refused unless its fields are valid.
    """
    name, found = decode_rule(rule, names)
    if name == "Restricted":
        inner = [directions(found[part], SIMPLE) for part in ("event", "mask") if part in found]
        return 1 if found.get("side") else inner[0]
    if name == "Binned":
        inner = [directions(event, NESTED) for event in found["events"]]
        require(
            len(found["loss"]) == len(inner) + 1, "event: the losses are not those of its cells"
        )
        return 2
    if name == "Threshold":
        low, high = found["low"], found["high"]
        require(low <= high, "event: its first limit exceeds its second")
        check_score(found["score"])
        return max(1, math.isfinite(low) + math.isfinite(high))
    if name == "Atoms":
        count = len(found["guesses"])
        known = all(
            column % 1 == 0 and 1 <= column < len(found["rows"]) // count
            for column in found.get("exact", [])[::2]
        )
        require(
            known and len(found.get("names", [])) in (0, count),
            "event: its names or its exact values are not those of the rows",
        )
    return (
        len({guess > 0 for guess in [*found.get("guesses", []), found.get("missing", 0)] if guess})
        or 1
    )


def check_score(score):
    """Raise Refused unless a score names columns that it has, with a finite weight for each
    feature.
    """
    found = decode_rule(score, {"WeightedScore"})[1]
    for name, number in (part["value"] for part in found.get("structures", [])):
        require(
            fits(name, TEXT) and fits(number, ((float, -(1 << 53), 1 << 53), EXTENDED[1])),
            "event: structures have other entries",
        )
    for block, weights in (part["value"] for part in found["blocks"]):
        name, feature = decode_rule(block, WEIGHTS)
        columns = [*feature.get("at", []), feature.get("column", 0), max(feature.get("less", 0), 0)]
        if name == "Trees":
            nodes = list(zip(feature["feature"], feature["left"], feature["right"]))
            is_tree = all(
                one < 0 or i < min(one, other) <= max(one, other) < len(nodes)
                for i, (_, one, other) in enumerate(nodes)
            )
            require(
                is_tree and max(feature["roots"]) < len(nodes),
                "event: a node of a tree is not after its parent",
            )
            columns = [column for column, left, _ in nodes if left >= 0]
        require(
            all(0 <= column <= found["width"] for column in columns),
            "event: a feature has a column that the outputs have not",
        )
        n, (a, b, c) = (
            len(feature.get("knots", feature.get("keys", feature.get("at", [])))),
            WEIGHTS[name],
        )
        decode_entries(
            weights,
            "weights",
            Array("weights", BOUNDED),
            {"weights": a * n * (n - 1) // 2 + b * n + c},
        )


def check_event(event, counts):
    """Raise Refused unless an event is one of its kind, guesses in the directions of the counts,
    and has the cells that were counted.
    """
    least = directions(event["rule"], EVENTS)
    name = event["rule"]["class"].partition(":")[2]
    require(
        event["kind"] == EVENTS[name] and (name == "Binned") == ("cells" in counts),
        "event: it is of another kind",
    )
    # earlier stages had other events
    require(counts["directions"] >= least, "counts: the event guesses in more directions")


def decode_cells(event, counts, kind):
    """Return loss, order, direction and bets of a Renyi rule whose cells were counted."""
    found = decode_rule(event["rule"], {"Binned"})[1]
    is_right = len(counts["cells"][0]) == len(counts["cells"][1]) == len(
        found["loss"]
    ) and kind in ("zcdp", "rdp")
    require(is_right, "event: its cells are not those of the claim and the counts")
    return {
        **found,
        "order": Fraction(repr(found["order"])),
        **{name: list(map(Fraction, found[name])) for name in ("loss", "bets")},
    }


def effort(claim, stages):
    """Return an upper limit on the work of three tests of a claim's counts in all `stages`. One
    second of computing is at least 50,000 units of work.
    """
    found, left = (
        len(stages) * (6500 if claim[0] == "zcdp" else 1500 + 3 * len(claim[1])),
        Fraction(1),
    )
    for stage in stages:
        found += math.isqrt(stage["rounds"]) * min(len(stages), 2) + 250 * len(
            stage.get("cells", [[]])[0]
        )
    for stage in stages[:-1]:
        share = min(Fraction(49, 50), Fraction(stage["weight"]) ** 2 / left if left > 0 else 0)
        found, left = found + 4500 + 1000 / (1 - share), left - Fraction(stage["weight"]) ** 2
    return found


def check_counts(claim, level, bound, confidence, counts, event=None):
    """Raise Refused unless the counts refute the claim and prove the bound. Return the notion of
    the bound and its proved part.
    """
    require_fields(counts, "counts", COUNTS)
    stages = [
        dict({"lost": 0, "weight": 0}, **stage) for stage in counts.get("stages", []) + [counts]
    ]
    if any("prior" in stage for stage in stages):
        raise NotChecked("sequential tests are not modelled")
    is_possible = all(
        s["lost"] <= s["wrong"] and s["correct"] + s["wrong"] <= s["rounds"] for s in stages
    )
    require(
        is_possible and any(s["correct"] + s["wrong"] for s in stages),
        "counts: they are impossible, or there is no guess",
    )
    require(
        sum(Fraction(stage["weight"]) ** 2 for stage in stages[:-1]) <= 1 + SLACK,
        "counts: the squared weights exceed 1",
    )
    if event:
        check_event(event, counts)
    rule, most = (
        decode_cells(event, counts, claim[0]) if "cells" in counts else None,
        1 - Fraction(repr(confidence)),
    )
    require("cells_alpha" in counts or not rule, "counts: cells_alpha is missing")
    errors = {k: Fraction(repr(counts[k])) for k in ("alpha", "cells_alpha") if k in counts}
    largest = max(errors.values(), default=most)
    require(largest <= most * (1 + SLACK), "counts: the error exceeds 1 - confidence")
    alpha = errors.get("cells_alpha" if rule else "alpha", most)
    alpha, pure = min(alpha, most), ("pure", [Fraction(0)] * 2, Fraction(0))
    tested = claim if level == "value" or claim[0] in ("pure", "approx") else pure
    require(bound == "inf" or bound > tested[2], "bound: it does not exceed the claim")
    if bound == "inf" or bound > MOST:
        # a factor on a curve may be large
        require(tested[0] in ("rdp", "fdp"), "bound: the counts do not prove it")
        raise NotChecked("bounds above %d are not computed" % MOST)
    if effort(claim, stages) > EFFORT:
        raise NotChecked("the test of these rounds, stages, cells or points takes too long")
    is_exact = rule or ("alpha" in counts and (len(stages) == 1 or "combination" in counts))
    stated = Fraction(repr(bound))
    slack = max(Fraction(1), stated) * SLACK
    if is_exact and len(stages) > 1:
        slack = max(slack, stated * SLACKS)
    low, high = stated - slack, stated + slack
    # who refutes a larger parameter refutes the claim
    proved = refutes(tested, low, stages, alpha, rule)
    is_refuted = (proved and tested is claim and low >= claim[2]) or refutes(
        claim, claim[2], stages, alpha, rule
    )
    require(is_refuted, "counts: they do not refute the claim")
    require(proved, "bound: the counts do not prove it")
    require(
        not is_exact or not refutes(tested, high, stages, alpha, rule),
        "bound: the counts prove more: they are of another bound",
    )
    return tested, low


def check(content):
    """Check the witness in a JSON text. Return the lines of the statement that it proves, or raise
    Refused or NotChecked.
    """
    witness = read(content)
    require(isinstance(witness, dict), "file: it is not an object")
    rest = canonical({key: value for key, value in witness.items() if key != "sha256"})
    require(
        hashlib.sha256(rest.encode("ascii")).hexdigest() == witness.get("sha256"),
        "sha256: it is not the hash of the content",
    )
    kind = witness.get("kind")
    require(fits(kind, (str, 1, 40)), "witness: kind has a type or a value that is not allowed")
    if kind not in AUDIT["kind"]:
        raise NotChecked("witnesses of the kind %s are not modelled" % ascii(kind))
    require_fields(witness, "witness", AUDIT)
    claim = decode_claim(witness["claim"], witness["claim_numbers"])
    tested, low = check_counts(
        claim, *(witness[name] for name in ("level", "bound", "confidence", "counts", "event"))
    )
    relation, symbol = (
        check_pair(witness["pair"]),
        "factor" if "=" in witness["claim"] and tested is claim else SYMBOLS[tested[0]],
    )
    digits = "%d.%09d" % divmod(low.numerator * 10**9 // low.denominator, 10**9)  # rounded down
    bound = "%s > %s%s" % (
        symbol,
        digits,
        "" if tested is claim else " of pure differential privacy",
    )
    return [
        "claim: %s is refuted" % witness["claim"],
        "relation: " + relation,
        "bound: " + bound,
        "confidence: %r" % witness["confidence"],
    ]


def answer(path):
    """Return the exit code for a file, the answer, and its lines."""
    try:
        if path != "-" and (not os.path.isfile(path) or os.path.getsize(path) > SIZE):
            return 2, "CANNOT READ", ["it must be a file of at most %d bytes" % SIZE]
        with open(0 if path == "-" else path, "rb") as file:
            content = file.read(SIZE + 1)
    except (OSError, ValueError) as error:
        return 2, "CANNOT READ", [ascii(str(error))]
    try:
        return (
            0,
            "ACCEPTED",
            [*check(content.decode("utf-8")), *("on faith: " + each for each in FAITH)],
        )
    except UnicodeDecodeError:
        return 1, "REFUSED", ["file: it is not UTF-8"]
    except (Refused, NotChecked) as error:
        return (
            (1, "REFUSED", [str(error)])
            if isinstance(error, Refused)
            else (3, "NOT CHECKED", [str(error)])
        )


def main(paths):
    """Print the answer for each file, and return the exit code of the worst one: of 1, then 2, then
    3, then 0.
    """
    codes = set() if paths else {2}
    for path in paths:
        code, word, lines = answer(path)
        print("%s %s" % (word, ascii(path)[1:-1]), *lines, sep="\n    ")
        codes.add(code)
    return next(code for code in (1, 2, 3, 0) if code in codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
