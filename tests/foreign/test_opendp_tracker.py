"""The comparison of the frozen findings with the issues of OpenDP's tracker, and its published
page.
"""

from pathlib import Path

from dpwitness.benchmarks.scan import opendp_page

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"


def test_the_published_page_is_that_of_the_two_files(tmp_path):
    opendp_page.write(tmp_path)
    shown = (tmp_path / "library-scans.md").read_text(encoding="utf-8")
    assert shown == (PUBLISHED / "library-scans.md").read_text(encoding="utf-8")
