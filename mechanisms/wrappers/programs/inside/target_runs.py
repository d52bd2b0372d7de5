"""Functions of a target: their inspection before they are run (claim, domain, call signature), and
the runs of one batch, made one by one if necessary, with their results, exceptions, random draws
and warnings, the same in this process and in workers. Large datasets travel once, and
each batch gets a fresh copy, whose changes are noticed.

`worker` loads this module too, so the module uses only the standard library and NumPy (Python 3.8
or later).
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib.util
import inspect
import itertools
import numbers
import os
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Dict, List

import numpy as np

from dpwitness.core.values import dataframe_backends
from dpwitness.core.values.validation import did_you_mean, short_repr
from dpwitness.mechanisms.wrappers.programs.inside import codec
from dpwitness.mechanisms.wrappers.programs.supervisor import descendants


class NoAnswer(Exception):
    """Reason why a request has no result; `reply` is the answer of the worker."""

    reply: dict[str, Any]


class UnusableTarget(NoAnswer):
    """Error of an unusable target, with the user's part of the traceback; the text is one
    sentence.
    """

    def __init__(self, reason: str, trace: str = "", **more: Any) -> None:
        super().__init__(reason)
        self.reply = dict(more, error=reason, traceback=trace)


class NoOutput(NoAnswer):
    """Reason why a batch of runs has no output."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reply = {"failed": reason}


@contextlib.contextmanager
def reported_failures(what: str) -> Iterator[None]:
    """Raise NoOutput for exceptions of the block that are not outputs of a mechanism."""
    try:
        yield
    except MemoryError as error:
        text = f"{what} ran out of memory: {codec.text_of(error, str)}"
        raise NoOutput(text.rstrip(": ")) from None
    except (SystemExit, GeneratorExit, KeyboardInterrupt) as error:
        text = codec.text_of(error, str)
        raise NoOutput(f"{what} ended its run with {type(error).__name__}: {text}") from None
    except NoAnswer:
        raise
    except Exception as error:
        raise NoOutput(codec.text_of(error, str)) from None


def built(cls: type, name: str, kwargs: dict[str, Any]) -> Any:
    """Return an instance of a target class with its arguments. Raise UnusableTarget if the
    arguments do not fit.
    """
    try:
        inspect.signature(cls).bind(**kwargs)
    except TypeError as error:
        raise UnusableTarget(f"kwargs must fit {name}: {name}: {error}") from None
    except ValueError:  # the class has no signature
        pass
    return cls(**kwargs)


def check_call(found: Any, name: str, kwargs: dict[str, Any]) -> None:
    """Raise UnusableTarget unless a target can be called as f(dataset, size, rng)."""
    run = getattr(found, "sample", found)
    if not callable(run):
        raise UnusableTarget(
            f"target must be a mechanism or a function, {name} is of type {type(found).__name__}"
        )
    try:
        signature = inspect.signature(run)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, 1, None, **({} if run is not found else kwargs))
    except TypeError as error:
        raise UnusableTarget(
            "target must be callable as f(dataset, size, rng) once kwargs are bound, "
            f"{name}{signature}: {error}"
        ) from None


def _is_count(least: int) -> Callable[[Any], bool]:
    """Return a test for whole numbers of at least `least`."""
    kinds: Any = (numbers.Integral, float)
    return lambda value: (
        isinstance(value, kinds)
        and not isinstance(value, bool)
        and int(value) == value
        and least <= value <= _MAX_RUNS
    )


def _are_texts(values: Any) -> bool:
    """Return whether a list or another collection contains texts only."""
    return not isinstance(values, str) and all(isinstance(value, str) for value in values)


def _are_reasons(value: Any) -> bool:
    """Return whether a value is a dict of texts."""
    return isinstance(value, dict) and _are_texts([*value, *value.values()])


_MAX_RUNS = 10**12  # largest number of runs

# attribute -> rule in messages, test, conversion, default
_ATTRIBUTES: Dict[str, Any] = {
    "batch": ("be a positive integer", _is_count(1), int, None),
    "trials": ("be an integer, at least 1000", _is_count(1000), int, None),
    "rounds": ("be a positive integer", _is_count(1), int, None),
    "seeded": (
        "be True or False",
        lambda value: str(value) in ("True", "False"),  # accepts NumPy's booleans too
        lambda value: str(value) == "True",
        True,
    ),
    "expected_failures": ("be a dict of checks and reasons, both texts", _are_reasons, dict, {}),
    "expected_findings": ("be a dict of kinds and reasons, both texts", _are_reasons, dict, {}),
    "features": ("be a function of the outputs", callable, callable, False),
    "notes": ("be a list of texts", _are_texts, list, []),
    "cause": ("be a text", lambda value: isinstance(value, str), str, ""),
    "guessed": ("be a text", lambda value: isinstance(value, str), str, ""),
}


