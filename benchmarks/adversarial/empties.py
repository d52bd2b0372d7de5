"""Attacks with outputs that may be empty, and with names that only one dataset can release."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from dpwitness import Pair, Verdict, audit, trace
from dpwitness.benchmarks.adversarial.attack import Attack, false_alarm, seed_of
from dpwitness.mechanisms import PureDP


def _frame(values: list[float]) -> Any:
    import pandas

    return pandas.DataFrame({"x": values, "name": [str(round(value)) for value in values]})


_FORMS: dict[str, Callable[[list[float]], Any]] = {
    "array": lambda v: np.array(v, dtype=float),
    "(n, 0)": lambda v: np.zeros((len(v), 0)),
    "(0, n)": lambda v: np.ones((len(v), 3)),
    "list": list,
    "ragged": lambda v: [[x] * (k + 1) for k, x in enumerate(v)],
    "dict": lambda v: {str(k): x for k, x in enumerate(v)},
    "set": lambda v: {round(x) for x in v},
    "text": lambda v: ",".join(str(round(x)) for x in v),
    "none": lambda v: v[0] if v else None,
    "frame": _frame,
}


def empty_output(rng: Generator) -> str:
    """Attack with noisy records above a threshold in an empty form on one side, on both, or
    sometimes: a trace must not fail.
    """
    name, random_choice = str(rng.choice(list(_FORMS))), bool(rng.random() < 0.3)
    threshold, law = (
        float(rng.choice([0.5, 1.5, 9.0])),
        str(rng.choice(["laplace", "normal", "gumbel"])),
    )
    around = bool(rng.random() < 0.5)

    def run(dataset: Any, size: int, rng: Generator) -> Any:
        found = []
        for _ in range(size):
            kept = dataset[
                dataset + (rng.normal(size=len(dataset)) if random_choice else 0) > threshold
            ]
            draw = getattr(rng, law)
            found.append(
                _FORMS[name](
                    (draw(kept, 5.0) if around else kept + draw(0.0, 5.0, len(kept))).tolist()
                )
            )
        return found

    pair = Pair(np.array([1.0]), np.array([1.0, 2.0]), "add-remove")
    traced = trace(run, pair, "pure:1", confirm=False, seed=int(rng.integers(1000)))
    audited = audit(run, claim="pure:1", pair=pair, trials=1000, seed=seed_of(rng), bits=False)
    failed = any(note.startswith("no trace") and "would take" not in note for note in audited.notes)
    wrong = failed or Verdict.ERROR in (traced.verdict, audited.verdict)
    return (
        f"{name}, {law}, threshold {threshold}: {traced.headline():.90}; {audited.headline():.90}"
        if wrong
        else ""
    )


def _names(
    probability: float, epsilon: float, stable: bool
) -> Callable[[Any, int, Generator], Any]:
    """Return noisy counts of names above a threshold that one record passes with `probability`.

    A stable function counts all names that it knows, so that its epsilon is as stated.
    """
    threshold = 1 - math.log(2 * probability) / epsilon

    def run(dataset: Any, size: int, rng: Generator) -> Any:
        names, counts = np.unique(
            np.array([*dataset, *(_KNOWN if stable else ())]), return_counts=True
        )
        counts = counts - (1 if stable else 0)
        noisy = counts + rng.laplace(0.0, 1 / epsilon, (size, len(names)))
        return [
            dict(zip(names[row > threshold].tolist(), row[row > threshold].tolist(), strict=True))
            for row in noisy
        ]

    return run


_KNOWN = ("ann", "bob", "cat", "dora", "eve", "finn")


def _audited(rng: Generator, stable: bool) -> tuple[Any, str]:
    """Return the audit of released names on four pairs, one of which adds a name to the names of
    the dataset, and a description.
    """
    probability, epsilon = float(10 ** rng.uniform(-2.3, -1.7)), float(rng.uniform(0.5, 1.0))
    base = [name for name in _KNOWN[:3] for _ in range(int(rng.integers(6, 16)))]
    pairs = [
        Pair(base, [*base, name], "add-remove", name)
        for name in rng.permutation([*_KNOWN[:3], str(rng.choice(_KNOWN[3:]))]).tolist()
    ]
    claim = PureDP(epsilon * float(rng.uniform(1.0, 1.5)))
    mechanism = _names(probability, epsilon, stable)
    result = audit(
        mechanism,
        claim=claim,
        pair=pairs,
        trials=60_000,
        confidence=0.999,
        seed=seed_of(rng),
        bits=False,
        causes=False,
    )
    return result, f"{result.headline():.80}: names of probability {probability:.4f} at {claim}"


def rare_name(rng: Generator) -> str:
    """Attack with the name of one record, which only one dataset can release.

    The choice of a pair misses names that the pilot hardly sees, at a stated rate of 1/4.
    """
    result, text = _audited(rng, stable=False)
    return "" if result.verdict is Verdict.VIOLATED else text


def known_names(rng: Generator) -> str:
    """Attack with the same release of names that are known, which satisfies its claim."""
    result, text = _audited(rng, stable=True)
    return false_alarm(result, text)


ATTACKS = (
    Attack("empty outputs end a trace", empty_output, runs=60),
    Attack("name of one record is missed", rare_name, 0.25, runs=6),
    Attack("release of known names VIOLATED", known_names, 0.001, runs=4),
)
