"""Accountants with known verdicts: every wrong one is found, no right one is accused.

All 30 take some minutes: the slow ones are marked. No accountant is random, so a verdict
follows from the seed.
"""

import pytest

from dpwitness.accounting import audit_accountant

from .specimens import RIGHT, WRONG


def verdict(entry, seed):
    name, function, mechanism, figure, ranges = entry
    names = None
    if mechanism == "gaussian" and figure == "noise":
        names = {"epsilon": "epsilon", "delta": "delta"}
    return audit_accountant(
        function,
        mechanism,
        figure,
        names,
        ranges=ranges,
        evaluations=120,
        seconds=120,
        seed=seed,
        name=name,
    )


@pytest.mark.slow_cases("laplace epsilon", "rdp conversion", "subsampled epsilon by pld")
@pytest.mark.parametrize("entry", RIGHT, ids=lambda entry: entry[0])
def test_a_right_accountant_is_not_accused(entry):
    found = verdict(entry, 1)
    assert found.verdict.value == "NOT_REFUTED", found.headline()
    assert found.compared > 30


@pytest.mark.slow_cases("central limit theorem", "rdp conversion, order for order - 1")
@pytest.mark.parametrize("entry", WRONG, ids=lambda entry: entry[0])
def test_a_wrong_accountant_is_found(entry):
    found = verdict(entry, 1)
    assert found.verdict.value == "VIOLATED", found.headline()
    assert found.figure < found.exact
