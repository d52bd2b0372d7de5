"""Metamorphic audit: the inputs of relations, the relations that apply to the given functions and
mechanisms, and their results."""

from __future__ import annotations

import math
import random
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, ClassVar, TypedDict, Unpack

from dpwitness.auditors.functions.accounting.audit import AccountantResult, audit_accountant
from dpwitness.auditors.functions.metamorphic import relations
from dpwitness.auditors.functions.metamorphic.relations import (
    Cases,
    RelationOutcome,
    row_count,
    rows,
)
from dpwitness.auditors.functions.stability.metrics import metric_named
from dpwitness.auditors.functions.stability.neighbors import RowEdits, neighbors_of
from dpwitness.auditors.functions.stability.search import outcome
from dpwitness.auditors.search.catalogue import pairs_for, require_domain, require_settings
from dpwitness.auditors.witnesses.result import FunctionResult, named
from dpwitness.auditors.witnesses.verdicts import Verdict, strict
from dpwitness.auditors.workers.descriptions import constants_of
from dpwitness.core.domains import Domain
from dpwitness.core.domains.spaces import InputSpace
from dpwitness.core.protocols.mechanism import name_of
from dpwitness.core.values.json_codec import to_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_callable,
    require_integer,
    require_nonnegative,
    require_one_of,
    require_probability,
    require_that,
    short_repr,
)
from dpwitness.mechanisms.wrappers.programs.declared import FailedRun


@dataclass(frozen=True, slots=True)
class Inputs:
    """Datasets, pairs of neighboring datasets, and for each dataset the same rows in other orders
    and in two parts.
    """

    datasets: tuple[Any, ...]
    pairs: Cases
    orders: Cases
    parts: Cases


def inputs_of(
    domain: Any,
    datasets: Sequence[Any],
    input_metric: str,
    d_in: Any,
    seed: int,
    owner: str,
    function: Any,
) -> Inputs:
    """Return the inputs of all relations, from given datasets and from an input space or a domain
    of mechanisms.
    """
    rng = random.Random(seed)
    pairs: list[tuple[Any, ...]] = []
    if isinstance(domain, InputSpace):
        near = neighbors_of(
            domain,
            metric_named(input_metric, "input_metric", owner),
            [d_in],
            constants_of(function),
            owner,
        )
        assert isinstance(near, RowEdits)
        kept: dict[int, list[Any]] = {}
        for each in islice(near.bases(), 600):
            kept.setdefault(len(each), []).append(each)
        # adversarial datasets, at most 8 of one size, and random ones
        found = [each for bases in kept.values() for each in bases[:8]]
        found += [near.random_rows(rng) for _ in range(30)]
        every = (*datasets, *map(domain.build, found))
        # few groups of neighbors of each dataset
        groups = (group for base in found for group in islice(near.around(base), 4))
        pairs = [
            (group.datasets[i], group.datasets[j]) for group in groups for i, j, _ in group.pairs
        ]
    else:
        if domain is not None:
            require_domain(domain, owner)
            # largest number of pairs that are taken from a domain
            pairs = [(pair.d0, pair.d1) for pair in pairs_for(domain)[:12]]
        every = (*datasets, *(side for pair in pairs for side in pair))
    small = sorted(every, key=row_count)
    orders = [(dataset, other) for dataset in small for other in _reordered(dataset, rng)]
    return Inputs(
        every, pairs, orders, [part for dataset in small for part in _parts(dataset, rng)]
    )


def _reordered(dataset: Any, rng: random.Random) -> Iterator[Any]:
    """Yield the dataset with its rows reversed, rotated and shuffled."""
    count = row_count(dataset)
    for order in (
        (range(count - 1, -1, -1), [*range(1, count), 0], rng.sample(range(count), count))
        if count > 1
        else ()
    ):
        found = outcome(rows, dataset, list(order))
        if not isinstance(found, FailedRun):
            yield found


