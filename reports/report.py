"""Files of a report folder: the JSON document as the source of truth, the formats rendered from it,
and a witness file per violation.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from dpwitness.auditors.witnesses.parquet_files import has_frame_files, write_frame_files
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.seals import seal
from dpwitness.core.values.atomic_files import (
    atomic_folder,
    json_text,
    resolve_destination,
    write_json,
    write_text,
)
from dpwitness.core.values.json_reader import Json, read_json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.album import Album
from dpwitness.reports.document import WITNESS, build_document, entries_of, sealed
from dpwitness.reports.formats import DEFAULT_FORMATS, FORMATS
from dpwitness.reports.summary import Entry
from dpwitness.reports.wording import slugs


class IncompleteReport(Exception):
    """Formats that could not be written; JSON and witnesses were.

    Parameters
    ----------
    path : Path
        The JSON document.
    failures : dict of str to Exception
        The error of each missing file.
    """

    def __init__(self, path: Path, failures: Mapping[str, Exception]) -> None:
        self.path = path
        causes = "; ".join(
            f"{file} ({type(error).__name__}: {error})" for file, error in failures.items()
        )
        super().__init__(f"{path} and all witnesses are complete; not written: {causes}")


# files that commands write into a report folder
_MAIN = re.compile(r"(audit|checks|compare)\.[a-z.]+")


def check_writable(folder: Path | str) -> Path:
    """Create `folder` if it is missing, verify that files can be written there, and return its
    path.

    Call this function before an audit, so that a long audit does not lose its report.

    Parameters
    ----------
    folder : Path or str
        Report folder.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InvalidArgument
        If no file can be written in the folder, or if a main file or a witness of an earlier report
        is a symbolic link. The message names the path and the reason.
    """
    if not os.fspath(folder).strip():
        raise InvalidArgument(
            f"report folder must be named, got {os.fspath(folder)!r}; the current folder is '.'"
        )
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
        links = [Path(entry) for entry in os.scandir(path) if entry.is_symlink()]
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        why = getattr(error, "strerror", None) or error
        raise InvalidArgument(f"report folder must be writable, got {str(path)!r}: {why}") from None
    for link in links:
        if _MAIN.fullmatch(link.name) or WITNESS.fullmatch(link.name):
            resolve_destination(link)
    return path


def write_report(
    results: Sequence[Result | Mapping[str, Any]],
    folder: Path | str,
    *,
    title: str,
    command: str | None = None,
    stem: str = "audit",
    plots: bool = True,
) -> Path:
    """Write ``audit.json``, ``audit.md`` with its plots, ``audit.html``, ``audit.sarif``, and
    ``witness-NAME.json`` for each violation.

    Parameters
    ----------
    results : sequence of Result or dict
        Results, or their JSON from `result_json`.
    folder : Path or str
        Report folder, created if missing. The old report is replaced only after all files of the
        new report are complete.
    title : str
        Title of the report.
    command : str or None
        Command that the report prints.
    stem : str
        Name of the main files without suffix.
    plots : bool
        Whether to draw plots. matplotlib is imported only if True.

    Returns
    -------
    Path
        Path of the markdown file.

    Raises
    ------
    InvalidArgument
        If the folder is not writable, or `stem` contains characters other than letters, digits,
        dots and dashes.
    IncompleteReport
        If a format could not be written; the JSON document and the witnesses are complete.
    """
    path = check_writable(folder)
    if slugs([stem]) != [stem.lower()]:
        raise InvalidArgument(
            f"write_report: stem must be letters, digits, dots and dashes, got {stem!r}"
        )
    write_document(
        build_document(results, title=title, command=command), path, stem=stem, plots=plots
    )
    return path / f"{stem}.md"


def write_document(
    document: Json,
    folder: Path,
    formats: Sequence[str] = DEFAULT_FORMATS,
    *,
    stem: str = "audit",
    plots: bool = True,
) -> list[Path]:
    """Write a document's JSON, witnesses and formats into an existing folder; return the paths of
    the formats' files.

    A format that fails does not cost the evidence: the other files are written, an older file of
    the failed format is deleted, and IncompleteReport is raised.
    """
    entries = entries_of(document)
    stale = _stale_witnesses(folder, stem, {entry.witness_file for entry in entries})
    failures: dict[str, Exception] = {}
    with atomic_folder(folder) as draft:
        album = Album(draft, empty=not plots)
        found = document | {"results": [sealed(result) for result in document["results"]]}
        write_json(draft / f"{stem}.json", write_frame_files(found, draft))
        for entry in entries:
            _write_witness(draft, entry)
        for name in formats:
            file = draft / f"{stem}{FORMATS[name].suffix}"
            try:
                # only the formats that are written are imported
                module, _, function = FORMATS[name].function.partition(":")
                render = getattr(import_module(f"dpwitness.reports.{module}"), function)
                text = render(document, *((entries, album) if FORMATS[name].plots else ()))
                write_text(file, text if isinstance(text, str) else json_text(text))
            except Exception as error:
                failures[file.name] = error
                file.unlink(missing_ok=True)
    for path in (*stale, *(folder / name for name in failures)):
        path.unlink(missing_ok=True)
    if failures:
        raise IncompleteReport(folder / f"{stem}.json", failures)
    return [folder / f"{stem}{FORMATS[name].suffix}" for name in formats]


def _write_witness(folder: Path, entry: Entry) -> None:
    """Write the witness of an audit, if it has one, with large data frames as separate files, whose
    hashes the witness holds.
    """
    file, witness = entry.witness_file, entry.result.get("witness")
    if file and WITNESS.fullmatch(file) and witness:
        split: Json = write_frame_files(witness, folder)
        sealed_again = has_frame_files(split) and "sha256" in split
        write_json(folder / file, seal(split) if sealed_again else split)


def _stale_witnesses(folder: Path, stem: str, current_files: set[str | None]) -> list[Path]:
    """Return the witness files of the replaced report that the new report does not have.

    They must be deleted: otherwise a witness of an old run would remain in the folder of a report
    without violations.
    """
    found = []
    with contextlib.suppress(
        InvalidArgument, OSError, ValueError, AttributeError, TypeError, KeyError
    ):
        for result in read_json(folder / f"{stem}.json")["results"]:
            name = result.get("witness_file")
            if isinstance(name, str) and WITNESS.fullmatch(name) and name not in current_files:
                found.append(folder / name)
    return found
