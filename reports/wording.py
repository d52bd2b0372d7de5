"""Texts that are safe on a terminal and in markdown, and the records in which datasets differ."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any

from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import dataset, rows_of

_LONGEST_PROSE = 600


def verdict(value: Any) -> str:
    """Return a verdict's name with spaces in place of underscores."""
    return str(value).replace("_", " ")


def float_rounding(value: Any) -> str:
    """Return the verdict on the low bits of outputs in the words of every table."""
    return {"VIOLATED": "distinguishable", "NOT_REFUTED": "nothing found"}.get(
        value, verdict(value)
    )


def plain(text: str) -> str:
    """Escape control characters and CI job commands, so that a text cannot move the cursor, set
    colors or change text direction.

    Examples
    --------
    >>> plain("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    shown = (char if char == "\n" or char.isprintable() else ascii(char)[1:-1] for char in text)
    return _JOB_COMMAND.sub(
        lambda found: f"{found[1]}\\x3a" if found[1] is not None else "\\x23", "".join(shown)
    )


# CI services run commands in the output of a job: "::" at the start of a line, "##[" anywhere.
_JOB_COMMAND = re.compile(r"^([ \t]*):(?=:)|#(?=#\[)", re.MULTILINE)


def name_cell(name: str, width: int = 60) -> str:
    """Return a name of at most `width` characters; a longer name is cut in its middle.

    Examples
    --------
    >>> name_cell("noisy_sum", 12), name_cell("a" * 3000 + "b", 12)
    ('noisy_sum', 'aaaaa...aaab')
    """
    end = (width - 3) // 2
    cut = f"{name[: width - 3 - end]}...{name[len(name) - end :]}"
    return name if len(name) <= width else cut


def line(text: Any, most: int = 1000) -> str:
    """Return a text as one line of about `most` characters, with escapes for characters that are
    not printable.

    Examples
    --------
    >>> line("a\\x1b[31mb\\n\\u202ec")
    'a\\\\x1b[31mb \\\\u202ec'
    >>> line("x" * 50, most=10)
    'xxxxxxxxxx ... (50 characters)'
    """
    full_text = str(text)
    joined = " ".join(full_text[: 8 * most].split())  # limits the work for a text of many megabytes
    shown = plain(joined[:most])[:most]
    cut = len(joined) > most or len(full_text) > 8 * most
    return f"{shown} ... ({len(full_text):,} characters)" if cut else shown


def truncated_line(text: Any, most: int) -> str:
    """Return a text as one line, truncated to `most` characters, with escapes for characters that
    are not printable.
    """
    clean = plain(" ".join(str(text)[: 20 * most].split()))
    return clean if len(clean) <= most else f"{clean[: most - 3]}..."


def code(text: Any) -> str:
    """Return a text as a markdown code span on one line.

    A text with "<" is returned as `escaped_markdown`, because a code span cannot escape "<" and
    some renderers would read it as HTML.
    """
    clean = truncated_line(text, _LONGEST_PROSE).replace("`", "'")
    if "<" in clean:
        return escaped_markdown(clean)
    return f"`{clean}`" if clean else ""


def escaped_markdown(text: Any) -> str:
    """Return an untrusted text as one line of markdown with all markup escaped, truncated if it is
    very long.
    """
    clean = plain(" ".join(str(text).split()))
    if len(clean) > _LONGEST_PROSE:
        clean = f"{clean[:_LONGEST_PROSE]} ... ({len(clean):,} characters)"
    # a bracket alone is no link
    linked = r"\[" if re.search(r"\][(\[:]", clean) else ""
    return (
        re.sub(rf"([\\`*{linked}]|(?<!\w)_|_(?!\w)|~(?=~))", r"\\\1", clean)
        .replace("&", "&amp;")
        .replace("<", "&lt;")
    )


def link(name: Any, target: str) -> str:
    """Return a link to an anchor of this page, labeled with an untrusted name.

    Examples
    --------
    >>> link("a_b", "c")
    '[`a_b`](#c)'
    >>> print(link("<i>[x](y)", "c"))
    [&lt;i>\\[x\\](y)](#c)
    """
    label = code(name)
    return f"[{label if label.startswith('`') else label.replace(']', chr(92) + ']')}](#{target})"


def item(text: Any) -> str:
    """Return an untrusted text as a markdown list item, with an initial heading, quotation or list
    mark escaped.
    """
    return "- " + re.sub(r"^(\d*)([#>+=.)-])", r"\1\\\2", escaped_markdown(text))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a markdown table."""
    cells = (
        [" ".join(text.split()).replace("|", "\\|") for text in row]
        for row in (header, ["---"] * len(header), *rows)
    )
    return [f"| {' | '.join(row)} |" for row in cells]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines of text, with the columns aligned.

    Examples
    --------
    >>> aligned([("zoo", "kept"), ("papers", "broken")])
    ['zoo     kept', 'papers  broken']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def slugs(names: Iterable[str]) -> list[str]:
    """Return a part of a file name for each name: lower-case letters, digits, dots and dashes. The
    parts are distinct.

    Examples
    --------
    >>> slugs(["../etc/passwd", "Laplace(1.0)", "laplace 1.0", ""])
    ['etc-passwd', 'laplace-1.0', 'laplace-1.0-2', 'audit']
    """
    taken: set[str] = set()
    found = []
    for name in names:
        plain = unicodedata.normalize("NFKD", str(name)).encode("ascii", "ignore").decode().lower()
        base = (
            re.sub(r"\.{2,}", ".", re.sub(r"[^a-z0-9.]+", "-", plain))[:60].strip(".-") or "audit"
        )
        slug, again = base, 2
        while slug in taken:
            slug, again = f"{base}-{again}", again + 1
        taken.add(slug)
        found.append(slug)
    return found


Part = tuple[str, bool]  # (text, whether the text differs between the datasets)

_CONTEXT = 3  # records shown before and after a record that differs
# limit on records per dataset; larger datasets are not compared record by record
_COMPARED_RECORDS = 5000
_MOST_PARTS = 60


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
    sides = [pair["d0"], pair["d1"]]
    found = [_records(side) for side in sides]
    if any(records is None or len(records) > _COMPARED_RECORDS for records in found):
        differs = sides[0] != sides[1]
        return [(f"D{i}", [(dataset(side), differs)]) for i, side in enumerate(sides)]
    first, second = ([dataset(record) for record in records or []] for records in found)
    return [
        ("D0", _parts(first, _changed_indices(first, second))),
        ("D1", _parts(second, _changed_indices(second, first))),
    ]


def _records(value: Any) -> list[Any] | None:
    """Return the records of an array, list, frame or graph in JSON form; None for other values."""
    if isinstance(value, list):
        return value
    kind = value.get("$type") if isinstance(value, dict) else ""
    if kind == "frame":
        return rows_of(value)
    if kind == "graph":
        return [*(node for node, _ in value["nodes"]), *(edge[:2] for edge in value["edges"])]
    shape = value.get("shape") if kind == "array" else None
    if not shape:
        return None
    entries = value["value"]
    width = len(entries) // max(shape[0], 1)
    rows = [entries[i * width : (i + 1) * width] for i in range(shape[0])]
    return list(entries) if len(shape) == 1 else rows


def _changed_indices(first_records: list[str], other: list[str]) -> set[int]:
    """Return the indices of the first list's records that have no match in the other list, in
    order.
    """
    if len(first_records) == len(other):
        return {i for i, (a, b) in enumerate(zip(first_records, other, strict=True)) if a != b}
    matched = SequenceMatcher(None, first_records, other, autojunk=False).get_matching_blocks()
    kept = {block.a + k for block in matched for k in range(block.size)}
    return set(range(len(first_records))) - kept


def _parts(records: list[str], changed: set[int]) -> list[Part]:
    """Return the changed records with those around them; gaps become the number of records."""
    shown = {i + k for i in changed or {0} for k in range(-_CONTEXT, _CONTEXT + 1)}
    if len(records) <= 4 * _CONTEXT:
        shown = set(range(len(records)))
    parts: list[Part] = []
    for is_shown, group in groupby(range(len(records)), shown.__contains__):
        places = list(group)
        if is_shown and len(parts) < _MOST_PARTS:
            parts += [(records[i], i in changed) for i in places]
        else:
            count = len(places)
            parts.append((f"... {count:,} record{'s' if count > 1 else ''}", False))
    return parts or [("no record", False)]
