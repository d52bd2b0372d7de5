"""JUnit XML format of a report, with one test case per audit. The XML conforms to junit-10.xsd, the
schema of xUnit 2.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import number
from dpwitness.reports.phrasing.facts import Entry
from dpwitness.reports.phrasing.summary import excused, violated_in_bits
from dpwitness.reports.phrasing.wording import line
from dpwitness.reports.plots.album import Album

SUFFIX = ".junit.xml"


def junit(document: Json) -> str:
    """Return the JUnit XML of a document.

    An audit is a failure if the claim is violated by values or low bits, an error if the audit
    failed, and skipped if it has no verdict. In a suite, where some mechanisms are wrong on
    purpose, an audit is a failure if its verdict contradicts the known truth.
    """
    cases = [_case(result) for result in document["results"]]
    time = f"{sum(float(case.get('time', 0)) for case in cases):.3f}"
    tally = {
        tag: sum(case.find(tag) is not None for case in cases)
        for tag in ("failure", "error", "skipped")
    }
    counts = {
        "tests": str(len(cases)),
        "failures": str(tally["failure"]),
        "errors": str(tally["error"]),
        "time": time,
    }
    suites = ET.Element("testsuites", {"name": "dpwitness", **counts})
    suite = ET.SubElement(
        suites,
        "testsuite",
        {"name": line(document["title"], 200), "skipped": str(tally["skipped"]), **counts},
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in {
        "command": document.get("command"),
        **(document.get("environment") or {}),
    }.items():
        if value:
            ET.SubElement(properties, "property", name=line(name, 100), value=line(value))
    suite.extend(cases)
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def write(document: Json, entries: Sequence[Entry], file: Path, album: Album) -> None:
    """Write the JUnit XML of a document."""
    write_text(file, junit(document))


def _case(result: Json) -> ET.Element:
    headline = result.get("headline") or result["verdict"]
    seconds = number(result.get("seconds")) or 0.0
    case = ET.Element(
        "testcase",
        classname=_class_name(result),
        name=line(result["name"], 300),
        time=f"{seconds if 0 <= seconds < 1e9 else 0.0:.3f}",
    )
    outcome = _outcome(result)
    if outcome is not None:
        tag, kind = outcome
        ET.SubElement(
            case, tag, type=kind, message=line(excused(result) or headline, 500)
        ).text = line(headline)
    lines = [
        headline,
        *(
            f"{key}: {result[key]}"
            for key in ("claim", "relation", "seed", "trials")
            if result.get(key) is not None
        ),
    ]
    if result.get("source"):
        lines.append(f"source: {result['source']['file']}:{result['source']['line']}")
    ET.SubElement(case, "system-out").text = "\n".join(map(line, lines))
    return case


def _outcome(result: Json) -> tuple[str, str] | None:
    """Return the XML element and the type of an audit's outcome; None if the test case passes."""
    verdict = result["verdict"]
    if result.get("right") is False:
        return "failure", "WRONG"
    if verdict == Verdict.VIOLATED.value or violated_in_bits(result):
        if excused(result):
            return None if result.get("right") is True else ("skipped", "accepted")
        return "failure", verdict if verdict == Verdict.VIOLATED.value else "VIOLATED in low bits"
    if verdict == Verdict.ERROR.value:
        return "error", verdict
    return (
        ("skipped", verdict)
        if verdict in (Verdict.INCONCLUSIVE.value, Verdict.SUSPECT.value)
        else None
    )


def _class_name(result: Json) -> str:
    """Return the class name of a test case, by which JUnit tools group: the module or file of the
    target, or the kind of audit.
    """
    target = str((result.get("target") or {}).get("target") or "")
    file = str((result.get("source") or {}).get("file") or "").removesuffix(".py").replace("/", ".")
    return line(
        file
        or target.rpartition(":")[0]
        or f"dpwitness.{result.get('kind') or 'audit'}".replace(" ", "_"),
        300,
    )
