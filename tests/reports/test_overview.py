"""The published site: six cards that open it, short pages, and links that lead somewhere."""

import json
import re
from collections import Counter
from html import unescape
from pathlib import Path

import pytest

import dpwitness as dpw
from dpwitness.benchmarks.pages.site import GROUPS, NAMES

PUBLISHED = Path(dpw.__file__).resolve().parent.parent / "reports" / "published"
PAGES = sorted(file.stem for file in PUBLISHED.glob("*.md"))
MOST_WORDS = 3_000


def published(name):
    return json.loads((PUBLISHED / name).read_text(encoding="utf-8"))


def test_every_page_belongs_to_one_of_at_most_six_groups():
    grouped = [name for _, _, names in GROUPS for name in names]
    assert sorted(grouped) == PAGES == sorted(NAMES) and len(GROUPS) <= 6


def test_the_index_has_a_card_for_each_group_with_the_title_of_its_page(site, parsed):
    text = (site / "index.html").read_text(encoding="utf-8")
    cards = re.findall(
        r'<li><a href="([\w-]+)\.html"><strong>(.*?)</strong> <span class="answer">(.*?)</span>',
        text,
    )
    assert [name for name, *_ in cards] == [names[0] for _, _, names in GROUPS]
    for name, label, answer in cards:
        title = (PUBLISHED / f"{name}.md").read_text(encoding="utf-8").splitlines()[0]
        assert title == f"# {label}: {answer}"
    links = [link for link in parsed(text).links if not link.startswith("#")]
    assert set(links) == {"index.html", *(f"{names[0]}.html" for _, _, names in GROUPS)}


@pytest.mark.parametrize("name", PAGES)
def test_a_published_page_is_a_summary(name, site):
    markdown = (PUBLISHED / f"{name}.md").read_text(encoding="utf-8")
    assert len(markdown.split()) <= MOST_WORDS
    text = (site / f"{name}.html").read_text(encoding="utf-8")
    text = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", text, flags=re.DOTALL)
    assert len(unescape(re.sub("<[^>]+>", " ", text)).split()) <= MOST_WORDS


def test_every_false_claim_is_a_row_with_its_counterexample():
    claims, text = published("papers.json")["claims"], (PUBLISHED / "papers.md").read_text()
    counts = Counter(claim["verdict"] for claim in claims)
    assert text.startswith(f"# Papers: {counts['FAILS']} of {len(claims)} claims are false\n")
    for claim in claims:
        row = f"\n| [`{claim['id']}`]({claim['witness_file']}) | "
        assert (row in text) == (claim["verdict"] == "FAILS"), claim["id"]


def test_every_violated_target_of_a_library_is_a_row():
    found, text = published("third-party.json"), (PUBLISHED / "third-party.md").read_text()
    rows = [*found["rows"], *found["exact"]["rows"]]
    broken = {(row["library"], row["target"]): row for row in rows if row["verdict"] == "VIOLATED"}
    table = text.partition("## Violated by values")[2]
    for library, target in broken:
        assert re.search(rf"^\| {re.escape(library)} \S+ \| \[?`{target}`", table, re.M), target
    assert len(re.findall(r"^\| (?!release|---)", table, re.M)) == len(broken)


def test_every_link_to_a_place_in_a_published_page_finds_it(site):
    texts = {file.name: file.read_text(encoding="utf-8") for file in site.glob("*.html")}
    places = {name: set(re.findall(r' id="([^"]+)"', text)) for name, text in texts.items()}
    for name, text in texts.items():
        links = {
            link.partition("#")
            for link in re.findall(r'<a [^>]*href="([\w./-]*(?:#[^"]+)?)"', text)
        }
        for file, _, place in links:
            if place and file in ("", *texts):
                assert unescape(place) in places[file or name], (name, place)
            assert (site / (file or name)).is_file() or "docs/" in file, (name, file)
