"""What the command line names: datasets, pairs, domains, claims and objects in files; mechanisms (a
target, a program, a query), declared targets that are not mechanisms; and the executor that runs
them.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import re
import shlex
import sys
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.auditors.events.outputs import Score
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.workers.descriptions import QUERY, describe_target, relative
from dpwitness.auditors.workers.loading import find_target, load_target, split_target
from dpwitness.core import Domain, Pair
from dpwitness.core.claims import MetricDP, parse_claim, promised
from dpwitness.core.domains import build_domain
from dpwitness.core.values.dataframe_backends import UnsupportedData, library
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.json_reader import Json, object_without_duplicates
from dpwitness.core.values.validation import InvalidArgument, did_you_mean, error_text
from dpwitness.executors.pools import executor
from dpwitness.mechanisms.wrappers.programs.environments import adapter_file
from dpwitness.mechanisms.wrappers.programs.inside.target_runs import UnusableTarget, check_call
from dpwitness.mechanisms.wrappers.programs.target import Isolated, Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import TargetError
from dpwitness.mechanisms.wrappers.recognition import recognize, split_form
from dpwitness.terminal import announce, redirected_stdout


def _parse_json(name: str, text: str) -> Any:
    """Parse the JSON text of an option. Raise InvalidArgument if it is not valid JSON
    or not UTF-8.
    """

    def refuse(word: str) -> Any:
        raise ValueError(f'{word} is not a JSON number: write "{word}"')

    def finite(digits: str) -> float:
        if math.isinf(float(digits)):
            raise ValueError(f'{digits} is beyond the range of floats: "Infinity" is infinite')
        return float(digits)

    try:
        value = json.loads(
            text,
            parse_constant=refuse,
            parse_float=finite,
            object_pairs_hook=object_without_duplicates,
        )
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
    """Parse a dataset from JSON text, or read a Parquet or CSV file into a pandas frame. Raise
    InvalidArgument if the text cannot be parsed, or the file cannot be read.

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
    """Parse the JSON object of an option; an absent option is an empty object. Raise
    InvalidArgument for other JSON.
    """
    if text is None:
        return {}
    value = _parse_json(option, text)
    if not isinstance(value, dict):
        raise InvalidArgument(f"{option} must be a JSON object, got {text!r}")
    return value


def pair_of(d0: str | None, d1: str | None, relation: str | None, mechanism: Any) -> Pair | None:
    """Return the pair of ``--d0`` and ``--d1``; None if pairs come from the mechanism's domain."""
    if d0 is None or d1 is None:
        return None
    own_relation = str(getattr(getattr(mechanism, "domain", None), "relation", "replace-one"))
    found = [dataset("d0", d0), dataset("d1", d1)]
    # for example one list is ragged: both stay lists
    if {type(data) for data in found} == {list, np.ndarray}:
        found = [dataset(name, text, arrays=False) for name, text in (("d0", d0), ("d1", d1))]
    if {type(data) for data in found} == {int, float}:
        found = [float(data) for data in found]
    # JSON cannot express an empty table with columns
    for i, other in enumerate(reversed(found)):
        is_array = isinstance(found[i], np.ndarray) and isinstance(other, np.ndarray)
        if is_array and found[i].shape == (0,) and other.ndim > 1:
            found[i] = np.empty((0, *other.shape[1:]))
    chosen: Any = relation or own_relation
    if ".py:" in chosen:  # its check runs in this process
        chosen = load_object("--relation", chosen)
        is_relation = callable(getattr(chosen, "check", None))
        _require(is_relation, f"--relation: {relation!r}", "a dpwitness.domains.Relation", chosen)
    return Pair(found[0], found[1], chosen)


def domain_of(text: str | None) -> Any:
    """Return the domain of ``--domain``: a JSON declaration, or an object at FILE.py:NAME (a domain
    or a user-defined relation).
    """
    if text is None:
        return None
    if ".py:" not in text or text.lstrip().startswith("{"):
        return build_domain(keywords(text, "--domain"), "--domain")
    found = load_object("--domain", text)
    _require(
        isinstance(found, Domain),
        f"--domain: {text!r}",
        "a domain or a dpwitness.domains.Relation",
        found,
    )
    return found


def _require(holds: bool, what: str, needed: str, found: object) -> None:
    """Raise InvalidArgument, with the type of the object that was found, unless it has the needed
    form.
    """
    if not holds:
        kind = type(found).__name__
        raise InvalidArgument(f"{what} must be {needed}, got an object of type {kind}")


