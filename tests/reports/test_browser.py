"""The page of a report in a browser: sorting, filtering, folding, downloads, dark mode, print, narrow screens, no script, everybody."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness import mechanisms as m
from dpwitness.cli import main
from dpwitness.mechanisms.domains import Records
from dpwitness.reports.audit.document import document_of
from dpwitness.reports.audit.report import write_document

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = Path(sys.prefix) / "axe" / "node_modules" / "axe-core" / "axe.min.js"
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PUBLISHED = Path(dpw.__file__).resolve().parent.parent / "reports" / "published"
EVIL = "<script>window.hit=1</script>](javascript:alert(1)) \x1b[31m \u202egnp <img src=x onerror=window.hit=1> " + "w" * 400
NARROW = {"viewport": {"width": 400, "height": 800}}
NEAR = dpw.Pair(np.array([0.0, 0.0, 5.0]), np.array([0.0, 1.0, 5.0]))

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path: tests/browser.sh installs one where it can")


def leaky(dataset, size, rng):
    return np.sum(dataset) + rng.laplace(0.0, 0.3, size)


def broken(dataset, size, rng):
    raise MemoryError("too large")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report of every kind of result, and copies of them up to thirty."""
    bound = dpw.audit_sensitivity(np.mean, 0.2, Records(4), evaluations=300, name="too tight")
    results = [
        dpw.audit(leaky, claim="pure:1", pair=NEAR, trials=8000, name="leaky"),
        dpw.audit(leaky, claim="approx:20,1e-5", pair=NEAR, trials=8000, name=EVIL),
        dpw.audit(broken, claim="pure:1", pair=NEAR, trials=4000, name="broken"),
        dpw.certify(m.Gaussian(epsilon=1.0, delta=1e-5), name="exact"),
        dpw.trace(leaky, NEAR, "pure:1", confirm=False, name="traced"),
        bound,
    ]
    shown = results[0]
    copies = [replace(shown, name=f"copy {i}", parameter_lower=i / 7, detectable=100.0 / (i + 1), trials=1000 * i) for i in range(24)]
    folder = tmp_path_factory.mktemp("report")
    document = document_of([*results, *copies], title="Everything", command="dpwitness audit x")
    write_document(document, folder, ["html"])
    return folder / "audit.html"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield found
        found.close()


@pytest.fixture
def opened(browser, report):
    """Opens the page; afterwards nothing may have been asked of a network, refused by the policy, or run from outside."""
    contexts, said, asked = [], [], []

    def open_page(path=report, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(Path(path).as_uri())
        return page

    yield open_page
    for context in contexts:
        for page in context.pages:
            if context.pages and page.url.startswith("file"):
                assert page.evaluate("window.hit") is None
        context.close()
    assert not said and not [url for url in asked if not url.startswith(("file:", "data:"))]


def column(page, head):
    place = page.locator(".audits thead th").all_inner_texts().index(head)
    return [row.locator("th, td").nth(place).inner_text() for row in page.locator(".audits tbody tr").all()]


def test_question_and_answer_stand_at_the_top(opened):
    page = opened(java_script_enabled=False)
    for text in ("Does this implementation keep the privacy promise it makes?", "VIOLATED in"):
        box = page.get_by_text(text).first.bounding_box()
        assert box is not None and box["y"] + box["height"] < 900


def test_sorting(opened):
    page = opened()
    page.get_by_role("button", name="detectable", exact=True).click()
    values = [float(text) for text in column(page, "detectable") if re.fullmatch(r"[\d.]+", text)]
    assert values == sorted(values) and len(values) > 20
    head = page.locator("th[aria-sort]")
    assert head.inner_text() == "detectable" and head.get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="detectable", exact=True).press("Enter")
    assert [float(text) for text in column(page, "detectable") if re.fullmatch(r"[\d.]+", text)] == values[::-1]
    page.get_by_role("button", name="audit", exact=True).click()
    names = column(page, "audit")
    assert [name for name in names if name.startswith("copy")] == [f"copy {i}" for i in range(24)]  # 2 before 10
    assert page.locator("th[aria-sort]").count() == 1


def test_filtering(opened):
    page = opened()
    page.get_by_label("Filter by words").fill("PURE:1 copy")
    shown = page.locator("article:visible h3").all_inner_texts()
    assert len(shown) == 24 and all("copy" in text for text in shown)
    assert page.locator(".audits tbody tr:visible").count() == 24 and page.locator("output").inner_text() == "24 shown"
    page.get_by_label("Filter by words").fill("")
    page.get_by_label("Verdict").select_option("ERROR")
    assert page.locator("article:visible h3").all_inner_texts() == ["ERROR broken"]


def test_folding_by_keyboard_and_by_link(opened):
    page = opened()
    card = page.locator("article", has_text="copy 3").filter(has=page.locator("h3", has_text="copy 3")).first
    button, body = card.locator("button.fold"), card.locator("div[id$=-body]")
    assert button.get_attribute("aria-expanded") == "false" and body.is_hidden()  # many cards start folded
    button.focus()
    page.keyboard.press("Space")
    assert (
        button.get_attribute("aria-expanded") == "true"
        and body.is_visible()
        and "copy 3" in (button.get_attribute("aria-describedby") or "").replace("-", " ")
    )
    page.keyboard.press("Enter")
    assert body.is_hidden()
    page.locator(".audits tbody").get_by_role("link", name="copy 3", exact=True).click()
    assert body.is_visible() and page.url.endswith("#copy-3")
    page.get_by_role("button", name="Fold all", exact=True).click()
    assert page.locator("article div[id$=-body]:visible").count() == 0
    page.get_by_role("button", name="Unfold all").click()
    assert page.locator("article div[id$=-body]:visible").count() == 30


