"""Conformance test of a program: every message and every error of the protocol, step by step, with
one line per fault.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.core.claims import parse_claim
from dpwitness.core.domains import build_domain
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.validation import InvalidArgument, error_text
from dpwitness.mechanisms.wrappers.programs.program import (
    PROTOCOL,
    Program,
    ProgramSlot,
    Sent,
    dataset_json,
    excerpt,
    line_of,
    parse_message,
    run_line,
    sent_as,
)
from dpwitness.mechanisms.wrappers.programs.worker_process import CACHE_SIZE, WorkerDied

# the second needs unsigned 32-bit integers
_SEED, _OTHER_SEED = (1, 2, 3, 4), (2**32 - 1, 2**31, 2**32 - 3, 2**31 + 7)
_ROWS = 1000
_MAX_PRINTED = 2**20  # most bytes on standard error
_END = 5.0  # seconds within which a program must end after its standard input has ended
# largest number of a dataset; the worker class does not assign it in this test
_DATASET_NUMBER = CACHE_SIZE - 1
_AHEAD = range(1, 65)  # sizes of requests that are sent at once
_MAX_PAIRS = 4  # pairs of a domain's catalogue; at least one of them must change an answer


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one step: `status` is ``ok``, ``wrong`` or ``skipped``."""

    step: str
    status: str
    reason: str = ""


class _Wrong(Exception):
    """Error of a step that failed; the text is one sentence."""


class _Skip(Exception):
    """Signal that a step does not apply; the text is the reason."""


def check_protocol(
    slot: ProgramSlot, pair: tuple[Any, Any] | None = None, time_limit: float = 10.0
) -> Iterator[Finding]:
    """Test a program for conformance with the protocol, and yield the finding of each step.

    Parameters
    ----------
    slot : Command
        Worker slot of the program.
    pair : tuple, optional
        Two datasets that the program reads. Default: datasets of the domain in its hello, otherwise
        ``[0.0]`` and ``[1.0]``.
    time_limit : float
        Time limit of each answer in seconds.
    """
    exam = _ConformanceTest(slot, pair, time_limit)
    try:
        yield from exam.findings()
    finally:
        exam.close()


