"""Entry point of metamorphic audits: run the relations that apply to what is given."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.auditors.accounting.audit import audit_accountant
from dpwitness.auditors.accounting.result import AccountantResult
from dpwitness.auditors.metamorphic import relations, sampled
from dpwitness.auditors.metamorphic.outputs import Raised, outcome, row_count, rows
from dpwitness.auditors.metamorphic.relations import Cases, Outcome
from dpwitness.auditors.metamorphic.result import MetamorphicResult
from dpwitness.auditors.pairs.catalogue import pairs_for, require_domain
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.mechanisms.core.json_codec import from_jsonable
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument, require_callable, require_integer, require_probability, require_type
from dpwitness.mechanisms.domains import Domain
from dpwitness.mechanisms.protocols.mechanism import name_of

_OWNER = "audit_metamorphic"
_DATASETS = 12  # largest number of datasets and of pairs that are taken from a domain
_LAWS = 3  # pairs on which laws are compared, since each needs many runs
_EPSILONS = (0.1, 1.0)  # values of epsilon that are doubled


@dataclass(frozen=True, slots=True)
class Relation:
    """Relation: its function, its statement in words, and whether it takes a seed."""

    check: Callable[..., Outcome]
    statement: str
    seeded: bool = False


RELATIONS = {
    "order_is_ignored": Relation(relations.order_is_ignored, "the output does not depend on the order of the rows"),
    "concatenation_is_kept": Relation(relations.concatenation_is_kept, "the output of a concatenation is the concatenation of the outputs"),
    "zero_map_is_constant": Relation(relations.zero_map_is_constant, "an output whose stability map is 0 does not depend on the input"),
    "more_epsilon_is_no_more_noise": Relation(relations.more_epsilon_is_no_more_noise, "twice the epsilon needs no more noise"),
    "parallel_composition_is_the_maximum": Relation(
        relations.parallel_composition_is_the_maximum, "parallel composition costs at least the largest epsilon"
    ),
    "zero_epsilon_is_constant": Relation(
        sampled.zero_epsilon_is_constant, "a release with epsilon 0 has the same law on all datasets", True
    ),
    "more_epsilon_spreads_no_more": Relation(sampled.more_epsilon_spreads_no_more, "outputs at twice the epsilon spread no more", True),
    "errors_ignore_one_record": Relation(sampled.errors_ignore_one_record, "an exception does not depend on one record", True),
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
    domain: Domain | None = None,
    datasets: Sequence[Any] | None = None,
    unordered: bool = False,
    row_wise: bool = False,
    d_in: float = 1,
    confidence: float = 0.9999,
    seed: int = 0,
    name: str | None = None,
) -> tuple[MetamorphicResult | AccountantResult, ...]:
    """Check relations between several runs that hold without a reference output, and return one result for each.

    Parameters
    ----------
    function : callable, optional
        Deterministic function of a dataset. With `unordered`, its output must not depend on the order of the rows. With `row_wise`, it must
        commute with concatenation. With `stability_map`, its output must be constant if the map of `d_in` is 0.
    mechanism : Mechanism or callable, optional
        Object with ``sample(dataset, size, rng)``, or such a function: an exception must not depend on one record.
    at_epsilon : callable, optional
        Mechanism as a function of epsilon: at 0 its law must be the same on all datasets, and its outputs must not spread more at twice the
        epsilon.
    noise : callable, optional
        Noise scale as a function of epsilon: it must not be larger at twice epsilon.
    stability_map : callable, optional
        Stability map of `function`.
    sequential : callable, optional
        Sequential composition, ``sequential(epsilons, deltas, delta)``, which returns epsilon: compared with the optimal composition by
        `dpwitness.accounting.audit_accountant`.
    parallel : callable, optional
        Parallel composition, ``parallel(epsilons)``, which returns epsilon: at least the largest.
    domain : Domain, optional
        Domain of the datasets and pairs. Default: the attribute `domain` of the mechanism or function.
    datasets : sequence, optional
        Datasets for `function`, in addition to those of the domain.
    unordered, row_wise : bool
        Whether these relations apply to `function`.
    d_in : float
        Distance of the pairs of the domain, for `stability_map`.
    confidence : float
        Confidence of the verdict of each relation that rests on random runs.
    seed : int
        Seed of random runs and orders.
    name : str, optional
        Name in the report.

    Returns
    -------
    tuple of MetamorphicResult and AccountantResult
        One result for each relation that applies.

    Raises
    ------
    InvalidArgument
        If no relation applies, datasets are missing, or an argument is invalid.

    References
    ----------
    Chen, Cheung and Yiu (1998), metamorphic testing; Clopper and Pearson (1934); Murtagh and Vadhan (2016).

    Examples
    --------
    >>> from dpwitness.mechanisms import Records
    >>> first, = audit_metamorphic(lambda rows: rows[0], unordered=True, domain=Records(3))
    >>> first.verdict.value
    'VIOLATED'
    """
    for label, value in (("function", function), ("at_epsilon", at_epsilon), ("noise", noise), ("stability_map", stability_map)):
        require_callable(label, value, _OWNER, optional=True)
    for label, value in (("sequential", sequential), ("parallel", parallel)):
        require_callable(label, value, _OWNER, optional=True)
    require_probability("confidence", confidence, _OWNER)
    seed = require_integer("seed", seed, _OWNER, least=0)
    require_type("name", name, str, "be a text", _OWNER, optional=True)
    inputs = _inputs(domain, datasets, mechanism, function, seed)
    found: list[MetamorphicResult | AccountantResult] = []
    for relation, subject, cases in _plan(
        function, mechanism, at_epsilon, noise, stability_map, parallel, unordered, row_wise, d_in, inputs
    ):
        if not cases:
            raise InvalidArgument(f"{_OWNER}: {relation} needs datasets: give domain or datasets")
        options = {"confidence": confidence} if RELATIONS[relation].seeded and "epsilon" in relation else {}
        found.append(check_relation(relation, subject, cases, seed, name, options))
    if sequential is not None:
        found.append(audit_accountant(sequential, "heterogeneous-composition", "epsilon", evaluations=150, seed=seed, name=name))
    if not found:
        raise InvalidArgument(
            f"{_OWNER}: no relation applies: give a mechanism, at_epsilon, noise, or a function with unordered or row_wise"
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Datasets and pairs of a domain, and reorderings and parts of the datasets."""

    datasets: tuple[Any, ...]
    pairs: Cases
    orders: Cases
    parts: Cases


