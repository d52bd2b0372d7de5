"""Calls of a mechanism, in batches or one round at a time; and the rules for counting a call that
raises an exception.

**Assumption about a mechanism.** For every n, ``run(dataset, n, rng)`` draws n independent outcomes
of one distribution, values and exceptions. The call returns the outcomes if none is an exception,
and raises if one is. An exception is an output, so M(D) is the distribution of ``run(dataset, 1,
rng)``.

A batch that raises shows that one of its outcomes is an exception, but not which. Running the batch
again would draw new rounds exactly where one of n raised: exceptions of probability p would be
counted with p (1 - (1 - p)^n). Leaving the batch out would count the others given that no exception
occurred. Hence two rules. If earlier stages have seen a batch raise, a stage runs its rounds one at
a time from its start (`Stage.single`), and each round is counted by its own first draw. A batch
that raises for the first time in a test is **lost**: none of its rounds is run again, all count as
wrong guesses, and the later rounds of the stage are run one at a time.

**Theorem.** A certificate of counts with lost rounds is valid at its level, at all interim looks
together.

*Proof.* Let y_1, ..., y_N be the outcomes of the N rounds, including lost ones. By the assumption
they are independent with y_i ~ M(D_{b_i}). The decision to run later rounds one at a time depends
on earlier rounds only, and does not change their distribution. Let C*, W* be the numbers of right
and wrong guesses among all y_i, C and W those among the observed rounds, and K the number of lost
rounds. Then C* >= C, W* <= W + K and C* + W* >= C + W. The Clopper-Pearson limits of `certificate`
increase with successes and decrease with failures, so

    theta_L(C, W + K) <= theta_L(C*, W*)    and    s_L(C + W of N) <= s_L(C* + W* of N),

and the parameter increases with both. So the reported parameter at any look is at most what the
full counts would have certified there. The latter exceeds the truth at some look with probability
alpha at most.  []

**Stage.** The rounds of one phase on one pair run in chunks with independent random streams. The
results of a chunk are a function of (seed, audit, pair, phase, chunk) only. So the counts of a run
do not depend on the number of workers, on the order or speed of their answers, or on interruptions.
The plan is a formula: chunk i holds rounds i c, ..., (i + 1) c - 1, and segment k of S begins with
chunk floor(k n / S). Within a segment counts are only added; interim looks are between segments.

A lock keeps chunks apart that draw from the process's global generators: either one chunk draws
from them, or any number of chunks run for which no draw from them is known.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import NDArray

from dpwitness.auditors.events.outputs import Outputs, encode
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols import ForeignMechanism, MechanismFailed, Parts
from dpwitness.mechanisms.wrappers.programs.inside.target_runs import copied, joined
from dpwitness.mechanisms.wrappers.recording import global_generators

Run = Callable[[Any, int, Generator], Any]

NOTHING = Outputs(np.empty((0, 1)), np.empty(0))  # outputs of no runs


def is_builtin_mechanism(run: Run) -> bool:
    """Return whether `run` is the method of a dpwitness mechanism, which draws only from `rng` and
    returns new arrays; not if it calls a function of the user.
    """
    owner = getattr(run, "__self__", None)
    return type(owner).__module__.startswith("dpwitness.") and not getattr(
        owner, "calls_user", False
    )


def batch(run: Run, dataset: Any, size: int, rng: Generator) -> Outputs | None:
    """Return the encoded outputs of `size` runs in one call; None if the call raises.

    An exception of a single run is its output.
    """
    if size == 0:
        return NOTHING
    try:
        raw = _call(run, dataset, size, rng)
    except Exception as error:
        _raise_unless_output(error)
        return encode([error], 1) if size == 1 else None
    encoded = encode(raw, size)
    if (
        isinstance(raw, np.ndarray)
        and np.may_share_memory(encoded.values, raw)
        and not is_builtin_mechanism(run)
    ):
        return encoded.copied()  # the mechanism may reuse its buffer
    return encoded


def singles(
    run: Run, datasets: Sequence[Any], sides: NDArray[np.int64], rngs: Sequence[Generator]
) -> list[Outputs]:
    """Return the encoded outputs on each dataset of runs one at a time; `sides` lists the dataset
    of each run in order.
    """
    worker, sizes = getattr(run, "__self__", None), np.bincount(sides, minlength=len(datasets))
    found: list[Any] = [[] for _ in datasets]
    if isinstance(worker, ForeignMechanism) and run.__name__ == "sample":
        # its process runs one dataset after the other
        for side in dict.fromkeys(sides.tolist()):
            found[side] = worker.sample_each(datasets[side], int(sizes[side]), rngs[side])
    else:
        for side in sides.tolist():
            found[side].append(_single(run, datasets[side], rngs[side]))
        found = [Parts(joined(each)) for each in found]
    return [
        encode(each, int(size)) if size else NOTHING
        for each, size in zip(found, sizes, strict=True)
    ]


def _single(run: Run, dataset: Any, rng: Generator) -> Any:
    """Return the output of one run, or its exception, as a sequence of one output."""
    try:
        raw = _call(run, dataset, 1, rng)
    except Exception as error:
        _raise_unless_output(error)
        return [error.with_traceback(None)]
    sized = isinstance(raw, list | tuple) or (isinstance(raw, np.ndarray) and raw.ndim)
    if not sized or len(raw) != 1:
        encode(raw, 1)  # raises WrongShape unless it is one output
    return copied(raw)


def run_side(run: Run, dataset: Any, size: int, rng: Generator) -> Outputs:
    """Return the encoded outputs of `size` runs on one dataset; a batch that raises is run again
    one at a time.

    The outputs must not be used for counts that certify, see the module's docstring.
    """
    encoded = batch(run, dataset, size, rng)
    return (
        singles(run, [dataset], np.zeros(size, dtype=np.int64), [rng])[0]
        if encoded is None
        else encoded
    )


def _call(run: Run, dataset: Any, size: int, rng: Generator) -> Any:
    """Return the outputs of a call, in this process only: a forked child that returns from the call
    as well must not continue the audit.
    """
    process = os.getpid()
    try:
        return run(dataset, size, rng)
    finally:
        if os.getpid() != process:
            os._exit(0)


def _raise_unless_output(error: Exception) -> None:
    """Raise MechanismFailed if the error is not an output: a failed mechanism, or running out of
    memory.
    """
    if isinstance(error, MechanismFailed):
        raise error
    if isinstance(error, MemoryError):
        raise MechanismFailed(f"the mechanism ran out of memory: {error}".rstrip(": ")) from None


class GlobalGeneratorLock:
    """Lock that keeps chunks that seed the global generators separate from all other chunks.

    A chunk that unexpectedly draws from the global generators would take numbers from another
    chunk's seeded stream. When the other chunk restores the generators, the draw could not be
    detected.
    """

    def __init__(self) -> None:
        self.free = threading.Condition()
        self.watched = self.wanted = 0
        self.holder: int | None = None  # the thread that seeds the generators
        self.abandoned = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hold the lock for a chunk that is not known to draw from the global generators; chunks
        waiting to seed them go first.
        """
        with self.free:
            self.free.wait_for(lambda: self.holder is None and not self.wanted)
            self.watched += 1
        try:
            yield
        finally:
            with self.free:
                self.watched -= 1
                self.free.notify_all()

    @contextmanager
    def seeding(self) -> Iterator[None]:
        """Hold the lock exclusively, for work that draws from the global generators; a thread may
        hold it several times. Raise RuntimeError in an abandoned task.

        An abandoned task that wakes up finds generators that others have used, and must not seed
        them.
        """
        if self.abandoned:
            raise RuntimeError("the task took too long and was abandoned")
        if self.holder == threading.get_ident():
            yield
            return
        with self.free:
            self.wanted += 1
            self.free.wait_for(lambda: self.holder is None and not self.watched)
            self.wanted -= 1
            self.holder = threading.get_ident()
        try:
            yield
        finally:
            with self.free:
                self.holder = None
                self.free.notify_all()


