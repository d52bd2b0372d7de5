"""OpenDP's data-frame queries: expressions in scenes, their claims, and their exact results at
noise scale 0.
"""

import math
from fractions import Fraction

import opendp.prelude as dp
import opendp_inputs as inputs
import polars as pl
from opendp_expressions import evaluate

SCALE = 2.0**20  # a power of two: claim times scale is exact
ATOMS = {  # dtype: (type of OpenDP, type of Polars)
    "i64": ("i64", "pl.Int64"),
    "i32": ("i32", "pl.Int32"),
    "u32": ("u32", "pl.UInt32"),
    "i8": ("i8", "pl.Int8"),
    "f64": ("f64", "pl.Float64"),
    "f32": ("f32", "pl.Float32"),
    "str": ("String", "pl.String"),
    "bool": ("bool", "pl.Boolean"),
    "date": ("NaiveDate", "pl.Date"),
    "time": ("NaiveTime", "pl.Time"),
    "datetime": (None, "pl.Datetime('us')"),
}


def series(name, atom):
    """Return the source of a column's domain."""
    kind = ATOMS[atom["dtype"]][0]
    if kind is None:
        inner = "dp.datetime_domain('us')"
    else:
        inner = f"dp.atom_domain(T='{kind}'" + (
            f", nan={atom['nan']})" if atom["dtype"] in ("f32", "f64") else ")"
        )
    return (
        f"dp.series_domain('{name}', dp.option_domain({inner}))"
        if atom["nullable"]
        else f"dp.series_domain('{name}', {inner})"
    )


def columns_of(dtype, nullable, nan):
    """Return the columns of a scene: x of the type under test, y of the same kind, a group and an
    identifier.
    """
    x = {"dtype": dtype, "nullable": nullable, "nan": nan}
    y = (
        x
        if dtype not in ("str", "bool", "date", "time", "datetime")
        else {"dtype": "i64", "nullable": True, "nan": False}
    )
    return {
        "x": x,
        "y": y,
        "g": {"dtype": "str", "nullable": False, "nan": False, "categories": ["a", "b", "c"]},
    }


SCENES = {  # name: (margins, metric, plan, distances, what is public)
    "select": (["by=[], max_length=10, max_groups=1"], "symmetric", "q.select({a})", (1, 2), ""),
    "select-sized": (
        ["by=[], max_length=10, max_groups=1"],
        "change-one",
        "q.select({a})",
        (1,),
        "",
    ),
    "select-lengths": (
        ["by=[], max_length=10, max_groups=1, invariant='lengths'"],
        "symmetric",
        "q.select({a})",
        (2,),
        "lengths",
    ),
    "group": (
        ["by=['g'], max_length=10, max_groups=3, invariant='keys'"],
        "symmetric",
        "q.group_by('g').agg({a})",
        (1, 2),
        "keys",
    ),
    "group-small": (
        ["by=['g'], max_length=1, max_groups=1, invariant='keys'"],
        "symmetric",
        "q.group_by('g').agg({a})",
        (2,),
        "keys",
    ),
    "group-sized": (
        ["by=['g'], max_length=10, max_groups=3, invariant='lengths'"],
        "symmetric",
        "q.group_by('g').agg({a})",
        (2,),
        "lengths",
    ),
    "renamed": (
        ["by=[pl.col('x').alias('g')], max_length=10, max_groups=3, invariant='keys'"],
        "symmetric",
        "q.with_columns(x=pl.col('y')).group_by(pl.col('x').alias('g')).agg({a})",
        (2,),
        "keys",
    ),
    "filtered": (
        ["by=[], max_length=10, max_groups=1"],
        "change-one",
        "q.filter(pl.col('y') == 1).select({a})",
        (1,),
        "",
    ),
    "joined": (
        ["by=['g'], max_length=10"],
        "symmetric",
        "KEYS.join(q.group_by('g').agg({a}), how='left', on=['g'], nulls_equal=True)",
        (1, 2),
        "",
    ),
}
_UNIONS = ", nulls_equal=True)"
# joins with a public frame of keys: on a part of the keys, with both key columns, and on the result
# itself
SCENES |= {
    "joined-part": (
        ["by=['g'], max_length=10"],
        "symmetric",
        f"KEYS.join(q.group_by('g', 'x').agg({{a}}), how='left', on=['g']{_UNIONS}",
        (1, 2),
        "",
    ),
    "joined-twice": (
        ["by=['g'], max_length=10"],
        "symmetric",
        f"KEYS.join(q.group_by('g').agg({{a}}), how='left', on=['g'], coalesce=False{_UNIONS}",
        (1,),
        "",
    ),
    "joined-result": (
        ["by=['g'], max_length=10"],
        "symmetric",
        f"COUNTS.join(q.group_by('g').agg({{a}}), how='left', on=['len']{_UNIONS}",
        (1,),
        "",
    ),
}
KEYED_BY = {
    "joined-part": ("g", "x"),
    "joined-twice": ("g", "g_right"),
    "joined-result": ("len", "g"),
}
METRICS = {
    "symmetric": "dp.symmetric_distance()",
    "change-one": "dp.change_one_distance()",
    "insert-delete": "dp.insert_delete_distance()",
}
KEYS = pl.LazyFrame({"g": ["a", "b"]})
COUNTS = pl.LazyFrame({"len": [0, 1, 2, 5]}, schema={"len": pl.Int64})


