"""Accepted findings: which violations an entry accepts, until when, and files of entries that are
refused.
"""

import datetime

import pytest
from audit_rows import report, row

import dpwitness as dpw
from dpwitness.reports.compare import markdown
from dpwitness.reports.intervals import apply_accepted, read_accepted
from dpwitness.reports.summary import outcome, unaccepted_rules

TODAY = datetime.date(2026, 6, 30)


ENTRY = {"name": '"m"', "claim": '"pure:1"', "reason": '"known"', "expires": "2026-06-30"}


def write_entry(tmp_path, **fields):
    lines = [f"{key} = {value}" for key, value in (ENTRY | fields).items() if value is not None]
    (tmp_path / "known.toml").write_text("\n".join(["[[accepted]]", *lines]))


def accepted(tmp_path, **fields):
    write_entry(tmp_path, **fields)
    return read_accepted(tmp_path / "known.toml")


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({}, True),
        ({"claim": '"pure:1.0"'}, True),
        ({"claim": '"pure:2"'}, False),
        ({"name": '"n"'}, False),
        ({"rule": '"VALUE"'}, True),
        ({"rule": '"BITS"'}, False),
        ({"relation": '"replace-one"'}, True),
        ({"relation": '"add-remove"'}, False),
        ({"name": None, "target": '"a.py:f"'}, True),
        ({"target": '"a.py:g"'}, False),
    ],
)
def test_an_entry_accepts_what_it_names(fields, fits, tmp_path):
    entries = accepted(tmp_path, **fields)
    results, stale = apply_accepted(
        [row(verdict="VIOLATED", target={"target": "a.py:f"}), row("kept")], entries, TODAY
    )
    assert unaccepted_rules(results[0]) == ([] if fits else ["VALUE"]) and len(stale) == (not fits)
    assert results[0].get("accepted") == (
        {"reason": "known", "expires": "2026-06-30", "rules": ["VALUE"]} if fits else None
    )
    assert "accepted" not in results[1]


def test_an_entry_expires_after_its_day_and_says_so(tmp_path):
    results, stale = apply_accepted(
        [row(verdict="VIOLATED", notes=["n"])],
        accepted(tmp_path),
        TODAY + datetime.timedelta(days=1),
    )
    assert (
        unaccepted_rules(results[0]) == ["VALUE"] and "accepted" not in results[0] and stale == []
    )
    assert results[0]["notes"] == [
        "n",
        "VALUE was accepted until 2026-06-30 and counts again: known",
    ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"raeson": '"x"'},
            "accepted[0].raeson is not a known field; known fields are name, target, "
            "relation, rule, bound, claim, reason",
        ),
        ({"reason": None}, "accepted[0].reason is missing"),
        ({"reason": '"  "'}, "accepted[0].reason must be a non-empty text"),
        ({"expires": None}, "accepted[0].expires is missing"),
        ({"expires": '"2026-01-01"'}, "accepted[0].expires must be a date such as 2027-01-31"),
        (
            {"expires": "2026-01-01T00:00:00"},
            "accepted[0].expires must be a date such as 2027-01-31",
        ),
        ({"claim": None}, "accepted[0].claim is missing"),
        ({"name": None}, "accepted[0] must have a name or a target"),
        ({"rule": '"VALU"'}, 'accepted[0].rule must be one of "VALUE", "BITS"'),
        ({"bound": "inf"}, "accepted[0].bound must be a finite number"),
        ({"relation": "["}, "known.toml: must be TOML"),
    ],
)
def test_a_bad_entry_is_one_line(fields, told, tmp_path):
    with pytest.raises(dpw.InvalidArgument, match=r"^known\.toml") as error:
        accepted(tmp_path, **fields)
    assert told in str(error.value) and "\n" not in str(error.value)


def test_a_violation_that_is_accepted_is_not_new(tmp_path):
    (known,), _ = apply_accepted([row(verdict="VIOLATED")], accepted(tmp_path), TODAY)
    found = dpw.compare(report(row()), report(known))
    assert found.verdict is dpw.Verdict.NOT_REFUTED and found.rows[0].changes == (
        "verdict changed",
    )
    assert "accepted until 2026-06-30: known" in markdown(found)


@pytest.mark.parametrize(
    ("fields", "meaning"),
    [
        ({}, "violated"),
        ({"right": True, "expected": "violated: epsilon = 4"}, "expected"),
        ({"accepted": {"rules": ["VALUE"]}}, "accepted"),
        ({"accepted": {"rules": ["BITS"]}}, "violated"),
        # a suite excuses an accepted violation of a claim that is thought to be kept, and no other
        (
            {"right": False, "expected": "kept: epsilon = 1", "accepted": {"rules": ["VALUE"]}},
            "accepted",
        ),
        (
            {"right": False, "expected": "violated: epsilon = 4", "accepted": {"rules": ["VALUE"]}},
            "violated",
        ),
        (
            {"right": False, "expected": "violated: epsilon = 4", "verdict": "NOT_REFUTED"},
            "violated",
        ),
        ({"verdict": "NOT_REFUTED"}, "passed"),
        ({"verdict": "SUSPECT"}, "undecided"),
        ({"verdict": "ERROR", "accepted": {"rules": ["VALUE"]}}, "undecided"),
        (
            {
                "kind": "trace",
                "verdict": "INCONCLUSIVE",
                "findings": [{"kind": "scale"}],
                "accepted": {"rules": ["TRACE"]},
            },
            "accepted",
        ),
    ],
)
def test_the_outcome_of_a_result(fields, meaning):
    """Exit codes, JUnit XML, suites and pytest follow from this one table."""
    assert outcome({"kind": "black box", "verdict": "VIOLATED", **fields}) == meaning


def test_a_leak_in_low_bits_is_a_violation_if_bits_count():
    leaky = {"kind": "black box", "verdict": "NOT_REFUTED", "bit_level": {"verdict": "VIOLATED"}}
    assert outcome(leaky) == "violated" and outcome(leaky, bits=False) == "passed"
