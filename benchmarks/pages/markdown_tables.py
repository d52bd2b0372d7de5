"""Reader of the tables in published markdown pages, whose data the overview uses."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dpwitness.reports.formats.html_format import text

_CELL = re.compile(r"(?<!\\)\|")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|infinity|no finite")
_TITLE = re.compile(r"(#+) (.*)")


@dataclass(frozen=True, slots=True)
class Table:
    """Markdown table with the headings above it.

    Parameters
    ----------
    section, part : str
        Markdown of the nearest headings of level two and three; an empty text without a heading.
    rows : tuple of dict
        Markdown of each cell by the text of the column's head.
    """

    section: str
    part: str
    rows: tuple[dict[str, str], ...]

    def has(self, *columns: str) -> bool:
        """Return whether the table has at least one row and all given columns."""
        return bool(self.rows) and set(columns) <= set(self.rows[0])


def tables(page: str) -> Iterator[Table]:
    """Yield the tables of a page of markdown.

    Examples
    --------
    >>> next(tables("## A\\n\\n| x | y |\\n| --- | --- |\\n| 1 | a \\\\| b |\\n"))
    Table(section='A', part='', rows=({'x': '1', 'y': 'a \\\\| b'},))
    """
    titles, block = {2: "", 3: ""}, list[list[str]]()
    for line in [*page.splitlines(), ""]:
        if line.startswith("|") and line.rstrip().endswith("|"):
            block.append([cell.strip() for cell in _CELL.split(line.strip()[1:-1])])
            continue
        if len(block) > 2:
            heads = [text(head) for head in block[0]]
            yield Table(
                titles[2],
                titles[3],
                tuple(dict(zip(heads, cells, strict=False)) for cells in block[2:]),
            )
        block = []
        if title := _TITLE.fullmatch(line):
            titles |= {level: "" for level in titles if level > len(title[1])} | {
                len(title[1]): title[2]
            }


def value(cell: str) -> float:
    """Return the first number of a cell; nan if the cell has none.

    Examples
    --------
    >>> value("epsilon > 1.27"), value("0.93 (**missed**: 0.96 required)"), value("no finite epsilon holds"), value("-")
    (1.27, 0.93, inf, nan)
    """  # noqa: E501
    found = _NUMBER.search(cell)
    if found is None:
        return math.nan
    return math.inf if found[0][0] in "in" else float(found[0].replace(",", ""))


def link(cell: str) -> str:
    """Return the URL of the first link of a cell, or an empty text."""
    found = re.search(r"\]\(([^()\s]+)\)", cell)
    return found[1] if found else ""
