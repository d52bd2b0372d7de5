"""Transformations, accountants and metamorphic relations that a target file declares in TARGETS,
which run in worker processes of the file's interpreter; and replay of witnesses of such audits.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpwitness.auditors.functions.accounting.audit import (
    AccountantResult,
    audit_accountant,
    compare_at,
)
from dpwitness.auditors.functions.metamorphic.audit import (
    RELATIONS,
    MetamorphicResult,
    audit_metamorphic,
    check_relation,
)
from dpwitness.auditors.functions.stability.audit import audit_stability, map_values
from dpwitness.auditors.functions.stability.inputs.spaces import InputSpace, space_of
from dpwitness.auditors.functions.stability.metrics import Exact, Incomparable, metric_named
from dpwitness.auditors.functions.stability.randomized import STATE, is_kept, try_pairs
from dpwitness.auditors.functions.stability.result import (
    StabilityResult,
    concluded,
    format_number,
    read_number,
)
from dpwitness.auditors.functions.stability.search import LAW, Comparison, Found, Search, applier
from dpwitness.auditors.witnesses.verdicts import Result, Verdict
from dpwitness.auditors.workers.trust import Trust
from dpwitness.core.domains import Domain
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, require_one_of
from dpwitness.mechanisms.wrappers.programs.declared import Declared, declarations, note_on_library
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import build_domain, loaded

# keys that name functions
_SUBJECTS = tuple(dict.fromkeys(relation.subject for relation in RELATIONS.values()))
_OPTIONS = (
    "unordered",
    "row_wise",
    "output_metric",
    "input_metric",
    "d_in",
    "epsilon",
    "delta",
    "runs",
    "only",
)


class DeclaredFunction(Declared):
    """Base class of declared functions that `audit` audits without a sampler."""

    def called(self, name: str, *arguments: Any) -> Any:
        """Return the value of a function of the file. Raise what the function raises."""
        return _value(self.calls.call(name, [arguments]))

    @abstractmethod
    def audit(
        self, *, seconds: float, seed: int = 0, visible_errors: bool = False
    ) -> tuple[Result, ...]:
        """Return the results of the audit of the declaration's kind, which has these options."""


def _value(outcomes: Sequence[Any]) -> Any:
    """Return the only outcome of a call; raise an outcome that is an exception."""
    (found,) = outcomes
    if isinstance(found, Exception):
        raise found
    return found


@dataclass(frozen=True, eq=False)
class DeclaredTransformation(DeclaredFunction):
    """Transformation of TARGETS in a target file, with its stability map, input space and metrics.

    Calls raise what the function raises; `apply_all` returns exceptions as outcomes.
    """

    KIND = "transformation"
    NEEDED = ("map", "input", "input_metric", "output_metric")
    KEYS = ("apply", *NEEDED, "d_in", "inputs", "notes")
    FUNCTIONS = ("apply", "map")

    def __call__(self, dataset: Any) -> Any:
        return _value(self.apply_all([dataset]))

    @property
    def space(self) -> InputSpace:
        """Declared input space."""
        return space_of(self.declaration["input"], f"{self.target.name}: input")

    @property
    def spent(self) -> bool:
        """Whether the function has ended too many processes to be run further."""
        # process aborts after which a search ends: each costs a new process
        return self.calls.aborts >= 25

    def apply_all(self, datasets: Sequence[Any]) -> list[Any]:
        """Return the outputs and exceptions of the function on datasets."""
        return self.calls.call(
            self.declaration.get("apply", self.target.name), [(dataset,) for dataset in datasets]
        )

    def stability_map(self, d_in: Any) -> Any:
        """Return the value of the declared map. Raises what the function raises."""
        return self.called(self.declaration["map"], d_in)

    def audit(
        self, *, seconds: float, seed: int = 0, visible_errors: bool = False
    ) -> tuple[StabilityResult, ...]:
        """Audit the transformation, as `audit_stability` does."""
        declared = self.declaration
        result = audit_stability(
            self,
            self.stability_map,
            self.space,
            declared["input_metric"],
            declared["output_metric"],
            d_in=declared.get("d_in") or (1, 2, 3),
            seconds=seconds,
            inputs=declared.get("inputs"),
            seed=seed,
            name=self.target.name,
            visible_errors=visible_errors,
        )
        return (replace(result, notes=(*result.notes, *_library(self.target))),)


def _library(target: Target) -> tuple[str, ...]:
    """Return a note on the library of a target file, if the file names one."""
    return tuple(filter(None, [note_on_library(target)]))


