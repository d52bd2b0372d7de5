"""Building blocks of the checks: the mechanism under check, requirements of a check, and exact
tests on few runs.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import itertools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.events.outputs import Outputs
from dpwitness.auditors.statistics.anytime import log_dependence
from dpwitness.auditors.statistics.certificate import Part, Tally, certified
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.engine import Inline, collect
from dpwitness.auditors.workers.fitness import check_calls
from dpwitness.auditors.workers.rounds import Stage, run_side, stream
from dpwitness.core import Domain, InvalidArgument, Pair
from dpwitness.core.claims import Claim, promised
from dpwitness.mechanisms.wrappers.programs.target import Target

CONFIDENCE = 1 - 1e-9  # of every statistical check
LEAST = 1000  # smallest number of runs of an audit
_CALLS = 16  # calls of each dataset among the rounds of `require_indistinguishable`
FEW = 0.002  # default share of all runs, for checks that need a few runs only

Labels = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A mechanism under check, with the pairs to run, a root seed, and audits that several checks
    share.

    `trials` is the number of runs of all checks together; `runs` is the share of the current check.
    `stated` is the mechanism's claim, None if it states none.
    """

    mechanism: Any
    name: str
    stated: Claim | None
    pairs: list[Pair]
    seed: int
    trials: int
    executor: Executor | None = None
    audits: dict[str, AuditResult] = dataclasses.field(default_factory=dict)
    runs: int = 0
    raised: list[str] = dataclasses.field(default_factory=list)  # found once, for all checks

    def few(self, most: int) -> int:
        """Return `most`, or the number of runs of the current check if smaller; at least 2."""
        return max(2, min(most, self.runs))

    def require(self, least: int) -> None:
        """Raise Skip unless the current check has at least `least` runs."""
        skip_unless(
            self.runs >= least,
            f"the check needs {least:,} runs, but its share of {self.trials:,} is {self.runs:,}: "
            "raise trials",
        )

    @property
    def run(self) -> Callable[..., Any]:
        return cast(Callable[..., Any], getattr(self.mechanism, "sample", self.mechanism))

    @property
    def claim(self) -> Claim:
        """The claim that the mechanism states; for checks that require one."""
        return promised(self.mechanism, self.stated, "check_mechanism")

    @property
    def domain(self) -> Domain | None:
        return getattr(self.mechanism, "domain", None)

    def stage(
        self,
        pair: Pair,
        key: tuple[int, int, int],
        rounds: int,
        chunk: int,
        run: Callable[..., Any] | None = None,
    ) -> Stage:
        """Return a stage of these rounds, in chunks of at most the batch of a `Target`."""
        most = self.mechanism.batch if isinstance(self.mechanism, Target) else None
        chunk = min(chunk, most or chunk)
        return Stage(run or self.run, pair, self.seed, key, rounds, chunk, 600.0)

    @contextmanager
    def workers(self) -> Iterator[Executor]:
        """Provide the user's executor, or one that runs in this process and is shut down."""
        executor = self.executor or Inline()
        try:
            yield executor
        finally:
            if self.executor is None:
                executor.shutdown(wait=False)

    def outputs(self, dataset: Any, size: int, *key: int) -> Outputs:
        """Return the encoded outputs of `size` runs on `dataset`; `key` selects the
        random stream.
        """
        return run_side(self.run, dataset, size, stream(self.seed, *key))

    def always_raises(self) -> str:
        """Return the exception that every run raises on both datasets of the first pairs; an empty
        text if some run returns an output.
        """
        if not self.raised:
            tried = (
                self.outputs(dataset, 2, 9)
                for pair in self.pairs[:4]
                for dataset in (pair.d1, pair.d0)
            )
            found = [each.structures()[0] for each in itertools.takewhile(all_raise, tried)]
            self.raised.append(found[0] if len(found) == 2 * len(self.pairs[:4]) else "")
        return self.raised[0]

    def audit(self, pairs: list[Pair], trials: int, *, bits: bool = False) -> AuditResult:
        """Audit the claim on these pairs, with a false-alarm probability of 1e-9."""
        result = audit(
            self.mechanism,
            pair=pairs,
            trials=trials,
            confidence=CONFIDENCE,
            seed=self.seed,
            name=self.name,
            bits=bits,
            stop="violation",
            executor=self.executor,
            trace=False,  # the checks trace for themselves
        )
        if result.verdict is Verdict.INCONCLUSIVE and result.exercised is not False:
            raise KeyboardInterrupt
        return result

    def small(self, pairs: list[Pair], why: str) -> None:
        """Audit special pairs on the check's share of the runs. Raise CheckFailed, starting with
        `why`, if the claim is violated.
        """
        self.require(LEAST)
        promised_pairs = []
        for pair in pairs:
            with suppress(InvalidArgument):  # a claim by distance says nothing at distance 0
                self.claim.on(pair)
                promised_pairs.append(pair)
        skip_unless(promised_pairs, "the claim makes no promise about these pairs")
        result = self.audit(promised_pairs, self.runs)
        if result.verdict in (Verdict.VIOLATED, Verdict.SUSPECT):
            assert result.pair is not None
            raise CheckFailed(f"{why}: {result.headline()} on the pair '{result.pair.why}'", result)
        # equal outputs on special data are not a fault
        if result.verdict is not Verdict.NOT_REFUTED and result.exercised is not False:
            raise CheckFailed(f"{why}: {result.headline()}", result)


