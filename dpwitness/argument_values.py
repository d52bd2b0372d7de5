"""Conversion of command-line arguments to arguments of `audit`: datasets from JSON, targets, claims, and executors."""

from __future__ import annotations

import argparse
import difflib
import functools
import inspect
import json
import math
import shlex
import sys
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from dpwitness.console import announce
from dpwitness.executors.factory import executor
from dpwitness.exit_codes import apart
from dpwitness.mechanisms.core.json_codec import from_jsonable
from dpwitness.mechanisms.core.json_reader import Json, object_without_duplicates
from dpwitness.mechanisms.core.validation import InvalidArgument, said
from dpwitness.mechanisms.data.pairs import Pair
from dpwitness.mechanisms.foreign.inside.introspection import method_hint
from dpwitness.mechanisms.objects.recognition import split_form


def _parse_json(name: str, text: str) -> Any:
    """Parse the JSON text of an option. Raise InvalidArgument if it is not valid JSON or not UTF-8."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not a valid JSON number")

    try:
        value = json.loads(text, parse_constant=refuse, object_pairs_hook=object_without_duplicates)
        text.encode()
        json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name} must be text that can be encoded as UTF-8, got {_short(text)}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name} must be JSON, got {_short(text)}: {error}") from None


def _short(text: str) -> str:
    """Return the representation of a text, cut after 100 characters."""
    return repr(text if len(text) <= 100 else text[:100] + "...")


def dataset(name: str, text: str, *, arrays: bool = True) -> Any:
    """Parse a dataset from JSON text, or read a Parquet or CSV file into a pandas frame.

    Lists of numbers become float64 arrays if `arrays` is true. Tagged values are decoded to their types. Other values are unchanged.

    Examples
    --------
    >>> dataset("d0", "[[1, 2], [3, 4]]").shape
    (2, 2)
    >>> dataset("d0", '["a", "b"]')
    ['a', 'b']
    """
    if text.endswith((".parquet", ".csv")):
        return _read_frame(name, text)
    value = _parse_json(f"--{name}", text)
    try:
        found = from_jsonable(value)
    except Exception as error:  # tagged values name arbitrary types and fields
        raise InvalidArgument(f"--{name} must be a dataset, got {_short(text)}: {said(error)}") from None
    if arrays and isinstance(value, list) and _is_numeric(value):
        try:
            return np.array(found, dtype=np.float64)
        except (ValueError, OverflowError):  # ragged list, or integers beyond the range of float64
            return found
    return found


def _read_frame(name: str, file: str) -> Any:
    """Read a Parquet or CSV file into a pandas frame."""
    from dpwitness.mechanisms.core.dataframe_backends import UnsupportedData, library

    try:
        pandas = library("pandas")
        return (pandas.read_parquet if file.endswith(".parquet") else pandas.read_csv)(file)
    except UnsupportedData as error:
        raise InvalidArgument(f"--{name}: {error}") from None
    except Exception as error:  # pandas raises many types for malformed files
        raise InvalidArgument(f"--{name} must be a file that pandas can read, got {_short(file)}: {said(error)}") from None


def _is_numeric(value: Any) -> bool:
    """Return whether a JSON value consists of numbers that are floats, tagged NaN or infinity, and lists of such numbers."""
    if isinstance(value, list):
        return all(map(_is_numeric, value))
    if isinstance(value, dict):
        return value.get("$type") == "float"
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
            more = f"; to generate pairs with this relation, give --domain {relation}" if ".py:" in relation else ""
            raise InvalidArgument(f"--relation needs --d0 and --d1: otherwise the relation is that of the mechanism's domain{more}")
        return None
    if d0 is None or d1 is None:
        raise InvalidArgument("--d0 and --d1 must be given together")
    own_relation = str(getattr(getattr(mechanism, "domain", None), "relation", "replace-one"))
    found = [dataset("d0", d0), dataset("d1", d1)]
    if {type(data) for data in found} == {list, np.ndarray}:  # for example one list is ragged: both stay lists
        found = [dataset(name, text, arrays=False) for name, text in (("d0", d0), ("d1", d1))]
    if {type(data) for data in found} == {int, float}:
        found = [float(data) for data in found]
    if all(isinstance(data, np.ndarray) for data in found):
        for i, other in ((0, found[1]), (1, found[0])):
            if found[i].shape == (0,) and other.ndim > 1:  # JSON cannot express an empty table with columns
                found[i] = found[i].reshape(0, *other.shape[1:])
    return Pair(found[0], found[1], relation_from_option(relation or own_relation))


def relation_from_option(text: str) -> Any:
    """Return the relation of ``--relation``: a built-in name unchanged, or the user's object at FILE.py:NAME.

    A user-defined relation runs its check in this process.
    """
    if ".py:" not in text:
        return text
    found = _load_object("--relation", text)
    if not callable(getattr(found, "check", None)):
        raise InvalidArgument(f"--relation: {text!r} must be a dpwitness.domains.Relation, got an object of type {type(found).__name__}")
    return found


def _load_object(option: str, text: str, build: bool = True) -> Any:
    """Return the object at FILE.py:NAME; a class is instantiated if `build` is true."""
    from dpwitness.auditors.targets.loading import find_target, load_target

    try:
        with apart():
            return load_target(text) if build else find_target(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{option}: {error}") from None
    except (Exception, SystemExit) as error:
        _print_user_traceback(error)
        raise InvalidArgument(f"{option}: {text!r} could not be loaded: {said(error)}") from None


def claim_of(args: argparse.Namespace, mechanism: Any) -> Any:
    """Return the claim of the command line, combined with the metric of ``--distance``."""
    from dpwitness.mechanisms.privacy import MetricDP, parse_claim, promised

    if args.distance is None:
        return args.claim
    claim = promised(mechanism, args.claim, "--distance")
    if not isinstance(claim, MetricDP):
        raise InvalidArgument(f"--distance is for claims metric:EPSILON, got {claim}")
    return parse_claim(f"metric:{claim.epsilon!r},{args.distance}")


def given(args: argparse.Namespace, **options: bool) -> tuple[Any, str, Json]:
    """Return the mechanism of the command line, its name and its location (as `load` returns them).

    The mechanism comes from the target, ``--command`` or ``--dsn``.
    """
    if getattr(args, "dsn", None) is not None:
        return _load_query(args)
    for option in ("query", "table", "setup"):
        if getattr(args, option, None) is not None:
            raise InvalidArgument(f"--{option} is for databases: give --dsn")
    if args.program is not None:
        return _load_program(args, options)
    if args.cwd or args.text or args.text_runs:
        raise InvalidArgument("--cwd, --text and --text-runs are for programs: give --command")
    if args.target is None:
        raise InvalidArgument("a target is needed: MODULE:NAME, FILE.py:NAME, or a program with --command")
    example = None if None in (getattr(args, "d0", None), getattr(args, "d1", None)) else dataset("d0", args.d0)
    more: dict[str, Any] = {"dataset": example, "form": getattr(args, "form", None), **options}
    return load(args.target, keywords(args.kwargs), args.python, args.time_limit, args.memory, **more)


def _load_query(args: argparse.Namespace) -> tuple[Any, str, Json]:
    """Return a database query that runs in worker processes of this interpreter."""
    from dpwitness.auditors.targets.loading import QUERY
    from dpwitness.mechanisms.foreign.target import Isolated

    for name, value in {"a target": args.target, "--command": args.program, "--python": args.python, "--kwargs": args.kwargs}.items():
        if value is not None:
            raise InvalidArgument(f"--dsn cannot be combined with {name}")
    if args.query is None:
        raise InvalidArgument("--dsn needs a --query")
    kwargs = {"dsn": args.dsn, "query": args.query}
    kwargs |= {key: getattr(args, key) for key in ("table", "setup") if getattr(args, key) is not None}
    if args.domain is not None:
        kwargs["domain"] = keywords(args.domain, "--domain")
    place, _, name = QUERY.partition(":")
    found = Isolated(place, name, None, kwargs, args.time_limit, args.memory)
    with shown():
        found.describe()
    return found, "query", {"target": QUERY, "kwargs": kwargs}


def domain_of(text: str | None) -> Any:
    """Return the domain of ``--domain``: a JSON declaration, or an object at FILE.py:NAME (a domain or a user-defined relation)."""
    from dpwitness.mechanisms.domains import Domain
    from dpwitness.mechanisms.foreign.worker_pool import build_domain

    if text is None or ".py:" not in text or text.lstrip().startswith("{"):
        return None if text is None else build_domain(keywords(text, "--domain"), "--domain")
    found = _load_object("--domain", text)
    if not isinstance(found, Domain):
        raise InvalidArgument(
            f"--domain: {text!r} must be a domain or a dpwitness.domains.Relation, got an object of type {type(found).__name__}"
        )
    return found


def _load_program(args: argparse.Namespace, options: dict[str, bool]) -> tuple[Any, str, Json]:
    """Return the program of ``--command`` as a target."""
    from dpwitness.auditors.targets.loading import describe_target
    from dpwitness.mechanisms.foreign.target import Target

    excluded = {"a target": args.target, "--python": args.python, "--kwargs": getattr(args, "kwargs", None)}
    excluded["--in-process"] = options.get("in_process") or None
    for name, value in excluded.items():
        if value is not None:
            raise InvalidArgument(f"--command cannot be combined with {name}")
    if args.text_runs and not args.text:
        raise InvalidArgument("--text-runs needs --text")
    command = words("--command", args.program)
    text = (args.text_runs or "batch") if args.text else ""
    found = Target(command=command, cwd=args.cwd, text=text, time_limit=args.time_limit, memory_limit=args.memory)
    found.describe()
    location = describe_target(found)
    assert location is not None
    return found, found.__name__, location


def words(name: str, text: str) -> list[str]:
    """Split a command line into words as a shell does. Raise InvalidArgument if this fails."""
    try:
        found = shlex.split(text)
    except ValueError as error:
        raise InvalidArgument(f"{name} must be a command line that a shell can split into words, got {_short(text)}: {error}") from None
    if not found or not found[0]:
        raise InvalidArgument(f"{name} must name a program, got {text!r}")
    return found


def load(
    target: str,
    kwargs: Json,
    python: str | None = None,
    time_limit: float = 300.0,
    memory: float = 0.0,
    *,
    in_process: bool = False,
    density: bool = False,
    dataset: Any = None,
    form: str | None = None,
) -> tuple[Any, str, Json]:
    """Return a mechanism, its display name, and its location for the witness file.

    The mechanism runs in worker processes: of this interpreter, of `python` if given, or of the environment of an adapter.
    Mechanisms of dpwitness run in this process. So do all mechanisms if `in_process` is true.
    If `density` is true, so do mechanisms with an output density.
    If the user's code raises during import, the traceback is printed without frames of dpwitness, before the one-line error.
    """
    from dpwitness.auditors.targets.loading import relative
    from dpwitness.mechanisms.foreign.environments import adapter_file

    place, _, name = target.rpartition(":")
    if place == "zoo" and python is None:
        return _load_zoo_mechanism(name, kwargs)
    if not place or not name:
        raise InvalidArgument(f"target must have the form MODULE:NAME or FILE.py:NAME, got {target!r}")
    if form is not None:
        name = f"{split_form(name)[0]} as {form}"
    in_other_interpreter = python is not None or adapter_file(place) is not None
    in_this_process = in_process or place.partition(".")[0] == "dpwitness"
    if in_this_process and memory:
        raise InvalidArgument(f"--memory limits worker processes, but {target} runs in this process")
    if in_process and in_other_interpreter:
        raise InvalidArgument("--in-process cannot be combined with --python or with the target of an adapter")
    if in_this_process and not in_other_interpreter:
        if " as " not in name and place.partition(".")[0] != "dpwitness":
            name = _recognize_in_process(place, name, kwargs, dataset)
        return _load_in_process(place, name, kwargs, time_limit)
    from dpwitness.mechanisms.foreign.target import Isolated, Target

    if " as " not in name and adapter_file(place) is None:
        with shown():
            recognized = (Target if in_other_interpreter else Isolated)(place, name, python, kwargs, time_limit, memory).recognize(dataset)
        if recognized["form"]:
            announce(recognized["told"])
            name = f"{recognized['name']} as {recognized['form']}"
    if in_other_interpreter:
        return _load_target(place, name, kwargs, python, time_limit, memory)
    found = Isolated(place, name, None, kwargs, time_limit, memory)
    with shown():
        found.describe()
    if found.plain:
        return _load_target(place, name, kwargs, None, time_limit, memory)
    if density and found.density and not memory:
        found.close()
        return _load_in_process(place, name, kwargs, time_limit)
    # A path relative to the witness keeps working when its folder moves.
    recorded_place = relative(place) if place.endswith(".py") else place
    return found, _display_name(name), {"target": f"{recorded_place}:{name}"} | ({"kwargs": kwargs} if kwargs else {})


def _display_name(name: str) -> str:
    """Return the last part of a dotted name, without its form."""
    return split_form(name)[0].rpartition(".")[2]


def _recognize_in_process(place: str, name: str, kwargs: Json, dataset: Any) -> str:
    """Return the name of a target that runs in this process, with its recognized form appended."""
    from dpwitness.mechanisms.objects.recognition import recognize

    form, notice = recognize(_load_object("target", f"{place}:{name}", build=False), name, kwargs, dataset)
    if form:
        announce(notice)
    return f"{name} as {form}" if form else name


def _load_zoo_mechanism(name: str, kwargs: Json) -> tuple[Any, str, Json]:
    """Return a mechanism of the zoo (`dpwitness list zoo`)."""
    from dpwitness.auditors.targets.loading import describe_target
    from dpwitness.mechanisms.textbook.zoo import zoo

    known = zoo()
    if name not in known:
        close_matches = difflib.get_close_matches(name, known, 1)
        raise InvalidArgument(
            f"zoo has no {name!r}{f'; did you mean zoo:{close_matches[0]}?' if close_matches else ''} (see dpwitness list zoo)"
        )
    if kwargs:
        raise InvalidArgument(f"zoo:{name} has fixed parameters: leave out --kwargs")
    location = describe_target(known[name])
    return known[name], name, location or {"target": f"zoo:{name}"}


def scores(names: Sequence[str]) -> list[Any]:
    """Load the functions of ``--scores`` with their locations for the witness file. The functions run in this process."""
    from dpwitness.auditors.events.scores import Score
    from dpwitness.auditors.targets.loading import load_target, relative

    found = []
    for text in names:
        place, _, name = text.rpartition(":")
        try:
            with apart():
                function = load_target(text)
        except InvalidArgument as error:
            raise InvalidArgument(f"--scores: {error}") from None
        except (Exception, SystemExit) as error:
            _print_user_traceback(error)
            raise InvalidArgument(f"--scores: {text!r} could not be loaded: {said(error)}") from None
        if not callable(function):
            raise InvalidArgument(f"--scores: {text!r} must be a function of the outputs, got an object of type {type(function).__name__}")
        recorded_place = relative(place) if place.endswith(".py") else place
        found.append(Score(name.rpartition(".")[2], function, {"target": f"{recorded_place}:{name}"}))
    return found


def _load_in_process(place: str, name: str, kwargs: Json, time_limit: float) -> tuple[Any, str, Json]:
    """Load a mechanism into this process; an object in the style of target files runs in worker processes instead."""
    from dpwitness.auditors.targets.loading import load_target, relative

    target = f"{relative(place) if place.endswith('.py') else place}:{name}"
    try:
        with apart():
            mechanism = load_target(target, kwargs)
    except InvalidArgument:
        raise
    except (Exception, SystemExit) as error:
        _print_user_traceback(error)
        raise InvalidArgument(f"target {target!r} could not be loaded: {said(error)}") from None
    _check_signature(mechanism, name)
    if isinstance(getattr(mechanism, "domain", None), dict) or isinstance(getattr(mechanism, "claim", None), str):
        return _load_target(place, name, kwargs, None, time_limit, 0.0)
    return mechanism, _display_name(name), {"target": target, "kwargs": kwargs} if kwargs else {"target": target}


def _load_target(place: str, name: str, kwargs: Json, python: str | None, time_limit: float, memory: float) -> tuple[Any, str, Json]:
    """Return a target that runs in worker processes of `python`."""
    from dpwitness.auditors.targets.loading import describe_target
    from dpwitness.mechanisms.foreign.target import Target

    found = Target(place, name, python, kwargs, time_limit, memory)
    with shown():
        found.describe()
    location = describe_target(found)
    assert location is not None
    return found, _display_name(name), location


@contextmanager
def shown() -> Iterator[None]:
    """Print the traceback of the user's code that a TargetError carries, then raise the error again."""
    from dpwitness.mechanisms.foreign.worker_pool import TargetError

    try:
        yield
    except TargetError as error:
        print(error.traceback, end="", file=sys.stderr)
        raise


