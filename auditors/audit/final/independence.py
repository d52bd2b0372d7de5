"""Stage before a violation is stated: the counted runs must agree with runs that have nothing in
common.

A certificate counts runs that are assumed to be independent. Noise that the runs of a call share
makes the counts of few calls look like a difference between the datasets, and noise that a process
keeps makes those of all calls look so. Two comparisons precede each violation:

* between calls, of which more are made if the test had fewer than `_CALLS`;
* between the test and single runs in fresh states, that is, in new processes
  (`workers/fresh_processes`).

Both use `statistics/dependence`, whose evidence is valid for any counts. Strong evidence is an
error. Weaker evidence makes the audit inconclusive, which happens to a mechanism with independent
runs with probability at most 1 in `_DOUBT`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.audit.runner import RoundRunner
from dpwitness.auditors.events.event import Event
from dpwitness.auditors.statistics.certificate import Tally
from dpwitness.auditors.statistics.dependence import log_dependence, mean_evidence
from dpwitness.auditors.workers import engine
from dpwitness.auditors.workers.engine import Phase, is_remote
from dpwitness.auditors.workers.fresh_processes import PIECE, STATES, fresh_outputs
from dpwitness.auditors.workers.statefulness import check_calls
from dpwitness.core.datasets.pairs import Pair

_DOUBT = 1000.0  # evidence from which a violation is not believed
_CALLS = 128  # calls of each dataset that show whether the runs of a call depend on each other
_CALL_ROUNDS = 128  # rounds of the two calls of a chunk
# time for more calls, and again for fresh states: the larger of this and of this share of the
# audit's time
_SECONDS, _SHARE = 0.5, 0.05
# modules of mechanisms that keep nothing between runs
_REFERENCE = ("dpwitness.mechanisms.textbook.", "dpwitness.mechanisms.papers.")


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Event that certifies a violation, and its counts."""

    pair: Pair
    index: int
    event: Event
    tally: Tally
    lost: int = 0
    cells: NDArray[np.int64] | None = None  # of a binned event: counts (2, cells) on D1 and D0

    def groups(self, sides: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """Return the tables for `log_dependence`: the counts of the test first, then those of
        groups of runs (2, cells).
        """
        if self.cells is not None:
            return [
                np.array([self.cells[side], *(group[side] for group in sides)]) for side in (0, 1)
            ]
        right, wrong = self.tally.correct, self.tally.wrong - self.lost
        guesses = [
            [table.sum() - _right(table) - _wrong(table), _right(table), _wrong(table)]
            for table in sides
        ]
        return [np.array([[self.tally.rounds - self.lost - right - wrong, right, wrong], *guesses])]


def _right(table: NDArray[np.int64]) -> int:
    return int(table[0, 1] + table[1, 2])


def _wrong(table: NDArray[np.int64]) -> int:
    return int(table[0, 2] + table[1, 1])


def require_independent(runner: RoundRunner, counted: Sequence[Counted]) -> str:
    """Compare the runs of each violation with more calls and with fresh states.

    Raise Unfit if they differ. Return the reason if a violation should not be believed; an empty
    text if it should.
    """
    if not counted or type(getattr(runner.run, "__self__", None)).__module__.startswith(_REFERENCE):
        return ""
    seconds = max(_SECONDS, _SHARE * runner.elapsed)
    logs = list(runner.dependence)
    by_pair: dict[int, list[Counted]] = {}
    for each in counted:
        by_pair.setdefault(id(each.pair), []).append(each)
    for violations in by_pair.values():
        logs.append(_between_calls(runner, violations, seconds))
        check_calls(logs)
        if not is_remote(runner.executor):
            logs.append(_against_fresh_states(runner, violations, seconds))
            check_calls(logs)
    evidence = check_calls(logs)
    if evidence < math.log(_DOUBT):
        return ""
    return (
        f"runs may depend on each other (evidence {math.exp(evidence):.3g}): counts vary "
        "between calls, or between processes, "
        "so that the violation is not certified; run the audit again with more trials"
    )


def _seconds_of(runner: RoundRunner, rounds: int) -> float:
    """Return the expected duration of some rounds, in seconds of the audit's clock."""
    spent = runner.spent / max(runner.done, 1) * rounds if runner.clock == "cpu" else 0.0
    return max(runner.pace.expected(rounds), spent)


def _between_calls(runner: RoundRunner, counted: Sequence[Counted], seconds: float) -> float:
    """Return the log-evidence that the runs of a call depend on each other, from as many calls as
    the time allows.
    """
    calls = min(_CALLS, int(seconds / max(_seconds_of(runner, _CALL_ROUNDS), 1e-9)))
    if calls < 2 or max(map(len, runner.calls.values()), default=0) >= _CALLS:
        return 0.0
    stage = runner.stage(
        counted[0].pair, Phase.MORE_CALLS, counted[0].index, calls * _CALL_ROUNDS, _CALL_ROUNDS
    )
    segments = [
        found.tables
        for found in engine.counts(
            stage, [each.event for each in counted], runner.executor, runner.pace
        )
    ]
    return mean_evidence(
        [
            log_dependence(*np.array(tables).transpose(1, 0, 2))
            for tables in zip(*segments, strict=True)
        ]
    )


def _against_fresh_states(runner: RoundRunner, counted: Sequence[Counted], seconds: float) -> float:
    """Return the log-evidence that fresh states have other frequencies of guesses than the test, or
    than each other.
    """
    expected = seconds / max(_seconds_of(runner, STATES), 1e-9)
    runs = PIECE * int(min(max(expected // PIECE, 1), 64 // PIECE))  # in each fresh state
    stage = replace(
        runner.stage(counted[0].pair, Phase.FRESH, counted[0].index, STATES * runs, runs),
        chunk=runs,
    )
    found = runner.call(fresh_outputs, stage, seconds, limit=4 * runner.time_limit + 10 * seconds)
    if not found:
        return 0.0
    tables = [
        [np.array([each.event.tabulate(side) for side in sides]) for sides in found]
        for each in counted
    ]
    return mean_evidence(
        [log_dependence(*each.groups(groups)) for each, groups in zip(counted, tables, strict=True)]
    )
