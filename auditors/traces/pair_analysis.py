"""Examination of one pair under the trace: recordings, replays, and findings from their
differences.

Where all noise comes from primitives that see the data, both runs share the primitives' outputs,
and the code causes every difference. Where noise is drawn without the data and added later, control
flow and output may depend on data and noise together. Then a difference is a finding only if it
occurs whatever the noise, in enough runs to rule out chance under the claim.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.traces.alignment import largest
from dpwitness.auditors.traces.calls import CallTable, inner_scales
from dpwitness.auditors.traces.coupling import (
    FOR_ALL_NOISE,
    PairEvidence,
    Run,
    aligned,
    alignment_holds,
    alignment_repeats,
    laws_compared,
)
from dpwitness.auditors.traces.evidence import Finding
from dpwitness.auditors.traces.sessions import PairSession, SessionRecorder
from dpwitness.auditors.workers.fitness import check_exception_text
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_reader import Json

_RECORDINGS = 3
_MAX_RECORDINGS = 21  # largest number of recordings per side to rule out chance
NOT_RECORDED = "no call of a noise primitive was recorded"
UNFAITHFUL = (
    "two runs on one dataset with the same draws differ: a part of the noise is not recorded"
)
MAY_BE_CHANCE = "the runs on both datasets differ, which may be chance"
REPEATS = 12  # further recordings in which a constant output may change
_SYSTEM = (
    "os.urandom",
    "secrets.randbits",
    "random.SystemRandom.random",
    "random.SystemRandom.getrandbits",
)


def glance(recorder: SessionRecorder, pair: Pair, promise: Claim) -> float:
    """Return a score of how bad a pair looks after one recording and one replay. A search over
    pairs maximizes the score.
    """
    runs = PairSession.of(recorder, pair, promise)
    recorded, replayed = runs.record_both()
    evidence = PairEvidence(CallTable.of(replayed["table"]))
    loose, diverge = evidence.calls.loose, bool(replayed["output"] or replayed["differences"])
    if loose and replayed["output"]:
        evidence, _ = aligned(runs, evidence, (recorded, replayed))
    evidence = evidence.with_loss(runs)
    reached = evidence.loss / runs.claim.parameter
    worst = 0.0 if math.isnan(reached) else min(reached, 1e6)
    if diverge and not loose:
        worst = max(worst, 1.5)
    elif diverge and not evidence.calls.moved:
        # if the data alone do not cause it, one dataset may have an output that the other cannot
        # have; otherwise, only the distance of the outputs is left as a score
        worst = max(worst, 1.01 * bool(replayed["differences"]))
        a, b = (np.asarray(side["numbers"], dtype=float) for side in (recorded, replayed))
        distance = largest(np.nan_to_num(a - b)) if a.shape == b.shape else math.inf
        worst += 1e-3 * math.tanh(distance)
    return worst + 0.1 * (len(evidence.findings) + len(list(evidence.calls.findings())))


def examine(
    recorder: SessionRecorder, pair: Pair, promise: Claim, asked: tuple[str, ...], *, seeded: bool
) -> PairEvidence:
    """Return all evidence from recordings of one pair under the user's claim.

    `asked` are names of the primitives that the user gave; `seeded` states whether the seed should
    decide all randomness.
    """
    runs = PairSession.of(recorder, pair, promise)
    again, pairs, unfaithful = _recordings(runs)
    recordings = [recorded for recorded, _ in pairs]
    scales = inner_scales([CallTable.of(replayed["table"]) for _, replayed in pairs])
    evidence, *others = (PairEvidence(CallTable.of(each["table"], scales)) for _, each in pairs)
    evidence = _with_unseen_draws(runs, evidence, pairs, unfaithful, asked)
    if seeded:
        evidence = _with_unseeded_draws(runs, evidence, recordings)
    raised = [run["raised"] for run_pair in pairs for run in run_pair]
    if all(raised):
        evidence = evidence.with_note(f"every run raises: {raised[0]}")
    if unfaithful:
        return evidence
    if evidence.calls.loose:
        evidence = _with_loose_findings(runs, evidence, pairs)
    else:
        evidence = _with_strict_findings(evidence, pairs)
    evidence = _with_largest_loss(runs, evidence, others)
    for finding in evidence.calls.findings():
        evidence = evidence.with_finding(finding.kind, finding.message, finding.where)
    evidence = _with_coupled_confirmed(runs, evidence.with_loss_findings(runs.claim), recordings)
    doubt = "" if evidence.findings else _doubt(runs, CallTable.of(again["table"]), pairs)
    return replace(evidence, doubt=doubt, loss=math.nan) if doubt else evidence


def _with_largest_loss(
    runs: PairSession, evidence: PairEvidence, others: list[PairEvidence]
) -> PairEvidence:
    """Add the loss of the calls; where no shift of the noise was found, the largest loss of all
    replays.
    """
    found = evidence.with_loss(runs)
    for other in () if found.calls.moved else (each.with_loss(runs) for each in others):
        if other.priced and np.nan_to_num(other.loss) > np.nan_to_num(found.loss):
            found = replace(found, calls=other.calls, loss=other.loss)
    return found


def _doubt(runs: PairSession, calls: CallTable, pairs: list[Run]) -> str:
    """Return why the recorded calls do not account for the outputs: none was recorded, or no draw
    reaches the output. Empty otherwise.
    """
    first, outputs = outcome(pairs[0][0]), [outcome(run) for run_pair in pairs for run in run_pair]
    if all(call.law == "spend" for call in calls.kinds()):
        differ = any(output != first for output in outputs)
        return NOT_RECORDED + (
            ": the outputs on both datasets have no noise, or their noise is drawn where nothing "
            "is recorded"
            if differ
            else ", and all outputs on both datasets are equal: on this pair, the output does not "
            "show what the mechanism does"
        )
    if any(outcome(recorded) != first for recorded, _ in pairs):
        return ""
    for _ in range(REPEATS):
        recorded = runs.record()
        if outcome(recorded) != first:
            return "" if is_faithful(runs, recorded) else UNFAITHFUL
    return (
        "the recorded noise does not reach the output, which is the same in "
        f"{len(pairs) + REPEATS} runs"
    )


def outcome(run: Json) -> tuple[str, bytes, tuple[str, ...]]:
    """Return the output of a run, or its exception, as a value that can be compared."""
    return run["raised"], np.asarray(run["numbers"], dtype=float).tobytes(), tuple(run["texts"])


def is_faithful(runs: PairSession, recorded: Json) -> bool:
    """Return whether a replay of a recording on its own dataset has the same output."""
    return outcome(runs.replay_own(recorded, brief=True)) == outcome(recorded)


def _recordings(runs: PairSession) -> tuple[Json, list[Run], str]:
    """Return a replay of the first recording on its dataset, recordings with their replays on the
    other dataset, and a difference.

    The difference is one between two runs on one dataset with the same draws, which only randomness
    that is not recorded causes; empty if there is none. Each recording is replayed on its dataset,
    since few outputs may be equal by chance, and one of them twice on the other.
    """
    own, pairs, difference = list[Json](), list[Run](), ""
    while len(pairs) < _RECORDINGS:
        recorded = runs.record()
        own.append(runs.replay_own(recorded))
        pairs.append((recorded, runs.replay(recorded)))
        difference = difference or _describe_replay_difference(own[-1])
        if recorded["calls"] > 20_000:  # long runs are recorded once only
            break
    recorded, replayed = pairs[0]
    if (
        not difference
        and not replayed["differences"]
        and outcome(runs.replay(recorded, brief=True)) != outcome(replayed)
    ):
        difference = "the outputs of two replays on the other dataset"
    # compiled functions draw where nothing is recorded
    if (difference or not recorded["calls"]) and runs.recorder.step("uncompile"):
        return _recordings(runs)
    return own[0], pairs, difference


def _with_unseen_draws(
    runs: PairSession,
    evidence: PairEvidence,
    pairs: list[Run],
    difference: str,
    asked: tuple[str, ...],
) -> PairEvidence:
    """Add findings for randomness that the record does not contain. `difference` describes a replay
    that is not faithful.
    """
    names = {call.name for call in evidence.calls}
    uncalled = [name for name in asked if not any(n.endswith(name) for n in names)]
    if difference:
        past = runs.recorder.step(
            "past", key=pairs[0][0]["key"], dataset=runs.first, seed=runs.recorder.run_seed()
        )
        by = "the source is not a known generator, or another thread draws"
        if past:
            by = f"numbers were drawn without a known primitive, by: {', '.join(past)}"
        if uncalled:
            by += f"; never called: {', '.join(uncalled)}, which may be kept under another name"
        message = f"two runs on one dataset with the same record differ: {difference}; {by}"
        return evidence.with_finding("SOURCE", message)
    if not asked or len(uncalled) < len(asked):
        return evidence
    message = f"no call was recorded of {', '.join(asked)}: kept under another name, or not used"
    recorded = any(run["calls"] for run_pair in pairs for run in run_pair)
    return evidence.with_note(message) if recorded else evidence.with_finding("SOURCE", message)


def _with_unseeded_draws(
    runs: PairSession, evidence: PairEvidence, recordings: list[Json]
) -> PairEvidence:
    """Add findings for randomness that the seed does not decide."""
    first, *others = (recorded["key"] for recorded in recordings)
    constant = runs.recorder.step("constant", first=first, others=others) if others else ()
    found = [
        *((f"{place} is made without a seed", "") for place in recordings[0]["unseeded"]),
        *(
            (f"{call.name}: its result does not depend on the seed", call.where)
            for call in evidence.calls
            if call.name in _SYSTEM
        ),
        *((f"{draw} gives the same numbers under every seed", "") for draw in constant),
    ]
    for message, where in found:
        evidence = evidence.with_finding("SOURCE", message, where)
    return evidence


def _with_strict_findings(evidence: PairEvidence, pairs: list[Run]) -> PairEvidence:
    """Add findings for runs that share all noise: the code causes every difference."""
    for _, replayed in pairs:
        evidence, output = _with_differences(evidence, replayed), replayed["output"]
        if output.startswith("raises"):
            check_exception_text("one dataset", output.partition("only: ")[2])
            evidence = evidence.with_finding("EXCEPTION", f"it {output}")
        elif output and not replayed["lost"]:  # then the runs share their noise
            evidence = evidence.with_finding("OUTPUT", f"with the same noise {output}")
    lost = any(replayed["lost"] for _, replayed in pairs)
    return replace(evidence, priced=evidence.priced and not lost)


def _with_differences(evidence: PairEvidence, replayed: Json) -> PairEvidence:
    """Add the differences of a replay's calls as findings."""
    for each in replayed["differences"]:
        evidence = evidence.with_finding(_finding_kind(each["kind"]), each["text"], each["where"])
    return evidence