def _parts(dataset: Any, rng: random.Random) -> Iterator[tuple[Any, Any]]:
    """Yield the dataset in two parts: cut at random, after the first row, and with an empty second
    part.
    """
    count = row_count(dataset)
    for cut in dict.fromkeys((rng.randint(1, count - 1), 1, count)) if count > 1 else ():
        sides = [outcome(rows, dataset, list(part)) for part in (range(cut), range(cut, count))]
        if not any(isinstance(side, FailedRun) for side in sides):
            yield sides[0], sides[1]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class MetamorphicResult(FunctionResult):
    """Result of one relation of a metamorphic audit.

    Attributes
    ----------
    verdict : Verdict
        VIOLATED if the relation is broken, NOT_REFUTED if it held in all cases, ERROR if no case
        could be run.
    relation : str
        Name of the relation, which is the name of its function in `dpwitness.metamorphic`.
    statement : str
        The relation in words.
    finding : str
        Description of the broken case; empty if the relation held.
    case : tuple or None
        Inputs at which the relation is broken.
    outputs : tuple
        Outputs at these inputs.
    error : float
        Probability of a false VIOLATED; 0 for a comparison without randomness.
    tried : int
        Number of cases that were run.
    output_metric : str or None
        Metric in which outputs are compared, if it is not equality.
    name, seed, notes, seconds, target, subject
        As in other results.
    """

    kind: ClassVar[str] = "metamorphic"

    relation: str
    statement: str
    finding: str
    case: tuple[Any, ...] | None
    outputs: tuple[Any, ...]
    error: float
    tried: int
    output_metric: str | None = None

    @property
    def evidence(self) -> str:
        """Return ``proved`` for an exact violation, ``statistical`` if it has an error probability,
        ``numerical`` otherwise.
        """
        if not self.finding:
            return "numerical"
        return "proved" if self.error == 0 else "statistical"

    def _claim_text(self) -> str:
        return self.statement

    def _witness_fields(self) -> Json | None:
        if self.verdict is not Verdict.VIOLATED or self.case is None:
            return None
        try:
            case = [to_jsonable(item) for item in self.case]
        except InvalidArgument:
            return None
        return {
            **({"output_metric": self.output_metric} if self.output_metric else {}),
            "relation": self.relation,
            "case": case,
            "finding": self.finding,
            "error": self.error,
        }

    def _finding_advice(self) -> str:
        return (
            ""
            if self.verdict is Verdict.SUSPECT
            else "no change is needed on this evidence, which is not a proof"
        )

    def _summary(self) -> str:
        if not self.finding:
            return f"{self.statement}, in {self.tried} cases"
        sure = "exact" if self.error == 0 else f"false with probability at most {self.error:.3g}"
        return f"{self.statement}: {self.finding} ({sure})"

    def _fields(self) -> Json:
        return {
            "metamorphic_relation": self.relation,
            "finding": self.finding,
            "case": None if self.case is None else [_written(item) for item in self.case],
            "outputs": [_written(item) for item in self.outputs],
            "error": self.error,
            "tried": self.tried,
        }


def _written(value: Any) -> Any:
    """Return a value in JSON types; a text if it has no exact form."""
    if isinstance(value, FailedRun):
        return {"raised": value.text}
    try:
        return strict(to_jsonable(value))
    except InvalidArgument:
        return short_repr(value)


_OWNER = "audit_metamorphic"


@dataclass(frozen=True, slots=True)
class CheckedRelation:
    """Relation: function, statement, tested argument, further required argument, cases
    and options.
    """

    check: Callable[..., RelationOutcome]
    statement: str
    subject: str
    cases: Callable[[Inputs], Cases]
    needs: str = ""
    options: tuple[str, ...] = ()

    def applies(self, given: Mapping[str, Any]) -> bool:
        """Return whether these arguments of the audit include those of the relation."""
        return given[self.subject] is not None and (not self.needs or bool(given[self.needs]))


RELATIONS = {
    "order_is_ignored": CheckedRelation(
        relations.order_is_ignored,
        "the output does not depend on the order of the rows",
        "function",
        lambda inputs: inputs.orders,
        "unordered",
        ("output_metric",),
    ),
    "concatenation_is_kept": CheckedRelation(
        relations.concatenation_is_kept,
        "the output of a concatenation is the concatenation of the outputs",
        "function",
        lambda inputs: inputs.parts,
        "row_wise",
    ),
    "zero_map_is_constant": CheckedRelation(
        relations.zero_map_is_constant,
        "an output whose stability map is 0 does not depend on the input",
        "function",
        lambda inputs: inputs.pairs,
        "zero_map",
    ),
    "errors_ignore_one_record": CheckedRelation(
        relations.errors_ignore_one_record,
        "an exception does not depend on one record",
        "mechanism",
        lambda inputs: inputs.pairs,
        "",
        ("seed", "epsilon", "delta"),
    ),
    "zero_epsilon_is_constant": CheckedRelation(
        relations.zero_epsilon_is_constant,
        "a release with epsilon 0 has the same law on all datasets",
        "at_epsilon",
        lambda inputs: inputs.pairs[:3],  # a comparison of laws needs many runs
        "",
        ("seed", "confidence", "delta", "runs"),
    ),
    "more_epsilon_spreads_no_more": CheckedRelation(
        relations.more_epsilon_spreads_no_more,
        "outputs at twice the epsilon spread no more",
        "at_epsilon",
        lambda inputs: [
            (epsilon, dataset)
            for epsilon in (0.02, 0.1, 0.5, 1.0, 4.0)
            for dataset in inputs.datasets[:1]
        ],
        "",
        ("seed", "confidence", "runs"),
    ),
    "more_epsilon_is_no_more_noise": CheckedRelation(
        relations.more_epsilon_is_no_more_noise,
        "twice the epsilon needs no more noise",
        "noise",
        lambda inputs: [(10.0**k * x,) for k in range(-4, 2) for x in (1.0, 2.0, 3.0, 5.0)],
    ),
    "parallel_composition_is_the_maximum": CheckedRelation(
        relations.parallel_composition_is_the_maximum,
        "parallel composition costs at least the largest epsilon",
        "parallel",
        lambda inputs: [
            ([1.0],),
            ([0.1, 1.0],),
            ([1.0, 0.1],),
            ([0.5] * 4,),
            ([1e-3, 2.0, 0.7],),
            ([math.pi] * 2,),
            ([0.1] * 100,),
        ],
    ),
}


