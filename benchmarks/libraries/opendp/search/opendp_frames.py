"""OpenDP's data-frame queries: expressions in scenes, their claims, and their exact results at
noise scale 0.

Polars expressions are enumerated from the signatures of `polars.Expr` and kept where OpenDP accepts
them.
"""

import inspect
import math
from fractions import Fraction

import opendp.prelude as dp
import opendp_inputs as inputs
import polars as pl

NAMESPACES = ("", "str", "dt", "list", "arr")
AVOIDED = {
    "map_batches",
    "map_elements",
    "deserialize",
    "from_json",
    "inspect",
    "register_plugin",
    "sample",
    "shuffle",
    "hash",
    "pipe",
    "to_struct",
}
DTYPES = [
    "pl.Int64",
    "pl.Int32",
    "pl.Int8",
    "pl.UInt32",
    "pl.Float64",
    "pl.Float32",
    "pl.String",
    "pl.Boolean",
    "pl.Date",
    "pl.Datetime('us')",
    "pl.Datetime('us', 'Europe/Berlin')",
]
SCALARS = ["0", "1", "2.0", "float('nan')", "'a'", "pl.col('y')", "10"]

BY_NAME = {  # sources of values for parameters of Polars, by their names
    "value": SCALARS,
    "other": [*SCALARS[:3], "pl.col('x')", "pl.col('y')", "pl.lit(1)"],
    "exponent": ["pl.col('y')", "2"],
    "lower_bound": ["0", "0.0", "10", "2**31 - 5", "-1"],
    "upper_bound": ["1", "0.1", "10", "2**31 + 5", "2**32 - 1"],
    "breaks": ["[0.0, 1.0]"],
    "labels": ["['p', 'q', 'r']"],
    "old": ["[1]", "['a']", "[None]"],
    "new": ["[2]", "['b']", "[None]", "[1]"],
    "default": ["0", "None"],
    "format": ["'%Y-%m-%d'", "'%Y-%m-%d %H:%M:%S'"],
    "strict": ["False"],
    "by": ["pl.col('y')", "pl.col('y').drop_nulls()"],
    "null_behavior": ["'drop'"],
    "quantile": ["0.5"],
    "window_size": ["2", "'2i'"],
    "index": ["0", "5"],
    "n": ["1", "-1"],
    "pattern": ["'a'", "pl.col('y')"],
    "element": ["1"],
    "base": ["10"],
    "predicates": ["pl.col('y') > 0", "pl.col('y').is_null()"],
    "partition_by": ["'g'"],
    "length": ["1"],
    "offset": ["0"],
    "k": ["1"],
}
ALWAYS = {
    "value",
    "other",
    "lower_bound",
    "upper_bound",
    "old",
    "new",
    "format",
    "strict",
    "null_behavior",
    "predicates",
}


def methods(text):
    """Yield (name, function) of the methods of an expression, those of its namespaces included."""
    expression = evaluate(text)
    for space in NAMESPACES:
        owner = getattr(expression, space) if space else expression
        for name in sorted(dir(owner)):
            if name.startswith("_") or name in AVOIDED or name.startswith(("meta", "deprecated")):
                continue
            function = getattr(owner, name, None)
            if inspect.ismethod(function) or inspect.isfunction(function):
                yield (f"{space}.{name}" if space else name), function


def applied(text, rng, most=3):
    """Yield sources of each method applied to an expression, with arguments from the pools by the
    names of its parameters.
    """
    for name, function in methods(text):
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            continue
        for arguments in _arguments(name, parameters, rng, most):
            yield f"{text}.{name}({arguments})"


def _arguments(name, parameters, rng, most):
    pools = []
    for parameter in parameters:
        required = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        )
        key = (
            "dtype"
            if parameter.name in ("dtype", "dtypes", "return_dtype") and required
            else parameter.name
        )
        pool = DTYPES if key == "dtype" else BY_NAME.get(key, [])
        if required and not pool:
            return
        if required or (key in ALWAYS and pool):
            named = (
                ""
                if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
                else f"{parameter.name}="
            )
            pools.append([named + text for text in pool])
    if not pools:
        yield ""
        return
    total = max(map(len, pools))
    for i in range(total if len(pools) == 1 else most * 2):
        yield ", ".join(
            pool[i % len(pool)] if len(pools) == 1 else rng.choice(pool) for pool in pools
        )


BINARY = [
    "({a} + {b})",
    "({a} - {b})",
    "({a} * {b})",
    "({a} / {b})",
    "({a} // {b})",
    "({a} % {b})",
    "({a} > {b})",
    "({a} == {b})",
    "({a} ** {b})",
]