def test_a_witness_is_downloaded_and_replayed(opened, tmp_path, capsys):
    page = opened()
    page.get_by_role("button", name="Unfold all").click()
    with page.expect_download() as found:
        page.locator("#leaky").get_by_role("link", name="Download the witness").click()
    file = tmp_path / found.value.suggested_filename
    found.value.save_as(file)
    assert file.name == "witness-leaky.json" and json.loads(file.read_text())["claim"] == "pure:1"
    assert dpw.replay(file, mechanism=leaky, trials=4000).verdict is dpw.Verdict.VIOLATED


def test_without_script_everything_is_there(opened):
    page = opened(java_script_enabled=False)
    assert page.locator("article").count() == 30 == page.locator("article dl:visible").count()
    assert page.locator("button:visible, input:visible, select:visible").count() == 0
    assert "epsilon > 3.286" in page.locator("#copy-23").inner_text()


def test_print_holds_what_is_folded_and_filtered(opened):
    page = opened()
    page.get_by_label("Filter by words").fill("leaky")
    page.emulate_media(media="print")
    assert page.locator("article dl:visible").count() == 30 and page.locator(".fold:visible, .all:visible, .filter:visible").count() == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_dark(opened):
    colors = "(() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color] })()"
    light, dark = (opened(color_scheme=scheme).evaluate(colors) for scheme in ("light", "dark"))
    assert light != dark and sum(map(int, re.findall(r"\d+", dark[0])[:3])) < 150 < 600 < sum(map(int, re.findall(r"\d+", dark[1])[:3]))
    page = opened(color_scheme="dark")
    curve = page.locator("#leaky svg text").first.evaluate("node => getComputedStyle(node).fill")
    assert sum(map(int, re.findall(r"\d+", curve)[:3])) > 600  # pictures too


@pytest.mark.parametrize("script", [True, False])
def test_narrow_screens_do_not_scroll_sideways(opened, script):
    page = opened(**NARROW, java_script_enabled=script)
    if script:
        page.get_by_role("button", name="Unfold all").click()
    width = page.locator("html").bounding_box()["width"] if not script else page.evaluate("document.documentElement.scrollWidth")
    assert width <= 400


def test_hostile_texts_are_text(opened):
    page = opened()
    assert page.locator("img").count() == 0 and page.locator("script").count() == 1
    assert page.locator("article h3", has_text="<script>window.hit=1</script>").count() == 1


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: tests/browser.sh installs it where npm is")
@pytest.mark.parametrize(
    "options", [{}, {"color_scheme": "dark"}, {"viewport": {"width": 400, "height": 800}}], ids=["light", "dark", "narrow"]
)
def test_everybody_can_use_it(opened, options):
    page = opened(bypass_csp=True, **options)
    page.get_by_role("button", name="Unfold all").click()
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    told = [(each["id"], each["impact"], each["nodes"][0]["html"][:200]) for each in found]
    assert not [each for each in told if each[1] in ("serious", "critical")], told


@pytest.mark.parametrize("file", sorted(PUBLISHED.glob("*.html")), ids=lambda file: file.stem)
def test_published_pages(opened, file):
    """Each opens, leads to the others, and fits a narrow screen; nothing is asked of a network."""
    page = opened(file, **NARROW)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    links = page.locator("nav a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert links[0] == "index.html" and set(links) == {other.name for other in PUBLISHED.glob("*.html")}
    assert page.locator("nav [aria-current]").get_attribute("href") == file.name


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: tests/browser.sh installs it where npm is")
@pytest.mark.parametrize("name", ["index", "power"])
def test_everybody_can_use_the_site(opened, name):
    page = opened(PUBLISHED / f"{name}.html", bypass_csp=True)
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert not [(each["id"], each["nodes"][0]["html"][:200]) for each in found if each["impact"] in ("serious", "critical")]


@pytest.mark.benchmark
def test_a_hundred_audits(tmp_path):
    """Rendered in under 5 s, in less than 2 MB."""
    from time import perf_counter

    result = dpw.audit(leaky, claim="pure:1", pair=NEAR, trials=20_000)
    document = document_of([replace(result, name=f"audit {i}") for i in range(100)], title="A hundred")
    started = perf_counter()
    write_document(document, tmp_path, ["html"])
    took, size = perf_counter() - started, (tmp_path / "audit.html").stat().st_size
    print(f"{took:.2f} s, {size / 1e6:.2f} MB")
    assert took < 5 and size < 2e6


def test_the_command_writes_the_same_page(report, tmp_path):
    assert main(["report", str(report.with_name("audit.json")), "--format", "html", "--report", str(tmp_path)]) == 0
    assert (tmp_path / "audit.html").read_bytes() == report.read_bytes()
