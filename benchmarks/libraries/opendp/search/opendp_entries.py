"""Entries of a target file for findings in OpenDP: the library's own map is the claim.

An entry has the source of its functions and its declaration. The source uses
the library only, so that a person can read and run it.
"""

import re

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
    """Return the entry of a finding; None for a finding that no transformation can show."""
    made = _MAKERS[found["part"]](found)
    text = found.get("expression") or found.get("plan") or found["build"]
    about = {"constructors": constructors(found), "why": " ".join(str(text).split())[:300]}
    return None if made is None else about | made


def _transformation(lines, **declaration):
    applied = {"kind": "transformation", "apply": "{name}", "map": "{name}_map"}
    return {"source": lines, "declaration": applied | declaration}


def _chain(found):
    if found.get("kind") == "support":
        return None  # a random transformation has no exact output
    if found["input"]["type"] == "scalar" and found["input_metric"] not in ("absolute", "discrete"):
        return None  # a text whose parts are the rows
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
    declared = {key: found[key] for key in ("input", "input_metric", "output_metric", "d_in")}
    if "inputs" in found:
        declared |= {"d_in": [found["distance_in"]], "inputs": found["inputs"]}
    return _transformation(lines, **declared)


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
    """Return the entry of a frame-to-frame query for the bound that is exceeded."""
    at, columns = 0, []
    if found["kind"] == "bound":
        exceeded = (
            i
            for i, bound in enumerate(found["allowed"])
            if found["found"].startswith(f"per_group by {bound['by']}:")
        )
        at = next(exceeded, None)
        if at is None:
            return None  # the number of groups is exceeded
        columns = re.findall(r'col\("(\w+)"\)', " ".join(found["allowed"][at]["by"]))
        if len(columns) > 1:
            return None
    metric = "symmetric" if not columns else f"by:{columns[0]}:symmetric"
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
        "",
        "",
        "def {name}(dataset):",
        f"    return _{{name}}(pl.LazyFrame(dataset, "
        f"schema={found['schema']})).collect().to_dict(as_series=False)",
        "",
        "",
        "def {name}_map(d_in):",
        f"    return _{{name}}.map({found['d_in']})[{at}].per_group",  # bounds are an expression
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


_MAKERS = {"chains": _chain, "frames": _frame, "truncations": _truncation, "arrays": _array}
