"""Functions with a planted fault, each with its sound twin: the same function without the fault.

A query returns a number of which one record moves at most 1; with `fault`, it moves further on few
datasets. Laplace noise of scale 1 makes each a mechanism that claims epsilon = 1.
"""

from __future__ import annotations

import datetime
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from dpwitness.benchmarks.twins import Arguments
from dpwitness.core.domains import Domain
from dpwitness.core.domains.frames import Table
from dpwitness.core.domains.records import Records, Rows

Row = dict[str, Any]
Query = Callable[..., float]

PEOPLE = Table(
    {
        "age": (0, 110),
        "income": (0.0, 90.0),
        "city": ["Oslo", "Bergen", "Hamar", "Narvik", "Bodo"],
        "joined": (datetime.date(2016, 1, 1), datetime.date(2025, 12, 31)),
    },
    size=10,
    relation="add-remove",
    frame="records",
)
SHARES = Records(10, 0.0, 1.0, relation="add-remove")
COUNTS = Records(8, 0, 300, integer=True)
GAPS = Records(9, 0.0, 1.0, missing=True)
POINTS = Rows(7, ((-1.0, 1.0), (0.0, 50.0)))
FAMILIES = Table(
    {"group": ["a", "b", "c"], "spent": (0.0, 1.0)},
    size=16,
    user="person",
    per_user=4,
    frame="records",
)


@dataclass(frozen=True, slots=True)
class Planted:
    """A query with a planted fault, its kind, and the domain of its datasets."""

    query: Query
    kind: str
    domain: Domain

    @property
    def name(self) -> str:
        """The name of the query."""
        return self.query.__name__

    def mechanism(self, *, fault: bool) -> Any:
        """Return the mechanism with the fault, or its sound twin."""
        query = partial(self.query, fault=fault)

        def noisy(dataset: Any, size: int, rng: np.random.Generator) -> Any:
            return query(dataset) + rng.laplace(0.0, 1.0, size)

        return noisy

    def audited(self, fault: bool) -> Arguments:
        """Return the arguments of an audit of the claim epsilon = 1."""
        return {
            "mechanism": self.mechanism(fault=fault), "claim": "pure:1", "domain": self.domain,
        }  # fmt: skip


PLANTED: list[Planted] = []


def planted(kind: str, domain: Domain) -> Callable[[Query], Query]:
    """Return a decorator that lists a query."""

    def listed(query: Query) -> Query:
        PLANTED.append(Planted(query, kind, domain))
        return query

    return listed


# -- written before the search


@planted("literal", PEOPLE)
def bonus_at_one_age(rows: Sequence[Row], *, fault: bool) -> float:
    return sum(1.0 + 4.0 * (fault and row["age"] == 47) for row in rows)


@planted("literal", PEOPLE)
def two_conditions(rows: Sequence[Row], *, fault: bool) -> float:
    special = [row for row in rows if row["age"] == 31 and row["city"] == "Narvik"]
    return len(rows) + 6.0 * (fault and len(special) > 0)


@planted("literal", SHARES)
def weight_in_a_band(values: Sequence[float], *, fault: bool) -> float:
    return float(sum(v * (5.0 if fault and 0.613 < v < 0.615 else 1.0) for v in values))


@planted("text", PEOPLE)
def counts_a_city_twice(rows: Sequence[Row], *, fault: bool) -> float:
    return sum(1.0 + 3.0 * (fault and row["city"].startswith("Ha")) for row in rows)


@planted("calendar", PEOPLE)
def leap_day(rows: Sequence[Row], *, fault: bool) -> float:
    return sum(
        1.0 + 4.0 * (fault and (row["joined"].month, row["joined"].day) == (2, 29)) for row in rows
    )


@planted("calendar", PEOPLE)
def last_day_of_a_year(rows: Sequence[Row], *, fault: bool) -> float:
    return sum(
        1.0 + 4.0 * (fault and (row["joined"] + datetime.timedelta(1)).year > row["joined"].year)
        for row in rows
    )


@planted("type", COUNTS)
def stored_in_a_byte(values: Sequence[float], *, fault: bool) -> float:
    if fault:
        return float(np.sum(np.array(values).astype(np.int64).astype(np.int8)) / 100)
    return float(np.sum(values) / 300)


@planted("type", COUNTS)
def sum_overflows(values: Sequence[float], *, fault: bool) -> float:
    total = int(np.sum(values))
    return (((total + 1024) % 2048 - 1024) if fault else total) / 300


@planted("two records", PEOPLE)
def equal_neighbors(rows: Sequence[Row], *, fault: bool) -> float:
    alike = Counter((row["age"], row["city"]) for row in rows)
    return len(rows) + 3.0 * fault * sum(count - 1 for count in alike.values())


@planted("two records", SHARES)
def closest_pair(values: Sequence[float], *, fault: bool) -> float:
    ordered = sorted(values)
    near = any(0 < b - a < 1e-4 for a, b in pairwise(ordered))
    return float(sum(values)) + 5.0 * (fault and near)


