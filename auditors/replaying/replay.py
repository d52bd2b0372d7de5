"""Replaying a witness: the same pair and event, fresh randomness, the same question."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpwitness.auditors.black_box.audit import Progress, confirm
from dpwitness.auditors.canaries.again import certified_again
from dpwitness.auditors.events.scores import Score, own_score, scores_of
from dpwitness.auditors.measured.sensitivity import SensitivityResult
from dpwitness.auditors.measured.utility import UtilityResult
from dpwitness.auditors.replaying.measured import judged, read_measured
from dpwitness.auditors.replaying.traces import traced_again
from dpwitness.auditors.results.audit_result import AuditResult
from dpwitness.auditors.results.canary_result import CanaryResult
from dpwitness.auditors.results.certify_result import CertifyResult
from dpwitness.auditors.results.trace_result import TraceResult
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.results.witness_reading import KINDS, Witness, check_seal, load_json, read_checked
from dpwitness.auditors.running.streams import fresh_seed
from dpwitness.auditors.targets.locating import sha256_of
from dpwitness.auditors.targets.naming import FOREIGN, describe_target, relative
from dpwitness.auditors.targets.trust import Planned, Trust
from dpwitness.auditors.white_box.certify import certify
from dpwitness.mechanisms.terms.jsonable import foreign_classes
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.protocol import name_of
from dpwitness.mechanisms.terms.reading import Json, shown
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_integer, require_probability, require_runner, require_type

LEAST = 0.99  # confidence of a replay, unless the user asks for less: whoever wrote the witness chose the recorded one
AnyResult = AuditResult | CertifyResult | SensitivityResult | UtilityResult | TraceResult | CanaryResult


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
) -> AnyResult:
    """Test again what a witness says.

    Its event is tested with fresh randomness; a white-box witness has its privacy loss enclosed again, one of a sensitivity its pair
    evaluated, one of a utility claim its error measured. Of a canary witness nothing is run: its counts are those of the file.

    A mechanism that keeps the claim of the witness is VIOLATED with probability at most 1 - `confidence`, whoever wrote the witness. A
    mechanism that breaks the claim is VIOLATED with high probability if its margin over the claim is large for the number of runs, and
    with probability of about one half if the bound that these runs certify is just the claim.

    A witness is data that anybody may have written. Reading one imports nothing that it names. The target that it names is run if it is
    one of this project's mechanisms, lies under the current folder, or is named in `allow`; callables that are built in or of the standard
    library are never run. See SECURITY.md.

    Parameters
    ----------
    witness : path or dict
        A ``witness-*.json`` file, or what one holds.
    mechanism : Mechanism or callable, optional
        Stands in for the recorded target, for instance if that cannot be imported, or is not to be.
    allow : sequence of str
        Targets that may run wherever they lie, as the witness names them: ``MODULE:NAME``, ``FILE.py:NAME``; and paths of interpreters.
    scores : list, optional
        Stand in for the recorded scores of the same names, as `audit` takes them.
    trials : int, optional
        Runs of the mechanism; as many as certified the witness if left out.
    confidence : float, optional
        Of the verdict. By default the recorded one, but at least .99 (canaries: .95): the author of the witness chose the recorded one.
    seed : int, optional
        Root seed, to repeat an earlier replay exactly. By default drawn from the operating system's entropy: with a seed that the witness
        decides, its author could try seeds until a private mechanism seems to violate its claim. The result records the seed.
    executor, progress
        As in `audit`.

    Returns
    -------
    AuditResult, CertifyResult, SensitivityResult, UtilityResult, TraceResult or CanaryResult
        Of the target that ran. A bit-level witness is judged at the bit level: then the verdict and bounds are those of the bits.

    Raises
    ------
    InvalidArgument
        If the witness cannot be read or does not fit together, or its target is not there or may not run.
    """
    prepared = prepare(witness, mechanism=mechanism, allow=allow, scores=scores)
    return prepared.run(prepared.load(), trials=trials, confidence=confidence, seed=seed, executor=executor, progress=progress)


@dataclass(frozen=True, slots=True)
class Replay:
    """A witness that was read, and the target that will run, judged and not yet imported."""

    raw: Json
    file: str
    trust: Trust
    given: Any
    plan: Planned | None
    called: str = ""  # what the user named it by
    scores: tuple[Score | Planned, ...] = ()  # given, or judged and not yet imported; without the mechanism's own

    def told(self) -> str:
        """What will run, in one line."""
        return "; score ".join([self._told(), *(score.told() for score in self.scores if isinstance(score, Planned))])

    def _told(self) -> str:
        if self.raw.get("kind") == "canaries":
            return "the counts of the file: no training is run"
        if self.plan is not None:
            return self.plan.told()
        found = describe_target(self.given)
        return self.called or (found["target"] if found else name_of(self.given))

    def load(self) -> Any:
        """The mechanism: the one that was given, or the one that the witness names."""
        if self.plan is None:
            return self.given
        try:
            with _about(self.file):
                return self.plan.load()
        except InvalidArgument:
            raise
        except (Exception, SystemExit) as error:  # whatever the user's own module or class raises
            raise InvalidArgument(
                f"replay: target {shown(self.plan.target)} could not be loaded: {type(error).__name__}: {str(error)[:300]}"
            ) from error

    def run(
        self,
        mechanism: Any,
        *,
        trials: int | None = None,
        confidence: float | None = None,
        seed: int | None = None,
        executor: Executor | None = None,
        progress: Progress | None = None,
    ) -> AnyResult:
        """Replay on the mechanism that `load` gave. Arguments as in `replay`."""
        drawn = seed is None
        seed = fresh_seed() if seed is None else require_integer("seed", seed, "replay", least=0)
        if confidence is not None:
            require_probability("confidence", confidence, "replay")
        require_runner(executor, progress, None, "replay")
        notes = check_seal(self.raw, self.file)
        result: AnyResult
        if self.raw.get("kind") == "canaries":
            with _about(self.file):
                counted = certified_again(self.raw, confidence)
            told = (
                "replay of a canary witness: its bound, computed from its counts again; nothing was run, the counts are those of the file"
            )
            return replace(counted, notes=(told, *self._chance(counted.confidence, None), *notes, *counted.notes))
        sure = max(self.raw.get("confidence", LEAST), LEAST) if confidence is None else confidence
        if self.raw.get("kind") in KINDS:
            with _about(self.file):
                measured = read_measured(self.raw, self.trust)
            result = judged(measured, mechanism, sure, seed, self._name(mechanism))
            told = f"replay of a {self.raw['kind']} witness"
        elif self.raw.get("kind") == "trace":
            with _about(self.file):
                result = traced_again(self.raw, mechanism, sure, seed, self._name(mechanism), self._target(mechanism), self.trust)
            told = "replay of a trace: what was found then was " + "; ".join(f["kind"] for f in self.raw["findings"])
        else:
            with _about(self.file):
                found = read_checked(self.raw, self.file, self.trust.class_of)
                claims = _claims(found, mechanism)
            result = self._again(found, mechanism, trials, sure, seed, executor, progress)
            told = f"replay of a witness at the {found.level} level that certified {found.claim.symbol} > {found.bound:.4g}"
            notes = (*claims, *notes)
        more = (told, self._ran(result), *self._chance(sure, seed if drawn else None), *self._source(), *notes)
        # an ERROR, and what was interrupted, is told by its first note: the cause
        cause_first = result.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE)
        return replace(result, notes=(*result.notes, *more) if cause_first else (*more, *result.notes))

    def _again(
        self,
        found: Witness,
        mechanism: Any,
        trials: int | None,
        confidence: float,
        seed: int,
        executor: Executor | None,
        progress: Progress | None,
    ) -> AuditResult | CertifyResult:
        trials = require_integer("trials", max(found.rounds, 1000) if trials is None else trials, "replay", least=1000, most=10**12)
        common: dict[str, Any] = {
            "claim": found.claim,
            "confidence": confidence,
            "seed": seed,
            "name": self._name(mechanism),
            "target": self._target(mechanism),
        }
        if found.event is None:
            return certify(mechanism, found.pair, trials=max(trials, 10_000), **common)
        scores = self._scores(mechanism)
        return confirm(
            mechanism, found.event, pair=found.pair, trials=trials, executor=executor, progress=progress, scores=scores, **common
        )

    def _scores(self, mechanism: Any) -> tuple[Score, ...]:
        """The recorded scores, whose columns the event speaks of."""
        found, left = [], list(self.scores)
        for recorded in self.raw.get("scores", []):
            keys = tuple(recorded["keys"])
            if recorded["suggested"]:
                own = own_score(mechanism)
                if own is None:
                    raise InvalidArgument(
                        f"replay: mechanism must have features(outputs), which the witness' event speaks of; {name_of(mechanism)} has none"
                    )
                found.append(replace(own, keys=keys))
                continue
            score = left.pop(0)
            if isinstance(score, Planned):
                score = Score(recorded["name"], score.load(), recorded["target"])
            found.append(replace(score, keys=keys))
        return tuple(found)

    def _name(self, mechanism: Any) -> str:
        """Of what runs: what the file calls it may be anything."""
        return self.plan.name if self.plan is not None and isinstance(mechanism, functools.partial) else name_of(mechanism)

    def _target(self, mechanism: Any) -> Json | None:
        """Of what runs."""
        if self.plan is None:
            return describe_target(mechanism)
        if self.plan.place.endswith(".py") and self.plan.file is not None:
            return {"target": f"{relative(self.plan.file)}:{self.plan.name}", **_kwargs(self.plan)}
        return {"target": self.raw["target"]["target"], **_kwargs(self.plan)}

    def _ran(self, result: AnyResult) -> str:
        told = f"ran {self.told()}"
        recorded = self.raw["name"]
        return told if recorded == result.name else f"{told}; the witness calls it {shown(recorded)}"

    def _chance(self, confidence: float, drawn: int | None) -> tuple[str, ...]:
        """Notes on the confidence of this replay, and on the seed that was drawn for it."""
        if self.raw.get("kind") == "sensitivity":
            return ()
        notes = []
        if drawn is not None:
            notes.append(f"seed {drawn}, drawn for this replay from the operating system's entropy: the same seed repeats it")
        recorded = self.raw["confidence"]
        if confidence != recorded:
            notes.append(f"the replay has confidence {confidence:.12g}; the witness was recorded at {recorded:.12g}")
        return tuple(notes)

    def _source(self) -> tuple[str, ...]:
        """A note where the source of the target is not what it was."""
        if not self.source_changed or self.plan is None or self.plan.file is None:
            return ()
        return (f"the source of the target, {self.plan.file.name}, is not what it was when the witness was written",)

    @property
    def source_changed(self) -> bool:
        """Whether the source of the target that the witness names has changed since the witness was written."""
        recorded = self.raw.get("source")
        if not recorded or self.plan is None or self.plan.file is None or self.plan.file.suffix != ".py":
            return False
        return bool(sha256_of(self.plan.file) != recorded["sha256"])


@contextlib.contextmanager
def _about(file: str) -> Iterator[None]:
    """Errors that name the file."""
    try:
        yield
    except InvalidArgument as error:
        told = str(error).removeprefix("replay: ").removeprefix(f"{file}: ")
        raise InvalidArgument(f"replay: {file}: {told}") from None


def _kwargs(plan: Planned) -> Json:
    return {"kwargs": plan.kwargs} if plan.kwargs else {}


def arguments_of(target: Json | None) -> Json:
    """The arguments of a recorded target; of one that ran in an interpreter of its own, those of its function."""
    kwargs: Json = (target or {}).get("kwargs") or {}
    return kwargs.get("kwargs") or {} if target is not None and target["target"] == FOREIGN else kwargs


def prepare(
    witness: str | Path | Json, *, mechanism: Any = None, allow: Sequence[str] = (), called: str = "", scores: Sequence[Any] | None = None
) -> Replay:
    """Read a witness and judge its target; nothing is imported or run yet."""
    require_type("witness", witness, (str, os.PathLike, dict), "be a path or what a witness file holds", "replay")
    require_type("allow", allow, (str, list, tuple, set, frozenset), "be a list of names", "replay")
    raw, file = load_json(witness)
    if raw.get("kind") == "claim":
        raise InvalidArgument(f"replay: {file} is the witness of a claim: dpwitness replay {file}")
    trust = Trust(tuple(allow) if not isinstance(allow, str) else allow, None if isinstance(witness, dict) else Path(witness).parent)
    with _about(file):
        return _prepared(raw, file, trust, mechanism, called, scores_of(scores, None, "replay"))


def _prepared(raw: Json, file: str, trust: Trust, mechanism: Any, called: str, given: tuple[Score, ...]) -> Replay:
    theirs = foreign_classes(raw)
    if raw.get("kind") not in (*KINDS, "trace", "canaries") and not theirs:
        read_checked(raw, file)  # what is wrong with the file is said before anything of its target
    for name in theirs:
        trust.plan({"target": name}, "class")
    plan = None
    if mechanism is None and raw.get("kind") != "canaries":
        if raw["target"] is None:
            raise InvalidArgument("mechanism must be given, the witness names no importable target")
        plan = trust.plan(raw["target"])
    scores = tuple(_score(recorded, i, trust, given) for i, recorded in enumerate(raw.get("scores", [])) if not recorded["suggested"])
    return Replay(raw, file, trust, mechanism, plan, called, scores)


def _score(recorded: Json, i: int, trust: Trust, given: tuple[Score, ...]) -> Score | Planned:
    """The score of that name that was given, or else the recorded one, judged as targets are."""
    for key in recorded["keys"]:
        if not (key is None or isinstance(key, str) or (isinstance(key, int) and not isinstance(key, bool) and 0 <= key < 256)):
            raise InvalidArgument(f"scores[{i}].keys must be texts, numbers of columns or null, got {shown(key)}")
    for score in given:
        if score.name == recorded["name"]:
            return score
    if recorded["target"] is None:
        raise InvalidArgument(f"scores must be given: {shown(recorded['name'])} is one that the witness names no importable target for")
    return trust.plan(recorded["target"], f"scores[{i}].target")


def _claims(found: Witness, mechanism: Any) -> tuple[str, ...]:
    """The claim of the witness against the mechanism's own, where it has one."""
    own = getattr(mechanism, "claim", None)
    if not isinstance(own, Claim) or own.on(found.pair) == found.claim:
        return ()
    if found.raw.get("own_claim"):
        raise InvalidArgument(
            f"claim must be the mechanism's own, as the witness says it is: {own}, got {found.claim}; "
            "the witness or the mechanism was edited"
        )
    return (f"the witness is against {found.claim}; the mechanism itself claims {own}",)
