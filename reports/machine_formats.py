"""Formats of a report document for programs: SARIF and JUnit XML.

*SARIF* 2.1.0, in the subset that GitHub code scanning documents, has one alert per broken rule. An
audit without a verdict gives no alert. So that the missing alert does not look like a pass, the
audit becomes a notification of the invocation, and ``executionSuccessful`` is false.

*JUnit XML* has one test case per audit. It conforms to junit-10.xsd, the schema of xUnit 2.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import PurePosixPath
from urllib.parse import quote

from dpwitness.auditors.witnesses.kinds import kind_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.wording import number
from dpwitness.reports.summary import RULES, excuse, excused, fingerprint, outcome, rules_of
from dpwitness.reports.wording import line, slugs

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
# guidelines for evaluating claims of differential privacy
_NIST = "https://doi.org/10.6028/NIST.SP.800-226"
_LINKS = {  # references of the rules that do not follow from the guidelines
    "BITS": "https://doi.org/10.1145/2382196.2382264",  # Mironov 2012
    "SENSITIVITY": "https://doi.org/10.1007/11681878_14",  # Dwork, McSherry, Nissim and Smith 2006
}

MOST = 5_000  # GitHub's limit on results per run; the most severe come first
# file of results with unknown source: GitHub rejects a result without a file
_UNKNOWN_FILE = "unknown-source"

_LEVELS = ("error", "warning", "note", "none")


def sarif(document: Json) -> Json:
    """Return the SARIF log of a document: one run, with one result per broken rule of each audit.
    The log is deterministic.
    """
    found, undecided, fingerprint_counts = list[Json](), list[Json](), Counter[str]()
    for result in document["results"]:
        rules, verdict = rules_of(result), result["verdict"]
        for rule in rules:
            result_id = fingerprint(result, rule)
            fingerprint_counts[result_id] += 1
            found.append(_result(result, rule, result_id, fingerprint_counts[result_id]))
        if verdict == "ERROR" or (verdict == "INCONCLUSIVE" and not rules):
            reason = line(result.get("headline") or verdict)
            text = f"{line(result['name'], 200)}: {reason}; the claim was not tested"
            undecided.append(
                {
                    "level": "error" if verdict == "ERROR" else "warning",
                    "message": {"text": _without_links(text)},
                    "locations": [_location(result, [])],
                }
            )
    notices = list(undecided)
    if len(found) > MOST:
        text = f"{len(found) - MOST:,} of {len(found):,} results were left out"
        notices.append({"level": "warning", "message": {"text": text}})
        found = sorted(found, key=lambda each: _LEVELS.index(each["level"]))[:MOST]
    call = {"commandLine": line(document["command"], 4000)} if document.get("command") else {}
    driver = {
        "name": "dpwitness",
        "version": line((document.get("environment") or {}).get("dpwitness", "unknown"), 100),
        "informationUri": _NIST,
        "rules": [_rule(rule) for rule in RULES],
    }
    # The title's part in parentheses describes an interruption, which differs between runs of the
    # same command.
    part = slugs([line(document["title"]).partition(" (")[0]])[0]
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"dpwitness/{part}/"},
        "invocations": [
            {"executionSuccessful": not undecided, **call, "toolExecutionNotifications": notices}
        ],
        "columnKind": "unicodeCodePoints",
        "results": found,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: str) -> Json:
    title, description, advice, precision, severity = RULES[rule]
    place = _LINKS.get(rule, _NIST)
    tags = ["differential-privacy", *(["security"] if severity else [])]
    return {
        "id": rule,
        "name": title.title().replace(" ", "").replace("-", ""),
        "shortDescription": {"text": title},
        "fullDescription": {"text": description},
        "help": {
            "text": f"{description} {advice}".replace("`", ""),
            "markdown": f"{description}\n\n**What to do.** {advice}\n\n[{title}]({place})",
        },
        "helpUri": place,
        "defaultConfiguration": {"level": _level(rule)},
        "properties": {"tags": tags, "precision": precision}
        | ({"security-severity": severity} if severity else {}),
    }


def _level(rule: str) -> str:
    """Return the SARIF level of a rule; ``none`` for results that a person has to review, as their
    `kind` demands.
    """
    return {"TRACE": "warning", "SUSPECT": "none"}.get(rule, "error")


def _result(result: Json, rule: str, result_id: str, again: int) -> Json:
    """Return the SARIF result of a broken rule.

    `again` counts the results with the same fingerprint in the run, such as a black-box and a
    white-box audit of one target.
    """
    findings = _findings(result, rule)
    related = [place for _, place in findings[1:] if place]
    reason = excuse(result, rule)
    suppressions = [{"kind": "external", "status": "accepted", "justification": reason}]
    return {
        "ruleId": rule,
        "ruleIndex": list(RULES).index(rule),
        "level": _level(rule),
        **({"kind": "review"} if rule == "SUSPECT" else {}),
        "message": {"text": _message(result, rule, findings)},
        "locations": [_location(result, findings)],
        "partialFingerprints": {
            "dpwitness/v1": result_id,
            "primaryLocationLineHash": f"{result_id}:{again}",
        },
        "properties": {
            key: line(result[key])
            for key in ("verdict", "claim", "relation", "evidence", "test")
            if result.get(key)
        },
        **(
            {"relatedLocations": [{"physicalLocation": place} for place in related[:99]]}
            if related
            else {}
        ),
        **({"suppressions": suppressions} if reason else {}),
    }


Findings = list[tuple[str, Json | None]]  # texts, with the places in the sources


def _findings(result: Json, rule: str) -> Findings:
    """Return the findings that break a rule, those with a place first; none for other rules."""
    kind = kind_of(result)
    findings: Findings = []
    for text, where in kind.findings(result) if rule == kind.suspicion else []:
        file, _, number = str(where or "").rpartition(":")
        is_line = number.isdecimal() and len(number) < 10
        findings.append((text, _place_in_sources(file, int(number) if is_line else 0)))
    return sorted(findings, key=lambda finding: finding[1] is None)


def _message(result: Json, rule: str, findings: Findings) -> str:
    description = result.get("headline") or result["verdict"]
    if findings:
        description = "; ".join(line(text, 300) for text, _ in findings)
    elif rule == "BITS":
        level = result["bit_level"]
        description = (
            f"float rounding: epsilon > {level.get('epsilon_lower')}: "
            f"{level.get('description') or ''}"
        )
    against = f" (claim {line(result['claim'], 100)})" if result.get("claim") else ""
    unknown = "" if _source_place(result, findings) else " [source file unknown]"
    return (
        f"{_without_links(line(result['name'], 200))}: "
        f"{_without_links(line(description))}{_without_links(against)}{unknown}"
    )


def _without_links(text: str) -> str:
    """Break up "](" in a text, which a SARIF message would show as a link."""
    return text.replace("](", "] (")


def _location(result: Json, findings: Findings) -> Json:
    name = line(result["name"], 200)
    return {
        "physicalLocation": _source_place(result, findings) or _physical_location(_UNKNOWN_FILE, 1),
        "logicalLocations": [{"fullyQualifiedName": name, "kind": "function"}],
    }


def _source_place(result: Json, findings: Findings) -> Json | None:
    """Return the place of a result in the sources: of the call for a trace, else of the mechanism,
    else of the test; None if unknown.
    """
    source = result.get("source") or {}
    test = str(result.get("test") or "").partition("::")[0]
    places = (
        *(place for _, place in findings),
        _place_in_sources(source.get("file"), source.get("line")),
        _place_in_sources(test, 1),
    )
    return next(filter(None, places), None)


def _place_in_sources(file: object, line: object) -> Json | None:
    """Return the SARIF location of a file and line; None if the file is not below the root of the
    sources.
    """
    if not isinstance(file, str) or not isinstance(line, int) or not 0 < line < 2**31:
        return None
    path = PurePosixPath(file.replace("\\", "/"))
    outside = path.is_absolute() or ".." in path.parts or ":" in str(path).partition("/")[0]
    if outside or not path.suffix or len(file) > 1000:
        return None
    return _physical_location(path.as_posix(), line)


def _physical_location(file: str, line: int) -> Json:
    # The end is given because tools interpret a missing end differently.
    region = {"startLine": line, "startColumn": 1, "endLine": line, "endColumn": 2}
    uri = quote(file.encode("utf-8", "surrogatepass"), safe="/")
    return {"artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"}, "region": region}


def junit(document: Json) -> str:
    """Return the JUnit XML of a document.

    An audit is a failure if the claim is violated by values or low bits, an error if the audit
    failed, and skipped if it has no verdict. In a suite, where some mechanisms are wrong on
    purpose, an audit is a failure if its verdict contradicts the known truth.
    """
    cases = [_case(result) for result in document["results"]]
    failures, errors, skipped = (
        str(sum(case.find(tag) is not None for case in cases))
        for tag in ("failure", "error", "skipped")
    )
    time = f"{sum(float(case.get('time', 0)) for case in cases):.3f}"
    counts = {"tests": str(len(cases)), "failures": failures, "errors": errors, "time": time}
    suites = ET.Element("testsuites", {"name": "dpwitness", **counts})
    suite = ET.SubElement(
        suites, "testsuite", {"name": line(document["title"], 200), "skipped": skipped, **counts}
    )
    properties = ET.SubElement(suite, "properties")
    run = {"command": document.get("command"), **(document.get("environment") or {})}
    for name, value in run.items():
        if value:
            ET.SubElement(properties, "property", name=line(name, 100), value=line(value))
    suite.extend(cases)
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _case(result: Json) -> ET.Element:
    headline, seconds = result.get("headline") or result["verdict"], number(result.get("seconds"))
    source, target = result.get("source") or {"file": ""}, result.get("target") or {}
    places = (
        source["file"].removesuffix(".py").replace("/", "."),
        str(target.get("target") or "").rpartition(":")[0],
        f"dpwitness.{result.get('kind') or 'audit'}".replace(" ", "_"),
    )
    case = ET.Element(
        "testcase",
        # by which JUnit tools group
        classname=line(next(filter(None, places)), 300),
        name=line(result["name"], 300),
        time=f"{seconds if seconds and 0 <= seconds < 1e9 else 0.0:.3f}",
    )
    element = _element(result)
    if element is not None:
        tag, reason = element
        message = line(excused(result) or headline, 500)
        ET.SubElement(case, tag, type=reason, message=message).text = line(headline)
    facts = {key: result.get(key) for key in ("claim", "relation", "seed", "trials")}
    if source["file"]:
        facts["source"] = f"{source['file']}:{source['line']}"
    lines = [headline, *(f"{key}: {value}" for key, value in facts.items() if value is not None)]
    ET.SubElement(case, "system-out").text = "\n".join(map(line, lines))
    return case


def _element(result: Json) -> tuple[str, str] | None:
    """Return the XML element of an audit's outcome and its type; None if the test case passes."""
    verdict, contradicts = result["verdict"], result.get("right") is False
    elements = {
        "violated": (
            "failure",
            "VIOLATED" if verdict == "VIOLATED" else "VIOLATED by float rounding",
        ),
        "accepted": ("skipped", "accepted"),
        "undecided": ("error" if verdict == "ERROR" else "skipped", verdict),
    }
    found = elements.get(outcome(result))
    return ("failure", "WRONG") if found and contradicts and found[0] == "failure" else found
