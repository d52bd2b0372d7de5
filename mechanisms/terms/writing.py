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


@contextlib.contextmanager
def aside(path: str | Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the place of `path` where the block ends without an exception, and is gone otherwise.

    Its suffix is that of `path`, by which plotting libraries tell the format.

    Examples
    --------
    >>> with aside("plot.svg") as file:                     # doctest: +SKIP
    ...     figure.savefig(file)
    """
    goal = Path(path)
    goal = goal.resolve() if goal.is_symlink() else goal  # a link stays one
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
    goal = Path(folder)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=goal))
    try:
        yield draft
        for file in sorted(draft.iterdir()):
            place = goal / file.name
            place = place.resolve() if place.is_symlink() else place  # a link stays one
            with contextlib.suppress(OSError):
                file.chmod(place.stat().st_mode & 0o777)  # of the file that is replaced
            os.replace(file, place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


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
