"""Releases as people write them: frames, SQL, private training, federated averages and texts.

Each is a function that makes what an audit is given, the right form or one with a subtle fault.
Claims and domains are those that a user writes by the guides, without knowledge of the fault. The
docstring says why the claim of the right form holds. Modules in `UNTUNED` were written after the
search for pairs had been changed for the others, and no later change followed from their audits.
"""

from __future__ import annotations

import math
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
_PRICES = {
    "article": ["tea", "rice", "soap", "soap", "soap", "oil"],
    "price": [4.0, 2.5, 3.0, 3.2, 3.5, 7.0],
    "valid_from": [
        "2023-01-01",
        "2023-01-01",
        "2022-01-01",
        "2023-01-01",
        "2024-01-01",
        "2023-01-01",
    ],
}
_DEPARTMENTS = ["care", "kitchen", "office", "transport"]
_STREETS = ["Bank", "Dock", "Elm", "Ford", "Gate", "High", "King", "Lake", "Mill", "Oak"]
_TERMS = ("invoice", "refund", "delay", "broken", "thanks")
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


@module("pandas")
def revenue(fault: bool) -> Arguments:
    """Revenue by a join with a price list; right: each order meets one price, so it adds at most 50
    = the noise scale. Fault: the list holds old prices too, so an order of soap counts three times.
    """
    import pandas as pd

    prices = pd.DataFrame(_PRICES)
    if not fault:
        prices = prices.sort_values("valid_from").drop_duplicates("article", keep="last")

    def order_lines(orders: Any) -> Any:
        lines = orders.merge(prices, on="article", how="left")
        lines["gross"] = (lines["quantity"] * lines["price"] * 1.2).clip(0, 50)
        return lines

    def release(orders: Any, rng: Generator) -> Any:
        gross = order_lines(orders)["gross"].fillna(0.0)
        return round(float(gross.sum()) + rng.laplace(0.0, 50.0), 2)

    orders = Table(
        {"article": ["tea", "rice", "soap", "oil"], "quantity": (0, 12)},
        relation="add-remove",
        frame="pandas",
    )
    return audited(one_run(release), "pure:1", orders)


@module("pandas")
def payroll(fault: bool) -> Arguments:
    """Pay by department; right: an employee counts in one department, with at most 5000 = the noise
    scale. Fault: an employee with contracts in several departments counts in each.
    """
    cap = 5000.0

    def clean(contracts: Any) -> Any:
        rows = contracts[["employee", "department", "pay"]].copy()
        rows["pay"] = rows["pay"].fillna(0.0).clip(0.0, cap)
        return rows

    def release(contracts: Any, rng: Generator) -> Any:
        pay = clean(contracts).groupby(["department", "employee"], as_index=False)["pay"].sum()
        pay["pay"] = pay["pay"].clip(upper=cap)
        if not fault:
            pay = pay.sort_values("department").drop_duplicates("employee", keep="first")
        totals = pay.groupby("department")["pay"].sum().reindex(_DEPARTMENTS, fill_value=0.0)
        noisy = totals.to_numpy() + rng.laplace(0.0, cap, len(totals))
        return np.round(noisy, 2).tolist()

    contracts = Table(
        {
            "department": _DEPARTMENTS,
            "pay": {"low": 0.0, "high": 9000.0, "missing": True},
            "weekly_hours": (4, 40),
        },
        user="employee",
        per_user=3,
        frame="pandas",
    )
    return audited(one_run(release), "pure:1", contracts)


@module("polars")
def streets(fault: bool) -> Arguments:
    """Streets with many drivers; right: a driver counts in 3 streets, noise of scale 3 (epsilon 1),
    and a street of one driver passes with probability delta/3. Fault: scale and threshold of a
    driver in one street.
    """
    delta, most = 1e-3, 3

    def bounded(parkings: Any) -> Any:
        import polars as pl

        seen = parkings.select(pl.col("driver"), pl.col("street")).unique().sort("driver", "street")
        return seen.group_by("driver", maintain_order=True).head(most)

    def release(parkings: Any, rng: Generator) -> Any:
        counts = bounded(parkings).group_by("street").len().sort("street")
        scale = 1.0 if fault else float(most)
        threshold = 1.0 + scale * math.log(scale / (2 * delta))
        noisy = counts["len"].to_numpy() + rng.laplace(0.0, scale, counts.height)
        return {
            street: round(float(count), 3)
            for street, count in zip(counts["street"].to_list(), noisy, strict=True)
            if count > threshold
        }

    parkings = Table(
        {"street": _STREETS, "minutes": (1, 240)}, user="driver", per_user=5, frame="polars"
    )
    return audited(one_run(release), "approx:1,0.001", parkings)


