"""SARIF, JUnit and the summary of a job: valid against the published schemas, whatever stands in a
document; places; fingerprints.
"""

import copy
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from report_schemas import JUNIT, SARIF

from dpwitness import Pair, audit, audit_sensitivity, certify
from dpwitness.mechanisms import Gaussian, Laplace, Records
from dpwitness.reports import result_json
from dpwitness.reports.document import build_document
from dpwitness.reports.machine_formats import junit, sarif
from dpwitness.reports.summary import RULES

NEAR = Pair(np.array([0.0]), np.array([1.0]))
HERE = Path(__file__).resolve()

_URI = re.compile(r"[A-Za-z0-9._~%/-]+")


def leaky(dataset, size, rng):
    return np.asarray(dataset)[0] + rng.laplace(scale=0.2, size=size)


def line_of(text):
    return next(
        i for i, line in enumerate(HERE.read_text().splitlines(), start=1) if line.startswith(text)
    )


def results_of(log):
    return log["runs"][0]["results"]


def valid_sarif(document):
    """The log, held against the schema and against what a forge requires besides; texts and
    addresses included.
    """
    log = sarif(document)
    assert json.loads(json.dumps(log)) == log == sarif(copy.deepcopy(document))
    problems = [f"{list(error.path)}: {error.message[:200]}" for error in SARIF.iter_errors(log)]
    assert not problems
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(RULES)
    for rule in rules:
        assert (
            all(len(rule[key]["text"]) <= 1024 for key in ("shortDescription", "fullDescription"))
            and len(rule["name"]) <= 255
        )
        assert (
            rule["help"]["text"]
            and rule["help"]["markdown"]
            and rule["helpUri"].startswith("https://")
        )
        assert (
            len(rule["properties"]["tags"]) <= 10
            and 0 < float(rule["properties"].get("security-severity", 1)) <= 10
        )
        assert rule["properties"]["precision"] in ("very-high", "high", "medium", "low")
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] and result["level"] in (
            "error",
            "warning",
            "note",
        )
        assert len(result["locations"]) == 1 and re.fullmatch(
            r"[0-9a-f]{32}:\d+", result["partialFingerprints"]["primaryLocationLineHash"]
        )
    for said in [*run["results"], *run["invocations"][0]["toolExecutionNotifications"]]:
        text = said["message"]["text"]
        assert text.isprintable() and len(text) < 4000 and "](" not in text
        for place in [*said.get("locations", []), *said.get("relatedLocations", [])]:
            artifact, region = (
                place["physicalLocation"]["artifactLocation"],
                place["physicalLocation"]["region"],
            )
            assert (
                _URI.fullmatch(artifact["uri"])
                and not artifact["uri"].startswith("/")
                and ".." not in artifact["uri"].split("/")
            )
            assert (
                artifact["uriBaseId"] == "%SRCROOT%"
                and region["startLine"] == region["endLine"] >= 1
            )
            assert 1 <= region["startColumn"] < region["endColumn"]
    return log


def valid_junit(document):
    text = junit(document)
    JUNIT.validate(text)
    suites = ET.fromstring(text)
    assert (
        int(suites.get("tests")) == len(suites.findall(".//testcase")) == len(document["results"])
    )
    for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert int(suites.find("testsuite").get(count)) == len(suites.findall(f".//{tag}"))
    return suites


@pytest.fixture(scope="module")
def found():
    """A result of each kind, by its name."""
    common = {"trials": 20_000, "seed": 1}
    laplace = audit(Laplace(1.0), pair=NEAR, **common, name="kept")
    traced = result_json(laplace) | {
        "kind": "trace",
        "name": "traced",
        "verdict": "INCONCLUSIVE",
        "headline": "TRACE",
        "bit_level": None,
    }
    traced["findings"] = [
        {"kind": "ACCOUNT", "told": "less was told", "where": ""},
        {"kind": "NOISE", "told": "too small", "where": "lib/noise file.py:12"},
        {"kind": "SCALE", "told": "of the data", "where": "lib/other.py:7"},
    ]
    every = [
        laplace,
        audit(leaky, claim="pure:1", pair=NEAR, **common, name="broken"),
        certify(Gaussian(1.0, 1e-5, noise_multiplier=0.5), name="exact"),
        audit_sensitivity(np.mean, 0.2, Records(4), evaluations=300, name="too tight"),
        audit(lambda dataset, size, rng: 1 / 0, claim="pure:1", pair=NEAR, **common, name="raises"),
        traced,
    ]
    return {data["name"]: data for data in (result_json(each) for each in every)}