@dataclass(frozen=True, eq=False)
class DeclaredAccountant(DeclaredFunction):
    """Accountant declared in TARGETS of a target file, with its mechanism and the mechanism's
    parameter for each argument.
    """

    KIND = "accountant"
    NEEDED = ("mechanism", "returns", "parameters")
    KEYS = ("function", *NEEDED, "ranges", "notes")
    FUNCTIONS = ("function",)

    def __call__(self, **arguments: Any) -> Any:
        return _value(self.call_each([arguments]))

    def call_each(self, arguments: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the figures and exceptions of several calls, in order."""
        names = list(arguments[0]) if arguments else []
        values = [tuple(each[name] for name in names) for each in arguments]
        return self.calls.call(self.declaration.get("function", self.target.name), values, names)

    def audit(
        self,
        *,
        seconds: float,
        seed: int = 0,
        visible_errors: bool = False,
        evaluations: int = 2000,
    ) -> tuple[AccountantResult, ...]:
        """Audit the accountant, as `audit_accountant` does."""
        declared = self.declaration
        # the import of the library does not count for the budget
        with loaded(self.target._slot, self.target.time_limit):
            pass
        result = audit_accountant(
            self,
            declared["mechanism"],
            declared["returns"],
            declared["parameters"],
            ranges=declared.get("ranges"),
            seconds=seconds,
            evaluations=evaluations,
            seed=seed,
            name=self.target.name,
        )
        return (result,)


@dataclass(frozen=True, eq=False)
class DeclaredRelations(DeclaredFunction):
    """Functions of TARGETS in a target file, with the relations that they must satisfy: the
    arguments of `audit_metamorphic` by name.
    """

    KIND = "metamorphic"
    KEYS = (*_SUBJECTS, "map", "input", "domain", *_OPTIONS, "guessed", "notes")
    FUNCTIONS = (*_SUBJECTS, "map")

    def subject(self, key: str) -> Any:
        """Return the function that a key names: a mechanism, mechanisms by epsilon, or a function
        whose exceptions are raised here.
        """
        named = replace(self.target, name=str(self.declaration[key]))
        if key == "mechanism":
            return named
        if key == "at_epsilon":
            return _Subject(self.target, lambda e: replace(named, kwargs={"epsilon": e}))
        return _Subject(self.target, lambda *arguments: self.called(named.name, *arguments))

    @property
    def domain(self) -> Domain | InputSpace | None:
        """Declared input space, or declared domain of mechanisms; by default the domain of the
        mechanism that is named.
        """
        if "input" in self.declaration:
            return space_of(self.declaration["input"], f"{self.target.name}: input")
        if "domain" in self.declaration:
            return build_domain(self.declaration["domain"], self.target.name)
        return None if self.mechanism is None else self.mechanism.domain

    @property
    def mechanism(self) -> Target | None:
        """Mechanism that is named by `mechanism` or `at_epsilon`; None without one."""
        name = self.declaration.get("mechanism") or self.declaration.get("at_epsilon")
        return None if name is None else replace(self.target, name=name)

    def audit(
        self, *, seconds: float = 0.0, seed: int = 0, visible_errors: bool = False
    ) -> tuple[Result, ...]:
        """Check the relations that apply, as `audit_metamorphic` does."""
        declared = self.declaration
        return audit_metamorphic(
            **{key: self.subject(key) for key in _SUBJECTS if key in declared},
            **{key: declared[key] for key in _OPTIONS if key in declared},
            stability_map=self.subject("map") if "map" in declared else None,
            domain=self.domain,
            seed=seed,
            name=self.target.name,
        )


@dataclass(frozen=True, eq=False)
class _Subject:
    """Function that a declaration names; witnesses record its target."""

    target: Target
    function: Callable[..., Any]

    @property
    def __name__(self) -> str:
        return self.target.name

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


DECLARED: Mapping[str, type[DeclaredFunction]] = {
    kind.KIND: kind for kind in (DeclaredTransformation, DeclaredAccountant, DeclaredRelations)
}


# -- replay of witnesses
# --------------------------------------------------------------------------------------------------


def _function(found: Any) -> Any:
    """Return the function of a witness. Raise InvalidArgument unless it can be called."""
    if not callable(found):
        raise InvalidArgument(f"replay: target must be a function, got {type(found).__name__}")
    return found


def replay_figure(raw: Json, mechanism: Any, name: str) -> AccountantResult:
    """Call the accountant of a witness at the recorded parameters again, and compare the figure
    with the exact one again.
    """
    return compare_at(
        DeclaredAccountant.of(mechanism) if isinstance(mechanism, Target) else _function(mechanism),
        raw["mechanism"],
        raw["returns"],
        raw["parameters"],
        raw["at"],
        raw["seed"],
        name,
    )


def replay_relation(
    raw: Json, mechanism: Any, seed: int, name: str, resolve: Any
) -> MetamorphicResult:
    """Run the relation of a witness again, on the recorded case."""
    relation = raw["relation"]
    require_one_of("relation", relation, RELATIONS, "replay")
    case = tuple(from_jsonable(item, f"case[{i}]", resolve) for i, item in enumerate(raw["case"]))
    options = {"seed": seed, "output_metric": raw.get("output_metric")}
    subject = _declared_subject(mechanism, relation)
    try:
        return check_relation(relation, subject, [case], options, name)
    except InvalidArgument:
        raise
    except Exception as error:  # the user's function may raise anything on the file's data
        raise InvalidArgument(
            f"replay: {name} could not be run: {type(error).__name__}: {str(error)[:300]}"
        ) from error


def _declared_subject(mechanism: Any, relation: str) -> Any:
    """Return the function of a witness of this relation; if the witness names an entry of TARGETS,
    the function in that entry.
    """
    if not isinstance(mechanism, Target):
        return mechanism
    known = declarations(
        mechanism.file, mechanism.python, mechanism.time_limit, mechanism.memory_limit
    )
    if mechanism.name not in known:
        return mechanism
    found, key = DeclaredRelations(mechanism, known[mechanism.name]), RELATIONS[relation].subject
    if key not in found.declaration:
        raise InvalidArgument(
            f"replay: {mechanism.name} must declare {key!r} in TARGETS, as it did when the "
            "witness was written"
        )
    return found.subject(key)


def replay_pair(raw: Json, mechanism: Any, trust: Trust, name: str) -> StabilityResult:
    """Run the inputs of a stability witness again. Raise InvalidArgument if they are not in the
    space at the recorded distance.
    """
    begin = time.monotonic()
    if isinstance(mechanism, Target):
        transformation, name = DeclaredTransformation.of(mechanism), mechanism.name
    else:
        transformation = _function(mechanism)
    first, second = (
        from_jsonable(each, f"inputs[{i}]", trust.resolve_class)
        for i, each in enumerate(raw["inputs"])
    )
    d_in = read_number(raw["d_in"])
    _check_inputs(raw, first, second, d_in)
    stability_map, notes = _recorded_map(raw, transformation, trust)
    bounds, skipped = map_values(stability_map, [d_in])
    search = Search(
        applier(transformation),
        Comparison(metric_named(raw["output_metric"], "output_metric", "replay"), bounds),
        math.inf,
    )
    law = None
    if raw["finding"] == LAW:
        seen, law, problem = try_pairs(search, [(first, second, d_in)], np.random.default_rng())
        search.pairs = 1
    else:
        seen, problem = _run_twice(search, first, second, d_in)
        if seen is not None and is_kept(seen, search.apply, search.comparison):
            seen, problem = None, STATE
    fields: dict[str, Any] = {
        "name": name,
        "skipped": skipped,
        **{key: raw[key] for key in ("input_metric", "output_metric", "space", "seed")},
        "audited": (d_in,),
        "function": mechanism,
        "stability_map": stability_map,
        "randomized": raw["finding"] == LAW,
        "law": law,
    }
    visible_errors = raw["verdict"] != "INCONCLUSIVE"
    seconds = time.monotonic() - begin
    result = concluded(seen, problem, search, visible_errors, seconds, fields, notes)
    # a replay does not confirm that the library claims the map
    if raw["verdict"] == "SUSPECT" and result.verdict is Verdict.VIOLATED:
        return replace(result, verdict=Verdict.SUSPECT)
    return result


def _run_twice(search: Search, first: Any, second: Any, d_in: Any) -> tuple[Found | None, str]:
    """Return what two runs of both inputs show, and why they show nothing certain; an empty text if
    they agree.
    """
    outcomes = [search.apply([first, second]) for _ in range(2)]
    one, two = (search.comparison.excess(left, right, d_in) for left, right in outcomes)
    search.inputs, search.pairs = 2, 1
    search.incomparable = int(one is None and bool(search.comparison.incomparable))
    if (one is None) is not (two is None) or (one and two and one.measured != two.measured):
        return (
            None,
            "two runs on one input have different outcomes: the transformation must be "
            "deterministic",
        )
    return None if one is None else Found(first, second, d_in, tuple(outcomes[0]), one), ""


def _check_inputs(raw: Json, first: Any, second: Any, d_in: Exact | None) -> None:
    """Raise InvalidArgument unless the inputs lie in the recorded space, at most at the recorded
    distance.
    """
    metric = metric_named(raw["input_metric"], "input_metric", "replay")
    if raw["space"] is not None:
        space = space_of(raw["space"], "space")
        for i, dataset in enumerate((first, second)):
            if not space.contains(dataset):
                raise InvalidArgument(f"inputs[{i}] must belong to the recorded space")
    try:
        distance = metric.measure(first, second, strict=True)
    except Incomparable as error:
        raise InvalidArgument(
            f"inputs must have a {raw['input_metric']} distance: {error}"
        ) from None
    if d_in is None or not 0 < d_in < math.inf or distance > d_in**metric.root:
        raise InvalidArgument(
            f"inputs must be at most d_in = {raw['d_in']} apart ({raw['input_metric']}), "
            f"they are {format_number(distance)} apart"
        )


def _recorded_map(
    raw: Json, transformation: Any, trust: Trust
) -> tuple[Callable[[Any], Any], tuple[str, ...]]:
    """Return the map of the declaration, or else the recorded function, or else the recorded value,
    with a note.
    """
    if isinstance(transformation, DeclaredTransformation):
        return transformation.stability_map, _library(transformation.target)
    if raw["map"] is not None:
        found = trust.plan(raw["map"], "map").load()
        if not callable(found):
            raise InvalidArgument(f"map must name a function, got {raw['map']['target']}")
        return found, ()
    bound = read_number(raw["bound"])
    return lambda _: bound, (
        f"the map is not importable: the recorded value {raw['bound']} was used",
    )
