"""Records of the Open Source Vulnerability schema and the evidence sheet of SP 800-226: what they
state is what an audit measured.
"""

import base64
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from dpwitness import Pair, Verdict, audit
from dpwitness.benchmarks.pages.osv_feed import publish_osv
from dpwitness.reports.audit.document import build_document
from dpwitness.reports.formats.machine_formats import osv
from dpwitness.reports.formats.markdown_formats import NOT_COVERED, sheet

PUBLISHED = Path(__file__).resolve().parents[3] / "reports" / "published"
PAIR = Pair(np.array([0.0]), np.array([1.0]))
TIME = "2026-01-02T03:04:05Z"
_event = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": {"type": "string"},
}
_event["propertyNames"] = {"enum": ["introduced", "fixed", "last_affected", "limit"]}
# The part of the schema (1.6.0) that the records use, written by hand: required fields, closed
# lists of words, the prefix of databases that are not registered, and ranges that begin with
# `introduced` and have no `fixed` beside a `last_affected`.
SCHEMA = {
    "type": "object",
    "required": ["id", "modified", "schema_version"],
    "additionalProperties": False,
    "properties": {
        "schema_version": {"const": "1.6.0"},
        "id": {"type": "string", "pattern": "^x_[A-Z]+-[0-9a-f]{12}$"},
        "modified": {"type": "string", "format": "date-time"},
        "published": {"type": "string", "format": "date-time"},
        "summary": {"type": "string", "maxLength": 120},
        "details": {"type": "string"},
        "affected": {
            "type": "array",
            "items": {
                "required": ["package"],
                "properties": {
                    "package": {
                        "required": ["ecosystem", "name"],
                        "properties": {"ecosystem": {"const": "PyPI"}},
                    },
                    "versions": {"type": "array", "items": {"type": "string"}},
                    "ranges": {
                        "type": "array",
                        "items": {
                            "required": ["type", "events"],
                            "properties": {
                                "type": {"enum": ["SEMVER", "ECOSYSTEM", "GIT"]},
                                "events": {
                                    "type": "array",
                                    "items": _event,
                                    "contains": {"required": ["introduced"]},
                                    "not": {
                                        "allOf": [
                                            {"contains": {"required": ["fixed"]}},
                                            {"contains": {"required": ["last_affected"]}},
                                        ]
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
        "references": {
            "type": "array",
            "items": {
                "required": ["type", "url"],
                "properties": {
                    "type": {"const": "EVIDENCE"},
                    "url": {"pattern": "^ni:///sha-256;[A-Za-z0-9_-]{43}$"},
                },
            },
        },
        "credits": {
            "type": "array",
            "items": {"required": ["name"], "properties": {"type": {"const": "TOOL"}}},
        },
        "database_specific": {"type": "object"},
    },
}
_schema = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())


def leaky(dataset, size, rng):
    return np.round((dataset[0] + rng.laplace(scale=0.2, size=size)) * 1024) / 1024


def result(verdict="VIOLATED", version="1.0", **more):
    found = {
        "kind": "black box",
        "name": "mean",
        "claim": "pure:1",
        "relation": "replace-one",
        "verdict": verdict,
        "parameter": "epsilon",
    }
    return (
        found
        | {"parameter_lower": 3.0, "notes": [f"some_library {version}, Python 3.11.7, NumPy 2.4.6"]}
        | more
    )


def valid(records):
    for record in records:
        _schema.validate(record)
    return records


def test_the_record_of_a_violation_has_its_claim_bound_and_witness():
    found = audit(leaky, claim="pure:1", pair=PAIR, bits=False, trials=20_000, seed=1)
    document = build_document([found], title="t")
    (record,) = valid(osv(document, TIME))
    assert "affected" not in record  # a function of the user belongs to no package
    measured = record["database_specific"]
    assert (measured["claim"], measured["parameter"], measured["rules"]) == (
        "pure:1",
        "epsilon",
        ["VALUE"],
    )
    assert measured["certified"] == found.epsilon_lower > 2
    (reference,) = record["references"]
    digest = base64.urlsafe_b64decode(reference["url"].partition(";")[2] + "=").hex()
    assert digest == measured["witness_sha256"] == document["results"][0]["witness"]["sha256"]


@pytest.mark.parametrize(
    ("versions", "events"),
    [
        (
            {"1.9": "VIOLATED", "1.10": "VIOLATED"},
            [{"introduced": "1.9"}, {"last_affected": "1.10"}],
        ),
        (
            {"2.0": "NOT_REFUTED", "1.10": "VIOLATED", "3.0": "NOT_REFUTED"},
            [{"introduced": "1.10"}, {"fixed": "2.0"}],
        ),
        (
            {"1.0": "NOT_REFUTED", "2.0": "VIOLATED", "3.0": "ERROR"},
            [{"introduced": "2.0"}, {"last_affected": "2.0"}],
        ),
    ],
)
def test_the_range_is_what_was_audited(versions, events):
    (record,) = valid(
        osv({"results": [result(verdict, version) for version, verdict in versions.items()]}, TIME)
    )
    (package,) = record["affected"]
    assert package["package"]["name"] == "some-library"
    assert package["ranges"] == [{"type": "ECOSYSTEM", "events": events}]
    assert set(package["versions"]) == {
        version for version, verdict in versions.items() if verdict == "VIOLATED"
    }


def test_what_is_not_a_violation_has_no_record():
    accepted = {"accepted": {"reason": "known", "expires": "2030-01-01", "rules": ["VALUE"]}}
    assert (
        osv(
            {
                "results": [
                    result(verdict.value) for verdict in Verdict if verdict is not Verdict.VIOLATED
                ]
            },
            TIME,
        )
        == []
    )
    assert osv({"results": [result(**accepted), result(right=True)]}, TIME) == []


def test_records_are_stable_and_differ_by_claim():
    first, second = osv({"results": [result(), result(claim="pure:2")]}, TIME)
    assert first["id"] != second["id"]
    assert (
        osv({"results": [result(claim="pure:2"), result(parameter_lower=9.0)]}, TIME)[0]["id"]
        == first["id"]
    )


def test_the_published_feed_is_that_of_the_published_audits(tmp_path):
    (tmp_path / "third-party").symlink_to(PUBLISHED / "third-party")
    (tmp_path / "third-party.json").write_text((PUBLISHED / "third-party.json").read_text())
    (tmp_path / "osv").mkdir()
    (tmp_path / "osv" / "x_DPWITNESS-gone.json").write_text("{}")
    files = publish_osv(tmp_path)
    assert {file.name: file.read_text() for file in files} == {
        file.name: file.read_text() for file in (PUBLISHED / "osv").glob("*.json")
    }
    assert {file.name for file in (tmp_path / "osv").iterdir()} == {file.name for file in files}
    records = valid([json.loads(file.read_text()) for file in files])
    assert len(records) > 30 and all(
        record["references"] and record["affected"] for record in records
    )
    # a relation that the library does not promise
    assert not any("_replaced" in record["summary"] for record in records)
    assert publish_osv(tmp_path, TIME) == files
    # unchanged records keep their times
    assert all(json.loads(file.read_text())["modified"] != TIME for file in files)


def test_the_sheet_says_what_was_measured_and_what_was_not():
    found = audit(leaky, claim="pure:1", pair=PAIR, bits=False, trials=20_000, seed=1)
    text = sheet(build_document([found], title="t"))
    rows = dict(
        line.strip("| ").split(" | ", 1)
        for line in text.splitlines()
        if line.startswith("| ") and "---" not in line
    )
    assert rows["epsilon and delta, as claimed"] == "`pure:1`"
    assert f"epsilon > {found.epsilon_lower:.4g} against" in rows["epsilon, certified from below"]
    assert (
        "VIOLATED" in rows["outputs against the claim"]
        and "test_osv.py" in rows["algorithm and implementation"]
    )
    assert rows["floating point"] == f"*{NOT_COVERED}*"
    open_questions = (
        "sensitivity and contribution bounds",
        "accounting and composition",
        "utility",
        "data collection",
    )
    assert all(rows[subject] == f"*{NOT_COVERED}*" for subject in open_questions)
