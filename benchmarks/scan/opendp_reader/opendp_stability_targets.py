"""OpenDP's transformations and data-frame queries as targets of the stability audit; spaces, metrics and maps are the library's own.

`dpwitness audit opendp_stability_targets.py:NAME --python PATH`. Queries are audited by their exact results at noise scale 0, against
the sensitivity that the privacy map claims: its value at scale 2^20, times 2^20.
"""

import os
import sys

os.environ.setdefault("RUST_BACKTRACE", "0")  # an error with its trace takes 70 ms
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import opendp.prelude as dp

dp.enable_features("contrib", "honest-but-curious")

import opendp_chains as chains  # noqa: E402
import opendp_frames as frames  # noqa: E402

LIBRARY = "opendp"
TESTED = ">=0.16,<0.17"
INSTALL = "pip install 'opendp[polars]==0.16.0'"

_INTEGERS = "dp.vector_domain(dp.atom_domain(T='i32', bounds=(-1, 1)){size})"
_FLOATS = "dp.vector_domain(dp.atom_domain(T='f64', bounds=(0.1, 0.3), nan=False){size})"
_TREE = "dp.vector_domain(dp.atom_domain(T='i32'), size=4)"
_THREE = ", size=3"
CHAINS = {
    "clamped_sum": "dp.t.make_clamp(dp.vector_domain(dp.atom_domain(T='i32')), dp.symmetric_distance(), bounds=(-1, 3)) >> dp.t.then_sum()",
    "count": f"dp.t.make_count({_INTEGERS.format(size='')}, dp.symmetric_distance())",
    "mean": f"dp.t.make_mean({_FLOATS.format(size=_THREE)}, dp.symmetric_distance())",
    "variance": f"dp.t.make_variance({_FLOATS.format(size=_THREE)}, dp.symmetric_distance())",
    "quantile_scores": f"dp.t.make_quantile_score_candidates({_INTEGERS.format(size='')}, dp.symmetric_distance(), [-1, 0, 1], 0.3)",
    "metric_bounded": f"dp.t.make_metric_bounded({_INTEGERS.format(size=_THREE)}, dp.insert_delete_distance())",
    "b_ary_tree": f"dp.t.make_b_ary_tree({_TREE}, dp.l1_distance(T='i32'), leaf_count=4, branching_factor=2)",
}
QUERIES = {  # name: (type of column x, whether it has nulls, whether it has NaN, scene, expression)
    "count_of_cast": ("str", False, False, "select-sized", "pl.col('x').cast(pl.Int64, strict=False).dp.count(1.0, signed=True)"),
    "count_of_remainder": ("i64", False, False, "select-sized", "(pl.lit(5) % pl.col('x')).dp.count(1.0, signed=True)"),
    "sum_without_nulls": ("i64", True, False, "select-sized", "pl.col('x').drop_nulls().dp.sum((10, 10), 1.0)"),
    "sum_of_filled": ("f64", True, False, "select", "pl.col('x').fill_null(float('nan')).clip(0.0, 1.0).sum().dp.noise(1.0)"),
    "sum_of_clipped": ("i64", False, False, "select", "pl.col('x').dp.sum((-1, 3), 1.0)"),
    "count_of_nulls": ("i64", True, False, "select", "pl.col('x').dp.null_count(1.0, signed=True)"),
}


def _declare_chain(name, source):
    made = chains.build(source)

    def apply(dataset):
        return made(dataset)

    def stability_map(d_in):
        return made.map(d_in)

    globals()[name], globals()[name + "_map"] = apply, stability_map
    found = chains.describe(source, made)
    return {
        "kind": "transformation",
        "map": name + "_map",
        **{key: found[key] for key in ("input", "input_metric", "output_metric", "d_in")},
    }


def _declare_query(name, dtype, nullable, nan, scene, expression):
    entry = frames.entry(frames.columns_of(dtype, nullable, nan), scene, expression)
    exact, noisy = frames.query(entry, 0.0), frames.query(entry, frames.SCALE)

    def apply(dataset):
        rows = [dict(zip(dataset, row, strict=False)) for row in zip(*dataset.values(), strict=False)]
        kind, found = frames.result(exact, entry, rows)
        if kind == "error":
            raise ValueError(found)
        return next(iter(found[0].values()))

    def stability_map(d_in):
        return noisy.map(d_in) * frames.SCALE  # a power of two: no rounding

    globals()[name], globals()[name + "_map"] = apply, stability_map
    size = 2 if entry["input_metric"] == "change-one" else None
    space = entry["input"] | {"size": size}
    metrics = {"input_metric": entry["input_metric"], "output_metric": "absolute", "d_in": entry["d_in"]}
    return {"kind": "transformation", "map": name + "_map", "input": space, **metrics}


TARGETS = {name: _declare_chain(name, source) for name, source in CHAINS.items()}
TARGETS |= {name: _declare_query(name, *query) for name, query in QUERIES.items()}
