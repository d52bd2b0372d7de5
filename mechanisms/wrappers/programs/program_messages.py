"""Messages of the protocol for programs (docs/reference/protocol.md): datasets, requests, answers
and hello.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.core.values.dataframe_backends import library_name, to_parts, values_of
from dpwitness.core.values.json_reader import Json, object_without_duplicates
from dpwitness.mechanisms.wrappers.programs.inside import codec
from dpwitness.mechanisms.wrappers.programs.worker_process import WorkerDied

PROTOCOL = 1
BLOCKS = {"float64": "<f8", "int64": "<i8"}
ENCODINGS = ("json", "float64")


class ProtocolViolation(WorkerDied):
    """Error of a program that violates the protocol."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Dataset in the forms in which it is sent to a program: a float array if possible, otherwise
    JSON.
    """

    key: bytes
    array: NDArray[np.float64] | None
    value: Any

    def message(self, number: int, encodings: Sequence[str]) -> list[Any]:
        """Return the message of the dataset in an encoding that the program reads. Raise
        MechanismFailed if there is none.
        """
        head: Json = {"op": "dataset", "dataset": number}
        array = self.array
        if "json" not in encodings and array is None:
            array = _float_array(self.value)
        if array is not None and "float64" in encodings:
            return [
                line_of(head | {"encoding": "float64", "shape": list(array.shape)}),
                array.tobytes(),
            ]
        value = self.value if self.array is None else dataset_json(self.array.tolist())
        return [line_of(head | {"encoding": "json", "value": value})]


def plain_fields(dataset: Any) -> Any:
    """Return dataset classes as dicts of their fields, because the worker may not have
    dpwitness.
    """
    if is_dataclass(dataset) and not isinstance(dataset, type):
        return {field.name: plain_fields(getattr(dataset, field.name)) for field in fields(dataset)}
    return dataset


def sent_as(dataset: Any) -> Sent:
    """Return a dataset in the forms in which it is sent to a program. Raise MechanismFailed if JSON
    cannot represent the dataset.
    """
    if (
        isinstance(dataset, np.ndarray)
        and dataset.dtype.kind == "f"
        and not isinstance(dataset, np.ma.MaskedArray)
    ):
        array = np.ascontiguousarray(dataset, dtype="<f8").reshape(dataset.shape)
        return Sent(
            hashlib.blake2b(array.tobytes(), key=repr(array.shape).encode()[:64]).digest(),
            array,
            None,
        )
    value = dataset_json(dataset)
    return Sent(hashlib.blake2b(json.dumps(value).encode()).digest(), None, value)


def _float_array(value: Any) -> NDArray[np.float64]:
    """Return a dataset as a float64 array. Raise MechanismFailed if that is not possible."""
    try:
        return np.asarray(value, dtype="<f8")
    except (TypeError, ValueError, OverflowError):
        raise MechanismFailed(
            f"the program reads datasets as float64 only, which {excerpt(repr(value))} is not"
        ) from None


def dataset_json(value: Any) -> Any:
    """Return a dataset in JSON.

    Arrays and tuples become lists, frames dicts of columns, graphs nodes and edges. NaN, infinities
    and dates become texts.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if library_name(value):
        parts = to_parts(value)
        if "nodes" in parts:
            return {"nodes": dataset_json(parts["nodes"]), "edges": dataset_json(parts["edges"])}
        return {str(name): dataset_json(column) for name, column in values_of(parts).items()}
    if isinstance(value, np.datetime64 | np.timedelta64 | datetime.date):
        return str(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fiubU":
        return dataset_json(value.tolist())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return (
            float(value)
            if math.isfinite(value)
            else "NaN"
            if value != value
            else "Infinity"
            if value > 0
            else "-Infinity"
        )
    if isinstance(value, list | tuple):
        return [dataset_json(part) for part in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: dataset_json(part) for key, part in value.items()}
    raise MechanismFailed(
        "a dataset for a program must be representable in JSON, got one with a "
        f"{type(value).__name__}"
    )


def run_line(number: int, size: int, seed: Sequence[int]) -> bytes:
    """Return a request to run."""
    return line_of({"op": "run", "dataset": number, "size": size, "seed": list(seed)})


def line_of(message: Json) -> bytes:
    """Return a message as a line, without blanks and with the keys in their given order."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def parse_message(line: bytes, what: str) -> Json:
    """Return the JSON object of a line. Raise ProtocolViolation if the line is not a
    JSON object.
    """
    try:
        # decode explicitly: for bytes, json.loads accepts other encodings and a byte order mark
        found = json.loads(line.decode(), object_pairs_hook=object_without_duplicates)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ProtocolViolation(
            f"wrote {excerpt(line)} where {what} was due, a JSON object in a line"
        )
    return found


def exception_of(head: Json) -> Exception:
    """Return the exception that an answer reports."""
    name, text = head["raised"], head.get("text", "")
    if name == "" or not _is_name(name) or not isinstance(text, str):
        raise ProtocolViolation(
            f"raised must be the name of an exception, and text a text, got {excerpt(repr(head))}"
        )
    found: Exception = codec.stand_in(name, Exception)(text)
    return found


def _is_name(value: Any) -> bool:
    """Return whether a value is a printable text of at most 200 characters."""
    return isinstance(value, str) and len(value) <= 200 and value.isprintable()


_HELLO_RULES: dict[str, tuple[bool, str, Any]] = {  # key -> required, rule in messages, test
    "protocol": (True, "a whole number", lambda v: type(v) is int),
    "name": (True, "a text of 1 to 200 characters in a line", lambda v: v != "" and _is_name(v)),
    "version": (False, "a text of at most 200 characters in a line", _is_name),
    "seedable": (True, "true or false", lambda v: isinstance(v, bool)),
    "datasets": (
        True,
        f"a list of some of {', '.join(ENCODINGS)}",
        lambda v: _some_of(v, ENCODINGS),
    ),
    "outputs": (
        True,
        f"a list of some of {', '.join(BLOCKS)}, json",
        lambda v: _some_of(v, (*BLOCKS, "json")),
    ),
    "claim": (False, "a text such as pure:1", lambda v: isinstance(v, str)),
    "domain": (False, "an object with a kind", lambda v: isinstance(v, dict) and "kind" in v),
    "batch": (False, "a whole number, at least 1", lambda v: type(v) is int and v >= 1),
    "trials": (False, "a whole number, at least 1000", lambda v: type(v) is int and v >= 1000),
    "expected_failures": (
        False,
        "an object of texts",
        lambda v: isinstance(v, dict) and all(isinstance(t, str) for t in v.values()),
    ),
}


def _some_of(value: Any, names: Sequence[str]) -> bool:
    """Return whether a value is a non-empty list of some of the names."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(v, str) and v in names for v in value)
    )


