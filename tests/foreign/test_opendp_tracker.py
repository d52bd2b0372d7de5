"""The comparison of the frozen findings with the issues of OpenDP's tracker, and its published
page.
"""

import json
from pathlib import Path

import pytest

from dpwitness.benchmarks.scan import opendp as scan_opendp
from dpwitness.benchmarks.scan import opendp_page
from dpwitness.core.values.validation import InvalidArgument

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"


def test_the_published_page_is_that_of_the_two_files(tmp_path):
    opendp_page.write(tmp_path)
    shown = (tmp_path / "library-scans.md").read_text(encoding="utf-8")
    assert shown == (PUBLISHED / "library-scans.md").read_text(encoding="utf-8")


def test_rows_count_hits_and_findings_without_an_issue():
    issues = json.loads(scan_opendp.ISSUES.read_text(encoding="utf-8"))
    hits, scanned, new = scan_opendp.tracker_rows()
    named = {name for row in issues for name in row["found_by"]}
    assert hits.counts == (sum(bool(row["found_by"]) for row in issues), len(issues)) and hits.met
    assert scanned.counts[0] <= hits.counts[0]
    assert new.measured == len(scan_opendp.findings()) - len(named) == len(scan_opendp.unnamed())


def test_a_claim_is_explained_only_for_findings_that_no_issue_names():
    assert set(opendp_page._CLAIMS) <= {row["name"] for row in scan_opendp.unnamed()}
    found, issues = scan_opendp.findings(), scan_opendp.issues()
    name = next(iter(opendp_page._CLAIMS))
    changed = [issues[0] | {"found_by": [name], "miss": ""}, *issues[1:]]
    assert f"**{name}.**" in opendp_page.page(found, issues)
    assert f"**{name}.**" not in opendp_page.page(found, changed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"found_by": ["nothing"]}, "must name frozen findings, got nothing"),
        ({"miss": "and a reason"}, "either findings in found_by or a reason in miss"),
        ({"found_by": []}, "either findings in found_by or a reason in miss"),
        ({"issue": 2923}, "must occur once, it occurs 2 times"),
        ({"cause": None}, "it lacks cause"),
    ],
)
def test_an_issue_is_checked(tmp_path, change, message):
    rows = scan_opendp.issues()
    rows[0] = {key: value for key, value in (rows[0] | change).items() if value is not None}
    (tmp_path / "tracker.json").write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(InvalidArgument, match=message):
        scan_opendp.issues(tmp_path / "tracker.json")
