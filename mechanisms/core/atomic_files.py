"""Files written aside and renamed: a reader finds the old file or the whole new one, whatever interrupts the writer."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpwitness.mechanisms.core.validation import InvalidArgument


def real_place(path: str | Path) -> Path:
    """Return `path` in the real folder that holds it.

    Raises
    ------
    InvalidArgument
        If something other than a regular file has this name. A symbolic link is never followed: the file behind the link may be anybody's.
    """
    goal = Path(path)
    if goal.is_symlink():
        raise InvalidArgument(
            f"{str(path)!r} is a symbolic link, which dpwitness does not write through: remove it, or choose another place"
        )
    if goal.exists() and not goal.is_file():
        raise InvalidArgument(f"{str(path)!r} exists and is not a regular file: remove it, or choose another place")
    return goal.parent.resolve() / goal.name


@contextlib.contextmanager
def aside(path: str | Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the place of `path` where the block ends without an exception, and is gone otherwise.

    Its suffix is that of `path`, by which plotting libraries tell the format.

    Examples
    --------
    >>> with aside("plot.svg") as file:                     # doctest: +SKIP
    ...     figure.savefig(file)
    """
    goal = real_place(path)
    draft = goal.with_name(f".{goal.stem[:40]}-{os.getpid()}-{secrets.token_hex(4)}{goal.suffix}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        with contextlib.suppress(OSError):
            draft.chmod(goal.stat().st_mode & 0o777)  # of the file that is replaced
        yield draft
        os.replace(draft, goal)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


@contextlib.contextmanager
def all_together(folder: str | Path) -> Iterator[Path]:
    """A folder inside `folder` to write files to; they take their places where the block ends without an exception, and are gone otherwise.

    A disk that fills up half-way, or a writer that is killed, leaves what was there as it was.
    """
    goal = Path(folder).resolve()
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=goal))
    try:
        yield draft
        places = {file: real_place(goal / file.name) for file in sorted(draft.iterdir())}  # all are tried before the first is replaced
        _rename(list(places.items()))
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _rename(places: list[tuple[Path, Path]]) -> None:
    """Move all files to their places; an interrupt waits until the last one is there."""
    interrupt = None
    while places:
        try:
            file, place = places[-1]
            if file.exists():  # not moved before an interrupt
                with contextlib.suppress(OSError):
                    file.chmod(place.stat().st_mode & 0o777)  # of the file that is replaced
                os.replace(file, place)
            places.pop()
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 aside and rename."""
    with aside(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.write(text)


def json_text(value: Any, *, indent: int | None = 1) -> str:
    """Strict JSON with a newline at its end; texts that are no UTF-8 (lone surrogates) are escaped."""
    found = json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False)
    try:
        found.encode("utf-8")
    except UnicodeEncodeError:
        found = json.dumps(value, indent=indent, allow_nan=False)
    return found + "\n"


def write_json(path: str | Path, value: Any) -> None:
    """One JSON file, aside and renamed: the same bytes from the same value."""
    write_text(path, json_text(value))
