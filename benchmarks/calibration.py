"""Benchmark of stated error rates: false verdicts, confidence limits on the wrong side, promised
power and promised medians.

Every row counts errors among independent trials and compares the count with the stated rate. The
required rate is the stated rate plus the excess that a correct statement has with probability
`CHANCE`. Rows run in separate processes.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from dpwitness import Verdict, audit, audit_outputs, certify
from dpwitness.benchmarks.confidence_limits import ENDS
from dpwitness.benchmarks.densities import awkward, densities
from dpwitness.benchmarks.specimens import (
    PAIR,
    TARGET_FILE,
    gaussian,
    gaussian_shift,
    laplace,
    specimens,
)
from dpwitness.benchmarks.table import Row, Table, interval, root_seed, seed_note
from dpwitness.core.claims import GDP, RDP, ZCDP, ApproxDP, Claim, PureDP
from dpwitness.mechanisms.wrappers.programs.target import Target

CHANCE = 1e-6
TRIALS = 4_000  # runs per audit
AUDITS = {0.5: 60, 0.05: 100, 0.01: 100}  # audits by alpha, for each specimen with a given pair
# audits by alpha, for each specimen with searched pairs: 2,000 in total
SEARCHES = {0.5: 170, 0.05: 170}

FAMILIES: dict[str, tuple[Claim, Callable[[float], Any]]] = {
    "Laplace": (PureDP(1.0), laplace),
    "Gaussian, GDP": (GDP(1.0), gaussian),
    "Gaussian, delta 1e-3": (
        ApproxDP(1.0, 1e-3),
        lambda epsilon: gaussian(gaussian_shift(epsilon, 1e-3)),
    ),
    "Gaussian, delta 1e-5": (
        ApproxDP(1.0, 1e-5),
        lambda epsilon: gaussian(gaussian_shift(epsilon, 1e-5)),
    ),
    "Gaussian, zCDP": (ZCDP(0.5), lambda rho: gaussian(float(np.sqrt(2 * rho)))),
    "Gaussian, RDP": (RDP(2.0, 1.0), lambda epsilon: gaussian(float(np.sqrt(epsilon)))),
}


@dataclass(frozen=True, slots=True)
class Counted:
    """Number of errors among trials, the stated rate, and whether the rate is an upper or a lower
    bound.
    """

    case: str
    count: int
    of: int
    stated: float
    at_most: bool = True

    def row(self) -> Row:
        """Return the row of the table."""
        required_count = (
            most(self.of, self.stated) if self.at_most else self.of - most(self.of, 1 - self.stated)
        )
        low, high = interval(self.count, self.of)
        unit = f"of {self.of}, stated {self.stated:g}, 95 % interval {low:.3f} to {high:.3f}"
        return Row(
            self.case,
            required_count / self.of,
            self.count / self.of,
            unit,
            self.at_most,
            (self.count, self.of),
        )


def most(of: int, stated: float) -> int:
    """Return the number of errors that a statement with this rate exceeds with probability at most
    `CHANCE`.
    """
    return int(binom.isf(CHANCE, of, stated)) if stated > 0 else 0


def alarms(name: str, alpha: float, audits: int, first: int = 0, trials: int = TRIALS) -> int:
    """Return the number of false VIOLATED among audits of a specimen at its exact parameter."""
    specimen = specimens()[name]
    with tempfile.TemporaryDirectory() as folder:
        run = specimen.run
        if specimen.target:
            file = Path(folder) / "calibration_target.py"
            file.write_text(TARGET_FILE, encoding="utf-8")
            run = Target(str(file), specimen.target)
        settings: dict[str, Any] = {
            "claim": specimen.claim,
            **({"pair": specimen.pair} if specimen.domain is None else {"domain": specimen.domain}),
            "trials": trials,
            "confidence": 1 - alpha,
            "bits": False,
        }
        found = [audit(run, seed=first + seed, **settings).verdict for seed in range(audits)]
        if specimen.target:
            run.close()
    if Verdict.ERROR in found:
        raise RuntimeError(f"an audit of {name} ended in ERROR")
    return sum(verdict is Verdict.VIOLATED for verdict in found)


def _alarm_rows(name: str, audits: dict[float, int], first: int) -> list[Counted]:
    """Count false VIOLATED of a specimen at several alpha."""
    specimen = specimens()[name]
    case = f"false VIOLATED, {specimen.claim.kind}, {specimen.outputs}: {name}"
    return [
        Counted(f"{case}, alpha {alpha:g}", alarms(name, alpha, count, first), count, alpha)
        for alpha, count in audits.items()
    ]


def _outputs_rows(name: str, audits: int, first: int) -> list[Counted]:
    """Count false VIOLATED of `audit_outputs` on batches drawn from a specimen."""
    specimen, rows = specimens()[name], []
    for alpha in (0.5, 0.05):
        wrong = 0
        for seed in range(first, first + audits):
            rng = np.random.default_rng((seed, int(1 / alpha)))
            batches = [
                specimen.run(data, 2_000, rng) for data in (specimen.pair.d0, specimen.pair.d1)
            ]
            wrong += (
                audit_outputs(
                    batches[0], batches[1], specimen.claim, confidence=1 - alpha, seed=seed
                ).verdict
                is Verdict.VIOLATED
            )
        rows.append(
            Counted(f"false VIOLATED, audit_outputs: {name}, alpha {alpha:g}", wrong, audits, alpha)
        )
    return rows


def _certified_rows(name: str, seeds: int, first: int) -> list[Counted]:
    """Count false CERTIFIED on a difficult density, by the automatic route and by sampling at
    confidence 0.99.
    """
    density, rows = densities()[name], []
    for route, times, stated in (("auto", 1, 0.0), ("sampling", seeds, 0.01)):
        wrong = 0
        for seed in range(first, first + times):
            settings: dict[str, Any] = {"trials": 20_000, "confidence": 0.99, "seed": seed}
            if route != "auto":
                settings["route"] = route
            wrong += certify(density, PAIR, density.claim, **settings).verdict is Verdict.CERTIFIED
        rows.append(Counted(f"false CERTIFIED, route {route}: {name}", wrong, times, stated))
    return rows


def _awkward_rows(name: str, seeds: int, first: int) -> list[Counted]:
    """Count false verdicts on a correct density, or any verdicts on a density that its sampler
    contradicts (`density_cases.py`).
    """
    case = next(case for case in awkward() if case.name == name)
    found = [
        certify(case.mechanism, case.pair, case.claim, trials=case.trials, seed=seed)
        for seed in range(first, first + seeds)
    ]
    return [Counted(f"false verdict of certify: {name}", sum(map(case.wrong, found)), seeds, 0.0)]


def _power_rows(name: str, audits: int, first: int) -> list[Counted]:
    """Count violations found by audits at the parameter that an audit of a tight mechanism reports
    as detectable.
    """
    claim, build = FAMILIES[name]
    found = finite_count = 0
    for seed in range(first, first + audits):
        detectable = audit(
            build(claim.parameter),
            claim=claim,
            pair=PAIR,
            trials=20_000,
            confidence=0.95,
            seed=seed,
            bits=False,
        ).detectable
        if np.isfinite(detectable):
            finite_count += 1
            second_audit = audit(
                build(detectable),
                claim=claim,
                pair=PAIR,
                trials=20_000,
                confidence=0.95,
                seed=10_000 + seed,
                bits=False,
            )
            found += second_audit.verdict is Verdict.VIOLATED
    return [
        Counted(f"found at detectable: {name}", found, max(finite_count, 1), 0.9, at_most=False)
    ]


def _limit_rows(name: str, times: int, first: int) -> list[Counted]:
    """Count confidence limits on the wrong side of the truth."""
    alpha, lower, upper = ENDS[name](range(first, first + times))
    rows = [Counted(f"lower end above the truth: {name}", lower, times, alpha)]
    return (
        rows
        if upper is None
        else [*rows, Counted(f"upper end below the truth: {name}", upper, times, alpha)]
    )


# function of the rows of a kind of task, and the least and the usual number of its repeats
_MEASURES: dict[str, tuple[Callable[[str, int, int], list[Counted]], int, int]] = {
    "given": (_outputs_rows, 2, 100),
    "certified": (_certified_rows, 2, 6),
    "awkward": (_awkward_rows, 1, 3),
    "power": (_power_rows, 2, 100),
}


def _measure_task(kind: str, name: str, size: float, seed: int) -> list[Counted]:
    """Return the rows of one task. An exception becomes a row that is always missed."""
    try:
        if kind in _MEASURES:
            count_rows, least, usual = _MEASURES[kind]
            return count_rows(name, max(least, int(usual * size)), seed)
        if kind == "ends":
            slow = 8 if name.startswith("certify") else 1
            return _limit_rows(name, max(10, int(400 * size / slow)), seed)
        audits, slow = (
            AUDITS if kind == "alarms" else SEARCHES,
            4 if specimens()[name].target else 1,
        )
        return _alarm_rows(
            name, {alpha: max(2, int(size * count / slow)) for alpha, count in audits.items()}, seed
        )
    except Exception as error:  # an exception becomes a missed row, and the benchmark continues
        return [Counted(f"{kind}: {name}: {type(error).__name__}: {str(error)[:80]}", 1, 1, 0.0)]


def measure(
    seed: int | None = None, *, size: float = 1.0, workers: int | None = None, only: str = ""
) -> Table:
    """Run the calibration benchmark and return its table of error rates.

    `size` multiplies all counts: 1 takes about an hour on two idle cores, .05 about four minutes.
    `only` names one group of rows: "alarms", "searches", "given", "certified", "awkward", "power"
    or "ends".
    """
    seed = root_seed(seed)
    given = (
        "Laplace",
        "randomized response",
        "words",
        "number, None or word",
        "Gaussian, delta .01",
        "Gaussian",
        "Gaussian, RDP",
    )
    tasks = [
        *(
            ("alarms" if specimen.domain is None else "searches", name)
            for name, specimen in specimens().items()
        ),
        *(("certified", name) for name in densities()),
        *(("awkward", case.name) for case in awkward()),
        *(("power", name) for name in FAMILIES),
        *(("given", name) for name in given),
        *(("ends", name) for name in ENDS),
    ]
    tasks = [task for task in tasks if task[0].startswith(only)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers or os.cpu_count(), mp_context=context) as pool:
        task_rows = list(
            pool.map(_measure_task, *zip(*tasks, strict=True), repeat(size), repeat(seed))
        )
    found = [counted for rows in task_rows for counted in rows]
    notes = (
        seed_note("calibration", seed),
        "a rate is met where chance explains it: a correct statement misses its row with "
        f"probability {CHANCE:g}",
        f"audits of {TRIALS:,} runs at the exact parameter; pooled rows add the counts above them",
    )
    return Table(
        "calibration", tuple(counted.row() for counted in [*_pooled_rows(found), *found]), notes
    )


def _pooled_rows(found: list[Counted]) -> list[Counted]:
    """Return sums of false VIOLATED by claim kind, by output kind and in total, and of false
    CERTIFIED over densities.
    """
    groups: dict[tuple[str, float], list[Counted]] = {}
    kinds = {f"{s.claim.kind}, {s.outputs}: {name}": s for name, s in specimens().items()}
    for counted in found:
        head, _, rest = counted.case.partition(", ")
        if (
            head == "false VIOLATED"
            and (specimen := kinds.get(rest.rpartition(", alpha")[0])) is not None
        ):
            where = "pairs given" if specimen.domain is None else "pairs searched"
            for group in (
                "all mechanisms",
                where,
                f"claims {specimen.claim.kind}",
                f"outputs {specimen.outputs}",
            ):
                groups.setdefault(
                    (f"false VIOLATED, {group}, alpha {counted.stated:g}", counted.stated), []
                ).append(counted)
        elif head == "false CERTIFIED":
            groups.setdefault(
                (f"false CERTIFIED, {rest.partition(':')[0]}, all densities", counted.stated), []
            ).append(counted)
    return [
        Counted(case, sum(c.count for c in rows), sum(c.of for c in rows), stated)
        for (case, stated), rows in groups.items()
    ]