class RelationOptions(TypedDict, total=False):
    """Options of `audit_metamorphic` and of declared relations; the docstring of the audit
    describes them.
    """

    unordered: bool
    row_wise: bool
    output_metric: str | None
    input_metric: str
    d_in: float
    epsilon: float
    delta: float
    runs: int | None
    only: Sequence[str] | None
    confidence: float
    seed: int
    name: str | None


_RULES: Mapping[str, Callable[..., Any]] = {
    "confidence": require_probability,
    "epsilon": require_nonnegative,
    "delta": partial(require_probability, zero=True),
    # smallest number of runs that an audit of a law takes
    "runs": partial(require_integer, least=1000),
}


def audit_metamorphic(
    function: Callable[[Any], Any] | None = None,
    *,
    mechanism: Any = None,
    at_epsilon: Callable[[float], Any] | None = None,
    noise: Callable[[float], float] | None = None,
    stability_map: Callable[[float], float] | None = None,
    sequential: Callable[..., float] | None = None,
    parallel: Callable[[list[float]], float] | None = None,
    domain: Domain | InputSpace | None = None,
    datasets: Sequence[Any] | None = None,
    **options: Unpack[RelationOptions],
) -> tuple[MetamorphicResult | AccountantResult, ...]:
    """Check relations between several runs that hold without a reference output, and return one
    result for each.

    Parameters
    ----------
    function : callable, optional
        Deterministic function of a dataset. With `unordered`, its output must not depend on the
        order of the rows. With `row_wise`, it must commute with concatenation. With
        `stability_map`, its output must be constant if the map of `d_in` is 0.
    mechanism : Mechanism or callable, optional
        Object with ``sample(dataset, size, rng)``, or such a function: an exception must not depend
        on one record.
    at_epsilon : callable, optional
        Mechanism as a function of epsilon: at 0 its law must be the same on all datasets, and its
        outputs must not spread more at twice the epsilon. The second relation is that of additive
        noise.
    noise : callable, optional
        Noise scale as a function of epsilon: it must not be larger at twice epsilon.
    stability_map : callable, optional
        Stability map of `function`.
    sequential : callable, optional
        Sequential composition, ``sequential(epsilons, deltas, delta)``, which returns epsilon:
        compared with the optimal composition by `dpwitness.accounting.audit_accountant`.
    parallel : callable, optional
        Parallel composition, ``parallel(epsilons)``, which returns epsilon: at least the largest.
    domain : Domain or InputSpace, optional
        Domain of the datasets and pairs, or an input space of `audit_stability`. Default: the
        attribute `domain` of the mechanism or function.
    datasets : sequence, optional
        Datasets for `function`, in addition to those of the domain.

    Returns
    -------
    tuple of MetamorphicResult and AccountantResult
        One result for each relation that applies.

    Other Parameters
    ----------------
    unordered, row_wise : bool
        Whether these relations apply to `function`. Default: False.
    output_metric : str, optional
        With `unordered`: metric of `audit_stability` in which equal outputs have distance 0, such
        as ``symmetric`` for rows in any order.
    input_metric, d_in : str, float
        Distance of the pairs for `stability_map`; the metric is that of an input space. Default:
        ``symmetric``, 1.
    epsilon : float
        The epsilon that `mechanism` claims, by which probabilities of exceptions may differ.
        Default: 0.
    delta : float
        The delta of the claim of `at_epsilon` and `mechanism`, by which laws at epsilon 0 and
        probabilities of exceptions may differ. Default: 0.
    runs : int, optional
        Runs on each dataset for the relations of `at_epsilon`. Default: those of each relation.
    only : sequence of str, optional
        Names of the relations to check, of those that apply. Default: all.
    confidence : float
        Confidence of the verdict of each relation that rests on random runs. Default: 0.9999.
    seed : int
        Seed of random runs and orders. Default: 0.
    name : str, optional
        Name in the report.

    Raises
    ------
    InvalidArgument
        If no relation applies, datasets are missing, or an argument is invalid.

    References
    ----------
    Chen, Cheung and Yiu (1998), metamorphic testing; Clopper and Pearson (1934); Murtagh and Vadhan
    (2016).

    Examples
    --------
    >>> from dpwitness.mechanisms import Records
    >>> first, = audit_metamorphic(lambda rows: rows[0], unordered=True, domain=Records(3))
    >>> first.verdict.value
    'VIOLATED'
    """
    settings: dict[str, Any] = {"seed": 0}
    settings |= {key: value for key, value in options.items() if value is not None}
    if unknown := next(iter(settings.keys() - RelationOptions.__annotations__.keys()), None):
        raise TypeError(f"audit_metamorphic() got an unexpected keyword argument {unknown!r}")
    for key, rule in _RULES.items():
        if key in settings:
            settings[key] = rule(key, settings[key], _OWNER)
    seed, name, only = settings["seed"], settings.get("name"), settings.get("only") or RELATIONS
    require_settings(_OWNER, seed, name=name)
    for each in only:
        require_one_of("only", each, RELATIONS, _OWNER)
    given: dict[str, Any] = {
        "function": function,
        "at_epsilon": at_epsilon,
        "noise": noise,
        "stability_map": stability_map,
        "sequential": sequential,
        "parallel": parallel,
    }
    for label, value in given.items():
        require_callable(label, value, _OWNER, optional=True)
    d_in = settings.get("d_in", 1)
    given |= {
        "mechanism": mechanism,
        "unordered": settings.get("unordered"),
        "row_wise": settings.get("row_wise"),
        "zero_map": stability_map is not None and outcome(stability_map, d_in) == 0,
    }
    if domain is None:
        domain = getattr(mechanism, "domain", None) or getattr(function, "domain", None)
    metric = settings.get("input_metric", "symmetric")
    inputs = inputs_of(domain, datasets or (), metric, d_in, seed, _OWNER, function)
    applied = {
        key: relation
        for key, relation in RELATIONS.items()
        if key in only and relation.applies(given)
    }
    found: list[MetamorphicResult | AccountantResult] = []
    for key, relation in applied.items():
        cases = relation.cases(inputs)
        require_that(cases, f"{key} needs datasets: give domain or datasets", _OWNER)
        found.append(check_relation(key, given[relation.subject], cases, settings))
    if sequential is not None:
        found.append(
            audit_accountant(
                sequential,
                "heterogeneous-composition",
                "epsilon",
                evaluations=150,
                seed=seed,
                name=name,
            )
        )
    require_that(
        found,
        "no relation applies: give a mechanism, at_epsilon, noise, or a function with "
        "unordered or row_wise",
        _OWNER,
    )
    return tuple(found)


