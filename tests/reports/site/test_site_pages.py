"""The page on trust says what the counts say: every row, its interval, and what was missed."""

import tomllib
from pathlib import Path

from dpwitness.benchmarks.calibration import Counted
from dpwitness.benchmarks.pages import trust_page, violations_page
from dpwitness.benchmarks.pages.violations_page import _every, audited, confirmed
from dpwitness.benchmarks.table import Table

ROWS = [
    Counted("false VIOLATED, all mechanisms, alpha 0.5", 40, 100, 0.5).row(),
    Counted("false VIOLATED, pure, strings: words, alpha 0.05", 30, 100, 0.05).row(),
    Counted("false CERTIFIED, route auto: spike", 0, 1, 0.0).row(),
    Counted("found at detectable: Laplace", 92, 100, 0.9, at_most=False).row(),
    Counted("lower end above the truth: a mean", 3, 100, 0.1).row(),
    Counted("alarms: x: ValueError: broken", 1, 1, 0.0).row(),
]
TABLES = [Table("calibration", tuple(ROWS), ("a note",))]


def test_every_row_stands_on_the_page_with_its_count_and_interval():
    found = trust_page.page(TABLES)
    for row in ROWS:
        assert f"{row.counts[0]} of {row.counts[1]}" in found
    assert (
        "| all mechanisms, alpha 0.5 | 40 of 100 | 0.4 | 0.303 to 0.503 | at most 0.5 | met |"
        in found
    )
    assert (
        "| detectable: Laplace | 92 of 100 | 0.92 | 0.848 to 0.965 | at least 0.9 | met |" in found
    )
    assert "A note." in found and "### Rows that broke" in found


PUBLISHED = Path(__file__).parents[3] / "reports" / "published"
SAME = tomllib.loads(
    Path(violations_page.__file__).with_name("same_violations.toml").read_text(encoding="utf-8")
)


def test_the_published_page_is_that_of_the_published_numbers(tmp_path):
    assert (PUBLISHED / "violations.md").read_text(encoding="utf-8") == violations_page.page(
        confirmed(PUBLISHED), len(audited(PUBLISHED))
    )


def test_every_name_of_the_file_is_a_violation_of_a_page():
    names = [name for _, _, _, name in _every(PUBLISHED)]
    listed = [name for group in SAME["same"] for name in group]
    assert set(listed) | set(SAME["not_by_values"]) <= set(names) and len(listed) == len(
        set(listed)
    )
