"""SARIF, JUnit and the summary of a job: valid against the published schemas, whatever stands in a
document; places; fingerprints.
"""

import copy
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from report_schemas import JUNIT, SARIF

from dpwitness import InvalidArgument, Pair, audit, audit_sensitivity, certify
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.cli import main
from dpwitness.mechanisms import Gaussian, Laplace, Records
from dpwitness.reports import result_json
from dpwitness.reports.audit.document import build_document, read_document
from dpwitness.reports.formats.machine_formats import MOST, junit, sarif
from dpwitness.reports.formats.markdown_formats import append_summary, step_summary
from dpwitness.reports.phrasing.summary import RULES

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


def test_what_was_accepted_or_is_expected_is_suppressed(document, found):
    reason = {
        "reason": "rewritten [in May](javascript:x)",
        "expires": "2030-01-01",
        "rules": ["VALUE"],
    }
    accepted = found["broken"] | {
        "accepted": reason,
        "bit_level": {"verdict": "VIOLATED", "epsilon_lower": 2.0},
    }
    results = results_of(valid_sarif(document | {"results": [accepted]}))
    assert [(result["ruleId"], "suppressions" in result) for result in results] == [
        ("VALUE", True),
        ("BITS", False),
    ]
    (only,) = results[0]["suppressions"]
    assert (
        (only["kind"], only["status"]) == ("external", "accepted")
        and "May" in only["justification"]
        and "2030" in only["justification"]
    )
    assert valid_junit(document | {"results": [accepted]}).find(".//failure") is not None
    accepted["bit_level"] = None
    assert (
        valid_junit(document | {"results": [accepted]}).find(".//skipped").get("type") == "accepted"
    )
    suite = [
        found["broken"] | {"right": True, "expected": "violated"},
        found["kept"] | {"right": False, "expected": "violated"},
    ]
    assert all(
        "suppressions" in result
        for result in results_of(valid_sarif(document | {"results": suite[:1]}))
    )
    cases = valid_junit(document | {"results": suite}).findall(".//testcase")
    assert [case.find("failure") is not None for case in cases] == [False, True]
    assert "1 that contradict the known truth" in step_summary(document | {"results": suite})


@pytest.mark.slow
def test_a_forge_s_limit_keeps_the_gravest(document, found):
    many = [found["traced"]] * 3 + [found["broken"] | {"bit_level": None}] * MOST
    log = valid_sarif(document | {"results": many})
    assert len(results_of(log)) == MOST and {result["level"] for result in results_of(log)} == {
        "error"
    }
    assert (
        "3 of 5,003"
        in log["runs"][0]["invocations"][0]["toolExecutionNotifications"][-1]["message"]["text"]
    )


def test_checks_have_their_rule(document):
    finding = {"check": "check_same_seed", "status": "failed", "reason": "outputs differ"}
    one = {
        "kind": "checks",
        "name": "mine",
        "verdict": "ERROR",
        "headline": "h",
        "findings": [finding],
        "target": None,
    }
    (result,) = results_of(valid_sarif(document | {"results": [one]}))
    assert result["ruleId"] == "CHECK" and "outputs differ" in result["message"]["text"]


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


def test_the_summary_answers_first_and_ranks_the_worst_first(document, found, tmp_path):
    lines = step_summary(document).splitlines()
    leaks = (found["kept"]["bit_level"] or {}).get("verdict") == "VIOLATED"
    assert lines[2].startswith(f"**A privacy claim is violated in {3 + leaks} of 6.**")
    rows = [line for line in lines if line.startswith("| ") and "---" not in line][1:]
    assert rows[-1].split("|")[1].strip() in ("NOT REFUTED", "INCONCLUSIVE") and rows[0].split("|")[
        1
    ].strip().startswith("VIOLATED")
    many = document | {"results": [found["kept"]] * 5_000}
    assert len(step_summary(many)) < 100_000 and "And 4,900 more" in step_summary(many)
    page = tmp_path / "page.md"
    page.write_text("before\n")
    assert append_summary(document, page).read_text() == "before\n" + step_summary(document)
    page.write_text("x" * 999_000)
    assert (
        "The table is left out" in append_summary(document, page).read_text()[999_000:]
        and page.stat().st_size < 2**20
    )


def test_a_document_with_a_wrong_source_is_refused(document, tmp_path):
    for source in (
        "mine.py",
        {"file": "a.py"},
        {"file": "a.py", "line": 0},
        {"file": "a.py", "line": "1"},
    ):
        document["results"][0]["source"] = source
        (tmp_path / "audit.json").write_text(json.dumps(document))
        with pytest.raises(InvalidArgument, match="source"):
            read_document(tmp_path / "audit.json")


TARGET = (
    "import numpy as np\n\n\ndef f(dataset, size, rng):\n    return dataset[0] + "
    "rng.laplace(scale=0.2, size=size)\n"
)


@pytest.fixture
def audit_of_f(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    (tmp_path / "mine.py").write_text(TARGET)
    command = [
        "audit",
        "mine.py:f",
        "--claim",
        "pure:1",
        "--d0",
        "[0]",
        "--d1",
        "[1]",
        "--trials",
        "4000",
        "--in-process",
    ]
    return lambda *more: main([*command, *more])


def test_commands_append_a_summary_and_a_report_has_sarif(
    audit_of_f, tmp_path, monkeypatch, capsys
):
    assert audit_of_f("--summary", "page.md", "--report", "out") == 1
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("## Audit of f") and "`mine.py:4`" in page
    log = json.loads((tmp_path / "out" / "audit.sarif").read_text())
    assert (
        not list(SARIF.iter_errors(log))
        and results_of(log)[0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 4
    )
    assert main(["report", "out/audit.json", "--format", "junit,sarif", "--no-plots"]) == 0
    JUNIT.validate((tmp_path / "out" / "audit.junit.xml").read_text())
    assert json.loads((tmp_path / "out" / "audit.sarif").read_text()) == log
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "job.md"))
    assert audit_of_f() == 1 and (tmp_path / "job.md").read_text() == page
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "job.md"))
    capsys.readouterr()
    assert audit_of_f() == 1  # the verdict
    assert "summary could not be written" in capsys.readouterr().err


