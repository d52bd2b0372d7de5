"""The published page on the scan follows from its JSON."""

from pathlib import Path

from dpwitness.benchmarks.pages.scan_page import main, page

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"


def test_the_published_page_is_that_of_the_published_numbers(tmp_path):
    main([str(tmp_path), str(PUBLISHED / "scan.json")])
    assert (tmp_path / "scan.md").read_text(encoding="utf-8") == (PUBLISHED / "scan.md").read_text(
        encoding="utf-8"
    )


def test_rows_show_shares_with_their_counts_and_packages_their_verdicts():
    row = {
        "case": "named: found",
        "required": 0.7,
        "measured": 0.5,
        "unit": "share",
        "at_most": False,
        "counts": [1, 2],
    }
    package = {
        "package": "p",
        "group": "drawn",
        "listed": 2,
        "found": 1,
        "verdicts": {"NOT_REFUTED": 3},
        "remarks": ["x cannot be imported"],
    }
    text = page({"rows": [row], "details": [package]})
    assert "| named: found | at least 0.7 | 50% (1 of 2) | missed |" in text
    assert "| p | 2 | 1 | 0 | 0 | 3 NOT REFUTED | x cannot be imported |" in text
