"""Final step of an audit: run its work, and build the result, whatever ends the work."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, wait
from dataclasses import replace

from dpwitness.auditors.black_box.pair_exercise import exercised
from dpwitness.auditors.black_box.stages import EARLY_ALPHA
from dpwitness.auditors.black_box.state import AuditState
from dpwitness.auditors.events.detection import detectable
from dpwitness.auditors.events.outputs import UNAUDITED_PREFIX
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.running.engine import MechanismFailed
from dpwitness.auditors.running.statefulness import Unfit
from dpwitness.auditors.running.worker_failures import explained
from dpwitness.auditors.statistics.combination import shares_spent
from dpwitness.mechanisms.foreign.target import Target

_ENDING = 5.0  # seconds to wait for running tasks after their target is closed


def kept(state: AuditState, work: Callable[[], None], own_executor: bool) -> AuditResult:
    """Run the work of an audit and return its result; if the work is interrupted or fails, return what was measured."""
    interrupted, failure = False, ""
    try:
        work()
    except KeyboardInterrupt:
        interrupted = True
    except MechanismFailed as error:
        failure = str(error)
        if isinstance(error, Unfit):
            state.tested.clear()
            state.bit_level = None
    except BrokenExecutor as error:  # raised by `submit`, if a worker died between two chunks
        failure = explained(error) or str(error)
    finally:
        if own_executor:
            state.asked.executor.shutdown(wait=False)
        if (interrupted or failure) and isinstance(state.asked.mechanism, Target):
            state.asked.mechanism.close()  # stop busy workers
            wait(state.pace.under_way, timeout=_ENDING)
            state.asked.mechanism.close()  # stop workers that a running task has started since
        if state.ledger is not None:
            state.ledger.flush()
    result = replace(build_result(state, interrupted, failure), seconds=state.took)
    if state.ledger is not None:
        entry = state.ledger.entry
        if len(state.ledger.values("end ")) <= state.extensions + 1:
            state.ledger.finish(result, state.done, state.planned)
        elif entry.verdict not in (None, result.verdict.value):
            told = f"{state.ledger.store.path} holds an extension that is {entry.verdict}: --extend {entry.planned} shows it"
            result = replace(result, notes=(told, *result.notes))
        if state.ledger.trouble:
            told = (
                f"{state.ledger.store.path} could not be written to the end ({state.ledger.trouble}): what is not in it would be run again"
            )
            result = replace(result, notes=(*result.notes, told), unstored=state.ledger.trouble)
    return result


def build_result(state: AuditState, interrupted: bool, failure: str) -> AuditResult:
    """Return the result of the measurements so far."""
    if grown := state.costs.growth():
        state.note(grown)
    asked = state.asked
    base = AuditResult(
        name=asked.name,
        claim=asked.claim,
        verdict=Verdict.ERROR,
        confidence=asked.confidence,
        seed=asked.seed,
        trials=state.done,
        requested=state.planned,
        bit_level=state.bit_level,
        pairs=tuple(state.pairs),
        notes=tuple(state.notes),
        target=asked.target,
        scores=state.scores,
        mechanism=asked.mechanism,
    )
    if not state.tested:
        note = failure or "interrupted before the test began: no event has been tried yet"
        return replace(base, verdict=Verdict.ERROR if failure else Verdict.INCONCLUSIVE, notes=(note, *base.notes))
    best, share = max(state.tested, key=lambda t: (t.lower, t.epsilon)), shares_spent(state.extensions)
    refuted = best.lower > base.claim.parameter
    verdict = Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED
    notes = sorted(base.notes, key=lambda note: not note.startswith(UNAUDITED_PREFIX))
    if not refuted and notes and notes[0].startswith(UNAUDITED_PREFIX):
        verdict = Verdict.INCONCLUSIVE
    if interrupted or failure:
        verdict = Verdict.INCONCLUSIVE if interrupted else Verdict.ERROR
        notes.insert(0, failure or f"interrupted after {state.done} of {base.requested} runs; the bound is that of the last completed look")
        if refuted:
            notes.insert(1, f"a violation had been certified by then: {base.claim.symbol} > {best.lower:.4g}")
    moved, idle = (None, "") if interrupted or failure else exercised(base.claim, best.parts, state.seen, max(1, len(state.pairs)))
    if refuted or (state.bit_level is not None and state.bit_level.epsilon_lower > 0):
        moved = True
    if moved is False:
        verdict = Verdict.INCONCLUSIVE
        notes.insert(0, idle)
    return replace(
        base,
        verdict=verdict,
        epsilon_lower=best.epsilon,
        parameter_lower=best.lower,
        p_value=min(1.0, best.p_value * share),
        confidence=1 - share * asked.alpha if share > 1 else asked.confidence,
        detectable=detectable(base.claim, best.law, best.planned, best.alpha * (1 - EARLY_ALPHA)) if best.tally.rounds else math.inf,
        pair=best.pair,
        event=best.event,
        tally=best.tally,
        stages=tuple(best.parts) if len(best.parts) > 1 else (),
        alpha=best.alpha * (1 - EARLY_ALPHA) / (2 if base.claim.bounds_renyi else 1),
        basis=best.basis,
        method=best.method,
        looks=tuple(best.looks),
        picture=best.picture,
        exercised=moved,
        notes=tuple(notes),
    )
