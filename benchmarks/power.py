"""Benchmark of the audit's power against an oracle: certified bound divided by the limit, for
specimens with a known privacy-loss law.

The complete pipeline runs on a given pair, without low-order bits and without early stopping. The
gap to the limit has three causes: training rounds, alpha spent on interim analyses, and a remainder
that is due to the learned event and to chance (seeds). An oracle with the same randomness shows how
much is due to chance.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from dpwitness import audit
from dpwitness.auditors import AuditResult
from dpwitness.auditors.density.limit import best_event, limit_of_law
from dpwitness.auditors.density.routes import loss_law
from dpwitness.auditors.events.outputs import encode
from dpwitness.auditors.statistics.certificate import certified
from dpwitness.auditors.statistics.loss_law import LossLaw
from dpwitness.benchmarks.families import FAMILIES, FEW_ATOMS, learning_oracle, members
from dpwitness.benchmarks.table import Row, Table, require_parts, root_seed
from dpwitness.core.datasets.pairs import Pair
from dpwitness.executors.pools import pool
from dpwitness.mechanisms.textbook.zoo import paper_zoo, zoo

ALPHA = 0.05
LEAST = 0.01  # specimens with a smaller limit are skipped
FAMILY_BUDGETS = ((20_000, 0.80), (400_000, 0.90))  # trials, and the required median of each family
FAMILY_MEMBERS, FAMILY_SEEDS = 3, 3


@dataclass(frozen=True, slots=True)
class Budget:
    """Runs of each audit, number of seeds, and required median, 10 % quantile and worst case."""

    trials: int
    seeds: int
    required: tuple[float, ...]


BUDGETS = (
    Budget(5_000, 12, (0.90, 0.62, 0.30)),
    Budget(20_000, 12, (0.96, 0.80, 0.50)),
    Budget(400_000, 12, (0.993, 0.95, 0.80)),
    Budget(4_000_000, 1, (0.996, 0.96, 0.90)),
)
PARTS = ("families", *(str(budget.trials) for budget in BUDGETS))


@dataclass(frozen=True, slots=True)
class Specimen:
    """Mechanism, pair, and law of the privacy loss on the pair."""

    name: str
    mechanism: Any
    pair: Pair
    law: LossLaw


@dataclass(frozen=True, slots=True)
class Measured:
    """Certified bound over the limit for each seed, and the fractions of the limit left after
    training rounds and interim analyses.
    """

    name: str
    ratios: tuple[float, ...]
    rounds: float
    looks: float
    method: str

    @property
    def ratio(self) -> float:
        """Median ratio over seeds."""
        return median(self.ratios)

    @property
    def event(self) -> float:
        """Certified bound of the learned event, as a fraction of the limit at the remaining rounds
        and error.
        """
        return self.ratio / (self.rounds * self.looks) if self.rounds * self.looks > 0 else 0.0


def specimens(only: str = "", papers: bool = True) -> Iterator[Specimen]:
    """Yield every specimen of the zoo, and of the papers unless `papers` is false, with a known
    law, one entry per pair.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [(name, found, found.worst_pair()) for name, found in zoo().items()]
        of_papers = paper_zoo().items() if papers else ()
        for name, found in sorted(of_papers, key=lambda item: len(item[1].pairs) > 1):
            label = name if len(found.pairs) == 1 else f"{name}:{{}}"
            cases += [
                (label.format(i), found.mechanism, pair) for i, pair in enumerate(found.pairs)
            ]
        for name, mechanism, pair in cases:
            if only in name:
                law = loss_law(mechanism, pair)
                if law is not None:
                    yield Specimen(name, mechanism, pair, law)


def power_at(
    trials: int, seed: int, count: int, found: Sequence[Specimen], workers: int | None = None
) -> list[Measured]:
    """Return certified bounds over the limit for `count` audits of each specimen with `trials`
    runs, each audit with its own seed derived from the root `seed`; specimens with a tiny limit are
    skipped.

    `workers` is the number of processes, by default that of the cores; 1 runs all audits here.
    """
    roots = np.random.SeedSequence(seed).spawn(len(found))
    tasks = [
        (trials, list(map(int, root.generate_state(count))), specimen)
        for root, specimen in zip(roots, found, strict=True)
    ]
    if workers == 1:
        return [each for task in tasks if (each := _measured(*task)) is not None]
    with pool(workers or os.cpu_count() or 1) as executor:
        results = executor.map(_measured, *zip(*tasks, strict=True))
        return [each for each in results if each is not None]


