"""Witnesses, pairs and texts for questions to the checker: right ones and wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpwitness.auditors.witnesses.seals import seal
from dpwitness.core.values.json_reader import Json

STAGE: Json = {
    "correct": 120,
    "wrong": 30,
    "rounds": 400,
    "directions": 2,
    "lost": 3,
    "weight": 0.4,
}
LAST: Json = {"correct": 310, "wrong": 41, "rounds": 900, "directions": 2}
EVENT: Json = {
    "kind": "low bits",
    "rule": {
        "$type": "object",
        "class": "dpwitness.auditors:LowBits",
        "fields": {"column": 0, "below": -53.0, "side": -1},
    },
}


def array(*values: Any, shape: tuple[int, ...] | None = None, dtype: str = "<f8") -> Json:
    """Return the JSON of an array."""
    return {
        "$type": "array",
        "dtype": dtype,
        "shape": list(shape or (len(values),)),
        "value": list(values),
    }


def labelled(x: list[float], copies: list[Any]) -> Json:
    """Return the JSON of labelled vectors with one feature."""
    fields = {
        "x": array(*x, shape=(len(x), 1)),
        "y": array(*[1.0] * len(x)),
        "multiplicity": array(*copies, dtype="<i8"),
    }
    return {"$type": "object", "class": "dpwitness.mechanisms:LabelledVectors", "fields": fields}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each object or list inside a value with each of its keys."""
    for key in (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else ()
    ):
        yield value, key
        yield from places(value[key])


def pair(relation: str, d0: Any, d1: Any) -> Json:
    """Return the JSON of a pair."""
    return {"relation": relation, "d0": d0, "d1": d1, "why": ""}


