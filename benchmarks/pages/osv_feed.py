"""Feed of OSV records from the published audits of third-party libraries: one file per record in
``published/osv``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.atomic_files import json_text, write_text
from dpwitness.core.values.json_reader import Json
from dpwitness.reports.formats.machine_formats import osv

# time of records that the feed does not have yet, unless the caller gives another
_NEW = "2026-11-24T00:00:00Z"
_TIMES = ("modified", "published")
# in the cause of rows whose claim the library may not make for the audited relation
_UNPROMISED = "does not say which relation"


def publish_osv(folder: Path | str, modified: str = _NEW) -> list[Path]:
    """Write the records of ``third-party.json`` into ``osv/``, and delete the files of records that
    are gone.

    Parameters
    ----------
    folder : Path or str
        Folder of the published pages.
    modified : str
        Time of new and of changed records, in RFC 3339 format. Other records keep their times.

    Returns
    -------
    list of Path
        Paths of the records, sorted.
    """
    root = Path(folder)
    published = json.loads((root / "third-party.json").read_text(encoding="utf-8"))
    rows = [
        row for row in published["rows"] if not row["error"] and _UNPROMISED not in row["cause"]
    ]
    results = [_result(row, published["settings"], root) for row in rows]
    files = [
        _write(record, root / "osv" / f"{record['id']}.json")
        for record in osv({"results": results}, modified)
    ]
    for stale in set((root / "osv").glob("*.json")) - set(files):
        stale.unlink()
    return files


def _result(row: Json, settings: Json, root: Path) -> Json:
    """Return a published row as the result of an audit."""
    found: dict[str, Any] = {
        key: row.get(key)
        for key in ("claim", "relation", "verdict", "parameter", "parameter_lower", "cause")
    }
    found |= {
        "name": row["target"],
        "library": row["library"],
        "version": row["version"],
        "description": row.get("description"),
    }
    found |= {"kind": "black box", "evidence": "statistical", "confidence": settings["confidence"]}
    if row["verdict"] == Verdict.VIOLATED.value:
        found["headline"] = (
            f"{row['doc']} {row['parameter']} > {row['parameter_lower']:.4g} is certified "
            f"against the claim {row['claim']}."
        )
        file = f"third-party/{row['witness']}"
        found |= {
            "witness_file": file,
            "witness": json.loads((root / file).read_text(encoding="utf-8")),
        }
    return found


def _write(record: Json, file: Path) -> Path:
    """Write a record; one that differs from the published one by its times only keeps them."""
    if file.exists():
        old = json.loads(file.read_text(encoding="utf-8"))
        same = {**record, **{key: old.get(key) for key in _TIMES}}
        record = (
            old
            if same == old
            else {**record, "published": old.get("published", record["published"])}
        )
    file.parent.mkdir(exist_ok=True)
    write_text(file, json_text(record))
    return file
