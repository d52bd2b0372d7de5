"""Colors of verdicts on a terminal.

A verdict in dpwitness's own text is enclosed in marks: private-use characters that `plain` removes
from external text. Only `exit_codes.Stream.show` converts marks to color codes or removes them.
Therefore external text cannot send codes to the terminal.
"""

from __future__ import annotations

import os
import re
from io import TextIOBase

COLOR_CHOICES = ("auto", "always", "never")

_STYLES = {
    "VIOLATED": "1;31",
    "SUSPECT": "1;33",
    "ERROR": "33",
    "INCONCLUSIVE": "33",
    "NOT REFUTED": "1",
    "SUPPORTED": "32",
    "CERTIFIED": "32",
}
_MARKS = {verdict: chr(0xF8D0 + i) for i, verdict in enumerate(_STYLES)}
_END_MARK = chr(0xF8CF)
CODES = {ord(_END_MARK): "\x1b[0m"} | {
    ord(mark): f"\x1b[{_STYLES[verdict]}m" for verdict, mark in _MARKS.items()
}
NO_CODES = dict.fromkeys(CODES, "")
_VERDICT = re.compile(rf"(?:{'|'.join(_STYLES)})\b")


def marked(text: str, verdict: str) -> str:
    """Return text between the start and end marks of a verdict."""
    return f"{_MARKS[verdict]}{text}{_END_MARK}"


def mark_verdict(text: str, at: int = 0) -> str:
    """Mark the verdict at index `at` of a text; the text is unchanged if there is none.

    Examples
    --------
    >>> mark_verdict("NOT REFUTED: no violation").translate(CODES)
    '\\x1b[1mNOT REFUTED\\x1b[0m: no violation'
    """
    verdict_match = _VERDICT.match(text, at)
    return (
        text[:at] + marked(verdict_match[0], verdict_match[0]) + text[verdict_match.end() :]
        if verdict_match
        else text
    )


def wanted(choice: str, stream: TextIOBase) -> bool:
    """Return whether to write color codes.

    The choice "auto" means yes on a terminal that supports colors, unless NO_COLOR
    (https://no-color.org) is set.
    """
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