def pairs() -> list[Json]:
    """Return pairs that are neighbors, that are not, and that cannot be compared."""
    nan: Json = {"$type": "float", "value": "nan"}
    one, vectors = array(1.0, 2.0, 3.0, 4.0, shape=(2, 2)), labelled([1.0], [1])
    return [
        pair(*each)
        for each in (
            *(
                (relation, d0, d1)
                for relation in (
                    *("replace-one", "add-remove", "l1", "l2", "linf", "replace-one:k=2"),
                    *("add-remove:unit=user", "event"),
                )
                for d0, d1 in (
                    (array(0.0, 1.0, 2.0), array(0.0, 1.5, 2.0)),
                    (array(0.0, 1.0, 2.0), array(0.0, 1.0)),
                    (array(0.0, 1.0, 2.0), array(0.9, 1.9, 2.0)),
                    (array(0.0, 1.0), array(0.7071067811865476, 1.7071067811865475)),
                    (array(0.0, 5.0), array(0.0, 6.1)),
                    (array(0, 5, dtype="<i8"), array(0, 6, dtype="<i8")),
                    (array(0, 5, dtype="<i8"), array(0.0, 6.0)),
                )
            ),
            ("replace-one", array(1.0, 2.0, 3.0), array(2.0, 1.0, 3.0)),
            ("replace-one", one, array(9.0, 2.0, 3.0, 4.0, shape=(2, 2))),
            ("replace-one", labelled([1.0, 2.0], [1, 1]), labelled([2.0, 3.0], [1, 1])),
            ("replace-one", [1, 2], [1, 2]),
            ("replace-one", [{"a": 1}, 2], [{"a": 1}, 3]),
            ("replace-one", {"a": 1}, {"a": 2}),
            ("replace-one", one, array(1.0, 2.0, 3.0, 5.0, shape=(2, 2))),
            ("replace-one", one, array(1.0, 2.0, 3.0, 5.0, shape=(4, 1))),
            *(
                ("replace-one", array(1.0, 2.0, shape=(1, 2)), array(*other, shape=(1, len(other))))
                for other in ([1.0], [1.0, 3.0])
            ),
            ("replace-one", labelled([1.0, 2.0], [2, 1]), labelled([1.0, 2.0], [1, 2])),
            (
                "replace-one",
                labelled([1.0, 2.0, 3.0], [1, 1, 1]),
                labelled([1.0, 4.0, 5.0], [1, 1, 1]),
            ),
            ("add-remove", labelled([1.0, 2.0], [2, 1]), labelled([1.0, 2.0], [2, 2])),
            ("add-remove", array(shape=(0, 2)), array(1.0, 2.0, shape=(1, 2))),
            ("l1", [0.0], [2**60]),
            ("l1", [2**60], [2**60 + 1]),
            *(
                ("l1", [0.25], [end])
                for end in (1.2500000000000004, 1.250000000000001, 1.2500000000000016)
            ),
            ("l1", [0, 0], [0.0, 0]),
            ("l2", [0.0, 0.0], [0.6, 0.8]),
            ("l2", [0.0, 0.0], [0.6, 0.8000001]),
            # a step over two entries may have been divided by its norm
            *(
                ("l1", [0.0, 0.0], [end, end])
                for end in (0.5000000000000001, 0.5000000000000002, 0.5000000000000004)
            ),
            ("linf", [0.25, 0.0], [1.25, 1.0]),
            ("l1", array(999.75, 1e20), array(0.0, 1e20)),
            ("l1", array(0.25, 1e20), array(1.25, 1e20)),
            # rounding explains a step of 1.25, but not in a distance of at most 1 + 2^-20
            ("linf", [2.0**50 + 0.25], [2.0**50 + 1.5]),
            *(
                ("l1", [2.0**31 + 2**-21], [2.0**31 + 1 + 2**-21 + step])
                for step in (2**-20, 2**-19)
            ),
            ("l1", [0.0], [-0.0]),
            ("l1", [1, 5e-324], [1, 1.0]),
            ("l1", 0.5, 1.5),
            # the distance exceeds 1 by more than half of what rounding explains
            ("l1", [0.1], [1.1]),
            ("l1", [True], [2]),
            ("x" * 200, [1], [2]),
            *(
                ("replace-one", vectors | change, labelled([2.0], [1]))
                for change in ({"$type": "other"}, {"class": "os:system"}, {"class": "x" * 200})
            ),
            ("l2", [0.1] * 3, [0.1, 0.7, 0.9]),
            ("l2", array({"$type": "float", "value": "inf"}), array(1.0)),
            ("replace-one", array(nan, 1.0), array(nan, 2.0)),
            ("replace-one", array({"$type": "float", "value": "NaN"}), array(2.0)),
            ("l1", array(1.0, 2.0, shape=(1, 2)), array(1.0, 2.5, shape=(1, 2))),
            *(
                ("replace-one", array(1.0, 2.0, shape=shape), array(1.0, 3.0, shape=shape))
                for shape in (
                    *((1,), (3,), (2, 1), (2, 0), (), (10**9, 10**9)),
                    *((2**31, 2**31, 0), (-2,)),
                )
            ),
            *(
                ("replace-one", labelled([1.0, 2.0], [1, 1]), labelled([1.0, 3.0], copies))
                for copies in ([-1, 3], [0, 2], [1, 1.0], [2**53 + 1, 1], [1], [True, 1])
            ),
            ("replace-one", labelled([0.0, 2.0], [1, 1]), labelled([-0.0, 3.0], [1, 1])),
            ("replace-one", array(shape=(2, 0)), array(shape=(1, 0))),
            ("add-remove", [], [1]),
            ("add-remove", ["a"], ["a", "b"]),
            ("add-remove", ["a"], ["a", 1]),
            ("replace-one", [[1, 2], [3]], [[1, 2.0], [3]]),
            ("replace-one", 5, 5.0),
            ("replace-one", array(0, 1, dtype="<i8"), array(0, 2**63, dtype="<i8")),
            ("replace-one", array(0, 1, dtype="<i8"), array(0, 2**63 - 1, dtype="<i8")),
            *(
                (relation, array(0.0, 1.0), array(0.5, 1.0))
                for relation in (
                    *("replace-one:k=0", "replace-one:k=01", "replace-one:k=1", "add-remove:k=2"),
                    *("own:x", "l1:k=2", "L1", "l3"),
                )
            ),
        )
    ]


