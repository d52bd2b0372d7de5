"""State, ignored generators and global generators: found, named, and the same on every executor."""

import random
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from dpwitness import Pair, Target, Verdict, audit
from dpwitness.auditors.audit.probe import _CALL_RUNS, _run_probe_stage
from dpwitness.auditors.events.outputs import encode
from dpwitness.auditors.workers.engine import Inline, Phase, Stage, outputs, stream
from dpwitness.auditors.workers.fitness import RepeatDetector, check_training, mark
from dpwitness.mechanisms.wrappers.programs.inside import global_generators
from dpwitness.mechanisms.wrappers.programs.target import Isolated

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


def test_the_order_of_the_datasets_is_random():
    """64 chunks; D1 first in 10 to 54 of them but for probability 2e-8."""
    seen = []

    def watches(dataset, size, rng):
        seen.append(dataset[0])
        return rng.random(size)

    list(outputs(Stage(watches, PAIR, 1, (1, 0, Phase.TRAIN), 6_400, 100, 60.0), Inline()))
    first = sum(side == 1.0 for side in seen[::2])
    assert len(seen) == 128 and 10 <= first <= 54


def test_lists_whose_longest_differs_between_batches_are_no_state():
    """One output is one in batches of any width. Compared by their padding, runs of a batch looked
    alike: 7 of 60 audits were ERROR.
    """

    def lists(longest):
        rng = np.random.default_rng(longest)
        return encode(
            [[1.0] * min(int(n), longest) for n in rng.integers(1, 3, 500)] + [[1.0] * longest], 501
        )

    check_training([(lists(longest), lists(longest)) for longest in range(2, 14)])


def test_a_mechanism_without_a_seed_may_say_so():
    def unseeded(dataset, size, rng):
        return stateful.system_entropy(dataset, size, rng)

    unseeded.seeded = False
    result = run(unseeded, confidence=1 - 1e-9)  # its noise is new each time
    assert result.verdict is Verdict.NOT_REFUTED
    assert any("not reproducible" in note for note in result.notes)


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


def test_a_chunk_not_seen_to_draw_from_a_global_generator_leaves_anothers_stream_alone():
    """The second chunk waits amid its draws for the first one to draw; without turns the first
    takes numbers from the second's stream.
    """
    amid, drawn = threading.Event(), threading.Event()

    def mechanism(dataset, size, rng):
        if threading.current_thread().name.startswith("second"):
            head = np.random.random(size // 2)  # noqa: NPY002
            amid.set()
            drawn.wait(0.3)
            return np.concatenate([head, np.random.random(size - size // 2)])  # noqa: NPY002
        amid.wait(0.3)
        found = np.random.random(size)  # noqa: NPY002
        drawn.set()
        return found

    stage = Stage(mechanism, PAIR, 1, (1, 0, Phase.TRAIN), 200, 100, 60.0)
    with ThreadPoolExecutor(1, "first") as first, ThreadPoolExecutor(1, "second") as second:
        unseen = first.submit(stage.sample, 0)
        together = second.submit(replace(stage, shared=True).sample, 1).result()
        unseen.result()
        alone = second.submit(replace(stage, shared=True).sample, 1).result()
    assert all(np.array_equal(a.values, b.values) for a, b in zip(together, alone, strict=True))


def test_two_probes_at_a_time_restore_the_callers_generators():
    """A late probe is run twice. Without the lock, the second would begin amid the first's seeded
    draws, end last, and restore those.
    """
    amid, first_ended = threading.Event(), threading.Event()

    def mechanism(dataset, size, rng):
        found = np.random.random(size)  # noqa: NPY002
        amid.set()
        if threading.current_thread().name.startswith("first"):
            first_ended.wait(0.1)  # for the second to begin
        elif size == _CALL_RUNS:  # runs between chunks
            first_ended.wait(30)
        return found

    stage = Stage(mechanism, PAIR, 1, (1, 0, Phase.PROBE), 100, 100, 60.0)
    np.random.seed(7)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    with ThreadPoolExecutor(1, "first") as first, ThreadPoolExecutor(1, "second") as second:
        probes = [first.submit(_run_probe_stage, stage, True)]
        probes[0].add_done_callback(lambda _: first_ended.set())
        amid.wait()
        probes.append(second.submit(_run_probe_stage, stage, True))
        assert all(probe.result().shared for probe in probes)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "globally.py"
    path.write_text(
        "import numpy as np\n\ndef noise(dataset, size, rng):\n    return np.random.random(size)\n"
    )
    found = Target(str(path), "noise")
    yield found
    found.close()


def test_workers_of_targets_seed_their_global_generators(target):
    """A target that draws from np.random gives other noise for each seed, and the same in another
    worker.
    """
    first, other = (target.sample(None, 5, np.random.default_rng(seed)) for seed in (1, 2))
    target.close()
    assert np.array_equal(
        first, target.sample(None, 5, np.random.default_rng(1))
    ) and not np.array_equal(first, other)


def test_a_batch_in_this_process_draws_from_global_generators_as_in_a_worker(target):
    worker = target.sample(None, 5, np.random.default_rng(1))
    np.random.seed(3)  # noqa: NPY002
    global_generators.seed_batch(np.random.default_rng(1))  # outside of `seeded` nothing is touched
    assert np.random.random() == np.random.RandomState(3).random_sample()  # noqa: NPY002
    with global_generators.seeded([1, 2, 3, 4]):
        global_generators.seed_batch(np.random.default_rng(1))
        assert np.array_equal(np.random.random(5), worker)  # noqa: NPY002


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


def test_marks_are_of_sequences_that_chance_does_not_repeat():
    numbers, bits = stream(1).random(300), stream(1).integers(2, size=300)
    assert (
        mark(encode(numbers, 300)) == mark(encode(np.append(numbers[:250], 0.0), 251)) is not None
    )
    assert mark(encode(bits, 300)) is not None and mark(encode(bits[:200], 200)) is None
    for dull in (
        np.zeros(300),
        np.full(300, np.nan),
        (np.arange(300) == 7).astype(float),
        [None] * 300,
    ):
        assert mark(encode(dull, 300)) is None
    seen = RepeatDetector()
    # memory stays: 2^15 marks at most
    assert not any(seen.add((int(value),)) for value in range(100_000))
    assert seen.add((99_968,))  # a multiple of the step


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
