"""Replay of a witness: what it records is tested again, by the replay of its kind (`kinds.py`), on
a target that the trust rules let run.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from dpwitness.auditors.events.outputs import Score, collect_scores
from dpwitness.auditors.witnesses.kinds import Kind, kind_of
from dpwitness.auditors.witnesses.result import Result, own_claim
from dpwitness.auditors.witnesses.seals import check_seal
from dpwitness.auditors.witnesses.verdicts import Verdict, fresh_seed
from dpwitness.auditors.witnesses.witness_reader import load_json, naming_file
from dpwitness.auditors.workers.descriptions import FOREIGN, describe_target, relative, sha256_of
from dpwitness.auditors.workers.trust import PlannedTarget, Trust
from dpwitness.core.claims import Claim
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import name_of
from dpwitness.core.values.json_codec import unregistered_classes
from dpwitness.core.values.json_reader import Json, refuse, short_json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_probability,
    require_run_options,
    require_type,
)

_MATH_FUNCTIONS: dict[str, Callable[..., float]] = {
    f"math:{name}": getattr(math, name)
    for name in ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "cbrt", "fabs", "dist")
}
_T = TypeVar("_T")


@contextlib.contextmanager
def _reporting(problem: str) -> Iterator[None]:
    """Raise InvalidArgument with `problem` if a module, class or function of the user raises
    anything on the data of the file.
    """
    try:
        yield
    except InvalidArgument:
        raise
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {str(error)[:300]}"
        raise InvalidArgument(f"replay: {problem}: {reason}") from error


Progress = Callable[[int, int], None]


def replay(
    witness: str | Path | Json,
    *,
    mechanism: Any = None,
    allow: Sequence[str] = (),
    scores: Sequence[Any] | None = None,
    trials: int | None = None,
    confidence: float | None = None,
    seed: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Result:
    """Test the violation recorded in a witness again.

    The event is tested with fresh randomness. For a white-box witness, the privacy loss is enclosed
    again. For a sensitivity or stability witness, its pair is evaluated again; for a utility
    witness, the error is measured again; for an accountant, the figure is computed again; for a
    metamorphic relation, its case is run again. A canary witness runs nothing: its bound is
    recomputed from the counts in the file.

    If the mechanism satisfies the claim of the witness, the replay returns VIOLATED with
    probability at most 1 - `confidence`, whoever wrote the witness. If the mechanism breaks the
    claim by a margin that is large for the number of runs, the replay returns VIOLATED with high
    probability. If the bound that these runs certify just equals the claim, the probability is
    about one half.

    A witness is untrusted data. Reading a witness imports nothing that it names. Its target runs
    if the target is one of this project's mechanisms, lies under the current folder, or is named
    in `allow`. Built-in callables and those of the standard library never run. See SECURITY.md.

    Parameters
    ----------
    witness : path or dict
        A ``witness-*.json`` file, or its content.
    mechanism : Mechanism or callable, optional
        Replaces the recorded target, for instance if the target cannot be imported or is not
        trusted.
    allow : sequence of str
        Targets that may run wherever they lie, as the witness names them (``MODULE:NAME``,
        ``FILE.py:NAME``), and paths of interpreters.
    scores : list, optional
        Replace the recorded scores of the same names, in the form that `audit` accepts.
    trials : int, optional
        Runs of the mechanism. Default: the number that certified the witness.
    confidence : float, optional
        Confidence of the verdict. Default: the recorded confidence, but at least .99 (canaries:
        .95), since the author of the witness chose the recorded one.
    seed : int, optional
        Root seed, to repeat an earlier replay exactly. Default: entropy of the operating system.
        If the witness fixed the seed, its author could try seeds until a private mechanism seems
        to violate its claim. The result records the seed.
    executor, progress
        As in `audit`.

    Returns
    -------
    Result
        Result for the target that ran, of the kind of the witness: an AuditResult, CertifyResult,
        TraceResult, CanaryResult, SensitivityResult, UtilityResult, StabilityResult,
        AccountantResult or MetamorphicResult. For a bit-level witness, verdict and bounds are those
        of the bit level.

    Raises
    ------
    InvalidArgument
        If the witness cannot be read or is inconsistent, or its target does not exist or may not
        run.
    """
    prepared = prepare_replay(witness, mechanism=mechanism, allow=allow, scores=scores)
    return prepared.run(
        prepared.load(),
        trials=trials,
        confidence=confidence,
        seed=seed,
        executor=executor,
        progress=progress,
    )


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of the runs of a replay."""

    trials: int | None
    confidence: float
    seed: int
    executor: Executor | None = None
    progress: Progress | None = None

    def runs(self, recorded: int) -> int:
        """Return the number of runs: the given one, or the recorded one, but at least 1,000."""
        trials = max(recorded, 1000) if self.trials is None else self.trials
        return require_integer("trials", trials, "replay", least=1000, most=10**12)