def audit(**changes: Any) -> Json:
    """Return a sealed witness of an audit, with other fields in place of some."""
    content: Json = {
        "schema_version": 1,
        "kind": "black box",
        "name": "right",
        "level": "value",
        "target": None,
        "claim": "pure:1",
        "claim_numbers": [1.0, 0.0],
        "pair": pair("l1", array(0.0), array(1.0)),
        "bound": 1.8040131,
        "confidence": 0.95,
        "seed": 1,
        "event": EVENT,
        "description": "",
        "trials": 2000,
        "counts": {"correct": 450, "wrong": 60, "rounds": 1000, "directions": 2, "alpha": 0.04},
    }
    return seal(content | changes)


def witnesses(bounds: dict[str, float]) -> Iterator[Json]:
    """Yield witnesses, right and wrong; `bounds` are the right bounds by name."""
    right = audit(bound=bounds["pure"])
    yield right
    yield {**right, "sha256": "0" * 64}
    yield {key: value for key, value in right.items() if key != "sha256"}
    for change in (*_counted(bounds, right["counts"]), *_binned(bounds, right["counts"])):
        yield audit(**{"bound": bounds["pure"]} | change)
    yield audit(kind="white box")
    yield seal({name: value for name, value in right.items() if name not in ("counts", "sha256")})
    for name in right:
        yield seal({other: value for other, value in right.items() if other != name})
        yield seal({**right, name: None})
        yield seal({**right, name: True})
    for change in CHANGES:
        yield audit(**{"bound": bounds["pure"]} | change)
    for kind in ({"kind": "claim", "name": "x"}, {"kind": "canaries", "counts": {}, "name": "x"}):
        yield seal(kind)
    yield from (seal({"kind": kind}) for kind in (3, "x" * 41))


def _counted(bounds: dict[str, float], counts: Json) -> list[Json]:
    """Return changes of the counts of an event, of the bound and of the claim."""
    without = {key: value for key, value in counts.items() if key != "alpha"}
    approx: Json = {
        "bound": bounds["approx"],
        "claim": "approx:1,0.001",
        "claim_numbers": [1.0, 0.001],
    }
    zcdp: Json = {"claim": "zcdp:0.2", "claim_numbers": [0.2], "level": "bit"}
    stages = LAST | {"lost": 0, "combination": "conditional error", "alpha": 0.04}
    # a claim that the counts just do not refute, and a bound just above it
    nearly = bounds["pure"] + 4e-10
    # the squares of the first weights exceed 1, their cubes do not; those of the second add up to
    # 1 + 1e-9
    weighted = [
        [{**STAGE, "weight": weight} for weight in weights]
        for weights in ((0.8, 0.7), (1, 3e-5, 1e-5))
    ]
    return [
        *(
            {"bound": bounds["pure"] * factor}
            for factor in (
                *(1 - 1e-6, 1 - 1.05e-9, 1 - 0.95e-9, 1 + 0.95e-9, 1 + 1.05e-9, 1 + 1e-6),
                0.1,
            )
        ),
        *(
            {"counts": counts | {name: value}}
            for name, values in (
                ("correct", (-1, 0, 449, 451, 450.0)),
                ("wrong", (-1, 0, 59, 61, 600)),
                ("rounds", (509, 510, 10**12, 10**12 + 1)),
                ("directions", (0, 1, 3)),
                ("lost", (-1, 1, 60, 61)),
                ("alpha", (0, 0.05, 0.0500001, 0.5)),
                ("cells", ([[1, 2], [2, 1]],)),
            )
            for value in values
        ),
        {"counts": without},
        {"bound": bounds["pure"] * 2, "counts": without},
        *({"bound": bound} for bound in ("inf", 1.0, 2000.5)),
        zcdp,
        {"claim": "gdp:3", "claim_numbers": [3.0], "level": "bit"},
        zcdp | {"bound": 0.5},
        {"bound": nearly + 4e-10, "claim": "pure:1.7707070630", "claim_numbers": [nearly, 0.0]},
        {"claim": "other:3", "claim_numbers": [3.0]},
        approx,
        approx | {"level": "bit"},
        approx | {"counts": counts | {"lost": 5}},
        {"bound": bounds["stages"], "counts": stages | {"stages": weighted[0]}},
        *(
            {"bound": bounds["stages"] * factor, "counts": stages | {"stages": [STAGE]} | more}
            for more in (
                {},
                {"combination": "other"},
                {"stages": [{**STAGE, "weight": 1.01}]},
                {"stages": [{**STAGE, "lost": 31}]},
            )
            for factor in (1, 1 - 1.05e-6, 1 + 1.05e-6, 1 + 0.95e-6)
        ),
        *(
            {"bound": bounds["stages"], "counts": stages | {"stages": some}}
            for some in (weighted[1], [{n: STAGE[n] for n in STAGE if n != "weight"}])
        ),
    ]


