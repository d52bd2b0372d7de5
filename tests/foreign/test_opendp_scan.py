"""Tests of the scan of OpenDP: exact distances, frozen findings, and, where OpenDP is installed,
searches with a known result.
"""

import importlib
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
    pytest.importorskip("polars")
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
