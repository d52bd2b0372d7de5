"""Answers of the checker to fixed questions: a changed checker is detected if one of its answers
changes.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from dpwitness.benchmarks.kernel.cases import FORMS, STAGE, TEXTS, audit, pairs, witnesses
from dpwitness.benchmarks.kernel.rules import rules
from dpwitness.core.values.json_reader import Json

F = Fraction
Question = Callable[..., Any]
LAST: Json = {"correct": 310, "wrong": 41, "rounds": 900, "directions": 2, "lost": 0, "weight": 0}
CURVE = [F(0), F(1), F(1, 10), F(6, 10), F(4, 10), F(2, 10), F(1), F(0)]
FLAT_END = [F(0), F(1), F(1, 2), F(3, 10), F(9, 10), F(1, 20), F(1), F(1, 20)]
RULE: Json = {
    "loss": [F(-2, 5), F(0), F(7, 10)],
    "order": F(2),
    "forward": True,
    "bets": [F(3, 10), F(1, 5)],
}

# see `bounds_of`
BOUNDS = {
    "pure": 1.7707070626088,
    "approx": 1.7669507015542,
    "stages": 1.6258223160359,
    "cells": 0.0451735311502,
}


def proved(checker: ModuleType, refuted: Callable[[F], bool]) -> float:
    """Return the largest parameter that is refuted, as a float."""
    return float(F(checker.bisect(lambda i: not refuted(F(i, 10**13)), 0, 10**14, 1) - 1, 10**13))


def bounds_of(checker: ModuleType) -> dict[str, float]:
    """Return the bounds that the checker proves for the witnesses."""
    one = {"correct": 450, "wrong": 60, "rounds": 1000, "directions": 2, "lost": 0}
    pure, approx, alpha = (
        ("pure", [F(1), F(0)], F(1)),
        ("approx", [F(1), F(1, 1000)], F(1)),
        F(4, 100),
    )
    cells = [[900, 700, 1400], [1500, 700, 800]]
    return {
        "pure": proved(checker, lambda x: checker.refutes(pure, x, [one], alpha)),
        "approx": proved(checker, lambda x: checker.refutes(approx, x, [one], alpha)),
        "stages": proved(checker, lambda x: checker.refutes(pure, x, [STAGE, LAST], alpha)),
        "cells": proved(
            checker,
            lambda x: (
                checker.cells_excess(("zcdp", [F(1, 100)], F(1, 100)), x, RULE, cells, F(2, 100))
                > 0
            ),
        ),
    }


def questions(k: ModuleType, bounds: dict[str, float] = BOUNDS) -> Iterator[Question]:
    """Yield calls of the checker, cheap ones first."""
    yield lambda: {name: _plain(value) for name, value in vars(k).items() if name.isupper()}
    yield from _questions_on_functions(k)
    yield from _questions_on_claims(k)
    yield from _questions_on_stages(k)
    yield from _questions_on_cells(k)
    yield from _questions_on_rounding(k)
    yield from _questions_on_texts(k)
    counts = {**LAST, "alpha": 0.04, "combination": "conditional error"}
    del counts["weight"]
    yield from (
        partial(
            k.check_counts,
            ("zcdp", [F(1, 10)], F(1, 10)),
            "value",
            0.5,
            0.95,
            counts | {"stages": [{**STAGE, "weight": 0.1}] * stages},
        )
        for stages in (99, 3)
    )
    one = {"correct": 450, "wrong": 60, "rounds": 1000, "directions": 2, "alpha": 0.04}
    yield from (
        partial(k.check_counts, (kind, [F(2), F(1)], F(1)), "value", bound, 0.95, one)
        for kind in ("rdp", "pure")
        for bound in (2000.0, 2000.5, "inf")
    )
    yield from (partial(k.check, k.json.dumps(witness)) for witness in witnesses(bounds))
    yield lambda: printed(k, bounds)


def _questions_on_texts(k: ModuleType) -> list[Question]:
    """Return calls that read pairs, claims, rules and JSON, and that estimate the effort."""
    return [
        *(partial(k.check_pair, each) for each in pairs()),
        *(
            partial(k.decode_claim, text, values)
            for text, values in (
                ("pure:1", [1, 0]),
                ("pure:0", [0, 0]),
                ("approx:0.1,0", [0.1, 0]),
                ("approx:1,1", [1, 1]),
                ("approx:1,0.999", [1, 0.999]),
                ("rdp:2,0.5", [2, 0.5]),
                ("rdp:1,0.5", [1, 0.5]),
                ("rdp:2,0", [2, 0]),
                ("rdp:2=0.5", [2, 0.5]),
                ("rdp:2=0.5,3=0.7", [2, 0.5, 3, 0.7]),
                ("rdp:3=0.5,3=0.7", [3, 0.5, 3, 0.7]),
                ("rdp:2=0.5,3=0", [2, 0.5, 3, 0]),
                ("fdp:0=1,1=0", [0, 1, 1, 0]),
                ("fdp:0=1,0.5=0.1,1=0", [0, 1, 0.5, 0.1, 1, 0]),
                ("fdp:0=1,0.2=0.7,0.5=0.5,1=0", [0, 1, 0.2, 0.7, 0.5, 0.5, 1, 0]),
                ("fdp:0=1,0.1=0.6,0.2=0.2,1=0", [0, 1, 0.1, 0.6, 0.2, 0.2, 1, 0]),
                ("fdp:0=1,0.1=0.2,0.2=0.3,1=0", [0, 1, 0.1, 0.2, 0.2, 0.3, 1, 0]),
                ("fdp:0=1,0.5=0.6,1=0", [0, 1, 0.5, 0.6, 1, 0]),
                ("fdp:0=1,0.5=0.5000000009,1=0", [0, 1, 0.5, 0.5000000009, 1, 0]),
                ("fdp:0.1=0.9,1=0", [0.1, 0.9, 1, 0]),
                ("fdp:0=1,0.9=0", [0, 1, 0.9, 0]),
                ("gdp:2", [2]),
                ("gdp:0", [0]),
                ("no:1", [1]),
                ("x" * 200 + ":1", [1]),
            )
        ),
        *(partial(k.fits, value, form) for value, form in FORMS),
        *(
            partial(k.decode_rule, {"$type": "object", "class": name, "fields": {}}, {"LowBits"})
            for name in ("x" * 200, "dpwitness.auditors:LowBits", "dpwitness.auditors:Binned")
        ),
        *(partial(k.directions, rule, k.EVENTS) for rule in rules()[::5]),
        *(partial(k.read, text) for text in TEXTS),
        lambda: [
            k.effort((kind, [F(1)] * 2, F(1)), stages)
            for kind in ("pure", "zcdp")
            for stages in (
                [LAST],
                [STAGE, LAST],
                [{**STAGE, "weight": 1}] * 3,
                [{**LAST, "cells": [[1] * 7] * 2}],
            )
        ],
    ]


def _plain(value: Any) -> Any:
    """Return a constant in a form whose text is always the same."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(_plain, value)]
    return sorted(map(str, value)) if isinstance(value, set) else value