def domain_source(columns, margins):
    """Return the source of a frame's domain with margins."""
    text = (
        f"dp.lazyframe_domain([{', '.join(series(name, atom) for name, atom in columns.items())}])"
    )
    for margin in margins:
        text = f"dp.with_margin({text}, dp.polars.Margin({margin}))"
    return text


def entry(columns, scene, expression):
    """Return the description of a query: how to build it, its space, its metric and its
    distances.
    """
    margins, metric, plan, d_in, public = SCENES[scene]
    return {
        "domain": domain_source(columns, margins),
        "metric": METRICS[metric],
        "plan": plan.format(a=expression),
        "schema": "{"
        + ", ".join(f"'{name}': {ATOMS[atom['dtype']][1]}" for name, atom in columns.items())
        + "}",
        "input": {"type": "frame", "columns": columns},
        "input_metric": metric,
        "d_in": list(d_in),
        "public": public,
        "limits": {
            "group": (10, 3),
            "group-small": (1, 1),
            "group-sized": (10, 3),
            "renamed": (10, 3),
        }.get(scene),
        "key": "x" if scene == "renamed" else "g",
        "keys": KEYED_BY.get(scene),
        "expression": expression,
        "scene": scene,
    }


def names():
    """Return the names that sources of queries use."""
    return {"dp": dp, "pl": pl, "KEYS": KEYS, "COUNTS": COUNTS, "float": float}


def query(description, scale, measure="dp.max_divergence()"):
    """Return the measurement of a query at a noise scale."""
    space = names()
    schema = eval(description["schema"], space)
    space["q"] = pl.LazyFrame(schema=schema)
    plan = eval(description["plan"], space)
    parts = (eval(description[name], space) for name in ("domain", "metric"))
    return dp.m.make_private_lazyframe(*parts, eval(measure, space), plan, global_scale=scale)


def claim(measurement, d_in):
    """Return the sensitivity that a measurement of Laplace noise at SCALE claims, exactly."""
    return Fraction(measurement.map(d_in)) * Fraction(SCALE)


def frame(description, rows):
    """Return rows as a lazy frame of the query's schema."""
    schema = eval(description["schema"], names())
    return pl.LazyFrame({name: [row[name] for row in rows] for name in schema}, schema=schema)


def result(measurement, description, rows):
    """Return ("output", rows without order) of the exact result, or ("error", text)."""
    try:
        found = measurement(frame(description, rows)).collect()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return "error", str(error)[:300]
    return "output", sorted(found.rows(named=True), key=repr)


def key_columns(description):
    """Return the names of the columns that identify the rows of a result; none for a result of one
    row.
    """
    default = ("g",) if "group_by" in description["plan"] else ()
    return tuple(description.get("keys") or default)


def gap(first, second, keys):
    """Return the L1 distance of two results; infinity if their rows have other keys."""
    one, other = ({tuple(row[k] for k in keys): row for row in rows} for rows in (first, second))
    if set(one) != set(other):
        return math.inf
    return sum((_row_gap(one[k], other[k], keys) for k in one), Fraction(0))


def _row_gap(a, b, keys):
    found = Fraction(0)
    for name in a:
        if name in keys:
            continue
        if a[name] is None or b[name] is None or not isinstance(a[name], (int, float)):
            found += 0 if inputs.key(a[name]) == inputs.key(b[name]) else math.inf
        else:
            found += inputs.number_distance("absolute", a[name], b[name])
    return found


def allowed_pair(description, first, second):
    """Return whether both datasets of a pair satisfy the margins: equal public keys, and sizes
    within the bounds.
    """
    public, limits = description["public"], description["limits"]
    groups = [_lengths(rows, description["key"]) for rows in (first, second)]
    if max(len(first), len(second)) > 10 or (
        limits and any(len(g) > limits[1] or max(g.values(), default=0) > limits[0] for g in groups)
    ):
        return False
    if public == "lengths":
        return groups[0] == groups[1] if limits else len(first) == len(second)
    return set(groups[0]) == set(groups[1]) if public == "keys" else True


def _lengths(rows, name):
    keys = [inputs.key(row[name]) for row in rows]
    return {k: keys.count(k) for k in keys}


def pairs(description, d_in, most, rng):
    """Yield pairs of datasets at distance at most `d_in`: the first datasets with their first
    neighbors, then random ones.
    """
    space, metric = description["input"], description["input_metric"]
    sized = space | {"size": 1 if tuple(description["limits"] or ()) == (1, 1) else 2}
    wanted = sized if metric == "change-one" or description["public"] else space
    bases = list(inputs.bases(wanted, 6))
    for place, base in enumerate(bases[:3] + rng.sample(bases[3:], max(len(bases) - 3, 0))):
        near = list(inputs.edits(base, wanted, metric, d_in))
        some = near[:8] if place < 3 else rng.sample(near, min(4, len(near)))
        for other in some:
            if (
                allowed_pair(description, base, other)
                and 0 < inputs.row_distance(metric, base, other) <= d_in
            ):
                most -= 1
                yield base, other
        if most <= 0:
            return


