"""Continuation of a stored audit: its records, and the check that its counts belong to the same
mechanism.

A hash of the source does not cover imported modules or globals. So a store keeps digests of
outputs: of each pair's probe, and of the first chunk of each stage that stores outputs. The same
seed must reproduce these digests before any stored data are used. The counts of a mechanism that
cannot be seeded are compared with fresh runs instead, at error `_ALARM_PROBABILITY`.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from dataclasses import replace

from dpwitness.auditors.audit.conclude import Findings, build_result
from dpwitness.auditors.audit.options import AuditOptions
from dpwitness.auditors.audit.probe import ProbedPair, probe_pairs
from dpwitness.auditors.audit.runner import FIRST_CHUNK, RoundRunner
from dpwitness.auditors.audit.screening import ordered
from dpwitness.auditors.audit.test import EventTest, single_event
from dpwitness.auditors.witnesses.audit_records import AuditLedger
from dpwitness.auditors.witnesses.kinds import recompute_bounds
from dpwitness.auditors.workers.engine import Phase, Sides, Stage
from dpwitness.auditors.workers.rounds import task_lock
from dpwitness.auditors.workers.statefulness import digest
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument

# fresh rounds compared with the stored counts of a mechanism that cannot be seeded
_FRESH_ROUNDS = 1_000
_ALARM_PROBABILITY = 1e-9  # probability that this comparison rejects the unchanged mechanism


def require_same_chunks(runner: RoundRunner, probed: Sequence[ProbedPair]) -> None:
    """Run the first chunk of each stored stage again. Raise InvalidArgument if the
    outputs differ.
    """
    if runner.ledger is None or not runner.ledger.resumed:
        return
    for key, plan in runner.ledger.values(FIRST_CHUNK).items():
        phase, index = map(int, key.removeprefix(FIRST_CHUNK).split())
        stage = runner.stage(probed[index].pair, phase, index, plan["rounds"], plan["chunk"])
        one, zero = runner.call(
            _sample_first_chunk, replace(stage, single=plan["single"], shared=plan["shared"])
        )
        if one is None or zero is None or digest((one, zero)) != plan["outputs"]:
            raise runner.ledger.changed_outputs(stage.size(0))


def resume(
    runner: RoundRunner, options: AuditOptions, pairs: Sequence[Pair], data: Json
) -> Generator[Findings, None, tuple[Findings, list[ProbedPair]]]:
    """Restore a finished audit, run its first rounds again, and return the findings and the usable
    pairs.

    Raise InvalidArgument if the rounds differ, or the stored bounds do not follow from the counts.
    """
    runner.restore(data)
    findings = Findings.from_json(data, options, pairs)
    yield findings
    probed = _probe_again(runner, findings, pairs)
    if findings.test is not None:
        findings = findings.on(findings.test.pair, runner)
        yield findings
    assert runner.ledger is not None
    try:
        recompute_bounds(replace(build_result(runner, findings), subject=None).to_json())
    except InvalidArgument as error:
        raise InvalidArgument(
            f"store is damaged or edited, got {runner.ledger.store.path}: {error}"
        ) from None
    return findings, probed


def _probe_again(
    runner: RoundRunner, findings: Findings, pairs: Sequence[Pair]
) -> list[ProbedPair]:
    """Run the first rounds of a restored audit again, and return its usable pairs. Raise
    InvalidArgument if the rounds differ.
    """
    assert runner.ledger is not None
    again = copy.copy(runner)  # these rounds are not counted, and their notes are stored already
    again.notes, again.single, again.shared = list(runner.notes), set(), False
    tried = ordered(pairs, runner.ledger.value("order", None))
    probed = probe_pairs(again, findings.options, tried, len(runner.ledger.values("probe ")))
    require_same_chunks(again, probed)
    runner.repeatable = again.repeatable
    if findings.test is not None and not runner.repeatable:
        _require_same_rates(runner, runner.ledger, findings.test)
    return probed


def _require_same_rates(runner: RoundRunner, ledger: AuditLedger, test: EventTest) -> None:
    """Raise InvalidArgument if the right and wrong guesses of fresh runs do not fit the stored
    counts of the last stage.

    The test has error probability `_ALARM_PROBABILITY`.
    """
    event, stored = single_event(test.event), test.tally
    one, zero = runner.call(
        _sample_first_chunk,
        runner.stage(test.pair, Phase.TIMING, test.index, _FRESH_ROUNDS, _FRESH_ROUNDS),
    )
    if one is None or zero is None or stored.rounds == 0:
        return
    (_, wrong0, right0), (_, right1, wrong1) = (
        (int((guess == 0).sum()), int((guess == 1).sum()), int((guess == -1).sum()))
        for guess in (event.guess(zero), event.guess(one))
    )
    from scipy.stats import hypergeom  # half a second, and few audits need it

    rounds = len(one) + len(zero)
    for fresh, known in ((right0 + right1, stored.correct), (wrong0 + wrong1, stored.wrong)):
        law = hypergeom(rounds + stored.rounds, fresh + known, rounds)
        if min(law.cdf(fresh), law.sf(fresh - 1)) < _ALARM_PROBABILITY / 4:
            raise ledger.changed_mechanism(
                f"{fresh:,} of {rounds:,} rounds run now are on one side of the event, "
                f"and {known:,} of {stored.rounds:,} stored ones: one mechanism gives this "
                f"with probability below {_ALARM_PROBABILITY:g}"
            )
    runner.note(
        f"the mechanism cannot repeat its outputs: {_FRESH_ROUNDS:,} rounds run now "
        f"fit the counts of the store (tested at error {_ALARM_PROBABILITY:g}), "
        "a small change of the mechanism would not be detected"
    )


@task_lock()
def _sample_first_chunk(stage: Stage) -> Sides:
    """Return the outputs of a stage's first chunk."""
    return stage.sample(0)


def extension_totals(ledger: AuditLedger, longer: int) -> list[int]:
    """Return the total number of runs after each extension up to `longer`, which is added to the
    stored list if it is new.

    Raise InvalidArgument if the audit is not finished, or a new total does not exceed the planned
    runs.
    """
    known: list[int] = ledger.value("extensions", [])
    if longer not in known:
        least = known[-1] if known else ledger.entry.planned
        if ledger.entry.verdict is None:
            raise InvalidArgument(
                "audit: extend_to needs a finished audit, but the audit in "
                f"{ledger.store.path} is not finished"
            )
        if longer <= least:
            raise InvalidArgument(
                f"audit: extend_to must be above the {least:,} runs that are planned "
                f"already, got {longer:,}"
            )
        known = [*known, longer]
        ledger.put("extensions", known)
        ledger.reopen(longer)
    return known[: known.index(longer) + 1]
