"""What the tests of the claims share."""

import pytest

from dpwitness.proofs_checks import Enclosure, declarations


@pytest.fixture
def flipped():
    """``flipped(id)``: the claim's excess with its sign turned, which is the opposite inequality."""

    def of(id):
        excess = declarations()[id].function

        def turned(**balls):
            value = excess(**balls)
            return Enclosure(-value.upper, -value.lower)

        return turned

    return of