def claim_of(args: argparse.Namespace, mechanism: Any) -> Any:
    """Return the claim of the command line, combined with the metric of ``--distance``. Raise
    InvalidArgument if ``--distance`` is given for another claim.
    """
    if args.distance is None:
        return args.claim
    claim = promised(mechanism, args.claim, "--distance")
    if not isinstance(claim, MetricDP):
        raise InvalidArgument(f"--distance is for claims metric:EPSILON, got {claim}")
    return parse_claim(f"metric:{claim.epsilon!r},{args.distance}")


def load_object(option: str, text: str, kwargs: Json | None = None, *, build: bool = True) -> Any:
    """Return the object at FILE.py:NAME; if `build` is true, a class is built with `kwargs`, and a
    function is bound to them. Raise InvalidArgument if the object cannot be loaded.

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
        _require(callable(function), f"--scores: {text!r}", "a function of the outputs", function)
        place, _, name = text.rpartition(":")
        found.append(Score(name.rpartition(".")[2], function, _location(place, name, {})))
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
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    modules = (frame.f_globals.get("__name__", "").split(".")[0] for frame in frames)
    own = takewhile(lambda module: module in ("dpwitness", "importlib", "functools"), modules)
    shown = len(frames) - len(list(own))
    if shown or isinstance(error, SyntaxError):
        traceback.print_exception(error, limit=-shown, file=sys.stderr)


def check_signature(mechanism: Any, name: str) -> None:
    """Raise InvalidArgument unless the mechanism can be called as f(dataset, size, rng)."""
    found, kwargs = mechanism, dict[str, Any]()
    if isinstance(mechanism, functools.partial):
        found, kwargs = mechanism.func, mechanism.keywords
    try:
        check_call(found, name, kwargs)
    except UnusableTarget as error:
        raise InvalidArgument(str(error)) from None


def load_mechanism(args: argparse.Namespace, **options: bool) -> tuple[Any, str, Json]:
    """Return the mechanism of the command line, its name and its location (as `load` returns them).

    The mechanism comes from the target, ``--command`` or ``--dsn``.
    """
    if getattr(args, "dsn", None) is not None:
        return _load_query(args)
    if getattr(args, "program", None) is not None:
        return _load_program(args)
    if args.target is None:
        raise InvalidArgument(
            "a target is needed: MODULE:NAME, FILE.py:NAME, or a program with --command"
        )
    if args.target.endswith((".py", ".py:")):
        _refuse_file(args.target.rstrip(":"))
    return load(
        args.target,
        keywords(args.kwargs),
        args.python,
        args.time_limit,
        args.memory,
        dataset=dataset("d0", args.d0) if {"d0", "d1"} <= args.given else None,
        form=args.form,
        **options,
    )


def _refuse_file(file: str) -> None:
    """Raise InvalidArgument for a file in place of a target; the message lists its functions and
    classes.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise InvalidArgument(f"target must name an existing file, got {file!r}")
    text = path.read_text(encoding="utf-8", errors="replace")
    names = re.findall(r"^(?:async )?(?:def|class) ([^\W_]\w*)", text, re.MULTILINE)
    listed = ", ".join(names[:20]) or "neither functions nor classes"
    raise InvalidArgument(
        f"target must name an object of the file, as in {file}:{names[0] if names else 'NAME'}, "
        f"got {file!r}, which has {listed}"
    )


def _load_query(args: argparse.Namespace) -> tuple[Any, str, Json]:
    """Return a database query that runs in worker processes of this interpreter."""
    names = ("dsn", "query", "table", "setup")
    kwargs = {key: getattr(args, key) for key in names if getattr(args, key) is not None}
    for key in ("query", "setup"):
        if re.fullmatch(r"\S+\.sql", kwargs.get(key, "")):
            kwargs[key] = _sql_of(f"--{key}", kwargs[key])
    if args.domain is not None:
        kwargs["domain"] = keywords(args.domain, "--domain")
    place, _, name = QUERY.partition(":")
    found = Isolated(place, name, None, kwargs, args.time_limit, args.memory)
    with printed_traceback():
        found.describe()
    return found, "query", {"target": QUERY, "kwargs": kwargs}


