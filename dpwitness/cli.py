"""Command line: argument parser, defaults of the project file, error handling and exit codes. The
commands are declared in `commands.table`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from dpwitness.commands.options import COMMON, JSON, add_options, check_together
from dpwitness.commands.table import COMMANDS, Command
from dpwitness.core.values.validation import InvalidArgument, did_you_mean
from dpwitness.project import project_table
from dpwitness.terminal import (
    OK,
    TRACEBACK,
    USAGE,
    Stream,
    finish,
    guarded,
    handled_signals,
    streams,
    wanted,
)

_MAIN_COMMANDS = 8  # number of commands on the first screen; `dpwitness more` lists the others

_EXIT_CODES = (
    "exit codes: 0 nothing refuted, 1 violated, 2 usage or input error, or a file that could not "
    "be written, 3 inconclusive, interrupted, a mechanism that failed, or an unexpected error "
    f"({TRACEBACK}=1 shows the traceback)"
)


class _Parser(argparse.ArgumentParser):
    """Argument parser with one-line errors that suggest the nearest name, and that rejects a
    repeated option.

    The standard parser silently uses the last value of a repeated option. `commands` are the
    parsers of the commands by name.
    """

    commands: Mapping[str, argparse.ArgumentParser]

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._seen: set[str] = set()
        if self._subparsers is None:  # a misspelled option is named before what is then missing
            before = takewhile(lambda word: word != "--", args)
            self._refuse_unknown_option(word for word in before if word.startswith("--"))
        found, rest = super().parse_known_args(args, namespace)
        self._refuse_unknown_option(rest)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def _refuse_unknown_option(self, words: Iterable[str]) -> None:
        known = self._option_string_actions
        for name in (word.partition("=")[0] for word in words if word.startswith("-")):
            if name not in known:
                self.error(f"there is no option {name}{did_you_mean(name, known)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = list(action.choices)
            raise argparse.ArgumentError(
                action,
                f"invalid choice: {value!r} (choose from {', '.join(choices)})"
                f"{did_you_mean(value, choices)}",
            )

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        single_use = (
            action.option_strings
            and action.nargs != 0
            and not isinstance(action, argparse._AppendAction)
        )
        if single_use and action.dest in self._seen:
            raise argparse.ArgumentError(
                action,
                f"is given twice, the second time as {' '.join(arg_strings)!r}: give it once",
            )
        if single_use:
            self._seen.add(action.dest)
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _parser() -> _Parser:
    width = min(79, shutil.get_terminal_size().columns)
    parser = _Parser(
        prog="dpwitness",
        description="Does this implementation keep the privacy promise it makes?",
        epilog=textwrap.fill(_EXIT_CODES, width),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", help=argparse.SUPPRESS)
    parser.commands = commands.choices
    for name, declared in COMMANDS.items():
        command = _add_command(commands, name, declared)
        if declared.like:
            usual = vars(parser.commands[declared.like].parse_args([]))
            own = {"run": declared.run, "rules": command.get_default("rules")}
            command.set_defaults(**usual | dict(declared.fixed) | own)
    lines = [
        textwrap.fill(
            COMMANDS[name].text, width, initial_indent=f"  {name:<10}", subsequent_indent=" " * 12
        )
        for name in COMMANDS
    ]
    more = "\n".join(["more commands:", *lines[_MAIN_COMMANDS:]])
    commands.add_parser("more", allow_abbrev=False).set_defaults(more=more)
    main_lines = "\n".join(["commands:", *lines[:_MAIN_COMMANDS]])
    parser.description = (
        f"{parser.description}\n\n{main_lines}\n\ndpwitness more lists "
        f"{len(lines) - _MAIN_COMMANDS} more commands."
    )
    return parser


def _add_command(commands: Any, name: str, declared: Command) -> argparse.ArgumentParser:
    """Add the parser of a command, or of an action of a command, with its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=declared.text,
        description=declared.text,
        epilog=_EXIT_CODES,
        allow_abbrev=False,
        add_help=False,
    )
    add_options(parser, {**COMMON, **declared.options})
    parser.set_defaults(run=declared.run, **declared.fixed)
    if declared.actions:
        actions = parser.add_subparsers(
            dest="action", metavar="|".join(declared.actions), required=True
        )
        for action, its in declared.actions.items():
            _add_command(actions, action, its._replace(options={**its.options, **JSON}))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line, run the command, and return the exit code."""
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for the words that may come next
        import argcomplete

        argcomplete.autocomplete(parser)
    with streams():
        given = list(sys.argv[1:] if argv is None else argv)
        if any("\0" in text for text in given):
            parser.error("arguments must not contain null characters")
        args = _parse(parser, given)
    if args.version:
        from importlib.metadata import version

        return _print(f"dpwitness {version('dpwitness')}", OK)
    if args.command is None:
        return _print(f"{parser.description}\ndpwitness COMMAND --help describes a command.", USAGE)
    if args.command == "more":
        return _print(args.more, OK)
    with handled_signals():
        code = guarded(args.command, lambda: _run(args))
        return finish(code) if argv is None else code


def _parse(parser: _Parser, given: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments; print which defaults of the project file are used."""
    if not given or given[0] not in COMMANDS:
        return parser.parse_args(given)
    defaults = _use_project_file(parser.commands[given[0]], given)
    args = parser.parse_args(given)
    used = [each for each in defaults if getattr(args, each.dest) is each.default]
    if used and not getattr(args, "quiet", False):
        shown = ", ".join(map(_shown_default, used))
        print(f"defaults of pyproject.toml: {shown}", file=sys.stderr)
    return args


