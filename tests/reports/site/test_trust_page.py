"""The page on trust says what the counts say: every row, its interval, and what was missed."""

import json
from dataclasses import asdict

import pytest

from dpwitness.benchmarks.calibration import Counted
from dpwitness.benchmarks.pages.site import main
from dpwitness.benchmarks.pages.trust_page import page
from dpwitness.benchmarks.table import Table
from dpwitness.core.values.validation import InvalidArgument

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
    found = page(TABLES)
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


def test_what_is_missed_is_named_at_the_top():
    found = page(TABLES)
    top = found[: found.index("## Calibration")]
    assert (
        "4 of 6 rows met; missed: false VIOLATED, pure, strings: words, alpha 0.05; alarms: "
        "x: ValueError: broken" in top
    )
    assert found.count("**missed**") == 2


def test_written_from_files(tmp_path):
    files = [str(tmp_path / name) for name in ("calibration.json", "mutation.md", "wrong.json")]
    (tmp_path / "calibration.json").write_text(json.dumps([asdict(table) for table in TABLES]))
    (tmp_path / "mutation.md").write_text("## Mutants\n")
    assert main(["trust", str(tmp_path), *files[:2]]) == 0
    assert (tmp_path / "trust.md").read_text() == page(TABLES, ["## Mutants\n"])
    (tmp_path / "wrong.json").write_text('[{"rows": 3}]')
    with pytest.raises(InvalidArgument, match="must hold tables with name and rows"):
        main(["trust", str(tmp_path), *files])
    with pytest.raises(SystemExit, match=r"usage: .*missing a required argument"):
        main(["scan", str(tmp_path)])
