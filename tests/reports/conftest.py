"""Fixture for tests of the site: its pages, made anew from their Markdown and JSON."""

import shutil
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
