"""OSV format of a report: one record of the Open Source Vulnerability schema per claim that a
release of a library violates.

The affected range holds what was measured, and no more: it begins at the first release whose audit
found a violation, and ends at the first later release of the same target whose audit found none;
without such a release, at the last violated one. Identifiers begin with ``x_``, as the schema asks
of databases that are not registered.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.atomic_files import json_text, write_text
from dpwitness.core.values.json_reader import Json
from dpwitness.reports.phrasing.facts import Entry
from dpwitness.reports.phrasing.summary import excused, rules_of, violated_in_bits
from dpwitness.reports.phrasing.wording import line
from dpwitness.reports.plots.album import Album

SUFFIX = ".osv.json"
SCHEMA_VERSION = "1.6.0"
# the note on the library of a target file
_LIBRARY = re.compile(r"(?P<library>[\w.-]+) (?P<version>\d[\w.+!-]*), Python \d")
_CLEARED = (Verdict.NOT_REFUTED.value, Verdict.CERTIFIED.value, Verdict.SUPPORTED.value)


def osv(results: Sequence[Json], modified: str = "") -> list[Json]:
    """Return the OSV records of the violations among results of audits.

    Parameters
    ----------
    results : sequence of dict
        Results of one or several releases of a library. The release is in ``"library"`` and
        ``"version"``, or in the note of a target file.
    modified : str
        Time of the records, in RFC 3339 format; by default the time of ``SOURCE_DATE_EPOCH``, or
        now.

    Returns
    -------
    list of dict
        One record per library, target, claim and relation with an unsuppressed violation, sorted by
        id.

    References
    ----------
    Open Source Vulnerability format, https://ossf.github.io/osv-schema/.
    """
    groups: dict[tuple[str, ...], list[Json]] = {}
    for result in results:
        # the fields that the results of one target on several releases share
        same = (str(result.get(key) or "") for key in ("name", "claim", "relation"))
        groups.setdefault((release_of(result)[0], *same), []).append(result)
    records = [_record(identity, group, modified or _now()) for identity, group in groups.items()]
    return sorted(
        (record for record in records if record is not None), key=lambda record: str(record["id"])
    )


def write(document: Json, entries: Sequence[Entry], file: Path, album: Album) -> None:
    """Write the records of a document as a list."""
    write_text(file, json_text(osv(document["results"])))


def release_of(result: Mapping[str, Any]) -> tuple[str, str]:
    """Return library and version of an audited target file; empty texts for a mechanism of the
    user.

    Examples
    --------
    >>> release_of({"notes": ["diffprivlib 0.6.6, Python 3.11.7, NumPy 2.4.6"]})
    ('diffprivlib', '0.6.6')
    """
    if result.get("library"):
        return str(result["library"]), str(result.get("version") or "")
    found = next(
        (match for note in result.get("notes") or () if (match := _LIBRARY.match(str(note)))), None
    )
    return (found["library"], found["version"]) if found else ("", "")


def _record(identity: tuple[str, ...], group: Sequence[Json], modified: str) -> Json | None:
    """Return the record of one target; None if no audit found a violation."""
    violated = [
        result
        for result in group
        if (result.get("verdict") == Verdict.VIOLATED.value or violated_in_bits(result))
        and not excused(result)
    ]
    if not violated:
        return None
    worst = violated[0]
    library, name, claim, relation = identity
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]
    return {
        "schema_version": SCHEMA_VERSION,
        "id": f"x_DPWITNESS-{digest}",
        "modified": modified,
        "published": modified,
        "summary": line(f"{library or name}: {name} does not keep the privacy claim {claim}", 120),
        "details": _details(worst, relation),
        "references": [_evidence(result) for result in violated if _digest(result)],
        "credits": [{"name": "dpwitness", "type": "TOOL"}],
        "database_specific": _measured(worst),
        **({"affected": [_affected(library, violated, group)]} if library else {}),
    }


def _details(result: Json, relation: str) -> str:
    """Return the measurements, in Markdown."""
    parts = [
        result.get("headline") or f"{result['verdict']} against the claim {result.get('claim')}",
        result.get("cause"),
        f"Neighboring relation: {relation}." if relation else "",
        f"Event: {result['description']}." if result.get("description") else "",
    ]
    return "\n\n".join(line(part, 1500) for part in parts if part)


def _measured(result: Json) -> Json:
    """Return claim and certified bound, for programs."""
    found = {
        "claim": result.get("claim"),
        "relation": result.get("relation"),
        "parameter": result.get("parameter"),
        "certified": result.get("parameter_lower"),
        "certified_from_bits": (result.get("bit_level") or {}).get("epsilon_lower"),
        "confidence": result.get("confidence"),
        "evidence": result.get("evidence"),
        "rules": rules_of(result),
        "witness": result.get("witness_file"),
        "witness_sha256": _digest(result),
    }
    return {key: value for key, value in found.items() if value is not None}


def _digest(result: Json) -> str | None:
    """Return the SHA-256 of the witness in hexadecimal digits; None if there is no witness."""
    witness = result.get("witness")
    return (
        str(witness["sha256"]) if isinstance(witness, Mapping) and witness.get("sha256") else None
    )


def _evidence(result: Json) -> Json:
    """Return the reference to a witness by its hash (RFC 6920), because a report has no address of
    its own.
    """
    text = base64.urlsafe_b64encode(bytes.fromhex(str(_digest(result)))).decode().rstrip("=")
    return {"type": "EVIDENCE", "url": f"ni:///sha-256;{text}"}


def _affected(library: str, violated: Sequence[Json], group: Sequence[Json]) -> Json:
    """Return the affected package with the releases that were audited."""
    versions = _sorted({release_of(result)[1] for result in violated} - {""})
    package = {"ecosystem": "PyPI", "name": re.sub(r"[-_.]+", "-", library).lower()}
    package["purl"] = f"pkg:pypi/{package['name']}"
    if not versions:
        return {"package": package}
    cleared = _sorted(
        {release_of(result)[1] for result in group if result.get("verdict") in _CLEARED} - {""}
    )
    later = [version for version in cleared if _key(version) > _key(versions[-1])]
    end = {"fixed": later[0]} if later else {"last_affected": versions[-1]}
    return {
        "package": package,
        "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": versions[0]}, end]}],
        "versions": versions,
    }


def _sorted(versions: set[str]) -> list[str]:
    return sorted(versions, key=_key)


def _key(version: str) -> Version:
    """Return the sort key of a version; versions that PyPI would not accept come first."""
    try:
        return Version(version)
    except InvalidVersion:
        return Version("0")


def _now() -> str:
    """Return the time of ``SOURCE_DATE_EPOCH``, or now, in RFC 3339 format."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = (
        datetime.datetime.fromtimestamp(int(epoch), datetime.UTC)
        if epoch.isdigit()
        else datetime.datetime.now(datetime.UTC)
    )
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
