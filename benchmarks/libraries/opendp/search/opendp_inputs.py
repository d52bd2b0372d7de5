"""Adversarial datasets, their neighbors, and exact distances, for OpenDP's domains and metrics.
Standard library only.

A space is a dictionary in the JSON form of dpwitness's input spaces: `{"type": "vector", "dtype":
"f64", "bounds": [0, 10], "size": 3}`, with `type` "vector", "scalar", "map" or "frame" (whose
`columns` are such atoms).
"""

import collections
import itertools
import math
import struct
from fractions import Fraction

INTEGERS = {f"{sign}{bits}": bits for sign in "iu" for bits in (8, 16, 32, 64, 128)} | {"usize": 64}


def integer_range(dtype):
    """Return the smallest and the largest integer of a type."""
    bits = INTEGERS[dtype]
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.startswith("i") else (0, 2**bits - 1)


def single(value):
    """Return the nearest float of 32 bits to a number or its text."""
    return struct.unpack("f", struct.pack("f", float(value)))[0]


def _numbers(dtype):
    if dtype in INTEGERS:
        low, high = integer_range(dtype)
        return [
            v
            for v in (0, 1, 2, 3, -1, high, low, high - 1, low + 1, 7, 99, 2**31, -5)
            if low <= v <= high
        ]
    large = 3.0e38 if dtype == "f32" else 1.7e308
    return [
        0.0,
        1.0,
        0.5,
        2.0,
        -1.0,
        0.1,
        large,
        -large,
        math.inf,
        -math.inf,
        -0.0,
        5e-324 if dtype == "f64" else 1e-45,
        3.0,
        2.0**53,
    ]


_OTHER = {
    "bool": [True, False],
    "str": [
        "a",
        "b",
        "",
        "1",
        "2",
        "x",
        "nan",
        "-1",
        "1e400",
        "2021-03-28 02:30:00",
        "2021-01-01",
        "99",
        "(",
    ],
    # days: all have a year below 262143, the last of OpenDP's dates
    "date": [0, 18321, -1, 2932896, 90_000_000, -90_000_000],
    "time": [0, 86_399_999_999_999, 45_000_000_000_000],  # nanoseconds
    # microseconds: each integer is a member
    "datetime": [0, 1_616_898_600_000_000, 2**63 - 1, -(2**63), 253_402_300_740_000_000],
}


def values(atom):
    """Return adversarial values of an atom, which is a dictionary with `dtype`, `bounds`,
    `nullable`, `nan` and `categories`.
    """
    dtype, bounds = atom["dtype"], atom.get("bounds")
    found = list(atom.get("categories") or _OTHER.get(dtype) or _numbers(dtype))
    if dtype == "f32":  # the library would round other floats, and their distances
        found = list(map(single, found))
    if bounds:
        low, high = bounds
        middle = (low + high) // 2 if dtype in INTEGERS else low / 2 + high / 2
        middle = single(middle) if dtype == "f32" else middle
        # the middle of infinite bounds is NaN
        inside = [v for v in (high, low, middle, *found) if low <= v <= high]
        found = list(dict.fromkeys(inside))
    if atom.get("nan"):
        found.insert(1, math.nan)
    if atom.get("nullable"):
        found.insert(1, None)
    return found


def key(value):
    """Return a hashable form of a row, in which NaN equals NaN."""
    if isinstance(value, dict):
        return tuple((name, key(v)) for name, v in value.items())
    return repr(value)


def rows_of(space):
    """Return adversarial rows of a vector or a frame."""
    if space["type"] != "frame":
        return values(space)
    names = list(space["columns"])
    pools = {name: values(space["columns"][name]) for name in names}
    first = {name: pools[name][0] for name in names}
    found = [first]
    for name in names:
        found += [first | {name: value} for value in pools[name][1:]]
    if len(names) > 1:
        for one, other in itertools.combinations(names, 2):
            found += [
                first | {one: a, other: b} for a in pools[one][1:4] for b in pools[other][1:4]
            ]
    return found


