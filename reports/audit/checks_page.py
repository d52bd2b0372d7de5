"""The page of ``dpwitness check``: every finding on every target, and the audits behind those that failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpwitness.auditors.checks.run import CheckReport
from dpwitness.mechanisms.terms.writing import write_json, write_text
from dpwitness.reports.audit.document import document_of
from dpwitness.reports.audit.report import check_writable, write_report
from dpwitness.reports.formats.sarif import sarif


def write(reports: Sequence[CheckReport], folder: Path | str, *, command: str) -> Path:
    """Write ``checks.json``, ``checks.sarif`` and ``checks.md``; where a check rests on an audit, that audit's report and its witness.

    Returns
    -------
    Path
        The markdown file.
    """
    path = check_writable(folder)
    document = document_of(reports, title="Checks", command=command)
    data = document["results"]
    write_json(path / "checks.json", document)
    write_json(path / "checks.sarif", sarif(document))
    audits = [finding.result for report in reports for finding in report.findings if finding.result is not None]
    if audits:
        write_report(audits, path, title="Audits behind the checks", command=command)
    lines = ["# Checks", "", f"    {command}", ""]
    for report in data:
        lines += [f"## {_cell(report['name'])}: {report['verdict'].replace('_', ' ')}", "", _cell(report["headline"]), ""]
        lines += ["| check | status | reason |", "| --- | --- | --- |"]
        lines += [f"| {f['check']} | {f['status']} | {_cell(f['reason'])} |" for f in report["findings"]]
        lines.append("")
    if audits:
        lines += ["The audits behind findings: [audit.md](audit.md).", ""]
    write_text(path / "checks.md", "\n".join(lines))
    return path / "checks.md"


def _cell(text: Any) -> str:
    """A reason may be of any text: one line, no column of its own, no markup."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")
