"""Constructors of a claim's evidence from exact privacy losses, audits, computer algebra and
satisfiability (z3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.density.certify import certify
from dpwitness.auditors.density.result import CertifyResult
from dpwitness.auditors.density.routes import enclosed_law
from dpwitness.auditors.functions.sensitivity import SensitivityResult
from dpwitness.auditors.functions.utility import UtilityClaim, UtilityResult, audit_utility
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core import Claim, InvalidArgument, Pair
from dpwitness.core.protocols import FloatArray
from dpwitness.proofs_checks.engine.enclosures import Enclosure
from dpwitness.proofs_checks.engine.finding import WHOLE, ClaimVerdict, Evidence
from dpwitness.proofs_checks.engine.ledger import TIGHT, Effort, sympy, z3


def excess_of(lower: float, upper: float, promise: float) -> Enclosure:
    """Return the enclosure of value / promise - 1 from bounds of the value, for a promise > 0."""
    return Enclosure(lower / promise - 1, upper / promise - 1)


def audited(
    result: Result, *, numbers: Mapping[str, Any] | None = None, at: Mapping[str, Any] | None = None
) -> Evidence:
    """Return the evidence of one audit: FAILS if the audit found a violation, NOT_REFUTED if the
    audit found none, else INCONCLUSIVE.

    An audit that certifies its pair gives NOT_REFUTED: the claim is about all pairs.
    """
    verdict = {
        Verdict.VIOLATED: ClaimVerdict.FAILS,
        Verdict.NOT_REFUTED: ClaimVerdict.NOT_REFUTED,
        Verdict.CERTIFIED: ClaimVerdict.NOT_REFUTED,
        Verdict.SUPPORTED: ClaimVerdict.NOT_REFUTED,
    }
    outcome = verdict.get(result.verdict, ClaimVerdict.INCONCLUSIVE)
    enclosure = None
    if isinstance(result, CertifyResult):
        method, promise = f"exact privacy loss ({result.route})", result.claim.parameter
        enclosure = excess_of(result.parameter_lower, result.parameter_upper, promise)
    elif isinstance(result, SensitivityResult):
        method, enclosure = "sensitivity audit", Enclosure(result.ratio_lower - 1, math.inf)
    elif isinstance(result, AuditResult):
        method = "black-box audit"
        enclosure = excess_of(result.parameter_lower, math.inf, result.claim.parameter)
    else:
        method = cast(UtilityResult, result).claim.method
    return Evidence(
        outcome,
        result.headline().partition(": ")[2],
        method,
        enclosure,
        numbers or {},
        at or {},
        result,
        grade=result.evidence,
    )


def certified(
    effort: Effort,
    mechanism: Any,
    pair: Pair | None = None,
    *,
    claim: Claim | None = None,
    trials: int = 10_000,
    numbers: Mapping[str, Any] | None = None,
    at: Mapping[str, Any],
) -> Evidence:
    """Return the evidence of the exact privacy loss of a pair, by default the mechanism's worst
    pair.
    """
    return audited(
        certify(
            mechanism,
            mechanism.worst_pair() if pair is None else pair,
            claim,
            trials=trials,
            seed=effort.seed,
        ),
        numbers=numbers,
        at=at,
    )


def measured(
    effort: Effort,
    error: Callable[..., FloatArray],
    claimed: UtilityClaim,
    *,
    reported: str = "",
    numbers: Mapping[str, Any] | None = None,
    at: Mapping[str, Any],
    **options: Any,
) -> Evidence:
    """Return the evidence of a utility audit, with further `numbers`, and the estimate as a number
    with the name `reported`. `options` are arguments of `audit_utility`.
    """
    found = audit_utility(error, claimed, seed=effort.seed, **options)
    estimate = {reported: found.estimate} if reported else {}
    return audited(found, numbers={**(numbers or {}), **estimate}, at=at)


def case(value: float) -> float:
    """Return `value` unchanged, and mark the value as a parameter of an example that attains a
    bound.

    Mutation tests do not change values marked with `case`.
    """
    return value


def exact_delta(mechanism: Any, pair: Pair | None, epsilon: float) -> Enclosure:
    """Enclose delta(epsilon) of a pair, the larger one of (D0, D1) and (D1, D0), from the exact law
    of the privacy loss; None for the mechanism's worst pair.

    Raises
    ------
    InvalidArgument
        If no exact law can be computed for the mechanism.
    """
    law = enclosed_law(mechanism, mechanism.worst_pair() if pair is None else pair)
    if law is None:
        raise InvalidArgument(
            f"exact_delta: no exact law can be computed for {type(mechanism).__name__}"
        )
    low, high = (
        max(float(side.hockey_stick(epsilon)), float(side.swapped().hockey_stick(epsilon)))
        for side in (law.lower, law.upper)
    )
    return Enclosure(low, max(low, high))


def attained(
    proof: Evidence, ratio: float, where: str, *, result: Result | None = None, **numbers: Any
) -> Evidence:
    """Add to a proof an example whose value is proved to be `ratio` times the promise; HOLDS_TIGHT
    if `ratio` is 1 up to `TIGHT`.

    Evidence whose verdict is not HOLDS is returned unchanged. `where` describes the example.
    """
    if proof.verdict is not ClaimVerdict.HOLDS:
        return proof
    verdict = ClaimVerdict.HOLDS_TIGHT if ratio >= 1 - TIGHT else ClaimVerdict.HOLDS
    text = f"{proof.text}; {ratio:.6g} of the promise is reached {where}"
    return replace(
        proof,
        verdict=verdict,
        text=text,
        enclosure=Enclosure(ratio - 1, max(ratio - 1, 0.0)),
        numbers=numbers,
        result=result,
    )


def identities(*differences: Any, text: str) -> Evidence:
    """Return HOLDS if sympy simplifies every difference to zero, otherwise FAILS with the first
    nonzero difference.
    """
    rest = [r for r in (sympy.simplify(sympy.expand(d)) for d in differences) if r != 0]
    if not rest:
        return Evidence(
            ClaimVerdict.HOLDS, text, "computer algebra (sympy)", grade="proved", scope=WHOLE
        )
    return Evidence(
        ClaimVerdict.FAILS,
        f"the two sides differ by {rest[0]}",
        "computer algebra (sympy)",
        at={"difference": str(rest[0])},
        grade="proved",
    )


def unsatisfiable(
    effort: Effort, *negations: Sequence[Any], text: str, where: Sequence[Sequence[Any]] = ((),)
) -> Evidence:
    """Return the evidence of proof obligations over the reals, decided by z3.

    Each obligation is given by its negation: a sequence of constraints, the negated promise last.
    HOLDS if z3 proves all unsatisfiable. FAILS with numbers if z3 satisfies one of the negations.
    INCONCLUSIVE if z3 gives up.

    If the negated promise is a strict inequality, equality must be attainable under the other
    constraints, in each of the cases `where`; otherwise the result is INCONCLUSIVE. So a promise
    that is too loose, or premises that contradict each other, do not count as a proof.
    """

    def solve(*constraints: Any) -> Any:
        solver = z3.Solver()
        solver.set("timeout", max(1, int(1000 * effort.seconds_left())))
        solver.add(*constraints)
        return solver.check(), solver

    method = "satisfiability (z3)"
    for constraints in negations:
        outcome, solver = solve(*constraints)
        if outcome == z3.sat:
            model = solver.model()
            at = {str(name): str(model[name]) for name in sorted(model, key=str)}
            shown = ", ".join(f"{name} = {value}" for name, value in at.items())
            return Evidence(ClaimVerdict.FAILS, f"broken at {shown}", method, at=at, grade="proved")
        if outcome != z3.unsat:
            return Evidence(
                ClaimVerdict.INCONCLUSIVE, f"z3 gave up: {solver.reason_unknown()}", method
            )
        *premises, promise = constraints
        if z3.is_gt(promise) or z3.is_lt(promise):
            for case in where:
                if solve(*premises, promise.arg(0) == promise.arg(1), *case)[0] != z3.sat:
                    return Evidence(
                        ClaimVerdict.INCONCLUSIVE,
                        f"the promised bound is not attained: {promise} is never an equality",
                        method,
                    )
    return Evidence(ClaimVerdict.HOLDS, text, method, grade="proved", scope=WHOLE)


def least(
    good: Callable[[float], bool], low: float, high: float, *, relative: float = 1e-3
) -> tuple[float, float]:
    """Return a bracket (bad, good) of the smallest x in [low, high] with good(x), by bisection to
    the relative width `relative`.

    `good` must be monotone. The bracket is (high, inf) if good(high) is false, and (low, low) if
    good(low) is true.
    """
    if not good(high):
        return high, math.inf
    if good(low):
        return low, low
    while high > low * (1 + relative):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if good(middle) else (middle, high)
    return low, high
