"""Entry point of metamorphic audits: run the relations that apply to the given functions and
mechanisms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpwitness.auditors.functions.accounting.audit import audit_accountant
from dpwitness.auditors.functions.accounting.result import AccountantResult
from dpwitness.auditors.functions.metamorphic import random_relations, relations
from dpwitness.auditors.functions.metamorphic.inputs import Inputs, inputs_of
from dpwitness.auditors.functions.metamorphic.outputs import outcome
from dpwitness.auditors.functions.metamorphic.relations import Cases, Outcome
from dpwitness.auditors.functions.metamorphic.result import MetamorphicResult
from dpwitness.auditors.functions.stability.inputs.spaces import InputSpace
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.domains import Domain
from dpwitness.core.protocols.mechanism import name_of
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_callable,
    require_integer,
    require_nonnegative,
    require_one_of,
    require_probability,
    require_type,
)

_OWNER = "audit_metamorphic"
_LAWS = 3  # pairs on which laws are compared, since each needs many runs
_FEWEST = 1000  # smallest number of runs that an audit of a law takes
_EPSILONS = (0.02, 0.1, 0.5, 1.0, 4.0)  # values of epsilon that are doubled


@dataclass(frozen=True, slots=True)
class Relation:
    """Relation: function, statement, tested argument, further required argument, cases
    and options.
    """

    check: Callable[..., Outcome]
    statement: str
    subject: str
    cases: Callable[[Inputs], Cases]
    needs: str = ""
    options: tuple[str, ...] = ()


RELATIONS = {
    "order_is_ignored": Relation(
        relations.order_is_ignored,
        "the output does not depend on the order of the rows",
        "function",
        lambda inputs: inputs.orders,
        "unordered",
        ("output_metric",),
    ),
    "concatenation_is_kept": Relation(
        relations.concatenation_is_kept,
        "the output of a concatenation is the concatenation of the outputs",
        "function",
        lambda inputs: inputs.parts,
        "row_wise",
    ),
    "zero_map_is_constant": Relation(
        relations.zero_map_is_constant,
        "an output whose stability map is 0 does not depend on the input",
        "function",
        lambda inputs: inputs.pairs,
        "zero_map",
    ),
    "errors_ignore_one_record": Relation(
        random_relations.errors_ignore_one_record,
        "an exception does not depend on one record",
        "mechanism",
        lambda inputs: inputs.pairs,
        "",
        ("seed", "epsilon", "delta"),
    ),
    "zero_epsilon_is_constant": Relation(
        random_relations.zero_epsilon_is_constant,
        "a release with epsilon 0 has the same law on all datasets",
        "at_epsilon",
        lambda inputs: inputs.pairs[:_LAWS],
        "",
        ("seed", "confidence", "delta", "runs"),
    ),
    "more_epsilon_spreads_no_more": Relation(
        random_relations.more_epsilon_spreads_no_more,
        "outputs at twice the epsilon spread no more",
        "at_epsilon",
        lambda inputs: [
            (epsilon, dataset) for epsilon in _EPSILONS for dataset in inputs.datasets[:1]
        ],
        "",
        ("seed", "confidence", "runs"),
    ),
    "more_epsilon_is_no_more_noise": Relation(
        relations.more_epsilon_is_no_more_noise,
        "twice the epsilon needs no more noise",
        "noise",
        lambda inputs: relations.epsilons(),
    ),
    "parallel_composition_is_the_maximum": Relation(
        relations.parallel_composition_is_the_maximum,
        "parallel composition costs at least the largest epsilon",
        "parallel",
        lambda inputs: relations.epsilon_lists(),
    ),
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
    unordered: bool = False,
    row_wise: bool = False,
    output_metric: str | None = None,
    input_metric: str = "symmetric",
    d_in: float = 1,
    epsilon: float = 0.0,
    delta: float = 0.0,
    runs: int | None = None,
    only: Sequence[str] | None = None,
    confidence: float = 0.9999,
    seed: int = 0,
    name: str | None = None,
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
    unordered, row_wise : bool
        Whether these relations apply to `function`.
    output_metric : str, optional
        With `unordered`: metric of `audit_stability` in which equal outputs have distance 0, such
        as ``symmetric`` for rows in any order.
    input_metric, d_in : str, float
        Distance of the pairs for `stability_map`; the metric is that of an input space.
    epsilon : float
        The epsilon that `mechanism` claims, by which probabilities of exceptions may differ.
    delta : float
        The delta of the claim of `at_epsilon` and `mechanism`, by which laws at epsilon 0 and
        probabilities of exceptions may differ.
    runs : int, optional
        Runs on each dataset for the relations of `at_epsilon`. Default: those of each relation.
    only : sequence of str, optional
        Names of the relations to check, of those that apply. Default: all.
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
    Chen, Cheung and Yiu (1998), metamorphic testing; Clopper and Pearson (1934); Murtagh and Vadhan
    (2016).

    Examples
    --------
    >>> from dpwitness.mechanisms import Records
    >>> first, = audit_metamorphic(lambda rows: rows[0], unordered=True, domain=Records(3))
    >>> first.verdict.value
    'VIOLATED'
    """
    for label, value in (
        ("function", function),
        ("at_epsilon", at_epsilon),
        ("noise", noise),
        ("stability_map", stability_map),
    ):
        require_callable(label, value, _OWNER, optional=True)
    for label, value in (("sequential", sequential), ("parallel", parallel)):
        require_callable(label, value, _OWNER, optional=True)
    require_probability("confidence", confidence, _OWNER)
    require_integer("seed", seed, _OWNER, least=0)
    require_type("name", name, str, "be a text", _OWNER, optional=True)
    for each in only or ():
        require_one_of("only", each, RELATIONS, _OWNER)
    given: dict[str, Any] = {
        "function": function,
        "mechanism": mechanism,
        "at_epsilon": at_epsilon,
        "noise": noise,
        "parallel": parallel,
    }
    given |= {"unordered": unordered, "row_wise": row_wise}
    given["zero_map"] = stability_map is not None and outcome(stability_map, d_in) == 0
    require_nonnegative("epsilon", epsilon, _OWNER)
    require_probability("delta", delta, _OWNER, zero=True)
    if runs is not None:
        require_integer("runs", runs, _OWNER, least=_FEWEST)
    options = {
        "seed": seed,
        "confidence": confidence,
        "epsilon": epsilon,
        "delta": delta,
        "output_metric": output_metric,
    }
    options |= {"runs": runs} if runs is not None else {}
    domain = (
        domain
        if domain is not None
        else getattr(mechanism, "domain", None) or getattr(function, "domain", None)
    )
    inputs = inputs_of(domain, datasets or (), input_metric, d_in, seed, _OWNER, function)
    found: list[MetamorphicResult | AccountantResult] = []
    for key, relation in RELATIONS.items():
        if (
            given[relation.subject] is None
            or (relation.needs and not given[relation.needs])
            or key not in (only or RELATIONS)
        ):
            continue
        cases = relation.cases(inputs)
        if not cases:
            raise InvalidArgument(f"{_OWNER}: {key} needs datasets: give domain or datasets")
        found.append(check_relation(key, given[relation.subject], cases, options, name))
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
    if not found:
        raise InvalidArgument(
            f"{_OWNER}: no relation applies: give a mechanism, at_epsilon, noise, or a "
            "function with unordered or row_wise"
        )
    return tuple(found)


