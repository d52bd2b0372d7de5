"""Exceptions on one dataset: those of the environment and of types end in ERROR, those that depend
on values are findings.
"""

import importlib
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpwitness import Pair, Target, Verdict, audit, one_run
from dpwitness.auditors.audit.options import PROBE

PAIR = Pair(np.array([0.0]), np.array([1.0]))


def raising(act):
    def run(dataset, size, rng):
        if dataset[0] > 0.5:
            act()
        return rng.laplace(size=size)

    return run


def missing():
    import a_module_that_nobody_has  # noqa: F401


def wrapped():
    try:
        missing()
    except ImportError as error:
        raise RuntimeError("the solver cannot be loaded") from error


def unbound():
    if not PAIR:
        found = 1
    return found


def deprecated():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.warn("use the other one", DeprecationWarning, stacklevel=1)


NAMES = [
    lambda: np.a_name_that_was_removed,
    lambda: a_name_that_nobody_defines,  # noqa: F821
    lambda: Path("/no/such/file").read_text(),
    lambda: sorted([], by=1),
]


@pytest.mark.parametrize("act", [missing, wrapped, deprecated, *NAMES])
def test_the_environment_is_no_event(act):
    result = audit(raising(act), claim="pure:1", pair=PAIR, trials=1_000)
    assert result.verdict is Verdict.ERROR and result.tally is None
    assert result.headline().startswith("ERROR: mechanism always raises on D1 alone: ")
    assert "a fault of the environment, not a violation: " in result.headline()


@pytest.mark.parametrize(
    "act", [unbound, lambda: 1 / 0, lambda: {}["age"], lambda: int("x"), lambda: None.real_name]
)
def test_what_depends_on_the_data_is_an_event(act):
    found = audit(raising(act), claim="pure:1", pair=PAIR, trials=1_000, causes=False, trace=False)
    assert found.verdict is Verdict.VIOLATED


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("mechanism", "d0", "d1"),
    [
        (lambda d, n, rng: sum(d) + rng.laplace(size=n), [1.0, None], [1.0, 2.0]),
        (
            lambda d, n, rng: sum(row["age"] for row in d) + rng.laplace(size=n),
            [{"age": 3}],
            [{"age": "x"}],
        ),
    ],
)
def test_a_slip_is_an_error(mechanism, d0, d1, swapped):
    pair = Pair(d1, d0) if swapped else Pair(d0, d1)
    result = audit(mechanism, claim="pure:1", pair=pair, trials=1_000)
    assert result.verdict.value == "ERROR"
    assert (
        "alone: TypeError: unsupported operand" in result.headline()
        and "a type error and not a violation" in result.headline()
    )


@pytest.mark.slow_cases("None-<lambda>-pair2", "2.0-<lambda>-pair1")
@pytest.mark.parametrize(
    ("wrong", "act", "pair"),
    [
        # of one type: the value decides
        (2.0, lambda: 2.0 + "record", Pair(np.array([1.0]), np.array([2.0]))),
        (2.0, lambda: 2.0 + "record", Pair([1.0], [2.0])),
        (None, lambda: 1 / 0, Pair([1.0, None], [1.0, 2.0])),  # its text is not about types
    ],
)
def test_exceptions_that_tell_values_apart_are_violations(wrong, act, pair):
    """Every run tells: 4000 of them prove epsilon > 1 at 1 - 1e-9 whatever the seed."""
    result = audit(
        lambda d, n, rng: act() if wrong in list(d) else rng.laplace(size=n),
        claim="pure:1",
        pair=pair,
        trials=4000,
        confidence=1 - 1e-9,
        trace=False,
        causes=False,
    )
    assert result.verdict is Verdict.VIOLATED


def test_a_pair_on_which_every_run_raises_is_left_after_one_probe():
    """An exception may be slow: replays of a pair without outputs would cost as much as
    the audit.
    """
    runs = Counter()

    def refuses_zeros(dataset, size, rng):
        runs["refused" if dataset[0] == 0 else "run"] += size
        if dataset[0] == 0:
            raise ValueError("no zeros")
        return rng.laplace(0.0, 1.0, size)

    hopeless, usable = (
        Pair(np.array([0.0, 0.0]), np.array([0.0, 1.0])),
        Pair(np.array([1.0, 0.0]), np.array([1.0, 1.0])),
    )
    result = audit(
        refuses_zeros, claim="pure:1", pair=[hopeless, usable], trials=4000, seed=1, trace=False
    )
    assert result.verdict is Verdict.NOT_REFUTED and any(
        "skipped, because every run on both datasets raised" in n for n in result.notes
    )
    # the batches of both datasets, the same runs one at a time, and the one that is quoted
    assert runs["refused"] <= 2 * PROBE + 8


BUDGET = """
import numpy as np

left = 3


def spend(dataset):
    global left
    left -= 1
    if left < 0:
        raise RuntimeError("the budget is spent")
    return np.sum(dataset) + np.random.laplace()


def renewed(dataset):
    global left
    left = 3
    return spend(dataset)
"""


def test_a_budget_that_runs_share_is_named(tmp_path, monkeypatch):
    """All runs of the probe raise, but not the first run of a process."""
    (tmp_path / "budgeted.py").write_text(BUDGET)
    monkeypatch.syspath_prepend(tmp_path)
    budgeted = importlib.import_module("budgeted")
    for mechanism in (
        one_run(budgeted.spend),
        Target(str(tmp_path / "budgeted.py"), "spend as run"),
    ):
        found = audit(mechanism, claim="pure:1", pair=PAIR, trials=1_000)
        assert found.verdict is Verdict.ERROR and "always" not in found.headline()
        assert "the budget is spent, but not in the first run" in found.headline()
        assert "dpwitness.wrap.fresh(Class, 'METHOD')" in found.headline()
    found = audit(one_run(budgeted.renewed), claim="pure:1", pair=PAIR, trials=4_000)
    assert found.verdict is Verdict.NOT_REFUTED


@pytest.mark.parametrize("reads", [open, lambda path: Path(path).read_text(), pd.read_csv])
def test_a_function_of_a_path_is_explained(reads):
    pair = Pair(pd.DataFrame({"age": [1]}), pd.DataFrame({"age": [2]}))
    found = audit(one_run(lambda data: reads(data)), claim="pure:1", pair=pair, trials=1_000)
    assert "a function of a file needs its path, which is a text in JSON" in found.headline()