def _measured(trials: int, seeds: Sequence[int], specimen: Specimen) -> Measured | None:
    """Return the certified bounds of one specimen, or None if its limit is tiny."""
    claim = specimen.mechanism.claim
    best = limit_of_law(specimen.law, claim, trials, ALPHA)
    if best < LEAST:
        return None
    results = [
        audit(
            specimen.mechanism,
            claim=claim,
            pair=specimen.pair,
            trials=trials,
            confidence=1 - ALPHA,
            seed=seed,
            stop="never",
            bits=False,
        )
        for seed in seeds
    ]
    tested = max(map(_tested_rounds, results))
    after_rounds, with_alpha = (
        limit_of_law(specimen.law, claim, tested, alpha) for alpha in (ALPHA, results[0].alpha)
    )
    methods = [result.method for result in results]
    return Measured(
        specimen.name,
        tuple(result.parameter_lower / best for result in results),
        after_rounds / best,
        with_alpha / after_rounds if after_rounds else 1.0,
        max(set(methods), key=methods.count),
    )


def family_rows(
    seed: int, budgets: Sequence[tuple[int, float]] = FAMILY_BUDGETS, count: int = FAMILY_MEMBERS
) -> Iterator[Row]:
    """Yield a row for each family of mechanisms and each budget: the median over random members of
    certified / limit.
    """
    for family in FAMILIES:
        found = [
            Specimen(name, member, member.pair, law)
            for name, member, law in members(family, count, seed)
        ]
        for trials, required in budgets:
            ratio = median(m.ratio for m in power_at(trials, seed, FAMILY_SEEDS, found))
            yield Row(
                f"family: {family.__name__.replace('_', ' ')}, certified / limit at "
                f"{trials:,} trials",
                required,
                ratio,
                "ratio",
            )


def oracle_at(
    trials: int, seeds: int, found: Sequence[Specimen], repeats: int = 100
) -> tuple[float, ...]:
    """Return the median, 10 % quantile and worst certified / limit of an oracle, which tests the
    best event of the known law.

    The oracle has the same number of seeds as the audits, and each value is the median over the
    repeats. The best event may be so rare that chance alone moves its bound by a third. Claims that
    are certified by cells are skipped.
    """
    rng, medians = np.random.default_rng(trials), []
    for specimen in found:
        claim = specimen.mechanism.claim
        if (
            claim.bounds_renyi
            or (best := best_event(specimen.law, claim, trials, ALPHA)).value < LEAST
        ):
            continue
        rates = (best.right, best.wrong, max(0.0, 1 - best.right - best.wrong))
        counts = rng.multinomial(trials, rates, (repeats, seeds)).astype(float)
        attained = certified(
            claim, counts[..., 0].ravel(), counts[..., 1].ravel(), trials, ALPHA, best.directions
        )
        medians.append(np.median(np.reshape(attained, (repeats, seeds)), axis=1) / best.value)
    shapes = np.array(medians)
    return tuple(
        float(np.median(f))
        for f in (np.median(shapes, axis=0), np.quantile(shapes, 0.1, axis=0), shapes.min(axis=0))
    )


def short_cases(
    trials: int, seeds: int, found: Sequence[Specimen], measured: Sequence[Measured], least: float
) -> list[dict[str, Any]]:
    """Return the cases whose ratio is below `least`, each with the ratio of an oracle that has the
    training data of the audit only.

    `oracle` is the median over repeats of the median over the seeds, and `low` the 10 % quantile.
    """
    by_name, rng, short = (
        {specimen.name: specimen for specimen in found},
        np.random.default_rng(trials),
        list[dict[str, Any]](),
    )
    for case in sorted((m for m in measured if m.ratio < least), key=lambda m: m.ratio):
        specimen = by_name[case.name]
        law, claim = specimen.law, specimen.mechanism.claim
        if claim.bounds_renyi:
            continue
        width = encode(specimen.mechanism.sample(specimen.pair.d1, 2, rng), 2).values.shape[1]
        best = limit_of_law(law, claim, trials, ALPHA)
        bounds = [
            [learning_oracle(law, claim, trials, ALPHA, rng, width) / best for _ in range(seeds)]
            # simulated sets of seeds of the oracle that learns
            for _ in range(15)
        ]
        low, oracle = np.quantile(np.median(bounds, axis=1), [0.1, 0.5]).tolist()
        short.append(
            {
                "name": case.name,
                "ratio": case.ratio,
                "oracle": oracle,
                "low": low,
                "few": len(law.loss) <= FEW_ATOMS,
            }
        )
    return short


