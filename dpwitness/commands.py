"""The commands of the command line, one function each: takes the parsed arguments, prints, and returns the exit code."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpwitness import claims
from dpwitness.auditors.certify_result import CertifyResult
from dpwitness.auditors.trust import words_for
from dpwitness.auditors.verdicts import Result, Verdict, strict
from dpwitness.console import bar, describe, plain
from dpwitness.ending import NO_VERDICT, OK, VIOLATED, after, apart, attempt
from dpwitness.examine import examine
from dpwitness.inputs import keywords, load, pair_of, scores, workers
from dpwitness.mechanisms.validation import InvalidArgument

if TYPE_CHECKING:
    from dpwitness.suites import Outcome, Suite

__all__ = ["audit", "bench", "exit_code", "listing", "replay", "suite"]


def exit_code(result: Result, *, bits: bool = False) -> int:
    """The exit code of one result: 1 violated, 3 no verdict, 0 otherwise. Low bits count if `bits`."""
    level = getattr(result, "bit_level", None)
    if result.verdict is Verdict.VIOLATED or (bits and level is not None and level.verdict is Verdict.VIOLATED):
        return VIOLATED
    return NO_VERDICT if result.verdict in (Verdict.INCONCLUSIVE, Verdict.ERROR) else OK


def audit(args: argparse.Namespace) -> int:
    """``dpwitness audit``."""
    from dpwitness.reports.report import check_writable

    if args.report is not None:
        check_writable(args.report)
    options = {"in_process": args.in_process, "density": args.white_box or args.search}
    mechanism, name, target = load(args.target, keywords(args.kwargs), args.python, args.time_limit, args.memory, **options)
    pair, given = pair_of(args.d0, args.d1, args.relation, mechanism), scores(args.scores)
    drawn = bar()
    with workers(args.workers, mechanism) as executor, apart():
        results = examine(mechanism, pair, args, name=name, executor=executor, progress=drawn, target=target, scores=given)
    if drawn is not None:
        drawn.close()
    return _conclude(args, results, title=f"Audit of {name}", bits=args.bits)


def replay(args: argparse.Namespace) -> int:
    """``dpwitness replay``."""
    from dpwitness.auditors.replay import arguments_of, prepare
    from dpwitness.auditors.witness_reading import check_seal, load_json
    from dpwitness.reports.report import check_writable

    raw, file = load_json(args.witness)
    if raw.get("kind") == "claim":
        check_seal(raw, file)
        return claims.replay(args, raw)
    if args.report is not None:
        check_writable(args.report)
    given = None
    if args.target is not None:
        given, _, _ = load(args.target, arguments_of(raw["target"]))
    prepared = prepare(args.witness, mechanism=given, allow=args.allow, called=args.target or "")
    print(f"replays {prepared.told()}", file=sys.stderr if args.json else sys.stdout, flush=True)
    with apart():
        mechanism = prepared.load()
    drawn = bar()
    with workers(args.workers, mechanism) as executor, apart():
        result = prepared.run(mechanism, trials=args.trials, seed=args.seed, executor=executor, progress=drawn)
    if drawn is not None:
        drawn.close()
    return _conclude(args, [result], title=f"Replay of {Path(args.witness).name}")


def _conclude(args: argparse.Namespace, results: Sequence[Result], *, title: str, bits: bool = False) -> int:
    """Write the report, print, and return the exit code: that of the worst result."""
    from dpwitness.reports.report import result_json, write_report
    from dpwitness.reports.wording import slugs

    data = [result_json(result) for result in results]
    report, lost = None, False
    if args.report is not None:
        report, lost = attempt("report", lambda: write_report(data, args.report, title=title, command=_command()))
    if args.json:
        print_json(data[0] if len(data) == 1 else data)
    else:
        told = []
        for result, shown, slug in zip(results, data, slugs(result.name for result in results), strict=True):
            file = report.parent / f"witness-{slug}.json" if report and shown["witness"] else None
            told.append(describe(result, shown, bits=bits, next_step=_next(args, result, exit_code(result, bits=bits), report, file)))
        print("\n\n".join(told))
    codes = {exit_code(result, bits=bits) for result in results}
    return after(next((code for code in (VIOLATED, NO_VERDICT) if code in codes), OK), lost)


def _command() -> str:
    return shlex.join(["dpwitness", *sys.argv[1:]])


def _next(args: argparse.Namespace, result: Result, code: int, report: Path | None, witness: Path | None) -> str:
    """What to do now, in one line."""
    level = getattr(result, "bit_level", None)
    leaky = level is not None and level.verdict is Verdict.VIOLATED
    if args.command == "replay":
        if code == VIOLATED:
            step = "the violation is confirmed: repair the mechanism or withdraw its claim"
        else:
            step = "the witness was not confirmed: raise --trials, or check that the mechanism is the one that was audited"
    elif code == VIOLATED or leaky:
        recorded = [score.to_json() for score in getattr(result, "scores", ())]
        words = [part for word in words_for(getattr(result, "target", None), recorded) for part in ("--allow", word)]
        again = f"see it again with: {shlex.join(['dpwitness', 'replay', str(witness), *words])}"
        step = again if witness else "keep the witness: run again with --report DIR"
        step += "" if result.verdict is Verdict.VIOLATED else "; round outputs to a grid"
    elif result.verdict in (Verdict.CERTIFIED, Verdict.SUPPORTED):
        step = "nothing has to change for this pair" + ("" if args.search else "; --search looks for a worse one")
    elif result.verdict is Verdict.INCONCLUSIVE:
        step = "raise --trials, which narrows the enclosure" if isinstance(result, CertifyResult) else "run again to the end"
    elif code == NO_VERDICT:
        step = "repair what the first line names, then run again"
    else:
        step = "nothing has to change on this evidence; more --trials find smaller violations"
    return f"{step}; report: {report}" if report else step


def print_json(value: Any) -> None:
    """Strict JSON on standard output."""
    print(json.dumps(strict(value), indent=1, allow_nan=False))


def suite(args: argparse.Namespace) -> int:
    """``dpwitness suite``: one line a case as it ends, then the count of right and wrong verdicts."""
    from dpwitness.reports.report import check_writable
    from dpwitness.suites import matches, run_case, suite_of

    if args.report is not None:
        check_writable(args.report)
    found = suite_of(args.name)
    chosen = [case for case in found.cases() if matches(args.keyword, case.name)]
    if not chosen:
        raise InvalidArgument(f"-k must match a case of suite {args.name!r}, got {args.keyword!r}")
    out = sys.stderr if args.json else sys.stdout
    width = max(len(case.name) for case in chosen)
    outcomes, missing = [], {}
    for case in chosen:
        if needed := case.missing():
            missing[case.name] = needed
            print(f"{case.name:<{width}}  not installed: {needed}", file=out, flush=True)
            continue
        drawn = bar()
        with workers(args.workers, case.mechanism) as executor, apart():
            budget = {"trials": args.trials, "seconds": args.seconds}
            outcome = run_case(
                case, **budget, confidence=args.confidence, seed=args.seed, defaults=found, executor=executor, progress=drawn
            )
        if drawn is not None:
            drawn.close()
        outcomes.append(outcome)
        print(plain(outcome.line(width)), file=out, flush=True)
        if outcome.interrupted:
            break
    report, lost = None, False
    if args.report is not None:
        report, lost = attempt("report", lambda: _pages(found, outcomes, missing, args.report))
    print(_tally(outcomes, len(chosen) - len(missing)) + (f"; {len(missing)} not installed" if missing else ""), file=out)
    if report is not None:
        print(f"report: {report}", file=out)
    if args.json:
        print_json([o.json for o in outcomes])
    if any(o.wrong for o in outcomes):
        return VIOLATED
    return after(NO_VERDICT if not outcomes or any(o.unfinished for o in outcomes) else OK, lost)


def _pages(suite: Suite, outcomes: Sequence[Outcome], missing: dict[str, str], folder: str) -> Path:
    """The report of a suite, and the pages of its own."""
    from dpwitness.reports.report import write_report

    data = [outcome.json for outcome in outcomes]
    report = write_report(data, folder, title=f"Suite {suite.name}", command=_command())
    if suite.page is not None:
        suite.page(data, missing, Path(folder))
    return report


def _tally(outcomes: Sequence[Any], planned: int) -> str:
    right = sum(o.right is True for o in outcomes)
    wrong = [o.case.name for o in outcomes if o.wrong]
    open_ = sum(o.right is None and not o.unfinished for o in outcomes)
    parts = [f"{right} right", f"{len(wrong)} wrong" + (f" ({', '.join(wrong)})" if wrong else "")]
    if open_:
        parts.append(f"{open_} with nothing to compare with")
    unfinished = sum(o.unfinished for o in outcomes) + planned - len(outcomes)
    if unfinished:
        parts.append(f"{unfinished} without a verdict")
    return f"{planned} cases: {', '.join(parts)}; {sum(o.result.seconds for o in outcomes):.0f} s"


def listing(args: argparse.Namespace) -> int:
    """``dpwitness list``."""
    from dpwitness.listing import everything

    found = everything([args.what] if args.what else None)
    if args.json:
        print_json(found)
        return OK
    for i, (room, rows) in enumerate(found.items()):
        print(("\n" if i else "") + room)
        width = max((len(row["name"]) for row in rows), default=0)
        for row in rows:
            print(f"  {row['name']:<{width}}  {row['text']}".rstrip())
    return OK


def bench(args: argparse.Namespace) -> int:
    """``dpwitness bench``: the tables, each row with what is required and what was measured."""
    from dpwitness.bench import BENCHMARKS, format_table
    from dpwitness.bench import bench as run

    if args.name is not None and args.name not in BENCHMARKS:
        raise InvalidArgument(f"bench must be one of {', '.join(sorted(BENCHMARKS))}, got {args.name!r}")
    tables = []
    for name in [args.name] if args.name else BENCHMARKS:
        tables.append(run(name))
        if not args.json:
            print(format_table(tables[-1]), flush=True)
    if args.json:
        print_json([asdict(table) for table in tables])
    return OK
