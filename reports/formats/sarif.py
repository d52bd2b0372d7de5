"""A report as SARIF 2.1.0, of the subset that code scanning on a public forge documents: alerts for what was refuted, and for nothing else.

An alert says that something was found. An audit that ended without a verdict has found nothing, and the absence of an alert must not look
like a pass: it stands in the invocation, as a notification, and ``executionSuccessful`` is false.
"""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from urllib.parse import quote

from dpwitness.auditors.results.trace_result import FINDINGS
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.reports.formats.excuses import excuse
from dpwitness.reports.words.fingerprint import RULES, fingerprint, rules_of
from dpwitness.reports.words.wording import line, slugs

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NIST = "https://doi.org/10.6028/NIST.SP.800-226"  # guidelines for evaluating claims of differential privacy
_LINKS = {  # where a rule is explained that does not follow from the guidelines
    "BITS": "https://doi.org/10.1145/2382196.2382264",  # Mironov 2012
    "SENSITIVITY": "https://doi.org/10.1007/11681878_14",  # Dwork, McSherry, Nissim and Smith 2006
}

MOST = 5_000  # results that a forge takes from one run, the gravest first
_UNKNOWN = "unknown-source"  # stands where no source is known: a forge refuses a result without a file

# rule -> title, what it says, what to do, precision, severity out of 10 (None: nothing that concerns security)
_RULES: dict[str, tuple[str, str, str, str, str | None]] = {
    "VALUE": (
        "Privacy claim refuted",
        "Outputs tell two neighbouring datasets apart better than the claim allows, by a bound certified at the stated confidence.",
        "Release nothing under this claim. Replay the witness with `dpwitness replay`, then repair the mechanism or withdraw the claim.",
        "very-high",
        "8.0",
    ),
    "BITS": (
        "Privacy claim refuted by floating-point bits",
        "The low bits of floating-point outputs tell two neighbouring datasets apart better than the claim allows.",
        "Round outputs to a grid that does not depend on the data, or draw discrete noise, before release.",
        "very-high",
        "5.0",
    ),
    "SENSITIVITY": (
        "Sensitivity bound exceeded",
        "A function moves further between two neighbouring datasets than the bound that noise is scaled to.",
        "Raise the bound at least by the ratio that was found, or change the function.",
        "high",
        "8.0",
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
        "Two runs with the same noise on neighbouring datasets differ where a private mechanism may not: a lead, no proof, until an audit "
        "certifies it.",
        "Look at the lines that the findings name; `dpwitness audit` with more trials may confirm them.",
        "medium",
        "5.0",
    ),
    "CHECK": (
        "A check of the mechanism failed",
        "A check that every private mechanism should pass has failed, for the reason in the message.",
        "Repair what the check names, or list it in `expected_failures` with the reason.",
        "medium",
        "5.0",
    ),
}
_GRAVITY = ("error", "warning", "note")


def sarif(document: Json) -> Json:
    """The log: one run, with a result for each rule that an audit breaks. The same document gives the same log."""
    found, silent, seen = list[Json](), list[Json](), Counter[str]()
    for result in document["results"]:
        rules = rules_of(result)
        for rule in rules:
            mark = fingerprint(result, rule)
            seen[mark] += 1
            found.append(_result(result, rule, mark, seen[mark]))
        if result["verdict"] == Verdict.ERROR.value or (result["verdict"] == Verdict.INCONCLUSIVE.value and not rules):
            silent.append(_without_verdict(result))
    notices = list(silent)
    if len(found) > MOST:
        notices.append({"level": "warning", "message": {"text": f"{len(found) - MOST:,} of {len(found):,} results were left out"}})
        found = sorted(found, key=lambda each: _GRAVITY.index(each["level"]))[:MOST]
    call = {"commandLine": line(document["command"], 4000)} if document.get("command") else {}
    driver = {
        "name": "dpwitness",
        "version": line((document.get("environment") or {}).get("dpwitness", "unknown"), 100),
        "informationUri": _NIST,
        "rules": [_rule(rule) for rule in RULES],
    }
    part = slugs([line(document["title"]).partition(" (")[0]])[0]  # not: what was broken off, which differs between runs of one command
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"dpwitness/{part}/"},
        "invocations": [{"executionSuccessful": not silent, **call, "toolExecutionNotifications": notices}],
        "columnKind": "unicodeCodePoints",
        "results": found,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: str) -> Json:
    title, said, advice, precision, severity = _RULES[rule]
    place = _LINKS.get(rule, _NIST)
    tags = ["differential-privacy", *(["security"] if severity else [])]
    return {
        "id": rule,
        "name": title.title().replace(" ", "").replace("-", ""),
        "shortDescription": {"text": title},
        "fullDescription": {"text": said},
        "help": {"text": f"{said} {advice}".replace("`", ""), "markdown": f"{said}\n\n**What to do.** {advice}\n\n[{title}]({place})"},
        "helpUri": place,
        "defaultConfiguration": {"level": "warning" if rule == "TRACE" else "error"},
        "properties": {"tags": tags, "precision": precision} | ({"security-severity": severity} if severity else {}),
    }


