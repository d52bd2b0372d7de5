"""Fixtures of the tests of the claims, and the import path of the parsers of the printed texts."""

import sys
from pathlib import Path

import pytest

from dpwitness.proofs_checks import Enclosure, declarations

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def flipped():
    """Return a function `flipped(id)` that returns the claim's excess with the opposite sign, which is the opposite inequality."""

    def flipped_excess(id):
        excess = declarations()[id].function

        def negated(**balls):
            value = excess(**balls)
            return Enclosure(-value.upper, -value.lower)

        return negated

    return flipped_excess
