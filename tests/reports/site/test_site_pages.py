"""The page on trust says what the counts say: every row, its interval, and what was missed."""

import json
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from dpwitness.benchmarks.calibration import Counted
from dpwitness.benchmarks.pages import canaries_page, trust_page, violations_page
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
TABLES = json.loads(json.dumps([asdict(Table("calibration", tuple(ROWS), ("a note",)))]))


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


def test_other_benchmarks_and_ready_sections_follow():
    fuzz = asdict(
        Table("fuzz", (Row("tracebacks", 0.0, 2.0, "of 10,000 inputs", at_most=True),), ("seeded",))
    )
    found = trust_page.page([*TABLES, fuzz], ["## Mutants of the claims' proofs\n\n97 % turned.\n"])
    assert (
        "## Hostile inputs" in found
        and "| tracebacks | at most 0 | 2 | of 10,000 inputs | **missed** |" in found
    )
    assert found.rstrip().endswith("97 % turned.")


def test_written_from_files(tmp_path):
    (tmp_path / "calibration.json").write_text(json.dumps(TABLES))
    (tmp_path / "mutation.md").write_text("## Mutants\n")
    assert (
        trust_page.main(
            [
                str(tmp_path / "trust.md"),
                str(tmp_path / "calibration.json"),
                str(tmp_path / "mutation.md"),
            ]
        )
        == 0
    )
    assert (tmp_path / "trust.md").read_text() == trust_page.page(TABLES, ["## Mutants\n"])
    assert trust_page.main([str(tmp_path / "trust.md")], echo=lambda text: None) == 2
    (tmp_path / "wrong.json").write_text('[{"rows": 3}]')
    with pytest.raises(InvalidArgument, match="must hold tables with name and rows"):
        trust_page.main([str(tmp_path / "trust.md"), str(tmp_path / "wrong.json")])


CANARY_ROWS = (
    Row("quantiles, Gaussian curve, against jax-privacy (split)", 2.3, 3.5, "epsilon"),
    Row("10,000 a side, unit shift: Gaussian curve", 3.4, 3.3, "epsilon"),
    Row("1,000 ideal canaries, epsilon = 1: Gaussian curve", 0.32, 0.29, "epsilon"),
    Row("false alarms, a law", 0.0646, 0.02, "rate", at_most=True, counts=(40, 2000)),
    Row("10^6 canaries, gdp:0.5", 5.0, 6.25, "s", at_most=True),
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


def test_every_row_stands_once_with_what_was_asked(tmp_path):
    told = Table(
        "canaries",
        CANARY_ROWS,
        ("jax-privacy was run on the same scores, in this run", "a ceiling"),
        DETAILS,
    )
    (tmp_path / "c.json").write_text(json.dumps([asdict(told)]))
    assert canaries_page.main([str(tmp_path), str(tmp_path / "c.json")]) == 0
    text = (tmp_path / "canaries.md").read_text()
    assert all(text.count(f"| {row.case} |") == 1 for row in CANARY_ROWS)
    assert "| at least 0.32 | 0.29 | 0.346 | **missed** |" in text and text.count("**missed**") == 3
    assert (
        "| at most 0.0646 | 0.02 | met |" in text
        and "Jax-privacy was run" in text
        and "A ceiling" not in text
    )
    assert "Gaussian curve, 1,000 canaries" in (tmp_path / "canaries.svg").read_text()


def test_another_table_is_refused(tmp_path):
    (tmp_path / "c.json").write_text(json.dumps([asdict(Table("canaries", CANARY_ROWS))]))
    with pytest.raises(
        InvalidArgument,
        match="must hold one table of `dpwitness bench canaries` with its details, got 0",
    ):
        canaries_page.main([str(tmp_path), str(tmp_path / "c.json")])
    assert canaries_page.main([str(tmp_path)], echo=lambda text: None) == 2


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
    violations_page.main([str(tmp_path)])
    text = (tmp_path / "violations.md").read_text(encoding="utf-8")
    assert (
        "confirm 3 violations by values in 3 releases of 2 libraries: 2 bugs" in text
        and "4 releases were audited" in text
    )
    assert (
        "| pure-ldp 1.1.2 | 1 | unary | [Libraries](third-party.md), [Recall](recall.md) |" in text
        and "| p 1.0 | 1 | new |" in text
    )