def _sql_of(option: str, file: str) -> str:
    """Return the statements in a file. Raise InvalidArgument if it cannot be read."""
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"{option} must be SQL, or a file that can be read, got {file!r}: {error_text(error)}"
        ) from None


def _load_program(args: argparse.Namespace) -> tuple[Any, str, Json]:
    """Return the program of ``--command`` as a target."""
    found = Target(
        command=words("--command", args.program),
        cwd=args.cwd,
        text=(args.text_runs or "batch") if args.text else "",
        time_limit=args.time_limit,
        memory_limit=args.memory,
    )
    found.describe()
    return found, found.__name__, describe_target(found) or {}


def words(name: str, text: str) -> list[str]:
    """Split a command line into words as a shell does. Raise InvalidArgument if this fails."""
    try:
        found = shlex.split(text)
    except ValueError as error:
        raise InvalidArgument(
            f"{name} must be a command line that a shell can split into words, got "
            f"{shortened(text)}: {error}"
        ) from None
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
    """Return a mechanism, its display name, and its location for the witness file. Raise
    InvalidArgument if the target has another form, or options exclude each other.

    The mechanism runs in worker processes: of this interpreter, of `python` if given, or of the
    environment of an adapter. Mechanisms of dpwitness run in this process; so do all mechanisms if
    `in_process`, and those with an output density if `density`.
    """
    place, name = split_target(target)
    if place == "zoo" and python is None:
        return _load_zoo_mechanism(name, kwargs)
    if form is not None:
        name = f"{split_form(name)[0]} as {form}"
    is_own, elsewhere = place.partition(".")[0] == "dpwitness", python or adapter_file(place)
    if memory and (in_process or is_own):
        raise InvalidArgument(
            f"--memory limits worker processes, but {target} runs in this process: leave it out"
        )
    if in_process and elsewhere:
        raise InvalidArgument(
            "--in-process cannot be combined with --python or with the target of an adapter"
        )
    if is_own and not elsewhere:
        return _load_in_process(place, name, kwargs, time_limit)
    if in_process:
        if " as " not in name:
            found = load_object("", f"{place}:{name}", build=False)
            name = _with_form(name, *recognize(found, name, kwargs, dataset))
        return _load_in_process(place, name, kwargs, time_limit)
    if " as " not in name and adapter_file(place) is None:
        kind = Target if elsewhere else Isolated
        with printed_traceback():
            recognized = kind(place, name, python, kwargs, time_limit, memory).recognize(dataset)
        name = _with_form(recognized["name"], recognized["form"], recognized["text"])
    if elsewhere:
        return _load_target(place, name, kwargs, python, time_limit, memory)
    return _load_isolated(place, name, kwargs, time_limit, memory, density=density)


def _load_isolated(
    place: str, name: str, kwargs: Json, time_limit: float, memory: float, *, density: bool
) -> tuple[Any, str, Json]:
    """Return a mechanism that runs in worker processes of this interpreter: as a target if it is
    written without dpwitness. With `density`, a mechanism that has an output density, and no memory
    limit, is loaded into this process instead.
    """
    found = Isolated(place, name, None, kwargs, time_limit, memory)
    with printed_traceback():
        found.describe()
    if found.plain:
        return _load_target(place, name, kwargs, None, time_limit, memory)
    if density and found.density and not memory:
        found.close()
        return _load_in_process(place, name, kwargs, time_limit)
    return found, _display_name(name), _location(place, name, kwargs)


def _with_form(name: str, form: str, notice: str) -> str:
    """Announce how a target is run and append the form to its name, if a form was recognized."""
    if form:
        announce(notice)
    return f"{name} as {form}" if form else name


def _location(place: str, name: str, kwargs: Json) -> Json:
    """Return the location for the witness; a path relative to the witness keeps working when its
    folder moves.
    """
    target = f"{relative(place) if place.endswith('.py') else place}:{name}"
    return {"target": target, "kwargs": kwargs} if kwargs else {"target": target}


def _display_name(name: str) -> str:
    """Return the last part of a dotted name, without its form."""
    return split_form(name)[0].rpartition(".")[2]


def _load_zoo_mechanism(name: str, kwargs: Json) -> tuple[Any, str, Json]:
    from dpwitness.mechanisms.textbook.zoo import zoo

    found = zoo().get(name)
    if found is None:
        hint = did_you_mean(name, zoo()) or ": see dpwitness list zoo"
        raise InvalidArgument(f"zoo has no mechanism {name!r}{hint}")
    if kwargs:
        raise InvalidArgument(f"zoo:{name} has fixed parameters: leave out --kwargs")
    return found, name, describe_target(found) or {"target": f"zoo:{name}"}