def hello_faults(found: Json) -> list[str]:
    """Return the faults of a hello message, one sentence each."""
    if found.get("protocol") != PROTOCOL and type(found.get("protocol")) is int:
        return [f"speaks protocol {found['protocol']}, this dpwitness {PROTOCOL}"]
    return [
        *(
            f"hello has no {key}"
            for key, (needed, _, _) in _HELLO_RULES.items()
            if needed and key not in found
        ),
        *(
            f"hello: {key} must be {rule}, got {excerpt(repr(found[key]))}"
            for key, (_, rule, test) in _HELLO_RULES.items()
            if key in found and found[key] is not None and not test(found[key])
        ),
        *(
            f"hello has an unknown key {key!r}; known keys are {', '.join(_HELLO_RULES)}"
            for key in found
            if key not in _HELLO_RULES
        ),
    ]


def parse_hello(line: bytes) -> Json:
    """Return a program's hello in the form of `Target.describe`. Raise ProtocolViolation if the
    hello is invalid.
    """
    found = parse_message(line, "hello")
    faults = hello_faults(found)
    if faults:
        raise ProtocolViolation("; ".join(faults))
    optional: Json = {"version": "", "claim": None, "domain": None, "batch": None, "trials": None}
    description = (
        optional
        | found
        | {"seeded": found["seedable"], "library": found["name"], "tested": None, "features": False}
    )
    return description | {
        "expected_failures": found.get("expected_failures") or {},
        "expected_findings": {},
        "notes": [],
        "queries": None,
        "rounds": None,
    }


def program_note(about: Json, text: str) -> str:
    """Return the note for reports on a program."""
    if text:
        each = "run" if text == "one" else "batch of runs"
        return (
            f"{about['name']}, a program that prints its outputs: it is started again for each "
            f"{each}, which takes most of its time"
        )
    return (
        f"{about['name']} {about['version'] or 'of unknown version'}, a program (protocol "
        f"{about['protocol']})"
    )


def excerpt(value: str | bytes, most: int = 120) -> str:
    """Return the beginning of a value for a message."""
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
    return (
        repr(text if len(text) <= most else f"{text[:most]}...")
        if isinstance(value, bytes)
        else text[:most]
    )
