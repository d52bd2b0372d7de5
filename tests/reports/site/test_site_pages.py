"""The page on trust says what the counts say: every row, its interval, and what was missed."""

import json
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from dpwitness.benchmarks.calibration import Counted
from dpwitness.benchmarks.pages import trust_page, violations_page
from dpwitness.benchmarks.pages.site import main
from dpwitness.benchmarks.pages.violations_page import _every, audited, confirmed
from dpwitness.benchmarks.table import Row, Table
from dpwitness.mechanisms import InvalidArgument

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


def test_what_is_missed_is_named_at_the_top():
    found = trust_page.page(TABLES)
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
    assert (tmp_path / "trust.md").read_text() == trust_page.page(TABLES, ["## Mutants\n"])
    (tmp_path / "wrong.json").write_text('[{"rows": 3}]')
    with pytest.raises(InvalidArgument, match="must hold tables with name and rows"):
        main(["trust", str(tmp_path), *files])
    with pytest.raises(SystemExit, match=r"usage: .*missing a required argument"):
        main(["scan", str(tmp_path)])


CANARY_ROWS = (
    Row("quantiles, Gaussian curve, against jax-privacy (split)", 2.3, 3.5, "epsilon"),
    Row("10,000 a side, unit shift: Gaussian curve", 3.4, 3.3, "epsilon"),
    Row("1,000 ideal canaries, epsilon = 1: Gaussian curve", 0.32, 0.29, "epsilon"),
    Row("false alarms, a law", 0.0646, 0.02, "rate", at_most=True, counts=(40, 2000)),
)
DETAILS = (
    {
        "canaries": 1000,
        "epsilon": 1.0,
        "theorem": "Gaussian curve",
        "found": 0.29,
        "most": 0.3456,
        "guesses": 500,
    },
)


def test_every_row_occurs_once_with_its_requirement(tmp_path):
    table = asdict(Table("canaries", CANARY_ROWS, ("a ceiling",), DETAILS))
    (tmp_path / "c.json").write_text(json.dumps([table]))
    assert main(["canaries", str(tmp_path), str(tmp_path / "c.json")]) == 0
    text = (tmp_path / "canaries.md").read_text()
    assert all(text.count(f"| {row.case} |") == 1 for row in CANARY_ROWS)
    assert "| at least 0.32 | 0.29 | 0.346 | **missed** |" in text and text.count("**missed**") == 2
    assert "Gaussian curve, 1,000 canaries" in (tmp_path / "canaries.svg").read_text()


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


def test_a_bug_counts_once_in_a_release_and_once_in_another_and_errors_and_bits_do_not_count(
    tmp_path,
):
    row = {"library": "pure-ldp", "version": "1.1.2", "verdict": "VIOLATED", "target": "unary"}
    bits = row | {"verdict": "NOT_REFUTED", "bit_verdict": "VIOLATED", "target": "bits"}
    exact = [row | {"version": "1.1.1"}, row | {"version": "1.2.0", "verdict": "INCONCLUSIVE"}]
    suite = {"rows": [row, row | {"target": "unary_optimised"}, bits], "exact": {"rows": exact}}
    (tmp_path / "third-party.json").write_text(json.dumps(suite))
    run = {
        "entry": "pure-ldp-unary-encoding",
        "side": "before",
        "release": "1.1.2",
        "outcome": "VIOLATED",
    }
    abort = run | {"entry": "opendp-impute-infinite", "release": "0.16.0"}
    (tmp_path / "recall.json").write_text(json.dumps({"runs": [run, run, abort]}))
    (tmp_path / "findings.md").write_text(
        "| finding | library | release |\n| --- | --- | --- |\n| new | p | 1.0 |\n"
    )
    violations_page.write(tmp_path)
    text = (tmp_path / "violations.md").read_text(encoding="utf-8")
    assert (
        "confirm 3 violations by values in 3 releases of 2 libraries: 2 bugs" in text
        and "4 releases were audited" in text
    )
    assert (
        "| pure-ldp 1.1.2 | 1 | unary | [Libraries](third-party.md), [Recall](recall.md) |" in text
        and "| p 1.0 | 1 | new |" in text
    )