def _questions_on_functions(k: ModuleType) -> list[Question]:
    """Return calls of the numerical functions: binomial tails, exponential, logarithm, normal law,
    bisection.
    """
    one, tails = k.ONE, list[Question]()
    for n, j, a, c in (
        (0, 0, 1, 1),
        (7, 0, 2, 3),
        (7, 7, 2, 3),
        (7, 4, 2, 3),
        (40, 31, 5, 7),
        (900, 500, 1, 1),
        (900, 880, 1, 1),
        (900, 9, 99, 1),
    ):
        tails += [
            partial(k.tail, n, j, a, c, unit, stop)
            for unit, stop in ((one, k.STOP), (2**30, 0), (2**30, 2**20), (8, 8))
        ]
        tails.append(
            lambda n=n, j=j, a=a, c=c: (k.side(n, 2, 3, 6, a, c, 2**20, 4), k.tail(n, j, a, c))
        )
    return [
        *tails,
        *(
            lambda x=x: (
                k.floor(x),
                k.ceil(x),
                k.exp(k.floor(x)),
                k.normal(k.floor(x)),
                k.density(k.floor(x)),
            )
            for x in (F(0), F(1, 3), F(-1, 3), F(7))
        ),
        partial(k.exp, -400 * one),
        *(
            partial(k.log, n, d)
            for n, d in (
                (1, 1),
                (0, 1),
                (1, 0),
                (10, 1),
                (1, 10),
                (2**70 - 1, 2**35),
                (3, 4),
                (5, 7),
                (7, 5),
                (5 * one, one + 1),
            )
        ),
        *(
            lambda t=t: (k.normal(t * one), k.exp(t * one // 3), k.exp(t * one), k.density(t * one))
            for t in (-17, -3, 9, 16, 17, 40)
        ),
        lambda: [
            k.bisect(lambda i, end=end: i >= end, 0, 100, width)
            for end in (0, 1, 33, 100)
            for width in (1, 5)
        ],
        lambda: [k.quantile(p) for p in (one // 20, k.TINY, one)],
    ]


def _questions_on_claims(k: ModuleType) -> list[Question]:
    """Return calls that ask for the largest probability of a right guess that a claim allows."""
    one = k.ONE
    # many local optima
    rough = [(one + (one * i >> 6), (one >> 8) * (1 + i * i * 37 % 101)) for i in range(1, 97)]
    wide = {"correct": 700, "wrong": 200, "rounds": 1000, "directions": 1, "lost": 0}
    return [
        *(
            partial(k.allowed, (kind, numbers, 1), F(9, 7), total, several)
            for kind, numbers in (
                ("pure", [F(1), F(0)]),
                ("approx", [F(1), F(1, 100)]),
                ("fdp", CURVE),
                ("gdp", [F(1)]),
            )
            for total in (one, one // 50, one * 3 // 2)
            for several in (False, True)
        ),
        *(
            partial(k.lines, "fdp", numbers, F(1), False)
            for numbers in (
                [F(0), F(1), F(1, 2), F(9, 10), F(1), F(0)],
                CURVE[:2] * 2,
                [F(0), F(1), F(1, 4), F(3, 4), F(1, 2), F(1, 2), F(1), F(0)],
            )
        ),
        lambda: [
            k.lines("fdp", curve, x, several)
            for curve in (CURVE, FLAT_END)
            for x in (F(1, 9), F(5, 7))
            for several in (False, True)
        ],
        lambda: [k.lines("approx", [F(1), F(1, 3)], F(9, 7), several) for several in (False, True)],
        partial(k.allowed, ("approx", [F(1), F(1, 2)], F(1)), F(1), one // 10, False),
        partial(k.budgets, ("rdp", [F(7, 3), F(1), F(8), F(1, 5)], F(1)), F(1, 3)),
        partial(k.renyi_allowed, [(2 * one, one * 10**6)], one // 2),
        lambda: [k.renyi_allowed(rough[start:], one // 2) for start in range(0, 60, 7)],
        lambda: [
            [*found[::60], found[239], len(found)]
            for found in [k.budgets(("zcdp", [], F(1)), F(1, 3))]
        ],
        *(
            partial(k.allowed, ("rdp", [F(2), F(1, 3), F(8), F(1)], F(1)), F(3, 2), total, False)
            for total in (one // 3, one * 3 // 2, one)
        ),
        *(
            partial(k.allowed, ("rdp", [F(2), F(1)], F(50)), x, one // 1000, False)
            for x in (F(1, 7), F(3), F(50))
        ),
        partial(k.allowed, ("zcdp", [F(1)], F(1)), F(2), one // 3, False),
        lambda: [
            k.refutes(("approx", [F(1), F(1, 100)], F(1)), F(x, 20), [wide], F(1, 20))
            for x in range(10, 40)
        ],
    ]


def _questions_on_stages(k: ModuleType) -> list[Question]:
    """Return calls on lost rounds, on the error of several stages, and on their p-values."""
    one, errors, p_values = k.ONE, list[Question](), list[Question]()
    for share in (F(0), F(1, 8), F(99, 100)):
        errors += [
            partial(k.conditional_error, level, more, many, share)
            for level, more, many in (
                (one // 50, one // 100, one // 80),
                (one // 50, one - 3, one),
                (one >> 200, 0, one),
                (one // 9, 0, one // 10**40),
            )
        ]
        errors.append(
            lambda s=share: [
                k.conditional_error(one // 50, one // 2, one, s),
                k.conditional_error(k.LEAST, 0, k.LEAST, s),
            ]
        )
    for kind, numbers in (("pure", [F(1), F(0)]), ("approx", [F(1), F(1, 100)]), ("fdp", CURVE)):
        claim, gamma = (kind, numbers, F(1)), F(1, 100) if kind != "pure" else F(0)
        p_values.append(partial(k.p_values, claim, F(3, 2), STAGE, gamma, True, k.LEAST))
        p_values += [
            partial(
                k.p_values,
                claim,
                F(3, 2),
                {**STAGE, "correct": right, "wrong": wrong, "lost": 0},
                gamma,
                False,
                k.ONE // 20,
            )
            for right, wrong in ((5, 0), (0, 5), (0, 0))
        ]
        p_values.append(
            lambda c=claim: [
                k.refutes(c, F(x, 20), [{**STAGE, "weight": 1}, STAGE, LAST], F(1, 20))
                for x in (10, 26, 33)
            ]
        )
    pure = "pure", [F(1), F(0)], F(1)
    # they prove 1.5756233342
    three = [STAGE, {**STAGE, "correct": 200, "wrong": 40, "rounds": 500, "weight": 0.6}, LAST]
    return [
        *(
            partial(k.chance, n, j, a, c, one // error)
            for n, j, a, c, error in (
                (900, 500, 1, 1, 20),
                (900, 880, one - 1, 1, 10**9),
                (900, 9, one * 3, 1, 2),
                (7, 7, one, one + 7, 2**140),
            )
        ),
        *(
            lambda n=n, j=j, r=rate: f"{k.log_tail(n, j, r):.9f}"
            for n, j, rate in ((10, 1, 0.01), (100, 40, 0.3), (100, 100, 0.5), (10**7, 5000, 4e-4))
        ),
        *(
            lambda n=n, j=j: [k.frequency(n, j, one // part) for part in (100, 10**9)]
            for n, j in ((100, 0), (100, 1), (100, 100), (5000, 1200), (10**6, 3))
        ),
        *errors,
        partial(k.frequency, 100, 50, one - 1),
        *(
            partial(steps_of, k, stages)
            for stages in ([LAST], [STAGE, LAST], [STAGE, {**STAGE, "weight": 0.7}, LAST])
        ),
        partial(k.refutes, pure, F(0), [{**LAST, "correct": 900, "wrong": 0}], F(k.LEAST, one)),
        lambda: [
            k.normal_integral(-one, b * one, one // 3, one // 2, terms)
            for b in (-1, 2)
            for terms in (1, 2, 40)
        ],
        *p_values,
        *(partial(k.refutes, pure, x, three, F(1, 20)) for x in (F(15755, 10**4), F(15757, 10**4))),
    ]


def _questions_on_cells(k: ModuleType) -> list[Question]:
    """Return calls of the rule for Renyi claims, which counts outputs in cells."""
    one, counts = k.ONE, [[90, 70, 140], [150, 70, 80]]
    thirds = {**RULE, "loss": [F(-2, 5), F(0), F(5, 7)], "order": F(7, 3)}
    many = ("rdp", [F(1), F(1), F(1), F(1), F(4), F(1, 8)], F(1))
    none = "zcdp", list[F](), F(1)
    return [
        *(
            lambda r=RULE | {"order": order, "forward": forward}, c=kind: [
                k.cells_excess((c, [F(3), F(1, 2), F(1), F(1)], F(1)), x, r, counts, F(1, 20))
                for x in (F(0), F(9, 10))
            ]
            for order, forward, kind in (
                (F(2), True, "zcdp"),
                (F(3), False, "rdp"),
                (F(1), True, "rdp"),
                (F(4), True, "rdp"),
            )
        ),
        partial(k.cells_excess, ("rdp", [F(7, 3), F(1)], F(1)), F(1, 9), thirds, counts, F(1, 20)),
        lambda: [
            k.cells_excess(many, F(x, 9), {**RULE, "order": F(4)}, counts, F(1, 20))
            for x in range(9)
        ],
        *(
            partial(
                k.cells_excess,
                none,
                F(0),
                {**RULE, "bets": list(map(F, bets))},
                [[1, 1, 1]] * 2,
                F(1, 20),
            )
            for bets in ([1.0, 0.0], [0.985, 0.0], [0.989, 0.989])
        ),
        partial(k.cells_excess, none, F(0), RULE, [[0, 0, 0], [1, 1, 1]], F(1, 20)),
        lambda: [
            k.mean_limit([0, one // 2, one], [30, 5, 60], F(3, 10), F(1, e)) for e in (20, 10**9)
        ],
    ]


def replaced(k: ModuleType, call: Callable[[], Any], **functions: Callable[..., Any]) -> Any:
    """Return the value of a call while functions of the checker are replaced."""
    before = {name: getattr(k, name) for name in functions}
    vars(k).update(functions)
    try:
        return call()
    finally:
        vars(k).update(before)


def steps_of(k: ModuleType, stages: list[Json]) -> list[Any]:
    """Return the arguments with which the stages of a combination are tested."""
    seen = list[Any]()

    def p_values(
        claim: Any, x: F, stage: Json, gamma: F, several: bool, error: int
    ) -> tuple[int, int]:
        seen.append((gamma, several, error))
        return k.ONE // 60, k.ONE // 50

    def conditional_error(level: int, more: int, as_many: int, share: F) -> int:
        seen.append((level, more, as_many, share))
        return level * 2 // 3

    for kind in ("pure", "approx"):
        claim = kind, [F(1), F(1, 100)], F(1)
        refutes = partial(k.refutes, claim, F(3, 2), stages, F(1, 20))
        seen.append(replaced(k, refutes, p_values=p_values, conditional_error=conditional_error))
    return seen


def _questions_on_rounding(k: ModuleType) -> list[Question]:
    """Return calls whose parts are replaced: enclosures that are far apart, and values at which a
    comparison decides.

    A limit taken from the wrong side of an enclosure, or a search that stops elsewhere, would
    otherwise change digits that no answer shows.
    """
    one, log, exp, normal = k.ONE, k.log, k.exp, k.normal
    wide: dict[str, Any] = {
        "log": lambda n, d: (log(n, d)[0] - (one >> 20), log(n, d)[1] + (one >> 21)),
        "exp": lambda x: (exp(x)[0] - (exp(x)[0] >> 20), exp(x)[1] + (exp(x)[1] >> 21)),
        "normal": lambda t: (
            normal(t)[0] - (normal(t)[0] >> 20),
            normal(t)[1] + (normal(t)[1] >> 21),
        ),
    }
    cells: Any = (("zcdp", [F(1)], F(1)), F(1, 9), RULE, [[90, 70, 140], [150, 70, 80]], F(1, 20))
    fractions = [F(-2, 5), F(-1, 3), F(-1, 7), F(1, 11), F(2, 9), F(5, 7)]
    thirds = {**RULE, "loss": fractions, "order": F(7, 3)}
    other: Any = (("rdp", [F(7, 3), F(1)], F(1)), F(1, 9), thirds, *cells[3:])
    return [
        *(
            partial(
                replaced,
                k,
                partial(k.allowed, (kind, numbers, F(1)), F(9, 7), total, False),
                **wide,
            )
            for kind, numbers in (
                ("pure", [F(1), F(0)]),
                ("approx", [F(1), F(1, 100)]),
                ("gdp", [F(1)]),
                ("rdp", [F(2), F(1, 3), F(8), F(1)]),
            )
            for total in (one // 3, one)
        ),
        partial(replaced, k, partial(k.cells_excess, *cells), **wide),
        *(
            partial(
                replaced,
                k,
                partial(k.cells_excess, *each),
                mean_limit=lambda values, *rest: sum(values) % one,
            )
            for each in (cells, other)
        ),
        *(
            partial(
                replaced,
                k,
                partial(k.refutes, *cells[:2], [{"cells": []}], F(1), RULE),
                cells_excess=lambda *_, e=excess: e,
            )
            for excess in (0, 1)
        ),
        lambda: [k.mean_limit([value], [50], F(3, 10), F(1, 20)) for value in (0, 2 * one)],
        partial(
            replaced,
            k,
            partial(k.mean_limit, [one], [1], F(3, 10), F(1, 20)),
            log=lambda n, d: (5, 5),
        ),
        # tails that fall in steps of 2^digits, and tails that never fall below the error
        *(
            lambda d=digits, e=least: searched(k, lambda s: max(s >> d << d, e), one // 64)
            for digits in (0, 370, 376)
            for least in (1, one // 50)
        ),
        lambda: searched(k, first_below(one // 64), one // 64),
    ]


def first_below(error: int) -> Callable[[int], int]:
    """Return a tail that is below the error at two points, and above it afterwards."""
    values = iter([error - 1] * 2 + [error + 1] * 100)
    return lambda s: next(values)


def searched(
    k: ModuleType, tail_at: Callable[[int], int], error: int
) -> tuple[int, list[tuple[int, int]]]:
    """Return the limit of a frequency, and the points that its search visits, with another binomial
    tail.
    """
    visited = list[tuple[int, int]]()

    def chance(n: int, j: int, a: int, c: int, error: int) -> int:
        visited.append((a, c))
        return tail_at(a)

    return replaced(k, lambda: k.frequency.__wrapped__(1000, 300, error), chance=chance), visited


def printed(k: ModuleType, bounds: dict[str, float]) -> tuple[Any, ...]:
    """Return what the program prints on files, and its exit codes."""
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        texts = {
            "right": k.json.dumps(audit(bound=bounds["pure"])),
            "wrong": k.json.dumps(audit(bound=9.0)),
            "damaged": "{",
            "none": None,
        }
        for name, text in texts.items():
            if text is not None:
                Path(folder, name).write_text(text, encoding="utf-8")
        for names in ([], ["right"], ["wrong"], ["damaged"], ["none"], ["wrong", "right"]):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                code = k.main([str(Path(folder, name)) for name in names])
            found.append((code, out.getvalue().replace(folder, "")))
    return tuple(found)


def answer(question: Callable[..., Any]) -> str:
    """Return the answer to a question as text: the value, or the error."""
    try:
        return repr(question())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
