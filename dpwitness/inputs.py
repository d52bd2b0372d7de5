"""What the command line is given, turned into what `audit` takes: datasets from JSON, targets, workers."""

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
from dpwitness.ending import apart
from dpwitness.executors.opening import executor
from dpwitness.mechanisms.foreign.inside.about import method_hint
from dpwitness.mechanisms.objects.forms import split_form
from dpwitness.mechanisms.terms.jsonable import from_jsonable
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.reading import Json, each_name_once
from dpwitness.mechanisms.terms.validation import InvalidArgument, said


def _json(name: str, text: str) -> Any:
    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON number")

    try:
        value = json.loads(text, parse_constant=refuse, object_pairs_hook=each_name_once)
        text.encode()
        json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name} must be text that can be written as UTF-8, got {_short(text)}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name} must be JSON, got {_short(text)}: {error}") from None


def _short(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:100] + "...")


def dataset(name: str, text: str, *, arrays: bool = True) -> Any:
    """A dataset from JSON: lists of numbers are float64 arrays (unless `arrays` is off), tagged values what they were; the rest stays.

    The name of a Parquet or CSV file gives the pandas frame that it holds.

    Examples
    --------
    >>> dataset("d0", "[[1, 2], [3, 4]]").shape
    (2, 2)
    >>> dataset("d0", '["a", "b"]')
    ['a', 'b']
    """
    if text.endswith((".parquet", ".csv")):
        return _frame(name, text)
    value = _json(f"--{name}", text)
    try:
        found = from_jsonable(value)
    except Exception as error:  # tagged values name types and fields, which may be anything
        raise InvalidArgument(f"--{name} must be a dataset, got {_short(text)}: {said(error)}") from None
    if arrays and isinstance(value, list) and _numeric(value):
        try:
            return np.array(found, dtype=np.float64)
        except (ValueError, OverflowError):  # ragged, or beyond the floats
            return found
    return found


def _frame(name: str, file: str) -> Any:
    from dpwitness.mechanisms.terms.libraries import Unheld, library

    try:
        pandas = library("pandas")
        return (pandas.read_parquet if file.endswith(".parquet") else pandas.read_csv)(file)
    except Unheld as error:
        raise InvalidArgument(f"--{name}: {error}") from None
    except Exception as error:  # whatever the file may hold
        raise InvalidArgument(f"--{name} must be a frame that pandas reads, got {_short(file)}: {said(error)}") from None


def _numeric(value: Any) -> bool:
    """Numbers that are floats, NaN and infinities written as such, and lists of them."""
    if isinstance(value, list):
        return all(map(_numeric, value))
    if isinstance(value, dict):
        return value.get("$type") == "float"
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def keywords(text: str | None, option: str = "--kwargs") -> Json:
    """The object that an option holds."""
    if text is None:
        return {}
    value = _json(option, text)
    if not isinstance(value, dict):
        raise InvalidArgument(f"{option} must be a JSON object, got {text!r}")
    return value


def pair_of(d0: str | None, d1: str | None, relation: str | None, mechanism: Any) -> Pair | None:
    """The pair that was given; None if pairs are to come from the mechanism's domain."""
    if d0 is None and d1 is None:
        if relation is not None:
            more = f"; one that generates pairs goes as --domain {relation}" if ".py:" in relation else ""
            raise InvalidArgument(f"--relation needs --d0 and --d1: without them the mechanism's domain has its own{more}")
        return None
    if d0 is None or d1 is None:
        raise InvalidArgument("--d0 and --d1 must be given together")
    own_relation = str(getattr(getattr(mechanism, "domain", None), "relation", "replace-one"))
    found = [dataset("d0", d0), dataset("d1", d1)]
    if {type(data) for data in found} == {list, np.ndarray}:  # as when one list is ragged and the other a table: both stay lists
        found = [dataset(name, text, arrays=False) for name, text in (("d0", d0), ("d1", d1))]
    if {type(data) for data in found} == {int, float}:
        found = [float(data) for data in found]
    if all(isinstance(data, np.ndarray) for data in found):
        for i, other in ((0, found[1]), (1, found[0])):
            if found[i].shape == (0,) and other.ndim > 1:  # no rows, of the other's width: JSON cannot say it
                found[i] = found[i].reshape(0, *other.shape[1:])
    return Pair(found[0], found[1], relation_of(relation or own_relation))


