"""Paths that few other cases take: compiled counting, plans of Renyi notions, the early look, time
budgets, wide and structured outputs, own relations, graphs, curves.
"""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

import dpwitness as dpw
from dpwitness import Pair, domains
from dpwitness import mechanisms as m
from dpwitness.auditors import MeanBound
from dpwitness.auditors.workers import chunks

PAIR = Pair(np.array([0.0]), np.array([1.0]))
PLAIN = {"bits": False, "trace": False, "causes": False}
BUILT_IN = {
    "number": (m.Laplace(1.0, noise_multiplier=0.7), "pure:1"),
    "atoms": (m.RandomizedResponse(1.4), "pure:1"),
    "integers": (m.Geometric(1.5), "pure:1"),
    "vector": (m.Gaussian(epsilon=1.0, delta=1e-5, noise_multiplier=0.4), "approx:1,1e-5"),
    "Renyi": (m.Gaussian(epsilon=1.0, delta=1e-5, noise_multiplier=0.4), "zcdp:0.01"),
}


def variant(mechanism, **methods):
    """The mechanism as an object of a user's class."""
    kind = type("Variant", (type(mechanism),), methods)
    fields = [each.name for each in dataclasses.fields(mechanism) if each.init]
    return kind(**{name: getattr(mechanism, name) for name in fields})


def audited(mechanism, claim, pair):
    return dpw.audit(
        mechanism, claim=claim, pair=pair, trials=20_000, seed=3, name="same", stop="never", **PLAIN
    )


@pytest.mark.slow_cases("Renyi", "vector", "integers")
@pytest.mark.parametrize("name", BUILT_IN)
def test_compiled_counting_has_the_counts_of_plain_counting(name, monkeypatch):
    monkeypatch.setattr(chunks, "MIN_KERNEL_ROUNDS", 1_000)  # a million rounds by default
    mechanism, claim = BUILT_IN[name]
    plain = variant(mechanism, sample=lambda self, *given: type(mechanism).sample(self, *given))
    compiled, again = (
        audited(each, claim, mechanism.worst_pair()) for each in (variant(mechanism), plain)
    )
    assert compiled.tally == again.tally and compiled.event.to_json() == again.event.to_json()
    assert compiled.parameter_lower == again.parameter_lower
    assert compiled.verdict.value == "VIOLATED"


def test_draws_that_are_not_what_is_sampled_are_not_counted():
    def shifted(self, dataset, size, rng):
        return m.Laplace.sample(self, dataset, size, rng) + 3 * (dataset[0] > 0)

    assert audited(variant(m.Laplace(1.0)), "pure:1", PAIR).verdict.value == "NOT_REFUTED"
    wrong = variant(m.Laplace(1.0), sample=shifted, draws=m.Laplace.draws)
    assert audited(wrong, "pure:1", PAIR).verdict.value == "VIOLATED"


@pytest.mark.slow
def test_plans_of_renyi_notions_and_of_atoms():
    headlines = [dpw.plan(claim, trials=1_000).headline() for claim in ("pure:1", "pure:9")]
    assert " from epsilon = 1.4" in headlines[0] and " no violation of " in headlines[1]
    gaussian = m.Gaussian(epsilon=1.0, delta=1e-5)
    found = dpw.plan("zcdp:0.01", trials=20_000, mechanism=gaussian)
    assert found.detectable is None  # no violation of a size that is looked for shows in so few
    response = dpw.plan("pure:1", find=1.2, mechanism=m.RandomizedResponse(1.2)).needed
    assert 3_000 < response < 4_500


def test_bounds_are_shown_while_an_audit_trains_and_tests():
    class Progress:
        def __init__(self):
            self.bounds, self.done = [], 0

        def __call__(self, done, planned):
            assert self.done <= done <= planned
            self.done = done

        def interim_bound(self, symbol, bound):
            assert symbol == "epsilon"
            self.bounds.append(bound)

    def noisy(dataset, size, rng):
        return np.sum(dataset) + rng.laplace(0.0, 0.5, size)

    shown = Progress()
    options = {"claim": "pure:1", "pair": PAIR, "trials": 400_000, "seed": 1, "stop": "never"}
    found = dpw.audit(noisy, progress=shown, **PLAIN, **options)
    assert found.parameter_lower >= max(shown.bounds[1:]) > 1.8
    assert 1.5 < shown.bounds[0] < 2.0 and shown.done == found.trials


