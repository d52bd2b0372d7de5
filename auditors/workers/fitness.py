"""Fitness checks of a mechanism: independent rounds, randomness only from the given generator, and
one output shape.

Every check has a false-alarm probability below 1e-9 for a correct mechanism. An alarm makes the
verdict ERROR.

Rounds repeat if noise is cached between calls, or equal in two workers. Each side of a chunk has
a mark: a hash of its first rows. Rows that repeat by chance must have a high probability. No
distribution gives n independent outcomes x a probability above prod_v (n_v / n)^(n_v) = exp(-n
H). Here n_v counts the value v in x and H is the empirical entropy, because the empirical
distribution fits best. A sequence has a mark only if n H >= 52. Then another chunk repeats the
sequence with probability at most e^-52 = 2.6e-23, and any two of a million chunks coincide with
probability 1.3e-11.

**Faults of the environment** are a missing module, file or name, or another version of a library;
like type errors, they are not privacy violations.

The rule: if every run on one dataset raises, the exception separates the datasets. This is still
not evidence about privacy if the code for that dataset could not run at all. This holds for the
exceptions of `_ENVIRONMENT_ERRORS`, for deprecation warnings turned into errors, and for messages
about names and arguments that a library does not have (`_MESSAGES`). ValueError, ZeroDivisionError,
KeyError, AssertionError and all other exceptions depend on the data, and remain findings.
"""

from __future__ import annotations

import builtins
import dataclasses
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from dpwitness.auditors.events.event import Event
from dpwitness.auditors.events.outputs import Outputs, concatenate, row_keys
from dpwitness.auditors.statistics.anytime import log_dependence, mean_evidence, total_evidence
from dpwitness.core.protocols import MechanismFailed
from dpwitness.core.values.object_tree import text_of
from dpwitness.core.values.validation import error_text


class Unfit(MechanismFailed):
    """Raised when rounds do not meet the assumptions of a certificate; counts collected so far
    certify nothing.
    """


_ALARM_PROBABILITY = 1e-10


def same_outputs(a: Outputs, b: Outputs) -> bool:
    """Return whether two encoded batches are equal, with NaN equal to NaN."""
    return (
        len(a) == len(b)
        and a.names == b.names
        and np.array_equal(row_keys(a.matrix()), row_keys(b.matrix()))
    )


def digest(sides: Sequence[Outputs]) -> str:
    """Return a hash of encoded batches."""
    keys = [row_keys(side.matrix()).tobytes() for side in sides]
    return hashlib.blake2b(b"".join(keys), digest_size=12).hexdigest()


def check_training(chunks: Sequence[tuple[Outputs, Outputs]]) -> None:
    """Raise Unfit if training outputs show broken randomness; `chunks` holds a pair (D1, D0) of
    batches for each chunk.
    """
    for side, name in enumerate(("D1", "D0")):
        batches = [chunk[side] for chunk in chunks if len(chunk[side]) > 1]
        check_structure(batches, name)
        if not batches:
            continue
        ends = np.cumsum([len(batch) for batch in batches])
        keys = np.split(row_keys(concatenate(batches).matrix()), ends[:-1])
        for first, second in pairwise(keys):
            n = min(len(first), len(second))
            if (
                np.array_equal(first[:n], second[:n])
                and n - np.unique(first[:n], return_counts=True)[1].max() >= 8
            ):
                raise Unfit(
                    f"mechanism ignores rng: two calls on {name} with different streams "
                    "returned identical outputs"
                )
        constant = all(np.all(key == key[0]) for key in keys)
        calls_differ = len({int(key[0]) for key in keys}) > 1
        if constant and calls_differ and min(map(len, keys)) >= 32:
            raise Unfit(
                f"rounds are not independent: on {name} all runs of one call are equal but "
                "calls differ; draw fresh noise for each run"
            )
        _check_serial(batches, keys, name)


def check_structure(batches: Sequence[Outputs], name: str) -> None:
    """Raise Unfit if arrays from one dataset change their shape or type from call to call."""
    shapes = {batch.names[batch.codes[0]] for batch in batches if len(batch.names) == 1}
    arrays = sorted(shape for shape in shapes if shape.endswith("]"))
    if len(arrays) > 1:
        raise Unfit(
            f"mechanism changed its output between calls on {name}: {' and then '.join(arrays)}"
        )


