"""SARIF 2.1.0 format of a report, in the subset that GitHub code scanning documents, with one alert
per broken rule.

An audit without a verdict gives no alert. So that the missing alert does not look like a pass, the
audit becomes a notification of the invocation, and ``executionSuccessful`` is false.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from dpwitness.auditors.witnesses.kinds import kind_of
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.atomic_files import write_json
from dpwitness.core.values.json_reader import Json
from dpwitness.reports.phrasing.facts import Entry
from dpwitness.reports.phrasing.summary import RULES, excuse, fingerprint, rules_of
from dpwitness.reports.phrasing.wording import line, slugs
from dpwitness.reports.plots.album import Album

SUFFIX = ".sarif"
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

# rule -> (title, description, advice, precision, severity out of 10; None if the rule does not
# concern security)
_RULES: dict[str, tuple[str, str, str, str, str | None]] = {
    "VALUE": (
        "Privacy claim refuted",
        "Outputs distinguish two neighboring datasets better than the claim allows, by a "
        "bound certified at the stated confidence.",
        "Release nothing under this claim. Replay the witness with `dpwitness replay`, then "
        "repair the mechanism or withdraw the claim.",
        "very-high",
        "8.0",
    ),
    "BITS": (
        "Privacy claim refuted by floating-point bits",
        "The low bits of floating-point outputs distinguish two neighboring datasets better "
        "than the claim allows.",
        "Round outputs to a grid that does not depend on the data, or draw discrete noise, "
        "before release.",
        "very-high",
        "5.0",
    ),
    "SENSITIVITY": (
        "Sensitivity bound exceeded",
        "A function changes more between two neighboring datasets than the sensitivity bound "
        "that scales the noise.",
        "Raise the bound at least by the ratio that was found, or change the function.",
        "high",
        "8.0",
    ),
    "STABILITY": (
        "Stability map exceeded",
        "Two inputs within a distance have outputs that are further apart than the stability "
        "map allows, in exact arithmetic.",
        "Replay the witness with `dpwitness replay`, then raise the map or repair the "
        "transformation.",
        "very-high",
        "8.0",
    ),
    "ACCOUNTANT": (
        "Privacy figure too low",
        "An accountant returns a figure below the exact one, so a mechanism that relies on "
        "it leaks more than stated.",
        "Replay the witness with `dpwitness replay`, then repair the accountant, and compute "
        "the figures of past releases again.",
        "very-high",
        "8.0",
    ),
    "METAMORPHIC": (
        "Metamorphic relation broken",
        "Several runs differ where the runs of a private mechanism must agree: rows in "
        "another order, epsilon 0, or doubled epsilon.",
        "Replay the witness with `dpwitness replay`, then repair the function, or do not "
        "claim the relation.",
        "high",
        "5.0",
    ),
    "UTILITY": (
        "Utility claim refuted",
        "The error of a mechanism is larger than claimed, at the stated confidence.",
        "Promise less, or repair the mechanism.",
        "high",
        None,
    ),
    "TRACE": (
        "Noise calls depend on the data",
        "Two runs with the same noise on neighboring datasets differ where runs of a private "
        "mechanism must agree: a suspicion, "
        "not a proof, until an audit certifies a violation.",
        "Look at the lines that the findings name; `dpwitness audit` with more trials may "
        "confirm them.",
        "medium",
        "5.0",
    ),
    "CHECK": (
        "A check of the mechanism failed",
        "A check that every private mechanism should pass has failed, for the reason in the "
        "message.",
        "Fix the problem that the check names, or list the check in `expected_failures` with "
        "the reason.",
        "medium",
        "5.0",
    ),
    "SUSPECT": (
        "A guessed privacy claim is refuted",
        "Outputs distinguish two neighboring datasets better than a claim allows that a scan "
        "has guessed from the signature or docstring.",
        "Read what is guessed. If the library promises this, delete the line `guessed` of "
        "the target, and audit it again.",
        "medium",
        "3.0",
    ),
}
_LEVELS = ("error", "warning", "note", "none")


def sarif(document: Json) -> Json:
    """Return the SARIF log of a document: one run, with one result per broken rule of each audit.
    The log is deterministic.
    """
    found, undecided, fingerprint_counts = list[Json](), list[Json](), Counter[str]()
    for result in document["results"]:
        rules = rules_of(result)
        for rule in rules:
            result_id = fingerprint(result, rule)
            fingerprint_counts[result_id] += 1
            found.append(_result(result, rule, result_id, fingerprint_counts[result_id]))
        if result["verdict"] == Verdict.ERROR.value or (
            result["verdict"] == Verdict.INCONCLUSIVE.value and not rules
        ):
            undecided.append(_notification(result))
    notices = list(undecided)
    if len(found) > MOST:
        notices.append(
            {
                "level": "warning",
                "message": {
                    "text": f"{len(found) - MOST:,} of {len(found):,} results were left out"
                },
            }
        )
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


def write(document: Json, entries: Sequence[Entry], file: Path, album: Album) -> None:
    """Write the SARIF log of a document."""
    write_json(file, sarif(document))


def _rule(rule: str) -> Json:
    title, description, advice, precision, severity = _RULES[rule]
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
    alert = {
        "ruleId": rule,
        "ruleIndex": RULES.index(rule),
        "level": _level(rule),
        **({"kind": "review"} if rule == "SUSPECT" else {}),
        "message": {"text": _message(result, rule)},
        "locations": [_location(result, rule)],
        "partialFingerprints": {
            "dpwitness/v1": result_id,
            "primaryLocationLineHash": f"{result_id}:{again}",
        },
        "properties": {
            key: line(result[key])
            for key in ("verdict", "claim", "relation", "evidence", "test")
            if result.get(key)
        },
    }
    related = [
        found for _, where in _findings(result, rule)[1:] if (found := _parse_location(where))
    ]
    if related:
        alert["relatedLocations"] = [{"physicalLocation": place} for place in related[:99]]
    if reason := excuse(result, rule):
        alert["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": reason}
        ]
    return alert


def _findings(result: Json, rule: str) -> list[tuple[str, str]]:
    """Return text and place of the findings that break a rule, those with a source location first;
    an empty list for other rules.
    """
    kind = kind_of(result)
    findings = kind.findings(result) if rule == kind.suspicion else []
    return sorted(findings, key=lambda finding: _parse_location(finding[1]) is None)


def _message(result: Json, rule: str) -> str:
    description = result.get("headline") or result["verdict"]
    findings = _findings(result, rule)
    if findings:
        description = "; ".join(line(text, 300) for text, _ in findings)
    elif rule == "BITS":
        level = result["bit_level"]
        description = (
            f"low bits: epsilon > {level.get('epsilon_lower')}: {level.get('description') or ''}"
        )
    against = f" (claim {line(result['claim'], 100)})" if result.get("claim") else ""
    unknown = "" if _source_location(result, rule) else " [source file unknown]"
    return (
        f"{_without_links(line(result['name'], 200))}: "
        f"{_without_links(line(description))}{_without_links(against)}{unknown}"
    )


def _without_links(text: str) -> str:
    """Break up "](" in a text, which a SARIF message would show as a link."""
    return text.replace("](", "] (")


def _notification(result: Json) -> Json:
    level = "error" if result["verdict"] == Verdict.ERROR.value else "warning"
    text = (
        f"{line(result['name'], 200)}: {line(result.get('headline') or result['verdict'])}; the "
        "claim was not tested"
    )
    return {
        "level": level,
        "message": {"text": _without_links(text)},
        "locations": [_location(result, "")],
    }


def _location(result: Json, rule: str) -> Json:
    place = _source_location(result, rule) or _physical_location(_UNKNOWN_FILE, 1)
    name = line(result["name"], 200)
    return {
        "physicalLocation": place,
        "logicalLocations": [{"fullyQualifiedName": name, "kind": "function"}],
    }


def _source_location(result: Json, rule: str) -> Json | None:
    """Return the source location of a result: of the call for a trace, else of the mechanism, else
    of the test; None if unknown.
    """
    for _, where in _findings(result, rule):
        if found := _parse_location(where):
            return found
    source = result.get("source") or {}
    test = str(result.get("test") or "").partition("::")[0]
    return _location_in_sources(source.get("file"), source.get("line")) or _location_in_sources(
        test, 1
    )


def _parse_location(text: object) -> Json | None:
    """Return the SARIF location of a text ``FILE:LINE``; None if the text has another form."""
    file, _, number = str(text or "").rpartition(":")
    return (
        _location_in_sources(file, int(number)) if number.isdecimal() and len(number) < 10 else None
    )


def _location_in_sources(file: object, line: object) -> Json | None:
    """Return the SARIF location of a file and line; None if the file is not below the root of the
    sources.
    """
    if not isinstance(file, str) or not isinstance(line, int) or not 0 < line < 2**31:
        return None
    path = PurePosixPath(file.replace("\\", "/"))
    inside = (
        path.parts
        and not path.is_absolute()
        and ".." not in path.parts
        and ":" not in path.parts[0]
    )
    return (
        _physical_location(path.as_posix(), line)
        if inside and path.suffix and len(file) <= 1000
        else None
    )


def _physical_location(file: str, line: int) -> Json:
    # The end is given because tools interpret a missing end differently.
    region = {"startLine": line, "startColumn": 1, "endLine": line, "endColumn": 2}
    uri = quote(file.encode("utf-8", "surrogatepass"), safe="/")
    return {"artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"}, "region": region}
