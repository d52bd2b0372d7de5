"""One strict reader for the JSON files of this project: limits first, then a schema, and one line that names the field at fault.

A file is data from anywhere. It is read only if it is a regular file of a bounded size; nesting, numbers, texts and counts of elements are
bounded before anything looks at them; and each field is checked against a rule::

    COUNTS = record(correct=whole(), wrong=whole(), rounds=whole(least=1))
    COUNTS(data["counts"], "counts")        # counts.rounds must be a whole number, at least 1, got "x"
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from dpwitness.mechanisms.core.validation import InvalidArgument

Json = dict[str, Any]  # an object of a JSON file, read or to be written

BYTES = 64 * 2**20  # of a file
DEPTH = 80  # of nesting
ELEMENTS = 4_000_000  # values of any kind in one file
TEXT = 200_000  # characters in one text
DIGITS = 2_000  # of one whole number

Rule = Callable[[Any, str], Any]


class _Unfit(ValueError):
    """What the parser's hooks refuse."""


def read_bytes(path: str | Path, *, most: int = BYTES) -> bytes:
    """The content of a regular file of at most `most` bytes. Devices, pipes and folders are refused and never waited for.

    Raises
    ------
    InvalidArgument
        The reason only: callers put the file's name before it.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise InvalidArgument(f"must be readable: {getattr(error, 'strerror', None) or error}") from None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise InvalidArgument(f"must be a regular file, it is a {_kind(mode)}")
        parts, left = [], most + 1
        while left > 0 and (part := os.read(handle, min(left, 2**20))):
            parts.append(part)
            left -= len(part)
    except OSError as error:
        raise InvalidArgument(f"must be readable: {error.strerror}") from None
    finally:
        os.close(handle)
    if left <= 0:
        raise InvalidArgument(f"must have at most {most:,} bytes, it has more")
    return b"".join(parts)


def _kind(mode: int) -> str:
    for test, word in ((stat.S_ISDIR, "folder"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket")):
        if test(mode):
            return word
    return "device"


def parse(content: bytes | str) -> Any:
    """Strict JSON within the limits: no NaN, no name twice, no number that is no float. InvalidArgument gives the reason only."""
    try:
        found = json.loads(
            content.decode("utf-8") if isinstance(content, bytes) else content,
            parse_constant=_no_constant,
            parse_int=_integer,
            parse_float=_float,
            object_pairs_hook=each_name_once,
        )
    except RecursionError:
        raise InvalidArgument(f"must be nested at most {DEPTH} deep") from None
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"must be UTF-8: {error.reason} at byte {error.start}") from None
    except _Unfit as error:
        raise InvalidArgument(str(error)) from None
    except ValueError as error:
        raise InvalidArgument(f"is no complete JSON file: {error}") from None
    within_limits(found)
    return found


def _no_constant(word: str) -> NoReturn:
    raise _Unfit(f"{word} is no JSON number")


def _integer(digits: str) -> int:
    if len(digits) > DIGITS:
        raise _Unfit(f"whole numbers must have at most {DIGITS} digits, got {len(digits)}")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits) if len(digits) <= DIGITS else math.inf
    if not math.isfinite(value):
        raise _Unfit(f"numbers must be finite, got {digits[:40]}")
    return value


def each_name_once(pairs: list[tuple[str, Any]]) -> Json:
    """Return the JSON object of these pairs, as an `object_pairs_hook`. Raise ValueError where a name occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _Unfit(f"{shown(twice)} stands twice in one object")
    return found


def within_limits(value: Any) -> None:
    """Refuse what is nested too deep, has too many elements, or holds too long a text or number. Never recurses."""
    level, depth, count = [value], 0, 1
    while level:
        if depth > DEPTH:
            raise InvalidArgument(f"must be nested at most {DEPTH} deep")
        below: list[Any] = []
        for item in level:
            if isinstance(item, Mapping):
                for name in item:
                    if not isinstance(name, str):
                        raise InvalidArgument(f"names of fields must be text, got {shown(name)}")
                    _short(name)
                below.extend(item.values())
            elif isinstance(item, list | tuple):
                below.extend(item)
            else:
                _short(item)
        count += len(below)
        if count > ELEMENTS:
            raise InvalidArgument(f"must have at most {ELEMENTS:,} elements")
        level, depth = below, depth + 1


def _short(item: Any) -> None:
    if isinstance(item, str) and len(item) > TEXT:
        raise InvalidArgument(f"texts must have at most {TEXT:,} characters, got {len(item):,}")
    if isinstance(item, int) and item.bit_length() > DIGITS * 3.33:
        raise InvalidArgument(f"whole numbers must have at most {DIGITS} digits")