def _binned(bounds: dict[str, float], counts: Json) -> list[Json]:
    """Return changes to an event that counts outputs in cells, right and wrong."""
    cells = {"cells": [[900, 700, 1400], [1500, 700, 800]]}
    rule: Json = {
        "events": {"$type": "tuple", "value": [EVENT["rule"]] * 2},
        "loss": array(-0.4, 0.0, 0.7),
        "order": 2,
        "forward": True,
        "bets": array(0.3, 0.2),
    }
    right: Json = {
        "bound": bounds["cells"],
        "claim": "zcdp:0.01",
        "claim_numbers": [0.01],
        "counts": counts | cells | {"cells_alpha": 0.02},
        "event": _event(rule),
    }
    return [
        *(
            right | {"event": _event({**rule, name: setting})}
            for name, setting in (
                ("order", 1),
                ("order", 3),
                ("forward", False),
                ("loss", array(-0.4, 0.0)),
                ("loss", array(-0.4, 0.0, 50.5)),
                ("loss", array(-0.4, -50.5, 0.5)),
                ("loss", array(-50.0, 0.0, 50.0)),
                ("bets", array(0.3)),
                ("bets", array(1.0, 0.0)),
                ("bets", array(-0.1, 0.0)),
                ("loss", 3),
            )
        ),
        right | {"counts": counts | cells},
        right | {"claim": "approx:2,0.01", "claim_numbers": [2.0, 0.01]},
        *(right | {"bound": bounds["cells"] * factor} for factor in (1, 1 - 3e-9, 1 + 3e-9)),
        right | {"counts": counts | cells | {"cells_alpha": 0.06}},
    ]


def _event(rule: Json) -> Json:
    """Return an event that counts outputs in cells."""
    return {
        "kind": "binned",
        "rule": {"$type": "object", "class": "dpwitness.auditors:Binned", "fields": rule},
    }


def _each(*values: Any) -> tuple[Any, ...]:
    """Return the values as they are, of any type."""
    return values


