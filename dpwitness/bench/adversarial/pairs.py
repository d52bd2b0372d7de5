"""Pairs of datasets: pairs that exercise nothing, pairs that are not neighbors, and the pairs that domains make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import InvalidArgument, Pair, Verdict, audit
from dpwitness import mechanisms as m
from dpwitness.auditors.black_box.exercise import LEVEL
from dpwitness.auditors.pairs.catalogue import pairs_for
from dpwitness.bench.adversarial.attack import Attack, refusal, response, seed_of, verdict_among
from dpwitness.mechanisms import PureDP


def _count_above(threshold: float, scale: float) -> Callable[[Any, int, Generator], Any]:
    def count(dataset: Any, size: int, rng: Generator) -> Any:
        return np.sum(np.asarray(dataset) > threshold) + scale * np.round(rng.laplace(0.0, 0.4, size))

    return count


def unexercised(rng: Generator) -> str:
    """A count above a threshold, with noise far too small, on records below the threshold."""
    threshold, records = float(rng.uniform(10, 100)), int(rng.integers(1, 6))
    ages = rng.uniform(0, threshold, records)
    other = ages.copy()
    other[int(rng.integers(records))] = rng.uniform(0, threshold)
    mechanism = _count_above(threshold, float(10 ** rng.uniform(-3, -1)))
    settings: dict[str, Any] = {"trials": int(rng.integers(15_000, 20_001)), "confidence": 0.95, "seed": seed_of(rng), "bits": False}
    found = audit(mechanism, claim=PureDP(float(rng.uniform(1.0, 3.0))), pair=Pair(ages, other), **settings)
    if found.verdict is Verdict.INCONCLUSIVE and not found.notes:
        return "INCONCLUSIVE without a reason"
    return verdict_among(found, (Verdict.INCONCLUSIVE,), f"count above {threshold:.1f} of records below it")


def exercised(rng: Generator) -> str:
    """Randomized response that keeps its claim and reacts to the pair, with as much as half of the claim."""
    claim = float(rng.uniform(1.0, 3.0))
    zero, one = rng.integers(0, 50, 2) * 2 + (0, 1)
    pair = Pair(np.array([float(zero)]), np.array([float(one)]))
    epsilon, trials = claim * float(rng.uniform(0.5, 0.95)), int(rng.integers(4000, 8001))
    found = audit(response(epsilon), claim=PureDP(claim), pair=pair, trials=trials, confidence=0.999, seed=seed_of(rng))
    return "" if found.verdict is not Verdict.INCONCLUSIVE else f"INCONCLUSIVE: response {epsilon:.3f} against {claim:.3f}, {trials} runs"


class Opaque:
    """A value whose representation does not show what it holds."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "Opaque()"