def check_relation(
    relation: str, subject: Any, cases: Cases, options: Json, name: str | None
) -> MetamorphicResult:
    """Return the result of one relation on the given cases, with the options that the relation
    takes.
    """
    begin, known = time.perf_counter(), RELATIONS[relation]
    found = known.check(
        subject, cases, **{key: options[key] for key in known.options if key in options}
    )
    verdict = (
        Verdict.VIOLATED if found.finding else Verdict.NOT_REFUTED if found.tried else Verdict.ERROR
    )
    missed = (
        (f"{found.failed} cases could not be run",)
        if found.failed and verdict is not Verdict.ERROR
        else ()
    )
    causes = (
        ()
        if verdict is not Verdict.ERROR
        else (f"no case could be run: all {found.failed} calls failed or were not repeatable",)
    )
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
        seed=options["seed"],
        output_metric=options.get("output_metric") if "output_metric" in known.options else None,
        notes=(*(causes if not found.notes else ()), *found.notes, *missed),
        seconds=time.perf_counter() - begin,
        function=subject,
    )


def replay_relation(
    raw: Json, subject: Any, seed: int, name: str, resolve: Any
) -> MetamorphicResult:
    """Run the relation of a witness again, on the recorded case."""
    require_one_of("relation", raw["relation"], RELATIONS, "replay")
    case = tuple(from_jsonable(item, f"case[{i}]", resolve) for i, item in enumerate(raw["case"]))
    try:
        return check_relation(
            raw["relation"],
            subject,
            [case],
            {"seed": seed, "output_metric": raw.get("output_metric")},
            name,
        )
    except InvalidArgument:
        raise
    except Exception as error:  # the user's function may raise anything on the file's data
        raise InvalidArgument(
            f"replay: {name} could not be run: {type(error).__name__}: {str(error)[:300]}"
        ) from error
