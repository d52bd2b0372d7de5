"""Entries of a target file for findings in OpenDP: the library's own map is the claim.

An entry has the finding in words, the source of its functions and its declaration. The source uses
the library only, so that a person can read and run it.
"""

import ast
import re
from fractions import Fraction

import numpy as np
import opendp_arrays as arrays
import opendp_frames as frames

HEADER = (
    "import opendp.prelude as dp",
    "import polars as pl",
    "",
    'dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")',
)
_METRICS = {"Symmetric": "symmetric", "L1": "l1", "L2": "l2"}
_CONSTRUCTORS = re.compile(r"\b(?:make|then)_([a-z_0-9]+)")


def constructors(found):
    """Return the names of the constructors of a program, the innermost first."""
    names = [f"make_{name}" for name in _CONSTRUCTORS.findall(found.get("build", ""))]
    return list(dict.fromkeys(names)) or [
        "make_stable_lazyframe" if found.get("part") == "truncations" else "make_private_lazyframe"
    ]


def entry(found):
    """Return the entry of a finding: its parts as texts, the source of its target, and its
    declaration; that of a mechanism is the claim in its source.
    """
    shown = described(found)
    why = (
        f"{shown['program']}: {shown['shown']}, the map allows {shown['allowed']}, for inputs "
        f"{' and '.join(shown['inputs'])} within distance {shown['distance in']}"
    )
    about = {"constructors": constructors(found), "why": why, "finding": shown}
    return about | _MAKERS[found["part"]](found)


def described(found):
    """Return the parts of a finding as short texts: the program, both inputs and their distance,
    the bound of the map, and the distance of the outputs or the error of one input.
    """
    measured = found.get("found")
    if found.get("output_metric") == "l2" and measured != "inf":  # its square is exact
        measured = float(Fraction(measured)) ** 0.5
    errors = [text for how, text in found.get("outcomes", ()) if how == "error"]
    shown = f"{found['kind']} {shortened(measured, 120)}"
    if found["kind"] in ("error", "abort"):
        shown = f"{found['kind']} on one input only: {shortened(''.join(errors), 160)}".rstrip(": ")
    return {
        "part": found["part"],
        "kind": found["kind"],
        "program": shortened(found.get("plan") or found["build"], 300),
        "inputs": [shortened(each, 300) for each in found["inputs"]],
        "distance in": shortened(found["distance_in"], 100),
        "allowed": "no abort" if found["allowed"] is None else shortened(found["allowed"], 120),
        "shown": shown.strip(),
    }


def shortened(value, most):
    """Return a value as one line of text, of which the middle is left out if it is long."""
    text = " ".join(str(value).split())
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def _transformation(lines, **declaration):
    applied = {"kind": "transformation", "apply": "{name}", "map": "{name}_map"}
    return {"source": lines, "declaration": applied | declaration}


def _chain(found):
    lines = [
        f"_{{name}} = {found['build']}",
        "",
        "",
        "def {name}(dataset):",
        "    return _{name}(dataset)",
        "",
        "",
        "def {name}_map(d_in):",
        "    return _{name}.map(d_in)",
    ]
    if found["input"]["type"] == "scalar" and found["input_metric"] not in ("absolute", "discrete"):
        # a text whose parts are the rows
        return _two(lines, found["inputs"], found["distance_in"], found["output_metric"])
    declared = {key: found[key] for key in ("input", "input_metric", "output_metric", "inputs")}
    return _transformation(lines, d_in=[found["distance_in"]], **declared)


def _frame(found):
    """Return the entry of a query on two datasets: its exact result at noise scale 0, and the
    sensitivity that its privacy map claims.
    """
    keys = frames.key_columns(found)
    public = (
        [f"KEYS = pl.LazyFrame({frames.KEYS.collect().to_dict(as_series=False)!r})"]
        if "KEYS" in found["plan"]
        else []
    )
    counts = "COUNTS = pl.LazyFrame({'len': [0, 1, 2, 5]}, schema={'len': pl.Int64})"
    public += [counts] if "COUNTS" in found["plan"] else []
    result = (
        f"{{repr([row[key] for key in {list(keys)}]): [0, *(row[name] for name in row if name not in "  # noqa: E501
        f"{list(keys)})] for row in rows}}"
    )
    lines = [
        *public,
        "",
        "",
        "def _{name}_query(scale):",
        f"    q = pl.LazyFrame(schema={found['schema']})",
        f"    domain = {found['domain']}",
        f"    plan = {found['plan']}",
        f"    return dp.m.make_private_lazyframe(domain, {found['metric']}, "
        "dp.max_divergence(), plan, global_scale=scale)",
        "",
        "",
        "_{name}_exact, _{name}_noisy = _{name}_query(0.0), _{name}_query(2.0**20)",
        "",
        "",
        "def {name}(dataset):",
        f"    frame = pl.LazyFrame(dataset, schema={found['schema']})",
        "    rows = _{name}_exact(frame).collect().rows(named=True)",
        f"    return {result}"
        if keys
        else "    return [value for row in rows for value in row.values()]",
        "",
        "",
        "def {name}_map(d_in):",
        "    return _{name}_noisy.map(d_in) * 2.0**20  # the sensitivity, as the noise is "
        "that of Laplace; a power of two: no rounding",
    ]
    return _two(lines, _columns(found), found["distance_in"], "per-group-sum:l1" if keys else "l1")


def _columns(found):
    """Return both datasets of a finding as dicts of columns."""
    names = found["input"]["columns"]
    return [{name: [row[name] for row in rows] for name in names} for rows in found["inputs"]]