def _print_user_traceback(error: BaseException) -> None:
    """Print the traceback from the first frame that belongs neither to dpwitness nor to the import system."""
    frames = list(traceback.walk_tb(error.__traceback__))
    user_frames = [i for i, (frame, _) in enumerate(frames) if not _is_own_module(frame.f_globals.get("__name__", ""))]
    if user_frames or isinstance(error, SyntaxError):
        shown = traceback.TracebackException.from_exception(error)
        shown.stack = traceback.StackSummary.from_list(list(shown.stack)[user_frames[0] if user_frames else len(frames) :])
        print("".join(shown.format()), end="", file=sys.stderr)


def _is_own_module(module: str) -> bool:
    """Return whether a module belongs to dpwitness or to the import system."""
    return module.split(".")[0] in ("dpwitness", "importlib", "functools")


def _check_signature(mechanism: Any, name: str) -> None:
    """Raise InvalidArgument unless the mechanism can be called as f(dataset, size, rng)."""
    run: Any = getattr(mechanism, "sample", mechanism)
    if not callable(run):
        hint = method_hint(mechanism, name)
        raise InvalidArgument(f"target must be a mechanism or a function, {name} is of type {type(mechanism).__name__}{hint}")
    bound: dict[str, Any] = {}
    if isinstance(run, functools.partial):
        run, bound = run.func, run.keywords
    try:
        signature = inspect.signature(run)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, 1, None, **bound)
    except TypeError as error:
        raise InvalidArgument(
            f"target must be callable as f(dataset, size, rng) once kwargs are bound, {name}{signature}: {error}"
        ) from None


