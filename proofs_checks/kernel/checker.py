"""Checker of witnesses: one file, the standard library only, integers with directed rounding instead of floating point.

``python checker.py witness.json`` prints ACCEPTED, what was checked and what is taken on faith, or REFUSED with the reason. Counts must
refute the claim and the bound (theorems: `auditors/statistics`). Real numbers are integers in units of 1 / ONE; enclosures are (low, high).
"""

import hashlib
import json
import sys
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from math import isqrt

BITS, ONE, STOP = 384, 1 << 384, 1 << 144  # a walk over binomial weights ends below STOP
LN2 = 0xB17217F7D1CF79ABC9E3B39803F2F6AF40F343267298B62D8A0D175B8BAAFA2BE7B876206DEBAC98559552FB4AFA1B10  # floor(ONE ln 2)
DENSITY = 0x662114CF50D942343F2CF1402EAE38BFD3829F30512706D8C0471B4802639D2E9DF8AC55447D3DB723F5D3ABB374E88D  # floor(ONE / sqrt(2 pi))
FAR, TINY = 16 * ONE, 1 << BITS - 188  # a normal variable is beyond FAR with probability below TINY
GUARD, LEAST = 24, ONE >> 140  # conditional errors: the part 2^-GUARD is spent on large p-values, errors below LEAST count as 0
SLACK, SLACKS = Fraction(1, 10**9), Fraction(1, 10**6)  # relative errors of a bound in floating point, from one stage and from several
SHARE, MOST = Fraction(1, 50), 2000  # part of the error for the frequency of guesses; parameters above MOST count as infinite
KINDS = ("pure", "approx", "gdp", "zcdp", "rdp", "fdp")  # notions whose counts are checked


class Refused(Exception):
    """The witness does not prove what it states, or states something that is not checked here."""


def require(condition, message):
    """Raise Refused with the message unless the condition holds."""
    if not condition:
        raise Refused(message)


def side(n, start, first, last, a, c, one, stop):
    """Return bounds on sums of binomial weights after `start`, where the weight is 1: of all from below, of [first, last] from above."""
    j, low, high, sum_low, sum_high = start, one, one, 0, 0
    while j < n and high > stop:
        up, down = (n - j) * a, (j + 1) * c
        j, low, high = j + 1, low * up // down, -(-high * up // down)
        sum_low += low
        if first <= j <= last:
            sum_high += high
    return sum_low, sum_high + max(0, last - max(j, first - 1)) * high