def _finding_kind(kind: str) -> str:
    """Return the kind of finding for a kind of difference: CALLS, SCALE, SHAPE or PARAMETER."""
    return "CALLS" if "call" in kind else kind.upper()


def _with_coupled_confirmed(
    runs: PairSession, evidence: PairEvidence, recordings: list[Json]
) -> PairEvidence:
    """Keep findings from coupled runs of plain generators only if the laws of the noise confirm
    them.
    """
    losses = tuple(f for f in evidence.findings if f.kind == "LOSS")
    doubtful = evidence.coupled()
    if not evidence.calls.plain or not (doubtful or (losses and evidence.calls.moved)):
        return evidence
    if not evidence.laws:
        evidence, _ = laws_compared(runs, evidence, recordings)
        if evidence.laws in ("same", "different"):
            mixed = ("the loss of ", "data and noise are mixed")
            notes = tuple(note for note in evidence.notes if not note.startswith(mixed))
            known = replace(evidence.without(losses), notes=notes)
            return known.with_loss(runs).with_loss_findings(runs.claim)
        doubtful = evidence.coupled()
    if evidence.laws not in ("mixed", "unknown"):
        return evidence
    moved = evidence.laws == "mixed" and bool(evidence.calls.moved)
    if moved and not alignment_repeats(runs, evidence):
        doubtful += losses
    return replace(evidence.without(doubtful), suspicions=(*evidence.suspicions, *doubtful))


