"""A pair of datasets record by record: long ones shortened around the record that differs, which is marked."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.words.wording import dataset, rows_of

Part = tuple[str, bool]  # text, and whether it differs

_AROUND = 3  # records shown on either side of one that differs
_MOST = 5000  # records that are compared one by one


def differing(pair: Json) -> list[tuple[str, list[Part]]]:
    """D0 and D1, each with its parts; what differs is marked. Datasets of other shapes than lists of records are one part each.

    Examples
    --------
    >>> rows = differing({"d0": [0] * 20, "d1": [0] * 19 + [1]})
    >>> rows[1]
    ('D1', [('... 16 records', False), ('0', False), ('0', False), ('0', False), ('1', True)])
    """
    sides = [_records(pair["d0"]), _records(pair["d1"])]
    if any(side is None or len(side) > _MOST for side in sides):
        same = pair["d0"] == pair["d1"]
        return [("D0", [(dataset(pair["d0"]), not same)]), ("D1", [(dataset(pair["d1"]), not same)])]
    first, second = ([dataset(record) for record in side or []] for side in sides)
    marks = [_changed(first, second), _changed(second, first)]
    return [("D0", _shown(first, marks[0])), ("D1", _shown(second, marks[1]))]


def _records(value: Any) -> list[Any] | None:
    """The records of an array or a list; None for anything else."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and value.get("$type") == "frame":
        return rows_of(value)
    if isinstance(value, dict) and value.get("$type") == "graph":
        return [*(node for node, _ in value["nodes"]), *(edge[:2] for edge in value["edges"])]
    if isinstance(value, dict) and value.get("$type") == "array" and value.get("shape"):
        entries, shape = value["value"], value["shape"]
        if len(shape) == 1:
            return list(entries)
        width = len(entries) // shape[0] if shape[0] else 0
        return [entries[i * width : (i + 1) * width] for i in range(shape[0])]
    return None


def _changed(own: list[str], other: list[str]) -> set[int]:
    """Places of `own` that are not in `other` in this order."""
    if len(own) == len(other):
        return {i for i, (a, b) in enumerate(zip(own, other, strict=True)) if a != b}
    matched = SequenceMatcher(None, own, other, autojunk=False).get_matching_blocks()
    return set(range(len(own))) - {block.a + k for block in matched for k in range(block.size)}


def _shown(records: list[str], changed: set[int]) -> list[Part]:
    kept = {i for place in list(changed)[:_MOST] for i in range(place - _AROUND, place + _AROUND + 1)} or set(range(2 * _AROUND))
    kept |= set(range(len(records))) if len(records) <= 4 * _AROUND else set()
    parts: list[Part] = []
    left_out = 0
    for i, record in enumerate(records):
        if i in kept and len(parts) < 60:
            parts += [(f"... {left_out:,} record{'s' if left_out > 1 else ''}", False)] if left_out else []
            parts.append((record, i in changed))
            left_out = 0
        else:
            left_out += 1
    return [*parts, *([(f"... {left_out:,} record{'s' if left_out > 1 else ''}", False)] if left_out else [])] or [("no record", False)]