class _ConformanceTest:
    """Test steps in order. The program is started again after a step in which it ended."""

    def __init__(self, slot: ProgramSlot, pair: tuple[Any, Any] | None, time_limit: float) -> None:
        self.slot, self.pair, self.limit = slot, pair, time_limit
        self.running: Program | None = None
        self.chosen: list[tuple[Any, Any]] = []
        self.printed = 0
        self.answers: dict[str, Any] = {}

    def findings(self) -> Iterator[Finding]:
        """Yield the finding of each step; stop after a failed hello or first run."""
        for name, step in self.steps():
            found = self.tried(name, step)
            yield found
            if found.status == "wrong" and step in (self.hello, self.one_run):
                return

    def steps(self) -> list[tuple[str, Callable[[], None]]]:
        """Return the names and functions of all steps."""

        def refusal(what: str, line: bytes) -> tuple[str, Callable[[], None]]:
            return f"says failed: {what}", lambda: self.refused(what, line)

        run = {"op": "run", "dataset": _DATASET_NUMBER, "size": 1, "seed": list(_SEED)}
        return [
            ("says hello", self.hello),
            ("claim and domain", self.promise),
            ("answers a run", self.one_run),
            ("sizes 1, 2 and 65536", self.sizes),
            ("numbers are little-endian", self.numbers),
            ("same seed, same answer", self.same_seed),
            ("other seed, other answer", self.other_seed),
            ("same answer after other requests", self.no_memory),
            ("same answer in a fresh process", self.fresh),
            ("a second dataset", self.second),
            ("other data, other answer", self.other_data),
            ("a dataset in JSON", self.in_json),
            ("a dataset in place of another", self.replaced),
            ("a dataset of 100,000 rows", self.large),
            ("no records, NaN and infinities", self.special),
            ("requests ahead of answers", self.ahead),
            refusal("a size of 0", line_of(run | {"size": 0})),
            refusal("a size of -1", line_of(run | {"size": -1})),
            refusal("a dataset that was never sent", line_of(run | {"dataset": 7})),
            refusal("an unknown operation", line_of(run | {"op": "dance"})),
            refusal("a line that is not valid JSON", b"run 1\n"),
            ("standard error", self.errors),
            ("ends with its input", self.end),
        ]

    def tried(self, name: str, step: Callable[[], None]) -> Finding:
        """Return the finding of one step, including a check for unrequested output."""
        try:
            step()
            if self.running is not None:
                # seconds to wait for unrequested output
                time.sleep(0.03)
                self.running.within(self.limit, self.running.quiet)
                self.look()
            return Finding(name, "ok")
        except _Skip as reason:
            return Finding(name, "skipped", str(reason))
        except (_Wrong, MechanismFailed, WorkerDied, InvalidArgument) as error:
            self.close()
            return Finding(name, "wrong", str(error))

    @property
    def program(self) -> Program:
        """Running program, started if necessary."""
        if self.running is None:
            self.running = Program(self.slot, self.limit)
        return self.running

    def close(self) -> None:
        """End the process. The next step starts a new one."""
        program, self.running = self.running, None
        if program is not None:
            self.look(program)
            program.close()

    def look(self, program: Program | None = None) -> None:
        """Update the number of bytes on standard error."""
        program = program or self.running
        if program is not None:
            with contextlib.suppress(OSError, ValueError):
                self.printed = max(self.printed, program.printed)

    def data(self, which: int = 0) -> Sent:
        """Return one of the two datasets in the form in which it is sent."""
        return sent_as(self.datasets()[which])

    def datasets(self) -> tuple[Any, Any]:
        """Return the first pair of datasets."""
        return self.pairs()[0]

    def pairs(self) -> list[tuple[Any, Any]]:
        """Return pairs of datasets: from the program's domain, the given pair, or the default."""
        if not self.chosen:
            domain = self.program.about["domain"]
            known = [] if domain is None or self.pair else build_domain(domain, "hello").catalogue()
            found = islice(((pair.d0, pair.d1) for pair in known if pair is not None), _MAX_PAIRS)
            self.chosen = list(found) or [self.pair or (np.array([0.0]), np.array([1.0]))]
        return self.chosen

    def ask(self, seed: tuple[int, ...] = _SEED, size: int = _ROWS, dataset: Any = None) -> Any:
        """Return the answer to one request."""
        return self.program.run(dataset or self.data(), [size], [seed], self.limit)[0]

    def hello(self) -> None:
        """Test the protocol version of the hello."""
        assert self.program.about["protocol"] == PROTOCOL

    def promise(self) -> None:
        """Test that claim and domain of the hello can be parsed."""
        about = self.program.about
        if about["claim"] is None and about["domain"] is None:
            raise _Skip("hello has neither; pass them to audits by --claim, --d0 and --d1")
        if about["claim"] is not None:
            parse_claim(about["claim"])
        if about["domain"] is not None:
            build_domain(about["domain"], "hello")

    def one_run(self) -> None:
        """Test that a run on the first dataset gives outputs."""
        self.answers["first"] = self.ask()
        if isinstance(self.answers["first"], Exception):
            error = self.answers["first"]
            raise _Wrong(
                f"raised {error_text(error)} on its own domain's dataset; other datasets: "
                "--d0 and --d1"
            )

    def sizes(self) -> None:
        """Test batches of 1, 2 and 65536 runs."""
        for size in (1, 2, 2**16):
            self.ask(size=size)

    def numbers(self) -> None:
        """Test that blocks hold little-endian numbers of the stated type."""
        found = self.answers["first"]
        if not isinstance(found, np.ndarray):
            raise _Skip("it answers in lines")
        description = _apparent_type(found)
        if description:
            raise _Wrong(
                f"hello and header declare {found.dtype.name}, the bytes look like {description}"
            )

    def same_seed(self) -> None:
        """Test that one seed gives one answer."""
        again = self.ask()
        if not self.program.about["seedable"]:
            if _same(again, self.answers["first"]) and _has_distinct_outputs(again):
                raise _Wrong(
                    "two runs of a program that takes no seed gave the same outputs: each "
                    "run must draw fresh noise"
                )
            raise _Skip("hello declares that the program takes no seed")
        if not _same(again, self.answers["first"]):
            raise _Wrong("one seed gave two answers, although hello declares the program seedable")

    def other_seed(self) -> None:
        """Test that different seeds give different answers, and that the runs of a batch differ."""
        self.needs_seed()
        one, other = self.answers["first"], self.ask(_OTHER_SEED)
        if _same(other, one) and _has_distinct_outputs(one):
            raise _Wrong(
                "two seeds gave one answer: the seed is ignored, although hello declares the "
                "program seedable"
            )
        if (
            not _same(other, one)
            and not _has_distinct_outputs(one)
            and not _has_distinct_outputs(other)
        ):
            raise _Wrong(
                f"{_ROWS} runs of a request gave the same output, which changes with the "
                "seed: runs must be independent"
            )
        used = sum(
            not _same(self.ask(tuple(word + (i == place) for i, word in enumerate(_SEED))), one)
            for place in range(4)
        )
        # with one 32-bit word, two of an audit's many batches could get the same seed
        if _has_distinct_outputs(one) and used < 2:
            raise _Wrong(
                f"{used} of the four words of a seed change an answer; all four should, and "
                "at least two must"
            )

    def no_memory(self) -> None:
        """Test that other requests in between do not change an answer."""
        self.needs_seed()
        self.ask(_OTHER_SEED, 7)
        self.ask(_OTHER_SEED, 3, self.data(1))
        if not _same(self.ask(), self.answers["first"]):
            raise _Wrong(
                "the same seed gave another answer after other requests: state is kept between them"
            )

    def fresh(self) -> None:
        """Test that a fresh process gives the same answer."""
        self.close()
        same = _same(self.ask(), self.answers["first"])
        if (
            not self.program.about["seedable"]
            and same
            and _has_distinct_outputs(self.answers["first"])
        ):
            raise _Wrong(
                "two processes of a program that takes no seed gave the same outputs: each "
                "process must use a new seed"
            )
        self.needs_seed()
        if not same:
            raise _Wrong("the same seed gave another answer in a fresh process")

    def needs_seed(self) -> None:
        """Skip the step if the program takes no seed."""
        if not self.program.about["seedable"]:
            raise _Skip("hello declares that the program takes no seed")

    def second(self) -> None:
        """Test that a second dataset does not change the answer on the first one."""
        self.ask(dataset=self.data(1))
        if self.program.about["seedable"] and not _same(self.ask(), self.answers["first"]):
            raise _Wrong("the first dataset gave another answer once there was a second one")

    def other_data(self) -> None:
        """Test that the datasets change the answer."""
        self.needs_seed()
        if all(
            _same(self.ask(dataset=sent_as(data)), self.answers["first"])
            for pair in self.pairs()
            for data in pair
        ):
            raise _Wrong(
                "other datasets gave the same answer: are they read? Give datasets with "
                "different answers by --d0 and --d1"
            )

    def in_json(self) -> None:
        """Test that a dataset in JSON gives the same answer as in float64."""
        data = self.datasets()[0]
        if len(self.program.about["datasets"]) < 2 or not isinstance(data, np.ndarray):
            raise _Skip("it reads one encoding only, or its datasets are not arrays")
        found = self.ask(dataset=Sent(b"in JSON", None, dataset_json(data)))
        if self.program.about["seedable"] and not _same(found, self.answers["first"]):
            raise _Wrong(
                "a dataset in JSON gave another answer than the same one as float64, though "
                "hello names both"
            )

    def replaced(self) -> None:
        """Test that a dataset that is sent under a used number replaces the old one."""
        for which in (1, 0):
            found = self.raw(
                [*self.message(self.data(which)), run_line(_DATASET_NUMBER, _ROWS, _SEED)], _ROWS
            )
        if self.program.about["seedable"] and not _same(found, self.answers["first"]):
            raise _Wrong("a dataset that was sent under a used number did not replace the old one")

    def large(self) -> None:
        """Test a dataset of 100,000 rows."""
        data = self.datasets()[0]
        if not isinstance(data, np.ndarray) or not data.ndim or not len(data):
            raise _Skip("its datasets are not arrays")
        self.ask(size=1, dataset=sent_as(np.resize(data, (100_000, *data.shape[1:]))))

    def special(self) -> None:
        """Test datasets without records, and with NaN and infinities."""
        data = self.datasets()[0]
        if not isinstance(data, np.ndarray) or data.dtype.kind != "f" or not data.ndim:
            raise _Skip("its datasets are not arrays of floats")
        for changed in (
            data[:0],
            *(np.full_like(data, value) for value in (np.nan, np.inf, -np.inf)),
        ):
            self.ask(size=2, dataset=sent_as(changed))

    def ahead(self) -> None:
        """Test many requests that are sent before the answers are read."""
        requests = b"".join(run_line(_DATASET_NUMBER, size, _OTHER_SEED) for size in _AHEAD)
        self.raw([*self.message(self.data()), requests], _AHEAD[0])
        for size in _AHEAD[1:]:
            self.program.within(self.limit, partial(self.program.answer, size))

    def refused(self, what: str, line: bytes) -> None:
        """Test that an invalid request is answered with `failed`, and the next request as usual."""
        parts = self.message(self.data())
        try:
            found = self.raw([*parts, line], 1, any_size=True)
        except MechanismFailed:
            found = None
        if found is not None:
            raise _Wrong(f"answered {excerpt(repr(found))} to {what}, the answer must be failed")
        self.raw([run_line(_DATASET_NUMBER, 2, _SEED)], 2)

    def errors(self) -> None:
        """Test that the program prints little on standard error."""
        self.look()
        if self.printed > _MAX_PRINTED:
            raise _Wrong(
                f"wrote {self.printed} bytes to standard error, more than {_MAX_PRINTED}: "
                "printing costs time"
            )

    def end(self) -> None:
        """Test that the program ends with exit code 0 after its standard input has ended."""
        self.ask(size=2)
        program, self.running = self.program, None
        try:
            code, rest = _finish(program, _END)
        finally:
            program.close()
        if code is None:
            raise _Wrong(f"still runs {_END:g} s after its standard input has ended")
        if code or rest:
            description = f"ended with exit code {code}" if code else f"wrote {rest!r}"
            raise _Wrong(f"{description} once its standard input had ended, after good answers")

    def message(self, sent: Sent) -> list[Any]:
        """Return the protocol message that sends a dataset to the program."""
        return sent.message(_DATASET_NUMBER, self.program.about["datasets"])

    def raw(self, parts: list[Any], size: int, *, any_size: bool = False) -> Any:
        """Return the answer to raw bytes. Datasets sent before may have lost their numbers and are
        sent again.
        """
        program = self.program
        program.stored.clear()

        def talk() -> Any:
            program.quiet()
            program.send(parts)
            if not any_size:
                return program.answer(size)
            head = parse_message(program.line(2**16, "an answer"), "an answer")
            if "failed" in head:
                return None
            self.running = None  # the length of the data after the header is unknown
            program.close()
            return head

        return program.within(self.limit, talk)