def _with_loose_findings(
    runs: PairSession, evidence: PairEvidence, pairs: list[Run]
) -> PairEvidence:
    """Add findings for noise that is drawn without the data: differences that neither a shift of
    the noise nor chance explains.
    """
    differ = [run for run in pairs if run[1]["output"] or run[1]["differences"]]
    if not differ:
        return evidence
    for run in (run for run in differ[:2] if not run[1]["differences"]):
        evidence, found = aligned(runs, evidence, run)
        if found:
            first = [run, *(other for other in pairs if other is not run)]
            evidence, holds = alignment_holds(runs, evidence, first)
            if holds or evidence.findings:
                return evidence
    recordings = [recorded for recorded, _ in pairs]
    if evidence.calls.plain and not evidence.laws:
        recordings += [runs.record() for _ in range(2 - len(recordings))]
        evidence, _ = laws_compared(runs, evidence, recordings)
    if evidence.laws == "different":
        for _, replayed in pairs:
            evidence = _with_differences(evidence, replayed)
    if evidence.laws in ("same", "different"):
        return evidence
    return _with_findings_for_all_noise(runs, evidence, recordings, pairs)


def _with_findings_for_all_noise(
    runs: PairSession, evidence: PairEvidence, recordings: list[Json], pairs: list[Run]
) -> PairEvidence:
    """Add findings for differences that occur in enough recordings of both sides to rule out chance
    under the claim.
    """
    rounds, sure = _rounds_needed(runs.claim)
    own = recordings + [runs.record() for _ in range(rounds - len(recordings))]
    others = [runs.record(second=True) for _ in range(rounds)]
    found = [*filter(None, [_always(own, others)])]
    keys, other_keys = ([r["key"] for r in side] for side in (own, others))

    def varies(first: int, others: list[int], left_out: Any = None) -> set[tuple[str, int]]:
        found = runs.recorder.step("varies", first=first, others=others, left_out=left_out)
        return {tuple(each) for each in found}

    across = varies(keys[0], other_keys[:1], runs.left_out)
    within = varies(keys[0], keys[1:]) | varies(other_keys[0], other_keys[1:])
    if not any(kind == "calls" for kind, *_ in within):
        known = {
            _finding_kind(each["kind"]): each
            for _, replayed in pairs
            for each in replayed["differences"]
        }
        for kind, index in sorted(across - within):
            name = _finding_kind(kind)
            each = known.get(name, {"text": f"call {index} differs", "where": ""})
            found.append(Finding(name, f"{each['text']}{FOR_ALL_NOISE}", each["where"]))
    for finding in found:
        evidence = evidence.with_finding(finding.kind, finding.message, finding.where, certain=sure)
    if found:
        return evidence
    note = (
        "data and noise are mixed in ways that the trace cannot separate: run `dpwitness audit` "
        "to find out more"
    )
    return replace(evidence, notes=(*evidence.notes, note), priced=False)