def _use_project_file(
    command: argparse.ArgumentParser, given: Sequence[str]
) -> list[argparse.Action]:
    """Give a command the defaults of the project's ``pyproject.toml``, and return their options.

    Keys that the command does not take, and options that a given option excludes, are left out.
    """
    excluded = _excluded(command, {word.partition("=")[0] for word in given})
    taken = []
    try:
        file, table = project_table(Path.cwd())
        for action in command._actions:
            is_optional_target = action.dest == "target" and action.nargs == "?"
            key = "targets" if is_optional_target else action.dest
            if key not in table or action.dest in excluded:
                continue
            action.required = False
            if key == "targets":
                action.default = table[key][0] if is_optional_target else table[key]
            else:
                action.default = _read_default(action, table[key], f"{file}: {key}")
            taken.append(action)
    except InvalidArgument as error:
        command.error(str(error))
    return taken


def _excluded(command: argparse.ArgumentParser, words: set[str]) -> set[str]:
    """Return the names of the options that are given, or excluded by a given one."""
    groups = [
        (group._group_actions, {action.dest for action in group._group_actions})
        for group in command._mutually_exclusive_groups
    ]
    groups += [([rule.action], rule.excludes) for rule in command.get_default("rules").values()]
    return {
        dest
        for actions, dests in groups
        if words & {option for action in actions for option in action.option_strings}
        for dest in dests
    }


def _shown_default(action: argparse.Action) -> str:
    """Return the default of an option as on the command line."""
    values = action.default if isinstance(action.default, list) else [action.default]
    return shlex.join([*action.option_strings, *map(str, values)])


def _read_default(action: argparse.Action, value: Any, place: str) -> Any:
    """Return the value of a key, converted as on the command line. Raise InvalidArgument, with the
    place in the file, if the option does not take this value.
    """
    try:
        return action.type(str(value)) if callable(action.type) else str(value)
    except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
        raise InvalidArgument(f"{place}: {error}") from None


def _print(text: str, code: int) -> int:
    """Print a text and return the exit code, or that of a failed write."""

    def run() -> int:
        print(text)
        return code

    return guarded("", run)


def _run(args: argparse.Namespace) -> int:
    """Limit linear algebra to one thread, choose colors, and run the command."""
    # Threads of the linear algebra library compete with `--workers` and are slower on small
    # matrices: one thread is fastest. NumPy reads these variables when it is imported. No command
    # imports NumPy before this point.
    # The last one keeps Numba from writing a color code at exit, on whatever stream there is.
    for name in (
        *("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"),
        "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING",
    ):
        os.environ.setdefault(name, "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Stream):
            stream.colored = wanted(getattr(args, "color", "auto"), stream)
            stream.quiet = getattr(args, "quiet", False)
            stream.wraps = not getattr(args, "json", False)
    check_together(args)
    module, _, function = args.run.partition(":")
    return int(getattr(import_module(f"dpwitness.commands.{module}"), function)(args))