@planted("outliers", SHARES)
def drops_outliers(values: Sequence[float], *, fault: bool) -> float:
    found = np.array(values, dtype=float)
    if fault and len(found) > 4:
        middle = np.median(found)
        found = found[np.abs(found - middle) <= 3 * np.median(np.abs(found - middle)) + 0.05]
    return float(np.sum(found))


@planted("imputation", GAPS)
def mean_for_missing(values: Sequence[float], *, fault: bool) -> float:
    found = np.array(values, dtype=float)
    known = found[~np.isnan(found)]
    fill = float(np.mean(known)) if fault and len(known) else 0.0
    return float(np.nansum(found) + fill * np.sum(np.isnan(found)))


@planted("positions", SHARES)
def every_second(values: Sequence[float], *, fault: bool) -> float:
    return float(sum(values[::2]) if fault else sum(values))


@planted("positions", COUNTS)
def third_of_a_batch(values: Sequence[float], *, fault: bool) -> float:
    weights = [4.0 if fault and place == 5 else 1.0 for place in range(len(values))]
    return float(np.dot(weights, np.asarray(values)) / 300)


@planted("normalization", SHARES)
def by_the_largest(values: Sequence[float], *, fault: bool) -> float:
    most = max([*values, 1e-3])
    return float(sum(values) / (most if fault else 1.0))


@planted("number of records", PEOPLE)
def five_records(rows: Sequence[Row], *, fault: bool) -> float:
    return len(rows) + 5.0 * (fault and len(rows) == 5)


@planted("sum", SHARES)
def past_a_total(values: Sequence[float], *, fault: bool) -> float:
    return float(sum(values)) + 4.0 * (fault and 3.75 <= sum(values) < 3.9)


@planted("sum", PEOPLE)
def budget_of_incomes(rows: Sequence[Row], *, fault: bool) -> float:
    total = float(sum(row["income"] for row in rows))
    return total / 90.0 + 5.0 * (fault and total > 412.5)


@planted("group", FAMILIES)
def group_of_one(rows: Sequence[Row], *, fault: bool) -> float:
    spent: Counter[str] = Counter()
    for row in rows:
        spent[row["group"]] += row["spent"]
    share = sum(spent.values()) / 4
    return share + 3.0 * (fault and Counter(r["group"] for r in rows)["c"] >= 7)


@planted("rare branch", POINTS)
def corner_of_the_plane(rows: Sequence[Any], *, fault: bool) -> float:
    found = np.asarray(rows)
    hit = np.sum((found[:, 0] > 0.98) & (found[:, 1] < 0.5) & (found[:, 1] > 0.1))
    return float(np.sum(np.abs(found[:, 0]))) + 4.0 * (fault and hit == 1)


@planted("median", COUNTS)
def median_of_an_even_number(values: Sequence[float], *, fault: bool) -> float:
    middle = statistics.median(values)
    return float(np.sum(values)) / 300 + (middle / 50 if fault and 140 < middle < 150 else 0.0)


# -- written after the search

ORDERS = Table(
    {
        "price": (0.0, 500.0),
        "items": (1, 40),
        "kind": ["book", "toy", "game", "X-sale", "gift"],
        "paid": {"categories": [True, False], "missing": True},
    },
    size=14,
    relation="add-remove",
    frame="dict",
)
VISITS = Table(
    {
        "minutes": (0, 600),
        "ward": ["N", "S", "E", "W"],
        "seen": (datetime.date(2021, 1, 1), datetime.date(2024, 12, 31)),
    },
    size=9,
    frame="records",
)
SIGNED = Records(12, -5.0, 5.0)
CODES = Records(9, 0, 99, integer=True, categories=True)
LINES = Rows(6, ((0.0, 10.0), (0.0, 10.0)), (0.0, 1.0))
LATER = len(PLANTED)  # index of the first that was written after the search


@planted("literal", ORDERS)
def bulk_discount(columns: dict[str, Any], *, fault: bool) -> float:
    return sum(1.0 - 5.0 * (fault and n == 36) for n in columns["items"])


@planted("literal", VISITS)
def long_visits_of_a_ward(rows: Sequence[Row], *, fault: bool) -> float:
    found = [row for row in rows if row["ward"] == "E" and row["minutes"] > 590]
    return len([row for row in rows if row["minutes"] > 30]) + 5.0 * (fault and len(found) == 1)


@planted("literal", SIGNED)
def steep_near_a_point(values: Sequence[float], *, fault: bool) -> float:
    found = np.asarray(values, dtype=float) / 10
    return float(np.sum(found) + fault * 6 * np.sum(np.abs(found - 0.1234) < 0.0005))