def all_raise(outputs: Outputs) -> bool:
    """Return whether every one of these runs raised an exception."""
    return all(name.startswith("raises ") for name in outputs.structures())


class Skip(Exception):
    """Signal that a check does not apply to a mechanism, or that the audit of the check has no
    verdict; `result` is this audit's result.
    """

    def __init__(self, reason: str, result: AuditResult | None = None) -> None:
        super().__init__(reason)
        self.result = result


class CheckFailed(AssertionError):
    """Error of a mechanism that fails a check. `violation` is true if the claim is refuted."""

    def __init__(
        self, reason: str, result: AuditResult | None = None, *, violation: bool = False
    ) -> None:
        super().__init__(reason)
        self.result = result
        self.violation = violation or (result is not None and result.verdict is Verdict.VIOLATED)


def skip_unless(right: object, reason: str) -> None:
    """Raise Skip with this reason unless `right` is true."""
    if not right:
        raise Skip(reason)


def fail_unless(right: object, reason: str) -> None:
    """Raise CheckFailed with this reason unless `right` is true."""
    if not right:
        raise CheckFailed(reason)


class SideChannel(CheckFailed):
    """Difference outside of the outputs, such as the number of draws: a failure only for a caller
    who asks for it, otherwise a note.
    """


class Tag(enum.Enum):
    """Requirement of a check; the value is the reason for a skip."""

    CLAIM = "the mechanism states no claim"
    SEED = "the library cannot be seeded"
    DENSITY = "the mechanism offers no log_density"
    PARAMETERS = "the mechanism is not a dataclass"
    TRAVELS = "the mechanism runs in separate worker processes"
    NUMBERS = "the mechanism's datasets are not arrays of floating-point numbers"
    RECORDS = "the mechanism's datasets are not arrays of records"

    def is_met_by(self, subject: Subject) -> bool:
        """Return whether `subject` meets this requirement."""
        it = subject.mechanism
        numbers = all(
            isinstance(d, np.ndarray) and d.ndim > 0 and d.dtype.kind == "f"
            for pair in subject.pairs
            for d in (pair.d0, pair.d1)
        )
        records = subject.pairs[0].relation in ("replace-one", "add-remove")
        met = {
            Tag.CLAIM: subject.stated is not None,
            Tag.SEED: bool(getattr(it, "seeded", True)),
            Tag.DENSITY: hasattr(it, "log_density"),
            Tag.PARAMETERS: dataclasses.is_dataclass(it) and not isinstance(it, type | Target),
            Tag.TRAVELS: not isinstance(it, Target),
            Tag.NUMBERS: numbers,
            Tag.RECORDS: numbers and records,
        }
        return met[self]


# the group of checks that share the audit of the claim, and the group's share of the runs
CLAIM, CLAIM_SHARE = "claim", 0.5


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Check:
    """A named check with its requirements and its share of the runs of all checks; checks of one
    `group` share one budget.
    """

    function: Callable[[Subject], None]
    needs: tuple[Tag, ...]
    share: float
    group: str

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __call__(self, subject: Subject) -> None:
        """Run the check on `subject` with a copy of its pairs. Raise Skip if `subject` does not
        meet a requirement, and CheckFailed if every run raises: outputs that do not exist pass no
        check.
        """
        for tag in self.needs:
            skip_unless(tag.is_met_by(subject), tag.value)
        if Tag.PARAMETERS not in self.needs and self.group != CLAIM:
            raised = subject.always_raises()
            fail_unless(not raised, f"every run {raised}")
        # one check must not affect another
        self.function(dataclasses.replace(subject, pairs=copy.deepcopy(subject.pairs)))


def check(
    *needs: Tag, share: float = FEW, group: str = ""
) -> Callable[[Callable[[Subject], None]], Check]:
    """Return a decorator that makes a function a `Check`; `CHECKS` collects the checks by name.

    `needs` are the requirements of the check. `share` is its part of all runs, which checks with
    the same `group` use together.
    """
    return lambda function: Check(function, needs, share, group or function.__name__)


def budgets(
    checks: Mapping[str, Check], trials: int, subject: Subject | None = None
) -> dict[str, int]:
    """Return the number of runs of each check. Checks that do not apply to `subject` leave their
    runs to the others.

    The audit of the claim first gets the minimum number of runs of an audit; the other checks share
    the rest.
    """
    apply = {
        name: each
        for name, each in checks.items()
        if subject is None or all(tag.is_met_by(subject) for tag in each.needs)
    }
    shares = {each.group: each.share for each in apply.values()}
    has_claim, claim_share = CLAIM in shares, shares.pop(CLAIM, 0.0)
    others = sum(shares.values())
    claim = int(trials * claim_share / max(others + CLAIM_SHARE, 1e-9))
    if has_claim:
        claim = max(claim, min(trials, LEAST)) if shares else trials
    rest = (trials - claim) / max(others, 1e-9)
    return dict.fromkeys(checks, 0) | {
        name: claim if each.group == CLAIM else int(each.share * rest)
        for name, each in apply.items()
    }


