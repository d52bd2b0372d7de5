"""The benchmark of the scan counts mechanisms that are found, right and wrong targets."""

from types import SimpleNamespace

import pytest

from dpwitness.benchmarks import bench
from dpwitness.benchmarks.scan import first_finding, run
from dpwitness.benchmarks.scan.run import (
    GROUPS,
    Listed,
    _group_rows,
    listed,
    measure,
    mechanism_outcomes,
)
from dpwitness.core.values.validation import InvalidArgument


def proposal(name, claim, relation, owner=""):
    return SimpleNamespace(
        function=SimpleNamespace(name=name, owner=owner),
        promise=SimpleNamespace(claim=claim),
        relations=(relation,),
        source="def f(): ..." if claim else "",
    )


def test_the_list_has_ten_named_packages_and_six_draws():
    found = listed()
    assert [sum(each.group == group for each in found) for group in GROUPS] == [
        10,
        10,
        10,
        10,
        9,
        6,
        10,
    ]
    assert sum(len(each.mechanisms) for each in found) > 310
    shared = [each for each in found if each.environment == "second-draw"]
    assert len(shared) == 9 and all(
        each.no_deps == ("isage-privacy==0.1.0.2",) and len(each.requirements) > 10
        for each in shared
    )


def test_counts_of_first_scans_are_rows_of_their_own():
    cases = {row.case: row.counts for row in _group_rows("third draw", [])}
    assert cases["third draw, first scan: mechanisms that are found"] == (24, 48)
    assert cases["third draw, first scan: targets whose claim is right"] == (2, 11)
    assert "drawn, first scan: targets whose claim is right" not in {
        row.case for row in _group_rows("drawn", [])
    }


def test_by_default_the_newest_draw_is_scanned_and_first_scans_of_the_earlier_draws_are_shown(
    monkeypatch,
):
    """Of the earlier draws no package is scanned, of the newest one all are."""
    asked = []
    monkeypatch.setattr(
        run,
        "measured",
        lambda found: asked.append(found.group) or {"listed": 1, "found": 1, "right": 1},
    )
    monkeypatch.setattr(run.opendp, "rows", list)
    monkeypatch.setattr(run.first_finding, "LIBRARIES", {})
    cases = {row.case for row in measure().rows}
    assert set(asked) == {"named", GROUPS[-1]} and len(asked) == 20
    assert (
        "drawn, first scan: mechanisms that are found" in cases
        and "drawn: mechanisms that are found" not in cases
    )


def test_an_unknown_part_is_refused():
    with pytest.raises(InvalidArgument, match=r"--part must be one of named, drawn.*got 'fourth'"):
        measure(["fourth"])
    with pytest.raises(InvalidArgument, match="--part is only for bench adversarial, scan"):
        bench("power", parts=["named"])


def test_a_package_that_cannot_be_scanned_is_a_note_and_counts_as_not_found(monkeypatch):
    def fails(found):
        raise OSError("no file /no/cache/b.json")

    monkeypatch.setattr(run, "listed", lambda: [Listed("b", "named", "b", (), {"f": "pure l1"})])
    monkeypatch.setattr(run, "measured", fails)
    table = measure(["named"])
    assert (
        table.rows[0].counts == (0, 1) and "b: not scanned: OSError: no file b.json" in table.notes
    )


SCAN = """import sys
print("x: VIOLATED: too far (after 3 s)", file=sys.stderr)
print('{"functions": [{"verdict": "VIOLATED"}, {"verdict": ""}]}')
"""


def test_the_first_finding_of_a_scan_is_read_from_its_messages(monkeypatch, tmp_path):
    (tmp_path / "scan.py").write_text(SCAN)
    monkeypatch.setattr(first_finding, "_COMMAND", (str(tmp_path / "scan.py"),))
    found = first_finding.scanned("p", "python", 1.0)
    assert (
        found.first == "x: VIOLATED: too far"
        and found.verdicts == {"VIOLATED": 1}
        and found.first_seconds < float("inf")
    )
    (tmp_path / "scan.py").write_text("raise SystemExit('no such package')")
    with pytest.raises(InvalidArgument, match="it ended with 1: no such package"):
        first_finding.scanned("p", "python", 1.0)


def test_outcomes_are_counted_by_kind_of_claim_and_relation():
    package = Listed(
        "p",
        "named",
        "p",
        (),
        {
            "right": "pure l1|l2",
            "wrong": "pure l1",
            "lost": "pure l1",
            "*_client": "pure replace-one",
        },
    )
    proposals = [
        proposal("right", "pure:1", "l2"),
        proposal("wrong", "approx:1,1e-05", "l1"),
        proposal("noise", "", "", owner="p.lost"),
        proposal("a_client", "pure:1", "add-remove"),
    ]
    found = list(mechanism_outcomes(package, proposals))
    assert {name for name, outcome in found if outcome == "listed"} == {
        "a_client",
        "right",
        "wrong",
        "lost",
    }
    assert (
        ("right", "right") in found
        and ("wrong", "wrong") in found
        and ("a_client", "wrong") in found
    )
    assert sum(outcome == "found" for _, outcome in found) == 4
    assert not {("lost", "right"), ("lost", "wrong")} & {*found}  # it has no target
