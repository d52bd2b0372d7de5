"""The first page of the site: its counts are those of the published data, its marks those of the
published tables.
"""

import json
import re
from collections import Counter
from html import unescape
from pathlib import Path

import pytest

import dpwitness as dpw
from dpwitness.benchmarks.pages.sections import SECTIONS
from dpwitness.benchmarks.pages.site import PAGES

PUBLISHED = Path(dpw.__file__).resolve().parent.parent / "reports" / "published"


@pytest.fixture(scope="module")
def sections(site):
    """Each section of the first page as text, by its name."""
    text = (site / "index.html").read_text(encoding="utf-8")
    return {part.partition('"')[0]: unescape(part) for part in text.split('<section id="')[1:]}


def shapes(section):
    """How often each shape occurs in the charts of a section."""
    return Counter(
        re.findall(r'<use href="#m-([\w-]+)"', section.partition('<div class="charts')[2])
    )


def published(name):
    return json.loads((PUBLISHED / name).read_text(encoding="utf-8"))


def test_every_claim_is_one_square_with_its_verdict(sections):
    claims = published("papers.json")["claims"]
    found = re.findall(
        r'class="cell ([\w-]+)" href="papers-checks.html#[\w.-]+" title="(\S+) ', sections["papers"]
    )
    assert {name: word for word, name in found} == {
        c["id"]: c["verdict"].lower().replace("_", "-") for c in claims
    }
    assert len(found) == len(claims)
    counts = Counter(c["verdict"] for c in claims)
    holds = counts["HOLDS"] + counts["HOLDS_TIGHT"]
    assert (
        f"{len(claims)} claims: {holds} hold ({counts['HOLDS_TIGHT']} of them" in sections["papers"]
    )
    assert f"{counts['FAILS']} are false" in sections["papers"]
    assert f"false, with a counterexample: {counts['FAILS']}" in sections["papers"]


def test_every_row_of_the_libraries_is_one_mark_and_violated_ones_are_labelled(sections):
    rows, text = published("third-party.json")["rows"], sections["third-party"]
    broken = [row for row in rows if row["verdict"] == "VIOLATED"]
    bits = [
        row for row in rows if row["verdict"] != "VIOLATED" and row["bit_verdict"] == "VIOLATED"
    ]
    assert shapes(text) == {
        "violated": len(broken),
        "bits": len(bits),
        "kept": len(rows) - len(broken) - len(bits),
    }
    labels = re.sub("<wbr>", "", text)
    assert (
        f"{len(broken)} violated rows" in text and f"{len(rows) - len(broken)} other rows" in text
    )
    for row in broken:
        times = row["parameter_lower"] / dpw.parse_claim(row["claim"]).parameter
        assert re.search(rf">{row['library'].split()[0]} (K\d+ )?{row['target']}\*?</a>", labels), (
            row["name"]
        )
        assert (
            f"{row['target']}" in text
            and min(abs(float(v) / times - 1) for v in re.findall(r">([\d.]+) ×<", text)) < 0.01
        ), row["name"]


def test_every_page_has_its_section_and_pictures(sections):
    assert set(sections) == {name for name, _, _ in PAGES} - {"papers-checks"}
    for name, text in sections.items():
        assert ("<figure" in text) == (name in SECTIONS), name
        assert "nan" not in re.findall(r'="(nan|inf)', text), name


def test_every_link_to_a_place_in_a_published_page_finds_it(site):
    texts = {file.name: file.read_text(encoding="utf-8") for file in site.glob("*.html")}
    places = {name: set(re.findall(r' id="([^"]+)"', text)) for name, text in texts.items()}
    for name, text in texts.items():
        links = {
            link.partition("#") for link in re.findall(r'<a [^>]*href="([\w.-]*#[^"]+)"', text)
        }
        lost = sorted(
            place for file, _, place in links if unescape(place) not in places[file or name]
        )
        assert not lost, (name, lost[:5])
    assert len(re.findall(r'href="papers-checks\.html#', texts["papers.html"])) > 100
