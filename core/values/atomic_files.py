"""Atomic writing of files: a file is written under a temporary name and then renamed.

A reader sees the old file or the complete new file, even if the writer is interrupted.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpwitness.core.values.validation import InvalidArgument


def resolve_destination(path: str | Path) -> Path:
    """Return `path` with its folder resolved to the real folder.

    Raises
    ------
    InvalidArgument
        If something other than a regular file has this name. Symbolic links are never followed,
        because their target may belong to another user.
    """
    destination = Path(path)
    if destination.is_symlink():
        raise InvalidArgument(
            f"{str(path)!r} is a symbolic link, which dpwitness does not write through: "
            "remove it, or choose another place"
        )
    if destination.exists() and not destination.is_file():
        raise InvalidArgument(
            f"{str(path)!r} exists and is not a regular file: remove it, or choose another place"
        )
    return destination.parent.resolve() / destination.name


@contextlib.contextmanager
def aside(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`, which replaces `path` when the block ends.

    If the block raises an exception, the temporary file is deleted and `path` stays as it was. The
    temporary file has the suffix of `path`, from which plotting libraries infer the format.

    Examples
    --------
    >>> with aside("plot.svg") as file:                     # doctest: +SKIP
    ...     figure.savefig(file)
    """
    destination = resolve_destination(path)
    draft = destination.with_name(
        f".{destination.stem[:40]}-{os.getpid()}-{secrets.token_hex(4)}{destination.suffix}"
    )
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        with contextlib.suppress(OSError):
            # keep the permissions of the replaced file
            draft.chmod(destination.stat().st_mode & 0o777)
        yield draft
        os.replace(draft, destination)
    except BaseException as error:
        _name_file(error, destination)
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


@contextlib.contextmanager
def atomic_folder(folder: str | Path) -> Iterator[Path]:
    """Yield a temporary folder inside `folder`, whose files replace those of `folder` when the
    block ends.

    If the block raises an exception, the disk is full or the writer is killed, the old files stay
    as they were.
    """
    destination = Path(folder).resolve()
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=destination))
    try:
        yield draft
        # Check all of them before replacing any.
        places = {
            file: resolve_destination(destination / file.name) for file in sorted(draft.iterdir())
        }
        _rename(list(places.items()))
    except OSError as error:
        _name_file(error, destination)
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _name_file(error: BaseException, path: Path) -> None:
    """Add the path to an error of the operating system that names no file, such as that of a full
    disk.
    """
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = str(path)


def _rename(places: list[tuple[Path, Path]]) -> None:
    """Move all files to their destinations."""
    for file, place in places:
        with contextlib.suppress(OSError):
            # keep the permissions of the replaced file
            file.chmod(place.stat().st_mode & 0o777)
        os.replace(file, place)


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with aside(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.write(text)


# a line break after "[" is never part of a JSON string
_NUMBERS = re.compile(r'\[\n([^"\[\]{}]*)\]')


def json_text(value: Any) -> str:
    """Return strict JSON text with lists of numbers on one line. Non-ASCII characters are escaped
    if the text has lone surrogates.
    """
    found = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)
    try:
        found.encode("utf-8")
    except UnicodeEncodeError:
        found = json.dumps(value, indent=1, allow_nan=False)
    return _NUMBERS.sub(lambda numbers: f"[{' '.join(numbers[1].split())}]", found) + "\n"


def write_json(path: str | Path, value: Any) -> None:
    """Write one JSON file atomically. Equal values give equal bytes."""
    write_text(path, json_text(value))
