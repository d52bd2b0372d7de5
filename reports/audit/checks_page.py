"""Report of ``dpwitness check``: every check on every target, and a second report of the audits that the checks ran."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpwitness.auditors.checks.runner import CheckReport
from dpwitness.reports.audit.document import build_document
from dpwitness.reports.audit.report import check_writable, write_document, write_report


def write(reports: Sequence[CheckReport], folder: Path | str, *, command: str) -> Path:
    """Write ``checks.json`` and its formats, and ``audit.json`` and its formats if a check ran an audit.

    Parameters
    ----------
    reports : sequence of CheckReport
        One report per target.
    folder : Path or str
        Report folder, created if missing.
    command : str
        Command that the reports print.

    Returns
    -------
    Path
        The markdown file of the checks.
    """
    path = check_writable(folder)
    audits = [finding.result for report in reports for finding in report.findings if finding.result is not None]
    if audits:
        write_report(audits, path, title="Audits behind the checks", command=command)
    write_document(build_document(reports, title="Checks", command=command), path, stem="checks")
    return path / "checks.md"
