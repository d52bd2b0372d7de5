"""``dpwitness protocol``: conformance check of a program with docs/reference/protocol.md, test vectors, and shims."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from dpwitness import mechanisms
from dpwitness.colors import marked
from dpwitness.commands.common import SECONDS, Command, coloring, print_json
from dpwitness.exit_codes import NO_VERDICT, OK, show
from dpwitness.mechanisms.core.validation import InvalidArgument

SHIMS = Path(mechanisms.__path__[0]) / "foreign" / "shims"
LANGUAGES = ("cpp", "go", "java", "javascript", "r", "rust")


def arguments(command: Command) -> None:
    """Add the command and its options to the parser."""
    protocol = command("protocol", "does a program keep the protocol by which it is audited? (docs/reference/protocol.md)")
    actions = protocol.add_subparsers(dest="action", metavar="ACTION", required=True)
    told = "try every message and every error of the protocol on a program, one line each"
    check = actions.add_parser("check", help=told, description=told, allow_abbrev=False)
    check.add_argument(
        "program", metavar="COMMAND", nargs=argparse.REMAINDER, help="the program with its arguments; options stand before it"
    )
    check.add_argument("--d0", metavar="JSON", help="a dataset that it reads; default: one of the domain that it names, or [0.0]")
    check.add_argument("--d1", metavar="JSON", help="another one")
    check.add_argument("--cwd", metavar="DIR", help="the folder in which it runs")
    check.add_argument("--time-limit", type=SECONDS, default=10.0, metavar="SECONDS", help="of each answer; default 10")
    check.add_argument("--json", action="store_true", help="print as JSON")
    told = "print the test vectors: numbers of the shims' generator, and a conversation to the byte"
    vectors = actions.add_parser("vectors", help=told, description=told, allow_abbrev=False)
    told = "write what serves a function in a language, and an example of it, into a folder"
    shim = actions.add_parser("shim", help=told, description=told, allow_abbrev=False)
    shim.add_argument("language", choices=LANGUAGES)
    shim.add_argument("folder", nargs="?", metavar="DIR", default=".", help="default: the current one")
    for each in (check, vectors, shim):
        coloring(each)


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness protocol`` and return the exit code, which is 3 if a step fails."""
    if args.action == "vectors":
        show((SHIMS / "vectors.json").read_text(encoding="utf-8").rstrip())
        return OK
    return _write_shim(SHIMS / args.language, Path(args.folder)) if args.action == "shim" else _check(args)


def _write_shim(source: Path, folder: Path) -> int:
    """Copy the shim of a language into a folder."""
    found = sorted(path for path in source.rglob("*") if path.is_file())
    for path in found:
        written = folder / path.relative_to(source)
        try:
            written.parent.mkdir(parents=True, exist_ok=True)
            with written.open("x", encoding="utf-8") as file:
                file.write(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidArgument(f"DIR must be one where {written} can be written anew: {error.strerror}") from None
        show(f"written: {written}")
    return OK


def _check(args: argparse.Namespace) -> int:
    """Check a program and print a line per step."""
    from dpwitness.argument_values import dataset, words
    from dpwitness.mechanisms.foreign.conformance import check_protocol
    from dpwitness.mechanisms.foreign.target import Target

    if (args.d0 is None) != (args.d1 is None):
        raise InvalidArgument("--d0 and --d1 must be given together")
    pair = None if args.d0 is None else (dataset("d0", args.d0), dataset("d1", args.d1))
    given = [part for part in args.program if part != "--"]
    target = Target(command=words("COMMAND", given[0]) if len(given) == 1 else given or [""], cwd=args.cwd)
    found, out = [], sys.stderr if args.json else sys.stdout
    for finding in check_protocol(target.slot_of_program, pair, args.time_limit):
        found.append(finding)
        status = marked("wrong", "ERROR") + "  " if finding.status == "wrong" else f"{finding.status:<7}"
        show(f"{status}  {finding.step}{': ' if finding.reason else ''}{finding.reason}", out)
    if args.json:
        print_json([asdict(finding) for finding in found])
    wrong = sum(finding.status == "wrong" for finding in found)
    show(
        f"{target.__name__}: {wrong} of {len(found)} steps show something wrong" if wrong else f"{target.__name__}: it keeps the protocol",
        out,
    )
    return NO_VERDICT if wrong else OK