def _load_in_process(
    place: str, name: str, kwargs: Json, time_limit: float
) -> tuple[Any, str, Json]:
    """Load a mechanism into this process; an object in the style of target files runs in worker
    processes instead.
    """
    location = _location(place, name, kwargs)
    mechanism = load_object("", location["target"], kwargs)
    check_signature(mechanism, name)
    domain, claim = getattr(mechanism, "domain", None), getattr(mechanism, "claim", None)
    if isinstance(domain, dict) or isinstance(claim, str):
        return _load_target(place, name, kwargs, None, time_limit, 0.0)
    return mechanism, _display_name(name), location


def _load_target(
    place: str, name: str, kwargs: Json, python: str | None, time_limit: float, memory: float
) -> tuple[Any, str, Json]:
    """Return a target that runs in worker processes of `python`."""
    found = Target(place, name, python, kwargs, time_limit, memory)
    with printed_traceback():
        found.describe()
    return found, _display_name(name), describe_target(found) or {}


@contextmanager
def workers(args: Any, mechanism: Any = None) -> Iterator[Executor | None]:
    """Yield the executor of ``--executor`` or ``--workers K``, or None for a single worker.

    With ``--workers``, reference mechanisms and targets run in threads, and other code in
    processes. The exit does not wait for running tasks, because a worker that hangs already has its
    verdict.
    """
    spec = args.executor
    if spec is None and args.workers > 1:
        # Kernels of reference mechanisms release the GIL, and targets run in other processes:
        # threads suffice for both.
        in_threads = getattr(type(mechanism), "__module__", "").startswith("dpwitness.mechanisms")
        spec = f"{'threads' if in_threads else 'processes'}:{args.workers}"
    with ExitStack() as stack:
        found = None if spec is None else stack.enter_context(executor(spec))
        if isinstance(mechanism, Target):
            stack.callback(mechanism.close)
        yield found


_SECONDS = 10.0  # default time of a search
# options that need a mechanism with a privacy claim
_FOR_MECHANISMS = (
    *("claim", "distance", "d0", "d1", "relation", "kwargs", "form", "domain", "store", "extend"),
    *("trials", "search_seconds", "white_box", "search", "bits", "in_process", "clock"),
)


def declared_target(args: argparse.Namespace) -> tuple[Target, Json] | None:
    """Return the target of the command line with its declaration, if TARGETS of its file declares
    it; None otherwise.
    """
    from dpwitness.mechanisms.wrappers.programs.declared import declarations

    place, _, name = (args.target or "").rpartition(":")
    file = Path(place).expanduser() if place.endswith(".py") else adapter_file(place)
    if file is None or not file.is_file() or not name.isidentifier():
        return None
    # other files need no worker to decide
    if "TARGETS" not in file.read_text(encoding="utf-8", errors="replace"):
        return None
    with printed_traceback():
        found = declarations(place, args.python, args.time_limit, args.memory)
    if name not in found:
        return None
    return Target(place, name, args.python, {}, args.time_limit, args.memory), found[name]


def audit_declared_target(
    args: argparse.Namespace, target: Target, declaration: Json
) -> list[Result]:
    """Audit a declared target by its kind, with the options of the command line, and return the
    results.
    """
    from dpwitness.auditors.functions.declared_targets import DECLARED, with_guess

    kind = DECLARED.get(declaration["kind"])
    if kind is None:
        raise InvalidArgument(
            f"{args.target}: kind must be one of {', '.join(DECLARED)}, got {declaration['kind']!r}"
            f"{did_you_mean(declaration['kind'], DECLARED)}"
        )
    for option in args.given.intersection(_FOR_MECHANISMS):
        raise InvalidArgument(
            f"{args.rules[option].action.option_strings[0]} is for mechanisms, but {args.target} "
            f"is declared as a {declaration['kind']}: leave it out"
        )
    try:
        with printed_traceback():
            results = kind(target, declaration).audit(
                seconds=args.seconds or _SECONDS,
                seed=args.seed or 0,
                visible_errors=args.visible_errors,
            )
            return [with_guess(result, declaration.get("guessed")) for result in results]
    finally:
        target.close()
