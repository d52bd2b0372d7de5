"""Conversion of spans to bytes and back: JSON for counts, a NumPy archive if outputs are included.

Reading never executes code from the bytes.
"""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any

import numpy as np

from dpwitness.auditors.events.numbers import Texts
from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.workers.chunks import Segment, Span
from dpwitness.auditors.workers.rounds import Sides

JSON, ARCHIVE = b"J", b"Z"  # first byte, which tells the format


def pack(span: Span) -> bytes:
    """Return a span as bytes."""
    arrays: dict[str, Any] = {}
    head = {
        "last": span.last,
        "raised": span.raised,
        "seconds": span.seconds,
        "parts": [_part_json(p, s, arrays) for p, s in span.parts],
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    if not arrays:
        return JSON + text
    file = io.BytesIO()
    np.savez(file, head=np.frombuffer(text, dtype=np.uint8), **arrays)
    return ARCHIVE + file.getvalue()


def unpack(first: int, data: bytes) -> Span:
    """Return the span that begins at chunk `first`, from its bytes.

    Raise ValueError, KeyError or TypeError if `data` are not the bytes of a span.
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
    parts = [(int(part["segment"]), _part_from_json(part, arrays)) for part in head["parts"]]
    return Span(first, int(head["last"]), parts, bool(head["raised"]), float(head["seconds"]))


def _part_json(place: int, part: Segment, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a span as JSON, and add the numbers of its outputs to `arrays`."""
    return {
        "segment": place,
        "rounds": part.rounds,
        "lost": part.lost,
        "single": part.single,
        "seconds": part.seconds,
        "marks": [f"{mark:x}" for mark in part.marks],
        "tables": [table.tolist() for table in part.tables],
        "sides": [[_outputs_json(side, arrays) for side in sides] for sides in part.sides],
    }


def _outputs_json(side: Outputs | None, arrays: dict[str, Any]) -> Any:
    """Return the outputs of one side as JSON, and add their numbers to `arrays`."""
    if side is None:
        return None
    number = len(arrays) // 2
    arrays[f"values{number}"], arrays[f"codes{number}"] = side.values, side.codes
    texts = [
        [code, [list(dataclasses.astuple(each)) for each in held]]
        for code, held in side.texts.items()
    ]
    return [
        number,
        [[code, name] for code, name in side.names.items()],
        sorted(side.opaque),
        texts,
        side.signs,
    ]


def _part_from_json(part: dict[str, Any], arrays: dict[str, Any]) -> Segment:
    """Return a part of a span from its JSON and the arrays of its outputs."""

    def outputs(fields: Any) -> Outputs | None:
        if fields is None:
            return None
        number, names, opaque, texts, signs = fields
        held = {code: tuple(Texts(*each) for each in several) for code, several in texts}
        return Outputs(
            arrays[f"values{number}"],
            arrays[f"codes{number}"],
            dict(map(tuple, names)),
            held,
            frozenset(opaque),
            signs,
        )

    sides: list[Sides] = [(outputs(one), outputs(zero)) for one, zero in part["sides"]]
    marks = [int(mark, 16) for mark in part["marks"]]
    tables = [np.array(table, dtype=np.int64) for table in part["tables"]]
    return Segment(
        tables,
        sides,
        int(part["rounds"]),
        int(part["lost"]),
        marks,
        float(part["seconds"]),
        bool(part["single"]),
    )
