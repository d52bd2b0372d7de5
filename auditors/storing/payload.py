"""A span as bytes and back: JSON where only counts are told, NumPy's archive where outputs come too. Nothing of it is ever run."""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any

import numpy as np

from dpwitness.auditors.encoding.row import Texts
from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.running.spans import Segment, Span
from dpwitness.auditors.running.stage import Sides

JSON, ARCHIVE = b"J", b"Z"  # what the bytes begin with


def pack(span: Span) -> bytes:
    """The bytes of a span."""
    arrays: dict[str, Any] = {}
    head = {"last": span.last, "raised": span.raised, "seconds": span.seconds, "parts": [_told(p, s, arrays) for p, s in span.parts]}
    text = json.dumps(head, separators=(",", ":")).encode()
    if not arrays:
        return JSON + text
    file = io.BytesIO()
    np.savez(file, head=np.frombuffer(text, dtype=np.uint8), **arrays)
    return ARCHIVE + file.getvalue()


def unpack(first: int, data: bytes) -> Span:
    """The span that begins at chunk `first`.

    Raises
    ------
    ValueError, KeyError, TypeError
        If these are not the bytes of a span.
    """
    kind, rest = data[:1], data[1:]
    if kind == JSON:
        head, arrays = json.loads(rest), {}
    elif kind == ARCHIVE:
        with np.load(io.BytesIO(rest), allow_pickle=False) as archive:
            arrays = dict(archive)
        head = json.loads(arrays["head"].tobytes())
    else:
        raise ValueError(f"no span begins with {kind!r}")
    parts = [(int(part["segment"]), _read(part, arrays)) for part in head["parts"]]
    return Span(first, int(head["last"]), parts, bool(head["raised"]), float(head["seconds"]))


def _told(place: int, part: Segment, arrays: dict[str, Any]) -> dict[str, Any]:
    return {
        "segment": place,
        "rounds": part.rounds,
        "lost": part.lost,
        "single": part.single,
        "seconds": part.seconds,
        "marks": [f"{mark:x}" for mark in part.marks],
        "tables": [table.tolist() for table in part.tables],
        "sides": [[_outputs(side, arrays) for side in sides] for sides in part.sides],
    }


def _outputs(side: Outputs | None, arrays: dict[str, Any]) -> Any:
    if side is None:
        return None
    number = len(arrays) // 2
    arrays[f"values{number}"], arrays[f"codes{number}"] = side.values, side.codes
    texts = [[code, [list(dataclasses.astuple(each)) for each in held]] for code, held in side.texts.items()]
    return [number, [[code, name] for code, name in side.names.items()], sorted(side.opaque), texts, side.signs]


def _read(part: dict[str, Any], arrays: dict[str, Any]) -> Segment:
    def outputs(told: Any) -> Outputs | None:
        if told is None:
            return None
        number, names, opaque, texts, signs = told if len(told) > 3 else (*told[:2], [], [], 0)  # as earlier versions wrote them
        held = {code: tuple(Texts(*each) for each in several) for code, several in texts}
        return Outputs(arrays[f"values{number}"], arrays[f"codes{number}"], dict(map(tuple, names)), held, frozenset(opaque), signs)

    sides: list[Sides] = [(outputs(one), outputs(zero)) for one, zero in part["sides"]]
    marks = [int(mark, 16) for mark in part["marks"]]
    tables = [np.array(table, dtype=np.int64) for table in part["tables"]]
    return Segment(tables, sides, int(part["rounds"]), int(part["lost"]), marks, float(part["seconds"]), bool(part["single"]))