def read_json(path: str | Path, owner: str = "") -> Any:
    """The JSON of a regular file, within the limits. The error names `owner` (who reads) and the file."""
    name = os.path.basename(os.fspath(path)) or os.fspath(path)
    try:
        return parse(read_bytes(path))
    except InvalidArgument as error:
        raise InvalidArgument(f"{owner}: {printable(name)} {error}" if owner else f"{printable(name)} {error}") from None


def printable(name: str) -> str:
    """A text of a file as it may reach a terminal."""
    return name.encode("utf-8", "backslashreplace").decode() if name.isprintable() else ascii(name)


# -- rules of fields: each takes a value and its path, returns the value, and raises InvalidArgument --------------------


def shown(value: Any) -> str:
    """A value in an error: as JSON, cut to what a line holds."""
    if isinstance(value, Mapping | list | tuple):
        told = "an object" if isinstance(value, Mapping) else "a list"
        return f"{told} of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 400:
        return f"a whole number of {value.bit_length()} bits"
    try:
        found = json.dumps(value) if not isinstance(value, float) or math.isfinite(value) else str(value)
    except (TypeError, ValueError):
        return f"a {type(value).__name__}"
    return found if len(found) <= 60 else f"{found[:57]}..."


def refuse(path: str, rule: str, value: Any) -> NoReturn:
    """Raise the one line for a field."""
    raise InvalidArgument(f"{path or 'it'} must {rule}, got {shown(value)}")


def whole(least: int | None = 0, most: int | None = None) -> Rule:
    """A whole number; no true or false, no 1.0."""
    bounds = "" if least is None else f", at least {least}" if most is None else f", between {least} and {most}"

    def rule(value: Any, path: str) -> Any:
        fits = isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least)
        if not fits or (most is not None and value > most):
            refuse(path, f"be a whole number{bounds}", value)
        return value

    return rule


def number(test: Callable[[float], bool] = lambda _: True, words: str = "a finite number", *, words_allowed: tuple[str, ...] = ()) -> Rule:
    """A finite float for which `test` holds, or one of the words that stand for what JSON cannot say, such as "inf"."""

    def rule(value: Any, path: str) -> float:
        if isinstance(value, str) and value in words_allowed:
            return float(value)
        try:
            found = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        except OverflowError:
            found = math.nan
        if not math.isfinite(found) or not test(found):
            refuse(path, f"be {words}", value)
        return found

    return rule


def text(longest: int = 10_000, *, empty: bool = True) -> Rule:
    """A text."""

    def rule(value: Any, path: str) -> str:
        if not isinstance(value, str) or not (empty or value):
            refuse(path, "be a text" if empty else "be a non-empty text", value)
        if len(value) > longest:
            raise InvalidArgument(f"{path} must have at most {longest:,} characters, got {len(value):,}")
        return value

    return rule


def boolean(value: Any, path: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        refuse(path, "be true or false", value)
    return value


def one_of(*options: Any) -> Rule:
    """One of the values; 1 is not true."""

    def rule(value: Any, path: str) -> Any:
        if not any(type(value) is type(option) and value == option for option in options):
            refuse(path, f"be one of {', '.join(map(shown, options))}", value)
        return value

    return rule


def nullable(inner: Rule) -> Rule:
    """Null, or what `inner` says."""
    return lambda value, path: None if value is None else inner(value, path)


def anything(value: Any, path: str) -> Any:
    """Any value within the limits: told, never acted on."""
    return value


def listing(inner: Rule, least: int = 0, most: int | None = None) -> Rule:
    """A list of values of one kind."""

    def rule(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list | tuple):
            refuse(path, "be a list", value)
        if len(value) < least or (most is not None and len(value) > most):
            refuse(path, f"have {least} to {most} entries" if most is not None else f"have at least {least} entries", value)
        return [inner(item, f"{path}[{i}]") for i, item in enumerate(value)]

    return rule


def items(inner: Rule) -> Rule:
    """An object of values of one kind under any names."""

    def rule(value: Any, path: str) -> Json:
        if not isinstance(value, Mapping):
            refuse(path, "be an object", value)
        return {name: inner(item, f"{path}.{name[:60]}") for name, item in value.items()}

    return rule


def record(optional: Mapping[str, Rule] | None = None, /, **required: Rule) -> Rule:
    """An object with these fields, and no other. What is `optional` may be missing, and is then left out."""
    rules = {**required, **(optional or {})}

    def rule(value: Any, path: str) -> Json:
        if not isinstance(value, Mapping):
            refuse(path, "be an object", value)
        here = f"{path}." if path else ""
        for name in required:
            if name not in value:
                raise InvalidArgument(f"{here}{name} is missing")
        for name in value:
            if name not in rules:
                raise InvalidArgument(f"{here}{shown(name)[1:-1]} is no field that is known")
        return {name: inner(value[name], f"{here}{name}") for name, inner in rules.items() if name in value}

    return rule