def _tested_rounds(result: AuditResult) -> int:
    """Return the rounds of all stages of the test."""
    return sum(part.tally.rounds for part in result.stages) or (
        result.tally.rounds if result.tally else 0
    )


def measure(
    seed: int | None = None,
    parts: Sequence[str] = (),
    *,
    budgets: Sequence[Budget] = BUDGETS,
    only: str = "",
    workers: int | None = None,
) -> Table:
    """Run the power benchmark and return its table.

    Parameters
    ----------
    seed : int or None
        Root of the seeds of all audits, and of the members of families. None: drawn from the
        operating system. The table states it.
    parts : sequence of str
        Numbers of runs whose budgets are measured, and ``families``; all by default.
    budgets : sequence of Budget
        Budgets to choose from.
    only : str
        Text that the name of a specimen must contain.
    workers : int or None
        Number of processes, by default that of the cores.

    Returns
    -------
    Table
        Median, 10 % quantile and worst case at each budget, and the median of each family. Notes
        name the ten worst specimens, details list all cases.

    Raises
    ------
    InvalidArgument
        If a part is unknown.
    """
    require_parts(parts, PARTS)
    seed = root_seed(seed)
    found, rows, details = list(specimens(only)), list[Row](), list[dict[str, Any]]()
    notes = [f"seed {seed}: dpwitness bench power --seed {seed} repeats these audits"]
    for budget in budgets:
        if parts and str(budget.trials) not in parts:
            continue
        measured = power_at(budget.trials, seed, budget.seeds, found, workers)
        rows += _budget_rows(budget, [each.ratio for each in measured])
        oracle = oracle_at(budget.trials, budget.seeds, found)
        notes.append(_budget_note(budget, measured, oracle))
        details.append(
            {
                "trials": budget.trials,
                "seeds": budget.seeds,
                "oracle": oracle,
                "cases": [asdict(each) | {"event": each.event} for each in measured],
                "short": short_cases(
                    budget.trials, budget.seeds, found, measured, budget.required[1]
                ),
            }
        )
    if "families" in parts or not (parts or only):
        rows += family_rows(seed)
    return Table("power", tuple(rows), tuple(notes), tuple(details))


def _budget_rows(budget: Budget, ratios: Sequence[float]) -> list[Row]:
    """Return the rows of median, 10 % quantile and worst case."""
    quantiles = (("median", 0.5), ("10 % quantile", 0.1), ("worst", 0.0))
    return [
        Row(
            f"certified / limit at {budget.trials:,} trials: {name}",
            required,
            float(np.quantile(ratios, share)),
            "ratio",
        )
        for (name, share), required in zip(quantiles, budget.required, strict=True)
    ]


def _budget_note(budget: Budget, measured: Sequence[Measured], oracle: tuple[float, ...]) -> str:
    """Return the causes of the gap, the oracle's figures and the worst specimens in words."""
    rounds, looks, event = (
        float(np.median([getattr(each, cause) for each in measured]))
        for cause in ("rounds", "looks", "event")
    )
    worst = ", ".join(
        f"{each.name} {each.ratio:.2f} ({each.method})"
        for each in sorted(measured, key=lambda each: each.ratio)[:10]
    )
    return (
        f"{budget.trials:,} trials, {len(measured)} specimens, {budget.seeds} seeds: in the "
        f"median, training rounds leave {rounds:.3f} of the limit, looks {looks:.3f} of that, the "
        f"event {event:.3f}; an oracle that knows the law reaches "
        f"{', '.join(f'{share:.3f}' for share in oracle)} (median, 10 % quantile, worst); worst: "
        f"{worst}"
    )
