"""Colours of verdicts on a terminal.

A verdict in text of our own is put between marks, private-use characters that `plain` takes out of text from outside. Only
`ending.Stream.show` reads marks, and turns them into codes or into nothing: no text from outside chooses what a terminal is sent.
"""

from __future__ import annotations

import os
import re
from io import TextIOBase

WHEN = ("auto", "always", "never")

_STYLES = {"VIOLATED": "1;31", "ERROR": "33", "INCONCLUSIVE": "33", "NOT REFUTED": "1", "SUPPORTED": "32", "CERTIFIED": "32"}
_MARKS = {verdict: chr(0xF8D0 + i) for i, verdict in enumerate(_STYLES)}
_END = chr(0xF8CF)
CODES = {ord(_END): "\x1b[0m"} | {ord(mark): f"\x1b[{_STYLES[verdict]}m" for verdict, mark in _MARKS.items()}
NO_CODES = dict.fromkeys(CODES, "")
_VERDICT = re.compile(rf"(?:{'|'.join(_STYLES)})\b")


def marked(text: str, verdict: str) -> str:
    """Text between the marks of a verdict."""
    return f"{_MARKS[verdict]}{text}{_END}"


def verdict_marked(text: str, at: int = 0) -> str:
    """Text with the verdict that stands at this place marked; as it is where none stands there.

    Parameters
    ----------
    text : str
        Made by `plain`, or of our own.
    at : int
        Where the verdict begins.

    Examples
    --------
    >>> verdict_marked("NOT REFUTED: no violation").translate(CODES)
    '\\x1b[1mNOT REFUTED\\x1b[0m: no violation'
    """
    found = _VERDICT.match(text, at)
    return text[:at] + marked(found[0], found[0]) + text[found.end() :] if found else text


def wanted(choice: str, stream: TextIOBase) -> bool:
    """Whether to send colours: as was chosen, by default to a terminal that has them, unless NO_COLOR (https://no-color.org) is set."""
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