def _plan(
    function: Any,
    mechanism: Any,
    at_epsilon: Any,
    noise: Any,
    stability_map: Any,
    parallel: Any,
    unordered: bool,
    row_wise: bool,
    d_in: float,
    inputs: _Inputs,
) -> list[tuple[str, Any, Cases]]:
    """Return the relations that apply, each with its subject and its cases."""
    plan: list[tuple[str, Any, Cases]] = []
    if function is not None and unordered:
        plan.append(("order_is_ignored", function, inputs.orders))
    if function is not None and row_wise:
        plan.append(("concatenation_is_kept", function, inputs.parts))
    if function is not None and stability_map is not None and outcome(stability_map, d_in) == 0:
        plan.append(("zero_map_is_constant", function, inputs.pairs))
    if mechanism is not None:
        plan.append(("errors_ignore_one_record", mechanism, inputs.pairs))
    if at_epsilon is not None:
        plan.append(("zero_epsilon_is_constant", at_epsilon, inputs.pairs[:_LAWS]))
        plan.append(("more_epsilon_spreads_no_more", at_epsilon, [(e, dataset) for e in _EPSILONS for dataset in inputs.datasets[:1]]))
    if noise is not None:
        plan.append(("more_epsilon_is_no_more_noise", noise, relations.epsilons()))
    if parallel is not None:
        plan.append(("parallel_composition_is_the_maximum", parallel, relations.epsilon_lists()))
    return plan


def _inputs(domain: Any, datasets: Any, mechanism: Any, function: Any, seed: int) -> _Inputs:
    """Return the inputs of all relations, from a domain and from given datasets."""
    domain = domain if domain is not None else getattr(mechanism, "domain", None) or getattr(function, "domain", None)
    pairs: list[tuple[Any, Any]] = []
    if domain is not None:
        require_domain(domain, _OWNER)
        pairs = [(pair.d0, pair.d1) for pair in pairs_for(domain)[:_DATASETS]]
    every = (*(datasets or ()), *(side for pair in pairs for side in pair))
    rng, orders, parts = np.random.default_rng(seed), [], []
    for dataset in every:
        count = row_count(dataset)
        for order in (range(count - 1, -1, -1), rng.permutation(count).tolist()):
            reordered = outcome(rows, dataset, list(order)) if count > 1 else Raised("", "")
            if not isinstance(reordered, Raised):
                orders.append((dataset, reordered))
        cut = int(rng.integers(1, count)) if count > 1 else 0
        sides = [outcome(rows, dataset, list(part)) for part in (range(cut), range(cut, count))] if cut else []
        if sides and not any(isinstance(side, Raised) for side in sides):
            parts.append((sides[0], sides[1]))
    return _Inputs(every, pairs, orders, parts)


def check_relation(relation: str, subject: Any, cases: Cases, seed: int, name: str | None, options: Json) -> MetamorphicResult:
    """Return the result of one relation on given cases."""
    begin, known = time.perf_counter(), RELATIONS[relation]
    found = known.check(subject, cases, **(options | {"seed": seed} if known.seeded else {}))
    verdict = Verdict.VIOLATED if found.finding else Verdict.NOT_REFUTED if found.tried else Verdict.ERROR
    missed = (f"{found.failed} cases could not be run",) if found.failed and verdict is not Verdict.ERROR else ()
    causes = () if verdict is not Verdict.ERROR else (f"no case could be run: all {found.failed} calls failed or were not repeatable",)
    return MetamorphicResult(
        name=name or name_of(subject),
        verdict=verdict,
        relation=relation,
        statement=known.statement,
        finding=found.finding,
        case=found.case,
        outputs=found.outputs,
        error=found.error if found.finding else 0.0,
        tried=found.tried,
        seed=seed,
        notes=(*(causes if not found.notes else ()), *found.notes, *missed),
        seconds=time.perf_counter() - begin,
        function=subject,
    )


def replay_relation(raw: Json, subject: Any, seed: int, name: str, resolve: Any) -> MetamorphicResult:
    """Run the relation of a witness again, on the recorded case."""
    case = tuple(from_jsonable(item, f"case[{i}]", resolve) for i, item in enumerate(raw["case"]))
    try:
        return check_relation(raw["relation"], subject, [case], seed, name, {})
    except InvalidArgument:
        raise
    except Exception as error:  # the user's function may raise anything on the file's data
        raise InvalidArgument(f"replay: {name} could not be run: {type(error).__name__}: {str(error)[:300]}") from error