TESTS = """
import numpy as np, pytest
from dpwitness import Pair
near = Pair(np.array([0.0]), np.array([1.0]))

@pytest.mark.dp_audit(claim="pure:1", pair=near, trials=4000)
def test_marked():
    return lambda dataset, size, rng: dataset[0] + rng.laplace(size=size)

@pytest.mark.parametrize("scale", [0.2, "\\x1b<\\x00"])
def test_broken(dp_audit, scale):
    dp_audit(lambda d, size, rng: d[0] + rng.laplace(scale=0.2, size=size), claim="pure:1", pair=near, trials=4000, name=str(scale))

@pytest.fixture
def late():
    yield
    raise RuntimeError("at the end \\x07")

def test_late(dp_audit, late):
    test_broken(dp_audit, 1)

@pytest.mark.skip(reason="for \\x1b no reason")
def test_skipped(): pass

def test_plain(): pass
"""


@pytest.mark.slow
def test_pytest_with_workers_writes_valid_xml_with_what_audits_found(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "job.md"))
    (tmp_path / "test_it.py").write_text(TESTS)
    done = shell.pytest("-q", "-n", "2", "--junitxml", "out.xml", "--dp-report", "out/audit.md")
    assert done.returncode == 1, done.stdout + done.stderr
    JUNIT.validate(tmp_path / "out.xml")
    found = {
        each.get("name"): each.get("value")
        for each in ET.parse(tmp_path / "out.xml").findall(".//testsuite/properties/property")
    }
    assert found["test_it.py::test_marked dpwitness.verdict"] == "NOT_REFUTED"
    assert (
        found["test_it.py::test_broken[0.2] dpwitness.verdict"]
        == found["test_it.py::test_late dpwitness.verdict"]
        == "VIOLATED"
    )
    assert float(found["test_it.py::test_broken[0.2] dpwitness.certified"]) > 1
    assert not any("test_plain" in name or "test_skipped" in name for name in found)
    log = json.loads((tmp_path / "out" / "audit.sarif").read_text())
    assert not list(SARIF.iter_errors(log)) and len(results_of(log)) == 3
    places = {
        each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for each in results_of(log)
    }
    assert places == {"test_it.py"}
    assert (
        (tmp_path / "job.md")
        .read_text()
        .startswith("## Audits\n\n**A privacy claim is violated in 3 of 4.**")
    )


@pytest.mark.slow
def test_pytest_puts_properties_where_the_family_has_them(shell, tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    assert (
        shell.pytest(
            "-k", "marked or plain", "--junitxml", "out.xml", "-o", "junit_family=xunit1"
        ).returncode
        == 0
    )
    tree = ET.parse(tmp_path / "out.xml")
    assert tree.find(".//testsuite/properties") is None
    cases = {
        case.get("name"): {each.get("name"): each.get("value") for each in case.iter("property")}
        for case in tree.iter("testcase")
    }
    assert cases["test_plain"] == {} and cases["test_marked"]["dpwitness.claim"] == "pure:1"
    assert (
        cases["test_marked"]["dpwitness.verdict"] == "NOT_REFUTED"
        and float(cases["test_marked"]["dpwitness.detectable"]) > 1
    )


DOCS = HERE.parents[2] / "docs"


def test_the_workflow_uses_options_that_exist(capsys):
    yaml = pytest.importorskip("yaml")
    flow = yaml.safe_load((DOCS / "workflows" / "dpwitness.yml").read_text())
    # YAML reads the key `on` as true
    assert flow[True]["pull_request"] is None or flow[True]["pull_request"]
    steps = [step for job in flow["jobs"].values() for step in job["steps"]]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    assert any(
        step.get("uses", "").startswith("github/codeql-action/upload-sarif@") for step in steps
    )
    assert {"security-events": "write", "contents": "read"}.items() <= flow["jobs"]["audit"][
        "permissions"
    ].items()
    runs = re.sub(r"\\\n\s*", " ", "\n".join(step["run"] for step in steps if "run" in step))
    seen = 0
    for tool, words in re.findall(
        r"^\s*(?:python -m )?(dpwitness|pytest) (.*)$", runs, re.MULTILINE
    ):
        verb = words.split()[0] if tool == "dpwitness" else ""
        shown = subprocess.run(
            [sys.executable, "-m", *filter(None, [tool, verb]), "--help"],
            capture_output=True,
            text=True,
        ).stdout
        for option in re.findall(r"(?<!\S)(--?[a-z][a-z0-9-]*)", words):
            seen += 1
            told = option.replace("--junitxml", "--junit-xml")  # pytest takes both and tells one
            assert re.search(rf"(?<![\w-]){told}(?![\w-])", shown), (tool, option)
    assert seen >= 6


def test_rules_have_their_place_in_the_page():
    text = (DOCS / "guides" / "ci.md").read_text()
    assert all(f"(rule-{rule.lower()})=" in text and f"`{rule}`" in text for rule in RULES)
    assert "{literalinclude} ../workflows/dpwitness.yml" in text and {
        verdict.value for verdict in Verdict
    } >= {"VIOLATED", "ERROR"}
