"""Fixtures of the tests of reports: the site, made again from its Markdown and JSON, a parser of
pages, and a browser.
"""

import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from dpwitness import audit
from dpwitness.benchmarks.pages.site import build
from dpwitness.mechanisms import TruncatedGeometric

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Return a copy of the folder of published pages, with the site built in it."""
    folder = tmp_path_factory.mktemp("site") / "published"
    shutil.copytree(PUBLISHED, folder, ignore=shutil.ignore_patterns("*.html"))
    build(folder)
    return folder


class Page(HTMLParser):
    """Tags, attributes, ids, links and texts of a page, whose tags must match; no element has a
    handler or a style of its own.
    """

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], [], []
        self.feed(text)
        assert self.open == []
        self.ids = [value for key, value in self.attributes if key == "id"]
        self.links = [value for key, value in self.attributes if key in ("href", "src")]

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in ("br", "col", "hr", "img", "input", "link", "meta"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="session")
def parsed():
    """Return the class `Page`, which parses the text of a page."""
    return Page


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on the path: tests/browser.sh installs one where it can")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield found
        found.close()


@pytest.fixture
def opened(browser):
    """Opens the page; afterwards nothing may have been asked of a network, refused by the policy,
    or run from outside.
    """
    contexts, said, asked = [], [], []

    def open_page(path, **options):
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
            assert page.evaluate("window.hit") is None
        context.close()
    assert not said and not [
        url
        for url in asked
        if not re.match(r"file:.*/(audit|published/[\w-]+)\.html(#|$)|data:application/json;", url)
    ]


@pytest.fixture(scope="session")
def runs():
    """Return audits of one mechanism on ten seeds, each with its own event and its own pair of the
    domain.
    """
    return [
        audit(TruncatedGeometric(1.0), trials=4_000, confidence=0.99, seed=seed, name="geometric")
        for seed in range(10)
    ]
