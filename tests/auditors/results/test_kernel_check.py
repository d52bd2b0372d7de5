"""The kernel's decision about a refuted claim: confirmed, within its rounding, or refused."""

import pytest

from dpwitness.auditors.statistics.certificate import Part, Tally
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.witnesses.audit_result import AuditResult
from dpwitness.auditors.witnesses.kernel_check import checked_by_kernel
from dpwitness.auditors.witnesses.recompute import Basis
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.mechanisms import PureDP

PARTS = (Part(Tally(420, 130, 900, 2), 0.125**0.5), Part(Tally(2900, 700, 8000, 2), lost=20))
BOUND = combined_bound(PureDP(1.0), PARTS, 0.03)


@pytest.mark.parametrize(
    ("claimed", "stated", "verdict"),
    [
        (BOUND - 1e-8, BOUND, Verdict.VIOLATED),
        (BOUND + 1e-8, BOUND + 2e-8, Verdict.NOT_REFUTED),
        (BOUND + 1e-8, BOUND + 0.1, Verdict.ERROR),
    ],
)
def test_a_violation_is_reported_if_the_kernel_confirms_it(claimed, stated, verdict):
    result = AuditResult(
        name="x",
        claim=PureDP(claimed),
        verdict=Verdict.VIOLATED,
        confidence=0.95,
        seed=0,
        trials=1,
        requested=1,
        epsilon_lower=stated,
        parameter_lower=stated,
        basis=Basis(0.03, PARTS),
    )
    found = checked_by_kernel(result)
    assert found.verdict is verdict
    assert (found.parameter_lower > claimed) == (verdict is not Verdict.NOT_REFUTED)
    assert bool(found.notes) == (verdict is not Verdict.VIOLATED)
