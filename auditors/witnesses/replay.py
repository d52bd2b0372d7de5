"""Replay of a witness: the same pair, event and claim are tested with fresh randomness.

Witnesses about functions (stability, accountants, metamorphic relations, sensitivity and utility)
hold inputs, which are run again.
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
from typing import Any

from dpwitness.auditors.audit.audit import Progress, confirm
from dpwitness.auditors.canaries.audit import recompute_witness
from dpwitness.auditors.density.certify import certify
from dpwitness.auditors.events.scores import Score, collect_scores, suggested_score
from dpwitness.auditors.functions.accounting.audit import AccountantResult
from dpwitness.auditors.functions.bounds.sensitivity import SensitivityResult, sensitivity_at
from dpwitness.auditors.functions.bounds.utility import UtilityResult, audit_utility
from dpwitness.auditors.functions.bounds.utility_claims import Scaling, UtilityClaim
from dpwitness.auditors.functions.declared_targets import (
    replay_figure,
    replay_pair,
    replay_relation,
)
from dpwitness.auditors.functions.metamorphic.audit import MetamorphicResult
from dpwitness.auditors.functions.stability.result import StabilityResult
from dpwitness.auditors.traces.sessions import validate_primitives
from dpwitness.auditors.traces.trace import trace
from dpwitness.auditors.witnesses.audit_result import AuditResult, TraceResult
from dpwitness.auditors.witnesses.canary_result import CanaryResult
from dpwitness.auditors.witnesses.certify_result import CertifyResult
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.witnesses.witness_reader import (
    KINDS,
    Witness,
    check_seal,
    load_json,
    read_checked_witness,
    read_pair,
)
from dpwitness.auditors.workers.loading import FOREIGN, describe_target, relative
from dpwitness.auditors.workers.rounds import fresh_seed
from dpwitness.auditors.workers.source_search import sha256_of
from dpwitness.auditors.workers.trust import PlannedTarget, Trust
from dpwitness.core.claims import Claim, exact_claim
from dpwitness.core.protocols.mechanism import name_of
from dpwitness.core.values.json_codec import from_jsonable, unregistered_classes
from dpwitness.core.values.json_reader import Json, refuse, short_json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_probability,
    require_run_options,
    require_type,
)

# kinds of witnesses whose inputs are run again
RERUN = ("stability", "accountant", "metamorphic")
LEAST = 0.99  # least default confidence: the author of the witness chose the recorded one
AnyResult = (
    AuditResult
    | CertifyResult
    | SensitivityResult
    | UtilityResult
    | StabilityResult
    | AccountantResult
    | MetamorphicResult
    | TraceResult
    | CanaryResult
)


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
    AuditResult, CertifyResult, TraceResult, CanaryResult, SensitivityResult, UtilityResult,
    StabilityResult, AccountantResult or MetamorphicResult
        Result for the target that ran. For a bit-level witness, verdict and bounds are those of
        the bit level.

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

    def describe(self) -> str:
        """Return a one-line description of what will run."""
        return "; score ".join(
            [
                self._describe_target(),
                *(score.describe() for score in self.scores if isinstance(score, PlannedTarget)),
            ]
        )

    def _describe_target(self) -> str:
        """Return a one-line description of the target, without its scores."""
        if self.raw.get("kind") == "canaries":
            return "the counts of the file: no training is run"
        if self.plan is not None:
            return self.plan.describe()
        found = describe_target(self.given)
        return self.called or (found["target"] if found else name_of(self.given))

    def load(self) -> Any:
        """Return the given mechanism, or import the one that the witness names."""
        if self.plan is None:
            return self.given
        try:
            with _naming_file(self.file):
                return self.plan.load()
        except InvalidArgument:
            raise
        except (Exception, SystemExit) as error:  # the user's module or class may raise anything
            raise InvalidArgument(
                f"replay: target {short_json(self.plan.target)} could not be loaded: "
                f"{type(error).__name__}: {str(error)[:300]}"
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
        """Replay the witness on `mechanism`, the result of `load`. The other arguments are those of
        `replay`.
        """
        drawn = seed is None
        seed = fresh_seed() if seed is None else require_integer("seed", seed, "replay", least=0)
        if confidence is not None:
            require_probability("confidence", confidence, "replay")
        require_run_options(executor, progress, None, "replay")
        notes = check_seal(self.raw, self.file)
        if self.raw.get("kind") == "canaries":
            with _naming_file(self.file):
                counted = recompute_witness(self.raw, confidence)
            return replace(
                counted,
                notes=(
                    "replay of a canary witness: its bound, recomputed from the counts in the "
                    "file; nothing was run",
                    *self._confidence_notes(counted.confidence, None),
                    *notes,
                    *counted.notes,
                ),
            )
        used_confidence = (
            max(self.raw.get("confidence", LEAST), LEAST) if confidence is None else confidence
        )
        result, text, claims = self._run_kind(
            mechanism, trials, used_confidence, seed, executor, progress
        )
        recorded = self.raw["name"]
        renamed = (
            "" if recorded == result.name else f"; the witness calls it {short_json(recorded)}"
        )
        more = (
            text,
            f"ran {self.describe()}{renamed}",
            *self._confidence_notes(used_confidence, seed if drawn else None),
            *([self.source_changed] if self.source_changed else []),
            *claims,
            *notes,
        )
        # the first note of an error or an interrupted run is its cause, so these notes follow it
        cause_first = result.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE)
        return replace(
            result, notes=(*result.notes, *more) if cause_first else (*more, *result.notes)
        )

    def _run_kind(
        self,
        mechanism: Any,
        trials: int | None,
        confidence: float,
        seed: int,
        executor: Executor | None,
        progress: Progress | None,
    ) -> tuple[AnyResult, str, tuple[str, ...]]:
        """Replay by the kind of the witness; return the result, a note on the witness, and notes on
        its claim.
        """
        kind, name = self.raw.get("kind"), self._mechanism_name(mechanism)
        if kind in KINDS:
            with _naming_file(self.file):
                measurement = read_measurement(self.raw, self.trust)
            return (
                remeasure(measurement, mechanism, confidence, seed, name),
                f"replay of a {kind} witness",
                (),
            )
        with _naming_file(self.file):
            if kind in RERUN:
                return *rerun(self.raw, mechanism, self.trust, seed, name), ()
            if kind == "trace":
                recorded = "; ".join(f["kind"] for f in self.raw["findings"])
                # nothing that the primitives name is imported
                traced = trace(
                    mechanism,
                    read_pair(self.raw["pair"], self.trust.resolve_class),
                    exact_claim(self.raw["claim"], self.raw["claim_numbers"]),
                    validate_primitives(self.raw["primitives"], "replay", required=False),
                    confidence=confidence,
                    seed=seed,
                    confirm=False,
                    name=name,
                    target=self._target_record(mechanism),
                )
                return traced, f"replay of a trace with the recorded findings {recorded}", ()
            witness = read_checked_witness(self.raw, self.file, self.trust.resolve_class)
            claims = _claim_notes(witness, mechanism)
        return (
            self._test_again(witness, mechanism, trials, confidence, seed, executor, progress),
            f"replay of a witness at the {witness.level} level that certified "
            f"{witness.claim.symbol} > {witness.bound:.4g}",
            claims,
        )

    def _test_again(
        self,
        found: Witness,
        mechanism: Any,
        trials: int | None,
        confidence: float,
        seed: int,
        executor: Executor | None,
        progress: Progress | None,
    ) -> AuditResult | CertifyResult:
        """Test the event of an audit witness again, or certify the pair of a white-box witness
        again.
        """
        trials = require_integer(
            "trials",
            max(found.rounds, 1000) if trials is None else trials,
            "replay",
            least=1000,
            most=10**12,
        )
        common: dict[str, Any] = {
            "claim": found.claim,
            "confidence": confidence,
            "seed": seed,
            "name": self._mechanism_name(mechanism),
            "target": self._target_record(mechanism),
        }
        if found.event is None:
            return certify(mechanism, found.pair, trials=max(trials, 10_000), **common)
        return confirm(
            mechanism,
            found.event,
            pair=found.pair,
            trials=trials,
            executor=executor,
            progress=progress,
            scores=self._recorded_scores(mechanism),
            **common,
        )

    def _recorded_scores(self, mechanism: Any) -> tuple[Score, ...]:
        """Return the recorded scores, whose columns the event refers to."""
        found, remaining_scores = [], list(self.scores)
        for recorded in self.raw.get("scores", []):
            keys = tuple(recorded["keys"])
            if recorded["suggested"]:
                own = suggested_score(mechanism)
                if own is None:
                    raise InvalidArgument(
                        "replay: mechanism must have features(outputs), which the event of "
                        f"the witness uses; {name_of(mechanism)} has none"
                    )
                found.append(replace(own, keys=keys))
                continue
            score = remaining_scores.pop(0)
            if isinstance(score, PlannedTarget):
                score = Score(recorded["name"], score.load(), recorded["target"])
            found.append(replace(score, keys=keys))
        return tuple(found)

    def _mechanism_name(self, mechanism: Any) -> str:
        """Return the name of the mechanism that runs. The name in the file is not trusted."""
        return (
            self.plan.name
            if self.plan is not None and isinstance(mechanism, functools.partial)
            else name_of(mechanism)
        )

    def _target_record(self, mechanism: Any) -> Json | None:
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

    def _confidence_notes(self, confidence: float, drawn: int | None) -> tuple[str, ...]:
        """Return notes on the confidence of this replay, and on the seed that was drawn for it."""
        if self.raw.get("kind") in ("sensitivity", *RERUN):
            return ()
        notes = []
        if drawn is not None:
            notes.append(
                f"seed {drawn}, drawn for this replay from the operating system's entropy: "
                "the same seed repeats it"
            )
        recorded = self.raw["confidence"]
        if confidence != recorded:
            notes.append(
                f"the replay has confidence {confidence:.12g}; the witness was recorded at "
                f"{recorded:.12g}"
            )
        return tuple(notes)

    @property
    def source_changed(self) -> str:
        """Return a note if the source of the recorded target has changed since the witness was
        written; empty otherwise.
        """
        recorded, file = self.raw.get("source"), None if self.plan is None else self.plan.file
        if (
            not recorded
            or file is None
            or file.suffix != ".py"
            or sha256_of(file) == recorded["sha256"]
        ):
            return ""
        return f"the source of the target, {file.name}, has changed since the witness was written"


@contextlib.contextmanager
def _naming_file(file: str) -> Iterator[None]:
    """Add the file name to the message of an InvalidArgument raised in the context."""
    try:
        yield
    except InvalidArgument as error:
        text = str(error).removeprefix("replay: ").removeprefix(f"{file}: ")
        raise InvalidArgument(f"replay: {file}: {text}") from None


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
    """Read a witness and check its target against the trust rules. Nothing is imported or run."""
    require_type(
        "witness",
        witness,
        (str, os.PathLike, dict),
        "be a path or what a witness file holds",
        "replay",
    )
    require_type("allow", allow, (str, list, tuple, set, frozenset), "be a list of names", "replay")
    raw, file = load_json(witness)
    if raw.get("kind") == "claim":
        raise InvalidArgument(f"replay: {file} is the witness of a claim: dpwitness replay {file}")
    trust = Trust(
        tuple(allow) if not isinstance(allow, str) else allow,
        None if isinstance(witness, dict) else Path(witness).parent,
    )
    with _naming_file(file):
        given, plan = collect_scores(scores, None, "replay"), None
        dataset_classes = unregistered_classes(raw)
        if raw.get("kind") not in (*KINDS, *RERUN, "trace", "canaries") and not dataset_classes:
            read_checked_witness(raw, file)  # report errors of the file before errors of its target
        for name in dataset_classes:
            trust.plan({"target": name}, "class")
        if mechanism is None and raw.get("kind") != "canaries":
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
    for key in recorded["keys"]:
        if not (
            key is None
            or isinstance(key, str)
            or (isinstance(key, int) and not isinstance(key, bool) and 0 <= key < 256)
        ):
            raise InvalidArgument(
                f"scores[{i}].keys must be texts, numbers of columns or null, got {short_json(key)}"
            )
    for score in given:
        if score.name == recorded["name"]:
            return score
    if recorded["target"] is None:
        raise InvalidArgument(
            f"scores must be given: {short_json(recorded['name'])} has no importable target "
            "in the witness"
        )
    return trust.plan(recorded["target"], f"scores[{i}].target")


def _claim_notes(found: Witness, mechanism: Any) -> tuple[str, ...]:
    """Return a note if the claim of the witness differs from the mechanism's own.

    Raises InvalidArgument if the witness records that its claim is the mechanism's own, but the
    claims differ.
    """
    own = getattr(mechanism, "claim", None)
    if not isinstance(own, Claim) or own.on(found.pair) == found.claim:
        return ()
    if found.raw.get("own_claim"):
        raise InvalidArgument(
            f"claim must be {own}, the mechanism's own claim as recorded in the witness, got "
            f"{found.claim}; the witness or the mechanism was edited"
        )
    return (f"the witness is against {found.claim}; the mechanism itself claims {own}",)


def rerun(raw: Json, mechanism: Any, trust: Trust, seed: int, name: str) -> tuple[AnyResult, str]:
    """Run the inputs of a witness again, and return the result and a note on what was run."""
    if raw["kind"] == "accountant":
        return replay_figure(
            raw, mechanism, name
        ), "replay of an accountant witness: the figure was computed again"
    if raw["kind"] == "metamorphic":
        return (
            replay_relation(raw, mechanism, seed, name, trust.resolve_class),
            "replay of a metamorphic witness: the recorded case was run again",
        )
    return replay_pair(
        raw, mechanism, trust, name
    ), "replay of a stability witness: both inputs were run again"


_MATH_FUNCTIONS: dict[str, Callable[..., float]] = {
    f"math:{name}": getattr(math, name)
    for name in ("log", "log2", "log10", "log1p", "exp", "expm1", "sqrt", "cbrt", "fabs", "dist")
}


# function, confidence, seed and name -> result
Measurement = Callable[[Callable[..., Any], float, int, str], SensitivityResult | UtilityResult]


def read_measurement(raw: Json, trust: Trust) -> Measurement:
    """Return the measurement of a sensitivity or utility witness: the pair is evaluated again, or
    the error is measured again.

    A recorded norm or transform that is a function passes the same trust rules as any other
    target.
    """
    if raw["kind"] == "sensitivity":
        if not float(raw["ratio"]) > 1:
            refuse("ratio", "exceed 1, as that of a violated bound does", raw["ratio"])
        recorded = raw["norm"]
        norm = (
            _load_function(recorded, "norm", trust)
            if isinstance(recorded, dict)
            else math.inf
            if recorded == "inf"
            else int(recorded)
        )
        pair = read_pair(raw["pair"], trust.resolve_class)
        return lambda function, confidence, seed, name: sensitivity_at(
            function, raw["bound"], pair, norm, name=name
        )
    claim = from_jsonable(raw["claim"], "claim")
    if not isinstance(claim, UtilityClaim):
        refuse("claim", "be a claim about an error", raw["claim"])
    if raw["transform"] is not None:
        if not isinstance(claim, Scaling):
            refuse("transform", "be null: only a scaling claim has one", raw["transform"])
        claim = replace(claim, transform=_load_function(raw["transform"], "transform", trust))
    return lambda function, confidence, seed, name: audit_utility(
        function, claim, runs=raw["runs"], confidence=confidence, seed=seed, name=name
    )


def _load_function(target: Json, what: str, trust: Trust) -> Callable[..., Any]:
    """Load a norm or a transform: a plain function of `math`, or a target that is
    trusted to run.
    """
    math_function = _MATH_FUNCTIONS.get(target["target"])
    found = (
        math_function
        if math_function is not None and not target.get("kwargs")
        else trust.plan(target, what).load()
    )
    if not callable(found):
        refuse(what, "name a function", target["target"])
    return found


def remeasure(
    measurement: Measurement, function: Any, confidence: float, seed: int, name: str
) -> SensitivityResult | UtilityResult:
    """Return the result of the measurement of a witness on `function`."""
    if not callable(function):
        raise InvalidArgument(f"replay: target must be a function, got {type(function).__name__}")
    try:
        return measurement(function, confidence, seed, name)
    except InvalidArgument:
        raise
    except Exception as error:  # the user's function may raise anything on the file's data
        raise InvalidArgument(
            f"replay: {name} could not be evaluated: {type(error).__name__}: {str(error)[:300]}"
        ) from error
