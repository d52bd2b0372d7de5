"""The page that counts violations of libraries follows from the other published pages, and counts a
bug of a release once.
"""

import json
import tomllib
from pathlib import Path

from dpwitness.benchmarks.pages import violations_page
from dpwitness.benchmarks.pages.violations_page import _every, audited, confirmed, page, write

PUBLISHED = Path(__file__).parents[3] / "reports" / "published"
SAME = tomllib.loads(
    Path(violations_page.__file__).with_name("same_violations.toml").read_text(encoding="utf-8")
)


def test_the_published_page_is_that_of_the_published_numbers(tmp_path):
    assert (PUBLISHED / "violations.md").read_text(encoding="utf-8") == page(
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
    write(tmp_path)
    text = (tmp_path / "violations.md").read_text(encoding="utf-8")
    assert (
        "confirm 3 violations by values in 3 releases of 2 libraries: 2 bugs" in text
        and "4 releases were audited" in text
    )
    assert (
        "| pure-ldp 1.1.2 | 1 | unary | [Libraries](third-party.md), [Recall](recall.md) |" in text
        and "| p 1.0 | 1 | new |" in text
    )
