"""State, ignored generators and global generators: found, named, and the same on every executor."""

import random
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from dpwitness import Pair, Verdict, audit
from dpwitness.auditors.workers.engine import Inline
from dpwitness.mechanisms.wrappers.programs.target import Isolated
from dpwitness.mechanisms.wrappers.recording import global_generators

sys.path.insert(0, str(Path(__file__).parent))
import stateful

PAIR = Pair(np.array([0.0]), np.array([1.0]))
EXECUTORS = {
    "inline": lambda: Inline(),
    "threads": lambda: ThreadPoolExecutor(2),
    "processes": lambda: ProcessPoolExecutor(2, mp_context=get_context("fork")),
}


def run(mechanism, where="inline", **options):
    with EXECUTORS[where]() as executor:
        return audit(
            mechanism,
            **(
                {"claim": "pure:1", "pair": PAIR, "trials": 8_000, "seed": 1, "bits": False}
                | options
            ),
            executor=executor,
        )


REASONS = {
    "keeps state between rounds": (
        "Alternates",
        "EveryThird",
        "Grows",
        "Memoised",
        "MemoisedScalar",
        "Longest",
    ),
    "the same buffer in every call": ("Buffer", "BufferInList"),
    "ignores rng": ("module_generator", "few_seeds"),
}


@pytest.mark.parametrize("where", EXECUTORS)
@pytest.mark.parametrize(
    ("kind", "reason"), [(kind, reason) for reason, kinds in REASONS.items() for kind in kinds]
)
def test_state_is_an_error_on_every_executor(kind, reason, where):
    found = getattr(stateful, kind)
    result = run(found() if isinstance(found, type) else found, where)
    assert result.verdict is Verdict.ERROR
    assert reason in result.notes[0] and result.parameter_lower == 0


def test_state_that_shows_after_the_probe_is_an_error_and_certifies_nothing():
    result = run(stateful.Late(), claim="pure:0.01", trials=40_000)
    assert result.verdict is Verdict.ERROR and "state" in result.notes[0]
    assert result.parameter_lower == 0 and result.witness is None
    assert not any("violation had been certified" in note for note in result.notes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["global_numpy", "global_python", "global_at_times", "system_entropy"]
)
def test_global_generators_give_the_same_counts_on_any_executor(kind):
    """And the caller's own state is left alone; chunks do not share their noise."""
    mechanism = getattr(stateful, kind)
    random.seed(7)
    np.random.seed(7)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    tallies = []
    for where in EXECUTORS:
        result = run(mechanism, where, trials=20_000)
        assert result.verdict is Verdict.NOT_REFUTED and not any(
            "seed" in note for note in result.notes
        )
        tallies.append(result.tally)
    assert tallies[0] == tallies[1] == tallies[2]
    if kind != "global_at_times":
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002
    assert run(mechanism, seed=2).tally != run(mechanism, seed=1).tally


def test_all_known_generators_are_seeded_and_put_back():
    numba = pytest.importorskip("numba")

    @numba.njit
    def compiled():
        return np.random.random()  # noqa: NPY002

    draws = (np.random.random, random.random, compiled)
    compiled()
    before = global_generators.snapshot()
    expected = [draw() for draw in draws]
    global_generators.restore(before)
    inside = []
    for words in ([1, 2, 3, 4], [1, 2, 3, 4], [5, 2, 3, 4]):
        with global_generators.seeded(words):
            inside.append([draw() for draw in draws])
    assert [draw() for draw in draws] == expected
    assert inside[0] == inside[1] and not set(inside[0]) & set(inside[2])
    for draw in draws:
        shown = global_generators.fingerprint()
        draw()
        assert global_generators.fingerprint() != shown


@pytest.mark.parametrize("kind", ["Memoised", "Buffer", "BufferInList", "module_generator"])
def test_state_is_an_error_in_worker_processes_too(kind):
    mechanism = Isolated(stateful.__file__, kind)
    try:
        result = run(mechanism, trials=4_000)
    finally:
        mechanism.close()
    assert result.verdict is Verdict.ERROR
    assert any(
        reason in result.notes[0]
        for reason in ("keeps state between rounds", "the same buffer in every call")
    )
