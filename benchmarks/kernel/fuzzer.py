"""Fuzzer of the kernel, with a grammar of the schema of witnesses: valid witnesses, mutated and
sealed again, and forged ones.

For each witness that the kernel accepts, the strict reader must accept it too, and the printed
statement must hold: its bound and its claim by the program's statistics, its relation by fractions
of the datasets.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.events.event import Binned, Event, renyi_lower_bound
from dpwitness.auditors.statistics.certificate import Part, Tally
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.witnesses.seals import check_seal, fingerprint
from dpwitness.auditors.witnesses.witness_reader import load_json, read_checked_witness
from dpwitness.benchmarks.kernel.cases import SCORE, TARGET, array, audit, pair, places
from dpwitness.benchmarks.kernel.rules import EVENTS, FEATURES, SIMPLE
from dpwitness.core.claims import Claim, exact_claim, exact_text, parse_claim
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.json_reader import Json, parse
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.proofs_checks.kernel import checker

SECONDS = 1.0  # of CPU time for one witness
VALID = EVENTS[:-2]  # the last one is refused, and the one before it counts cells
CLASSES = sorted(
    {"WeightedScore", "Event", "Laplace"}
    | {type(each).__name__ for each in (*EVENTS, *(block for block, _ in FEATURES))}
)
HOSTILE: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        1.0,
        0.0,
        -0.0,
        0.5,
        -0.5,
        1e-320,
        1e308,
        -1e308,
        2**53 + 1,
        2**63,
        10**19,
        10**400,
        10**2001,
    ),
    *(
        "",
        "inf",
        "-inf",
        "nan",
        "pure:1",
        "1",
        "\ud800",
        "x" * 300,
        [],
        {},
        [1],
        [[]],
        {"$type": "array"},
        {"$type": "float", "value": "nan"},
        {"$type": "float", "value": "inf"},
        {"$type": "tuple", "value": []},
        array(1.0),
        array(0, 1, dtype="<i8"),
        *(2**17, 2**17 + 1, -(2**53), 1.5),
    ),
)
TEXTS = {
    "claim": (
        "pure:1",
        "pure:5",
        "pure:0.1",
        "approx:1,0.1",
        "gdp:1",
        "zcdp:1",
        "rdp:2,1",
        "rdp:2=1",
        "metric:1",
        "fdp:0=1,1=0",
        "group:2,pure:1",
    ),
    "relation": (
        *(
            "replace-one",
            "add-remove",
            "l1",
            "l2",
            "linf",
            "replace-one:k=2",
            "add-remove:k=3",
            "event",
            "stated",
        ),
        "own:x",
        "label",
        "l0",
    ),
    "level": ("value", "bit", "other", ""),
    "kind": (
        "black box",
        "white box",
        "trace",
        "audit",
        "sensitivity",
        "claim",
        "low bits",
        "binned",
        "intervals",
        "lattice",
        "atoms",
        "threshold",
        "restricted",
    ),
    "dtype": ("<f8", "<i8", "<f4", "|b1", ">f8", "<U3", "object"),
    "class": (
        "dpwitness.mechanisms:LabelledVectors",
        "dpwitness.mechanisms:LinearCosts",
        "os:system",
        *(f"dpwitness.auditors:{name}" for name in CLASSES),
    ),
    "$type": ("array", "object", "tuple", "float", "int", "scalar", "dict"),
    "bound": ("inf",),
}
NAMES = (
    "kind",
    "counts",
    "cells",
    "cells_alpha",
    "alpha",
    "lost",
    "tested",
    "stages",
    "combination",
    "prior",
    "weight",
    "more",
    "scores",
    "source",
    "missing",
    "names",
    "exact",
    "mask",
    "side",
    "less",
)
# values of the right type for fields of the counts that a witness may lack
OPTIONAL: Json = {
    "alpha": (1e-300, 1e-9, 0.005, 0.01, 0.02, 0.05, 0.5, 0.999),
    "cells_alpha": (1e-300, 1e-9, 0.005, 0.01, 0.02, 0.05, 0.5, 0.999),
    "lost": (0, 1, 50, 10**9),
    "tested": (0, 1, 1000, 10**12),
    "combination": ("conditional error",),
    "cells": ([[900, 700, 1400], [1500, 700, 800]], [[5], [5]]),
    "stages": ([],),
    "prior": ([1.0, 1.0, 10.0],),
    "weight": (0.0, 0.5, 1.0),
}


def random_claim(rng: Generator) -> Claim:
    """Return a claim of one of the notions that the kernel knows."""
    x = float(10 ** rng.uniform(-1.5, 0.3))
    curve = sorted({0.0, 1.0, *rng.uniform(0.05, 0.95, 3).round(3).tolist()})
    return parse_claim(
        str(
            rng.choice(
                [
                    *(
                        f"pure:{x!r}",
                        f"pure:{x:.3g}",
                        f"approx:{x!r},{10 ** rng.uniform(-6, -2)!r}",
                        f"gdp:{x!r}",
                        f"rdp:2,{x!r}",
                    ),
                    *(
                        f"rdp:1.5={x!r},4={2 * x!r}",
                        f"zcdp:{x / 4!r}",
                        "fdp:" + ",".join(f"{a!r}={(1 - a) ** 2!r}" for a in curve),
                    ),
                ],
                p=[0.3, 0.2, 0.2, 0.1, 0.06, 0.03, 0.03, 0.08],
            )
        )
    )


def random_tally(rng: Generator) -> Tally:
    """Return counts with more right guesses than wrong ones."""
    rounds = int(10 ** rng.uniform(1.3, 5))
    guesses = rng.binomial(rounds, rng.uniform(0.1, 1))
    correct = rng.binomial(guesses, rng.uniform(0.6, 1))
    return Tally(int(correct), int(guesses - correct), rounds, int(rng.integers(1, 3)))


def random_pair(rng: Generator) -> Json:
    """Return a pair of neighbors, or of datasets that nearly are."""
    relation, size = (
        str(rng.choice(["replace-one", "add-remove", "l1", "l2", "linf", "replace-one:k=2"])),
        int(rng.integers(1, 5)),
    )
    scale = float(rng.choice([0.0, 1.0, 1e6, 1e20]))
    d0 = (rng.normal(size=size) * scale).round(int(rng.integers(0, 4))).tolist()
    d1 = list(d0)
    if relation == "add-remove":
        d1.append(round(float(rng.normal()), 2))
    elif relation[0] == "l":
        step = rng.choice([1.0, 1.0, rng.uniform(0.5, 2), 1 + 10.0 ** rng.integers(-16, -1)])
        moved = rng.random(size) < 0.6 if size > 1 else np.ones(1, bool)
        norm = {"l1": moved.sum(), "l2": math.sqrt(moved.sum()), "linf": 1}[relation] or 1
        d1 = [x + float(step / norm) if m else x for x, m in zip(d0, moved, strict=True)]
    else:
        d1[int(rng.integers(size))] += float(rng.choice([1.0, 0.25, 100.0]))
    form = rng.integers(4)
    if form == 0 or relation[0] == "l":
        return (
            pair(relation, d0, d1) if rng.random() < 0.3 else pair(relation, array(*d0), array(*d1))
        )
    if form == 1:
        return pair(
            relation,
            *(array(*(v for x in d for v in (x, 1.0)), shape=(len(d), 2)) for d in (d0, d1)),
        )
    if form == 2:
        fields = [
            {
                "x": array(*d, shape=(len(d), 1)),
                "y": array(*[1.0] * len(d)),
                "multiplicity": array(*[2**10] * (len(d) - 1), 1, dtype="<i8"),
            }
            for d in (d0, d1)
        ]
        return pair(
            relation,
            *(
                {"$type": "object", "class": "dpwitness.mechanisms:LabelledVectors", "fields": f}
                for f in fields
            ),
        )
    return pair(relation, [int(x) for x in d0], [int(x) for x in d1])


def _choice(rng: Generator, events: Sequence[Event]) -> Event:
    """Return one of the events."""
    return events[int(rng.integers(len(events)))]


def random_witness(rng: Generator) -> Json:
    """Return the content of a witness whose bound is that of its counts: mostly a valid one."""
    claim, alpha, confidence = (
        random_claim(rng),
        float(10 ** rng.uniform(-5, -1.3)),
        float(rng.choice([0.95, 0.9, 0.99])),
    )
    alpha = min(alpha, (1 - confidence) * float(rng.choice([1, 0.5, 0.8])))
    level, tally = "value", random_tally(rng)
    event = _choice(rng, VALID)
    tally = replace(tally, directions=max(tally.directions, event.directions))
    parts = [Part(tally)]
    counts: Json = {
        "correct": tally.correct,
        "wrong": tally.wrong,
        "rounds": tally.rounds,
        "directions": tally.directions,
        "alpha": alpha,
    }
    if claim.kind in ("rdp", "zcdp") and rng.random() < 0.4:
        losses, nested = (
            np.sort(rng.normal(size=3)).round(3),
            (_choice(rng, VALID), _choice(rng, SIMPLE)),
        )
        order, forward = float(claim.orders_among([2.0])[0]), bool(rng.random() < 0.5)
        binned = Binned(nested, losses, order, forward, np.array([0.3, 0.2]))
        counts["directions"] = 2
        cells = [
            rng.multinomial(tally.rounds, law).tolist()
            for law in ([0.6, 0.3, 0.1], [0.1, 0.3, 0.6])
        ]
        counts = {**counts, "cells": cells, "cells_alpha": counts.pop("alpha")}
        bound, event = renyi_lower_bound(claim, binned, np.array(cells), alpha), binned
    else:
        if rng.random() < 0.1:
            parts.insert(0, Part(replace(random_tally(rng), directions=tally.directions), 0.6))
            counts |= {
                "stages": [parts[0].to_json()],
                "combination": "conditional error",
                "lost": 0,
            }
        level = str(rng.choice(["value", "bit"], p=[0.8, 0.2]))
        bound = combined_bound(claim if level == "value" else claim.at_delta, parts, alpha)
    optional: Json = {
        "source": {"file": "m.py", "sha256": "a", "line": 3},
        "versions": {"numpy": "2"},
        "own_claim": False,
        "scores": [SCORE],
        "ledger": "here",
        "target": TARGET,
        "description": "some",
    }
    return audit(
        **{name: deepcopy(value) for name, value in optional.items() if rng.random() < 0.3},
        claim=exact_text(claim),
        claim_numbers=list(claim.numbers),
        level=level,
        confidence=confidence,
        bound=bound if math.isfinite(bound) else "inf",
        pair=random_pair(rng),
        event=event.to_json(),
        counts=counts,
    )


def mutate(rng: Generator, witness: Json, other: Json) -> None:
    """Change one field of a witness in place; `other` is a witness from which values are taken."""
    if rng.random() < 0.1 and isinstance(witness.get("counts"), dict):
        name = str(rng.choice(list(OPTIONAL)))
        witness["counts"][name] = _one_of(rng, OPTIONAL[name])
        return
    parts = [
        witness.get(name)
        for name in ("pair", "counts", "counts", "claim_numbers", "event", "event", "event")
    ]
    parts.append(
        {
            name: witness[name]
            for name in ("source", "versions", "scores", "target")
            if name in witness
        }
    )
    # one of them, or a part of one, which is then changed as often as larger ones
    fields = [(witness, name) for name in witness]
    found = fields if rng.random() < 0.3 else list(places(parts[int(rng.integers(len(parts)))]))
    if not found:
        return
    parent, key = found[int(rng.integers(len(found)))]
    kind = int(rng.integers(10))
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        parent[str(rng.choice(NAMES))] = _one_of(rng, HOSTILE)
    elif kind == 2:
        parent[key] = _one_of(rng, HOSTILE)
    elif kind == 3 and (donors := [part[name] for part, name in places(other) if name == key]):
        parent[key] = _one_of(rng, donors)
    elif kind <= 5 and isinstance(key, str) and key in TEXTS:
        parent[key] = str(rng.choice(TEXTS[key]))
    else:
        parent[key] = _changed(parent[key], rng)


def _one_of(rng: Generator, values: Sequence[Any]) -> Any:
    """Return a copy of one of the values."""
    return deepcopy(values[int(rng.integers(len(values)))])


def _changed(value: Any, rng: Generator) -> Any:
    """Return another value of the same type, or a hostile one."""
    match value:
        case [_, *_]:
            place, new = int(rng.integers(len(value))), list(value)
            new[place : place + int(rng.integers(2))] = value[: int(rng.integers(1, 3))]
            return deepcopy(new)
        case bool() | None | str():
            return _one_of(rng, HOSTILE)
        case int() if rng.random() < 0.1 and abs(value) < 2**1000:
            return float(value)
        case int():
            return int(value + rng.choice([-1, 1, -2, 10, -value, -2 * value, value]))
        case float():
            factors = [-1, 0, 1 + 1e-12, 1 - 1e-7, 1 + 1e-5, 0.9, 1.1, 2, 1e-300]
            return value * float(rng.choice(factors))
        case {"d0": _}:
            return random_pair(rng)
    return value


_WORDS = ("NaN", "Infinity", "1e-30000000", "1e999999999", "-0", "1" * 5000, "01", "1.")
_DAMAGE: tuple[Callable[[str, Generator], str], ...] = (  # changes of a sealed text
    lambda text, rng: text.replace("0.9", "0." + "9" * int(rng.integers(1, 3000)), 1),
    lambda text, _: text.replace("{", '{"name": 1, ', 1),
    lambda text, rng: text.replace(": 1,", f": {rng.choice(_WORDS)},", 1),
    lambda text, rng: text[: int(rng.integers(len(text)))],
    lambda text, rng: _nested(text, int(rng.choice((70, 79, 80, 81, 1000, 100_000)))),
    lambda text, _: text.replace("0.95", "0.950000000000000000000000001", 1),
)


def _nested(text: str, depth: int) -> str:
    """Return a text with two values replaced by nested lists."""
    lists = "[" * depth + "]" * depth
    return text.replace('"kwargs"', f'"kwargs": {lists}, "k"', 1).replace(": 1,", f": {lists},", 1)


def text_of(rng: Generator, witness: Json) -> str:
    """Return a sealed witness as JSON, sometimes with damage that keeps the seal or breaks the
    form.
    """
    content = {name: value for name, value in witness.items() if name != "sha256"}
    try:
        found = json.dumps({**content, "sha256": fingerprint(content)})
    except (ValueError, UnicodeEncodeError):
        return json.dumps(content)
    damage = int(rng.integers(60))
    return _DAMAGE[damage](found, rng) if damage < len(_DAMAGE) else found


def fault(text: str) -> tuple[str, str]:
    """Return what is wrong with the kernel's answer to a witness, an empty text if nothing is, and
    the answer.
    """
    start = time.process_time()
    try:
        lines, word = checker.check(text), "ACCEPTED"
    except (checker.Refused, checker.NotChecked) as error:
        lines, word = [], type(error).__name__
    except Exception as error:
        return f"raises {type(error).__name__}: {error}: {text}", "raised"
    seconds = time.process_time() - start
    if seconds > SECONDS:
        return f"takes {seconds:.2f} s: {text[:5000]}", word
    problem = false_statement(text, lines) if lines else ""
    return problem and f"{problem}: {lines}: {text[:5000]}", word


def false_statement(text: str, lines: list[str]) -> str:
    """Return why the strict reader refuses a witness, or why the statement about it is false; an
    empty text if neither.
    """
    try:
        data, name = load_json(parse(text))
        check_seal(data, name)
        read_checked_witness(data, name)
    except InvalidArgument as error:
        return f"the reader refuses it: {error}"
    claim, relation, bound, confidence = (line.partition(": ")[2] for line in lines)
    notion, counts = exact_claim(data["claim"], data["claim_numbers"]), data["counts"]
    if (
        claim != f"{data['claim']} is refuted"
        or tuple(parse_claim(data["claim"]).numbers) != notion.numbers
    ):
        return "the claim is another one"
    if not 0 < float(confidence) < 1 or float(confidence) != data["confidence"]:
        return "the confidence is another one"
    alpha = min(
        counts.get("cells_alpha" if "cells" in counts else "alpha", 1.0), 1 - float(confidence)
    )
    if "cells" in counts:
        lower = renyi_lower_bound(
            notion, from_jsonable(data["event"]["rule"]), np.array(counts["cells"]), alpha
        )
        claimed = lower
    else:
        parts = [
            Part(
                Tally(*(each[n] for n in ("correct", "wrong", "rounds", "directions"))),
                each.get("weight", 1.0),
                each.get("lost", 0),
            )
            for each in (*counts.get("stages", ()), counts)
        ]
        claimed = combined_bound(notion, parts, alpha)
        lower = (
            claimed if data["level"] == "value" else combined_bound(notion.at_delta, parts, alpha)
        )
    shown = float(re.findall(r"> ([0-9.]+)", bound)[0])
    if not shown <= lower * (1 + 1e-9) + 1e-9:
        return f"the counts prove {lower:.12g} only"
    if not notion.parameter <= claimed * (1 + 1e-9) + 1e-9:
        return f"the counts do not refute the claim: they prove {claimed:.12g}"
    return "" if are_neighbors(data["pair"], relation) else "the datasets are not neighbors"


def are_neighbors(stated: Json, relation: str) -> bool:
    """Return whether two datasets are neighbors, by fractions and multisets of their rows."""
    d0, d1 = (from_jsonable(stated[side]) for side in ("d0", "d1"))
    name, _, options = relation.partition(":")
    if name[0] == "l":
        steps = [
            abs(Fraction(a) - Fraction(b))
            for a, b in zip(np.atleast_1d(d0).tolist(), np.atleast_1d(d1).tolist(), strict=True)
        ]
        room = Fraction(1, 10**6) if "rounding" in relation else 0
        norm = name.partition(",")[0]
        size = (
            max(steps)
            if norm == "linf"
            else sum(step * step for step in steps)
            if norm == "l2"
            else sum(steps)
        )
        return size <= (1 + room) ** (2 if norm == "l2" else 1)
    rows = [_rows(d) for d in (d0, d1)]
    counts = [sum((Counter({row: n}) for row, n in side), Counter()) for side in rows]
    removed, added = ((a - b).total() for a, b in (counts, counts[::-1]))
    most = int(options[2:] or 1)
    if name == "add-remove":
        return 0 < removed + added <= most
    if hasattr(d0, "multiplicity"):
        return removed == added and 0 < removed <= most
    return (
        len(rows[0]) == len(rows[1]) and 0 < sum(a != b for a, b in zip(*rows, strict=True)) <= most
    )


def _rows(dataset: Any) -> list[tuple[Any, int]]:
    """Return the rows of a dataset with their numbers of copies."""
    if hasattr(dataset, "multiplicity"):
        return [
            ((row.tobytes(), label), copies)
            for row, label, copies in zip(
                dataset.x + 0.0, dataset.y + 0.0, dataset.multiplicity.tolist(), strict=True
            )
        ]
    if isinstance(dataset, np.ndarray):
        return [(row.tobytes(), 1) for row in dataset]
    return [(repr(row), 1) for row in (dataset if isinstance(dataset, list) else [dataset])]


def witnesses(rng: Generator, size: int) -> Iterator[str]:
    """Yield sealed witnesses: one of ten as it was drawn, the others with one to three changes."""
    drawn = [random_witness(rng) for _ in range(3)]
    for _ in range(size):
        witness, other = (deepcopy(drawn[int(i)]) for i in rng.integers(3, size=2))
        for _ in range(int(rng.choice([0, 1, 2, 3], p=[0.1, 0.6, 0.2, 0.1]))):
            mutate(rng, witness, other)
        yield text_of(rng, witness)


def fuzz(rng: Generator, size: int = 50) -> str:
    """Return what is wrong with the kernel's answers to random witnesses; an empty text if nothing
    is.
    """
    return next(filter(None, (fault(text)[0] for text in witnesses(rng, size))), "")
