"""Record-by-record difference of a pair of datasets. Long datasets are shortened around the records
that differ.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

from dpwitness.core.values.json_reader import Json
from dpwitness.reports.phrasing.wording import dataset, rows_of

Part = tuple[str, bool]  # (text, whether the text differs between the datasets)

_CONTEXT = 3  # records shown before and after a record that differs
# limit on records per dataset; larger datasets are not compared record by record
_COMPARED_RECORDS = 5000


def differing(pair: Json) -> list[tuple[str, list[Part]]]:
    """Return the names D0 and D1 with the parts of each dataset: texts, and whether each text
    differs from the other dataset.

    A dataset that is not a list of records has one part.

    Examples
    --------
    >>> rows = differing({"d0": [0] * 20, "d1": [0] * 19 + [1]})
    >>> rows[1]
    ('D1', [('... 16 records', False), ('0', False), ('0', False), ('0', False), ('1', True)])
    """
    sides = [_records(pair["d0"]), _records(pair["d1"])]
    if any(side is None or len(side) > _COMPARED_RECORDS for side in sides):
        same = pair["d0"] == pair["d1"]
        return [
            ("D0", [(dataset(pair["d0"]), not same)]),
            ("D1", [(dataset(pair["d1"]), not same)]),
        ]
    first, second = ([dataset(record) for record in side or []] for side in sides)
    changed_indices = [_changed_indices(first, second), _changed_indices(second, first)]
    return [("D0", _parts(first, changed_indices[0])), ("D1", _parts(second, changed_indices[1]))]


def _records(value: Any) -> list[Any] | None:
    """Return the records of an array, list, frame or graph in JSON form; None for other values."""
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


def _changed_indices(first_records: list[str], other: list[str]) -> set[int]:
    """Return the indices of the first list's records that have no match in the other list, in
    order.
    """
    if len(first_records) == len(other):
        return {i for i, (a, b) in enumerate(zip(first_records, other, strict=True)) if a != b}
    matched = SequenceMatcher(None, first_records, other, autojunk=False).get_matching_blocks()
    return set(range(len(first_records))) - {
        block.a + k for block in matched for k in range(block.size)
    }


def _parts(records: list[str], changed: set[int]) -> list[Part]:
    shown_indices = {
        i
        for changed_index in list(changed)[:_COMPARED_RECORDS]
        for i in range(changed_index - _CONTEXT, changed_index + _CONTEXT + 1)
    } or set(range(2 * _CONTEXT))
    shown_indices |= set(range(len(records))) if len(records) <= 4 * _CONTEXT else set()
    parts: list[Part] = []
    left_out = 0
    for i, record in enumerate(records):
        if i in shown_indices and len(parts) < 60:
            parts += (
                [(f"... {left_out:,} record{'s' if left_out > 1 else ''}", False)]
                if left_out
                else []
            )
            parts.append((record, i in changed))
            left_out = 0
        else:
            left_out += 1
    return [
        *parts,
        *([(f"... {left_out:,} record{'s' if left_out > 1 else ''}", False)] if left_out else []),
    ] or [("no record", False)]
