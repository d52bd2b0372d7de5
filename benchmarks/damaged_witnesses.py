"""Generator of damaged witness files for fuzzing. A reader must reject each with a one-line error,
or replay it.

Half of the mutants that are still JSON objects carry a recomputed hash, so that the code after the
hash check is tested too.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.auditors.witnesses.seals import fingerprint
from dpwitness.core.values.json_reader import Json

HOSTILE = (
    "subprocess:Popen",
    "os:system",
    "builtins:eval",
    "posix:system",
    "shutil:rmtree",
    "functools:partial",
    "dpwitness.mechanisms.wrappers.programs.confinement:subprocess.run",
    "dpwitness.auditors.workers.loading:load_target",
    "dpwitness.mechanisms:zoo.__globals__",
    "dpwitness.__main__:main",
    "dpwitness.mechanisms.foreign:Target",
    "no_such_module_anywhere:f",
    "numpy:load",
    "../elsewhere.py:f",
    "/etc/passwd.py:f",
    ".:f",
    "a b:c",
    "math:log",
    ":",
)

_TAGGED: tuple[Json, ...] = (
    {"$type": "array"},
    {"$type": "float", "value": "inf"},
    {"$type": "nothing"},
    {"$type": ["array"]},
    {"$type": "object", "class": "os:system", "fields": {}},
    {"$type": "object", "class": "decimal:Context", "fields": {}},
    {"$type": "array", "dtype": "|O", "shape": [1], "value": [1]},
    {"$type": "array", "dtype": "<f8", "shape": [10**9, 10**9], "value": []},
    {"$type": "array", "dtype": "<f8", "shape": [-1], "value": [1.0]},
    {"$type": "array", "dtype": "S999999", "shape": [1], "value": ["00"]},
    {"$type": "scalar", "dtype": "<M8[s]", "value": "00"},
    {"$type": "dict", "items": [[[], 1]]},
    {"$type": "set", "value": [[1]]},
    {"$type": "tuple", "value": 3},
    {"$type": "complex", "value": [1, "x"]},
    {"$type": "int", "hex": "0x" + "f" * 900},
    {"$type": "int", "hex": "zz"},
)
_WORDS = ("", "x", "inf", "nan", "1", "\u0000", "\ud800", "é" * 300)
_NUMBERS = (0, 1, -1, 2, 7, 0.0, -0.0, 0.5, 1.5, -3.25, 1e-300, 1e300, 10**30, -(10**30))
_BOXES: tuple[Any, ...] = ([], [0], [[]], ["x"], [None, None], {}, {"x": 1})
_JUNK: tuple[Any, ...] = (None, True, False, *_NUMBERS, *_WORDS, *_BOXES, *_TAGGED)
_KWARGS: tuple[Json, ...] = (
    {},
    {"args": ["true"], "shell": True},
    {"file": "os", "name": "system", "python": "/bin/true"},
    {"file": "/no/such/place.py", "name": "f"},
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """Content of one file, and a description of the change."""

    content: bytes
    what: str


def mutants(witness: Json, count: int, seed: int) -> Iterator[Mutant]:
    """Yield `count` damaged versions of a valid witness, which is not modified."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield _edit_bytes(witness, rng) if rng.random() < 0.15 else _edit_fields(witness, rng)


def _edit_fields(witness: Json, rng: Generator) -> Mutant:
    """Return a mutant with changed fields; the file is still JSON."""
    data: Any = copy.deepcopy(witness)
    changes = []
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        data, what = _EDITS[int(rng.integers(len(_EDITS)))](data, rng)
        changes.append(what)
    if isinstance(data, dict) and rng.random() < 0.5:
        try:
            data["sha256"] = fingerprint(data)
            changes.append("sealed again")
        except (TypeError, ValueError, RecursionError):
            pass
    return Mutant(json.dumps(data).encode("ascii"), ", ".join(changes))


def _list_values(data: Any) -> list[tuple[Any, Any, str]]:
    """Return (container, key, path) of every value; of long lists, only the first six items."""
    found, pending = [], [(data, "")]
    while pending:
        item, path = pending.pop()
        keys = (
            list(item)
            if isinstance(item, dict)
            else range(min(len(item), 6))
            if isinstance(item, list)
            else []
        )
        for key in keys:
            found.append((item, key, f"{path}.{key}"))
            pending.append((item[key], f"{path}.{key}"))
    return found


def _pick_value(data: Any, rng: Generator) -> tuple[Any, Any, str] | None:
    """Return the container, key and path of a random value."""
    places = _list_values(data)
    return places[int(rng.integers(len(places)))] if places else None


def _replace_value(data: Any, rng: Generator) -> tuple[Any, str]:
    """Replace a value by junk."""
    place, junk = _pick_value(data, rng), copy.deepcopy(_JUNK[int(rng.integers(len(_JUNK)))])
    if place is None:
        return junk, "all replaced"
    place[0][place[1]] = junk
    return data, f"{place[2]} is {junk!r:.60}"


