"""Check of refuted claims by the kernel, `proofs_checks/kernel/checker.py`: violations are reported
if the kernel accepts their counts.
"""

from __future__ import annotations

import json
from dataclasses import replace

from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.statistics.certificate import Part, error_of_counts, partial_bound
from dpwitness.auditors.witnesses.recompute import Basis, Cause
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.core.claims import ApproxDP, Claim, exact_text
from dpwitness.core.values.json_reader import Json

_REFUTED = (Verdict.VIOLATED, Verdict.SUSPECT)
# relative excess of a bound over the claim up to which the kernel's rounding may decide
_MARGIN = 1e-6


def checked_by_kernel(result: AuditResult) -> AuditResult:
    """Return the result, with the verdict ERROR at each level whose violation the kernel refuses.

    A notion that the kernel does not know keeps its verdict, with a note. A bound that exceeds the
    claim by less than the margin of the kernel's rounding becomes NOT_REFUTED.
    """
    level, basis = result.bit_level, result.basis
    if (
        result.verdict in _REFUTED
        and basis is not None
        and any(part.prior is not None for part in basis.parts)
    ):
        result = _with_problem(
            result,
            "the kernel does not know sequential tests: the verdict rests on the program alone",
        )
    elif result.verdict in _REFUTED and basis is not None:
        event = result.event.to_json() if basis.cells and result.event is not None else None
        result = _with_problem(
            result,
            kernel_problem(
                result.claim,
                "value",
                result.parameter_lower,
                result.confidence,
                basis.counts(),
                event,
            ),
        )
    if level is not None and level.verdict in _REFUTED and level.tally is not None:
        counts = level.basis(result.confidence).counts()
        why = kernel_problem(result.claim, "bit", level.epsilon_lower, result.confidence, counts)
        if why.startswith("counts") or why.startswith("bound"):
            result = replace(
                result,
                bit_level=replace(level, verdict=Verdict.ERROR),
                notes=(*result.notes, f"low bits: {why}"),
            )
    return replace(result, causes=tuple(_checked_cause(cause, result) for cause in result.causes))


def _checked_cause(cause: Cause, result: AuditResult) -> Cause:
    """Return the cause, with the verdict ERROR if the kernel refuses its counts. The kernel does
    not check the discount of the bound.
    """
    if cause.verdict not in _REFUTED or cause.tally is None:
        return cause
    alpha = error_of_counts(cause.alpha, cause.within)
    bound = partial_bound(result.claim, cause.tally, alpha, cause.lost)
    problem = kernel_problem(
        result.claim,
        "value",
        bound,
        result.confidence,
        Basis(alpha, (Part(cause.tally, lost=cause.lost),)).counts(),
    )
    return (
        replace(cause, verdict=Verdict.ERROR, words=problem)
        if problem.startswith(("counts", "bound"))
        else cause
    )


def kernel_problem(
    claim: Claim,
    level: str,
    bound: float,
    confidence: float,
    counts: Json,
    event: Json | None = None,
) -> str:
    """Return why the kernel does not accept the counts of a refuted claim, or an empty text."""
    # only an audit that refutes its claim loads the kernel
    from dpwitness.proofs_checks.kernel import checker

    # the accountant's epsilon at a delta
    if isinstance(claim, ApproxDP) and claim.kind not in checker.FORMS:
        claim = ApproxDP(claim.epsilon, claim.delta_budget)
    try:
        known = checker.decode_claim(exact_text(claim), list(claim.numbers))
        plain = checker.read(
            json.dumps(
                {"bound": strict(bound), "confidence": confidence, "counts": counts, "event": event}
            )
        )
        checker.check_counts(known, level, *plain.values())
    except checker.NotChecked as missing:
        return f"the kernel does not check this: {missing}; the verdict rests on the program alone"
    except checker.Refused as refusal:
        # the rounding of several stages adds up
        if str(refusal).startswith("bound") and "stages" in counts:
            return (
                "the kernel refutes the claim, but not every digit of the bound from "
                f"{len(counts['stages']) + 1} stages"
            )
        return str(refusal)
    return ""


def _with_problem(result: AuditResult, problem: str) -> AuditResult:
    """Return the result with a note on the problem, and as an ERROR if the kernel knows the notion
    but refuses the counts.
    """
    if not problem:
        return result
    if problem.startswith("the kernel"):
        return replace(result, notes=(*result.notes, problem))
    parameter = result.claim.parameter
    if problem.startswith("counts: they do not refute") and result.parameter_lower <= parameter * (
        1 + _MARGIN
    ):
        why = (
            f"the bound {result.parameter_lower:.12g} exceeds the claim by less than the "
            "rounding of the kernel: the claim is not refuted"
        )
        return replace(
            result,
            verdict=Verdict.NOT_REFUTED,
            parameter_lower=parameter,
            epsilon_lower=min(result.epsilon_lower, parameter)
            if result.claim.bounds_epsilon
            else result.epsilon_lower,
            notes=(why, *result.notes),
        )
    bound, claim = (
        f"{result.claim.symbol} > {result.parameter_lower:.9g}",
        f"{result.claim.symbol} <= {result.claim.parameter:.9g}",
    )
    why = (
        f"the program certifies {bound} against {claim}, but the kernel refuses its counts: "
        f"{problem}; please report this"
    )
    return replace(result, verdict=Verdict.ERROR, notes=(why, *result.notes))