def test_a_time_budget_counts_slow_pairs():
    def slow_on_one(dataset, size, rng):
        if np.sum(dataset) > 1.5:
            np.linalg.svd(np.ones((60, 60)))
        return np.sum(dataset) + rng.laplace(0.0, 0.4, size)

    found = dpw.audit(slow_on_one, claim="pure:1", domain=domains.Records(2), seconds=2.0, seed=1)
    assert found.verdict.value == "VIOLATED" and found.seconds < 12
    assert any("time budget 2 s" in note for note in found.notes)


def wide(dataset, size, rng):
    """Two of eight columns answer, and only together."""
    found = rng.normal(size=(size, 8))
    found[:, 2] = np.where(rng.random(size) < 0.5, 1.0, -1.0)
    right = rng.random(size) < 0.97
    found[:, 5] = found[:, 2] * np.where(right == (dataset[0] > 0), 1.0, -1.0)
    return found


def categories(dataset, size, rng):
    names = np.array(["red", "green", "blue", "none"])
    picks = rng.integers(4, size=(size, 6))
    leak = rng.random(size) < 0.9
    picks[:, 3] = np.where(
        leak, picks[:, 1] if dataset[0] > 0 else (picks[:, 1] + 1) % 4, picks[:, 3]
    )
    return [tuple(row) for row in names[picks].tolist()]


@pytest.mark.slow  # `test_combinations` has numbers
@pytest.mark.parametrize("mechanism", [wide, categories], ids=lambda each: each.__name__)
def test_a_leak_that_two_of_many_columns_show_is_found_and_replayed(mechanism):
    found = dpw.audit(mechanism, claim="pure:0.5", pair=PAIR, trials=12_000, seed=1, **PLAIN)
    assert found.verdict.value == "VIOLATED", found.headline()
    witness = json.loads(json.dumps(found.witness))
    again = dpw.replay(witness, mechanism=mechanism, trials=12_000, seed=5)
    assert again.verdict.value == "VIOLATED"


def test_an_own_relation_decides_in_both_orders():
    relation = domains.Relation(lambda a, b: abs(len(a) - len(b)) == 1, title="one more")
    pair = Pair([1.0], [1.0, 2.0], relation=relation)
    assert "own:one more" in pair.relation and "not checked by dpwitness" in pair.unchecked
    with pytest.raises(dpw.InvalidArgument, match="one more"):
        Pair([1.0], [1.0, 2.0, 3.0], relation=relation)
    one_way = domains.Relation(lambda a, b: len(a) < len(b), title="longer")
    with pytest.raises(dpw.InvalidArgument, match="longer"):
        Pair([1.0], [1.0, 2.0], relation=one_way)


PATH = [(0, 1), (1, 2), (2, 3)]
GRAPHS = {  # edges of D1, number of its nodes, relation, reason why D1 is not a neighbor of PATH
    "edge": ([*PATH, (0, 3)], 4, "edge", ""),
    "edge, two": ([*PATH, (0, 3), (0, 2)], 4, "edge", "2 edges are in one graph"),
    "edge, two of two": ([*PATH, (0, 3), (0, 2)], 4, "edge:k=2", ""),
    "edge, nodes": (PATH, 5, "edge", "1 nodes differ, none may"),
    "replace-edge": ([(0, 1), (1, 2), (0, 3)], 4, "replace-edge", ""),
    "replace-edge, number": (PATH[:2], 4, "replace-edge", "3 and 2 edges, the number may not"),
    "replace-edge, two": ([(0, 1), (0, 2), (0, 3)], 4, "replace-edge", "2 edges differ"),
    "node": ([*PATH, (4, 0), (4, 3)], 5, "node", ""),
    "node, another edge": ([*PATH[:2], (4, 0)], 5, "node", "1 edges differ between nodes"),
    "node, two": (PATH, 6, "node", "2 nodes are in one graph"),
    "replace-node": ([(0, 1), (0, 2)], 4, "replace-node", ""),
    "replace-node, two": ([], 4, "replace-node", "more than 1 nodes"),
    "replace-node, two of two": ([], 4, "replace-node:k=2", ""),
    "replace-node, number": (PATH, 5, "replace-node", "1 nodes are in one graph"),
}


