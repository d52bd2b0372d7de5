"""Chains of OpenDP's transformations, built from the types of their constructors, and the search
for pairs that move too far.
"""

import random
import time

import opendp.prelude as dp
import opendp_inputs as inputs
from opendp_signatures import NAMESPACE, calls, constructors, metric_of, space_of, start_spaces

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
        "build": source,
        "input": space,
        "input_metric": metric,
        "output_metric": output,
        "d_in": [1, 2, 3],
    }


def stages(domain, metric, rng, most):
    """Yield (source, transformation) of each constructor that accepts a space, with `most`
    combinations of its values.
    """
    try:
        dtype = space_of(build(domain))["dtype"]
        build(metric)
    except Exception:
        return
    for name, _, parameters in constructors(dp.t):
        if [p.name for p in parameters[:2]] != ["input_domain", "input_metric"]:
            continue
        options = list(calls(name, parameters, dtype))
        for arguments in rng.sample(options, min(most, len(options))):
            source = f"dp.t.{name}({domain}, {metric}{', ' + arguments if arguments else ''})"
            made = attempt(source)
            if made is not None:
                yield source, made


def attempt(source):
    """Return the transformation that a source builds; None if the library refuses."""
    try:
        made = build(source)
    except Exception:
        return None
    return made if isinstance(made, dp.Transformation) else None


def plain(rng, most):
    """Yield (source, transformation) of constructors that take no space."""
    for name, _, parameters in constructors(dp.t):
        if [p.name for p in parameters[:2]] == ["input_domain", "input_metric"]:
            continue
        for dtype in ("i32", "i64", "u8", "f64", "f32"):
            options = list(calls(name, parameters, dtype))
            for arguments in rng.sample(options, min(most, len(options))):
                source = f"dp.t.{name}({arguments})"
                made = attempt(source)
                if made is not None:
                    yield source, made


def extensions(source, transformation, rng, most=6):
    """Yield chains that continue a transformation by one more constructor, with arguments drawn
    from the pools.
    """
    space = space_of(transformation.output_domain)
    if space is None:
        return
    for name, _, parameters in constructors(dp.t):
        names = [p.name for p in parameters]
        if names[:2] != ["input_domain", "input_metric"]:
            continue
        options = list(calls(name, parameters, space["dtype"]))
        for arguments in rng.sample(options, min(most, len(options))):
            longer = f"{source} >> dp.t.{name.replace('make_', 'then_', 1)}({arguments})"
            try:
                yield (
                    longer,
                    transformation
                    >> eval(f"dp.t.{name.replace('make_', 'then_', 1)}({arguments})", NAMESPACE),
                )
            except Exception:
                continue


def candidates(seconds, seed=0, spoiled=()):
    """Yield entries with their transformations until the time is over: single constructors, and
    random chains of them.

    Chains that start with a member of `spoiled` are not continued; the caller may add members
    during the iteration.
    """
    rng, deadline, level = random.Random(seed), time.monotonic() + seconds, []
    starts = rng.sample(found := list(start_spaces()), len(found))
    single = (pair for start in starts for pair in stages(*start, rng, 2))
    for source, made in _alternate(single, plain(rng, 3), _chains(level, rng, spoiled)):
        if time.monotonic() > deadline:
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
    try:
        return "output", transformation(list(dataset) if isinstance(dataset, list) else dataset)
    except Exception as error:
        return "error", getattr(error, "message", None) or str(error)


def search(entry, transformation, rng, pairs=24):
    """Return the first finding of an entry, or None: a pair that moves too far, or an error on one
    neighbor only.
    """
    error, refused = None, 0
    for d_in in [*entry["d_in"], *(LARGE if entry["input_metric"] in ROW else ())]:
        try:
            allowed = transformation.map(d_in)
        except Exception:
            refused += 1
            if refused > 1:
                break
            continue
        for first, second in datasets(entry, d_in, rng, pairs if d_in <= 3 else 4):
            one, other = outcome(transformation, first), outcome(transformation, second)
            if one[0] == other[0] == "output":
                found = inputs.distance(entry["output_metric"], one[1], other[1])
                if not inputs.exceeds(entry["output_metric"], found, allowed):
                    continue
                if _holds(entry, transformation, (first, second), (one, other), d_in):
                    return _finding(
                        entry, "distance", d_in, allowed, (first, second), (one, other), found
                    )
                if _far_from_constant(
                    entry, transformation, (first, second), (one, other), d_in, allowed
                ):
                    return _finding(
                        entry, "support", d_in, allowed, (first, second), (one, other), found
                    )
            elif (
                one[0] != other[0]
                and error is None
                and _holds(entry, transformation, (first, second), (one, other), d_in)
            ):
                error = _finding(entry, "error", d_in, allowed, (first, second), (one, other), None)
    return error


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


def _holds(entry, transformation, pair, outcomes, d_in):
    """Return whether a finding is confirmed: its inputs lie in the domain, within the distance, and
    have the same outcomes each time.
    """
    return _within(entry, transformation, *pair, d_in) and _repeats(transformation, pair, outcomes)


def _far_from_constant(entry, transformation, pair, outcomes, d_in, allowed, times=40):
    """Return whether one input has the same output each time, and the other has one too far from
    it.

    A random transformation is stable if some coupling of its outputs keeps their distance below the
    map. With a constant on one side there is one coupling.
    """
    known = [
        outcomes,
        *(
            (outcome(transformation, pair[0]), outcome(transformation, pair[1]))
            for _ in range(times)
        ),
    ]
    if not _within(entry, transformation, *pair, d_in) or all(
        len({repr(run[i]) for run in known}) > 1 for i in (0, 1)
    ):
        return False
    return inputs.exceeds(
        entry["output_metric"],
        inputs.distance(entry["output_metric"], outcomes[0][1], outcomes[1][1]),
        allowed,
    )


def far_outcome(row, transformation, allowed, times=200):
    """Return the largest distance of outputs of a finding of kind "support"; None if both inputs
    have several outputs, or all are near.
    """
    runs = [[outcome(transformation, rows)[1] for _ in range(times)] for rows in row["inputs"]]
    if all(len(set(map(repr, side))) > 1 for side in runs):
        return None
    found = max(
        inputs.distance(row["output_metric"], one, other) for one, other in zip(*runs, strict=True)
    )
    return found if inputs.exceeds(row["output_metric"], found, allowed) else None


def _repeats(transformation, pair, outcomes, times=4):
    """Return whether the transformation has the same outcomes each time, because an exact
    comparison needs a deterministic one.
    """
    return all(
        repr(outcome(transformation, v)) == repr(o)
        for _ in range(times)
        for v, o in zip(pair, outcomes, strict=False)
    )


def deterministic(entry, transformation, rng):
    """Return whether a transformation has the same outcome each time, on a few datasets."""
    pairs = list(datasets(entry, entry["d_in"][0], rng, 6))
    outcomes = [tuple(outcome(transformation, rows) for rows in pair) for pair in pairs]
    return all(
        _repeats(transformation, pair, each) for pair, each in zip(pairs, outcomes, strict=True)
    )


def _finding(entry, kind, d_in, allowed, pair, outcomes, found):
    return {
        **entry,
        "kind": kind,
        "distance_in": d_in,
        "allowed": allowed,
        "found": None if found is None else str(found),
        "inputs": list(pair),
        "outcomes": [list(o) for o in outcomes],
    }
