"""Values of options that the user names: datasets, pairs, domains, claims, and objects in files,
with tracebacks that leave out the frames of dpwitness.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpwitness.auditors.events.outputs import Score
from dpwitness.auditors.workers.loading import find_target, load_target, relative
from dpwitness.core import Domain, Pair
from dpwitness.core.claims import MetricDP, parse_claim, promised
from dpwitness.core.values.dataframe_backends import UnsupportedData, library
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.json_reader import Json, object_without_duplicates
from dpwitness.core.values.validation import InvalidArgument, error_text
from dpwitness.mechanisms.wrappers.programs.inside.target_runs import UnusableTarget, check_call
from dpwitness.mechanisms.wrappers.programs.worker_pool import TargetError, build_domain
from dpwitness.terminal import redirected_stdout


def _parse_json(name: str, text: str) -> Any:
    """Parse the JSON text of an option. Raise InvalidArgument if it is not valid JSON
    or not UTF-8.
    """

    def refuse(word: str) -> Any:
        raise ValueError(f'{word} is not a JSON number: write "{word}"')

    try:
        value = json.loads(text, parse_constant=refuse, object_pairs_hook=object_without_duplicates)
        text.encode()
        json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise InvalidArgument(
            f"{name} must be text that can be encoded as UTF-8, got {shortened(text)}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name} must be JSON, got {shortened(text)}: {error}") from None


def shortened(text: str) -> str:
    """Return the representation of a text, cut after 100 characters."""
    return repr(text if len(text) <= 100 else text[:100] + "...")


def dataset(name: str, text: str, *, arrays: bool = True) -> Any:
    """Parse a dataset from JSON text, or read a Parquet or CSV file into a pandas frame.

    Lists of numbers, among which "NaN", "Infinity" and "-Infinity" count, become float64 arrays if
    `arrays` is true. Tagged values are decoded to their types. Other values are unchanged.

    Examples
    --------
    >>> dataset("d0", "[[1, 2], [3, 4]]").shape
    (2, 2)
    >>> dataset("d0", '[0.5, "Infinity"]')
    array([0.5, inf])
    >>> dataset("d0", '["a", "b"]')
    ['a', 'b']
    """
    if text.endswith((".parquet", ".csv")):
        return _read_frame(name, text)
    value = _parse_json(f"--{name}", text)
    try:
        found = from_jsonable(value)
    except Exception as error:  # tagged values name arbitrary types and fields
        raise InvalidArgument(
            f"--{name} must be a dataset, got {shortened(text)}: {error_text(error)}"
        ) from None
    if arrays and isinstance(value, list) and _is_numeric(value):
        try:
            return np.array(found, dtype=np.float64)
        except (ValueError, OverflowError):  # ragged list, or integers beyond the range of float64
            return found
    return found


def _read_frame(name: str, file: str) -> Any:
    try:
        pandas = library("pandas")
        return (pandas.read_parquet if file.endswith(".parquet") else pandas.read_csv)(file)
    except UnsupportedData as error:
        raise InvalidArgument(f"--{name}: {error}") from None
    except Exception as error:  # pandas raises many types for malformed files
        raise InvalidArgument(
            f"--{name} must be a file that pandas can read, got {shortened(file)}: "
            f"{error_text(error)}"
        ) from None


def _is_numeric(value: Any) -> bool:
    """Return whether a JSON value consists of numbers that are floats, NaN or infinity as texts or
    tagged, and lists of such numbers.
    """
    if isinstance(value, list):
        return all(map(_is_numeric, value))
    if isinstance(value, dict):
        return value.get("$type") == "float"
    if isinstance(value, str):
        return value in ("NaN", "Infinity", "-Infinity")
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def keywords(text: str | None, option: str = "--kwargs") -> Json:
    """Parse the JSON object of an option; an absent option is an empty object."""
    if text is None:
        return {}
    value = _parse_json(option, text)
    if not isinstance(value, dict):
        raise InvalidArgument(f"{option} must be a JSON object, got {text!r}")
    return value


def pair_of(d0: str | None, d1: str | None, relation: str | None, mechanism: Any) -> Pair | None:
    """Return the pair of `--d0` and `--d1`, or None if pairs come from the mechanism's domain."""
    if d0 is None and d1 is None:
        if relation is not None:
            more = (
                f"; to generate pairs with this relation, give --domain {relation}"
                if ".py:" in relation
                else ""
            )
            raise InvalidArgument(
                "--relation needs --d0 and --d1: otherwise the relation is that of the "
                f"mechanism's domain{more}"
            )
        return None
    if d0 is None or d1 is None:
        raise InvalidArgument("--d0 and --d1 must be given together")
    own_relation = str(getattr(getattr(mechanism, "domain", None), "relation", "replace-one"))
    found = [dataset("d0", d0), dataset("d1", d1)]
    # for example one list is ragged: both stay lists
    if {type(data) for data in found} == {list, np.ndarray}:
        found = [dataset(name, text, arrays=False) for name, text in (("d0", d0), ("d1", d1))]
    if {type(data) for data in found} == {int, float}:
        found = [float(data) for data in found]
    if all(isinstance(data, np.ndarray) for data in found):
        for i, other in ((0, found[1]), (1, found[0])):
            # JSON cannot express an empty table with columns
            if found[i].shape == (0,) and other.ndim > 1:
                found[i] = found[i].reshape(0, *other.shape[1:])
    return Pair(found[0], found[1], relation_from_option(relation or own_relation))