@dataclass(frozen=True, slots=True)
class Replay:
    """Witness that was read, with its target, which passed the trust rules but is not
    imported yet.
    """

    raw: Json
    file: str
    trust: Trust
    given: Any
    plan: PlannedTarget | None
    called: str = ""  # the user's name for the given mechanism
    # given scores, or trusted ones not yet imported; without the mechanism's own
    scores: tuple[Score | PlannedTarget, ...] = ()

    @property
    def kind(self) -> Kind:
        """Kind of the witness."""
        return kind_of(self.raw)

    def describe(self) -> str:
        """Return a one-line description of the code that will run."""
        if not self.kind.runs:
            target = "the counts of the file: no training is run"
        elif self.plan is not None:
            target = self.plan.describe()
        else:
            found = describe_target(self.given)
            target = self.called or (found["target"] if found else name_of(self.given))
        planned = [score for score in self.scores if isinstance(score, PlannedTarget)]
        return "; score ".join([target, *(score.describe() for score in planned)])

    def load(self) -> Any:
        """Return the given mechanism, or import the one that the witness names."""
        if self.plan is None:
            return self.given
        with (
            _reporting(f"target {short_json(self.plan.target)} could not be loaded"),
            self.naming(),
        ):
            return self.plan.load()

    def run(
        self,
        mechanism: Any,
        *,
        trials: int | None = None,
        confidence: float | None = None,
        seed: int | None = None,
        executor: Executor | None = None,
        progress: Progress | None = None,
    ) -> Result:
        """Replay the witness on `mechanism`, the result of `load`. The other arguments are those of
        `replay`.
        """
        root = fresh_seed() if seed is None else require_integer("seed", seed, "replay", least=0)
        if confidence is not None:
            require_probability("confidence", confidence, "replay")
        require_run_options(executor, progress, None, "replay")
        seals, kind = check_seal(self.raw, self.file), self.kind
        recorded = self.raw.get("confidence", kind.least_confidence)
        used = max(recorded, kind.least_confidence) if confidence is None else confidence
        assert kind.replay is not None
        result, replayed, claims = kind.replay(
            self, mechanism, RunOptions(trials, used, root, executor, progress)
        )
        name = self.raw["name"]
        renamed = "" if name == result.name else f"; the witness calls it {short_json(name)}"
        notes = [
            (replayed, True),
            (f"ran {self.describe()}{renamed}", kind.runs),
            (
                f"seed {root}, drawn for this replay from the operating system's entropy: the same "
                "seed repeats it",
                kind.draws and kind.runs and seed is None,
            ),
            (
                f"the replay has confidence {used:.12g}; the witness was recorded at "
                f"{recorded:.12g}",
                kind.draws and used != recorded,
            ),
            (self.source_changed, bool(self.source_changed)),
        ]
        more = (*(note for note, holds in notes if holds), *claims, *seals)
        # the first note of an error or an interrupted run is its cause, so these notes follow it
        cause_first = result.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE)
        ordered = (*result.notes, *more) if cause_first else (*more, *result.notes)
        return cast("Result", replace(result, notes=ordered))

    def naming(self) -> contextlib.AbstractContextManager[None]:
        """Add the name of the file to the message of an InvalidArgument raised in the context."""
        return naming_file(self.file)

    def load_function(self, target: Json, what: str) -> Callable[..., Any]:
        """Load a norm or a transform: a plain function of `math`, or a target that is trusted to
        run.
        """
        math_function = _MATH_FUNCTIONS.get(target["target"])
        plain = math_function is not None and not target.get("kwargs")
        found = math_function if plain else self.trust.plan(target, what).load()
        if not callable(found):
            refuse(what, "name a function", target["target"])
        return found

    def run_again(self, function: Any, rerun: Callable[[], _T]) -> _T:
        """Return what `rerun` returns. Errors of the user's function on the data of the witness
        become an InvalidArgument, which names the file.
        """
        with self.naming(), _reporting(f"{self.mechanism_name(function)} could not be run"):
            return rerun()

    def claim_notes(self, pair: Pair, claim: Claim, mechanism: Any) -> tuple[str, ...]:
        """Return a note if the claim of the witness differs from the mechanism's own.

        Raises InvalidArgument if the witness records that its claim is the mechanism's own, but the
        claims differ.
        """
        own = own_claim(mechanism)
        if own is None or own.on(pair) == claim:
            return ()
        if self.raw.get("own_claim"):
            raise InvalidArgument(
                f"claim must be {own}, the mechanism's own claim as recorded in the witness, got "
                f"{claim}; the witness or the mechanism was edited"
            )
        return (f"the witness is against {claim}; the mechanism itself claims {own}",)

    def mechanism_name(self, mechanism: Any) -> str:
        """Return the name of the mechanism that runs. The name in the file is not trusted."""
        return (
            self.plan.name
            if self.plan is not None and isinstance(mechanism, functools.partial)
            else name_of(mechanism)
        )

    def target_record(self, mechanism: Any) -> Json | None:
        """Return the target record of the mechanism that runs."""
        plan = self.plan
        if plan is None:
            return describe_target(mechanism)
        place = (
            f"{relative(plan.file)}:{plan.name}"
            if plan.place.endswith(".py") and plan.file is not None
            else self.raw["target"]["target"]
        )
        return {"target": place, **({"kwargs": plan.kwargs} if plan.kwargs else {})}

    @property
    def source_changed(self) -> str:
        """Return a note if the source of the recorded target has changed since the witness was
        written; empty otherwise.
        """
        recorded, file = self.raw.get("source"), None if self.plan is None else self.plan.file
        if not recorded or file is None or file.suffix != ".py":
            return ""
        changed = sha256_of(file) != recorded["sha256"]
        return (
            f"the source of the target, {file.name}, has changed since the witness was written"
            if changed
            else ""
        )