_PROCESS_LOCK = [GlobalGeneratorLock()]
_THREAD_STATE = threading.local()


def current_lock() -> GlobalGeneratorLock:
    """Return the lock of the task that this thread runs, or else of this process."""
    lock: GlobalGeneratorLock | None = getattr(_THREAD_STATE, "lock", None)
    return lock or _PROCESS_LOCK[0]


@contextmanager
def task_lock() -> Iterator[None]:
    """Use one lock for all chunks of a task.

    After `reset_generator_lock`, an abandoned task keeps its old lock, so its later chunks do not
    block other tasks.
    """
    _THREAD_STATE.lock = current_lock()
    try:
        yield
    finally:
        _THREAD_STATE.lock = None


def reset_generator_lock() -> None:
    """Replace the process's lock, because its holders hang: their tasks are abandoned."""
    _PROCESS_LOCK[0].abandoned = True
    _new_process_lock()


def _new_process_lock() -> None:
    """Replace the process's lock, because its holders are not in this process."""
    _PROCESS_LOCK[0] = GlobalGeneratorLock()


os.register_at_fork(after_in_child=_new_process_lock)


_SEED_WORDS = 3  # 64-bit words that seed an SFC64


def audit_key(name: str) -> int:
    """Return a 64-bit number for an audit's name, the same in every process."""
    return int.from_bytes(
        hashlib.blake2b(name.encode(errors="backslashreplace"), digest_size=8).digest()
    )