def bases(space, most=8):
    """Yield lists of rows: of the known size, else empty, single, pairs, and repeated rows."""
    rows, size = rows_of(space), space.get("size")
    if size is not None:
        for row in rows:
            yield [row] * size
        few = rows[:most]
        yield from (
            [one] * (size - size // 2) + [other] * (size // 2)
            for one, other in itertools.permutations(few, 2)
        )
        yield from (
            [rows[(start + i) % len(rows)] for i in range(size)] for start in range(len(rows))
        )
        return
    yield []
    yield from ([row] for row in rows)
    yield from (rows[:count] for count in (3, 4))
    yield from ([row] * 5 for row in rows[:most])
    yield from ([one, other] for one, other in itertools.product(rows[:most], rows[:most]))
    yield [rows[i % len(rows)] for i in range(9)]


def edits(base, space, metric, d_in):
    """Yield the lists of rows that result from single edits of `base`, `d_in` of them, each allowed
    by the metric.
    """
    rows = rows_of(space)
    sized = space.get("size") is not None
    if metric in ("change-one", "hamming"):
        for row in rows:
            for place in range(min(len(base), 3)):
                yield base[:place] + [row] * min(d_in, len(base) - place) + base[place + d_in :]
        return
    if sized:
        for row in rows if d_in >= 2 else ():
            for place in range(min(len(base), 3)):
                count = min(d_in // 2, len(base) - place)
                yield base[:place] + [row] * count + base[place + count :]
                yield base[:place] + base[place + count :] + [row] * count
        return
    for row in rows:
        for place in {0, len(base)}:
            yield base[:place] + [row] * d_in + base[place:]
        if d_in >= 2 and base:
            yield [row, *base[1:]]
    for place in range(min(len(base), 3)):
        yield base[:place] + base[place + d_in :]


def row_distance(metric, first, second):
    """Return the distance of two lists of rows; infinity where the metric is undefined."""
    if metric in ("change-one", "hamming"):
        if len(first) != len(second):
            return math.inf
        if metric == "hamming":
            return sum(key(a) != key(b) for a, b in zip(first, second, strict=False))
        return _symmetric(first, second) // 2
    if metric == "insert-delete":
        return _insertions(list(map(key, first)), list(map(key, second)))
    return _symmetric(first, second)


def _symmetric(first, second):
    counts = collections.Counter(map(key, first))
    counts.subtract(map(key, second))
    return sum(map(abs, counts.values()))


def _insertions(first, second):
    """Return the number of insertions and deletions between two sequences, by the longest common
    subsequence.
    """
    previous = [0] * (len(second) + 1)
    for a in first:
        current = [0]
        for j, b in enumerate(second):
            current.append(previous[j] + 1 if a == b else max(previous[j + 1], current[j]))
        previous = current
    return len(first) + len(second) - 2 * previous[-1]


def exact(value):
    """Return a number as a Fraction; None, infinity and NaN as they are."""
    if isinstance(value, bool):
        return Fraction(int(value))
    if isinstance(value, float) and not math.isfinite(value):
        return value
    return Fraction(value)


def number_distance(metric, first, second):
    """Return the exact distance of two numbers or two vectors; for "l2" its square. NaN beside a
    number is infinitely far.
    """
    one, other = (
        ([first], [second]) if not isinstance(first, (list, tuple)) else (list(first), list(second))
    )
    if len(one) != len(other):
        return math.inf
    gaps = [_gap(a, b) for a, b in zip(one, other, strict=False)]
    if any(g == math.inf for g in gaps):
        return math.inf
    if metric == "l2":
        return sum((g * g for g in gaps), Fraction(0))
    return max(gaps, default=Fraction(0)) if metric == "linf" else sum(gaps, Fraction(0))


def _gap(a, b):
    a, b = exact(a), exact(b)
    if isinstance(a, float) or isinstance(b, float):
        return Fraction(0) if repr(a) == repr(b) else math.inf
    return abs(a - b)


ROW_METRICS = ("symmetric", "insert-delete", "change-one", "hamming")


def distance(metric, first, second):
    """Return the exact distance of two outputs by the name of their metric; for "l2" the square of
    it.
    """
    if metric in ROW_METRICS:
        return row_distance(metric, first, second)
    if metric == "discrete":
        return 0 if key(first) == key(second) else 1
    return number_distance(metric, first, second)


def exceeds(metric, found, allowed):
    """Return whether an exact distance is certainly above the value of a map."""
    if found == math.inf:
        return allowed != math.inf
    if isinstance(allowed, float) and not math.isfinite(allowed):
        return False
    allowed = Fraction(allowed)
    return allowed < 0 or found > (allowed * allowed if metric == "l2" else allowed)


def shifted_numbers(base, space, metric, d_in):
    """Yield numbers or vectors within `d_in` of `base` by "absolute", "l1", "l2" or "linf"."""
    dtype, bounds = space["dtype"], space.get("bounds")
    low, high = bounds or (integer_range(dtype) if dtype in INTEGERS else (-math.inf, math.inf))
    places = range(len(base)) if isinstance(base, list) else (None,)

    def add(value, step):
        return single(value + step) if dtype == "f32" else value + step

    for step in (d_in, -d_in):
        for place in places:
            moved = list(base) if place is not None else add(base, step)
            if place is not None:
                moved[place] = add(moved[place], step)
            if low <= (moved[place] if place is not None else moved) <= high:
                yield moved
        if isinstance(base, list) and metric in ("linf", "l2"):
            root = math.isqrt(len(base)) if metric == "l2" else 1
            part = step // root if dtype in INTEGERS else step / root
            count = root * root if metric == "l2" else len(base)
            moved = [add(v, part) if i < count else v for i, v in enumerate(base)]
            if all(low <= v <= high for v in moved):
                yield moved


def tried(call, *arguments):
    """Return ("output", value) of a call, or ("error", text)."""
    try:
        return "output", call(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of Polars is not an Exception
        text = getattr(error, "message", None) or str(error)
        # of the trace of a function in Python, the last line has the error
        return "error", (text.strip().splitlines()[-1] if "Traceback" in text else text)[:300]


def value_of(call, *arguments):
    """Return the value of a call; None if it raises."""
    kind, value = tried(call, *arguments)
    return value if kind == "output" else None


def varies(outcome, rows, known, times=40):
    """Return whether a dataset has another outcome than `known` in one of several calls."""
    return any(repr(outcome(rows)) != repr(known) for _ in range(times))


# what `difference` adds to the description of a program
FINDING = ("kind", "distance_in", "allowed", "found", "inputs", "outcomes")


def difference(description, trials, outcome, excess, confirmed):
    """Return a finding: the first pair whose outputs are too far apart, else the first with an
    error on one side only; None if there is none.

    Parameters
    ----------
    description : dict
        Entry of the program that is searched.
    trials : iterable
        Tuples (distance of the pair, what the map allows at this distance, pair).
    outcome : callable
        Returns ("output", value) or ("error", text) for a dataset.
    excess : callable
        Returns the distance of two outputs, or None if the map allows it.
    confirmed : callable
        Returns the kind of the finding, or None, for a kind ("distance" or "error"), the distance
        of the pair, the pair, and both outcomes.
    """
    error = None
    for d_in, allowed, pair in trials:
        outcomes = [outcome(rows) for rows in pair]
        found, is_error = None, outcomes[0][0] != outcomes[1][0]
        if not is_error and outcomes[0][0] == "output":
            found = excess(allowed, *(value for _, value in outcomes))
        if found is None and (not is_error or error is not None):
            continue
        kind = confirmed("error" if is_error else "distance", d_in, pair, outcomes)
        if kind is not None:
            finding = description | {
                "kind": kind,
                "distance_in": d_in,
                "allowed": allowed,
                "found": None if found is None else str(found),
                "inputs": list(pair),
                "outcomes": outcomes,
            }
            if found is not None:
                return finding
            error = finding
    return error
