"""Benchmark of the kernel: mutants of the checker that its tests detect, forged witnesses refused,
and published witnesses accepted.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import dpwitness
from dpwitness.auditors.statistics.certificate import Part, Tally
from dpwitness.auditors.statistics.combination import combined_bound
from dpwitness.auditors.witnesses.seals import seal
from dpwitness.benchmarks.kernel.cases import audit
from dpwitness.benchmarks.kernel.mutants import description, is_detected, right_answers, sample
from dpwitness.benchmarks.table import Row, Table, root_seed, seed_note
from dpwitness.core.claims import exact_text, parse_claim
from dpwitness.core.values.json_reader import Json
from dpwitness.proofs_checks.kernel import checker

PUBLISHED = Path(dpwitness.__file__).resolve().parent.parent / "reports" / "published"
CLAIMS = ("pure:0.5", "approx:0.5,0.001", "gdp:0.3", "rdp:3,0.2")
MUTANTS, FORGERIES, ROUNDS = 320, 10_000, 400_000_000


def measure(seed: int | None = None) -> Table:
    """Return the shares of mutants detected, forged witnesses refused and published witnesses
    accepted, and the longest times.
    """
    seed = root_seed(seed)
    right, chosen = right_answers(), sample(MUTANTS, seed)
    alive = [mutant for mutant in chosen if not is_detected(mutant, right)]
    forged = list(forgeries(FORGERIES, seed))
    accepted = sum(_answer(witness) == "ACCEPTED" for witness in forged)
    paths, slowest, answers = sorted(PUBLISHED.glob("*/witness-*.json")), 0.0, Counter[str]()
    for path in paths:
        start = time.process_time()
        answers[checker.answer(str(path))[1]] += 1
        slowest = max(slowest, time.process_time() - start)
    start = time.process_time()
    assert (
        _answer(witness_of("approx:0.5,0.001", Tally(ROUNDS // 4, ROUNDS // 8, ROUNDS, 2)))
        == "ACCEPTED"
    )
    largest = time.process_time() - start
    rows = (
        Row(
            "mutants of the checker that change an answer",
            0.98,
            1 - len(alive) / len(chosen),
            "share",
        ),
        Row("forged witnesses accepted", 0, float(accepted), "witnesses", at_most=True),
        Row("published witnesses refused", 0, float(answers["REFUSED"]), "witnesses", at_most=True),
        Row("slowest published witness", 1, slowest, "s", at_most=True),
        Row("witness of 4e8 rounds", 1, largest, "s", at_most=True),
    )
    note = (
        f"of {len(paths)} published witnesses, {answers['ACCEPTED']} are accepted and "
        f"{answers['NOT CHECKED']} are not checked"
    )
    return Table(
        "kernel",
        rows,
        (
            seed_note("kernel", seed),
            note,
            *(f"undetected: {description(mutant)}" for mutant in alive),
        ),
    )


def witness_of(text: str, tally: Tally, alpha: float = 0.04) -> Json:
    """Return the witness of a claim with these counts."""
    claim = parse_claim(text)
    counts = {
        "correct": tally.correct,
        "wrong": tally.wrong,
        "rounds": tally.rounds,
        "directions": tally.directions,
        "alpha": alpha,
    }
    bound = combined_bound(claim, [Part(tally)], alpha)
    return audit(
        claim=exact_text(claim), claim_numbers=list(claim.numbers), bound=bound, counts=counts
    )


def forgeries(size: int, seed: int) -> list[Json]:
    """Return witnesses with one wrong count, off by 1 or by 1 in its second digit. The bound then
    differs by 1e-8 or more.
    """
    rng, found = random.Random(seed), list[Json]()
    while len(found) < size:
        text, guesses = rng.choice(CLAIMS), int(10 ** rng.uniform(2, 5))
        correct = int(guesses * rng.uniform(0.75, 0.99))
        tally = Tally(
            correct, guesses - correct, int(guesses * rng.uniform(2.5, 5)), rng.choice((1, 2))
        )
        right = witness_of(text, tally)
        name, step = (
            rng.choice(("correct", "wrong", "rounds", "directions", "alpha")),
            rng.choice((-1, 1)),
        )
        counts = dict(right["counts"])
        counts[name] = (
            3 - counts[name]
            if name == "directions"
            else counts[name] * (1 + 0.01 * step)
            if name == "alpha"
            else counts[name] + step
        )
        if counts["wrong"] < 0 or counts["correct"] + counts["wrong"] > counts["rounds"]:
            continue
        changed = Tally(counts["correct"], counts["wrong"], counts["rounds"], counts["directions"])
        bound = combined_bound(parse_claim(text), [Part(changed)], counts["alpha"])
        if right["bound"] > Fraction(parse_claim(text).parameter) and not math.isclose(
            bound, right["bound"], rel_tol=1e-8, abs_tol=1e-8
        ):
            found.append(seal(right | {"counts": counts}))
    return found


def _answer(witness: Json) -> str:
    """Return the answer of the checker to a witness."""
    try:
        checker.check(json.dumps(witness))
    except (checker.Refused, checker.NotChecked) as error:
        return type(error).__name__
    return "ACCEPTED"
