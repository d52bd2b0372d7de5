"""Strict reading of the project's JSON files: size limits first, then a schema, with errors of one
line that name the field.

A file may come from anywhere. A file is read only if it is a regular file of bounded size. Nesting,
numbers, texts and the number of elements are checked against limits before anything else. Then each
field is checked against a rule::

    COUNTS = record(correct=integer(), wrong=integer(), rounds=integer(least=1))
    COUNTS(data["counts"], "counts")
    # InvalidArgument: counts.rounds must be a whole number, at least 1, got "x"
"""

from __future__ import annotations

import functools
import json
import math
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from dpwitness.core.values.validation import InvalidArgument

Json = dict[str, Any]  # JSON object

BYTES = 64 * 2**20  # largest size of a file
DEPTH = 80  # largest nesting
ELEMENTS = 4_000_000  # most values of any type in one file
TEXT = 200_000  # most characters in one text
DIGITS = 2_000  # most digits of one whole number

Rule = Callable[[Any, str], Any]


def read_bytes(path: str | Path, *, most: int = BYTES) -> bytes:
    """Return the content of a regular file of at most `most` bytes, or of standard input for the
    text "-". Devices, pipes and folders are refused without waiting for them.

    Raises
    ------
    InvalidArgument
        The message is the reason only: callers prepend the name of the file.
    """
    content = _standard_input() if path == "-" else _regular_file(path, most)
    if len(content) > most:
        raise InvalidArgument(f"must have at most {most:,} bytes, it has more")
    return content


@functools.cache
def _standard_input() -> bytes:
    """Return what standard input holds; a second reader gets the same."""
    return sys.stdin.buffer.read(4 * BYTES + 1)


def _regular_file(path: str | Path, most: int) -> bytes:
    """Return the first `most` + 1 bytes of a regular file."""
    flags = sum(
        getattr(os, name, 0) for name in ("O_RDONLY", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC")
    )
    try:
        handle = os.open(path, flags)
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or error
        raise InvalidArgument(f"must be readable: {reason}") from None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise InvalidArgument(f"must be a regular file, it is a {file_kind(mode)}")
        with open(handle, "rb", closefd=False) as file:
            return file.read(most + 1)
    except OSError as error:
        raise InvalidArgument(f"must be readable: {error.strerror}") from None
    finally:
        os.close(handle)


def file_kind(mode: int) -> str:
    """Return the type of a file that is not regular: folder, pipe, socket or device."""
    kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device")


def parse(content: bytes | str) -> Any:
    """Return the value of strict JSON within the limits: no NaN, no duplicate names, no numbers
    beyond the floats.

    The message of the InvalidArgument is the reason only.
    """
    try:
        found = json.loads(
            content.decode("utf-8") if isinstance(content, bytes) else content,
            parse_constant=_parse_float,
            parse_float=_parse_float,
            object_pairs_hook=object_without_duplicates,
        )
    except RecursionError:
        raise InvalidArgument(f"must be nested at most {DEPTH} deep") from None
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"must be UTF-8: {error.reason} at byte {error.start}") from None
    except InvalidArgument:
        raise
    except ValueError as error:
        raise InvalidArgument(f"is not a complete JSON file: {error}") from None
    require_json_limits(found)
    return found


def _parse_float(digits: str) -> float:
    """Return the float of its digits. Raise InvalidArgument if the number is not finite."""
    value = float(digits)
    if not math.isfinite(value):
        raise InvalidArgument(f"numbers must be finite, got {digits[:40]}")
    return value