@pytest.fixture
def document(found):
    return copy.deepcopy(
        build_document(list(found.values()), title="Audit of all", command="dpwitness audit all")
    )


def test_sarif_has_an_alert_for_what_was_refuted_and_for_nothing_else(document, found):
    log = valid_sarif(document)
    told = {
        (result["message"]["text"].partition(":")[0], result["ruleId"], result["level"])
        for result in results_of(log)
    }
    # where the platform's Laplace shows them at this budget
    bits = {("kept", "BITS", "error"), ("broken", "BITS", "error")} & told
    assert told - bits == {
        ("broken", "VALUE", "error"),
        ("exact", "VALUE", "error"),
        ("too tight", "SENSITIVITY", "error"),
        ("traced", "TRACE", "warning"),
    }
    call = log["runs"][0]["invocations"][0]
    assert call["executionSuccessful"] is False and call["commandLine"] == "dpwitness audit all"
    (notice,) = call["toolExecutionNotifications"]
    assert notice["level"] == "error" and notice["message"]["text"].startswith("raises: ERROR")
    assert log["runs"][0]["automationDetails"]["id"] == "dpwitness/audit-of-all/"
    document["results"] = [found["kept"]]
    assert valid_sarif(document)["runs"][0]["invocations"][0]["executionSuccessful"] is True


def test_alerts_stand_at_the_line_of_the_mechanism_or_of_the_call(document):
    places = {}
    for result in results_of(valid_sarif(document)):
        place = result["locations"][0]["physicalLocation"]
        places[result["message"]["text"].partition(":")[0]] = (
            place["artifactLocation"]["uri"],
            place["region"]["startLine"],
        )
    assert places["broken"][0].endswith("test_reports_ci.py") and places["broken"][1] == line_of(
        "def leaky"
    )
    assert (
        places["exact"][0].endswith("mechanisms/textbook/additive.py")
        and places["too tight"][0] == "numpy/_core/fromnumeric.py"
    )
    assert places["traced"] == ("lib/noise%20file.py", 12)
    (traced,) = [result for result in results_of(sarif(document)) if result["ruleId"] == "TRACE"]
    assert [
        each["physicalLocation"]["region"]["startLine"] for each in traced["relatedLocations"]
    ] == [7]
    assert "less was told" in traced["message"]["text"]


def test_a_result_without_a_source_is_valid_and_says_so(document):
    broken = next(result for result in document["results"] if result["name"] == "broken")
    for source, test, uri in (
        (None, None, "unknown-source"),
        (None, "tests/test_mine.py::test_it[a]", "tests/test_mine.py"),
        ({"file": "/etc/passwd.py", "line": 3}, None, "unknown-source"),
        ({"file": "../up.py", "line": 3}, None, "unknown-source"),
        ({"file": "C:\\mine.py", "line": 3}, None, "unknown-source"),
        ({"file": "ü b/\ud800#?.py", "line": 3}, None, "%C3%BC%20b/%ED%A0%80%23%3F.py"),
    ):
        one = broken | {"source": source, "test": test}
        results = results_of(valid_sarif(document | {"results": [one]}))
        assert {
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
            for result in results
        } == {uri}
        assert all(
            ("file unknown" in result["message"]["text"]) == (uri == "unknown-source")
            for result in results
        )
        valid_junit(document | {"results": [one]})


def test_junit_tells_failures_errors_and_what_has_no_verdict(document, found):
    suites = valid_junit(document)
    kinds = {
        case.get("name"): [each.tag for each in case if each.tag != "system-out"]
        for case in suites.iter("testcase")
    }
    kept = ["failure"] if (found["kept"]["bit_level"] or {}).get("verdict") == "VIOLATED" else []
    assert kinds == {
        "kept": kept,
        "broken": ["failure"],
        "exact": ["failure"],
        "too tight": ["failure"],
        "raises": ["error"],
        "traced": ["skipped"],
    }
    broken = next(case for case in suites.iter("testcase") if case.get("name") == "broken")
    assert broken.get("classname").endswith("test_reports_ci") and broken.findtext(
        "system-out"
    ).startswith("VIOLATED")
    assert re.fullmatch(r"\d+\.\d{3}", broken.get("time")) and "source: " in broken.findtext(
        "system-out"
    )