@module("polars")
def visitors(fault: bool) -> Arguments:
    """Visitors by gate; right: a badge counts once at each of two gates, noise of scale 2. Fault:
    names are counted, and a badge may have been written down under several.
    """

    def per_gate(entries: Any, key: Any) -> Any:
        import polars as pl

        return dict(entries.group_by("gate").agg(pl.col(key).n_unique()).iter_rows())

    def release(entries: Any, rng: Generator) -> Any:
        counts = per_gate(entries, "name" if fault else "badge")
        return [counts.get(gate, 0) + float(rng.laplace(0.0, 2.0)) for gate in ("east", "west")]

    entries = Table(
        {
            "name": ["A. Berg", "Anna Berg", "Berg", "C. Diaz", "Carla Diaz", "E. Fox"],
            "gate": ["east", "west"],
            "day": {"low": "2024-03-01", "high": "2024-03-31"},
        },
        user="badge",
        per_user=4,
        frame="polars",
    )
    return audited(one_run(release), "pure:1", entries)


@module("SQL")
def capped_spending(fault: bool) -> Arguments:
    """A sum of each user's two largest purchases, cut at 20; right: a user adds at most 40 = the
    noise scale. Fault: the two largest of each shop.
    """
    window = "PARTITION BY user, shop" if fault else "PARTITION BY user"
    text = f"""
    WITH noise AS (SELECT {_UNIFORM} AS u),
    ranked AS (
      SELECT min(max(amount, 0), 20) AS amount,
             row_number() OVER ({window} ORDER BY amount DESC) AS place
      FROM data),
    total AS (SELECT coalesce(sum(amount), 0) AS t FROM ranked WHERE place <= 2)
    SELECT round(64 * (t - 40 * sign(u) * ln(1 - 2 * abs(u)))) / 64 FROM total, noise
    """
    purchases = Table(
        {"shop": ["north", "south", "web"], "amount": (0.0, 80.0)},
        user="user",
        per_user=6,
        frame="dict",
    )
    return audited(Query("sqlite:///:memory:", text, claim="pure:1", domain=purchases))


@module("SQL")
def income(fault: bool) -> Arguments:
    """A noisy total of incomes up to 5000, never negative; right: cut at a public limit, after the
    noise. Fault: cut at 5000 times the true number of answers.
    """
    limit = "5000 * (SELECT count(income) FROM data)" if fault else "5000000"
    text = f"""
    WITH noise AS (SELECT {_UNIFORM} AS u),
    clean AS (SELECT min(max(income, 0), 5000) AS income FROM data WHERE income IS NOT NULL),
    noisy AS (SELECT coalesce((SELECT sum(income) FROM clean), 0)
                     - 5000 * sign(u) * ln(1 - 2 * abs(u)) AS total FROM noise)
    SELECT round(max(0, min(total, {limit}))) FROM noisy
    """
    answers = Table(
        {"age": (18, 90), "income": {"low": 0.0, "high": 9000.0, "missing": True}},
        relation="add-remove",
        frame="dict",
    )
    return audited(Query("sqlite:///:memory:", text, claim="pure:1", domain=answers))


@module("DP-SGD")
def microbatches(fault: bool) -> Arguments:
    """A step that clips gradients one by one (the exact law of the step); with the fault the mean
    gradients of microbatches of four.
    """

    def clipped(gradient: Any, norm: float = 1.0) -> Any:
        return gradient * min(1.0, norm / max(float(np.linalg.norm(gradient)), 1e-12))

    def update(gradients: Any, rng: Generator) -> Any:
        batch = gradients[rng.random(len(gradients)) < 0.5]
        width = 4 if fault else 1
        total = np.zeros(5)
        for start in range(0, len(batch), width):
            total += clipped(batch[start : start + width].mean(axis=0))
        return total + rng.normal(0.0, 1.0, 5)

    return audited(
        GradientSteps(
            noise_multiplier=1.0, sampling_probability=0.5, delta=1e-3, dimension=5, update=update
        )
    )


