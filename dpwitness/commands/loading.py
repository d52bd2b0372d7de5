"""Mechanisms of the command line (a target, a program, a query), audits of declared targets that
are not mechanisms, and the executor that runs them.
"""

from __future__ import annotations

import argparse
import difflib
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
    for option in ("query", "table", "setup"):
        if getattr(args, option, None) is not None:
            raise InvalidArgument(f"--{option} is for databases: give --dsn")
    if args.program is not None:
        return _load_program(args, options)
    if args.cwd or args.text or args.text_runs:
        raise InvalidArgument("--cwd, --text and --text-runs are for programs: give --command")
    if args.target is None:
        raise InvalidArgument(
            "a target is needed: MODULE:NAME, FILE.py:NAME, or a program with --command"
        )
    example = (
        None
        if None in (getattr(args, "d0", None), getattr(args, "d1", None))
        else dataset("d0", args.d0)
    )
    return load(
        args.target,
        keywords(args.kwargs),
        args.python,
        args.time_limit,
        args.memory,
        dataset=example,
        form=getattr(args, "form", None),
        **options,
    )


def _load_query(args: argparse.Namespace) -> tuple[Any, str, Json]:
    """Return a database query that runs in worker processes of this interpreter."""
    _refuse_combination(
        "--dsn",
        {
            "a target": args.target,
            "--command": args.program,
            "--python": args.python,
            "--kwargs": args.kwargs,
        },
    )
    if args.query is None:
        raise InvalidArgument("--dsn needs a --query")
    kwargs = {
        key: getattr(args, key)
        for key in ("dsn", "query", "table", "setup")
        if getattr(args, key) is not None
    }
    if args.domain is not None:
        kwargs["domain"] = keywords(args.domain, "--domain")
    place, _, name = QUERY.partition(":")
    found = Isolated(place, name, None, kwargs, args.time_limit, args.memory)
    with printed_traceback():
        found.describe()
    return found, "query", {"target": QUERY, "kwargs": kwargs}


def _refuse_combination(option: str, others: dict[str, Any]) -> None:
    for name, value in others.items():
        if value is not None:
            raise InvalidArgument(f"{option} cannot be combined with {name}")


def _load_program(args: argparse.Namespace, options: dict[str, bool]) -> tuple[Any, str, Json]:
    """Return the program of ``--command`` as a target."""
    _refuse_combination(
        "--command",
        {
            "a target": args.target,
            "--python": args.python,
            "--kwargs": getattr(args, "kwargs", None),
            "--in-process": options.get("in_process") or None,
        },
    )
    if args.text_runs and not args.text:
        raise InvalidArgument("--text-runs needs --text")
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
    in_other_interpreter = python is not None or adapter_file(place) is not None
    is_own = place.partition(".")[0] == "dpwitness"
    in_this_process = in_process or is_own
    if in_this_process and memory:
        raise InvalidArgument(
            f"--memory limits worker processes, but {target} runs in this process"
        )
    if in_process and in_other_interpreter:
        raise InvalidArgument(
            "--in-process cannot be combined with --python or with the target of an adapter"
        )
    if in_this_process and not in_other_interpreter:
        if " as " not in name and not is_own:
            name = _with_form(
                name,
                *recognize(load_object("", f"{place}:{name}", build=False), name, kwargs, dataset),
            )
        return _load_in_process(place, name, kwargs, time_limit)
    if " as " not in name and adapter_file(place) is None:
        with printed_traceback():
            recognized = (Target if in_other_interpreter else Isolated)(
                place, name, python, kwargs, time_limit, memory
            ).recognize(dataset)
        name = _with_form(recognized["name"], recognized["form"], recognized["text"])
    if in_other_interpreter:
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
    return (
        found,
        _display_name(name),
        {"target": _recorded(place, name)} | ({"kwargs": kwargs} if kwargs else {}),
    )


def _with_form(name: str, form: str, notice: str) -> str:
    """Announce how a target is run and append the form to its name, if a form was recognized."""
    if form:
        announce(notice)
    return f"{name} as {form}" if form else name


def _recorded(place: str, name: str) -> str:
    """Return the location for the witness; a path relative to the witness keeps working when its
    folder moves.
    """
    return f"{relative(place) if place.endswith('.py') else place}:{name}"


def _display_name(name: str) -> str:
    """Return the last part of a dotted name, without its form."""
    return split_form(name)[0].rpartition(".")[2]


def _load_zoo_mechanism(name: str, kwargs: Json) -> tuple[Any, str, Json]:
    from dpwitness.mechanisms.textbook.zoo import zoo

    known = zoo()
    if name not in known:
        close_matches = difflib.get_close_matches(name, known, 1)
        raise InvalidArgument(
            "zoo has no "
            f"{name!r}{f'; did you mean zoo:{close_matches[0]}?' if close_matches else ''} (see "
            "dpwitness list zoo)"
        )
    if kwargs:
        raise InvalidArgument(f"zoo:{name} has fixed parameters: leave out --kwargs")
    return known[name], name, describe_target(known[name]) or {"target": f"zoo:{name}"}


def _load_in_process(
    place: str, name: str, kwargs: Json, time_limit: float
) -> tuple[Any, str, Json]:
    """Load a mechanism into this process; an object in the style of target files runs in worker
    processes instead.
    """
    target = _recorded(place, name)
    mechanism = load_object("", target, kwargs)
    check_signature(mechanism, name)
    if isinstance(getattr(mechanism, "domain", None), dict) or isinstance(
        getattr(mechanism, "claim", None), str
    ):
        return _load_target(place, name, kwargs, None, time_limit, 0.0)
    return (
        mechanism,
        _display_name(name),
        {"target": target} | ({"kwargs": kwargs} if kwargs else {}),
    )


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
_FOR_MECHANISMS = {  # options that need a mechanism with a privacy claim, with their default
    **dict.fromkeys(
        (
            "claim",
            "distance",
            "d0",
            "d1",
            "relation",
            "kwargs",
            "form",
            "domain",
            "store",
            "extend",
            "trials",
            "search_seconds",
        )
    ),
    **dict.fromkeys(("white_box", "search", "bits", "in_process"), False),
    "clock": "wall",
}


def declared_target(args: argparse.Namespace) -> tuple[Target, Json] | None:
    """Return the target of the command line with its declaration, if TARGETS of its file declares
    it; None otherwise.
    """
    from dpwitness.mechanisms.wrappers.programs.declared import declarations

    place, _, name = (args.target or "").rpartition(":")
    file = Path(place).expanduser() if place.endswith(".py") else adapter_file(place)
    if file is None or not name.isidentifier() or not _may_declare(file):
        return None
    with printed_traceback():
        found = declarations(place, args.python, args.time_limit, args.memory)
    if name not in found:
        return None
    return Target(place, name, args.python, {}, args.time_limit, args.memory), found[name]


def _may_declare(file: Path) -> bool:
    """Return whether a source file mentions TARGETS, so that others need no worker to decide."""
    try:
        return "TARGETS" in file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


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
    for option, usual in _FOR_MECHANISMS.items():
        if getattr(args, option, usual) != usual:
            flag = "--as" if option == "form" else f"--{option.replace('_', '-')}"
            raise InvalidArgument(
                f"{flag} is for mechanisms, but {args.target} is declared as a "
                f"{declaration['kind']}: leave it out"
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
