"""Command line: argument parser, error handling and exit codes. Each module of `commands` defines
one command.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from dpwitness.commands import (
    audit,
    canaries,
    check,
    claims,
    listing,
    plan,
    replay,
    report,
    scan,
    store,
    suite,
    targets,
    trace,
    watch,
)
from dpwitness.commands.options import COLOR, add_options
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.option_values import init_example
from dpwitness.option_values.project_file import apply_project_defaults
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

COMMANDS = {
    "init": init_example,
    "audit": audit,
    "scan": scan,
    "check": check,
    "trace": trace,
    "canaries": canaries,
    "replay": replay,
    "report": report,
    "plan": plan,
    "certify": audit,
    "compare": report,
    "list": listing,
    "targets": targets,
    "store": store,
    "claims": claims,
    "prove": claims,
    "watch": watch,
    "suite": suite,
    "bench": listing,
}

_MAIN_COMMANDS = 8  # number of commands on the first screen; `dpwitness more` lists the others

_EXIT_CODES = (
    "exit codes: 0 nothing refuted, 1 violated, 2 usage or input error, or a file that could not "
    "be written, 3 inconclusive, interrupted, a mechanism that failed, or an unexpected error "
    f"({TRACEBACK}=1 shows the traceback)"
)


class _Parser(argparse.ArgumentParser):
    """Argument parser with one-line errors that rejects a repeated option.

    The standard parser silently uses the last value of a repeated option.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._seen: set[str] = set()
        return super().parse_known_args(args, namespace)

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


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dpwitness",
        description="Does this implementation keep the privacy promise it makes?",
        epilog=textwrap.fill(_EXIT_CODES, 79),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", help=argparse.SUPPRESS)
    texts: dict[str, str] = {}

    def command(name: str, text: str) -> argparse.ArgumentParser:
        texts[name] = text
        subparser: argparse.ArgumentParser = commands.add_parser(
            name, help=text, description=text, epilog=_EXIT_CODES, allow_abbrev=False
        )
        add_options(subparser, COLOR)
        return subparser

    for module in dict.fromkeys(COMMANDS.values()):
        module.arguments(command)
    lines = [
        textwrap.fill(texts[name], 79, initial_indent=f"  {name:<10}", subsequent_indent=" " * 12)
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


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line, run the command, and return the exit code."""
    parser = _parser()
    with streams():
        given = list(sys.argv[1:] if argv is None else argv)
        if any("\0" in text for text in given):
            parser.error("arguments must not contain null characters")
        if given and given[0] in COMMANDS:
            _use_project_file(parser, given[0], given[1:])
        args = parser.parse_args(given)
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


def _use_project_file(parser: argparse.ArgumentParser, name: str, given: list[str]) -> None:
    """Give a command the defaults of the project's ``pyproject.toml``, and say which."""
    commands = next(
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    command = commands.choices[name]
    try:
        told = apply_project_defaults(command, given)
    except InvalidArgument as error:
        command.error(str(error))
    if told and not {"-q", "--quiet", "-h", "--help"} & {*given}:
        print(f"defaults of pyproject.toml: {', '.join(told)}", file=sys.stderr)


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
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Stream):
            stream.colored = wanted(getattr(args, "color", "auto"), stream)
            stream.quiet = getattr(args, "quiet", False)
    return int(COMMANDS[args.command].run(args))