@module("DP-SGD")
def torch_step(fault: bool) -> Arguments:
    """A step of PyTorch; right: gradients of norm at most 1 in all, noise of 1.25 from one
    generator, so gdp 0.8. Fault: the generator is made again from one seed for each parameter.
    """
    import torch
    from torch.func import functional_call, grad, vmap

    torch.set_num_threads(1)
    model = torch.nn.Linear(2, 2).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.5, -0.3], [0.1, 0.2]]))
        model.bias.zero_()
    params = {name: p.detach() for name, p in model.named_parameters()}

    def loss(params: Any, x: Any, y: Any) -> Any:
        scores = functional_call(model, params, (x.unsqueeze(0),))
        return torch.nn.functional.cross_entropy(scores, y.unsqueeze(0))

    def clipped_sum(records: Any) -> Any:
        if not len(records):
            return {name: torch.zeros_like(p) for name, p in params.items()}
        x, y = torch.as_tensor(records[:, :2]), torch.as_tensor(records[:, 2]).long()
        grads = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        factor = (1.0 / norms.clamp(min=1e-9)).clamp(max=1.0)
        return {name: torch.einsum("n,n...->...", factor, g) for name, g in grads.items()}

    def release(records: Any, rng: Generator) -> Any:
        seed = int(rng.integers(2**62))
        generator = torch.Generator().manual_seed(seed)
        steps = []
        for total in clipped_sum(records).values():
            if fault:
                generator = torch.Generator().manual_seed(seed)
            noise = torch.randn(total.shape, generator=generator, dtype=torch.float64)
            steps.append((total + 1.25 * noise).flatten())
        return torch.cat(steps).numpy()

    records = Rows(8, ((-3.0, 3.0), (-3.0, 3.0)), labels=(0, 1), relation="add-remove")
    return audited(one_run(release), "gdp:0.8", records)


@module("federated")
def weighted_mean(fault: bool) -> Arguments:
    """A weighted average of clipped updates; right: each adds at most 1/6, noise 2/6, so gdp 0.5.
    Fault: divided by the true weight of the round, and noise by the true number of clients.
    """

    def clip(updates: Any, norm: float = 1.0) -> Any:
        lengths = np.linalg.norm(updates, axis=1, keepdims=True)
        return updates * np.minimum(1.0, norm / np.maximum(lengths, 1e-9))

    def release(clients: Any, rng: Generator) -> Any:
        weights = np.minimum(clients[:, 3:], 20.0) / 20.0
        total = (clip(clients[:, :3]) * weights).sum(axis=0)
        if fault:
            size = max(float(weights.sum()), 1e-9)
            return total / size + rng.normal(0.0, 2.0 / max(len(clients), 1), 3)
        return total / 6.0 + rng.normal(0.0, 2.0 / 6.0, 3)

    clients = Rows(12, ((-3.0, 3.0),) * 3 + ((1.0, 40.0),), relation="add-remove", integer=(3,))
    return audited(one_run(release), "gdp:0.5", clients)


@module("federated")
def distributed_noise(fault: bool) -> Arguments:
    """Clients add their shares of the noise; right: the server adds the shares of clients that
    dropped out, so the noise is always 2 for updates of norm 1: gdp 0.5. Fault: it adds none,
    unless nobody reports.
    """
    sigma = 2.0

    def message(client: Any, cohort: Any, rng: Generator) -> Any:
        update = np.array([client["dx"], client["dy"]])
        update = update / max(1.0, float(np.linalg.norm(update)))
        return update + rng.normal(0.0, sigma / math.sqrt(cohort), 2)

    def release(clients: Any, rng: Generator) -> Any:
        reports = [message(client, len(clients), rng) for client in clients if client["reported"]]
        missing = 1.0 - len(reports) / max(len(clients), 1)
        if fault and reports:
            missing = 0.0
        total = np.sum(reports, axis=0) if reports else np.zeros(2)
        return total + rng.normal(0.0, sigma, 2) * math.sqrt(missing)

    clients = Table(
        {"dx": (-2.0, 2.0), "dy": (-2.0, 2.0), "reported": {"categories": [True, False]}},
        relation="add-remove",
        frame="records",
    )
    return audited(one_run(release), "gdp:0.5", clients)