def attributes_of(found: Any, owner: str = "") -> Dict[str, Any]:
    """Return the attributes of a target other than its claim and domain. Raise UnusableTarget if a
    value breaks the rule of its attribute.
    """
    values = {}
    for key, (rule, holds, convert, default) in _ATTRIBUTES.items():
        value = getattr(found, key, None)
        with contextlib.suppress(Exception):  # a value may raise anything when it is read
            if value is None or holds(value):
                values[key] = default if value is None else convert(value)
        if key not in values:
            raise UnusableTarget(f"{owner}{key} must {rule}, got {short_repr(value)}")
    domain = getattr(found, "domain", None)
    is_place = type(domain) is str and ".py:" in domain
    if (
        isinstance(domain, (bool, numbers.Number, str, bytes, list, tuple, set)) and not is_place
    ) or (isinstance(domain, dict) and "kind" not in domain):
        raise UnusableTarget(
            f"{owner}domain must be a dict with a kind and its arguments, or FILE.py:NAME, got "
            f"{short_repr(domain)}"
        )
    return values


_KNOWN_KEYS = [
    "claim",
    "domain",
    "seeded",
    "batch",
    "trials",
    "features",
    "primitives",
    "expected_failures",
    "expected_findings",
    "cause",
    "guessed",
]


def check_attribute_names(found: Any, name: str, plain: bool) -> List[str]:
    """Raise UnusableTarget for an unknown attribute of a function in a plain target file.

    Other functions may have any attributes: notes on misspelled names are returned.
    """
    names = vars(found) if inspect.isfunction(found) else ()
    unknown = [key for key in names if key[:1] != "_" and key not in _KNOWN_KEYS]
    texts = {key: did_you_mean(key, _KNOWN_KEYS, similarity=0.8) for key in unknown}
    if plain and unknown:
        raise UnusableTarget(
            f"a target has the keys {', '.join(_KNOWN_KEYS)}, got {name}.{unknown[0]}"
            f"{texts[unknown[0]]}"
        )
    return [f"{name}.{k} is unknown and ignored{text}" for k, text in texts.items() if text]


def is_target(found: Any) -> bool:
    """Return whether an object of a target file is a target: a function with a claim."""
    try:
        return (
            callable(found)
            and not isinstance(found, (type, types.ModuleType))
            and hasattr(found, "claim")
        )
    except Exception:  # an object that raises on access
        return False


def is_missing(name: str | None, place: str) -> bool:
    """Return whether a module that was not found, or its library, is not installed; False if the
    library or a file is at fault, or no module is missing.
    """
    if not name or place == name or place.startswith(name + "."):
        return bool(name)
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is None
    except (ImportError, AttributeError, ValueError):  # the module is loaded but has no spec
        return False


def domain_of(domain: Any) -> Dict[str, Any] | str | None:
    """Return a domain as its kind and fields, or its place as a text; for a user-defined class,
    only the name of the class.
    """
    if domain is None or isinstance(domain, (dict, str)):
        return domain
    cls = type(domain)
    is_own = cls.__module__.startswith("dpwitness.core.domains")
    if not is_own or not dataclasses.is_dataclass(cls) or cls.__name__ == "Relation":
        return {"own": cls.__name__}
    fields = [field.name for field in dataclasses.fields(cls) if field.init]
    return {"kind": cls.__name__, **{name: getattr(domain, name) for name in fields}}