def target_arguments(target: Json | None) -> Json:
    """Return the arguments of a recorded target.

    For a target that ran in a separate interpreter, return those of its function.
    """
    kwargs: Json = (target or {}).get("kwargs") or {}
    return (
        kwargs.get("kwargs") or {} if target is not None and target["target"] == FOREIGN else kwargs
    )


def prepare_replay(
    witness: str | Path | Json,
    *,
    mechanism: Any = None,
    allow: Sequence[str] = (),
    called: str = "",
    scores: Sequence[Any] | None = None,
) -> Replay:
    """Read a witness and check its target against the trust rules. Nothing is imported or run.
    Raise InvalidArgument if the witness is damaged, or names no target that may run.
    """
    require_type(
        "witness",
        witness,
        (str, os.PathLike, dict),
        "be a path or the content of a witness file",
        "replay",
    )
    require_type("allow", allow, (str, list, tuple, set, frozenset), "be a list of names", "replay")
    raw, file = load_json(witness)
    kind = kind_of(raw)
    if kind.replay is None:
        raise InvalidArgument(
            f"replay: {file} is the witness of a {kind.name}: dpwitness replay {file}"
        )
    trust = Trust(
        tuple(allow) if not isinstance(allow, str) else allow,
        None if isinstance(witness, dict) else Path(witness).parent,
    )
    with naming_file(file):
        given, plan = collect_scores(scores, None, "replay"), None
        dataset_classes = unregistered_classes(raw)
        if kind.read is not None and not dataset_classes:
            kind.read(raw, file)  # report errors of the file before errors of its target
        for name in dataset_classes:
            trust.plan({"target": name}, "class")
        if mechanism is None and kind.runs:
            if raw["target"] is None:
                raise InvalidArgument(
                    "mechanism must be given, the witness names no importable target"
                )
            plan = trust.plan(raw["target"])
        resolved = tuple(
            _resolve_score(recorded, i, trust, given)
            for i, recorded in enumerate(raw.get("scores", []))
            if not recorded["suggested"]
        )
        return Replay(raw, file, trust, mechanism, plan, called, resolved)


def _resolve_score(
    recorded: Json, i: int, trust: Trust, given: tuple[Score, ...]
) -> Score | PlannedTarget:
    """Return the given score of the recorded name, or else the recorded score, checked by the trust
    rules.
    """
    same = next((score for score in given if score.name == recorded["name"]), None)
    if same is not None:
        return same
    if recorded["target"] is None:
        raise InvalidArgument(
            f"scores must be given: {short_json(recorded['name'])} has no importable target "
            "in the witness"
        )
    return trust.plan(recorded["target"], f"scores[{i}].target")