def _graph_pair(rng: Generator, legal: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Two graphs that differ in one edge, and if not legal in an attribute besides."""
    import networkx

    nodes = int(rng.integers(4, 9))
    graph = networkx.gnp_random_graph(nodes, 0.5, seed=int(rng.integers(2**31)))
    kind, values = str(rng.choice(["array", "object", "float", "graph"])), np.arange(float(rng.integers(2000, 5000)))
    node = int(rng.integers(nodes))
    held: dict[str, Any] = {"array": values, "float": 1.0, "object": Opaque(0), "graph": values}
    (graph.graph if kind == "graph" else graph.nodes[node])["x"] = held[kind]
    other = graph.copy()
    u, v = (int(i) for i in rng.choice(nodes, 2, replace=False))
    (other.remove_edge if other.has_edge(u, v) else other.add_edge)(u, v)
    if not legal:
        changed = values.copy()
        changed[int(rng.integers(len(values) // 4, len(values) // 2))] += 1.0
        moved: dict[str, Any] = {"array": changed, "float": float(np.nextafter(1.0, 2.0)), "object": Opaque(1), "graph": changed}
        (other.graph if kind == "graph" else other.nodes[node])["x"] = moved[kind]
    return graph, other, {"relation": "edge"}


def _unit_pair(rng: Generator, legal: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Records, or rows of a frame, that belong to users: the rows of one user are removed; if not legal, another user's change too."""
    keyed, users = bool(rng.random() < 0.5), int(rng.integers(3, 6))
    key: Any = int(rng.integers(0, 3)) if keyed else "user"
    rows = [
        {key: user, (key + 1 if keyed else "x"): float(rng.integers(0, 9))} for user in range(users) for _ in range(int(rng.integers(1, 4)))
    ]
    gone = int(rng.integers(users))
    other = [dict(row) for row in rows if row[key] != gone]
    if not legal:
        row = other[int(rng.integers(len(other)))]
        row[key + 1 if keyed else "x"] += 0.5
    if keyed:
        columns = {str(name): np.array([row[name] for row in rows]) for name in rows[0]}
        fewer = {str(name): np.array([row[name] for row in other]) for name in rows[0]}
        return columns, fewer, {"relation": "add-remove", "unit": str(key)}
    return rows, other, {"relation": "add-remove", "unit": "user"}


def _integer_keys(rng: Generator, legal: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Records that are dicts with integer keys beside the user's: one user's records change; if not legal, those of two users."""
    key, users = int(rng.integers(1, 5)), int(rng.integers(3, 6))
    rows: list[dict[Any, Any]] = [{"user": user, key: float(rng.integers(0, 9))} for user in range(users)]
    other = [dict(row) for row in rows]
    for user in rng.choice(users, 1 if legal else int(rng.integers(2, users + 1)), replace=False):
        other[int(user)][key] += 1.0
    return rows, other, {"relation": "replace-one", "unit": "user"}


def _missing_user(rng: Generator, legal: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Rows without a user, of whom several change at once."""
    nothing: Any = None if rng.random() < 0.5 else float("nan")
    rows: list[dict[str, Any]] = [{"user": nothing, "x": float(i)} for i in range(int(rng.integers(2, 6)))]
    rows += [{"user": 1, "x": 0.0}]
    other = [{**row, "x": row["x"] + 100} if row["user"] != 1 else dict(row) for row in rows]
    return rows, other, {"relation": "replace-one", "unit": "user"}


def _array_pair(rng: Generator, legal: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Arrays whose rows change in the last bit, in the sign of zero or by a missing value: one row, or two if not legal."""
    shape = (int(rng.integers(3, 2000)), int(rng.integers(1, 4)))
    data = rng.integers(0, 3, shape).astype(float)
    other = data.copy()
    for row in rng.choice(shape[0], 1 if legal else 2, replace=False):
        column = int(rng.integers(shape[1]))
        kind = int(rng.integers(3))
        other[row, column] = (np.nextafter(data[row, column], 9.0), np.nan, data[row, column] + 1)[kind]
    return data, other, {"relation": "replace-one"}


_MAKERS = (_graph_pair, _unit_pair, _integer_keys, _array_pair)


def illegal_pair(rng: Generator) -> str:
    """A pair that differs in more than its relation permits."""
    maker = (*_MAKERS, _missing_user)[int(rng.integers(len(_MAKERS) + 1))]
    d0, d1, how = maker(rng, False)
    return refusal(lambda: Pair(d0, d1, **how), f"{maker.__name__[1:]} {how}: {d0!s:.100} / {d1!s:.100}")


def legal_pair(rng: Generator) -> str:
    """The same kinds of pairs, within the relation. Values that cannot be compared may be refused."""
    maker = _MAKERS[int(rng.integers(len(_MAKERS)))]
    d0, d1, how = maker(rng, True)
    try:
        Pair(d0, d1, **how)
    except InvalidArgument as error:
        return "" if "Opaque" in str(error) else f"refused {maker.__name__[1:]} {how}: {error!s:.150}"
    return ""


def users_of_a_table(rng: Generator) -> str:
    """Every pair of a table with users: sizes, values and rows per user as the table was declared, one user's rows changed."""
    per_user, most = int(rng.integers(1, 4)), int(rng.integers(4, 9))
    low, high = 0, int(rng.integers(2, 100))
    domain = m.Table({"age": (low, high), "city": ["a", "b", "c"]}, size=most, user="who", per_user=per_user, frame="records")
    for pair in pairs_for(domain):
        for rows in (pair.d0, pair.d1):
            counts = Counter(row["who"] for row in rows)
            if len(rows) > most or max(counts.values(), default=0) > per_user:
                return f"{len(rows)} rows of at most {most}, {max(counts.values())} of one user where {per_user} are declared"
            if not all(low <= row["age"] <= high and row["city"] in "abc" for row in rows):
                return f"values outside of the table: {rows!s:.150}"
        users = {row["who"] for row in [*pair.d0, *pair.d1]}
        changed = [u for u in users if Counter(map(str, _of(pair.d0, u))) != Counter(map(str, _of(pair.d1, u)))]
        if len(changed) != 1:
            return f"{len(changed)} users change between {pair.d0!s:.100} and {pair.d1!s:.100}"
    return ""


def _of(rows: Any, user: Any) -> list[list[Any]]:
    return [sorted(row.items()) for row in rows if row["who"] == user]


def records_of_a_domain(rng: Generator) -> str:
    """Every pair of records: sizes and values as declared, one record changed."""
    low, high, size = float(rng.integers(-5, 1)), float(rng.integers(1, 9)), int(rng.integers(1, 8))
    relation, integer = str(rng.choice(["replace-one", "add-remove"])), bool(rng.random() < 0.5)
    domain = m.Records(size, low=low, high=high, integer=integer, relation=relation)
    for pair in pairs_for(domain):
        sides = [list(np.asarray(side, dtype=float)) for side in (pair.d0, pair.d1)]
        values = [value for side in sides for value in side]
        if not all(low <= value <= high and (not integer or value == int(value)) for value in values):
            return f"values outside of [{low}, {high}]: {values!s:.150}"
        lengths = [len(side) for side in sides]
        right = max(lengths) <= size and (lengths == [size] * 2 if relation == "replace-one" else abs(lengths[0] - lengths[1]) == 1)
        apart = sum(((Counter(sides[0]) - Counter(sides[1])) + (Counter(sides[1]) - Counter(sides[0]))).values())
        if not right or apart != (2 if relation == "replace-one" else 1):
            return f"{relation} of at most {size} records: {sides!s:.200}"
    return ""


ATTACKS = (
    Attack("pair that exercises nothing passes", unexercised, LEVEL),
    Attack("pair that a sound mechanism reacts to is called idle", exercised),
    Attack("datasets that are not neighbors accepted", illegal_pair, runs=1000),
    Attack("neighbors refused", legal_pair, runs=1000),
    Attack("pairs of a table with users leave it", users_of_a_table),
    Attack("pairs of records leave their domain", records_of_a_domain),
)
