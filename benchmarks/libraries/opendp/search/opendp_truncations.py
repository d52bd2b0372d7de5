"""OpenDP's frame-to-frame queries: truncations by identifier, changed columns and group-bys,
against the bounds that they claim.
"""

import collections
import itertools

import opendp.prelude as dp
import opendp_inputs as inputs
import polars as pl
from opendp_frames import frame, names

COLUMNS = {
    "id": {"dtype": "i64", "nullable": False, "nan": False, "categories": [1, 2]},
    "x": {"dtype": "i64", "nullable": True, "nan": False, "categories": [1, None, -1, 3, 99]},
    "y": {"dtype": "i64", "nullable": True, "nan": False, "categories": [2, None, -2]},
    "g": {"dtype": "str", "nullable": True, "nan": False, "categories": ["a", None, "b", "c"]},
    "h": {"dtype": "str", "nullable": True, "nan": False, "categories": ["a", "b", None]},
}
SCHEMA = "{'id': pl.Int64, 'x': pl.Int64, 'y': pl.Int64, 'g': pl.String, 'h': pl.String}"
DOMAIN = (
    "dp.lazyframe_domain([dp.series_domain('id', dp.atom_domain(T='i64')), "
    + ", ".join(
        f"dp.series_domain('{n}', dp.option_domain(dp.atom_domain(T='{t}')))"
        for n, t in (("x", "i64"), ("y", "i64"))
    )
    + ", "
    + ", ".join(
        f"dp.series_domain('{n}', dp.option_domain(dp.atom_domain(T='String')))" for n in "gh"
    )
    + "])"
)
# a row of somebody else, so that a query that never runs fails on both datasets
OTHERS = [{"id": 2, "x": 1, "y": 2, "g": "a", "h": "a"}]
ORDERS = ["{i}", "{i}.reverse()", "{i}.sort_by({e})"]
PER_GROUP = "q.filter({i}.over({by}{o}) {op} {k})"
NUM_GROUPS = "q.filter({e}.rank('dense').over('id') {op} {k})"
AFTER = [
    "",
    ".with_columns(g=pl.col('h'))",
    ".select('id', 'x', g=pl.col('h'))",
    ".filter(pl.col('x') > 0)",
    ".with_columns(x=pl.lit(1))",
]


def plans(expressions, rng):
    """Yield (metric, d_in, plan): filters by position and by rank with each comparison and
    threshold, and group-bys of expressions.
    """
    identified = "dp.symmetric_id_distance(pl.col('id'))"
    thresholds = ["1", "2", "1.5", "0.5", "2.9"]
    for k, op, after in itertools.product(thresholds, ("<", "<="), AFTER):
        for by in ("'id'", "'id', 'g'"):
            plan = PER_GROUP.format(i="pl.int_range(pl.len())", by=by, o="", op=op, k=k)
            yield identified, 1, plan + after.replace("'id', ", "")
        plan = NUM_GROUPS.format(e="pl.struct('g')", op=op, k=k)
        yield identified, 1, plan + after.replace("'id', ", "")
        yield (
            identified,
            1,
            NUM_GROUPS.format(e="pl.col('g')", op=op, k=k) + after.replace("'id', ", ""),
        )
    for e in expressions:
        yield identified, 1, f"q.filter(pl.int_range(pl.len()).sort_by({e}).over('id') < 2)"
        yield identified, 1, f"q.group_by('id', 'g').agg({e})"
        yield identified, 1, f"q.group_by('id', 'g').agg(({e}).sum())"
        yield identified, 1, f"q.group_by('id', 'g').agg((pl.col('x') + {e}).sum())"
    bounds = [
        "dp.polars.Bound(by=[pl.col('g')], num_groups=1), dp.polars.Bound(by=[], per_group=2)"
    ]
    bounds += [
        "dp.polars.Bound(by=[pl.col('g')], per_group=1), dp.polars.Bound(by=[], per_group=2)"
    ]
    for bound, after in itertools.product(bounds, AFTER[1:]):
        yield (
            "dp.frame_distance(dp.symmetric_distance())",
            f"[{bound}]",
            "q" + after.replace("'id', ", ""),
        )