def own(mechanism: Any) -> bool:
    """Return whether the mechanism is a reference mechanism or a target in another process.

    Threads suffice for both: kernels of reference mechanisms release the GIL.
    """
    found = getattr(type(mechanism), "__module__", "")
    return bool(found.startswith("dpwitness.mechanisms"))


@contextmanager
def workers(args: Any, mechanism: Any = None, scores: Sequence[Any] = ()) -> Iterator[Executor | None]:
    """Yield the executor of ``--executor`` or ``--workers K``, or None for a single worker.

    With ``--workers``, reference mechanisms and targets run in threads, and other code in processes.
    A Dask cluster gets the files of the mechanism, of the `scores` and of ``--ship``.
    The exit does not wait for running tasks, because a worker that hangs already has its verdict.
    """
    from dpwitness.executors.file_upload import defining_files
    from dpwitness.mechanisms.foreign.target import Target

    spec, ship = args.executor, args.ship
    if spec is None and args.workers > 1:
        spec = f"{'threads' if own(mechanism) else 'processes'}:{args.workers}"
    if spec is not None and spec.startswith("dask://"):
        ship = [*defining_files([mechanism, *(score.function for score in scores)]), *ship]
    elif ship:
        raise InvalidArgument(f"--ship is for --executor dask://HOST:PORT, got {spec or 'no executor'}")
    with ExitStack() as stack:
        found = None if spec is None else stack.enter_context(executor(spec, ship=ship))
        if isinstance(mechanism, Target):
            stack.callback(mechanism.close)
        yield found