def tail(n, k, a, c, one=ONE, stop=STOP):
    """Return an integer U with P(Bin(n, a / (a + c)) >= k) <= U / one, for 0 <= k <= n, a > 0 and c > 0."""
    mode = (n + 1) * a // (a + c)
    low_above, high_above = side(n, mode, k, n, a, c, one, stop)
    low_below, high_below = side(n, n - mode, 0, n - k, c, a, one, stop)  # mirrored: n - X is binomial with c / (a + c)
    return min(one, -(-(high_above + high_below + (one if k <= mode else 0)) * one // (low_above + low_below + one)))


def floor(x):
    """Return the largest number in units of 1 / ONE that is at most the fraction x."""
    return (x.numerator << BITS) // x.denominator


def ceil(x):
    """Return the smallest number in units of 1 / ONE that is at least the fraction x."""
    return -floor(-x)


def log(n, d):
    """Enclose ln(n / d) for integers n, d > 0: 4 ln m + k ln 2 with m^4 in [1, 2), where ln m = 2 artanh((m - 1) / (m + 1))."""
    k = n.bit_length() - d.bit_length()
    k -= (n << max(-k, 0)) < (d << max(k, 0))
    m = isqrt(isqrt((n << 2 * BITS + max(-k, 0)) // (d << max(k, 0))) << BITS)
    power, total, j = ((m - ONE) << BITS) // (m + ONE), 0, 1
    square = power * power >> BITS
    while power:  # at most 56 terms, each rounded down by less than 4 units
        power, total, j = power * square >> BITS, total + power // j, j + 2
    value, error = 8 * total + k * LN2, (abs(k) + 1) << 12
    return value - error, value + error


def exp(x):
    """Enclose e^x: 2^k e^r with r in [0, ln 2], and the series of e^(r / 256), whose rest is below its last term."""
    k, r = divmod(x, LN2)
    term, total, j, r = ONE, 0, 1, r >> 8
    while term:
        term, total, j = (term * r >> BITS) // j, total + term, j + 1
    for _ in range(8):
        total = total * total >> BITS
    value = total << k if k >= 0 else total >> -k
    return max(0, value - (value >> 320) - 1), value + (value >> 320) + 1


def normal(t):
    """Enclose P(Z > t) = 1/2 - phi(t) (t + t^3/3 + t^5/15 + ...) of a standard normal Z; all terms have one sign."""
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
    """Return a point at which `holds` is true, close to where it begins; true at `high`, which rises from `low`."""
    while high - low > width:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def quantile(level):
    """Return a t with P(Z > t) <= level, for a level of at least TINY, by Newton's steps, which do not pass the root from 0 on."""
    t, step, rest = 0, ONE, min(level, ONE - level)
    while step >> BITS - 64 > 0:
        step = (normal(t)[0] - rest) * ONE // density(t)
        t += step
    t, step = t if rest == level else -t, ONE >> 110
    while normal(t)[1] > level:
        t, step = t + step, 2 * step
    return t


def allowed(claim, x, total, several):
    """Return integers (a, c): at most a / (a + c) of the guesses are right if the parameter is at most x and their rate at least `total`.

    They are rates of right and wrong guesses of a point on or above the trade-off curve with a + c <= total.
    """
    kind, numbers, _ = claim
    if kind == "gdp":
        mu = ceil(x)
        t = bisect(lambda u: normal(u)[1] + normal(u - mu)[1] <= total, -FAR - mu, FAR + mu + ONE, ONE >> 120)
        return normal(t - mu)[1], normal(t)[0]
    if kind in ("zcdp", "rdp"):
        return renyi_allowed(budgets(claim, x), total)
    wrong = max((total - start) * ONE // (ONE + slope) for slope, start in lines(kind, numbers, x, several))
    return total - max(0, wrong), max(0, wrong)


def lines(kind, numbers, x, several):
    """Return lines above the trade-off curve, (slope, start), rounded up. Of several stages, (epsilon, delta) uses the steep line only."""
    steep, before = [(exp(ceil(x))[1], ceil(numbers[1]))] if kind in ("pure", "approx") else [], None
    for a, b, later, below in zip(numbers[::2], numbers[1::2], numbers[2::2], numbers[3::2]):  # the pieces of a curve through points
        slope, start = (b - below) / (later - a), 1 - b - a * (b - below) / (later - a)
        require(a < later and (before is None or slope <= before), "claim: the points are not those of a convex curve")
        before = slope
        if slope > 0:
            slope, start = max((slope, start), (1 / slope, (slope + start - 1) / slope))  # of the line and its mirror image, the steep one
            steep.append((ceil(x * slope), ceil(max(start, Fraction(0)))))
    mirrored = [(-(-ONE * ONE // slope), max(0, ONE - (ONE - start) * ONE // slope)) for slope, start in steep]  # datasets exchanged
    return steep if kind == "pure" or (kind == "approx" and several) else steep + mirrored


def budgets(claim, x):
    """Return (order, (order - 1) * allowed divergence), rounded up, at the orders of RDP, or 1 + 10^(-3 + 7 i / 239) of zCDP."""
    ten, pairs = log(10, 1)[0], list(zip(claim[1][::2], claim[1][1::2]))
    pairs = pairs if claim[0] != "zcdp" else [(a, a) for i in range(240) for a in [Fraction(ONE + exp(ten * (7 * i - 717) // 239)[0], ONE)]]
    return [(floor(order), ceil((order - 1) * unit * x)) for order, unit in pairs]


def renyi_allowed(entries, total):
    """Return `allowed` of a Renyi claim: a point whose divergence at one order is proved to be at least the budget of the order."""

    def excess(order, budget, backward, right):
        p, q = (total - right, right) if backward else (right, total - right)
        sides = [(log(p, ONE)[0], log(q, ONE)[1]), (log(ONE - p, ONE)[0], log(ONE - q, ONE)[1])]
        one, other = (order * up - (order - ONE) * down >> BITS for up, down in sides)  # ln p^a q^(1-a), and of 1 - p and 1 - q
        return (max(one, other) + log(ONE + exp(-abs(one - other))[0], ONE)[0]) * ONE // budget

    least, most = total // 2 + 1, min(total, ONE) - 1
    right, best, before = (least + most) // 2, (0, 0, None), None
    while best[1:] != before:  # the best order at a point, then the point of this order: from the second on, the points fall
        before, reach = best[1:], len(entries)
        for stride in (16, 4, 1):
            near = range(max(0, best[1] - reach), min(len(entries), best[1] + reach + 1), stride)
            best, reach = max((excess(*entries[i], back, right), i, back) for i in near for back in (False, True)), stride
        right = bisect(lambda rate, best=best: excess(*entries[best[1]], best[2], rate) >= ONE, least, most, ONE >> 80)
    return (right, total - right) if excess(*entries[best[1]], best[2], right) >= ONE else (1, 0)


@lru_cache(maxsize=None)
def frequency(rounds, guesses, error):
    """Return a lower limit on the probability of a guess: an s with P(Bin(rounds, s) >= guesses) <= error, found by secants."""
    rate, aim, best, steps = ONE * guesses // rounds, log(error, ONE)[0], 0, 0
    deviation = rate * ONE // isqrt(max(guesses, 1) << 2 * BITS)
    before, s = rate - min(rate * 3 // 4, 4 * deviation), rate - min(rate // 2, 2 * deviation)
    score_before = log(tail(rounds, guesses, before, ONE - before), ONE)[0]
    while abs(s - before) > s >> 40 and steps < 60:
        p = tail(rounds, guesses, s, ONE - s)
        score, best = log(p, ONE)[0], max(best, s) if p <= error else best
        step = (s - before) * (aim - score) // (score - score_before or 1)
        before, score_before, s, steps = s, score, min(max(s + step, s // 4), rate - 1) - (s >> 44), steps + 1
    return s if tail(rounds, guesses, s, ONE - s) <= error else best


def conditional_error(level, more, as_many, share):
    """Return a lower bound on the error that a stage leaves: the mean of A(u) over [more, as_many], with the guards of `combination`.

    With z = Phi^-1(1 - u), A is Phi(slope z - shift) up to `cut` and constant beyond. Any share known before the stage is valid.
    """
    if level < LEAST:
        return 0
    share, cut, more, as_many = min(max(share, 0), Fraction(49, 50)), ONE - (level >> GUARD), max(more, LEAST), max(as_many, LEAST)
    slope = isqrt(floor(share / (1 - share)) << BITS)
    shift = (quantile(level - (level >> GUARD)) * isqrt(ONE * ONE + slope * slope) >> BITS) + 32
    last, beyond, mass = min(as_many, cut), max(0, as_many - max(more, cut)), max(1, as_many - more)
    least = max(0, normal(shift + (slope * quantile(ONE - last) >> BITS) + 1)[0])  # A at the upper end
    low, high = quantile(last), -quantile(ONE - min(more, cut))
    terms = 30 + (2 * BITS - max(least, LEAST).bit_length() - mass.bit_length()) // 2
    mean = (normal_integral(low, max(low, high), slope, shift, terms) * ONE + beyond * least) // mass - 4 * TINY
    return min(max(mean, least), ONE - (ONE >> GUARD))


def normal_integral(low, high, slope, shift, terms):
    """Return a lower bound on the integral of f(z) = phi(z) Phi(slope z - shift) over [low, high], up to 2^-188 of its weight.

    Panels of half width h <= 1 / (4 (1 + slope)^2) use the Taylor series: f' = -z f + g, g' = -(z + slope (slope z - shift)) g. On a disc
    of radius 1 / (1 + slope), |f| < 2: the terms fall at least as 2 * 4^-n, so the rest is below (high - low) 4^-terms.
    """
    panels = (high - low) * 2 * (ONE + slope) ** 2 // ONE**3 + 1
    h, integral = (high - low) // (2 * panels), -((high - low) >> 2 * terms) - (1 << 80)
    for i in range(panels):
        m = low + h * (2 * i + 1)
        at = (slope * m >> BITS) - shift
        f, g = density(m) * normal(-at)[0] >> BITS, density(m) * (slope * density(at) >> BITS) >> BITS
        centre, square, f_before, g_before = m + (slope * at >> BITS), ONE + (slope * slope >> BITS), 0, 0
        for n in range(terms):
            integral += 0 if n % 2 else (h * f >> BITS - 1) // (n + 1)
            f_next = (h * (((-m * f - h * f_before) >> BITS) + g) >> BITS) // (n + 1)
            g_next = (h * ((-centre * g - (square * h >> BITS) * g_before) >> BITS) >> BITS) // (n + 1)
            f, f_before, g, g_before = f_next, f, g_next, g
    return integral


def refutes(claim, x, stages, alpha, rule=None):
    """Return whether the counts refute "the parameter is at most x" at error alpha: those of stages, or those of the cells of a rule."""
    if rule:
        return cells_excess(claim, x, rule, stages[-1]["cells"], alpha) > 0
    gamma = Fraction(0) if claim[0] == "pure" else alpha * SHARE / len(stages)  # error of the frequency of guesses in a stage
    level, left = floor(alpha - gamma * len(stages)), Fraction(1)
    for stage in stages[:-1]:
        more, as_many = p_values(claim, x, stage, gamma, True)
        level = conditional_error(level, more, as_many, Fraction(stage["weight"]) ** 2 / left if left > 0 else left)
        left -= Fraction(stage["weight"]) ** 2
    return level >= LEAST and p_values(claim, x, stages[-1], gamma, len(stages) > 1)[1] <= level


def p_values(claim, x, stage, gamma, several):
    """Return upper bounds on the probabilities of more right guesses than in the stage and of at least as many, if the parameter is x."""
    right, guesses = stage["correct"], stage["correct"] + stage["wrong"]
    total = 2 * frequency(stage["rounds"], guesses - stage["lost"], floor(gamma)) // stage["directions"] if gamma else ONE
    a, c = allowed(claim, x, total, several)
    more = 0 if right == guesses else tail(guesses, right + 1, a, c) if c else ONE
    return more, tail(guesses, right, a, c) if c else ONE


def cells_excess(claim, x, rule, cells, alpha):
    """Return by how much a Renyi divergence that cells prove at error alpha exceeds the one that x allows, times (order - 1) ONE^2."""
    loss, order, bets = [Fraction(value) for value in rule["loss"]["value"]], Fraction(rule["order"]), rule["bets"]["value"]
    units = [order] if claim[0] == "zcdp" else [unit for a, unit in zip(claim[1][::2], claim[1][1::2]) if a == order]
    require(
        order > 1 and units and all(0 <= Fraction(bet) <= Fraction(99, 100) for bet in bets),
        "event: order or bets are not those of the claim",
    )
    first = [exp(floor((order - 1) * (value - max(loss))))[0] for value in loss]
    second = [ONE - exp(ceil(order * (value - max(loss))))[1] for value in loss]
    p, q = cells if rule["forward"] else cells[::-1]
    low, high = mean_limit(first, p, Fraction(bets[0]), alpha / 2), ONE - mean_limit(second, q, Fraction(bets[1]), alpha / 2)
    gain = floor(order) * log(low, ONE)[0] - (floor(order) - ONE) * log(high, ONE)[1] if low > 0 else 0
    return gain - ceil((order - 1) * units[0] * x) * ONE


def mean_limit(values, counts, bet, error):
    """Return a lower confidence limit of the mean of a variable in [0, 1] that took each of `values` `counts` times, by a bet."""
    aim, stake, unit, seen = log(error.denominator, error.numerator)[1], floor(bet), ONE >> 60, list(zip(values, counts))
    above = bisect(lambda i: sum(n * log(ONE + (stake * (v - i * unit) >> BITS), ONE)[0] for v, n in seen) < aim, 0, 1 << 60, 1)
    return (above - 1) * unit


def canonical(value):
    """Return the canonical JSON of a value: sorted names, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=str)


def records(dataset):
    """Return the records of a dataset (copies are counted), whether they are in order, and the rest; None for an unknown kind."""
    if isinstance(dataset, list):
        return [canonical(record) for record in dataset], True, ""
    kind = dataset.get("$type") if isinstance(dataset, dict) else ""
    if kind == "array" and dataset["shape"]:
        width = len(dataset["value"]) // max(dataset["shape"][0], 1)
        rows = [canonical(dataset["value"][i * width : (i + 1) * width]) for i in range(dataset["shape"][0])]
        return rows, True, canonical([dataset["dtype"], dataset["shape"][1:]])
    if kind == "object" and dataset["class"] == "dpwitness.mechanisms:LabelledVectors":
        x, y = (records(dataset["fields"][name])[0] for name in ("x", "y"))
        copies = Counter()
        for row, n in zip(zip(x, y), dataset["fields"]["multiplicity"]["value"]):
            copies[row] += len(range(n))
        return copies, False, ""
    return None


def check_pair(pair):
    """Raise Refused if the datasets are not neighbors under the relation. Return what was checked and what is taken on faith."""
    (relation, _, options), d0, d1 = pair["relation"].partition(":"), pair["d0"], pair["d1"]
    require(canonical(d0) != canonical(d1), "pair: d0 and d1 are identical")
    sides, size = (records(d0), records(d1)), int(options[2:]) if options.startswith("k=") else 1
    if relation not in ("replace-one", "add-remove", "l1", "l2", "linf") or None in sides or options not in ("", "k=%d" % size):
        return [], ["the datasets are neighbors under %s" % pair["relation"]]
    (first, ordered, about), (second, _, other) = sides
    require(about == other, "pair: the datasets are of different kinds")
    counts = Counter(first), Counter(second)
    require(relation == "add-remove" or sum(counts[0].values()) == sum(counts[1].values()), "pair: the numbers of records differ")
    if relation[0] == "l":
        numbers = [[Fraction(number) for number in (d if isinstance(d, list) else d["value"])] for d in (d0, d1)]
        steps = [abs(a - b) for a, b in zip(*numbers)]
        apart = max(steps) if relation == "linf" else sum(step * step if relation == "l2" else step for step in steps)
        room = Fraction(max(1, *(abs(number) for side in numbers for number in side))) * len(steps) / (1 << 50)
        size = 1 + (room if any(step.denominator > 1 for step in steps) else 0)
    else:
        removed, added = (sum((a - b).values()) for a, b in (counts, counts[::-1]))
        apart = removed + added if relation == "add-remove" else sum(a != b for a, b in zip(first, second)) if ordered else removed
    require(0 < apart <= size, "pair: the distance is %.9g, at most %.9g is allowed" % (apart, size))
    return ["pair"], []


def claim_of(witness):
    """Return the claim: kind, numbers and parameter."""
    (kind, _, text), numbers = witness["claim"].partition(":"), [Fraction(number) for number in witness["claim_numbers"]]
    require(kind in KINDS, "claim: the notion %s is not checked here" % kind)
    is_single = kind == "rdp" and "=" not in text
    return (kind, [numbers[0], Fraction(1)], numbers[1]) if is_single else (kind, numbers, Fraction(1) if kind in KINDS[4:] else numbers[0])


def check_audit(witness):
    """Raise Refused unless the counts refute the claim and prove the stated bound. Return what was checked and what is taken on faith."""
    counts, claim, most = witness["counts"], claim_of(witness), (1 - Fraction(witness["confidence"])) * (1 + SLACK)
    stages = [dict({"lost": 0, "weight": 0}, **stage) for stage in counts.get("stages", []) + [counts]]
    for stage in stages:
        correct, wrong, rounds, lost, directions = (stage[name] for name in ("correct", "wrong", "rounds", "lost", "directions"))
        is_possible = 0 <= lost <= wrong and 0 <= correct <= rounds - wrong and rounds <= 10**12 and directions in (1, 2)
        require(is_possible and all(isinstance(n, int) for n in (correct, wrong, rounds, lost)), "counts: they are impossible")
    require(sum(Fraction(stage["weight"]) ** 2 for stage in stages[:-1]) <= 1 + SLACK, "counts: the squared weights exceed 1")
    bound = Fraction(MOST) if witness["bound"] == "inf" else Fraction(witness["bound"])
    error, rule = ("cells_alpha", witness["event"]["rule"]["fields"]) if "cells" in counts else ("alpha", None)
    alpha, slack = Fraction(counts.get(error, most)), max(1, bound) * (SLACK if len(stages) == 1 else SLACKS)
    require(0 < alpha <= most, "counts: the error exceeds 1 - confidence")
    tested = claim if witness["level"] == "value" or claim[0] in KINDS[:2] else ("pure", [Fraction(0)] * 2, Fraction(0))
    require(tested[2] < bound <= MOST, "bound: it does not exceed the claim")
    proved = refutes(tested, bound - slack, stages, alpha, rule)  # who refutes a larger parameter refutes the claim
    is_refuted = (proved and tested is claim and bound - slack >= claim[2]) or refutes(claim, claim[2], stages, alpha, rule)
    require(is_refuted, "counts: they do not refute the claim")
    require(proved, "bound: the counts do not prove it")
    is_exact = "cells" in counts or ("alpha" in counts and (len(stages) == 1 or counts.get("combination") == "conditional error"))
    proves_more = is_exact and bound < MOST and refutes(tested, bound + slack, stages, alpha, rule)
    require(not proves_more, "bound: the counts prove more: they are of another bound")
    faith = ["the rounds are independent", "the event and its directions were fixed before its rounds", "the counts are those of the runs"]
    return ["counts"], faith if is_exact else [*faith, "the bound may be smaller than the counts prove: an earlier version wrote it"]


def check_other(witness):
    """Raise Refused if a witness without counts contradicts itself. Return what was checked and what is taken on faith."""
    if witness.get("level") == "white box":
        bound, (kind, _, parameter) = witness["bound"], claim_of(witness)
        require(bound == "inf" or Fraction(bound) > parameter, "bound: it does not exceed the claim")
        require(witness["event"]["above"] == bound or kind not in ("pure", "approx"), "event: it is of another bound")
    return ["form"], ["the evidence of a witness without counts (%s): it is not computed here" % witness.get("kind", "white box")]


def check(text):
    """Check the witness in a JSON text: return what was checked and what is taken on faith, or raise Refused."""
    raw, witness = json.loads(text), json.loads(text, parse_float=Fraction)
    content = canonical({key: value for key, value in raw.items() if key != "sha256"})
    require(hashlib.sha256(content.encode("ascii")).hexdigest() == raw.get("sha256"), "sha256: it is not the hash of the content")
    checked, faith = check_audit(witness) if "counts" in witness and "kind" not in witness else check_other(witness)
    more = check_pair(witness["pair"]) if "pair" in witness else ([], [])
    return ["hash", *checked, *more[0]], faith + more[1]


def main(paths):
    """Check the files, print a line for each and what is taken on faith, and return the exit code."""
    failed = not paths
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                checked, faith = check(file.read())
            print("ACCEPTED %s: checked %s" % (path, ", ".join(checked)), *faith, sep="\n    on faith: ")
        except (Refused, ArithmeticError, ValueError, KeyError, TypeError, IndexError, OSError) as error:
            failed = True
            print("REFUSED %s: %s" % (path, error if isinstance(error, Refused) else repr(error)))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