def _rounds_needed(claim: Claim) -> tuple[int, bool]:
    """Return the number of recordings per side that rule out chance under the claim, and whether
    this number is allowed.

    The observation is "always this value on D1, never on D0". Its probability in n runs on each
    dataset is at most (p (1 - p / e^epsilon))^n.
    """
    epsilon = claim.parameter if claim.bounds_epsilon else max(1.0, claim.parameter)
    p = min(1.0, 0.5 * math.exp(min(epsilon, 50.0)))
    most = p * (1 - p * math.exp(-min(epsilon, 50.0)))
    # an observation of probability 1e-4 under the claim is not chance
    need = math.ceil(math.log(1e-4) / math.log(most)) if most < 1 else _MAX_RECORDINGS + 1
    return min(max(need, _RECORDINGS), _MAX_RECORDINGS), need <= _MAX_RECORDINGS


def _describe_replay_difference(again: Json) -> str:
    """Return a description of how a replay on the recorded dataset differs from the record; empty
    if the replay is equal.

    Compares the output, the calls and the inputs.
    """
    texts = (
        again["output"],
        *(each["text"] for each in again["differences"]),
        *(
            f"the input of {call.name} is {call.row['text']}"
            for call in CallTable.of(again["table"])
            if call.row["linf"] > 0 or call.row["alone"]
        ),
    )
    return next(filter(None, texts), "")


def _always(own: list[Json], others: list[Json]) -> Finding | None:
    """Return a finding for a part of the output that is constant on each dataset and differs
    between the datasets; None if there is none.
    """
    raised = [{bool(r["raised"]) for r in side} for side in (own, others)]
    if raised in ([{True}, {False}], [{False}, {True}]):
        message = next(filter(None, (r["raised"] for r in (*own, *others))))
        check_exception_text("one dataset", message)
        return Finding("EXCEPTION", f"it raises on one side only{FOR_ALL_NOISE}: {message}")
    sides = [[r for r in side if not r["raised"]] for side in (own, others)]
    sizes = [sorted({np.size(r["numbers"]) for r in side}) for side in sides]
    if any(len(side) != 1 for side in sizes):
        return None
    message = f"it has {sizes[0][0]} numbers and {sizes[1][0]}"
    if sizes[0] == sizes[1]:
        message = _constant_content(sides)
    return Finding("OUTPUT", f"{message}{FOR_ALL_NOISE}") if message else None


def _constant_content(sides: list[list[Json]]) -> str:
    """Return a number or the texts of outputs of one size that are constant on each dataset and
    differ between the datasets; empty if there are none.
    """
    first, second = (np.array([r["numbers"] for r in side], dtype=float) for side in sides)
    nan = [np.isnan(side) for side in (first, second)]
    lone = np.flatnonzero(
        (nan[0].all(axis=0) & ~nan[1].any(axis=0)) | (nan[1].all(axis=0) & ~nan[0].any(axis=0))
    )
    if lone.size:
        return f"number {lone[0]} of the output is NaN on one side only"
    fixed = np.flatnonzero(
        _equal(first, first[0]).all(axis=0)
        & _equal(second, second[0]).all(axis=0)
        & ~_equal(first[0], second[0])
    )
    if fixed.size:
        k = fixed[0]
        return f"number {k} of the output is {first[0, k]:.6g} and {second[0, k]:.6g}"
    before, after = ({tuple(r["texts"]) for r in side} for side in sides)
    if not (len(before) == len(after) == 1 and before != after):
        return ""
    return f"it holds {list(before.pop())[:3]} and {list(after.pop())[:3]}"


def _equal(a: FloatArray, b: FloatArray) -> NDArray[np.bool_]:
    """Return where two arrays are equal; NaN equals NaN."""
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))