def stream(seed: int, *key: int) -> Generator:
    """Return the generator of a seed and a key."""
    return Generator(SFC64(SeedSequence(entropy=seed, spawn_key=key)))


class _FixedSeed(ISpawnableSeedSequence):
    """Seed of one generator from given words: faster than one SeedSequence per generator, which
    would dominate the cost of a chunk.
    """

    __slots__ = ("words",)

    def __init__(self, words: NDArray[Any]) -> None:
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        if n_words == _SEED_WORDS and np.dtype(dtype) == np.uint64:
            return self.words
        return SeedSequence(self.words.tolist()).generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        return SeedSequence(self.words.tolist()).spawn(n_children)


def streams(seed: int, key: tuple[int, ...], count: int) -> tuple[list[Generator], list[int]]:
    """Return `count` generators of one key from one seed sequence, and four further
    32-bit words.
    """
    words = SeedSequence(entropy=seed, spawn_key=key).generate_state(
        _SEED_WORDS * count + 2, np.uint64
    )
    seeds: list[Any] = [
        _FixedSeed(words[_SEED_WORDS * i : _SEED_WORDS * (i + 1)]) for i in range(count)
    ]
    generators = [Generator(SFC64(seed)) for seed in seeds]
    return generators, words[-2:].view(np.uint32).tolist()


Sides = tuple[Outputs | None, Outputs | None]
T = TypeVar("T")


class Phase:
    """Phase numbers in the keys of the random streams; extensions of a test use numbers after the
    last.
    """

    (
        PROBE,
        PILOT,
        SECOND_PILOT,
        TRAIN,
        TEST,
        BIT_TRAIN,
        BIT_TEST,
        TIMING,
        SCORES,
        SECOND_BIT_TRAIN,
        FIRST_TEST,
        EXTENSION,
    ) = range(12)
    SEARCH, MORE_CALLS, FRESH = 250, 251, 252  # no store holds them
    THIRD_BIT_TRAIN, THIRD_PILOT, CAUSES = 253, 254, 255  # the largest numbers that a store holds


