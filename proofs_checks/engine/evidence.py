"""Evidence from what other rooms compute: exact privacy losses, audits, algebra, satisfiability."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpwitness.auditors.loss.routes import enclosed_law
from dpwitness.auditors.measured.sensitivity import SensitivityResult
from dpwitness.auditors.measured.utility import UtilityResult
from dpwitness.auditors.measured.utility_claims import Scaling
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.verdicts import Result, Verdict
from dpwitness.auditors.white_box.certify import CertifyResult
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.validation import InvalidArgument
from dpwitness.proofs_checks.engine.enclosures import Enclosure
from dpwitness.proofs_checks.engine.finding import ClaimVerdict, Evidence
from dpwitness.proofs_checks.engine.ledger import TIGHT, Effort, need
from dpwitness.proofs_checks.engine.scope import WHOLE


def excess_of(lower: float, upper: float, promise: float) -> Enclosure:
    """Enclosure of value / promise - 1, for a promise > 0."""
    return Enclosure(lower / promise - 1, upper / promise - 1)


def audited(result: Result, *, numbers: Mapping[str, Any] | None = None, at: Mapping[str, Any] | None = None) -> Evidence:
    """Evidence of one audit: FAILS where it is violated, NOT_REFUTED where not; an audit proves a claim for no more than its own pair."""
    verdict = {
        Verdict.VIOLATED: ClaimVerdict.FAILS,
        Verdict.NOT_REFUTED: ClaimVerdict.NOT_REFUTED,
        Verdict.CERTIFIED: ClaimVerdict.NOT_REFUTED,
        Verdict.SUPPORTED: ClaimVerdict.NOT_REFUTED,
    }
    found = verdict.get(result.verdict, ClaimVerdict.INCONCLUSIVE)
    text = result.headline().partition(": ")[2]
    method, reached = _read(result)
    return Evidence(found, text, method, reached, numbers or {}, at or {}, result, grade=result.evidence)


def case(value: float) -> float:
    """A number of a case that reaches a promise: what another case reaches is counted afresh."""
    return value


def exact_delta(mechanism: Any, pair: Pair, epsilon: float) -> Enclosure:
    """The delta at `epsilon` of a pair, the larger of both orders, from the law of the privacy loss. InvalidArgument where it has none."""
    law = enclosed_law(mechanism, pair)
    if law is None:
        raise InvalidArgument(f"exact_delta: no exact law can be computed for {type(mechanism).__name__}")
    low, high = (max(float(side.hockey_stick(epsilon)), float(side.swapped().hockey_stick(epsilon))) for side in (law.lower, law.upper))
    return Enclosure(low, max(low, high))


def attained(proof: Evidence, ratio: float, where: str, *, result: Result | None = None, **numbers: Any) -> Evidence:
    """A proof of a claim, and the share of its promise that a case is proved to reach: HOLDS_TIGHT where that is all of it.

    A proof that failed comes back as it is.
    """
    if proof.verdict is not ClaimVerdict.HOLDS:
        return proof
    verdict = ClaimVerdict.HOLDS_TIGHT if ratio >= 1 - TIGHT else ClaimVerdict.HOLDS
    text = f"{proof.text}; {ratio:.6g} of the promise is reached {where}"
    return replace(proof, verdict=verdict, text=text, reached=Enclosure(ratio - 1, max(ratio - 1, 0.0)), numbers=numbers, result=result)


def _read(result: Result) -> tuple[str, Enclosure | None]:
    if isinstance(result, CertifyResult):
        return f"exact privacy loss ({result.route})", excess_of(result.parameter_lower, result.parameter_upper, result.claim.parameter)
    if isinstance(result, SensitivityResult):
        return "sensitivity audit", Enclosure(result.ratio_lower - 1, math.inf)
    if isinstance(result, AuditResult):
        return "black-box audit", excess_of(result.parameter_lower, math.inf, result.claim.parameter)
    if isinstance(result, UtilityResult) and not isinstance(result.claim, Scaling):
        return "utility audit", None
    return "slope within limits of every point", None


def identities(*differences: Any, text: str) -> Evidence:
    """HOLDS where computer algebra (sympy) reduces every difference to zero; FAILS otherwise, and says what is left."""
    sympy = need("sympy", "sympy")
    rest = [r for r in (sympy.simplify(sympy.expand(d)) for d in differences) if r != 0]
    if not rest:
        return Evidence(ClaimVerdict.HOLDS, text, "computer algebra (sympy)", grade="proved", scope=WHOLE)
    left = {"difference": str(rest[0])}
    return Evidence(ClaimVerdict.FAILS, f"the two sides differ by {rest[0]}", "computer algebra (sympy)", at=left, grade="proved")


def unsatisfiable(effort: Effort, *negations: Sequence[Any], text: str, where: Sequence[Sequence[Any]] = ((),)) -> Evidence:
    """HOLDS where z3 finds no real numbers that break any of the obligations, each given as constraints of its negation, the promise last.

    A promise that is a strict inequality, broken, must also be reached: some numbers that keep the other constraints make both sides equal,
    in each of the cases `where`. So neither a promise that is too loose nor premises that are too narrow, or void, pass for a proof.
    FAILS with the numbers where z3 finds some, INCONCLUSIVE where it gives up or the promise is not reached.
    """
    z3 = need("z3", "z3-solver")

    def answer(*constraints: Any) -> Any:
        solver = z3.Solver()
        solver.set("timeout", max(1, int(1000 * effort.left())))
        solver.add(*constraints)
        return solver.check(), solver

    method = "satisfiability (z3)"
    for constraints in negations:
        found, solver = answer(*constraints)
        if found == z3.sat:
            model = solver.model()
            at = {str(name): str(model[name]) for name in sorted(model, key=str)}
            shown = ", ".join(f"{name} = {value}" for name, value in at.items())
            return Evidence(ClaimVerdict.FAILS, f"broken at {shown}", method, at=at, grade="proved")
        if found != z3.unsat:
            return Evidence(ClaimVerdict.INCONCLUSIVE, f"z3 gave up: {solver.reason_unknown()}", method)
        *premises, promise = constraints
        if z3.is_gt(promise) or z3.is_lt(promise):
            for case in where:
                if answer(*premises, promise.arg(0) == promise.arg(1), *case)[0] != z3.sat:
                    return Evidence(ClaimVerdict.INCONCLUSIVE, f"what is promised is not reached: {promise} is never an equality", method)
    return Evidence(ClaimVerdict.HOLDS, text, method, grade="proved", scope=WHOLE)


def least(good: Callable[[float], bool], low: float, high: float, *, relative: float = 1e-3) -> tuple[float, float]:
    """Bracket (bad, good) of the smallest x in [low, high] from which on the monotone `good` is true, by bisection to a relative width."""
    if not good(high):
        return high, math.inf
    if good(low):
        return low, low
    while high > low * (1 + relative):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if good(middle) else (middle, high)
    return low, high
