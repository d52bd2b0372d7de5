"""``python -m dpwitness.benchmarks.protocol``: check that a program follows
docs/reference/protocol.md; test vectors; shims.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from dpwitness import mechanisms
from dpwitness.benchmarks.protocol.conformance import check_protocol
from dpwitness.commands.common import print_json
from dpwitness.commands.loading import dataset, words
from dpwitness.commands.options import SECONDS
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.terminal import NO_VERDICT, OK, marked, show

SHIMS = Path(mechanisms.__path__[0]) / "wrappers" / "programs" / "shims"
LANGUAGES = ("cpp", "go", "java", "javascript", "r", "rust")


def main(argv: list[str] | None = None) -> int:
    """Check a program, print the test vectors or write a shim.

    Return the exit code, which is 3 if a step fails. An input error exits with code 2.
    """
    parser = argparse.ArgumentParser(
        prog="python -m dpwitness.benchmarks.protocol", description=__doc__, allow_abbrev=False
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    help_text = (
        "test every message and every error of the protocol on a program, and print one line for "
        "each"
    )
    check = actions.add_parser("check", help=help_text, description=help_text, allow_abbrev=False)
    check.add_argument(
        "program",
        metavar="COMMAND",
        nargs=argparse.REMAINDER,
        help="the program with its arguments; options come before it",
    )
    check.add_argument(
        "--d0",
        metavar="JSON",
        help="a dataset for the program; default: one of its domain, or [0.0]",
    )
    check.add_argument("--d1", metavar="JSON", help="another dataset")
    check.add_argument("--cwd", metavar="DIR", help="working folder of the program")
    check.add_argument(
        "--time-limit",
        type=SECONDS,
        default=10.0,
        metavar="SECONDS",
        help="time limit of each answer; default 10",
    )
    check.add_argument("--json", action="store_true", help="print as JSON")
    help_text = (
        "print the test vectors: numbers of the shims' random generator, and all bytes of a "
        "conversation"
    )
    actions.add_parser("vectors", help=help_text, description=help_text, allow_abbrev=False)
    help_text = (
        "write a shim, which serves a function in another language, and an example into a folder"
    )
    shim = actions.add_parser("shim", help=help_text, description=help_text, allow_abbrev=False)
    shim.add_argument("language", choices=LANGUAGES)
    shim.add_argument(
        "folder", nargs="?", metavar="DIR", default=".", help="default: the current folder"
    )
    args = parser.parse_args(argv)
    try:
        if args.action == "vectors":
            show((SHIMS / "vectors.json").read_text(encoding="utf-8").rstrip())
            return OK
        if args.action == "shim":
            return _write_shim(SHIMS / args.language, Path(args.folder))
        return _check(args)
    except InvalidArgument as error:
        parser.error(str(error))


def _write_shim(source: Path, folder: Path) -> int:
    found = sorted(path for path in source.rglob("*") if path.is_file())
    for path in found:
        written = folder / path.relative_to(source)
        try:
            written.parent.mkdir(parents=True, exist_ok=True)
            with written.open("x", encoding="utf-8") as file:
                file.write(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidArgument(
                f"DIR must be a folder where {written} can be created: {error.strerror}"
            ) from None
        show(f"written: {written}")
    return OK


def _check(args: argparse.Namespace) -> int:
    if (args.d0 is None) != (args.d1 is None):
        raise InvalidArgument("--d0 and --d1 must be given together")
    pair = None if args.d0 is None else (dataset("d0", args.d0), dataset("d1", args.d1))
    command_parts = [part for part in args.program if part != "--"]
    target = Target(
        command=words("COMMAND", command_parts[0])
        if len(command_parts) == 1
        else command_parts or [""],
        cwd=args.cwd,
    )
    found, out = [], sys.stderr if args.json else sys.stdout
    for finding in check_protocol(target.slot_of_program, pair, args.time_limit):
        found.append(finding)
        status = (
            marked("wrong", "ERROR") + "  " if finding.status == "wrong" else f"{finding.status:<7}"
        )
        show(f"{status}  {finding.step}{': ' if finding.reason else ''}{finding.reason}", out)
    if args.json:
        print_json([asdict(finding) for finding in found])
    wrong = sum(finding.status == "wrong" for finding in found)
    show(
        f"{target.__name__}: {wrong} of {len(found)} steps are wrong"
        if wrong
        else f"{target.__name__}: the program follows the protocol",
        out,
    )
    return NO_VERDICT if wrong else OK


if __name__ == "__main__":
    sys.exit(main())