def _two(lines, pair, d_in, metric):
    """Return the entry of a program on two datasets at distance `d_in`: the input is the number of
    the dataset.
    """
    first = [
        line.replace("def {name}(", "def _{name}_of(").replace(
            "{name}_map(d_in)", "_{name}_bound(d_in)"
        )
        for line in lines
    ]
    more = [
        "",
        "",
        f"_{{name}}_datasets = {pair!r}  # at distance {d_in}",
        "",
        "",
        "def {name}(dataset):",
        "    return _{name}_of(_{name}_datasets[dataset])",
        "",
        "",
        "def {name}_map(d_in):",
        f"    return _{{name}}_bound({d_in!r})",
    ]
    return _transformation(
        [*first, *more],
        input={"type": "scalar", "dtype": "i64", "bounds": [0, 1]},
        input_metric="absolute",
        output_metric=metric,
        d_in=[1],
    )


def _truncation(found):
    """Return the entry of a frame-to-frame query for the bound that is exceeded, or for the first
    bound: rows with the key of their group, or, for a number of groups, the rows of each group.
    """
    at, limit = next(
        (at, limit)
        for at, bound in enumerate(found["allowed"])
        for limit in ("per_group", "num_groups")
        if bound[limit] is not None
        and (found["kind"] != "bound" or found["found"].startswith(f"{limit} by {bound['by']}:"))
    )
    result, metric = "{'group': keys, 'row': rows}", "by:group:symmetric"
    if limit == "num_groups":
        groups = "sorted(row for group, row in zip(keys, rows) if group == key)"
        result, metric = f"{{key: {groups} for key in keys}}", "per-group-sum:discrete"
    lines = [
        "",
        "",
        "def _{name}_query():",
        f"    q = pl.LazyFrame(schema={found['schema']})",
        f"    plan, output = {found['plan']}, 'FrameDistance<SymmetricDistance>'",
        f"    return dp.t.make_stable_lazyframe({found['domain']}, {found['metric']}, plan, "
        "MO=output)",
        "",
        "",
        "_{name} = _{name}_query()",
        f"_{{name}}_bound_of = _{{name}}.map({found['d_in']})[{at}]  # bounds are an expression",
        "",
        "",
        "def {name}(dataset):",
        f"    table = _{{name}}(pl.LazyFrame(dataset, schema={found['schema']})).collect()",
        "    by = [each.alias(f'key{i}') for i, each in enumerate(_{name}_bound_of.by)]",
        "    keys = list(map(repr, table.select(by).rows())) if by else ['all'] * table.height",
        "    rows = list(map(repr, table.rows()))",
        f"    return {result}",
        "",
        "",
        "def {name}_map(d_in):",
        f"    return _{{name}}_bound_of.{limit}",
    ]
    return _two(lines, _columns(found), 1, metric)


def _array(found):
    """Return the entry of a transformation of arrays on two arrays; its map has the slack of
    idealized numbers.
    """
    imports = sorted(set(re.findall(r"\b(make_\w+)", found["build"])))
    space = arrays.names()
    lines = [
        "import numpy as np",
        *(f"from {space[name].__module__} import {name}" for name in imports),
    ]
    lines += [
        "",
        f"_{{name}} = {found['build']}",
        "",
        "",
        "def {name}(dataset):",
        "    found = _{name}(np.array(dataset, dtype=float).reshape(-1, 2))",
        "    return found.tolist() if hasattr(found, 'tolist') else found",
        "",
        "",
        "def {name}_map(d_in):",
        f"    return _{{name}}.map(d_in) * {arrays.SLACK!r}",
    ]
    metric = next(
        (name for start, name in _METRICS.items() if found["metric"].startswith(start)), "absolute"
    )
    return _two(lines, found["inputs"], found["distance_in"], metric)


RUNS = 20  # independent releases in one output, where a map claims a loss of zero


def _measurement(found):
    """Return the entry of a measurement on two inputs.

    A privacy loss of zero means that both laws of outputs are equal, also those of many releases
    together: a stability map of zero, which the audit of a random transformation tests. Any other
    value of the map is the claim of a mechanism.
    """
    lines = [f"_{{name}} = {found['build']}"]
    spent, d_in = ast.literal_eval(found["allowed"]), found["distance_in"]
    # JSON has no tuples, which the maps of thresholds need
    d_in = tuple(d_in) if isinstance(d_in, list) else d_in
    if not np.any(spent):
        lines += [
            "",
            "",
            "def {name}(data):",
            f"    return sum({found['release']} for _ in range({RUNS}))",
            "",
            "",
            "def {name}_map(d_in):",
            "    return float(np.max(_{name}.map(d_in)))",
        ]
        return _two(lines, found["inputs"], d_in, "absolute")
    numbers = "spent" if isinstance(spent, tuple) else "[spent]"
    lines += [
        f"_{{name}}_datasets = {found['inputs']!r}  # at distance {d_in}",
        "",
        "",
        "def {name}(dataset, size, rng):",
        "    data = _{name}_datasets[int(dataset[0])]",
        f"    return [{found['release']} for _ in range(size)]",
        "",
        "",
        f"spent = _{{name}}.map({d_in!r})",
        f"{{name}}.claim = {'approx:' if isinstance(spent, tuple) else 'pure:'!r} + "
        f"','.join(map(repr, {numbers}))",
        f"{{name}}.domain = {_TWO_RECORDS!r}",
        "{name}.seeded = False",
    ]
    return {"source": lines}


_TWO_RECORDS = {
    "kind": "Records",
    "size": 1,
    "low": 0,
    "high": 1,
    "categories": True,
    "relation": "replace-one",
}
_MAKERS = {
    "chains": _chain,
    "frames": _frame,
    "truncations": _truncation,
    "arrays": _array,
    "measurements": _measurement,
}