def require_indistinguishable(
    subject: Subject,
    label: Callable[[Any], Labels],
    what: str,
    run: Callable[..., Any] | None = None,
    error: type[CheckFailed] = CheckFailed,
) -> None:
    """Raise `error` if labels of the outputs refute the claim on some pair, with a false-alarm
    probability of 1e-9 over all pairs.

    A third of the rounds decides which labels indicate which dataset; the other rounds test the
    decision. The number of rounds is just large enough to refute the claim if every guess is right,
    within the check's share of the runs. The check looks for gross leaks, over all pairs.
    """
    rounds, alpha, spent = 256, (1 - CONFIDENCE) / len(subject.pairs), 0
    subject.require(2 * rounds)
    while (
        4 * rounds <= min(subject.runs, 2**16)
        and float(certified(subject.claim, rounds, 0, rounds, alpha)) <= subject.claim.parameter
    ):
        rounds *= 2
    with subject.workers() as executor:
        for index, pair in enumerate(subject.pairs):
            # includes a second run of the training third, if a batch raises
            if spent + 2 * rounds > subject.runs:
                break
            # enough calls to show noise that the runs of a call share
            stage = subject.stage(pair, (8, index, 0), 3 * rounds // 2, rounds // _CALLS, run)
            part, repeated = _test_labels(stage, label, executor)
            spent += stage.rounds + (rounds // 2 if repeated else 0)
            if part is None:
                continue
            claim, tally = subject.claim.on(pair), part.tally
            counts = tally.correct, tally.wrong, tally.rounds
            lower = float(certified(claim, *counts, alpha, lost=part.lost))
            if lower > claim.parameter:
                raise error(
                    f"{what}: it certifies {claim.symbol} > {lower:.4g} against {claim} on the "
                    f"pair '{pair.why}'",
                    violation=True,
                )


def _test_labels(
    stage: Stage, label: Callable[[Any], Labels], executor: Executor
) -> tuple[Part | None, bool]:
    """Return the counts of guesses by labels, which a third of the rounds decides and the others
    test; None if no label indicates a dataset. Also return whether the third was run again.
    """

    def labels(stage: Stage, chunks: range) -> list[Any]:
        """Return the labels of the outputs on D1 and D0 of all these chunks."""
        futures = [executor.submit(_labels_of_chunk, stage, i, label) for i in chunks]
        return [collect(future, stage) for future in futures]

    train = max(1, stage.chunks // 3)
    sides = labels(stage, range(train))
    repeated = any(side is None for part in sides for side in part)
    if repeated:  # a batch raises: run one at a time from here on
        stage = dataclasses.replace(stage, single=True)
        sides = labels(stage, range(train))
    guess = _guesses_by_label(*map(np.concatenate, zip(*sides, strict=True)))
    if not guess:
        return None, repeated
    sides = labels(stage, range(train, stage.chunks))
    tables = [_guesses_by_call(sides, guess, side) for side in (0, 1)]
    check_calls([log_dependence(*tables)])
    tested = stage.rounds - train * stage.chunk
    # guesses (none, right, wrong) on both datasets together
    no_guess, right, wrong = (tables[0] + tables[1][:, [0, 2, 1]]).sum(axis=0).tolist()
    # rounds of batches that raised for the first time in the test count as wrong guesses
    lost = tested - (no_guess + right + wrong)
    return Part(Tally(right, wrong + lost, tested, 2), lost=lost), repeated


def _labels_of_chunk(
    stage: Stage, index: int, label: Callable[[Any], Labels]
) -> list[Labels | None]:
    """Return the labels on D1 and on D0 of one chunk; None for a batch that raised."""
    return [None if side is None else label(side) for side in stage.sample(index)]


def _guesses_by_call(sides: list[Any], guess: dict[int, int], side: int) -> NDArray[np.int64]:
    """Return the numbers of guesses (none, D1, D0) in each call on one dataset; none for a call
    that raised.
    """
    found = [
        [guess.get(int(value), 0) for value in (() if part[side] is None else part[side])]
        for part in sides
    ]
    return np.array([[values.count(which) for which in (0, 1, -1)] for values in found])


def _guesses_by_label(first: Labels, second: Labels) -> dict[int, int]:
    """Return +1 for each label that indicates D1 and -1 for each label that indicates D0.

    Only labels whose log-ratio is at least half of the largest are included.
    """
    ratio = {
        int(v): float(np.log((np.sum(first == v) + 1) / (np.sum(second == v) + 1)))
        for v in np.unique(np.concatenate([first, second]))
    }
    most = max(map(abs, ratio.values()), default=0.0)
    return {v: 1 if r > 0 else -1 for v, r in ratio.items() if most > 0.5 and abs(r) >= most / 2}
