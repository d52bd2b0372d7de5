"""Discovery and proposals of the package that is made for these tests, once for all tests."""

import time
from pathlib import Path

import pytest

from dpwitness.auditors.scanning.package_discovery import discover
from dpwitness.auditors.scanning.proposals import propose, readings_of

HERE = Path(__file__).parent
collect_ignore = ["fairground", "traps"]  # packages to scan, not tests


@pytest.fixture(scope="session")
def explored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fairground")
    return discover(folder=str(HERE / "fairground"), working_folder=str(folder)), folder


@pytest.fixture(scope="session")
def proposals(explored):
    found, folder = explored
    options = {
        "python": None,
        "preamble": "",
        "root": found.about["root"],
        "memory": 0.0,
        "deadline": time.monotonic() + 60,
    }
    return {p.reading.name.name: p for p in propose(readings_of(found), folder, **options)}