def _result(result: Json, rule: str, mark: str, again: int) -> Json:
    """`again` counts results of one fingerprint in this run, such as those of a black box and a white box on one target."""
    told = {
        "ruleId": rule,
        "ruleIndex": RULES.index(rule),
        "level": "warning" if rule == "TRACE" else "error",
        "message": {"text": _message(result, rule)},
        "locations": [_location(result, rule)],
        "partialFingerprints": {"dpwitness/v1": mark, "primaryLocationLineHash": f"{mark}:{again}"},
        "properties": {key: line(result[key]) for key in ("verdict", "claim", "relation", "evidence", "test") if result.get(key)},
    }
    related = [found for finding in _findings(result, rule)[1:] if (found := _where(finding.get("where")))]
    if related:
        told["relatedLocations"] = [{"physicalLocation": place} for place in related[:99]]
    if reason := excuse(result, rule):
        told["suppressions"] = [{"kind": "external", "status": "accepted", "justification": reason}]
    return told


def _findings(result: Json, rule: str) -> list[Json]:
    """Of a trace, those with a place first."""
    findings = (result.get("findings") or []) if rule == "TRACE" else []
    return sorted(findings, key=lambda finding: _where(finding.get("where")) is None)


def _message(result: Json, rule: str) -> str:
    said = result.get("headline") or result["verdict"]
    if rule == "TRACE":
        parts = [f"{f.get('kind')}: {f.get('told') or FINDINGS.get(str(f.get('kind')), '')}" for f in _findings(result, rule)]
        said = "; ".join(line(part, 300) for part in parts)
    elif rule == "BITS":
        level = result["bit_level"]
        said = f"low bits: epsilon > {level.get('epsilon_lower')}: {level.get('description') or ''}"
    elif rule == "CHECK":
        failed = [finding for finding in result.get("findings") or [] if finding.get("status") == "failed"]
        said = "; ".join(line(f"{f.get('check')}: {f.get('reason')}", 300) for f in failed) or said
    against = f" (claim {line(result['claim'], 100)})" if result.get("claim") else ""
    unknown = "" if _known(result, rule) else " [its source is not known]"
    return f"{_text(line(result['name'], 200))}: {_text(line(said))}{_text(against)}{unknown}"


def _text(text: str) -> str:
    """Brackets with a target behind them would be a link in a message of SARIF."""
    return text.replace("](", "] (")


def _without_verdict(result: Json) -> Json:
    level = "error" if result["verdict"] == Verdict.ERROR.value else "warning"
    text = f"{line(result['name'], 200)}: {line(result.get('headline') or result['verdict'])}; nothing is said about its claim"
    return {"level": level, "message": {"text": _text(text)}, "locations": [_location(result, "")]}


def _location(result: Json, rule: str) -> Json:
    place = _known(result, rule) or _physical(_UNKNOWN, 1)
    name = line(result["name"], 200)
    return {"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": name, "kind": "function"}]}


def _known(result: Json, rule: str) -> Json | None:
    """The line of the call for a trace; of the mechanism otherwise; of the test, where that is all that is known."""
    for finding in _findings(result, rule):
        if found := _where(finding.get("where")):
            return found
    source = result.get("source") or {}
    test = str(result.get("test") or "").partition("::")[0]
    return _place(source.get("file"), source.get("line")) or _place(test, 1)


def _where(text: object) -> Json | None:
    """Of ``FILE:LINE``."""
    file, _, number = str(text or "").rpartition(":")
    return _place(file, int(number)) if number.isdecimal() and len(number) < 10 else None


def _place(file: object, line: object) -> Json | None:
    """None for what does not lie below the root of the sources."""
    if not isinstance(file, str) or not isinstance(line, int) or not 0 < line < 2**31:
        return None
    path = PurePosixPath(file.replace("\\", "/"))
    inside = path.parts and not path.is_absolute() and ".." not in path.parts and ":" not in path.parts[0]
    return _physical(path.as_posix(), line) if inside and path.suffix and len(file) <= 1000 else None


def _physical(file: str, line: int) -> Json:
    # in full: readers differ in what they take an absent end for
    region = {"startLine": line, "startColumn": 1, "endLine": line, "endColumn": 2}
    uri = quote(file.encode("utf-8", "surrogatepass"), safe="/")
    return {"artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"}, "region": region}
