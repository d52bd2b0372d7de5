"""Fixture of the tests of the claims."""

import dataclasses

import pytest

from dpwitness.proofs_checks import declarations, settle


@pytest.fixture(scope="session")
def mutated():
    """Return a function that returns the verdict of a claim some of whose fields, such as
    `function` or `domain`, are changed.
    """

    def verdict(id, settings=None, **changes):
        return settle(
            dataclasses.replace(declarations()[id], **changes), settings, quick=True, cells=2000
        ).claim_verdict

    return verdict
