"""The published page on the scan follows from its JSON."""

from pathlib import Path

from dpwitness.benchmarks.pages.scan_page import main

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"


def test_the_published_page_is_that_of_the_published_numbers(tmp_path):
    main([str(tmp_path), str(PUBLISHED / "scan.json")])
    assert (tmp_path / "scan.md").read_text(encoding="utf-8") == (PUBLISHED / "scan.md").read_text(
        encoding="utf-8"
    )