def relation_from_option(text: str) -> Any:
    """Return the relation of ``--relation``: a built-in name unchanged, or the user's object at
    FILE.py:NAME.

    A user-defined relation runs its check in this process.
    """
    if ".py:" not in text:
        return text
    found = load_object("--relation", text)
    if not callable(getattr(found, "check", None)):
        raise InvalidArgument(
            f"--relation: {text!r} must be a dpwitness.domains.Relation, got an object of "
            f"type {type(found).__name__}"
        )
    return found


def domain_of(text: str | None) -> Any:
    """Return the domain of ``--domain``: a JSON declaration, or an object at FILE.py:NAME (a domain
    or a user-defined relation).
    """
    if text is None or ".py:" not in text or text.lstrip().startswith("{"):
        return None if text is None else build_domain(keywords(text, "--domain"), "--domain")
    found = load_object("--domain", text)
    if not isinstance(found, Domain):
        raise InvalidArgument(
            f"--domain: {text!r} must be a domain or a dpwitness.domains.Relation, got an "
            f"object of type {type(found).__name__}"
        )
    return found


def claim_of(args: argparse.Namespace, mechanism: Any) -> Any:
    """Return the claim of the command line, combined with the metric of ``--distance``."""
    if args.distance is None:
        return args.claim
    claim = promised(mechanism, args.claim, "--distance")
    if not isinstance(claim, MetricDP):
        raise InvalidArgument(f"--distance is for claims metric:EPSILON, got {claim}")
    return parse_claim(f"metric:{claim.epsilon!r},{args.distance}")


def load_object(option: str, text: str, kwargs: Json | None = None, *, build: bool = True) -> Any:
    """Return the object at FILE.py:NAME; if `build` is true, a class is built with `kwargs`, and a
    function is bound to them.

    Errors name `option`, or the target if it is empty.
    """
    try:
        with redirected_stdout():
            return load_target(text, kwargs) if build else find_target(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{option}: {error}" if option else str(error)) from None
    except (Exception, SystemExit) as error:
        _print_user_traceback(error)
        raise InvalidArgument(
            f"{f'{option}:' if option else 'target'} {text!r} could not be loaded: "
            f"{error_text(error)}"
        ) from None


def scores(names: Sequence[str]) -> list[Any]:
    """Load the functions of ``--scores`` with their locations for the witness file. The functions
    run in this process.
    """
    found = []
    for text in names:
        function = load_object("--scores", text)
        if not callable(function):
            raise InvalidArgument(
                f"--scores: {text!r} must be a function of the outputs, got an object of "
                f"type {type(function).__name__}"
            )
        place, _, name = text.rpartition(":")
        found.append(
            Score(
                name.rpartition(".")[2],
                function,
                {"target": f"{relative(place) if place.endswith('.py') else place}:{name}"},
            )
        )
    return found


@contextmanager
def printed_traceback() -> Iterator[None]:
    """Print the traceback of the user's code that a TargetError carries, then raise the error
    again.
    """
    try:
        yield
    except TargetError as error:
        print(error.traceback, end="", file=sys.stderr)
        raise


def _print_user_traceback(error: BaseException) -> None:
    """Print the traceback from the first frame that belongs neither to dpwitness nor to the import
    system.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    modules = [frame.f_globals.get("__name__", "").split(".")[0] for frame, _ in frames]
    user_frames = [
        i
        for i, module in enumerate(modules)
        if module not in ("dpwitness", "importlib", "functools")
    ]
    if user_frames or isinstance(error, SyntaxError):
        shown = traceback.TracebackException.from_exception(error)
        shown.stack = traceback.StackSummary.from_list(
            list(shown.stack)[user_frames[0] if user_frames else len(frames) :]
        )
        print("".join(shown.format()), end="", file=sys.stderr)


def check_signature(mechanism: Any, name: str) -> None:
    """Raise InvalidArgument unless the mechanism can be called as f(dataset, size, rng)."""
    found, kwargs = mechanism, dict[str, Any]()
    if isinstance(mechanism, functools.partial):
        found, kwargs = mechanism.func, mechanism.keywords
    try:
        check_call(found, name, kwargs)
    except UnusableTarget as error:
        raise InvalidArgument(str(error)) from None
