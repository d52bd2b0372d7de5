"""Objects in the user's files: loading, and tracebacks without frames of dpwitness."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dpwitness.auditors.events.outputs import Score
from dpwitness.auditors.workers.loading import find_target, load_target, relative
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, error_text
from dpwitness.mechanisms.wrappers.programs.inside.target_runs import Unfit, check_call
from dpwitness.mechanisms.wrappers.programs.worker_pool import TargetError
from dpwitness.terminal import redirected_stdout


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
    except Unfit as error:
        raise InvalidArgument(str(error)) from None
