"""Fixtures of the tests of stores."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stored_audits import SMALL, noisy, without_time

from dpwitness import audit


@pytest.fixture(scope="session")
def plain():
    """Return the JSON of the undisturbed audit."""
    return without_time(audit(noisy, **SMALL))
