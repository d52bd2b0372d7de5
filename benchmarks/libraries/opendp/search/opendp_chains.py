"""Chains of OpenDP's transformations, built from the types of their constructors, and the search
for pairs that move too far.
"""

import random
import time
from functools import partial

import opendp.prelude as dp
import opendp_inputs as inputs
from opendp_signatures import (
    NAMESPACE,
    calls,
    constructors,
    metric_of,
    metric_source,
    source_of,
    space_of,
    start_spaces,
)

LARGE = (2**16, 2**31 - 1, 2**31, 2**32 - 1)  # distances at which integers of 32 bits overflow
ROW = inputs.ROW_METRICS


def build(source):
    """Return the object that a source describes."""
    return eval(source, NAMESPACE)


def describe(source, transformation):
    """Return a transformation as an entry, or None if its space or its metrics are not known."""
    space, metric, output = (
        space_of(transformation.input_domain),
        metric_of(transformation.input_metric),
        metric_of(transformation.output_metric),
    )
    # vectors of optional values abort the process when the library hands them out
    after = space_of(transformation.output_domain)
    if None in (space, metric, output, after) or after["nullable"] or space["nullable"]:
        return None
    return {
        "part": "chains",
        "build": source,
        "input": space,
        "input_metric": metric,
        "output_metric": output,
        "d_in": [1, 2, 3],
    }


def applied(form, dtypes, takes_space, rng, most):
    """Yield (source, transformation) of each constructor that takes a space, or of each other one,
    with `most` combinations of its values for each type; `form(name, arguments)` is the source.
    """
    for name, _, parameters in constructors(dp.t):
        if ([p.name for p in parameters[:2]] == ["input_domain", "input_metric"]) != takes_space:
            continue
        for dtype in dtypes:
            options = list(calls(name, parameters, dtype))
            for arguments in rng.sample(options, min(most, len(options))):
                source = form(name, arguments)
                made = inputs.value_of(build, source)
                if isinstance(made, dp.Transformation):
                    yield source, made


def stages(domain, metric, rng, most):
    """Yield (source, transformation) of each constructor that accepts a space."""
    dtype = inputs.value_of(lambda: build(metric) and space_of(build(domain))["dtype"])
    if dtype is not None:
        given = f"{domain}, {metric}"
        yield from applied(
            lambda name, more: f"dp.t.{name}({', '.join(filter(None, [given, more]))})",
            [dtype],
            True,
            rng,
            most,
        )


def extensions(source, transformation, rng, most=6):
    """Yield chains that continue a transformation by one more constructor, with arguments drawn
    from the pools.
    """
    space = space_of(transformation.output_domain)
    if space is not None:
        yield from applied(
            lambda name, given: f"{source} >> dp.t.{name.replace('make_', 'then_', 1)}({given})",
            [space["dtype"]],
            True,
            rng,
            most,
        )


def candidates(seconds, seed, spoiled=()):
    """Yield entries with their transformations until the CPU time is over: single constructors,
    and random chains of them.

    Chains that start with a member of `spoiled` are not continued; the caller may add members
    during the iteration.
    """
    rng, deadline, level = random.Random(seed), time.process_time() + seconds, []
    starts = rng.sample(found := list(start_spaces()), len(found))
    single = (pair for start in starts for pair in stages(*start, rng, 2))
    types = ("i32", "i64", "u8", "f64", "f32")
    plain = applied(lambda name, given: f"dp.t.{name}({given})", types, False, rng, 3)
    for source, made in _alternate(single, plain, _chains(level, rng, spoiled)):
        if time.process_time() > deadline:
            return
        if source.count(">>") < 4 and (">>" not in source or rng.random() < 0.2):
            level.append((source, made))
        entry = describe(source, made)
        if entry:
            yield entry, made


def _chains(level, rng, spoiled):
    """Yield chains that continue a random member of `level`, without end."""
    while True:
        chosen = rng.choice(level) if level else None
        if chosen is None or chosen[0] in spoiled:
            yield None
        else:
            yield from extensions(*chosen, rng, 1)


def _alternate(*sources):
    """Yield the items of several iterators in turn, until only the endless last one has yielded
    items for a long time.
    """
    active = list(sources)
    while active:
        for source in list(active):
            item = next(source, StopIteration)
            if item is StopIteration:
                active.remove(source)
            elif item is not None:
                yield item