def _remove_value(data: Any, rng: Generator) -> tuple[Any, str]:
    """Remove a value."""
    place = _pick_value(data, rng)
    if place is None:
        return data, "nothing"
    del place[0][place[1]]
    return data, f"{place[2]} removed"


def _add_field(data: Any, rng: Generator) -> tuple[Any, str]:
    """Add a field with junk."""
    places = [item for item, _, _ in _list_values(data) if isinstance(item, dict)]
    if not places:
        return data, "nothing"
    name = str(
        rng.choice(
            ["extra", "kind", "$type", "kwargs", "alpha", "own_claim", "source", "", "x" * 500]
        )
    )
    places[int(rng.integers(len(places)))][name] = copy.deepcopy(
        _JUNK[int(rng.integers(len(_JUNK)))]
    )
    return data, f"{name[:20]} added"


def _swap_values(data: Any, rng: Generator) -> tuple[Any, str]:
    """Swap two values."""
    one, two = _pick_value(data, rng), _pick_value(data, rng)
    if one is None or two is None:
        return data, "nothing"
    first, second = copy.deepcopy(one[0][one[1]]), copy.deepcopy(two[0][two[1]])
    one[0][one[1]] = second
    if two[1] in (two[0] if isinstance(two[0], dict) else range(len(two[0]))):
        two[0][two[1]] = first
    return data, f"{one[2]} and {two[2]} swapped"


def _scale_number(data: Any, rng: Generator) -> tuple[Any, str]:
    """Multiply a number."""
    numbers = [
        p
        for p in _list_values(data)
        if isinstance(p[0][p[1]], int | float) and not isinstance(p[0][p[1]], bool)
    ]
    if not numbers:
        return data, "nothing"
    container, key, path = numbers[int(rng.integers(len(numbers)))]
    container[key] = container[key] * (-1, 0, 2, 0.5, 3)[int(rng.integers(5))]
    return data, f"{path} scaled"


def _set_hostile_target(data: Any, rng: Generator) -> tuple[Any, str]:
    """Name a dangerous target."""
    target = HOSTILE[int(rng.integers(len(HOSTILE)))]
    if isinstance(data, dict):
        data["target"] = {
            "target": target,
            "kwargs": dict(_KWARGS[int(rng.integers(len(_KWARGS)))]),
        }
    return data, f"target {target}"


def _nest_value(data: Any, rng: Generator) -> tuple[Any, str]:
    """Replace a value by a deeply nested value."""
    place, depth = _pick_value(data, rng), int(rng.choice([20, 60, 90, 400]))
    deep: Any = 0
    for _ in range(depth):
        deep = {"x": deep} if rng.random() < 0.5 else [deep]
    if place is None:
        return deep, f"nested {depth} deep"
    place[0][place[1]] = deep
    return data, f"{place[2]} nested {depth} deep"


_EDITS = (
    _replace_value,
    _replace_value,
    _replace_value,
    _remove_value,
    _remove_value,
    _add_field,
    _swap_values,
    _scale_number,
    _set_hostile_target,
    _nest_value,
)


# Changes of the bytes: the content, a random place in it, and the generator.
_BYTE_EDITS: tuple[Callable[[bytes, int, Generator], tuple[bytes, str]], ...] = (
    lambda content, place, _: (content[:place], f"cut at byte {place}"),
    lambda content, place, rng: (
        content[:place] + bytes([int(rng.integers(256))]) + content[place + 1 :],
        f"byte {place} changed",
    ),
    lambda content, _, rng: (
        content.replace(
            b'"schema_version": 1', b'"schema_version": ' + b"9" * int(rng.choice([3, 400, 5000]))
        ),
        "a long number",
    ),
    lambda *_: (b"[" * 100_000 + b"]" * 100_000, "100,000 lists within each other"),
    lambda content, *_: (b"\xef\xbb\xbf" + content, "a byte order mark"),
    lambda content, _, rng: (
        content.replace(
            b"1.0",
            word := (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1e-999")[int(rng.integers(5))],
            1,
        ),
        f"1.0 is {word.decode()}",
    ),
    lambda content, *_: (content[:-1] + b', "seed": 3}', "a field twice"),
    lambda content, _, rng: (
        (b"", b"null", b"[]", b"{}", b'"x"', b"3", b"\x00" * 50, content + content)[
            int(rng.integers(8))
        ],
        "something else",
    ),
    lambda _, __, rng: (bytes(rng.integers(0, 256, 200, dtype=np.uint8)), "noise"),
)


def _edit_bytes(witness: Json, rng: Generator) -> Mutant:
    """Return a mutant with changed bytes; the file may be invalid JSON."""
    content = json.dumps(witness).encode("ascii")
    edit = _BYTE_EDITS[int(rng.integers(len(_BYTE_EDITS)))]
    return Mutant(*edit(content, int(rng.integers(len(content))), rng))