def object_without_duplicates(pairs: list[tuple[str, Any]]) -> Json:
    """Return the JSON object of these pairs, as an `object_pairs_hook`. Raise InvalidArgument if a
    name occurs twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        duplicate = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise InvalidArgument(f"{short_json(duplicate)} occurs twice in one object")
    return found


def require_json_limits(value: Any) -> None:
    """Raise InvalidArgument if a value is nested too deep, has too many elements, or has a text or
    number that is too long.
    """
    level, depth, count = [value], 0, 1
    while level:
        if depth > DEPTH:
            raise InvalidArgument(f"must be nested at most {DEPTH} deep")
        below: list[Any] = []
        for item in level:
            if isinstance(item, Mapping):
                wrong = [name for name in item if not isinstance(name, str)]
                if wrong:
                    shown = short_json(wrong[0])
                    raise InvalidArgument(f"names of fields must be text, got {shown}")
                _check_length(max(item, key=len, default=""))
                below.extend(item.values())
            elif isinstance(item, list | tuple):
                below.extend(item)
            else:
                _check_length(item)
        count += len(below)
        if count > ELEMENTS:
            raise InvalidArgument(f"must have at most {ELEMENTS:,} elements")
        level, depth = below, depth + 1


def _check_length(item: Any) -> None:
    """Raise InvalidArgument if a text or a whole number is too long."""
    if isinstance(item, str) and len(item) > TEXT:
        raise InvalidArgument(f"texts must have at most {TEXT:,} characters, got {len(item):,}")
    if isinstance(item, int) and item.bit_length() > DIGITS * 3.33:
        raise InvalidArgument(f"whole numbers must have at most {DIGITS} digits")


def read_json(path: str | Path, owner: str = "") -> Any:
    """Return the JSON value of a regular file, within the limits. Error messages name `owner` (the
    reader) and the file. Raise InvalidArgument if the file cannot be read, is not JSON, or exceeds
    a limit.
    """
    name = os.path.basename(os.fspath(path)) or os.fspath(path)
    try:
        return parse(read_bytes(path))
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{owner}: {printable(name)} {error}" if owner else f"{printable(name)} {error}"
        ) from None


def printable(name: str) -> str:
    """Return a text from a file, or the name of a file, in a form that is safe to print on a
    terminal.
    """
    if name == "-":
        return "standard input"
    return name.encode("utf-8", "backslashreplace").decode() if name.isprintable() else ascii(name)


# -- rules of fields: a rule takes a value and its path, and returns the value or raises
# InvalidArgument -----------------


def short_json(value: Any) -> str:
    """Return a value for an error message: as JSON, cut to 60 characters."""
    if isinstance(value, Mapping | list | tuple):
        noun = "an object" if isinstance(value, Mapping) else "a list"
        return f"{noun} of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 400:
        return f"a whole number of {value.bit_length()} bits"
    try:
        found = (
            json.dumps(value)
            if not isinstance(value, float) or math.isfinite(value)
            else str(value)
        )
    except (TypeError, ValueError):
        return f"a {type(value).__name__}"
    return found if len(found) <= 60 else f"{found[:57]}..."


def refuse(path: str, rule: str, value: Any) -> NoReturn:
    """Raise the InvalidArgument of a field whose value breaks a rule."""
    raise InvalidArgument(f"{path or 'it'} must {rule}, got {short_json(value)}")


def checked(test: Callable[[Any], bool], words: str) -> Rule:
    """Return a rule for values for which `test` holds; an error says that they must `words`."""

    def rule(value: Any, path: str) -> Any:
        if not test(value):
            refuse(path, words, value)
        return value

    return rule


def integer(least: int | None = 0, most: int | None = None) -> Rule:
    """Return a rule for whole numbers between `least` and `most`. Booleans and 1.0 are refused."""
    low, high = -math.inf if least is None else least, math.inf if most is None else most
    bounds = f", at least {least}" if most is None else f", between {least} and {most}"
    return checked(
        lambda value: (
            isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        ),
        f"be a whole number{'' if least is None else bounds}",
    )


def number(
    test: Callable[[float], bool] = lambda _: True,
    words: str = "a finite number",
    *,
    words_allowed: tuple[str, ...] = (),
) -> Rule:
    """Return a rule for finite numbers for which `test` holds, read as floats.

    The texts in `words_allowed` are accepted for values that JSON cannot represent, such as "inf".
    """

    def rule(value: Any, path: str) -> float:
        if isinstance(value, str) and value in words_allowed:
            return float(value)
        is_number = type(value) in (int, float) and abs(value) <= sys.float_info.max
        found = float(value) if is_number else math.nan
        if not math.isfinite(found) or not test(found):
            refuse(path, f"be {words}", value)
        return found

    return rule


def text(longest: int = 10_000, *, empty: bool = True) -> Rule:
    """Return a rule for texts of at most `longest` characters."""

    def rule(value: Any, path: str) -> str:
        if not isinstance(value, str) or not (empty or value):
            refuse(path, "be a text" if empty else "be a non-empty text", value)
        if len(value) > longest:
            raise InvalidArgument(
                f"{path} must have at most {longest:,} characters, got {len(value):,}"
            )
        return value

    return rule


boolean = checked(lambda value: isinstance(value, bool), "be true or false")


def one_of(*options: Any) -> Rule:
    """Return a rule for values equal to an option of the same type; 1 is not true."""
    return checked(
        lambda value: any(type(value) is type(option) and value == option for option in options),
        f"be one of {', '.join(map(short_json, options))}",
    )


def nullable(inner: Rule) -> Rule:
    """Return a rule that accepts null and applies `inner` to any other value."""
    return lambda value, path: None if value is None else inner(value, path)


def anything(value: Any, path: str) -> Any:
    """Return any value. For fields that are only displayed, never acted on."""
    return value


def listing(inner: Rule, least: int = 0, most: int | None = None) -> Rule:
    """Return a rule for lists whose entries obey `inner`."""

    def rule(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list | tuple):
            refuse(path, "be a list", value)
        if not least <= len(value) <= (math.inf if most is None else most):
            bounds = f"at least {least}" if most is None else f"{least} to {most}"
            refuse(path, f"have {bounds} entries", value)
        return [inner(item, f"{path}[{i}]") for i, item in enumerate(value)]

    return rule


def items(inner: Rule) -> Rule:
    """Return a rule for objects with arbitrary names whose values obey `inner`."""

    def rule(value: Any, path: str) -> Json:
        if not isinstance(value, Mapping):
            refuse(path, "be an object", value)
        return {name: inner(item, f"{path}.{name[:60]}") for name, item in value.items()}

    return rule


def record(optional: Mapping[str, Rule] | None = None, /, **required: Rule) -> Rule:
    """Return a rule for objects with exactly these fields. `optional` fields may be missing, and
    are then left out.
    """
    rules = {**required, **(optional or {})}

    def rule(value: Any, path: str) -> Json:
        if not isinstance(value, Mapping):
            refuse(path, "be an object", value)
        prefix = f"{path}." if path else ""
        for name in required:
            if name not in value:
                raise InvalidArgument(f"{prefix}{name} is missing")
        for name in value:
            if name not in rules:
                raise InvalidArgument(f"{prefix}{short_json(name)[1:-1]} is not a known field")
        return {
            name: inner(value[name], f"{prefix}{name}")
            for name, inner in rules.items()
            if name in value
        }

    return rule


def present(rules: Mapping[str, Rule]) -> Rule:
    """Return the rule of an object in which each field that has a rule is missing or obeys its
    rule.
    """

    def rule(value: Any, path: str) -> Any:
        found = items(anything)(value, path)
        for field, inner in rules.items():
            if field in found:
                inner(found[field], f"{path}.{field}" if path else field)
        return found

    return rule
