"""Mechanisms of the command line (a target, a program, a query), audits of declared targets that
are not mechanisms, and the executor that runs them.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.workers.loading import QUERY, describe_target, relative
from dpwitness.commands.inputs import (
    check_signature,
    dataset,
    keywords,
    load_object,
    printed_traceback,
    shortened,
)
from dpwitness.console import announce
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.executors.pools import executor
from dpwitness.mechanisms.wrappers.programs.target import Isolated, Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import adapter_file
from dpwitness.mechanisms.wrappers.recognition import recognize, split_form


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


def _load_query(args: argparse.Namespace) -> tuple[Any, str, Json]:
    """Return a database query that runs in worker processes of this interpreter."""
    names = ("dsn", "query", "table", "setup")
    kwargs = {key: getattr(args, key) for key in names if getattr(args, key) is not None}
    if args.domain is not None:
        kwargs["domain"] = keywords(args.domain, "--domain")
    place, _, name = QUERY.partition(":")
    found = Isolated(place, name, None, kwargs, args.time_limit, args.memory)
    with printed_traceback():
        found.describe()
    return found, "query", {"target": QUERY, "kwargs": kwargs}


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
    """Return a mechanism, its display name, and its location for the witness file.

    The mechanism runs in worker processes: of this interpreter, of `python` if given, or of the
    environment of an adapter. Mechanisms of dpwitness run in this process; so do all mechanisms if
    `in_process`, and those with an output density if `density`.
    """
    place, _, name = target.rpartition(":")
    if place == "zoo" and python is None:
        return _load_zoo_mechanism(name, kwargs)
    if not place or not name:
        raise InvalidArgument(
            f"target must have the form MODULE:NAME or FILE.py:NAME, got {target!r}"
        )
    if form is not None:
        name = f"{split_form(name)[0]} as {form}"
    is_own, is_adapter = place.partition(".")[0] == "dpwitness", adapter_file(place) is not None
    elsewhere = python is not None or is_adapter
    if memory and (in_process or is_own):
        raise InvalidArgument(
            f"--memory limits worker processes, but {target} runs in this process"
        )
    if in_process and elsewhere:
        raise InvalidArgument(
            "--in-process cannot be combined with --python or with the target of an adapter"
        )
    limits = time_limit, memory
    if is_own and not elsewhere:
        return _load_in_process(place, name, kwargs, time_limit)
    if in_process:
        if " as " not in name:
            found = load_object("", f"{place}:{name}", build=False)
            name = _with_form(name, *recognize(found, name, kwargs, dataset))
        return _load_in_process(place, name, kwargs, time_limit)
    if " as " not in name and not is_adapter:
        kind = Target if elsewhere else Isolated
        with printed_traceback():
            recognized = kind(place, name, python, kwargs, *limits).recognize(dataset)
        name = _with_form(recognized["name"], recognized["form"], recognized["text"])
    if elsewhere:
        return _load_target(place, name, kwargs, python, *limits)
    isolated = Isolated(place, name, None, kwargs, *limits)
    with printed_traceback():
        isolated.describe()
    if isolated.plain:  # a target that is written without dpwitness
        return _load_target(place, name, kwargs, None, *limits)
    if density and isolated.density and not memory:
        isolated.close()
        return _load_in_process(place, name, kwargs, time_limit)
    return isolated, _display_name(name), _location(place, name, kwargs)


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
        raise InvalidArgument(f"zoo has no mechanism {name!r}: see dpwitness list zoo")
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