TARGET: Json = {"target": "m.py:f", "kwargs": {"a": 1}}
SCORE: Json = {"name": "s", "target": None, "suggested": True, "keys": [1]}
CHANGES: tuple[Json, ...] = (  # of fields that decide nothing: accepted and refused
    *(
        {"target": target}
        for target in _each(
            TARGET,
            {"target": ""},
            {"target": "x" * 1000},
            {"target": "x" * 1001},
            {"kwargs": {}},
            {**TARGET, "more": 1},
        )
    ),
    *({"seed": seed} for seed in (0, -1, 2**128, 2**128 + 1, 1.0)),
    *({"trials": trials} for trials in (0, 1, 10**12, 10**12 + 1)),
    *(
        {"confidence": c}
        for c in (0, 1, -0.5, 1e-300, 0.949, 0.9600001, 0.96, 5e-324, 1 - 2.0**-53, "0.95")
    ),
    *({"schema_version": version} for version in (0, 1.0, 2)),
    *({"level": level} for level in ("bit", "other", 3)),
    *(
        {"scores": scores}
        for scores in _each(
            [], [SCORE], [SCORE] * 65, [{**SCORE, "keys": []}], [{**SCORE, "suggested": 1}], [{}]
        )
    ),
    *(
        {"source": source}
        for source in (
            None,
            {"file": "f", "sha256": "s"},
            {"file": "f", "sha256": "s", "line": 0},
            {"file": "f"},
        )
    ),
    *({"versions": versions} for versions in _each({}, {"numpy": "2"}, {"numpy": 2}, [])),
    *(
        {name: value}
        for name, value in (
            ("ledger", "x" * 200),
            ("ledger", "x" * 201),
            ("own_claim", 1),
            ("own_claim", False),
            ("more", 1),
            ("x" * 200, 1),
        )
    ),
    *({"name": "x" * size} for size in (0, 2000, 2001)),
    *(
        {"event": event}
        for event in ({}, {**EVENT, "more": 1}, {**EVENT, "rule": 3}, {**EVENT, "kind": "x" * 101})
    ),
    *(
        {"claim": text}
        for text in (
            "pure:5",
            "pure:1.0",
            "pure:1e0",
            "pure:+1",
            "pure: 1",
            "pure:1,0",
            "pure:01",
            "pure:",
            "1",
            "pure:1e999",
            "",
        )
    ),
    *(
        {"claim": text, "claim_numbers": [1.0]}
        for text in ("metric:1", "group:2,pure:1", "nothing", "gdp:1", "zcdp:1")
    ),
    *(
        {"claim_numbers": numbers}
        for numbers in (
            [1, 0],
            [1.0],
            [1.0, 0.0, 0.0],
            [1.0, -0.0],
            [1.0, 1e-9],
            [True, 0],
            [2.0, 0.0],
            [],
        )
    ),
    *({"bound": bound} for bound in (0, -1.0, 5e-324, "nan", True, 1e300)),
)
TEXTS = (
    "1",
    "null",
    "[]",
    "[1, 2",
    "nonsense",
    '{"a": 1, "a": 2}',
    '{"a": NaN}',
    "[Infinity]",
    "[-Infinity]",
    "1e400",
    "1e-30000000",
    "-0.0",
    "1" * 2000,
    "1" * 2001,
    "0." + "1" * 1998,
    "0." + "1" * 1999,
    "[" * 80 + "]" * 80,
    "[" * 81 + "]" * 81,
    "[" * 82 + "]" * 82,
    "[" * 200_000,
    '{"a": {"b": [1, {"c": "' + "x" * 200_000 + '"}]}}',
    '["' + "x" * 200_001 + '"]',
    '{"' + "x" * 200_001 + '": 1}',
    '"\\ud800"',
    "1.7976931348623157e308",
)
FORMS: tuple[tuple[Any, Any], ...] = (
    *((value, (int, 1, 3)) for value in (0, 1, 3, 4, 1.0, True, "2")),
    *((value, (float, 1, 3)) for value in (0.5, 1.0, 3, 3.5, True, "2")),
    *((value, (str, 1, 3)) for value in ("", "a", "abc", "abcd", 2)),
    *(
        (value, [(float, 1, 3), 1, 2])
        for value in ([], [1], [1, 3.0], [1, 4], [0.5], [1, 1, 1], [True], ["a"], (1,), 1)
    ),
    *((value, [(int, 1, 3), 1, 2]) for value in ([1, 3], [1, 4], [0, 2], [1.0])),
    *((value, [[(int, 1, 3), 0, 1], 1, 2]) for value in _each([[]], [[1], [4]], [1])),
    *((value, {True, None, "a"}) for value in (True, 1, None, "a", "b")),
    *(
        (value, {"a": (int, 1, 3), "b?": (int, 1, 3)})
        for value in (
            {},
            {"a": 1},
            {"a": 4},
            {"a": 1, "b": 2},
            {"a": 1, "b": 4},
            {"a": 1, "c": 1},
            1,
        )
    ),
    *((value, [{1, "a"}, 0, 2]) for value in _each([1], ["a"], [2], [True], [1, 1, 1])),
    *((value, [((int, 1, 3), {"a"}), 0, 2]) for value in _each([1], ["a"], [4], [1, "a"])),
    *((value, [(str, 1, 3), 0, 2]) for value in _each(["a"], [""], ["abcd"], [1], ["a", 1])),
    *((value, {"*": (int, 1, 3)}) for value in ({}, {"x": 1}, {"x": 4})),
    *((value, ((int, 1, 3), {"a"})) for value in (1, "a", 4)),
)