def _check_serial(
    batches: Sequence[Outputs], keys: Sequence[NDArray[np.uint64]], name: str
) -> None:
    """Raise Unfit if consecutive runs are correlated, or too many different outputs occur equally
    often, but not once.

    The tested signal is whether an output is the most frequent one; if few outputs are equal, it is
    the rank of the first number.
    """
    flat = np.concatenate(keys)[: 2**17]
    values, counts = np.unique(flat, return_counts=True)
    # If outputs are independent and their number is Poisson, an output that occurs has a given
    # number of occurrences above 1 with probability below 0.33, whatever its probability: the
    # maximum of P(N = c) / P(N > 0) over c > 1 and the means of a Poisson number N. A fixed number
    # of outputs multiplies probabilities by sqrt(2 pi n) at most.
    times, outputs = np.unique(counts, return_counts=True)
    most = int(outputs[times > 1].max(initial=0))
    chance = bdtrc(most - 1, len(counts), 0.33) * np.sqrt(2 * np.pi * counts.sum()) * len(times)
    if most and chance < _ALARM_PROBABILITY:
        often = int(times[times > 1][np.argmax(outputs[times > 1])])
        raise Unfit(
            f"rounds are not independent: on {name} {most} of {len(counts)} different "
            f"outputs occur {often} times each"
        )
    if len(flat) < 200:
        return
    if len(values) < len(flat) / 4:
        signal = (flat == values[np.argmax(counts)]).astype(float)
    else:
        numbers = np.concatenate([batch.matrix(1, structure=False)[:, 0] for batch in batches])[
            : len(flat)
        ]
        different, value_index, ties = np.unique(numbers, return_inverse=True, return_counts=True)
        if np.isnan(numbers).any() or len(different) < len(numbers) / 4:
            return
        # equal numbers have equal ranks, independent of their order
        signal = (np.cumsum(ties) - ties / 2)[value_index] / len(numbers)
    signal -= signal.mean()
    spread = float(signal @ signal)
    if spread > 30 and abs(float(signal[:-1] @ signal[1:])) / spread * np.sqrt(len(signal)) > 7:
        raise Unfit(
            f"mechanism keeps state between rounds: neighboring runs on {name} are correlated"
        )