def build(description):
    """Return the transformation of a plan, and its map's value as a list of bounds."""
    space = names(SCHEMA)
    domain, metric, plan, d_in = (
        eval(source, space)
        for source in (DOMAIN, description["metric"], description["plan"], str(description["d_in"]))
    )
    made = dp.t.make_stable_lazyframe(domain, metric, plan, MO="FrameDistance<SymmetricDistance>")
    return made, made.map(d_in)


def entry(metric, d_in, plan):
    """Return the description of a frame-to-frame query."""
    return {
        "part": "truncations",
        "metric": metric,
        "d_in": d_in,
        "plan": plan,
        "domain": DOMAIN,
        "schema": SCHEMA,
        "input": {"type": "frame", "columns": COLUMNS},
    }


def datasets(description, most, rng):
    """Yield pairs of datasets that differ in the rows of one identifier, or in rows within the
    bounds of `d_in`.
    """
    rows = inputs.rows_of(description["input"])
    if description["metric"].startswith("dp.frame_distance"):
        few = [row for row in rows if row["id"] == 1]
        yield from (
            (OTHERS, [*OTHERS, one, other])
            for one, other in itertools.product(few, few)
            if _fits(description["d_in"], [one, other])
        )
        return
    mine = [row for row in rows if row["id"] == 1]
    for changed in _own_rows(mine, most, rng):
        yield OTHERS, OTHERS + changed


def _own_rows(mine, most, rng):
    """Yield the rows that one identifier adds."""
    for size in (1, 2, 3, 5):
        yield from ([row] * size for row in mine)
    for size in (2, 3, 5):
        yield mine[:size]
        yield [row | {"g": g} for row, g in zip(mine, ("a", "b", "c", None, "a"), strict=False)][
            :size
        ]
        yield [
            row | {"h": h} for row, h in zip(mine[1:], ("a", "b", "a", None, "b"), strict=False)
        ][:size]
    for _ in range(most):
        yield [
            dict(rng.choice(mine)) | {"g": rng.choice(["a", "b"])}
            for _ in range(rng.randrange(1, 6))
        ]


def _fits(bounds, rows):
    groups = collections.Counter(row["g"] for row in rows)
    return len(groups) == 1 if "num_groups=1" in bounds else max(groups.values()) == 1


def excess(bounds, first, second):
    """Return the first bound that the symmetric difference of two frames exceeds, as text; None if
    all hold.
    """
    for bound in bounds:
        try:
            counts = collections.Counter()
            for sign, table in ((1, first), (-1, second)):
                keys = (
                    table.select([e.alias(f"k{i}") for i, e in enumerate(bound.by)]).rows()
                    if bound.by
                    else [()] * table.height
                )
                for k, row in zip(keys, table.rows(), strict=False):
                    counts[(repr(k), repr(row))] += sign
        except pl.exceptions.PolarsError:
            continue
        groups = collections.Counter()
        for (k, _), number in counts.items():
            groups[k] += abs(number)
        groups = {k: n for k, n in groups.items() if n}
        by = [str(e) for e in bound.by]
        if bound.per_group is not None and max(groups.values(), default=0) > bound.per_group:
            return f"per_group by {by}: {max(groups.values())} > {bound.per_group}"
        if bound.num_groups is not None and len(groups) > bound.num_groups and bound.by:
            return f"num_groups by {by}: {len(groups)} > {bound.num_groups}"
    return None


def search(description, rng, most=30):
    """Return the first finding of a frame-to-frame query, or None."""
    return judged(description, datasets(description, most, rng))


def judged(description, pairs):
    """Return the first finding of a frame-to-frame query on `pairs`, or None."""
    made, bounds = build(description)
    allowed = [
        {"by": [str(e) for e in b.by], "per_group": b.per_group, "num_groups": b.num_groups}
        for b in bounds
    ]
    return inputs.difference(
        description,
        ((description["d_in"], allowed, pair) for pair in pairs),
        lambda rows: inputs.tried(lambda: made(frame(description, rows)).collect()),
        lambda _, first, second: excess(bounds, first, second),
        lambda kind, *_: "bound" if kind == "distance" else kind,
    )