@dataclass(frozen=True, slots=True)
class Stage:
    """Rounds of one phase on one pair, divided into chunks and segments."""

    # ``run(dataset, size, rng)``; must be picklable if the executor uses processes
    run: Callable[[Any, int, Generator], Any]
    pair: Pair
    seed: int  # root seed
    key: tuple[int, int, int]  # (audit, pair, phase)
    rounds: int  # number of all rounds
    chunk: int  # rounds per chunk; the last chunk may be shorter
    time_limit: float  # of one chunk, in seconds; ten times the expected duration if that is longer
    # whether rounds run one at a time, because a batch raised in an earlier stage (see `rounds`)
    single: bool = False
    # whether the mechanism drew from a global generator in an earlier stage. If so, it runs in one
    # thread at a time. In other stages, a chunk that draws from a global generator is run again in
    # this way, with the same streams. The decision does not depend on its outputs.
    shared: bool = False

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.rounds // self.chunk)

    @property
    def segments(self) -> int:
        """Number of segments, at most 1024."""
        return min(self.chunks, 1024)

    def segment(self, index: int) -> int:
        """Return the segment that contains a chunk."""
        return ((index + 1) * self.segments - 1) // self.chunks

    def end(self, segment: int) -> int:
        """Return the first chunk after a segment."""
        return (segment + 1) * self.chunks // self.segments

    @property
    def marked(self) -> int:
        """Divisor of the marks that are stored (see `fitness`), so that long stages store a
        bounded number.
        """
        # a stage has about 2^15 marks at most
        return int(2 ** max(0, (2 * self.chunks // 2**15).bit_length()))

    def size(self, first: int, last: int | None = None) -> int:
        """Return the number of rounds in chunk `first`, or in chunks first, ..., last - 1."""
        last = first + 1 if last is None else last
        return min(last * self.chunk, self.rounds) - first * self.chunk

    def sample(self, index: int) -> Sides:
        """Run a chunk and return its outputs on D1 and on D0; None for a batch that raised.

        A fair coin flip for each round chooses the dataset.
        """
        return self.run_seeded(index, lambda: self.flip(index)[0])

    def run_seeded(self, index: int, work: Callable[[], T]) -> T:
        """Return `work()` for a chunk, after seeding the global generators if `work` draws from
        them.

        If `work` turns out to draw from unseeded global generators, `work` is run again after
        seeding.
        """
        if is_builtin_mechanism(self.run):
            return work()
        if not self.shared:
            with current_lock().watching():
                before = global_generators.fingerprint()
                result = work()
                untouched = global_generators.fingerprint() == before
            if untouched:
                return result
        with self.globally_seeded(index):
            return work()

    @contextmanager
    def globally_seeded(self, index: int) -> Iterator[None]:
        """Seed the global generators for a chunk and lock them for this thread."""
        _, words = self.streams(index)
        with current_lock().seeding(), global_generators.seeded(words):
            yield

    def streams(self, index: int) -> tuple[list[Generator], list[int]]:
        """Return the chunk's generators (coin flips, rounds on D1, rounds on D0), and words that
        seed the global generators.
        """
        return streams(self.seed, (*self.key, index), 3)

    def sides(
        self, index: int
    ) -> tuple[tuple[int, int], tuple[int, ...], list[Generator], Generator]:
        """Return the plan of a chunk.

        The plan consists of the numbers of rounds on (D1, D0), the order of the datasets (0 is D1),
        the generators of both, and the generator of the coin flips. The order is random, so that
        state kept from call to call does not distinguish the datasets.
        """
        (coins, *rngs), _ = self.streams(index)
        size = self.size(index)
        ones = int(coins.binomial(size, 0.5))
        return (ones, size - ones), (0, 1) if coins.random() < 0.5 else (1, 0), rngs, coins

    def flip(self, index: int) -> tuple[Sides, list[Generator]]:
        """Run a chunk and return its outputs (see `sample`), and the generators of its rounds in
        their final state.
        """
        sizes, order, rngs, coins = self.sides(index)
        datasets = (self.pair.d1, self.pair.d0)
        if self.single:
            turns = coins.permutation(np.repeat([0, 1], sizes))
            one, zero = singles(self.run, datasets, turns, rngs)
            return (one, zero), rngs
        result = dict[int, Outputs | None]()
        for side in order:
            global_generators.seed_batch(rngs[side])
            result[side] = batch(self.run, datasets[side], sizes[side], rngs[side])
        return (result[0], result[1]), rngs