def check_rows(sides: Sequence[Outputs], event: Event) -> None:
    """Raise Unfit if the guesses of an event on (D1, D0) vary between blocks of consecutive rows
    beyond chance.

    The event may be learned from a random half of the rows, because their order is then still
    exchangeable. The random half costs a factor of n + 1 for each dataset, the inverse of the least
    probability of the most probable number of guesses.
    """
    guesses = [event.guess(side.take(np.arange(min(len(side), 2**14)))) for side in sides]
    cells = [
        np.column_stack([guess == value for value in np.unique(np.concatenate(guesses))]).astype(
            float
        )
        for guess in guesses
    ]
    logs, size, fewest = [], 2, min(map(len, cells))
    while size <= fewest // 4:
        blocks = [
            each[: len(each) // size * size].reshape(-1, size, each.shape[1]).sum(axis=1)
            for each in cells
        ]
        logs.append(log_dependence(*blocks))
        size *= 2
    if logs and mean_evidence(logs) - sum(math.log(len(each) + 1) for each in cells) >= -math.log(
        _ALARM_PROBABILITY
    ):
        raise Unfit(
            "rows are not independent: outputs of nearby rows are more alike than those of others"
        )


def check_calls(logs: Sequence[float]) -> float:
    """Raise Unfit if counts vary between calls or processes beyond chance; otherwise return the
    evidence that they do.

    `logs` holds the log-evidence of each stage (`statistics/anytime`), in the order of the
    stages.
    """
    evidence = total_evidence(logs)
    if evidence >= -math.log(_ALARM_PROBABILITY):
        raise Unfit(
            "rounds are not independent: counts vary between calls, or between processes, "
            "more than independent runs allow. The runs of a "
            "call share noise, or the mechanism keeps state or noise between rounds; draw "
            "fresh noise for each run"
        )
    return evidence


def mark(outputs: Outputs) -> int | None:
    """Return a hash of the first rows; None if too few of them differ to distinguish repetition
    from chance.
    """
    # the first length is enough for numbers, the second for labels and bits
    for length in (24, 256):
        if len(outputs) < length:
            return None
        codes, values = outputs.codes[:length], outputs.values[:length]
        # in a set, NaN differs from itself
        different = set(values[:, 0].tolist()) if values.shape[1] else ()
        # some rows are equal, so the entropy decides
        if len(different) < length or np.isnan(values[:, 0]).any():
            keys = row_keys(np.column_stack([codes, values]))
            _, counts = np.unique(keys, return_counts=True)
            if float(np.sum(counts * np.log(length / counts))) < 52.0:
                continue
        content = codes.tobytes() + np.ascontiguousarray(values).tobytes()
        return int.from_bytes(hashlib.blake2b(content, digest_size=16).digest())
    return None


class RepeatDetector:
    """Set of the marks so far (hashes of the first rows of chunks), which detects repeated outputs.
    The memory is constant: a full set keeps only the multiples of the next power of 2.
    """

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self._step = 1

    def add(self, marks: Iterable[int]) -> bool:
        """Add the marks, and return whether one of them was already stored."""
        for value in marks:
            if value % self._step:
                continue
            if value in self.seen:
                return True
            self.seen.add(value)
            if len(self.seen) > 2**15:
                self._step *= 2
                self.seen = {kept for kept in self.seen if kept % self._step == 0}
        return False


_ENVIRONMENT_ERRORS = (
    ImportError,
    NameError,
    OSError,
    MemoryError,
    DeprecationWarning,
    PendingDeprecationWarning,
    FutureWarning,
)
_MESSAGES = re.compile(
    r"module '[\w.]+' has no attribute|'numpy[\w.]*' object has no attribute|partially "
    r"initialized module|"
    r"(unexpected|invalid) keyword argument|"
    r"\b(was|were|has been|have been|is|are) (removed|expired|deprecated and removed) "
    r"(in|from|since)\b|"
    r"\bno longer (available|supported|part)\b|requires? (the )?(package|module|library)\b|"
    r"\bcompiled (using|against) (a|an|the|NumPy|version|module)\b|numpy\.\w+ size changed, "
    r"may indicate binary incompatibility"
)
_TYPE_ERROR_TEXT = re.compile(
    r"NoneType|'\w+' object|unsupported operand|could not convert|must be real number|not "
    r"supported between|\btypes?\b|dtype|"
    r"\bufunc\b|can't multiply|concatenate|invalid literal|expected \w+, got|argument must "
    r"be|must be str|no len\(\)",
    re.IGNORECASE,
)
_FAULT = "this is a fault of the environment, not a violation"
_MISSING = (
    "install the missing package, or a version of the library that has the missing name, and run "
    "again"
)

_HINTS = {  # text of a message -> what to try
    r"No module named '(?P<name>[\w.]+)'": (
        "install the missing package and run again, for example: pip install {name}"
    ),
    r"NumPy [12]\.|\bnumpy\b|\bnp\.": (
        "the NumPy of this interpreter may be too new for the library: try numpy<2, or numpy<1.24 "
        "for names such as np.float, in an environment of its own (--python)"
    ),
    r"No such file or directory": "name the file by its full path, or run in its folder",
    r"has no attribute|is not defined|cannot import|keyword argument": _MISSING,
}


def what_to_try(message: str) -> str:
    """Return advice on an exception of the environment.

    Examples
    --------
    >>> what_to_try("No module named 'torch'").partition(", for ")[2]
    'example: pip install torch'
    """
    found = ((re.search(pattern, message), hint) for pattern, hint in _HINTS.items())
    hints = (hint.format(**match.groupdict()) for match, hint in found if match)
    return f"{_FAULT}: {next(hints, 'repair it and run again')}"


def is_environment_fault(error: BaseException) -> bool:
    """Return whether the environment caused an exception, judged by its class, its message, or its
    cause (`__cause__`).

    Examples
    --------
    >>> errors = AttributeError("module 'numpy' has no attribute 'float'"), ZeroDivisionError("division by zero")
    >>> is_environment_fault(errors[0]), is_environment_fault(errors[1])
    (True, False)
    """  # noqa: E501
    cause = error.__cause__
    return names_environment_fault(type(error), text_of(error, str)) or (
        cause is not None and cause is not error and is_environment_fault(cause)
    )


def names_environment_fault(kind: type | str, text: str) -> bool:
    """Return whether an exception of this class, or class name, with this message indicates a fault
    of the environment.
    """
    name, default = (kind, None) if isinstance(kind, str) else (kind.__name__, kind)
    builtin_class = getattr(builtins, name, default)
    if isinstance(builtin_class, type) and issubclass(builtin_class, _ENVIRONMENT_ERRORS):
        # a NameError that depends on the data: a variable is assigned for some data only
        return not issubclass(builtin_class, UnboundLocalError)
    return _MESSAGES.search(text) is not None


def check_exception_text(where: str, message: str) -> None:
    """Raise MechanismFailed if `message`, such as "ImportError: No module named x", describes an
    exception of the environment.
    """
    kind, _, text = message.partition(": ")
    if names_environment_fault(kind, text):
        raise environment_failure(where, message)


def environment_failure(where: str, message: str) -> MechanismFailed:
    """Return the MechanismFailed to raise for a fault of the environment on the dataset `where`."""
    return MechanismFailed(
        f"mechanism always raises on {where} alone: {message}; {what_to_try(message)}"
    )


def check_imports(sides: Sequence[Outputs]) -> None:
    """Raise MechanismFailed if some runs miss a module or a name, on any branch of the code: that
    is never random.
    """
    names = {name for side in sides for name in side.structures()}
    for name in names & {"raises ImportError", "raises ModuleNotFoundError", "raises NameError"}:
        raise MechanismFailed(f"mechanism {name} in some runs; {_FAULT}: {_MISSING}")


def check_one_sided(
    run: Callable[..., Any], d1: Any, d0: Any, sides: tuple[Outputs, Outputs]
) -> None:
    """Raise MechanismFailed if an exception separates the datasets, but not by their values.

    The check applies if every run of the probe raises on one dataset, but not on both: because of
    the environment, or, if no run on the other raises, with a message about types if the datasets
    differ in type.
    `sides` contains the outputs on D1 and on D0.
    """
    # no records, so no type of records either
    has_empty = any(hasattr(dataset, "__len__") and len(dataset) == 0 for dataset in (d0, d1))
    types_differ = not has_empty and type_of(d0) != type_of(d1)
    raising = [{name.startswith("raises ") for name in side.structures()} for side in sides]
    always = [found == {True} for found in raising]
    if always[0] == always[1]:
        return
    name, dataset, other = ("D1", d1, raising[1]) if always[0] else ("D0", d0, raising[0])
    try:
        run(dataset, 1, np.random.default_rng(0))
    except Exception as error:
        message = error_text(error)
        if is_environment_fault(error):
            raise environment_failure(name, message) from None
        if types_differ and True not in other and _TYPE_ERROR_TEXT.search(message):
            raise MechanismFailed(
                f"mechanism always raises on {name} alone: {message}; that is a type error "
                f"and not a violation: D0 is a {type_of(d0)}, D1 a {type_of(d1)}"
            ) from None


def type_of(dataset: Any) -> str:
    """Return a description of the types in a dataset, independent of its values and sizes.

    Examples
    --------
    >>> type_of([1, None, 2]), type_of({"a": [1.5]})
    ('list of NoneType and int', 'dict of a: list of float')
    """
    if isinstance(dataset, np.ndarray):
        return f"array of {'texts' if dataset.dtype.kind == 'U' else dataset.dtype.name}"
    if isinstance(dataset, dict):
        return "dict of " + ", ".join(
            sorted(f"{key}: {type_of(value)}" for key, value in dataset.items())
        )
    if isinstance(dataset, list | tuple | set | frozenset):
        return f"{type(dataset).__name__} of " + " and ".join(
            sorted({type_of(item) for item in dataset})
        )
    if dataclasses.is_dataclass(dataset) and not isinstance(dataset, type):
        fields = ", ".join(
            f"{field.name}: {type_of(getattr(dataset, field.name, None))}"
            for field in dataclasses.fields(dataset)
        )
        return f"{type(dataset).__name__} of {fields}"
    return type(dataset).__name__
