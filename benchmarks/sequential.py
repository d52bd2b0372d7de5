"""Benchmark of sequential audits: false alarms of streams that are looked at after every round,
runs to a verdict, and price.

The streams have two epochs, whose events and priors depend on the rounds before. The rates of each
event attain the claim.

Each part runs alone by `--part`. `--part gross:NAME` and `--part price:NAME` run the cases whose
name contains NAME, so that a long part can be divided. Gross cases and prices are measured on the
zoo.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from dpwitness import audit
from dpwitness.auditors.audit.watch import Slice, write_slice
from dpwitness.auditors.canaries.training import CanaryMonitor
from dpwitness.auditors.density.limit import best_event
from dpwitness.auditors.statistics.anytime import (
    e_discoveries,
    epoch_weight,
    log_evidence,
    lower_limit,
    mixed_evidence,
)
from dpwitness.auditors.statistics.certificate import allowed, frequency_error
from dpwitness.auditors.witnesses.store import open_store
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.benchmarks.power import Specimen, specimens
from dpwitness.benchmarks.table import Row, Table, require_parts, root_seed, seed_note
from dpwitness.core.claims import Claim, parse_claim

CLAIMS = ("pure:1", "approx:1,1e-3", "zcdp:0.5", "gdp:1")
ALPHAS = (0.05, 0.01)
STREAMS = 2_000
FREQUENCIES = (0.1, 0.4, 0.8)  # frequencies of guesses of the events
ALPHA = 0.05
GROSS = 1.5  # true parameter over the claim from which a case is gross
EVENT_ROUNDS = 20_000
FREQUENT = 0.1  # probability of an event above which a gross case counts
SEEDS = 3
PRICE_RUNS = 400_000
LEAST = 0.01  # batch certificates below are not compared


def false_alarms(
    text: str,
    seed: int,
    alphas: Sequence[float] = ALPHAS,
    streams: int = STREAMS,
    # rounds of the two epochs of a stream
    epochs: Sequence[int] = (100, 300),
) -> list[int]:
    """Return, for each alpha, the number of streams at the claim that are refuted at some round."""
    claim, rng = parse_claim(text), np.random.default_rng(seed)
    theta = np.array([allowed(claim, claim.parameter, s, 2) for s in FREQUENCIES])
    tables = [] if claim.is_pure else [_null_table(claim)]
    finished = [list[NDArray[np.float64]]() for _ in alphas]
    alarms = np.zeros((len(alphas), streams), dtype=bool)
    past, right_so_far = 64, rng.integers(0, 3, streams)
    for number, rounds in enumerate(epochs):
        chosen = right_so_far % 3
        s = np.array(FREQUENCIES)
        optimistic = np.minimum(theta + 0.03, 0.999)  # training overrates an event
        right, wrong = np.zeros(streams, dtype=int), np.zeros(streams, dtype=int)
        for n in range(1, rounds + 1):
            draw = rng.random(streams)
            is_right = draw < (s * theta)[chosen]
            right, wrong = right + is_right, wrong + (~is_right & (draw < s[chosen]))
            # streams in one state
            states, place = np.unique(
                (chosen * (n + 1) + right) * (n + 1) + wrong, return_inverse=True
            )
            event, ones, zeros = (
                states // (n + 1) ** 2,
                states // (n + 1) % (n + 1),
                states % (n + 1),
            )
            prior = past * (s * optimistic)[event], past * (s * (1 - optimistic))[event]
            # states with equally many guesses have one limit
            made, group = np.unique(event * (n + 1) + ones + zeros, return_inverse=True)
            guesses, expected = made % (n + 1), past * s[made // (n + 1)]
            for i, alpha in enumerate(alphas):
                gamma = float(frequency_error(claim, alpha))
                null: Any = theta[0]
                if tables:
                    limit = lower_limit(
                        guesses,
                        n - guesses,
                        (expected, past - expected),
                        gamma * epoch_weight(number),
                    )
                    null = _null_at(limit, tables[0])[group]
                logs = log_evidence(ones, zeros, null, prior)[place]
                alarms[i] |= mixed_evidence([*finished[i], logs]) >= -math.log(alpha - gamma)
                if n == rounds:
                    finished[i].append(logs)
        past, right_so_far = past + rounds, right
    return [int(each.sum()) for each in alarms]


def _null_table(claim: Claim) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return frequencies, and the largest share of right guesses that the claim allows at each."""
    grid = np.append(0.0, np.geomspace(1e-3, 1.0, 400))
    return grid, np.array(
        [1.0, *(allowed(claim, claim.parameter, s, 2) for s in grid[1:].tolist())]
    )


