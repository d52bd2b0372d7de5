"""Benchmark of the audit's power against an oracle: certified bound divided by the limit, for
specimens with a known privacy-loss law.

The complete pipeline runs on a given pair, without low-order bits and without early stopping. The
gap to the limit has three causes: training rounds, alpha spent on interim analyses, and a remainder
that is due to the learned event and to chance (seeds). An oracle with the same randomness shows how
much is due to chance.
"""

from __future__ import annotations

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
from dpwitness.benchmarks.families.learning_oracle import FEW_ATOMS, learning_oracle
from dpwitness.benchmarks.families.members import FAMILIES, members
from dpwitness.benchmarks.table import Row, Table
from dpwitness.core.datasets.pairs import Pair
from dpwitness.mechanisms.textbook.zoo import paper_zoo, zoo

ALPHA = 0.05
LEAST = 0.01  # specimens with a smaller limit are skipped
FAMILY_BUDGETS = ((20_000, 0.80), (400_000, 0.90))  # trials, and the required median of each family
FAMILY_MEMBERS, FAMILY_SEEDS = 3, 3

# trials, seeds, and the required median, 10 % quantile and worst case
BUDGETS: tuple[tuple[int, int, tuple[float, ...]], ...] = (
    (5_000, 5, ()),
    (20_000, 5, (0.95, 0.82, 0.50)),
    (400_000, 5, (0.993, 0.95, 0.80)),
    (4_000_000, 1, (0.995, 0.98, 0.93)),
)


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
        zoo_pairs = [(name, found, found.worst_pair()) for name, found in zoo().items()]
        paper_specimens = [(name, found) for name, found in paper_zoo().items()] if papers else []
        paper_pairs = [
            (name, f.mechanism, f.pairs[0]) for name, f in paper_specimens if len(f.pairs) == 1
        ]
        paper_pairs += [
            (f"{name}:{i}", f.mechanism, pair)
            for name, f in paper_specimens
            if len(f.pairs) > 1
            for i, pair in enumerate(f.pairs)
        ]
        for name, mechanism, pair in zoo_pairs + paper_pairs:
            if only in name:
                law = loss_law(mechanism, pair)
                if law is not None:
                    yield Specimen(name, mechanism, pair, law)


def power_at(trials: int, seeds: int, found: Sequence[Specimen]) -> list[Measured]:
    """Return certified bounds over the limit for audits with `trials` runs; specimens with a tiny
    limit are skipped.
    """
    measured = []
    for specimen in found:
        claim = specimen.mechanism.claim
        best = limit_of_law(specimen.law, claim, trials, ALPHA)
        if best < LEAST:
            continue
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
            for seed in range(seeds)
        ]
        tested = max(map(_tested_rounds, results))
        after_rounds, with_alpha = (
            limit_of_law(specimen.law, claim, tested, alpha) for alpha in (ALPHA, results[0].alpha)
        )
        methods = [r.method for r in results]
        ratios = tuple(r.parameter_lower / best for r in results)
        measured.append(
            Measured(
                specimen.name,
                ratios,
                after_rounds / best,
                with_alpha / after_rounds if after_rounds else 1.0,
                max(set(methods), key=methods.count),
            )
        )
    return measured


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
            ratio = median(m.ratio for m in power_at(trials, FAMILY_SEEDS, found))
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
    budgets: Sequence[tuple[int, int, tuple[float, ...]]] = BUDGETS, only: str = "", seed: int = 37
) -> Table:
    """Run the power benchmark and return its table.

    The rows are median, 10 % quantile and worst case at each budget, and if all specimens run,
    families drawn by `seed`. Notes name the ten worst specimens, and details list all cases.
    """
    found, rows, notes, details = list(specimens(only)), [], list[str](), []
    for trials, seeds, required in budgets:
        measured = power_at(trials, seeds, found)
        ratios = np.array([m.ratio for m in measured])
        attained = float(np.median(ratios)), float(np.quantile(ratios, 0.1)), float(ratios.min())
        statistic_names = ("median", "10 % quantile", "worst") if required else ()
        for what, required_value, value in zip(
            statistic_names, required, attained[: len(statistic_names)], strict=True
        ):
            rows.append(
                Row(
                    f"certified / limit at {trials:,} trials: {what}",
                    required_value,
                    value,
                    "ratio",
                )
            )
        shares = [
            float(np.median([getattr(m, cause) for m in measured]))
            for cause in ("rounds", "looks", "event")
        ]
        shares_text = (
            f"in the median, training rounds leave {shares[0]:.3f} of the limit, looks "
            f"{shares[1]:.3f} of that, the event {shares[2]:.3f}"
        )
        worst = ", ".join(
            f"{m.name} {m.ratio:.2f} ({m.method})"
            for m in sorted(measured, key=lambda m: m.ratio)[:10]
        )
        oracle = oracle_at(trials, seeds, found)
        ceiling = (
            "an oracle that knows the law reaches {:.3f}, {:.3f} and {:.3f} in the median".format(
                *oracle
            )
        )
        notes.append(
            f"{trials:,} trials, {len(measured)} specimens, {seeds} seeds: {shares_text}; "
            f"{ceiling}; worst: {worst}"
        )
        short = short_cases(trials, seeds, found, measured, required[1]) if required else []
        cases = [asdict(m) | {"event": m.event} for m in measured]
        details.append(
            {"trials": trials, "seeds": seeds, "oracle": oracle, "cases": cases, "short": short}
        )
    rows += [] if only else family_rows(seed)
    return Table("power", tuple(rows), tuple(notes), tuple(details))
