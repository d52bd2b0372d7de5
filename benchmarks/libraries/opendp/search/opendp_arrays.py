"""Transformations of OpenDP's extras for NumPy and scikit-learn: built from their signatures, and
searched for pairs that move too far.
"""

import importlib
import inspect
import itertools
import math
import pkgutil
import time
from collections import Counter

import numpy as np
import opendp.extras.numpy
import opendp.extras.sklearn
import opendp.prelude as dp
import opendp_inputs as inputs

SLACK = 1 + 1e-6  # the extras assume idealized numbers, so rounding is not a finding
ROWS = [
    [0.0, 0.0],
    [1.0, 1.0],
    [0.7, 0.7],
    [-0.5, 0.5],
    [2.0, 5.0],
    [10.0, 10.0],
    [10.7, 10.7],
    [10.0, 9.0],
]
DOMAINS = [
    "dp.numpy.array2_domain(num_columns=2, T=float)",
    "dp.numpy.array2_domain(num_columns=2, nan=False, T=float)",
    *(
        f"dp.numpy.array2_domain(norm={norm}, p={p}, origin=np.array({origin}), "
        f"{size}num_columns=2, nan=False, T=float)"
        for norm, p, origin, size in itertools.product(
            (1.0, 2.0), (1, 2), ([0.0, 0.0], [10.0, 10.0]), ("", "size=2, ")
        )
    ),
]
ARGUMENTS = {"norm": ["1.0"], "p": ["1", "2"], "x_cuts": ["np.array([0.0, 1.0])"], "j": ["0"]}


def names():
    """Return the names that sources use, all constructors of transformations of the two extras
    among them.
    """
    found = {"dp": dp, "np": np}
    for package in (opendp.extras.numpy, opendp.extras.sklearn):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            for name, value in vars(importlib.import_module(module.name)).items():
                if name.startswith("make_") and "private" not in name and inspect.isfunction(value):
                    found[name] = value
    return found


def sources(space):
    """Yield sources of transformations: constructors on each domain, and chains of two."""
    for name, function in [(n, f) for n, f in space.items() if n.startswith("make_")]:
        parameters = [
            p for p in inspect.signature(function).parameters.values() if p.default is p.empty
        ]
        wanted = [p.name for p in parameters if p.name not in ("input_domain", "input_metric")]
        if any(w not in ARGUMENTS for w in wanted):
            continue
        for values in itertools.product(*(ARGUMENTS[w] for w in wanted)):
            given = "".join(f", {w}={v}" for w, v in zip(wanted, values, strict=False))
            if len(wanted) == len(parameters):
                yield f"{name}({given[2:]})"
            for domain in DOMAINS if len(wanted) < len(parameters) else ():
                first = f"{name}({domain}, dp.symmetric_distance(){given})"
                yield first
                for other in ("make_eigenvalues", "make_np_sum"):
                    yield f"(lambda t: t >> {other}(*t.output_space))({first})"


def search(rng, seconds=math.inf):
    """Yield a finding for each transformation that has one, until the CPU time is over."""
    space, deadline = names(), time.process_time() + seconds
    for source in sources(space):
        if time.process_time() > deadline:
            return
        made = inputs.value_of(eval, source, space)
        found = made and judged(made, source, _trials(made, source, rng))
        if found:
            yield found


def _trials(made, source, rng):
    """Yield pairs of members of the domain, with their distance and the value of the map there."""
    tried = list(neighbors("size=2" in source))
    rest = tried[len(ROWS) :]
    for *pair, d_in in tried[: len(ROWS)] + rng.sample(rest, min(40, len(rest))):
        allowed = inputs.value_of(made.map, d_in)
        members = (made.input_domain.member(array(rows)) for rows in pair if rows)
        if allowed is not None and inputs.value_of(all, members):
            yield d_in, allowed, pair


def judged(made, source, trials):
    """Return the first finding of a transformation in `trials`, or None: outputs further apart than
    the map allows, or an error on one side only.
    """

    def run(rows):
        return inputs.tried(lambda: plain(made(array(rows))))

    def excess(allowed, first, second):
        found = gap(made, first, second)
        return found if found is not None and found > allowed * SLACK else None

    def confirmed(kind, _, pair, outcomes):
        known = zip(pair, outcomes, strict=True)
        return None if any(inputs.varies(run, *each, 5) for each in known) else kind

    description = {"part": "arrays", "build": source, "metric": str(made.output_metric)}
    return inputs.difference(description, trials, run, excess, confirmed)


def array(rows):
    """Return rows as an array of two columns."""
    return np.array(rows, dtype=float).reshape(-1, 2)


def plain(output):
    """Return an array as nested lists, and other outputs as they are."""
    return output.tolist() if hasattr(output, "tolist") else output


def neighbors(sized):
    """Yield pairs of lists of rows with their symmetric distance."""
    if sized:
        yield from (
            ([one, two], [one, three], 2)
            for one, two, three in itertools.product(ROWS, ROWS, ROWS)
            if two != three
        )
        return
    yield from (([], [row], 1) for row in ROWS)
    yield from (
        ([one, two], [three, one, two], 1)
        for one, two, three in itertools.product(ROWS, ROWS, ROWS)
    )
    yield from (([one], [two], 2) for one, two in itertools.product(ROWS, ROWS) if one != two)


def gap(made, one, other):
    """Return the distance of two outputs by the output metric; None for a metric that this module
    does not know.
    """
    metric = str(made.output_metric)
    if metric.startswith("SymmetricDistance"):
        counts = Counter(map(repr, one))
        counts.subtract(map(repr, other))
        return (
            sum(map(abs, counts.values()))
            if made.output_domain and "SSCP" not in str(made.output_domain)
            else None
        )
    differences = (
        [abs(a - b) for a, b in zip(one, other, strict=False)]
        if isinstance(one, list)
        else [abs(one - other)]
    )
    return sum(d * d for d in differences) ** 0.5 if metric.startswith("L2") else sum(differences)
