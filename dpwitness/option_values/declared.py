"""Audits of what TARGETS of a target file declares: transformations with a stability map,
accountants, and metamorphic relations.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dpwitness.auditors.scanning.guessed_result import with_guess
from dpwitness.auditors.witnesses.verdicts import Result
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.option_values.user_code import printed_traceback

if TYPE_CHECKING:
    from dpwitness.mechanisms.wrappers.programs.target import Target

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
    from dpwitness.mechanisms.wrappers.programs.environments import adapter_file
    from dpwitness.mechanisms.wrappers.programs.target import Target

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
    from dpwitness.auditors.functions.declared_targets import DECLARED

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