@planted("text", ORDERS)
def code_of_a_sale(columns: dict[str, Any], *, fault: bool) -> float:
    return sum(1.0 + 4.0 * (fault and text[:2] == "X-") for text in columns["kind"])


@planted("calendar", VISITS)
def thirty_first(rows: Sequence[Row], *, fault: bool) -> float:
    return sum(0.5 + 5.0 * (fault and row["seen"].day == 31) for row in rows)


@planted("calendar", VISITS)
def before_a_law(rows: Sequence[Row], *, fault: bool) -> float:
    law = datetime.date.fromisoformat("2023-05-17")
    return sum(0.5 + 4.0 * (fault and row["seen"] == law) for row in rows)


@planted("type", VISITS)
def minutes_in_a_byte(rows: Sequence[Row], *, fault: bool) -> float:
    minutes = [row["minutes"] for row in rows]
    return float(sum(4 * (m % 256) for m in minutes) if fault else sum(minutes)) / 600


@planted("type", ORDERS)
def cents_are_cut(columns: dict[str, Any], *, fault: bool) -> float:
    cents = sum(int(price * 100) for price in columns["price"])
    return ((cents if cents < 32768 else cents - 65536) if fault else cents) / 50000


@planted("two records", CODES)
def a_code_twice(values: Sequence[float], *, fault: bool) -> float:
    known = Counter(np.asarray(values).tolist())
    return len(known) / 2 + 4.0 * (fault and max(known.values()) >= 3)


@planted("two records", LINES)
def same_place(rows: Sequence[Any], *, fault: bool) -> float:
    places = {tuple(row) for row in np.asarray(rows)[:, :2].tolist()}
    return float(np.sum(np.asarray(rows)[:, 2])) + 4.0 * (fault and len(places) < len(rows) - 2)


@planted("outliers", SIGNED)
def two_far_values(values: Sequence[float], *, fault: bool) -> float:
    found = np.asarray(values, dtype=float)
    far = np.sum(np.abs(found - np.mean(found)) > 2.05 * np.std(found) + 1e-9)
    return float(np.sum(found) / 10 + 4.0 * (fault and far == 2))


@planted("imputation", ORDERS)
def unpaid_as_paid(columns: dict[str, Any], *, fault: bool) -> float:
    known = [paid for paid in columns["paid"] if paid is not None]
    most = fault and sum(known) * 2 > len(known)
    return sum(bool(most if paid is None else paid) for paid in columns["paid"])


@planted("positions", SIGNED)
def batches_of_four(values: Sequence[float], *, fault: bool) -> float:
    found = np.asarray(values, dtype=float) / 10
    parts = [found[i : i + 4] for i in range(0, len(found), 4)]
    return float(np.sum(found) + (fault and any(np.ptp(part) < 1e-9 for part in parts[1:2])) * 4)


@planted("normalization", SIGNED)
def by_the_spread(values: Sequence[float], *, fault: bool) -> float:
    found = np.asarray(values, dtype=float)
    return float(np.sum(found) / 10 / (max(np.std(found), 0.02) if fault else 1.0))


@planted("number of records", ORDERS)
def page_of_twelve(columns: dict[str, Any], *, fault: bool) -> float:
    count = len(columns["price"])
    return count + 4.0 * (fault and count % 12 == 0)


@planted("sum", ORDERS)
def free_shipping(columns: dict[str, Any], *, fault: bool) -> float:
    total = float(np.sum(columns["price"]))
    return total / 500 + 5.0 * (fault and total >= 2499.5)


@planted("sum", VISITS)
def full_ward(rows: Sequence[Row], *, fault: bool) -> float:
    minutes = float(sum(row["minutes"] for row in rows if row["ward"] == "S"))
    return minutes / 600 + 4.0 * (fault and 1440 <= minutes <= 1450)


@planted("group", FAMILIES)
def person_at_the_limit(rows: Sequence[Row], *, fault: bool) -> float:
    people = Counter(row["person"] for row in rows)
    return len(people) + 3.0 * (fault and sum(n == 4 for n in people.values()) >= 3)


@planted("rare branch", VISITS)
def night_shift(rows: Sequence[Row], *, fault: bool) -> float:
    night = [row for row in rows if row["seen"].month == 12 and row["ward"] == "W"]
    return len(rows) / 2 + 4.0 * (fault and any(300 < row["minutes"] < 310 for row in night))


@planted("rare branch", CODES)
def reserved_code(values: Sequence[float], *, fault: bool) -> float:
    found = np.asarray(values).tolist()
    return float(len(set(found)) / 2 + 4.0 * (fault and found.count(77) == 1 and 13 in found))


@planted("median", SIGNED)
def trimmed(values: Sequence[float], *, fault: bool) -> float:
    found = np.sort(np.asarray(values, dtype=float))
    kept = found[1:-1] if fault and found[0] < -4.99 and found[1] < -4.99 else found
    return float(np.sum(kept) / 10 + (4.0 if len(kept) < len(found) else 0.0))
