"""Finished parts of a long benchmark, kept in the user's cache until its table is complete, so that
an interrupted run resumes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpwitness.benchmarks.table import Row
from dpwitness.core.values.atomic_files import write_json
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs import environments

_ROOT = Path(environments.__file__).resolve().parents[2]
_SOURCES = (
    "auditors/scanning/*.py",
    "mechanisms/wrappers/programs/inside/*.py",
    "benchmarks/scan/*.toml",
)


class Partial:
    """Results of parts by name, in a file that belongs to one state of the scan's code.

    Parameters
    ----------
    file : Path, optional
        The file. Default: in the folder of the environments, with a digest of the sources of the
        scan in its name.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file or environments.home().parent / "benchmarks" / f"scan-{_digest()}.json"
        self._found: Json = (
            json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}
        )
        self._used: list[str] = []
        self.taken_over = 0

    def measured(self, name: str, measure: Callable[[], Json]) -> Json:
        """Return the result of a part: that of an interrupted run, or a new one; a part that fails
        has the key `error`, and is not kept.
        """
        self._used.append(name)
        if name in self._found:
            self.taken_over += 1
            found: Json = self._found[name]
            return found
        try:
            found = measure()
        except Exception as error:  # of any library
            found = {"error": _line(error)}
        else:
            self._found[name] = found
            self._write()
        print(f"bench scan: {name}: {found.get('error', 'done')}", file=sys.stderr, flush=True)
        return found

    def rows(self, name: str, measure: Callable[[], Sequence[Row]]) -> tuple[list[Row], str]:
        """Return the rows of a part and an empty text, or no rows and the line of its failure."""
        found = self.measured(name, lambda: {"rows": [asdict(row) for row in measure()]})
        made = [
            Row(**row | {"counts": row["counts"] and tuple(row["counts"])})
            for row in found.get("rows", ())
        ]
        return made, found.get("error", "")

    def close(self) -> None:
        """Delete the results of a run that is complete."""
        self._found = {name: found for name, found in self._found.items() if name not in self._used}
        self._write()

    def _write(self) -> None:
        if self._found:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.file, self._found)
        else:
            self.file.unlink(missing_ok=True)


def _line(error: Exception) -> str:
    """Return an error as one line, without folders."""
    kind = "" if isinstance(error, InvalidArgument) else f"{type(error).__name__}: "
    return kind + re.sub(r"(/[\w.+-]+)+/", "", " ".join(str(error).split()))[:300]


def _digest() -> str:
    found: Any = hashlib.sha256()
    for pattern in _SOURCES:
        for path in sorted(_ROOT.glob(pattern)):
            found.update(path.read_bytes())
    return str(found.hexdigest())[:12]
