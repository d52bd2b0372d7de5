"""Tests of the scan of OpenDP: exact distances, frozen findings, and, where OpenDP is installed,
searches with a known result.
"""

import importlib
import json
import math
import random
from fractions import Fraction

import pytest

from dpwitness.benchmarks.scan.opendp import search_program


@pytest.fixture
def adapter(monkeypatch):
    """Return a function that imports a module of the search of OpenDP."""
    monkeypatch.syspath_prepend(str(search_program("opendp").parent))
    return importlib.import_module


@pytest.fixture
def library(adapter):
    """Return the same function where OpenDP and Polars are installed, with the library's features
    enabled.
    """
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed")
    polars = pytest.importorskip("polars")
    needed = importlib.import_module("opendp.mod")._EXPECTED_POLARS_VERSION
    if polars.__version__ != needed:
        pytest.skip(f"OpenDP needs Polars {needed}, got {polars.__version__}")
    dp.enable_features("contrib", "honest-but-curious")
    return adapter


@pytest.mark.parametrize(
    ("metric", "first", "second", "expected"),
    [
        ("symmetric", [1, 2, 2], [2, 3], 3),
        ("insert-delete", [1, 2, 3], [2, 3, 1], 2),
        ("hamming", [1, 2, 3], [2, 3, 1], 3),
        ("change-one", [1, 2, 3], [2, 3, 1], 0),
        ("change-one", [1], [1, 1], math.inf),
        ("symmetric", [math.nan], [math.nan], 0),
        ("absolute", 0.1, 0.3, Fraction(0.3) - Fraction(0.1)),
        ("l1", [1, 2], [3, 0], 4),
        ("l2", [1, 2], [4, 6], 25),
        ("linf", [1, 2], [3, 5], 3),
        ("absolute", math.nan, 1.0, math.inf),
        ("l1", [1], [1, 1], math.inf),
    ],
)
def test_distances_are_exact(adapter, metric, first, second, expected):
    assert adapter("opendp_inputs").distance(metric, first, second) == expected


@pytest.mark.parametrize(
    ("metric", "found", "allowed", "expected"),
    [
        ("l2", 25, 5.0, False),
        ("l2", 26, 5.0, True),
        ("absolute", Fraction(0.3), 0.3, False),
        ("absolute", math.inf, 1e308, True),
        ("l1", 0, -1, True),
    ],
)
def test_only_a_certain_excess_counts(adapter, metric, found, allowed, expected):
    assert adapter("opendp_inputs").exceeds(metric, found, allowed) is expected


def test_values_of_32_bit_floats_are_32_bit_floats(adapter):
    inputs = adapter("opendp_inputs")
    space = {"type": "vector", "dtype": "f32", "bounds": [inputs.single(0.1), 1.0], "nan": False}
    moved = inputs.shifted_numbers([inputs.single(0.1)], space, "l1", 0.3)
    found = [*inputs.values(space), *inputs.values({"dtype": "f32"}), *(row[0] for row in moved)]
    assert len(found) > 15 and all(value == inputs.single(value) for value in found)


def test_a_chain_that_shifts_rows_is_found(library):
    chains = library("opendp_chains")
    source = (
        "dp.t.make_metric_bounded(dp.vector_domain(dp.atom_domain(T='i32'), size=3), "
        "dp.insert_delete_distance())"
    )
    made = chains.build(source)
    found = chains.search(chains.describe(source, made), made, random.Random(0), pairs=400)
    assert (found["kind"], found["allowed"]) == ("distance", 1)
    assert int(found["found"]) > 1


def test_a_sound_chain_has_no_finding(library):
    chains = library("opendp_chains")
    source = (
        "dp.t.make_clamp(dp.vector_domain(dp.atom_domain(T='i32')), dp.symmetric_distance(), "
        "bounds=(-1, 3)) >> dp.t.then_sum()"
    )
    made = chains.build(source)
    assert chains.search(chains.describe(source, made), made, random.Random(0)) is None


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("(pl.lit(5) % pl.col('x')).dp.count(1.0, signed=True)", "distance"),
        ("pl.col('x').dp.count(1.0, signed=True)", None),
    ],
)
def test_a_query_is_judged_by_its_exact_result(library, expression, kind):
    frames = library("opendp_frames")
    entry = frames.entry(frames.columns_of("i64", False, False), "select-sized", expression)
    found = frames.search(entry, random.Random(0))
    assert (found and found["kind"]) == kind


@pytest.mark.parametrize(
    ("scene", "expression", "expected"),
    [
        (
            "select-sized",
            "(1 + (pl.lit(5) % pl.col('x')) * 2).dp.count(1.0, signed=True)",
            "(pl.lit(5) % pl.col('x')).dp.count(1.0, signed=True)",
        ),
        ("joined-part", "(1 + pl.col('x')).dp.count(1.0, signed=True)", "dp.len(1.0, signed=True)"),
    ],
)
def test_a_finding_shrinks_to_the_expression_or_scene_at_fault(
    library, scene, expression, expected
):
    frames, search = library("opendp_frames"), library("search")
    entry = frames.entry(frames.columns_of("i64", False, False), scene, expression)
    found = frames.search(entry, random.Random(0))
    smallest = search.smallest(found)
    assert smallest["expression"] == expected and expected in smallest["plan"]
    assert search.nature(smallest) == search.nature(found)
    assert smallest["inputs"] == found["inputs"]


def test_a_chain_shrinks_to_its_last_constructor(library):
    chains = library("opendp_chains")
    source = (
        "dp.t.make_cast_default(dp.vector_domain(dp.atom_domain(T='i32'), size=3), "
        "dp.insert_delete_distance(), TOA='i64') >> dp.t.then_metric_bounded()"
    )
    made = chains.build(source)
    found = chains.search(chains.describe(source, made), made, random.Random(0), pairs=400)
    alone = chains.alone(found)
    assert (alone["kind"], alone["found"]) == (found["kind"], found["found"])
    assert alone["build"] == (
        "dp.t.make_metric_bounded(dp.vector_domain(dp.atom_domain(T='i64'), size=3), "
        "dp.insert_delete_distance())"
    )


def test_a_claim_of_zero_is_a_stability_map_of_zero(library):
    entries, measurements = library("opendp_entries"), library("opendp_measurements")
    found = next(each for each in measurements.thresholds() if each["allowed"] == "(0.0, 0.0)")
    entry = entries.entry(json.loads(json.dumps(found)))
    assert "{'a': 0} and {} within distance [1, 0, 0]" in entry["why"]
    names = {}
    source = "\n".join(["import numpy as np", *entries.HEADER, *entry["source"]])
    exec(source.replace("{name}", "key"), names)
    outputs = [[names["key"](side) for _ in range(20)] for side in (0, 1)]
    assert names["key_map"](1) == 0 and set(outputs[1]) == {0} and max(outputs[0]) > 0