def running_children() -> int:
    """Return the number of running descendants of this process; 0 on systems without /proc."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (AttributeError, OSError):
        return 0  # no children, the common case, costs one call only; macOS has no waitid
    return len(descendants(os.getpid()))


def is_failure(error: Exception) -> bool:
    """Return whether an exception means that there is no output: a MechanismFailed, of any copy of
    dpwitness.
    """
    return any(cls.__name__ == "MechanismFailed" for cls in type(error).__mro__)


class RunParts(list):  # type: ignore[type-arg]
    """Results of runs made one by one: arrays, lists and lists of exceptions, in order."""


def one_by_one(
    run: Callable[..., Any], dataset: Any, size: int, rng: Any, kwargs: dict[str, Any]
) -> Any:
    """Return the results of `size` single runs, and the number of random words that each run has
    drawn.
    """
    done: list[Any] = []
    draws: list[int] = []
    process = os.getpid()
    for _ in range(size):
        if os.getpid() != process:
            raise SystemExit(
                "a forked child of the mechanism returned: it must not make the other runs"
            )
        at = random_words_drawn(rng)
        try:
            done.append(copied(run(dataset, 1, rng, **kwargs)))
        except Exception as error:
            if isinstance(error, MemoryError) or is_failure(error):
                raise
            done.append([error.with_traceback(None)])
        draws.append(random_words_drawn(rng) - at)
    return RunParts(joined(done)), draws


class DatasetCache:
    """Received datasets, by number, and the frames that were built from them."""

    def __init__(self) -> None:
        self.entries: dict[int | None, tuple[Any, codec.Blobs]] = {}
        # frames, their state before the first run, and the number of batches that are still checked
        self.frames: dict[int | None, tuple[Any, Any, int]] = {}

    def copy(self, header: codec.Message, blobs: codec.Blobs) -> tuple[Any, Any]:
        """Return a fresh copy of a request's dataset, and its state before the run; None for the
        state if it is no longer checked. Raise UnusableTarget if a frame cannot be built here.
        """
        key: int | None = header.get("key")
        if "data" in header:
            self.entries[key] = header["data"], blobs
            self.frames.pop(key, None)
        if key not in self.frames:
            try:
                dataset = codec.unpack(*self.entries[key])
            except dataframe_backends.UnsupportedData as error:
                raise UnusableTarget(f"the dataset cannot be built here: {error}") from None
            if key is None or dataframe_backends.shallow_copy(dataset) is None:
                return dataset, state_of(dataset)
            # changes of a copy cannot affect the next batch, so only the first batches are checked
            self.frames[key] = dataset, state_of(dataset), 8
        dataset, before, left = self.frames[key]
        self.frames[key] = dataset, before, left - 1
        return dataframe_backends.shallow_copy(dataset), before if left > 0 else None


def state_of(value: Any) -> Any:
    """Return the packed form of a dataset or an output, for comparison after a run."""
    blobs: codec.Blobs = []
    try:
        return codec.pack(value, blobs, exact=True), blobs
    except dataframe_backends.UnsupportedData as error:
        return str(error), []


@contextlib.contextmanager
def collect_warnings(messages: list[str]) -> Iterator[None]:
    """Append the warnings of the block to `messages`, each kind and text once. The target's own
    warning filters keep their effect.
    """
    with warnings.catch_warnings(record=True) as found:
        warnings.filterwarnings("always", append=True)
        try:
            yield
        finally:
            kinds = [(each.category.__name__, each.message) for each in found or ()]
            texts = [f"{kind}: {' '.join(str(message).split())}" for kind, message in kinds]
            messages += dict.fromkeys(f"the mechanism warns: {text[:180]}" for text in texts)


def joined(results: list[Any]) -> list[Any]:
    """Return the results of single runs, with consecutive arrays of one kind, and consecutive
    lists, joined.
    """
    found: list[Any] = []
    for kind, same in itertools.groupby(results, _join_key):
        each = list(same)
        if isinstance(kind, tuple):
            each = [np.concatenate(each)]
        elif kind is list:
            each = [list(itertools.chain.from_iterable(each))]
        found.append(each[0])
    return found


def copied(value: Any) -> Any:
    """Return a copy of a result, because the mechanism may modify or reuse the object later; the
    result itself if it cannot be copied.
    """
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _join_key(part: Any) -> Any:
    """Return a key; consecutive results with equal keys can be joined."""
    if type(part) is np.ndarray and part.shape[:1] == (1,):
        return part.dtype, part.shape
    return list if type(part) is list else id(part)


def random_words_drawn(rng: Any) -> int:
    """Return the number of 64-bit words drawn from the generator so far, which SFC64 counts in its
    state; 0 for other generators.
    """
    state = rng.bit_generator.state
    return int(state["state"]["state"][3]) if state["bit_generator"] == "SFC64" else 0
