"""The page on trust says what the counts say, with intervals, and what was missed; the page of
violations counts those of all pages.
"""

import re
import tomllib
from pathlib import Path

from dpwitness.benchmarks.calibration import Counted
from dpwitness.benchmarks.pages import trust_page, violations_page
from dpwitness.benchmarks.pages.violations_page import _every
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


def test_every_stated_rate_is_a_row_with_its_most_extreme_count_and_what_was_missed():
    found = trust_page.page(TABLES)
    assert found.startswith("# Trust: 4 of 6 measurements as stated\n")
    extreme = "all mechanisms, alpha 0.5: 40 of 100 (0.303 to 0.503)"
    assert f"| at most 0.5 | 1 of 1 | {extreme} | the same | none |" in found
    missed = "false VIOLATED, pure, strings: words, alpha 0.05"
    assert re.search(rf"\| at most 0.05 \| 0 of 1 \| .*30 of 100 .* \| {missed} \|", found)
    assert re.search(r"\| at least 0.9 \| 1 of 1 \| detectable: Laplace: 92 of 100 \(0.848", found)
    assert "A note." in found and "### Rows that broke" in found


PUBLISHED = Path(__file__).parents[3] / "reports" / "published"
SAME = tomllib.loads(
    Path(violations_page.__file__).with_name("same_violations.toml").read_text(encoding="utf-8")
)


def test_every_name_of_the_file_is_a_violation_of_a_page():
    names = [name for _, _, _, name in _every(PUBLISHED)]
    listed = [name for group in SAME["same"] for name in group]
    assert set(listed) | set(SAME["not_by_values"]) <= set(names) and len(listed) == len(
        set(listed)
    )