def check_relation(relation: str, subject: Any, cases: Cases, options: Json) -> MetamorphicResult:
    """Return the result of one relation on the given cases, with the options that the relation
    takes.
    """
    begin, known = time.perf_counter(), RELATIONS[relation]
    taken = {key: options[key] for key in known.options if key in options}
    with warnings.catch_warnings():  # unusual inputs are meant
        warnings.simplefilter("ignore")
        found = known.check(subject, cases, **taken)
    tried = Verdict.NOT_REFUTED if found.tried else Verdict.ERROR
    notes = list(found.notes)
    if found.failed and found.tried:
        notes.append(f"{found.failed} cases could not be run")
    elif not found.tried and not notes:
        notes = [f"no case could be run: all {found.failed} calls failed or were not repeatable"]
    return MetamorphicResult(
        name=options.get("name") or name_of(subject),
        verdict=Verdict.VIOLATED if found.finding else tried,
        relation=relation,
        statement=known.statement,
        finding=found.finding,
        case=found.case,
        outputs=found.outputs,
        error=found.error if found.finding else 0.0,
        tried=found.tried,
        seed=options["seed"],
        output_metric=options.get("output_metric") if "output_metric" in known.options else None,
        notes=tuple(notes),
        seconds=time.perf_counter() - begin,
        target=named(subject),
        subject=subject,
    )