def search(description, rng, most=12):
    """Return the first finding of a query, or None: a pair that moves further than claimed, or an
    error on one neighbor only.
    """
    noisy, exact = query(description, SCALE), query(description, 0.0)
    keys, cache, error = key_columns(description), {}, None

    def known(rows):
        name = inputs.key({"rows": [inputs.key(row) for row in rows]})
        if name not in cache:
            cache[name] = result(exact, description, rows)
        return cache[name]

    for d_in in description["d_in"]:
        try:
            allowed = claim(noisy, d_in)
        except Exception:
            continue
        for first, second in pairs(description, d_in, 2 * most, rng):
            one, other = known(first), known(second)
            if one[0] == other[0] == "output":
                found = gap(one[1], other[1], keys)
                if found > allowed:
                    return _finding(
                        description, "distance", d_in, allowed, (first, second), (one, other), found
                    )
            elif one[0] != other[0] and error is None:
                error = _finding(
                    description, "error", d_in, allowed, (first, second), (one, other), None
                )
    return error


def _finding(description, kind, d_in, allowed, pair, outcomes, found):
    return {
        **description,
        "kind": kind,
        "distance_in": d_in,
        "allowed": str(allowed),
        "found": None if found is None else str(found),
        "inputs": list(pair),
        "outcomes": [list(o) for o in outcomes],
    }


AGGREGATIONS = [
    "{e}.count().dp.noise(1.0)",
    "{e}.len().dp.noise(1.0)",
    "{e}.null_count().dp.noise(1.0)",
    "{e}.n_unique().dp.noise(1.0)",
    "{e}.sum().dp.noise(1.0)",
    "{e}.clip(0, 1).sum().dp.noise(1.0)",
    "{e}.clip(-1, 1).sum().dp.noise(1.0)",
    "{e}.clip(10, 10).sum().dp.noise(1.0)",
    "{e}.clip(0.0, 0.1).sum().dp.noise(1.0)",
    "{e}.fill_null(0).sum().dp.noise(1.0)",
    "{e}.fill_nan(0.0).clip(0.0, 0.1).sum().dp.noise(1.0)",
    "{e}.dp.sum((0.0, 0.1), 1.0)",
    "{e}.dp.sum((10, 10), 1.0)",
    "{e}.dp.sum((-1, 1), 1.0)",
    "{e}.dp.sum((2**31 - 5, 2**31 + 5), 1.0)",
    "{e}.dp.count(1.0, signed=True)",
    "{e}.dp.len(1.0, signed=True)",
    "dp.len(1.0, signed=True)",
]


def type_of(columns, text):
    """Return Polars' name of the type of an expression on a scene's columns; empty if Polars does
    not know it.
    """
    schema = {name: eval(ATOMS[atom["dtype"]][1], names()) for name, atom in columns.items()}
    try:
        return str(
            next(iter(pl.LazyFrame(schema=schema).select(evaluate(text)).collect_schema().values()))
        )
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return ""


def aggregations(columns, text):
    """Return the forms of aggregations that fit the type of an expression: sums of numbers only."""
    numeric = type_of(columns, text).startswith(("Int", "UInt", "Float"))
    return [form for form in AGGREGATIONS if numeric or "sum" not in form]


def scene_for(form, rng):
    """Return a scene in which a form of aggregation can show something: counts move by one, so
    those of public lengths matter most.
    """
    counted = (
        "select-sized",
        "select-lengths",
        "group-sized",
        "filtered",
        "joined-part",
        "joined-twice",
    )
    summed = (
        "select",
        "select-sized",
        "select-lengths",
        "group-small",
        "group-sized",
        "filtered",
        "group",
    )
    likely = summed if "sum" in form else counted
    return rng.choice(likely) if rng.random() < 0.8 else rng.choice(list(SCENES))


def accepted_rows(columns, text):
    """Return whether OpenDP accepts an expression as a row-by-row stable one."""
    return _accepts(columns, f"q.with_columns(z={text})")


def _accepts(columns, plan):
    space = names()
    space["q"] = pl.LazyFrame(
        schema={name: eval(ATOMS[atom["dtype"]][1], space) for name, atom in columns.items()}
    )
    try:
        domain = eval(domain_source(columns, []), space)
        dp.t.make_stable_lazyframe(
            domain,
            dp.symmetric_distance(),
            eval(plan, space),
            MO="FrameDistance<SymmetricDistance>",
        )
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return False
    return True


def accepted_aggregation(description):
    """Return whether OpenDP builds the query, at both noise scales."""
    if evaluate_or_false(description["expression"]):
        try:
            query(description, SCALE)
            query(description, 0.0)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return False
        return True
    return False


def evaluate_or_false(text):
    """Return whether Polars builds an expression."""
    try:
        return isinstance(evaluate(text), pl.Expr)
    except Exception:
        return False