def binaries(text):
    """Yield source texts that combine an expression with literals or columns by an operator, in
    both orders.
    """
    for form in BINARY:
        for other in ("pl.lit(1)", "0.0", "pl.col('y')", "pl.lit(5)", "1"):
            yield form.format(a=text, b=other)
            yield form.format(a=other, b=text)


def evaluate(text):
    """Return the expression that a source describes."""
    return eval(text, {"pl": pl, "dp": dp, "float": float})


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
        "part": "frames",
        "domain": domain_source(columns, margins),
        "metric": METRICS[metric],
        "plan": plan.format(a=expression),
        "schema": schema_source(columns),
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


def schema_source(columns):
    """Return the source of the schema of columns."""
    types = (f"'{name}': {ATOMS[atom['dtype']][1]}" for name, atom in columns.items())
    return "{" + ", ".join(types) + "}"


def names(schema):
    """Return the names that sources of queries use; `q` is an empty frame of a schema."""
    found = {"dp": dp, "pl": pl, "KEYS": KEYS, "COUNTS": COUNTS, "float": float}
    return found | {"q": pl.LazyFrame(schema=eval(schema, found))}


def query(description, scale):
    """Return the measurement of a query at a noise scale."""
    space = names(description["schema"])
    domain, metric, plan = (eval(description[name], space) for name in ("domain", "metric", "plan"))
    return dp.m.make_private_lazyframe(
        domain, metric, dp.max_divergence(), plan, global_scale=scale
    )


def claim(measurement, d_in):
    """Return the sensitivity that a measurement of Laplace noise at SCALE claims, exactly."""
    return Fraction(measurement.map(d_in)) * Fraction(SCALE)


def frame(description, rows):
    """Return rows as a lazy frame of the query's schema."""
    schema = names(description["schema"])["q"].collect_schema()
    return pl.LazyFrame({name: [row[name] for row in rows] for name in schema}, schema=schema)


def result(measurement, description, rows):
    """Return ("output", rows without order) of the exact result, or ("error", text)."""

    def sorted_rows():
        found = measurement(frame(description, rows)).collect()
        return sorted(found.rows(named=True), key=repr)

    return inputs.tried(sorted_rows)


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


def fits(description, d_in, first, second):
    """Return whether a pair satisfies the margins, and its distance is at most `d_in`."""
    distance = inputs.row_distance(description["input_metric"], first, second)
    return allowed_pair(description, first, second) and 0 < distance <= d_in


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
            if fits(description, d_in, base, other):
                most -= 1
                yield base, other
        if most <= 0:
            return


def search(description, rng, most=12):
    """Return the first finding of a query, or None: a pair that moves further than claimed, or an
    error on one neighbor only.
    """
    noisy = query(description, SCALE)
    distances = {d_in: inputs.value_of(claim, noisy, d_in) for d_in in description["d_in"]}
    trials = (
        (d_in, allowed, pair)
        for d_in, allowed in distances.items()
        if allowed is not None
        for pair in pairs(description, d_in, 2 * most, rng)
    )
    return judged(description, trials)


def again(description, d_in, pair):
    """Return the finding of a query on one pair of datasets, or None."""
    allowed = claim(query(description, SCALE), d_in)
    return judged(description, [(d_in, allowed, pair)] if fits(description, d_in, *pair) else [])


def judged(description, trials):
    """Return the first finding of a query in `trials`, or None."""
    exact, keys, cache = query(description, 0.0), key_columns(description), {}

    def known(rows):
        name = inputs.key({"rows": [inputs.key(row) for row in rows]})
        if name not in cache:
            cache[name] = result(exact, description, rows)
        return cache[name]

    def excess(allowed, first, second):
        found = gap(first, second, keys)
        return found if found > allowed else None

    return inputs.difference(description, trials, known, excess, lambda kind, *_: kind)


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
    frame = names(schema_source(columns))["q"]
    found = inputs.value_of(lambda: frame.select(evaluate(text)).collect_schema().dtypes()[0])
    return "" if found is None else str(found)


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

    def build():
        space = names(schema_source(columns))
        domain, plan = (
            eval(source, space)
            for source in (domain_source(columns, []), f"q.with_columns(z={text})")
        )
        output = "FrameDistance<SymmetricDistance>"
        return dp.t.make_stable_lazyframe(domain, dp.symmetric_distance(), plan, MO=output)

    return inputs.tried(build)[0] == "output"


def accepted_aggregation(description):
    """Return whether OpenDP builds the query, at both noise scales."""
    return is_expression(description["expression"]) and all(
        inputs.tried(query, description, scale)[0] == "output" for scale in (SCALE, 0.0)
    )


def is_expression(text):
    """Return whether Polars builds an expression."""
    return isinstance(inputs.value_of(evaluate, text), pl.Expr)