def datasets(entry, d_in, rng, most):
    """Yield pairs of inputs at distance at most `d_in`: the first datasets with their first
    neighbors, then random ones.
    """
    space, metric = entry["input"], entry["input_metric"]
    rowwise = metric in ROW
    bases = list(inputs.bases(space) if rowwise else _points(space))
    for place, base in enumerate(bases[:2] + rng.sample(bases[2:], max(len(bases) - 2, 0))):
        near = list(
            inputs.edits(base, space, metric, min(d_in, 3))
            if rowwise
            else inputs.shifted_numbers(base, space, metric, min(d_in, 4))
        )
        some = near[:6] if place < 2 else rng.sample(near, min(4, len(near)))
        yield from ((base, other) for other in some)
        most -= len(some)
        if most <= 0:
            return


def _points(space):
    """Yield numbers, or vectors of 1, 2, 4, 5 and 32 numbers, from which shifts start."""
    few = [
        v
        for v in inputs.values(space)
        if isinstance(v, (int, float)) and v == v and abs(v) != float("inf")
    ]
    for value in few:
        if space["type"] == "scalar":
            yield value
            continue
        for length in [space["size"]] if space.get("size") else (1, 2, 4, 5, 32):
            yield [value] * length
            yield [value] + [few[0]] * (length - 1)


def outcome(transformation, dataset):
    """Return ("output", value), or ("error", text) if the transformation raises."""
    return inputs.tried(transformation, list(dataset) if isinstance(dataset, list) else dataset)


def search(entry, transformation, rng, pairs=24):
    """Return the first finding of an entry, or None: a pair that moves too far, or an error on one
    neighbor only.
    """
    return judged(entry, transformation, _trials(entry, transformation, rng, pairs))


def _trials(entry, transformation, rng, pairs):
    """Yield pairs with their distance and the value of the map there; a map that refuses two
    distances is not asked for others.
    """
    refused = 0
    for d_in in [*entry["d_in"], *(LARGE if entry["input_metric"] in ROW else ())]:
        allowed = inputs.value_of(transformation.map, d_in)
        if allowed is None:
            refused += 1
            if refused > 1:
                return
            continue
        for pair in datasets(entry, d_in, rng, pairs if d_in <= 3 else 4):
            yield d_in, allowed, pair


def judged(entry, transformation, trials):
    """Return the first finding of an entry in `trials`, or None.

    A random transformation is stable if some coupling of its outputs keeps their distance below the
    map. If one input has the same output each time, there is one coupling, and an output of the
    other input that is too far from it is a finding of the kind "support".
    """
    metric, run = entry["output_metric"], partial(outcome, transformation)

    def excess(allowed, first, second):
        found = inputs.distance(metric, first, second)
        return found if inputs.exceeds(metric, found, allowed) else None

    def confirmed(kind, d_in, pair, outcomes):
        if not _within(entry, transformation, *pair, d_in):
            return None
        random_sides = sum(map(partial(inputs.varies, run), pair, outcomes))
        if kind == "distance" and random_sides == 1:
            return "support"
        return None if random_sides else kind

    return inputs.difference(entry, trials, run, excess, confirmed)


def alone(found):
    """Return the finding of the last constructor of a chain, on the outputs of those before it;
    None if they have no finding there.
    """
    before, _, last = found["build"].rpartition(" >> ")
    first = build(before)
    name, _, arguments = last.partition("(")
    space = source_of(first.output_domain), metric_source(first.output_metric)
    given = ", ".join(filter(None, [*space, arguments[:-1]]))
    source = f"{name.replace('.then_', '.make_')}({given})"
    made, d_in = build(source), first.map(found["distance_in"])
    return judged(
        describe(source, made), made, [(d_in, made.map(d_in), [first(x) for x in found["inputs"]])]
    )


def _within(entry, transformation, first, second, d_in):
    """Return whether both inputs are members of the domain and their exact distance is at most
    `d_in`.
    """
    found = inputs.distance(entry["input_metric"], first, second)
    limit = d_in * d_in if entry["input_metric"] == "l2" else d_in
    try:
        return 0 < found <= limit and all(
            transformation.input_domain.member(v) for v in (first, second)
        )
    except Exception:
        return False