def _same(one: Any, other: Any) -> bool:
    """Return whether two answers are equal bit for bit."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    return type(one).__name__ == type(other).__name__ and repr(one) == repr(other)


def _has_distinct_outputs(found: Any) -> bool:
    """Return whether the outputs of an answer differ."""
    return (
        len(
            {row.tobytes() for row in found}
            if isinstance(found, np.ndarray)
            else set(map(repr, found))
        )
        > 1
    )


def _finish(program: Program, time_limit: float) -> tuple[int | None, bytes]:
    """Close the standard input of a program. Return its exit code (None if it still runs) and the
    start of its last output.
    """
    assert program.process.stdin is not None
    program.process.stdin.close()
    try:
        return program.process.wait(time_limit), program.output.read(200)
    except subprocess.TimeoutExpired:
        return None, b""


def _apparent_type(found: NDArray[Any]) -> str:
    """Return the number type that explains the bytes of a block, if the stated type does not;
    otherwise "".
    """
    flat = np.ascontiguousarray(found).reshape(-1)
    flat = flat[np.isfinite(flat) & (flat != 0)]
    if not len(flat) or _is_plausible(flat):
        return ""
    for name, dtype in (
        ("big-endian float64", ">f8"),
        ("big-endian int64", ">i8"),
        ("float64", "<f8"),
        ("int64", "<i8"),
    ):
        if np.dtype(dtype) != found.dtype and _is_plausible(flat.view(dtype)):
            return name
    return ""


def _is_plausible(flat: NDArray[Any]) -> bool:
    """Return whether most numbers are of a common magnitude."""
    with np.errstate(all="ignore"):
        size = np.abs(flat.astype(np.float64))
        usual = (size < 2**53) if flat.dtype.kind == "i" else (size > 1e-60) & (size < 1e60)
    return bool(np.mean(usual) > 0.5)