@pytest.mark.parametrize("which", GRAPHS)
def test_graphs_are_neighbors_by_their_edges_or_nodes(which):
    networkx = pytest.importorskip("networkx")
    edges, nodes, relation, reason = GRAPHS[which]
    first, second = networkx.path_graph(4), networkx.empty_graph(nodes)
    second.add_edges_from(edges)
    for pair in ((first, second), (second, first)):
        if reason:
            with pytest.raises(dpw.InvalidArgument, match=reason if pair[0] is first else None):
                Pair(*pair, relation=relation)
        else:
            assert Pair(*pair, relation=relation).relation == relation


def test_a_curve_that_reaches_one_early_is_composed_with_itself():
    known = dpw.parse_claim("approx:0.5,0.1")
    rates = np.unique(np.append(np.linspace(0.0, 1.0, 41), 0.9 / (1 + np.exp(0.5))))
    curve = dpw.claims.TradeoffCurve(rates, 1 - known.tradeoff(rates))
    assert curve.tradeoff(rates) == pytest.approx(known.tradeoff(rates), abs=1e-9)
    twice = curve.tradeoff(curve.tradeoff(rates))
    assert curve.group(2).tradeoff(rates) == pytest.approx(twice, abs=1e-9)
    assert curve.delta(np.array([0.0, 0.5, 3.0])) == pytest.approx(
        known.delta(np.array([0.0, 0.5, 3.0])), abs=2e-3
    )


def test_a_plan_shows_more_and_fewer_runs():
    found = dpw.plan("pure:1", trials=20_000)
    assert [row.trials for row in found.rows] == [2_000, 6_000, 20_000, 60_000, 200_000]


def test_a_plan_of_the_mechanism_itself_is_rehearsed():
    laplace = m.Laplace(1.0, noise_multiplier=0.7)
    assert 1_400 < dpw.plan("pure:1", mechanism=laplace, pair=PAIR).needed < 1_700


@pytest.mark.slow
def test_one_large_value_in_any_row_of_a_table_shows():
    def table(dataset, size, rng):
        values = rng.random((size, 40))
        values[np.arange(size), rng.integers(40, size=size)] += 0.6 * (dataset[0] > 0)
        return [pd.DataFrame({"value": row}) for row in values]

    options = {"claim": "pure:1", "pair": PAIR, "trials": 1_500, "seed": 1, "bits": False}
    found = dpw.audit(table, causes=False, trace=False, **options)
    assert found.parameter_lower > 1.2


def test_keys_are_told_apart_whatever_their_class_prints():
    class Key(str):
        __slots__ = ()

        def __repr__(self):
            return "a key"

    def keyed(dataset, size, rng):
        return [
            {Key("left" if side else "right"): 1.0} for side in rng.random(size) < odds(dataset)
        ]

    def odds(dataset):
        return 0.9 if dataset[0] > 0 else 0.1

    found = dpw.audit(keyed, claim="pure:1", pair=PAIR, trials=4_000, seed=1, causes=False)
    assert found.verdict.value == "VIOLATED"


def test_a_mean_beyond_what_the_first_values_promised_is_no_certainty():
    values = {"size": 0}

    def rising(size, rng):
        first = values["size"] + np.arange(size) < 100
        values["size"] += size
        return np.where(first, 0.01, rng.choice([0.0, 1.0], size))

    found = dpw.audit_utility(rising, MeanBound(0.45, high=1.0), runs=1_000, seed=1)
    assert found.lower < 0.49 and found.verdict.value == "NOT_REFUTED"