@module("text")
def term_weights(fault: bool) -> Arguments:
    """Sums of tf-idf vectors, each of l1 norm at most 1 = the noise scale; right: weights of a
    public corpus. Fault: document frequencies of the texts themselves.
    """
    public = {"invoice": 1.1, "refund": 1.6, "delay": 0.9, "broken": 2.0, "thanks": 0.3}

    def idf(texts: Any) -> Any:
        if not fault:
            return public
        seen = Counter(word for text in texts for word in set(text.split()))
        return {term: math.log(len(texts) / seen[term]) if seen[term] else 0.0 for term in _TERMS}

    def vector(text: Any, weights: Any) -> Any:
        counts = Counter(text.split())
        values = np.array([counts[term] * weights[term] for term in _TERMS])
        size = values.sum()
        return values / size if size > 0 else values

    def release(texts: Any, rng: Generator) -> Any:
        weights = idf(texts)
        total = sum((vector(text, weights) for text in texts), np.zeros(len(_TERMS)))
        return np.round(total + rng.laplace(0.0, 1.0, len(_TERMS)), 3)

    return audited(one_run(release), "pure:1", Texts(12, _TERMS, longest=6, relation="add-remove"))


@module("text")
def suggested_reply(fault: bool) -> Arguments:
    """The last word of a text, drawn by the exponential mechanism for counts of sensitivity 1
    (epsilon 1); right: among a public list. Fault: among words that occur.
    """
    words = ("yes", "no", "later", "call", "sorry", "ok")

    def release(texts: Any, rng: Generator) -> Any:
        ends = Counter(text.split()[-1] for text in texts if text.strip())
        candidates = sorted(ends) if fault else sorted(words)
        if not candidates:
            return ""
        scores = np.array([ends[word] for word in candidates], dtype=float)
        odds = np.exp(0.5 * (scores - scores.max()))
        return candidates[int(rng.choice(len(candidates), p=odds / odds.sum()))]

    return audited(one_run(release), "pure:1", Texts(20, words, longest=5, relation="add-remove"))


@module("pandas")
def trimmed_energy(fault: bool) -> Arguments:
    """Energy used in a street; right: readings are cut at a public 40, which is the scale of the
    noise (epsilon 1). Fault: at the mean plus two standard deviations of the readings, cut again at
    40.
    """
    cap = 40.0

    def limit(readings: Any) -> Any:
        if not fault or len(readings) < 2:
            return cap
        return min(cap, readings.mean() + 2.0 * readings.std(ddof=0))

    def release(meters: Any, rng: Generator) -> Any:
        readings = meters["kwh"].astype(float).clip(lower=0.0)
        used = readings.clip(upper=limit(readings))
        by_tariff = used.groupby(meters["tariff"]).sum().reindex(["day", "night"], fill_value=0.0)
        return {tariff: float(total + rng.laplace(0.0, cap)) for tariff, total in by_tariff.items()}

    meters = Table(
        {"kwh": (0.0, 60.0), "tariff": ["day", "night"]}, relation="add-remove", frame="pandas"
    )
    return audited(one_run(release), "pure:1", meters)


@module("polars")
def age_bands(fault: bool) -> Arguments:
    """Counts of overlapping age bands; right: a person is in at most three bands, noise of scale 3.
    Fault: each band is thought to be another group of people.
    """
    bands = {"young": (16, 35), "working": (18, 66), "families": (28, 50), "old": (60, 120)}

    def in_band(people: Any, low: Any, high: Any) -> Any:
        import polars as pl

        return people.filter(pl.col("age").is_between(low, high)).height

    def release(people: Any, rng: Generator) -> Any:
        scale = 1.0 if fault else 3.0
        return {
            band: in_band(people, *ages) + float(rng.laplace(0.0, scale))
            for band, ages in bands.items()
        }

    people = Table(
        {"age": (0, 100), "district": ["A", "B", "C"]}, relation="add-remove", frame="polars"
    )
    return audited(one_run(release), "pure:1", people)


