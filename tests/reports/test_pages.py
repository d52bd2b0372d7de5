"""The page of a report and the site, as text: what they hold, what they never hold. In a browser:
`test_browser`.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.album import Album
from dpwitness.reports.document import build_document, entries_of, read_document
from dpwitness.reports.html_format import html
from dpwitness.reports.wording import differing

NEAR = dpw.Pair(np.array([0.0, 0.0, 5.0]), np.array([0.0, 1.0, 5.0]))
EVIL = (
    "<script>window.hit=1</script>](javascript:alert(1)) \x1b[31m \u202egnp.exe `x` <img "
    "src=x onerror=window.hit=1> " + "y" * 100_000
)


@pytest.fixture(scope="module")
def found():
    def leaky(dataset, size, rng):
        return np.sum(dataset) + rng.laplace(0.0, 0.3, size)

    return [
        dpw.audit(leaky, claim="pure:1", pair=NEAR, trials=4000, name="leaky"),
        dpw.certify(dpw.mechanisms.Laplace(epsilon=1.0), name="exact"),
        dpw.audit(leaky, claim="pure:5", pair=NEAR, trials=4000, name=EVIL),
    ]


def made(results, **options):
    document = build_document(results, title="t", command="dpwitness audit")
    return html(document, entries_of(document), Album(**options))


def test_the_order_of_the_page(found, parsed):
    seen = parsed(made(found))
    text = "".join(seen.text).partition("To the content")[2]
    parts = [
        "VIOLATED in 1 of 3 audits",
        "Does this implementation keep",
        "What was not tested",
        "unit of privacy",
    ]
    parts += ["All audits, worst first", "VIOLATED leaky", "The run"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    for word in (
        "neighboring relation",
        "trust model",
        "evidence",
        "one record of the dataset",
        "pure differential privacy",
    ):
        assert word in text, word
    assert (
        seen.tags.count("h1") == 1
        and seen.tags.count("article") == 3
        and seen.tags.count("script") == 1 == seen.tags.count("style")
    )
    assert len(seen.ids) == len(set(seen.ids))
    assert {link[1:] for link in seen.links if link.startswith("#")} <= set(seen.ids)


def test_nothing_from_outside_runs_or_is_fetched(found, parsed):
    page_of = made(found)
    seen = parsed(page_of)
    assert "img" not in seen.tags and not any(
        re.match(r"(https?:)?//|javascript:", link) for link in seen.links
    )
    assert (
        EVIL not in page_of
        and "\x1b" not in page_of
        and "\u202e" not in page_of
        and "yyyy" * 1000 not in page_of
    )
    assert "&lt;script&gt;window.hit=1" in page_of
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page_of)[1]
    assert (
        "default-src &#39;none&#39;" in policy
        and "unsafe" not in policy
        and policy.count("sha256-") == 2
    )


def test_the_record_that_differs_is_marked():
    assert differing({"d0": [1, 2, 3], "d1": [1, 9, 3]})[1] == (
        "D1",
        [("1", False), ("9", True), ("3", False)],
    )
    added = differing({"d0": [1, 2], "d1": [1, 7, 2]})
    assert added[0] == ("D0", [("1", False), ("2", False)]) and added[1][1][1] == ("7", True)
    table = {"$type": "array", "dtype": "<f8", "shape": [2, 2], "value": [0.0, 1.0, 2.0, 3.0]}
    other = table | {"value": [0.0, 1.0, 2.0, 4.0]}
    assert differing({"d0": table, "d1": other})[1] == ("D1", [("[0, 1]", False), ("[2, 4]", True)])
    assert differing({"d0": {"$type": "float", "value": 1.0}, "d1": 2.0})[0][1][0][1]


def result_with(**fields):
    """Return a document of one result with these fields."""
    return json.dumps(
        {"schema_version": 1, "results": [{"name": "a", "verdict": "ERROR"} | fields]}
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"schema_version": 99, "results": []}', "schema_version must be at most 1, got 99"),
        ('{"schema_version": 1, "results": [{"name": "a"', "not a complete JSON"),
        ('{"runs": [], "version": "2.1.0"}', "must be a report of dpwitness"),
        ("[1]", "must be a report of dpwitness"),
        (result_with(verdict="FINE"), "results[0].verdict must be one of"),
        (result_with(claim=3), "results[0].claim must be a text, got 3"),
        (result_with(parameter="<b>"), "parameter must consist of letters A to Z"),
        *(
            (
                result_with(witness_file=file),
                "results[0].witness_file must be named witness-NAME.json",
            )
            for file in (
                "javascript:1//witness-a.json",
                "../witness-a.json",
                "//evil.example/witness-a.json",
            )
        ),
        ('{"schema_version": 1, "results": 3}', "results must be a list"),
        (result_with(tally={"correct": "x"}), "results[0].tally.wrong is missing"),
        (result_with(bit_level=3), "results[0].bit_level must be an object, got 3"),
        (result_with(accepted={"reason": 1}), "results[0].accepted."),
        (
            result_with(kind="trace", audit={"verdict": "so so"}),
            "results[0].audit.verdict must be one of",
        ),
    ],
)
def test_a_file_that_is_no_report_is_one_line(tmp_path, refused, content, reason):
    (tmp_path / "a.json").write_text(content)
    error = refused("report", str(tmp_path / "a.json"))
    assert reason in error and "a.json" in error
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
    with pytest.raises(InvalidArgument, match=r"a\.json"):
        read_document(tmp_path / "a.json")


def test_every_published_page_is_a_page_of_the_site(site, parsed):
    """Each has the heading and all links of its Markdown, and is in the repository as it is made
    now, apart from its pictures.
    """
    names = {file.stem for file in site.glob("*.md")}
    assert {file.stem for file in site.glob("*.html")} == {"index", *names}
    for name in names:
        text, seen = (
            (site / f"{name}.md").read_text(encoding="utf-8"),
            parsed((site / f"{name}.html").read_text(encoding="utf-8")),
        )
        assert text.splitlines()[0].removeprefix("# ") in seen.text, name
        links = {
            re.sub(r"\.md(?=#|$)", ".html", link)
            for link in re.findall(r"\]\(([\w./-]+\.(?:md|json)[#\w.-]*)\)", text)
        }
        assert links <= set(seen.links), (name, sorted(links - set(seen.links))[:5])
    published = Path(__file__).parents[2] / "reports" / "published"
    for made in site.glob("*.html"):
        texts = [
            re.sub("<(figure|svg).*?</\\1>", "", (folder / made.name).read_text(), flags=re.DOTALL)
            for folder in (site, published)
        ]
        assert texts[0] == texts[1], f"{made.name}: run `make site`"