def relation_of(text: str) -> Any:
    """A relation from ``--relation``: as it is spelled, or by FILE.py:NAME one of the user's own, whose check runs in this process."""
    if ".py:" not in text:
        return text
    found = _loaded("--relation", text)
    if not callable(getattr(found, "check", None)):
        raise InvalidArgument(f"--relation: {text!r} must be a dpwitness.Relation, it is of type {type(found).__name__}")
    return found


def _loaded(option: str, text: str, build: bool = True) -> Any:
    """Return the object that FILE.py:NAME names; a class is instantiated if `build` is true."""
    from dpwitness.auditors.targets.naming import find_target, load_target

    try:
        with apart():
            return load_target(text) if build else find_target(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{option}: {error}") from None
    except (Exception, SystemExit) as error:
        _show(error)
        raise InvalidArgument(f"{option}: {text!r} could not be loaded: {said(error)}") from None


def claim_of(args: argparse.Namespace, mechanism: Any) -> Any:
    """The claim that was given, with the ``--distance`` that it is to be held against."""
    from dpwitness.mechanisms.terms.notions import MetricDP, parse_claim, promised

    if args.distance is None:
        return args.claim
    claim = promised(mechanism, args.claim, "--distance")
    if not isinstance(claim, MetricDP):
        raise InvalidArgument(f"--distance is for claims metric:EPSILON, got {claim}")
    return parse_claim(f"metric:{claim.epsilon!r},{args.distance}")


def given(args: argparse.Namespace, **options: bool) -> tuple[Any, str, Json]:
    """What a command is to run, by its target or its ``--command``: as `load`."""
    if getattr(args, "dsn", None) is not None:
        return _query(args)
    for option in ("query", "table", "setup"):
        if getattr(args, option, None) is not None:
            raise InvalidArgument(f"--{option} is for databases: give --dsn")
    if args.program is not None:
        return _program(args, options)
    if args.cwd or args.text or args.text_runs:
        raise InvalidArgument("--cwd, --text and --text-runs are for programs: give --command")
    if args.target is None:
        raise InvalidArgument("a target is needed: MODULE:NAME, FILE.py:NAME, or a program by --command")
    one = None if None in (getattr(args, "d0", None), getattr(args, "d1", None)) else dataset("d0", args.d0)
    more: dict[str, Any] = {"dataset": one, "form": getattr(args, "form", None), **options}
    return load(args.target, keywords(args.kwargs), args.python, args.time_limit, args.memory, **more)


def _query(args: argparse.Namespace) -> tuple[Any, str, Json]:
    """A database query, in worker processes of this interpreter."""
    from dpwitness.auditors.targets.naming import QUERY
    from dpwitness.mechanisms.foreign.target import Isolated

    for name, value in {"a target": args.target, "--command": args.program, "--python": args.python, "--kwargs": args.kwargs}.items():
        if value is not None:
            raise InvalidArgument(f"--dsn stands alone: leave out {name}")
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
    """The domain that ``--domain`` declares as a target file does, or names as FILE.py:NAME, also a relation of the user's own."""
    from dpwitness.mechanisms.domains import Domain
    from dpwitness.mechanisms.foreign.slots import build_domain

    if text is None or ".py:" not in text or text.lstrip().startswith("{"):
        return None if text is None else build_domain(keywords(text, "--domain"), "--domain")
    found = _loaded("--domain", text)
    if not isinstance(found, Domain):
        raise InvalidArgument(f"--domain: {text!r} must be a domain or a dpwitness.Relation, it is of type {type(found).__name__}")
    return found


def _program(args: argparse.Namespace, options: dict[str, bool]) -> tuple[Any, str, Json]:
    from dpwitness.auditors.targets.naming import describe_target
    from dpwitness.mechanisms.foreign.target import Target

    others = {"a target": args.target, "--python": args.python, "--kwargs": getattr(args, "kwargs", None)}
    others["--in-process"] = options.get("in_process") or None
    for name, value in others.items():
        if value is not None:
            raise InvalidArgument(f"--command stands alone: leave out {name}")
    if args.text_runs and not args.text:
        raise InvalidArgument("--text-runs needs --text")
    command = words("--command", args.program)
    text = (args.text_runs or "batch") if args.text else ""
    found = Target(command=command, cwd=args.cwd, text=text, time_limit=args.time_limit, memory_limit=args.memory)
    found.describe()
    recorded = describe_target(found)
    assert recorded is not None
    return found, found.__name__, recorded


def words(name: str, text: str) -> list[str]:
    """A command, split as a shell would."""
    try:
        found = shlex.split(text)
    except ValueError as error:
        raise InvalidArgument(f"{name} must be words as a shell splits them, got {_short(text)}: {error}") from None
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
    """The mechanism, its name, and how a witness says where to find it.

    It runs in worker processes, in those of another interpreter if one is named or it is an adapter's. This project's own mechanisms run in
    this process; so does what the user wants `in_process`, and what has the output density that `density` asks for. What the user's own
    code raises while it is imported is shown in full, without our frames, before the one line of the error.
    """
    from dpwitness.auditors.targets.naming import relative
    from dpwitness.mechanisms.foreign.environments import adapter_file

    place, _, name = target.rpartition(":")
    if place == "zoo" and python is None:
        return _specimen(name, kwargs)
    if not place or not name:
        raise InvalidArgument(f"target must have the form MODULE:NAME or FILE.py:NAME, got {target!r}")
    if form is not None:
        name = f"{split_form(name)[0]} as {form}"
    elsewhere = python is not None or adapter_file(place) is not None
    inside = in_process or place.partition(".")[0] == "dpwitness"
    if inside and memory:
        raise InvalidArgument(f"--memory limits worker processes, {target} runs in this one")
    if in_process and elsewhere:
        raise InvalidArgument("--in-process cannot go with --python, or with an adapter's target")
    if inside and not elsewhere:
        if " as " not in name and place.partition(".")[0] != "dpwitness":
            name = _recognized_here(place, name, kwargs, dataset)
        return _inside(place, name, kwargs, time_limit)
    from dpwitness.mechanisms.foreign.target import Isolated, Target

    if " as " not in name and adapter_file(place) is None:
        with shown():
            seen = (Target if elsewhere else Isolated)(place, name, python, kwargs, time_limit, memory).recognize(dataset)
        if seen["form"]:
            announce(seen["told"])
            name = f"{seen['name']} as {seen['form']}"
    if elsewhere:
        return _foreign(place, name, kwargs, python, time_limit, memory)
    found = Isolated(place, name, None, kwargs, time_limit, memory)
    with shown():
        found.describe()
    if found.plain:
        return _foreign(place, name, kwargs, None, time_limit, memory)
    if density and found.density and not memory:
        found.close()
        return _inside(place, name, kwargs, time_limit)
    where = relative(place) if place.endswith(".py") else place  # a witness travels with its folder
    return found, _shown_name(name), {"target": f"{where}:{name}"} | ({"kwargs": kwargs} if kwargs else {})


def _shown_name(name: str) -> str:
    return split_form(name)[0].rpartition(".")[2]


def _recognized_here(place: str, name: str, kwargs: Json, dataset: Any) -> str:
    """The name with its form, of a target that runs in this process."""
    from dpwitness.mechanisms.objects.forms import recognize

    form, told = recognize(_loaded("target", f"{place}:{name}", build=False), name, kwargs, dataset)
    if form:
        announce(told)
    return f"{name} as {form}" if form else name


def _specimen(name: str, kwargs: Json) -> tuple[Any, str, Json]:
    """The specimen that `dpwitness list zoo` names."""
    from dpwitness.auditors.targets.naming import describe_target
    from dpwitness.mechanisms.textbook.zoo import zoo

    known = zoo()
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        raise InvalidArgument(f"zoo has no {name!r}{f'; did you mean zoo:{near[0]}?' if near else ''} (see dpwitness list zoo)")
    if kwargs:
        raise InvalidArgument(f"zoo:{name} has its parameters: leave out --kwargs")
    recorded = describe_target(known[name])
    return known[name], name, recorded or {"target": f"zoo:{name}"}


def scores(names: Sequence[str]) -> list[Any]:
    """The functions that ``--scores`` names, with how a witness says where to find them. They run in this process."""
    from dpwitness.auditors.events.scores import Score
    from dpwitness.auditors.targets.naming import load_target, relative

    found = []
    for text in names:
        place, _, name = text.rpartition(":")
        try:
            with apart():
                function = load_target(text)
        except InvalidArgument as error:
            raise InvalidArgument(f"--scores: {error}") from None
        except (Exception, SystemExit) as error:
            _show(error)
            raise InvalidArgument(f"--scores: {text!r} could not be loaded: {said(error)}") from None
        if not callable(function):
            raise InvalidArgument(f"--scores: {text!r} must be a function of the outputs, it is of type {type(function).__name__}")
        where = relative(place) if place.endswith(".py") else place
        found.append(Score(name.rpartition(".")[2], function, {"target": f"{where}:{name}"}))
    return found


def _inside(place: str, name: str, kwargs: Json, time_limit: float) -> tuple[Any, str, Json]:
    """It runs in this process, unless it turns out to be a target as target files have them."""
    from dpwitness.auditors.targets.naming import load_target, relative

    target = f"{relative(place) if place.endswith('.py') else place}:{name}"
    try:
        with apart():
            mechanism = load_target(target, kwargs)
    except InvalidArgument:
        raise
    except (Exception, SystemExit) as error:
        _show(error)
        raise InvalidArgument(f"target {target!r} could not be loaded: {said(error)}") from None
    _check_signature(mechanism, name)
    if isinstance(getattr(mechanism, "domain", None), dict) or isinstance(getattr(mechanism, "claim", None), str):
        return _foreign(place, name, kwargs, None, time_limit, 0.0)
    return mechanism, _shown_name(name), {"target": target, "kwargs": kwargs} if kwargs else {"target": target}


def _foreign(place: str, name: str, kwargs: Json, python: str | None, time_limit: float, memory: float) -> tuple[Any, str, Json]:
    from dpwitness.auditors.targets.naming import describe_target
    from dpwitness.mechanisms.foreign.target import Target

    found = Target(place, name, python, kwargs, time_limit, memory)
    with shown():
        found.describe()
    recorded = describe_target(found)
    assert recorded is not None
    return found, _shown_name(name), recorded


@contextmanager
def shown() -> Iterator[None]:
    """Print the traceback of the user's code that a TargetError carries before it goes on."""
    from dpwitness.mechanisms.foreign.slots import TargetError

    try:
        yield
    except TargetError as error:
        print(error.traceback, end="", file=sys.stderr)
        raise


def _show(error: BaseException) -> None:
    """The traceback from the first frame that is neither ours nor the import system's."""
    frames = list(traceback.walk_tb(error.__traceback__))
    theirs = [i for i, (frame, _) in enumerate(frames) if not _ours(frame.f_globals.get("__name__", ""))]
    if theirs or isinstance(error, SyntaxError):
        shown = traceback.TracebackException.from_exception(error)
        shown.stack = traceback.StackSummary.from_list(list(shown.stack)[theirs[0] if theirs else len(frames) :])
        print("".join(shown.format()), end="", file=sys.stderr)


def _ours(module: str) -> bool:
    return module.split(".")[0] in ("dpwitness", "importlib", "functools")


def _check_signature(mechanism: Any, name: str) -> None:
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
    """Whether it is one of this library's reference mechanisms, whose kernels release the GIL, or a target in another process."""
    found = getattr(type(mechanism), "__module__", "")
    return bool(found.startswith("dpwitness.mechanisms"))


@contextmanager
def workers(args: Any, mechanism: Any = None, scores: Sequence[Any] = ()) -> Iterator[Executor | None]:
    """The executor that ``--executor`` names, or that of ``--workers K``: threads for our own kernels and for targets, processes for other
    code, None for one. To a cluster go the files of the mechanism and of the `scores`, and what ``--ship`` names.

    On the way out nothing is waited for: a worker that hangs has had its verdict.
    """
    from dpwitness.executors.shipping import own_files
    from dpwitness.mechanisms.foreign.target import Target

    spec, ship = args.executor, args.ship
    if spec is None and args.workers > 1:
        spec = f"{'threads' if own(mechanism) else 'processes'}:{args.workers}"
    if spec is not None and spec.startswith("dask://"):
        ship = [*own_files([mechanism, *(score.function for score in scores)]), *ship]
    elif ship:
        raise InvalidArgument(f"--ship is for --executor dask://HOST:PORT, got {spec or 'no executor'}")
    with ExitStack() as stack:
        found = None if spec is None else stack.enter_context(executor(spec, ship=ship))
        if isinstance(mechanism, Target):
            stack.callback(mechanism.close)
        yield found
