"""Identity of an audit: the parts on which its counts depend, as text or hash, and one hash of all
parts.
"""

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
from dpwitness.auditors.workers.loading import source_of
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.target import Target

Identity = dict[str, str]


def identity_of(
    mechanism: Any,
    target: Json | None,
    pairs: Sequence[Pair],
    scores: Sequence[Score],
    near: Any,
    **settings: Any,
) -> Identity:
    """Return the parts by name: the target and its source, pairs, scores, settings, and versions of
    code that affect counts.
    """
    parts: dict[str, Any] = {
        "target": target or getattr(mechanism, "__qualname__", type(mechanism).__qualname__),
        "source": _source_hash(mechanism, target),
        "pair": [pair.to_json() for pair in pairs],
        "scores": [[score.to_json(), _code_hash(score.function)] for score in scores],
        "near": None if near is None else to_jsonable(near),
        "batch": mechanism.batch if isinstance(mechanism, Target) else None,
        **settings,
        "version of dpwitness": version("dpwitness"),
        "source of dpwitness": _package_hash(),
        "version of NumPy": np.__version__,
        "version of Python": ".".join(platform.python_version_tuple()[:2]),
    }
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for name, value in parts.items()
    }
    # the hash of a long text replaces it
    return {
        name: text
        if len(text) <= 60
        else f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"
        for name, text in texts.items()
    }


def identity_hash(identity: Identity) -> str:
    """Return one hash of all parts."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def differences(there: Identity, here: Identity) -> str:
    """Return a description of the parts that differ between a stored identity and the
    present one.
    """
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return "; ".join(
        f"{name}: {there.get(name, 'not stated')} there, {here.get(name, 'not stated')} here"
        for name in names
    )


@functools.cache
def _package_hash() -> str:
    """Return a hash of the code that draws, learns and counts, so that counts of other code are not
    mixed with its counts.
    """
    found = hashlib.sha256()
    for package in (mechanisms, auditors):
        folder = Path(package.__path__[0])
        for file in sorted(folder.rglob("*.py")):
            found.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return f"sha256 {found.hexdigest()[:16]}"


def _source_hash(mechanism: Any, target: Json | None) -> str:
    """Return the hash of a target's source file, or of its code if it has no source file."""
    found = source_of(mechanism, target)
    if found is not None:
        return f"sha256 {found['sha256'][:16]}"
    return _code_hash(mechanism) if target is None else "of an installed package"


def _code_hash(found: Any) -> str:
    """Return a hash of a function's code, defaults and closure, or of the fields and sampling
    method of another object.
    """
    parts: list[Any] = []
    while isinstance(found, functools.partial):
        parts += [found.args, found.keywords]
        found = found.func
    function = getattr(found, "py_func", getattr(found, "__func__", found))
    if not isinstance(function, types.FunctionType):
        parts.append(getattr(function, "__dict__", None))
        function = getattr(type(function), "sample", vars(type(function)).get("__call__"))
    code = getattr(function, "__code__", None)
    closed = [
        cell.cell_contents
        for cell in getattr(function, "__closure__", None) or ()
        if cell != types.CellType()
    ]
    parts += [
        getattr(function, "__defaults__", None),
        getattr(function, "__kwdefaults__", None),
        closed,
    ]
    content = (
        _code_bytes(code)
        + json.dumps([_json_or_class_name(part) for part in parts], sort_keys=True).encode()
    )
    return f"sha256 {hashlib.sha256(content).hexdigest()[:16]}"


def _code_bytes(code: types.CodeType | None) -> bytes:
    """Return bytecode, constants and names of a code object and of the code objects inside it."""
    if code is None:
        return b""
    inner = b"".join(
        _code_bytes(part) if isinstance(part, types.CodeType) else repr(part).encode()
        for part in code.co_consts
    )
    return code.co_code + inner + " ".join(code.co_names).encode()


def _json_or_class_name(value: Any) -> Any:
    """Return a value as JSON; the name of its class if it has no JSON form."""
    try:
        return to_jsonable(value)
    except InvalidArgument:
        return f"{type(value).__module__}.{type(value).__qualname__}"
