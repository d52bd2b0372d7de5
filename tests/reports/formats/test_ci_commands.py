"""Reports in CI: step summaries, SARIF and JUnit files of commands and of pytest, and the published
workflow.
"""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest
import xmlschema

from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.cli import main
from dpwitness.reports.phrasing.fingerprint import RULES

SCHEMAS = Path(__file__).parents[1] / "schemas"
HERE = Path(__file__).resolve()
_sarif = jsonschema.Draft4Validator(json.loads((SCHEMAS / "sarif-2.1.0-rtm.5.json").read_text()))
_junit = xmlschema.XMLSchema(SCHEMAS / "junit-10.xsd")


def results_of(log):
    return log["runs"][0]["results"]


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
        not list(_sarif.iter_errors(log))
        and results_of(log)[0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 4
    )
    assert main(["report", "out/audit.json", "--format", "junit,sarif", "--no-plots"]) == 0
    _junit.validate((tmp_path / "out" / "audit.junit.xml").read_text())
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
    _junit.validate(tmp_path / "out.xml")
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
    assert not list(_sarif.iter_errors(log)) and len(results_of(log)) == 3
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


DOCS = HERE.parents[3] / "docs"


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
