"""Numbers, times and datasets of a result's JSON as short texts, and the entries in which two
datasets differ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from dpwitness.core.values.json_reader import Json

SHOWN_ENTRIES = 8  # entries shown of a long dataset


def number(value: Any) -> float | None:
    """Return a number of a result's JSON as a float, including the words "inf", "-inf" and "nan";
    None for other values.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    return float(value) if value in ("inf", "-inf", "nan") else None


def figure(value: Any, digits: int = 4) -> str:
    """Format a number with `digits` significant digits; "-" for a missing number or nan."""
    found = number(value)
    if found is None or math.isnan(found):
        return "-"
    if math.isinf(found):
        return "infinity" if found > 0 else "-infinity"
    return f"{found:.{digits}g}"


def format_times(seconds: Any, cpu_seconds: Any) -> str:
    """Format a duration and a CPU time: ``12.3 s, 20.1 CPU s``; a missing or unknown number is left
    out.
    """
    found = ((number(seconds), "s"), (number(cpu_seconds), "CPU s"))
    return ", ".join(f"{figure(value, 3)} {unit}" for value, unit in found if value)


def beyond(symbol: Any, value: Any, digits: int = 4) -> str:
    """Format a lower bound of a parameter: ``epsilon > 1.2``, or "no finite epsilon holds" for an
    infinite bound.
    """
    found = number(value)
    return (
        f"no finite {symbol} holds"
        if found is not None and math.isinf(found) and found > 0
        else f"{symbol} > {figure(value, digits)}"
    )


def p_value(p: float) -> str:
    """Format a p-value after its symbol: ``= 0.01``, or ``< 1e-99``."""
    return f"= {p:.3g}" if p > 1e-99 else "< 1e-99"


def count(value: Any) -> str:
    """Format a count with thousands separators; "-" for a missing number."""
    found = number(value)
    return "-" if found is None else f"{int(found):,}"


def dataset(value: Any) -> str:
    """Format a dataset from its JSON form (`dpwitness.core.values.json_codec`); long datasets are
    truncated and show their size.

    Examples
    --------
    >>> dataset({"$type": "array", "dtype": "<f8", "shape": [2], "value": [0.0, 1.5]})
    '[0, 1.5]'
    >>> dataset([{"n": 1}, {"n": 1}, {"n": 1}, {"n": 2}])
    '[3 times {"n": 1}, {"n": 2}]'
    """
    if not isinstance(value, dict) or not value:
        return _format_entry(value)
    if "$type" not in value:
        return "{" + ", ".join(f"{name}: {dataset(part)}" for name, part in value.items()) + "}"
    formatted: Callable[[Any], str] = _FORMATS.get(value["$type"], _format_entry)
    return formatted(value)


def _format_array(value: Json) -> str:
    shape = value["shape"]
    if not shape:
        return _format_entry(value["value"][0])
    extra = "" if len(shape) == 1 else f"shape {'x'.join(map(str, shape))}"
    return _format_entries(value["value"], "[]", extra)


def _format_graph(value: Json) -> str:
    nodes = _format_entries([node for node, _ in value["nodes"]], "[]")
    edges = _format_entries([edge[:2] for edge in value["edges"]], "[]")
    return f"{value['form']}: nodes {nodes}, edges {edges}"


def _format_fields(fields: Iterable[tuple[str, Any]]) -> str:
    return f"({', '.join(f'{name}={dataset(part)}' for name, part in fields)})"


# kind of a value -> function that formats its JSON form
_FORMATS: dict[str, Callable[[Json], str]] = {
    "array": _format_array,
    "object": lambda v: v["class"].rpartition(":")[2] + _format_fields(v["fields"].items()),
    "tuple": lambda v: _format_entries(v["value"], "()"),
    "masked": lambda v: f"masked {dataset(v['data'])}, mask {dataset(v['mask'])}",
    "structured": lambda v: _format_fields(v["columns"]),
    "frame": lambda v: _format_entries(rows_of(v), "[]", f"a {v['library']} frame"),
    "graph": _format_graph,
    "float": lambda v: _format_entry(v["value"]),
    "scalar": lambda v: _format_entry(v["value"]),
}


def rows_of(frame: Json) -> list[Json]:
    """Return the rows of a data frame in JSON form, each as a dict by column name; None for a
    missing entry.
    """
    # late, as the command line loads this module at startup
    from dpwitness.core.values.dataframe_backends import values_of
    from dpwitness.core.values.json_codec import from_jsonable

    columns = {
        str(name): [
            None if entry != entry else str(entry) if hasattr(entry, "dtype") else entry
            for entry in entries
        ]
        for name, entries in values_of({"columns": from_jsonable(frame["columns"])}).items()
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _format_entries(values: Sequence[Any], brackets: str, extra: str = "") -> str:
    texts = map(_format_entry, values[:SHOWN_ENTRIES])
    runs = [(text, len(list(same))) for text, same in groupby(texts)]
    shown = ", ".join(  # a row that follows itself thrice has a number
        f"{times} times {text}" if text.startswith("{") and times > 2 else ", ".join([text] * times)
        for text, times in runs
    )
    if len(values) > SHOWN_ENTRIES:
        extra = ", ".join(filter(None, [f"{len(values):,} entries", extra]))
        shown += ", ..."
    return f"{brackets[0]}{shown}{brackets[1]}" + (f" ({extra})" if extra else "")


def _format_entry(value: Any) -> str:
    if isinstance(value, dict) and value.get("$type") in _FORMATS.keys() - {"frame", "graph"}:
        return dataset(value)
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if k != "$type"}
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return _format_entries(value, "[]")
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}... ({len(text):,} characters)"


def differences(first: Any, second: Any) -> str:
    """Describe the first differences of two long arrays of the same shape; an empty text for other
    values.
    """
    arrays = [
        v["value"] if isinstance(v, dict) and v.get("$type") == "array" else v
        for v in (first, second)
    ]
    shapes = [v.get("shape") if isinstance(v, dict) else None for v in (first, second)]
    if (
        not all(isinstance(v, list) and len(v) > SHOWN_ENTRIES for v in arrays)
        or len(arrays[0]) != len(arrays[1])
        or shapes[0] != shapes[1]
    ):
        return ""
    width = math.prod(shapes[0][1:]) if shapes[0] else 1
    places = [i for i, (a, b) in enumerate(zip(*arrays, strict=True)) if a != b]
    parts = [
        f"entry {i if width == 1 else divmod(i, width)}: {_format_entry(arrays[0][i])} on D0, "
        f"{_format_entry(arrays[1][i])} on D1"
        for i in places[:3]
    ]
    return "; ".join(parts) + (f"; and {len(places) - 3:,} more" if len(places) > 3 else "")
