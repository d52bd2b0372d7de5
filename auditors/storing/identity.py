"""What an audit is: the parts on which its counts depend, each told or hashed, and one hash of them all."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import types
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness import auditors, mechanisms
from dpwitness.auditors.events.scores import Score
from dpwitness.auditors.targets.naming import source_of
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.terms.jsonable import to_jsonable
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument

Identity = dict[str, str]

_SHOWN = 60  # characters of a part that are told as they are


def identity_of(
    mechanism: Any, target: Json | None, pairs: Sequence[Pair], scores: Sequence[Score], near: Any, **settings: Any
) -> Identity:
    """The parts, by name: the target and its source, pairs, scores, settings, and the versions that matter."""
    parts: dict[str, Any] = {
        "target": target or getattr(mechanism, "__qualname__", type(mechanism).__qualname__),
        "source": _source(mechanism, target),
        "pair": [pair.to_json() for pair in pairs],
        "scores": [[score.to_json(), _code(score.function)] for score in scores],
        "near": None if near is None else to_jsonable(near),
        "batch": mechanism.batch if isinstance(mechanism, Target) else None,
        **settings,
        "version of dpwitness": version("dpwitness"),
        "source of dpwitness": _own_source(),
        "version of NumPy": np.__version__,
        "version of Python": ".".join(platform.python_version_tuple()[:2]),
    }
    return {name: _short(value) for name, value in parts.items()}


def hash_of(identity: Identity) -> str:
    """One hash of all parts."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def differences(there: Identity, here: Identity) -> str:
    """Which parts differ, for a person."""
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return "; ".join(f"{name}: {there.get(name, 'not told')} there, {here.get(name, 'not told')} here" for name in names)


@functools.cache
def _own_source() -> str:
    """A hash of the code that draws, learns and counts, so that no count of another one is taken for its own."""
    found = hashlib.sha256()
    for room in (mechanisms, auditors):
        folder = Path(room.__path__[0])
        for file in sorted(folder.rglob("*.py")):
            found.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return f"sha256 {found.hexdigest()[:16]}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= _SHOWN else f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _source(mechanism: Any, target: Json | None) -> str:
    """The hash of a target's source file; of its code where it has none of its own."""
    found = source_of(mechanism, target)
    if found is not None:
        return f"sha256 {found['sha256'][:16]}"
    return _code(mechanism) if target is None else "of an installed package"


def _code(found: Any) -> str:
    """A hash of a function's code, defaults and what it closes over; of an object's class and fields where it is none."""
    parts: list[Any] = []
    while isinstance(found, functools.partial):
        parts += [found.args, found.keywords]
        found = found.func
    function = getattr(found, "py_func", getattr(found, "__func__", found))
    if not isinstance(function, types.FunctionType):
        parts.append(getattr(function, "__dict__", None))
        function = getattr(type(function), "sample", vars(type(function)).get("__call__"))
    code = getattr(function, "__code__", None)
    closed = [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if cell != types.CellType()]
    parts += [getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None), closed]
    told = _bytes_of(code) + json.dumps([_plain(part) for part in parts], sort_keys=True).encode()
    return f"sha256 {hashlib.sha256(told).hexdigest()[:16]}"


def _bytes_of(code: types.CodeType | None) -> bytes:
    if code is None:
        return b""
    inner = b"".join(_bytes_of(part) if isinstance(part, types.CodeType) else repr(part).encode() for part in code.co_consts)
    return code.co_code + inner + " ".join(code.co_names).encode()


def _plain(value: Any) -> Any:
    try:
        return to_jsonable(value)
    except InvalidArgument:
        return f"{type(value).__module__}.{type(value).__qualname__}"
