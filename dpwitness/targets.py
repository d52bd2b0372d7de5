"""Other people's libraries: ``dpwitness targets``, which makes their environments, and ``dpwitness check``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dpwitness.console import announce, plain
from dpwitness.ending import after, attempt
from dpwitness.numbers import real

if TYPE_CHECKING:
    from dpwitness.auditors.checks import CheckReport
    from dpwitness.mechanisms.foreign import Target

__all__ = ["SECONDS", "arguments", "check", "interpreter", "targets"]

SECONDS = real("seconds", 0.0, 1e6)
GIGABYTES = real("memory", 0.0, 1e6, ends="[]")

TEMPLATE = '''"""A target file: runs in any interpreter that has NumPy and the library under test."""
import numpy as np


def noisy_sum(dataset, size, rng):
    """The sum of records in [0, 1]: `size` independent runs, one output each."""
    noisy = np.clip(np.nan_to_num(dataset), 0, 1).sum() + rng.laplace(0.0, 1.0, size)
    return np.round(noisy * 1024) / 1024  # the low bits of a sum that is not rounded to a grid leak


noisy_sum.claim = "pure:1"  # pure:EPS, approx:EPS,DELTA, zcdp:RHO, rdp:ALPHA,EPS or gdp:MU
noisy_sum.domain = {"kind": "Records", "size": 3, "low": 0.0, "high": 1.0, "relation": "replace-one"}
'''


def interpreter(parser: argparse.ArgumentParser) -> None:
    """Options of commands that run targets in their own interpreter."""
    parser.add_argument("--python", metavar="PATH", help="run it in worker processes of this interpreter, or of an environment by its name")
    parser.add_argument(
        "--memory",
        type=GIGABYTES,
        default=0.0,
        metavar="GB",
        help="address space of each worker; default: no limit",
    )


def arguments(command: Callable[[str, str], argparse.ArgumentParser], running: Callable[[argparse.ArgumentParser], None]) -> None:
    """Declare the commands ``targets`` and ``check``."""
    listed = command("targets", "libraries that adapters come with: what is installed; setup NAME...; new FILE")
    listed.add_argument("action", nargs="?", choices=["list", "setup", "new"], default="list", help="default: list")
    listed.add_argument("names", nargs="*", metavar="NAME", help="environments to make, or the target file to write")
    listed.add_argument("--json", action="store_true", help="print as JSON")

    checked = command("check", "every check that applies to the targets of a file, one line each")
    checked.add_argument("target", metavar="FILE[:NAME]", help="a target file or an adapter; all its targets, or the one that is named")
    checked.add_argument("-k", dest="keyword", default="", metavar="EXPR", help="only checks whose name matches: words with and, or, not")
    checked.add_argument("--time-limit", type=SECONDS, default=300.0, metavar="SECONDS", help="of one batch of runs; default 300")
    interpreter(checked)
    running(checked)


def targets(args: argparse.Namespace) -> int:
    """``dpwitness targets``."""
    from dpwitness.mechanisms.validation import InvalidArgument

    if args.action == "new":
        if len(args.names) != 1:
            raise InvalidArgument(f"targets new needs one FILE, got {len(args.names)}")
        return _new(Path(args.names[0]))
    if args.action == "setup":
        return _setup(args.names)
    if args.names:
        raise InvalidArgument(f"targets list takes no names, got {' '.join(args.names)}")
    return _list(args.json)


def _new(path: Path) -> int:
    from dpwitness.mechanisms.validation import InvalidArgument

    if path.suffix != ".py":
        raise InvalidArgument(f"FILE must end in .py, got {str(path)!r}")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except OSError as error:
        raise InvalidArgument(f"FILE must be one that can be written anew, got {str(path)!r}: {error.strerror}") from None
    print(f"written: {path}; try it with: dpwitness check {path}")
    return 0


def _setup(names: list[str]) -> int:
    from dpwitness.mechanisms.environments import environments
    from dpwitness.mechanisms.validation import InvalidArgument

    known = environments()
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise InvalidArgument(f"targets setup needs names of environments ({', '.join(known)}), got {' '.join(unknown) or 'none'}")
    failed = []
    for name in names:
        try:
            known[name].setup(lambda line: print(line, flush=True))
        except InvalidArgument as error:
            failed.append(name)
            print(error, file=sys.stderr)
    if failed:
        print(f"not installed: {', '.join(failed)}", file=sys.stderr)
    return 3 if failed else 0


def _list(as_json: bool) -> int:
    from dpwitness.commands import print_json
    from dpwitness.mechanisms.environments import environments, home

    rows = [
        {
            "name": name,
            "state": found.state,
            "installs": [*found.requirements, *found.no_deps],
            "targets": [Path(file).stem for file in found.targets],
            "folder": str(found.folder),
            "note": found.note,
        }
        for name, found in environments().items()
    ]
    if as_json:
        print_json(rows)
        return 0
    width = max((len(str(row["name"])) for row in rows), default=0)
    for row in rows:
        main = row["installs"][-1] if row["installs"] else ""
        print(f"{row['name']:<{width}}  {row['state']:<10}  {main:<24}  {', '.join(row['targets'])}: {row['note']}")
    print(f"environments in {home()}; make one with: dpwitness targets setup NAME")
    return 0


def check(args: argparse.Namespace) -> int:
    """``dpwitness check``: one line a check; the exit code is that of the worst target."""
    from dpwitness.auditors.checks import CHECKS
    from dpwitness.auditors.verdicts import Verdict
    from dpwitness.commands import _command, print_json
    from dpwitness.inputs import shown
    from dpwitness.mechanisms.foreign import Target, targets_in
    from dpwitness.mechanisms.validation import InvalidArgument
    from dpwitness.reports.report import check_writable
    from dpwitness.suites import matches

    if args.report is not None:
        check_writable(args.report)

    file, name = _split(args.target)
    checks = [each for each in CHECKS if matches(args.keyword, each)]
    if not checks:
        raise InvalidArgument(f"-k must match a check ({', '.join(CHECKS)}), got {args.keyword!r}")
    with shown():
        names = [name] if name else targets_in(file, args.python, args.time_limit, args.memory)
    if not names:
        raise InvalidArgument(f"{file} must hold a function with an attribute `claim`, it has none; see: dpwitness targets new FILE")
    out = sys.stderr if args.json else sys.stdout
    reports: list[Any] = []
    code = 0
    for each in names:
        try:
            reports.append(_check_one(Target(file, each, args.python, {}, args.time_limit, args.memory), args, checks, out))
        except InvalidArgument as error:
            if name:
                raise
            print(plain(f"{each}: {error}\n"), file=out)
            code = 2
        except KeyboardInterrupt:
            print(f"{each}: interrupted", file=out)
            code = code or 3
            break
    lost = False
    if args.report is not None:
        from dpwitness.reports.checks_page import write

        page, lost = attempt("report", lambda: write(reports, args.report, command=_command()))
        if page is not None:
            print(f"report: {page}", file=out)
    if args.json:
        print_json([report.to_json() for report in reports])
    verdicts = {report.verdict for report in reports}
    return after(1 if Verdict.VIOLATED in verdicts else code or (3 if Verdict.ERROR in verdicts else 0), lost)


def _check_one(target: Target, args: argparse.Namespace, checks: list[str], out: TextIO) -> CheckReport:
    """Check one target, a line for each finding."""
    from dpwitness.auditors.checks import Finding, check_mechanism
    from dpwitness.inputs import shown, workers

    def tell(finding: Finding) -> None:
        print(plain(f"  {finding.status:<16}  {finding.check}  {finding.reason}".rstrip()), file=out, flush=True)

    with shown():
        print(f"{target.__name__}: claim {target.claim}, domain {target.domain}", file=out)
    for note in target.notes:
        print(plain(f"  note: {note}"), file=out)
    with workers(args.workers, target) as executor:
        budget = {"trials": args.trials, "seconds": args.seconds, "announce": announce}
        report = check_mechanism(target, seed=args.seed or 0, **budget, checks=checks, executor=executor, progress=tell)
    print(plain(f"{report.headline()}\n"), file=out)
    return report


def _split(text: str) -> tuple[str, str]:
    """FILE and NAME; NAME is empty where all targets are meant."""
    file, _, name = text.rpartition(":") if ":" in text else (text, "", "")
    return file, name
