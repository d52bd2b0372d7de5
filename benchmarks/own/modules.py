"""Releases as people write them: frames, SQL, private training, federated averages and texts.

Each is a function that makes what an audit is given, the right form or one with a subtle fault.
Claims and domains are those that a user writes by the guides, without knowledge of the fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness.benchmarks.twins import Arguments
from dpwitness.core.domains import Domain
from dpwitness.core.domains.frames import Table
from dpwitness.core.domains.objects import Texts
from dpwitness.core.domains.records import Rows
from dpwitness.mechanisms.textbook.gradient_steps import GradientSteps
from dpwitness.mechanisms.wrappers.programs.sql import Query
from dpwitness.mechanisms.wrappers.single_runs import one_run


def audited(mechanism: Any, claim: str | None = None, domain: Domain | None = None) -> Arguments:
    """Return the arguments of an audit; without claim and domain, the mechanism states them."""
    return {"mechanism": mechanism, "claim": claim, "domain": domain}


Maker = Callable[[bool], Arguments]
MODULES: list[tuple[str, Maker]] = []
_PLANS = ["basic", "family", "plus", "student"]
_UNIFORM = "(random() + 0.5) / 18446744073709551616.0"


def module(kind: str) -> Callable[[Maker], Maker]:
    """Return a decorator that lists a maker under a kind."""

    def listed(maker: Maker) -> Maker:
        MODULES.append((kind, maker))
        return maker

    return listed


@module("pandas")
def customers_by_plan(fault: bool) -> Arguments:
    """Counts of customers by plan, above a threshold; with the fault, of plans that have any."""

    def release(customers: Any, rng: Generator) -> dict[str, float]:
        counts = customers.groupby("plan").size()
        if not fault:
            counts = counts.reindex(_PLANS, fill_value=0)
        noisy = counts + rng.laplace(0.0, 1.0, len(counts))
        return {plan: float(count) for plan, count in noisy.items() if count > 4.5}

    customers = Table({"plan": _PLANS, "spent": (0.0, 50.0)}, relation="add-remove", frame="pandas")
    return audited(one_run(release), "pure:1", customers)


@module("pandas")
def spent_by_household(fault: bool) -> Arguments:
    """A sum of capped household totals; with the fault, outliers beyond the households' own 90 %
    quantile are dropped before.
    """

    def release(visits: Any, rng: Generator) -> float:
        totals = visits.groupby("household")["spent"].sum().clip(0, 10)
        if fault and len(totals) > 4:
            totals = totals[totals <= totals.quantile(0.9)]
        return float(totals.sum() + rng.laplace(0.0, 10.0))

    visits = Table(
        {"spent": (0.0, 9.0), "shop": ["north", "south"]},
        user="household",
        per_user=3,
        frame="pandas",
    )
    return audited(one_run(release), "pure:1", visits)


@module("polars")
def hours_worked(fault: bool) -> Arguments:
    """A sum of hours, missing ones by 8; with the fault, by the mean of the others."""

    def release(shifts: Any, rng: Generator) -> float:
        import polars as pl

        hours = pl.col("hours").clip(0, 12)
        filled = hours.fill_null(strategy="mean") if fault else hours.fill_null(8.0)
        return float(shifts.select(filled.sum()).item() or 0.0) + float(rng.laplace(0.0, 12.0))

    shifts = Table(
        {
            "hours": {"low": 0.0, "high": 16.0, "missing": True},
            "night": {"categories": [True, False]},
        },
        relation="replace-one",
        frame="polars",
    )
    return audited(one_run(release), "pure:1", shifts)


@module("polars")
def busiest_stops(fault: bool) -> Arguments:
    """Noisy counts of the two stops with the largest noisy counts; with the fault, the stops are
    chosen by their true counts.
    """
    stops = ["Dock", "Hill", "Mill", "Park", "Yard"]

    def release(trips: Any, rng: Generator) -> dict[str, float]:
        counts = Counter(dict.fromkeys(stops, 0) | Counter(trips["stop"].to_list()))
        noisy = {stop: counts[stop] + float(rng.laplace(0.0, 1.0)) for stop in stops}
        ranks = counts if fault else noisy
        chosen = sorted(sorted(stops, key=lambda stop: -ranks[stop])[:2])
        return {stop: noisy[stop] for stop in chosen}

    trips = Table({"stop": stops, "fare": (0.0, 6.0)}, relation="add-remove", frame="polars")
    return audited(one_run(release), "pure:1", trips)


@module("SQL")
def mean_age(fault: bool) -> Arguments:
    """A mean age from a noisy sum and a noisy count; with the fault, noise divided by the true
    count is added to the mean.
    """
    total, size = "(SELECT coalesce(sum(min(max(age, 0), 100)), 0) FROM data)", "count(*)"
    noisy = f"({total} - 200 * sign(u) * ln(1 - 2 * abs(u)))"
    noisy_size = "((SELECT count(*) FROM data) - 2 * sign(v) * ln(1 - 2 * abs(v)))"
    right = f"SELECT round(64 * {noisy} / max({noisy_size}, 1)) / 64 FROM noise"
    wrong = (
        "SELECT round(64 * (SELECT coalesce(avg(min(max(age, 0), 100)), 0) - "
        f"(100.0 / max({size}, 1)) * sign(u) * ln(1 - 2 * abs(u)) FROM data)) / 64 FROM noise"
    )
    text = f"WITH noise AS (SELECT {_UNIFORM} AS u, {_UNIFORM} AS v) " + (wrong if fault else right)
    people = Table({"age": (0, 110)}, relation="add-remove", frame="dict")
    return audited(Query("sqlite:///:memory:", text, claim="pure:1", domain=people))


@module("SQL")
def members_by_team(fault: bool) -> Arguments:
    """Noisy numbers of members of all teams; with the fault, of teams with 3 members or more."""
    teams = ["blue", "gold", "gray", "pink"]
    kept = "HAVING count(*) >= 3" if fault else ""
    listed = (
        "SELECT team FROM data GROUP BY team " + kept
        if fault
        else "VALUES " + ", ".join(f"('{team}')" for team in teams)
    )
    text = (
        f"WITH teams(team) AS ({listed}), noise AS (SELECT team, {_UNIFORM} AS u FROM teams) "
        "SELECT team, round(64 * ((SELECT count(*) FROM data WHERE data.team = noise.team) "
        "- sign(u) * ln(1 - 2 * abs(u)))) / 64 FROM noise ORDER BY team"
    )
    members = Table({"team": teams, "age": (16, 80)}, relation="add-remove", frame="dict")
    return audited(Query("sqlite:///:memory:", text, claim="pure:1", domain=members))


@module("DP-SGD")
def clipped_step(fault: bool) -> Arguments:
    """A step that clips gradients to norm 1; with the fault, each coordinate to [-1, 1]."""

    def update(gradients: Any, rng: Generator) -> Any:
        batch = gradients[rng.random(len(gradients)) < 0.5]
        lengths = np.linalg.norm(batch, axis=1, keepdims=True)
        clipped = np.clip(batch, -1, 1) if fault else batch / np.maximum(lengths, 1.0)
        return clipped.sum(axis=0) + rng.normal(size=6)

    step = GradientSteps(
        noise_multiplier=1.0, sampling_probability=0.5, delta=1e-3, dimension=6, update=update
    )
    return audited(step)


@module("DP-SGD")
def two_layers(fault: bool) -> Arguments:
    """A step that clips the gradient of both layers; with the fault, each layer by itself."""

    def update(gradients: Any, rng: Generator) -> Any:
        batch = gradients[rng.random(len(gradients)) < 0.25]
        total = np.zeros(8)
        for gradient in batch:
            parts = [slice(0, 6), slice(6, 8)] if fault else [slice(0, 8)]
            for part in parts:
                length = np.linalg.norm(gradient[part])
                total[part] += gradient[part] / max(1.0, length)
        return total + 1.2 * rng.normal(size=8)

    step = GradientSteps(
        noise_multiplier=1.2, sampling_probability=0.25, delta=1e-3, dimension=8, update=update
    )
    return audited(step)


@module("federated")
def weighted_average(fault: bool) -> Arguments:
    """A sum of clipped client updates, whose last column is their number of examples; with the
    fault, clipped before the weights multiply them.
    """

    def release(clients: Any, rng: Generator) -> Any:
        updates, weights = clients[:, :3], clients[:, 3:] / 20
        if not fault:
            updates = updates * weights
        lengths = np.linalg.norm(updates, axis=1, keepdims=True)
        clipped = updates / np.maximum(lengths, 1.0)
        if fault:
            clipped = clipped * weights
        return clipped.sum(axis=0) + 2.0 * rng.normal(size=3)

    clients = Rows(10, ((-2.0, 2.0),) * 3 + ((1.0, 60.0),), relation="add-remove")
    return audited(one_run(release), "gdp:0.5", clients)


@module("federated")
def adaptive_norm(fault: bool) -> Arguments:
    """A sum of updates clipped to a fixed norm; with the fault, to the median norm of the round, by
    which the noise is scaled too.
    """

    def release(clients: Any, rng: Generator) -> Any:
        lengths = np.linalg.norm(clients, axis=1, keepdims=True)
        norm = float(np.median(lengths)) if fault and len(clients) else 1.0
        clipped = clients * np.minimum(1.0, norm / np.maximum(lengths, 1e-9))
        return clipped.sum(axis=0) + norm * rng.normal(size=2)

    clients = Rows(9, ((-2.0, 2.0),) * 2, relation="add-remove")
    return audited(one_run(release), "gdp:1", clients)


@module("text")
def word_counts(fault: bool) -> Arguments:
    """Counts of texts that have a word; with the fault, of all occurrences of the word."""
    words = ("fever", "cough", "rash", "none")

    def release(notes: Any, rng: Generator) -> list[float]:
        counts = Counter(
            word for note in notes for word in (note.split() if fault else set(note.split()))
        )
        return [counts[word] + float(rng.laplace(0.0, 4.0)) for word in words]

    return audited(one_run(release), "pure:1", Texts(8, words, longest=6, relation="add-remove"))


@module("text")
def vocabulary(fault: bool) -> Arguments:
    """The words of a list whose noisy number of texts exceeds 2; with the fault, of the words that
    occur in two texts.
    """
    words = ("alpha", "beta", "gamma", "delta")

    def release(notes: Any, rng: Generator) -> list[str]:
        counts = Counter(word for note in notes for word in set(note.split()))
        listed = [word for word in words if counts[word] >= 2] if fault else list(words)
        return [word for word in listed if counts[word] + rng.laplace(0.0, 4.0) > 2]

    return audited(one_run(release), "pure:1", Texts(6, words, longest=4, relation="add-remove"))