def _null_at(
    frequency: NDArray[np.float64], table: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return the allowed share at the next larger frequency of the table: never more than allowed,
    so that no alarm is missed.
    """
    grid, values = table
    return values[np.minimum(np.searchsorted(grid, frequency), len(grid) - 1)]


def false_discoveries(
    seed: int,
    suites: int = 1_000,
    targets: int = 20,
    calls: int = 200,
    rounds: int = 64,
    alpha: float = ALPHA,
) -> int:
    """Return the number of suites of sound targets, at the claim pure:1, with a discovery after any
    of the calls.
    """
    rng, theta = np.random.default_rng(seed), allowed(parse_claim("pure:1"), 1.0, 1.0, 2)
    right, wrong, finished, found = (
        np.zeros((suites, targets)),
        np.zeros((suites, targets)),
        list[Any](),
        np.zeros(suites, dtype=bool),
    )
    prior: Any = (0.75 * rounds, 0.25 * rounds)
    for number in range(calls):
        more = rng.binomial(rounds, theta, (suites, targets))
        right, wrong = right + more, wrong + rounds - more
        logs = log_evidence(right, wrong, theta, prior)
        total = mixed_evidence([*finished, logs])
        found |= np.array([any(e_discoveries(row, alpha)) for row in total.tolist()])
        if number == 4:  # an event is learned again, with a prior from its past
            finished, prior = [logs], (right, wrong)
            right, wrong = np.zeros_like(right), np.zeros_like(wrong)
    return int(found.sum())


def store_sizes(targets: int = 20, calls: int = 200) -> tuple[int, int]:
    """Return the size of a watched store in bytes after half of the calls, and after all."""
    plan = {
        "event": {"kind": "atoms", "rule": [0.0] * 100},
        "method": "atoms",
        "directions": 2,
        "prior": [48.0, 16.0, 64.0],
    }
    sizes = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "watch.db"
        with open_store(path) as store:
            entries = [
                store.begin(
                    {"kind": "watch", "target": str(i)},
                    f"mechanisms.py:target_{i} 0123456789abcdef",
                    0,
                )
                for i in range(targets)
            ]
            for number in range(1, calls + 1):
                for entry in entries:
                    new = number in (1, 4, 16, 64)  # calls that learn an event
                    epoch = f"{max(each for each in (1, 4, 16, 64) if each <= number):012x}"
                    counts = ((epoch, 700_000 + number, 300_000, 1_000_000 + number, 0),)
                    one = Slice(
                        number,
                        f"{number * 7919:012x}",
                        1.7e9 + number,
                        1_000_000,
                        counts,
                        0.987654321,
                    )
                    write_slice(
                        store, entry, one, {epoch: plan | {"pair": 0, "trained": 64}} if new else {}
                    )
                if number in (calls // 2, calls):
                    sizes.append(path.stat().st_size)
    return sizes[0], sizes[1]


def is_gross(specimen: Specimen) -> bool:
    """Return whether the pair's true parameter is at least `GROSS` times the claim's."""
    claim, law = specimen.mechanism.claim, specimen.law
    sides = law, law.swapped()
    if claim.is_pure:
        return bool(max(side.supremum for side in sides) >= GROSS * claim.parameter)
    return bool(
        max(float(np.max(claim.parameter_at(q, p))) for _, q, p in (side.roc() for side in sides))
        >= GROSS * claim.parameter
    )


def event_shares(specimen: Specimen) -> tuple[float, float]:
    """Return the probability of the best event under the dataset on which it is more likely, and
    the frequency of its guesses.

    The event is the best at `EVENT_ROUNDS` rounds. A rule with two directions has two events: the
    probability is their mean, each under its more likely dataset. Both numbers are 0 if the event
    certifies no violation.
    """
    event = best_event(specimen.law, specimen.mechanism.claim, EVENT_ROUNDS, ALPHA)
    if event.value <= specimen.mechanism.claim.parameter:
        return 0.0, 0.0
    return event.right * 2 / event.directions, event.right + event.wrong


def runs_to_violated(specimen: Specimen, first: int) -> tuple[float, float]:
    """Return the median runs to VIOLATED, and the runs of a batch audit."""
    claim = specimen.mechanism.claim
    options: dict[str, Any] = {
        "claim": claim,
        "pair": specimen.pair,
        "confidence": 1 - ALPHA,
        "bits": False,
        "stop": "violation",
    }
    runs = []
    for seed in range(first, first + SEEDS):
        result = audit(
            specimen.mechanism, sequential=True, find=1.01, trials=50_000, seed=seed, **options
        )
        runs.append(result.trials if result.verdict is Verdict.VIOLATED else math.inf)
    batch = audit(specimen.mechanism, seed=first, **options)
    return median(runs), batch.trials if batch.verdict is Verdict.VIOLATED else math.inf


def price(specimen: Specimen, seed: int) -> float | None:
    """Return the certified bound of a sequential audit over that of a batch audit with as many
    runs; None if there is none.
    """
    common: dict[str, Any] = {
        "claim": specimen.mechanism.claim,
        "pair": specimen.pair,
        "trials": PRICE_RUNS,
        "seed": seed,
        "stop": "never",
    }
    common |= {"confidence": 1 - ALPHA, "bits": False}
    batch = audit(specimen.mechanism, **common).parameter_lower
    return (
        audit(specimen.mechanism, sequential=True, **common).parameter_lower / batch
        if batch >= LEAST
        else None
    )


def first_epoch(noise: float, steps: int = 200, batch: int = 5, seed: int = 1) -> float:
    """Return the share of the first epoch of DP-SGD, with one canary in each record's place, after
    which canaries refute gdp:1; or 1.
    """
    rng, monitor = np.random.default_rng(seed), CanaryMonitor("gdp:1", canaries=steps * batch)
    for step in range(steps):
        gradients = rng.normal(size=(batch, 400))
        gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
        coins = rng.random(batch) < 0.5
        update = gradients[coins].sum(axis=0) + noise * rng.normal(size=400)
        if monitor.update(gradients @ update, coins).violated:
            return (step + 1) / steps
    return 1.0


def _watch_rows(_: str, seed: int, suites: int = 1_000) -> Table:
    """Return the rows of watched suites."""
    found, (half, full) = false_discoveries(seed, suites), store_sizes()
    case = f"suites of 20 sound targets with a discovery in 200 calls, alpha {ALPHA:g}"
    rows = (
        Row(case, ALPHA, found / suites, "share", at_most=True, counts=(found, suites)),
        Row("store of 20 targets after 200 calls", 5.0, full / 1e6, "MB", at_most=True),
        Row(
            "store after 200 calls over the store after 100",
            2.05,
            full / half,
            "ratio",
            at_most=True,
        ),
    )
    return Table("", rows)


def _alarm_rows(only: str, seed: int) -> Table:
    """Return the rows of false alarms, for the claims whose text contains `only`."""
    rows, notes = list[Row](), list[str]()
    for text in (text for text in CLAIMS if only in text):
        for alpha, alarms in zip(ALPHAS, false_alarms(text, seed), strict=True):
            rate = alarms / STREAMS
            rows.append(
                Row(
                    f"false alarms, {text}, alpha {alpha:g}",
                    alpha,
                    rate,
                    "share",
                    at_most=True,
                    counts=(alarms, STREAMS),
                )
            )
            excess = binomtest(alarms, STREAMS, alpha, alternative="greater").pvalue
            notes.append(
                f"{text}, alpha {alpha:g}: {alarms} of {STREAMS} streams, p-value of an "
                f"excess {excess:.3g}"
            )
    return Table("", tuple(rows), tuple(notes))


def _gross_rows(only: str, seed: int) -> Table:
    """Return the rows of runs to VIOLATED in gross cases, by both readings of "an event of
    probability above .1".
    """
    gross = [
        (each.name, event_shares(each), *runs_to_violated(each, seed))
        for each in _of_the_zoo(only)
        if is_gross(each)
    ]
    rows = []
    for at, meaning in ((0, "an event that is likely on a dataset"), (1, "frequent guesses")):
        frequent = [runs for _, shares, runs, _ in gross if shares[at] > FREQUENT]
        if frequent:
            name = (
                f"median runs to VIOLATED, {len(frequent)} gross cases with {meaning} (above "
                f"{FREQUENT:g})"
            )
            rows.append(Row(name, 300, median(frequent), "runs", at_most=True))
    if ratios := [runs / batch for _, _, runs, batch in gross if batch < math.inf]:
        name = (
            f"runs to VIOLATED over batch, median of {len(ratios)} gross cases that the batch "
            "audit finds"
        )
        rows.append(Row(name, 0.25, median(ratios), "ratio", at_most=True))
    missed = [name for name, _, runs, batch in gross if runs == batch == math.inf]
    columns = ("case", "probability", "frequency", "runs", "batch")
    details = [
        dict(zip(columns, (name, *shares, runs, batch), strict=True))
        for name, shares, runs, batch in gross
    ]
    return Table(
        "",
        tuple(rows),
        (f"gross by a rare event, found by neither: {', '.join(missed) or 'none'}",),
        tuple(details),
    )


def _price_rows(only: str, seed: int) -> Table:
    """Return the row of certified bounds over those of batch audits."""
    prices = {
        each.name: ratio for each in _of_the_zoo(only) if (ratio := price(each, seed)) is not None
    }
    name = f"certified / batch at {PRICE_RUNS:,} runs, median of {len(prices)} cases"
    rows = (Row(name, 0.95, median(prices.values()), "ratio"),) if prices else ()
    worst = ", ".join(
        f"{name} {ratio:.2f}"
        for name, ratio in sorted(prices.items(), key=lambda item: item[1])[:5]
    )
    return Table(
        "",
        rows,
        (f"lowest certified / batch: {worst}",),
        tuple({"case": name, "price": ratio} for name, ratio in prices.items()),
    )


def _of_the_zoo(only: str) -> list[Specimen]:
    """Return the specimens of the zoo whose name contains `only`."""
    return list(specimens(only, papers=False))


def _canary_rows(_: str, seed: int) -> Table:
    """Return the row of DP-SGD without noise."""
    shares = [first_epoch(0.0, seed=one) for one in range(seed, seed + SEEDS)]
    row = Row(
        "DP-SGD without noise: share of the first epoch until canaries refute gdp:1",
        0.99,
        max(shares),
        "share",
        at_most=True,
    )
    return Table("", (row,))


PARTS: dict[str, Callable[[str, int], Table]] = {
    "alarms": _alarm_rows,
    "gross": _gross_rows,
    "price": _price_rows,
    "canaries": _canary_rows,
    "watch": _watch_rows,
}


def measure(seed: int | None = None, parts: Sequence[str] = ()) -> Table:
    """Run parts of the benchmark, all by default, and return their table. A part may be followed by
    a text that names must contain.
    """
    seed = root_seed(seed)
    chosen = [part.partition(":") for part in parts or PARTS]
    require_parts([name for name, _, _ in chosen], PARTS)
    found = [PARTS[name](only, seed) for name, _, only in chosen]
    rows, notes, details = (
        tuple(each for table in found for each in getattr(table, name))
        for name in ("rows", "notes", "details")
    )
    return Table("sequential", rows, (seed_note("sequential", seed), *notes), details)
