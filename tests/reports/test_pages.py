"""The page of a report and the site, as text: what they hold, what they never hold. In a browser:
`test_browser`.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.benchmarks.pages.frame import page
from dpwitness.benchmarks.pages.site import build
from dpwitness.cli import main
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.reports.audit.document import build_document, entries_of, read_document
from dpwitness.reports.audit.report import write_report
from dpwitness.reports.formats import html_format
from dpwitness.reports.formats.html_format import PICTURES, html
from dpwitness.reports.phrasing.wording import differing
from dpwitness.reports.plots.album import Album
from dpwitness.reports.plots.drawing import inline_svg

NEAR = dpw.Pair(np.array([0.0, 0.0, 5.0]), np.array([0.0, 1.0, 5.0]))
EVIL = (
    "<script>window.hit=1</script>](javascript:alert(1)) \x1b[31m \u202egnp.exe `x` <img "
    "src=x onerror=window.hit=1> " + "y" * 100_000
)


def leaky(dataset, size, rng):
    return np.sum(dataset) + rng.laplace(0.0, 0.3, size)


@pytest.fixture(scope="module")
def found():
    return [
        dpw.audit(leaky, claim="pure:1", pair=NEAR, trials=8000, name="leaky"),
        dpw.certify(dpw.mechanisms.Laplace(epsilon=1.0), name="exact"),
        dpw.audit(leaky, claim="pure:5", pair=NEAR, trials=8000, name=EVIL),
    ]


def made(results, **options):
    document = build_document(results, title="t", command="dpwitness audit")
    return html(document, entries_of(document), Album(**options))


def test_the_order_of_the_page(found, parsed):
    seen = parsed(made(found))
    text = "".join(seen.text).partition("To the content")[2]
    parts = [
        "Does this implementation keep",
        "VIOLATED in 1 of 3 audits",
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


def test_the_words_of_a_report_are_explained(found):
    """Heads have a tooltip, and a list explains the words of the cards for readers
    without a mouse.
    """
    shown = made(found)
    assert all(
        re.search(rf'<th scope="col" title="[^"]+">{word}</th>', shown)
        for word in ("detectable", "limit")
    )
    listed = shown.partition('<details class="meanings">')[2].partition("</details>")[0]
    assert "guess D0" in listed and "right and wrong" in listed and listed.count("<li>") > 4


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


@pytest.mark.slow_cases("110")
@pytest.mark.parametrize("pictures", [12, PICTURES])
def test_many_audits_leave_pictures_out_and_say_so(found, pictures, monkeypatch):
    monkeypatch.setattr(html_format, "PICTURES", pictures)
    copies = pictures // 3 + 2
    data = [
        build_document([each], title="t")["results"][0] | {"name": f"{each.name[:20]} {i}"}
        for i in range(copies)
        for each in found
    ]
    text = made(data)
    assert len(text.encode()) < 2_000_000
    assert text.count("<figure>") == pictures + 1 and "pictures are left out" in text
    assert "pictures are left out" not in made(found)


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


def test_a_picture_in_a_page_has_no_style_and_its_own_ids(parsed):
    result = dpw.audit(leaky, claim="pure:1", pair=NEAR, trials=4000)
    document = build_document([result], title="t")
    entry, album = entries_of(document)[0], Album()
    for kind in album.kinds(entry):
        first, second = (inline_svg(album.svg(entry, kind), name, 'it "is"') for name in ("a", "b"))
        assert (
            "style" not in first
            and "#111111" not in first
            and 'aria-label="it &quot;is&quot;"' in first
        )
        assert not set(re.findall(r'id="([^"]+)"', first)) & set(
            re.findall(r'id="([^"]+)"', second)
        )
        assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', first)) <= set(
            re.findall(r'id="([^"]+)"', first)
        )
        parsed(first)


def test_an_old_run_is_shown_anew_from_its_json_alone(tmp_path, found):
    write_report(found[:2], tmp_path / "one", title="t", command="c")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "audit.json").write_text((tmp_path / "one" / "audit.json").read_text())
    assert main(["report", str(tmp_path / "two" / "audit.json")]) == 0
    names = sorted(file.name for file in (tmp_path / "one").iterdir())
    assert "audit.html" in names and "witness-leaky.json" in names
    assert names == sorted(file.name for file in (tmp_path / "two").iterdir())
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), (
            name
        )


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


def test_the_site_is_linked(tmp_path, parsed):
    (tmp_path / "papers.md").write_text(
        "# Papers\n\nFirst, [a check](papers-checks.md#cm-01).\n\n![it](p.svg)\n\n| a |\n| "
        "--- |\n| 1 |\n"
    )
    (tmp_path / "papers-checks.md").write_text(
        '# Checks\n\nAll.\n\n<a id="cm-01"></a>\n#### `CM-01`\n\n<script>alert(1)</script>\n'
    )
    write_report(
        [dpw.certify(dpw.mechanisms.Laplace(epsilon=1.0), name="exact")],
        tmp_path,
        title="zoo",
        stem="zoo",
        plots=False,
    )
    (tmp_path / "p.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="M 0 0 L 1 1"/></svg>'
    )
    files = build(tmp_path)
    assert [file.name for file in files] == [
        "index.html",
        "zoo.html",
        "papers.html",
        "papers-checks.html",
    ]
    pages = {file.name: parsed(file.read_text()) for file in files}
    for name, seen in pages.items():
        assert seen.tags.count("nav") == 1 and seen.tags.count("script") == 1, name
        for link in seen.links:
            file, _, place = link.partition("#")
            assert not file or link.startswith("data:") or (tmp_path / file).exists(), link
            assert not place or place in pages[file or name].ids, link
    assert "svg" in pages["papers.html"].tags and "First, a check." in "".join(
        pages["index.html"].text
    )
    with pytest.raises(InvalidArgument, match="folder must hold a published page"):
        build(tmp_path / "nothing")


def test_every_published_page_is_a_page_of_the_site(site, parsed):
    """Each has the heading and all links of its Markdown, and is in the repository as it is made
    now, apart from its pictures.
    """
    names = {file.stem for file in site.glob("*.md")}
    assert {file.stem for file in site.glob("*.html")} == {
        "index",
        *names,
    } and "papers-checks" in names
    for name in names:
        text, seen = (
            (site / f"{name}.md").read_text(encoding="utf-8"),
            parsed((site / f"{name}.html").read_text(encoding="utf-8")),
        )
        assert text.splitlines()[0].removeprefix("# ") in seen.text, name
        if name != "zoo":  # the report of an audit links to its own witnesses
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


def test_markup_in_a_page_is_text(parsed):
    shown = page(
        "<i>",
        'a <b onclick=x>c</b> <a id="x" onclick="y"></a>\n\n'
        "<details><summary>More</summary>\n\nx\n\n</details>\n",
    )
    seen = parsed(shown)
    assert (
        "<title>&lt;i&gt;</title>" in shown
        and "b" not in seen.tags
        and "details" in seen.tags
        and "x" not in seen.ids
    )


def test_plot_gives_axes_and_names_what_there_is(found):
    axes = dpw.plot(found[0], "looks")
    assert axes.get_xlabel() == "runs of the mechanism" and "leaky" in axes.figure.get_suptitle()
    assert dpw.plot(found[0], "profile", axes=axes) is axes
    with pytest.raises(
        InvalidArgument, match=r"kind must be one of event, profile, tradeoff, looks, got 'calls'"
    ):
        dpw.plot(found[0], "calls")


def test_the_picture_of_an_event_counts_runs_of_the_test():
    result = dpw.audit(leaky, claim="pure:1", pair=NEAR, trials=30_000, seed=5)
    shown = result.picture
    assert shown.axis == "output 0" and shown.counts.sum() == shown.rounds <= result.tally.rounds
    assert len(shown.edges) == shown.counts.shape[1] + 1 == len(shown.guesses) + 1
    guessed = shown.counts[0][shown.guesses > 0].sum() + shown.counts[1][shown.guesses < 0].sum()
    wrong = shown.counts[0][shown.guesses < 0].sum() + shown.counts[1][shown.guesses > 0].sum()
    assert guessed / (guessed + wrong) == pytest.approx(
        result.tally.correct / (result.tally.correct + result.tally.wrong), abs=0.05
    )
    assert [runs for runs, _ in result.looks] == sorted(
        runs for runs, _ in result.looks
    ) and result.looks[-1][1] == result.parameter_lower


def test_outputs_that_are_no_numbers_have_a_picture_of_bars():
    def answer(data, size, rng):
        return ["yes" if draw < 0.4 + 0.5 * data[0] else "no" for draw in rng.random(size)]

    result = dpw.audit(
        answer, claim="pure:1", pair=dpw.Pair(np.array([0.0]), np.array([1.0])), trials=4000
    )
    assert (
        any("'no'" in name for name in result.picture.names)
        and result.picture.counts.sum() == result.picture.rounds
    )
    assert "guess D0" in " ".join(
        text.get_text() for text in dpw.plot(result, "event").get_yticklabels()
    )
