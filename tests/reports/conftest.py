"""Fixtures of the tests of reports: the site, made again from its Markdown and JSON, and a parser of pages."""

import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dpwitness.reports.site.site import build

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Return a copy of the folder of published pages, with the site built in it."""
    folder = tmp_path_factory.mktemp("site") / "published"
    shutil.copytree(PUBLISHED, folder, ignore=shutil.ignore_patterns("*.html"))
    build(folder)
    return folder


class Page(HTMLParser):
    """Tags, attributes, ids, links and texts of a page, whose tags must match; no element has a handler or a style of its own."""

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