@module("SQL")
def rating(fault: bool) -> Arguments:
    """The share of good ratings; right: a noisy number of good ones (epsilon 1/2) and of all
    (epsilon 1/2), divided. Fault: the share is divided by the true number, and all of epsilon spent
    on the good ones' count with scale 2.
    """
    all_of_them = "n" if fault else "n - 2 * sign(v) * ln(1 - 2 * abs(v))"
    text = f"""
    WITH noise AS (SELECT {_UNIFORM} AS u, {_UNIFORM} AS v),
    counted AS (SELECT count(stars) AS n, coalesce(sum(stars >= 4), 0) AS good
                FROM data WHERE verified = 'yes'),
    noisy AS (SELECT good - 2 * sign(u) * ln(1 - 2 * abs(u)) AS good, {all_of_them} AS n
              FROM counted, noise)
    SELECT round(512 * good / max(n, 1)) / 512 FROM noisy
    """
    ratings = Table(
        {"stars": (1, 5), "verified": ["yes", "no"]}, relation="add-remove", frame="dict"
    )
    return audited(Query("sqlite:///:memory:", text, claim="pure:1", domain=ratings))


@module("DP-SGD")
def two_steps(fault: bool) -> Arguments:
    """Two steps with fresh noise in each, and clipping; with the fault the second step has the
    first one's noise (drawn once, outside of the loop).
    """

    def clipped_sum(batch: Any) -> Any:
        lengths = np.linalg.norm(batch, axis=1, keepdims=True)
        return (batch / np.maximum(1.0, lengths)).sum(axis=0)

    def update(gradients: Any, rng: Generator) -> Any:
        noise, sums = rng.normal(0.0, 1.1, 4), []
        for step in range(2):
            batch = gradients[rng.random(len(gradients)) < 0.3]
            if step and not fault:
                noise = rng.normal(0.0, 1.1, 4)
            sums.append(clipped_sum(batch) + noise)
        return np.concatenate(sums)

    return audited(
        GradientSteps(
            noise_multiplier=1.1,
            sampling_probability=0.3,
            delta=1e-3,
            steps=2,
            dimension=4,
            update=update,
        )
    )


@module("federated")
def robust_sum(fault: bool) -> Arguments:
    """A sum of clipped updates with noise 2 for norm 1 (gdp 0.5); with the fault, updates further
    than twice the median distance from the median of all are dropped.
    """

    def robust(updates: Any) -> Any:
        distance = np.linalg.norm(updates - np.median(updates, axis=0), axis=1)
        return updates[distance <= 2.0 * np.median(distance)]

    def release(clients: Any, rng: Generator) -> Any:
        updates = clients / np.maximum(1.0, np.linalg.norm(clients, axis=1, keepdims=True))
        if fault and len(updates) >= 3:
            updates = robust(updates)
        return updates.sum(axis=0) + rng.normal(0.0, 2.0, clients.shape[1])

    return audited(one_run(release), "gdp:0.5", Rows(15, ((-2.0, 2.0),) * 3, relation="add-remove"))


@module("text")
def text_length(fault: bool) -> Arguments:
    """Mean number of words; right: noisy sum of lengths up to 8 (epsilon 1/2: scale 16) over a
    noisy number of texts (scale 2). Fault: padded to the longest text of the corpus, the noise is
    scaled to that length.
    """

    def lengths(texts: Any) -> Any:
        return np.array([len(text.split()) for text in texts], dtype=float)

    def release(texts: Any, rng: Generator) -> Any:
        words = lengths(texts)
        longest = max(words.max(initial=0.0), 1.0) if fault else 8.0
        total = np.minimum(words, longest).sum() + rng.laplace(0.0, 2.0 * longest)
        return round(total / max(len(texts) + rng.laplace(0.0, 2.0), 1.0), 4)

    return audited(
        one_run(release),
        "pure:1",
        Texts(30, ("a", "the", "cat", "sat"), longest=8, relation="add-remove"),
    )


UNTUNED = frozenset(["age_bands", "rating", "two_steps", "robust_sum", "text_length"])
