"""Text from outside as one plain line: nothing in it moves a cursor, turns its direction, or is no character of XML."""

from __future__ import annotations

from typing import Any


def plain(text: Any, most: int = 1000) -> str:
    """One line of at most about `most` characters; what is no printable character is shown as an escape.

    Examples
    --------
    >>> plain("a\\x1b[31mb\\n\\u202ec")
    'a\\\\x1b[31mb \\\\u202ec'
    >>> plain("x" * 50, most=10)
    'xxxxxxxxxx ... (50 characters)'
    """
    whole = str(text)
    line = " ".join(whole[: 8 * most].split())  # a text of many megabytes is not looked at as a whole
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in line[:most])[:most]
    cut = len(line) > most or len(whole) > 8 * most
    return f"{shown} ... ({len(whole):,} characters)" if cut else shown
