"""``dpwitness scan``: list where code draws noise, run it as its tests do, and audit what it
promises.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dpwitness import reports
from dpwitness.auditors.scanning.noise_map import Function, NoiseMap
from dpwitness.auditors.scanning.proposals import Proposal
from dpwitness.auditors.scanning.scan import (
    Scanned,
    ScanOutcome,
    audits,
    located,
    mapped,
    named,
    scanned,
)
from dpwitness.commands.common import print_json, write_outputs
from dpwitness.core.values.json_reader import Json, anything, listing, read_json, record, text
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import dataset
from dpwitness.mechanisms.wrappers.programs.confinement import described
from dpwitness.mechanisms.wrappers.programs.worker_pool import interpreter_path
from dpwitness.terminal import (
    NO_VERDICT,
    OK,
    VIOLATED,
    Line,
    announce,
    code_after_write,
    mark_verdict,
    redirected_stdout,
    show,
)

_FOUND = ("VIOLATED", "SUSPECT")  # verdicts of findings
_CALL = record(
    function=text(1000), arguments=listing(listing(anything, 3, 3)), modules=listing(text(1000))
)


def scan(args: argparse.Namespace) -> int:
    """Run ``dpwitness scan`` and return the exit code: 3 for a suspect or if nothing was audited, 0
    otherwise.
    """
    given = [("--tests", path) for path in args.tests] + [
        ("--script", path) for path in args.script
    ]
    for option, path in given:
        if not Path(path.partition("::")[0]).exists():
            raise InvalidArgument(f"{option} must be a file or folder that exists, got {path!r}")
    python = None if args.python is None else interpreter_path(args.python, "--python")
    if args.dry_run:
        found, root = mapped(located(args.what, python))
        reach = named(found, args.what) if ":" in args.what else found.public()
        return _print_map(args, found, root, reach)
    stem = re.sub(r"\W+", "_", Path(args.what.rstrip("/")).name.removesuffix(".py")).strip("_")
    args.report = args.report or f"out/scan-{stem or 'scan'}"
    file = Path(args.report) / f"{stem or 'scan'}_targets.py"
    reports.check_writable(file.parent)
    if not args.quiet:
        print(f"limits: {described()}", file=sys.stderr)
    shown = not args.quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    outcomes = list[ScanOutcome]()
    with tempfile.TemporaryDirectory(prefix="dpwitness-scan-") as folder, redirected_stdout():
        line = Line(sys.stderr)
        from dpwitness.auditors.workers.engine import read_clock

        now = read_clock(args.clock)
        begin = now()
        # the audit takes half a second to import, which is spent while the calls run
        threading.Thread(
            target=importlib.import_module, args=("dpwitness.auditors.audit.audit",)
        ).start()

        def announce_trace(proposal: Proposal, said: str) -> None:
            line.close()
            announce(
                f"{_place(proposal)}: a trace shows: {said[:200]} (after {now() - begin:.0f} s)"
            )

        found_scan = scanned(
            args.what, python=python, folder=Path(folder), memory=args.memory,
            # seconds in which imports, tests and calls must end, however small the budget
            seconds=max(0.5 * args.seconds, 60.0), tests=args.tests, scripts=args.script,
            kept=_kept(args.calls),
        )  # fmt: skip
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            for outcome in audits(
                found_scan, file, python=python, folder=Path(folder), memory=args.memory,
                seconds=max(args.seconds - (now() - begin), 5.0), clock=args.clock, seed=args.seed,
                progress=lambda text: line.draw(reports.plain(text)[:100]) if shown else None,
                shown=announce_trace,
            ):  # fmt: skip
                outcomes.append(outcome)
                if outcome.verdict in _FOUND:
                    line.close()
                    announce(f"{_finding(outcome)} (after {now() - begin:.0f} s)")
        except KeyboardInterrupt:
            announce("interrupted: what was audited is reported")
        line.close()
    return _conclude(args, found_scan, outcomes, file)


def _kept(file: str | None) -> list[Json]:
    """Return the calls of a file that `pytest --dp-discover` has written."""
    if file is None:
        return []
    found = read_json(file)
    if not isinstance(found, dict) or not isinstance(found.get("calls"), list):
        raise InvalidArgument(f"--calls must be a file of pytest --dp-discover, got {file}")
    return [_CALL(call, f"--calls: calls[{i}]") for i, call in enumerate(found["calls"])]


def _print_map(
    args: argparse.Namespace, found: NoiseMap, root: Path, functions: Sequence[Function]
) -> int:
    """Print each place where noise is drawn, and the functions that reach it: only what these reach
    if one was named.
    """
    paths = {
        site: [function.path for function in functions if site in found.reached[function.path]]
        for site in found.sites
    }
    of_one = ":" in args.what
    rows: list[Json] = [
        {
            "file": str(site.file.relative_to(root)),
            "line": site.line,
            "call": site.call,
            "law": site.law,
            "scale": site.scale,
            "function": site.function,
            "reached by": reaching,
        }
        for site, reaching in paths.items()
        if reaching or not of_one
    ]
    if args.json:
        print_json(rows)
        return OK
    for row in rows:
        scale = f", scale {row['scale']}" if row["scale"] else ""
        names = ", ".join(row["reached by"][:3]) or "no public function"
        more = f" and {len(row['reached by']) - 3} more" if len(row["reached by"]) > 3 else ""
        place = f"{row['file']}:{row['line']}  {row['call']} ({row['law']}{scale})"
        print(reports.plain(f"{place}\n    in {row['function']}; reached by {names}{more}"))
    for remark in found.remarks:
        print(reports.plain(f"note: {remark}"))
    print(
        f"places that draw noise: {len(rows)}; {'' if of_one else 'public '}functions that reach "
        f"them: {len(functions)}"
    )
    return OK


def _conclude(
    args: argparse.Namespace, scan: Scanned, outcomes: Sequence[ScanOutcome], file: Path
) -> int:
    """Write the report, print findings, what needs a person, and counts."""
    results = [outcome.result for outcome in outcomes if outcome.result is not None]
    title = f"Scan of {scan.title}"
    page, failed = write_outputs(
        args, [reports.result_json(each) for each in results], title, results
    )
    rows = [_row(scan, outcome) for outcome in outcomes]
    rows += [
        {
            "function": each.function.path,
            "verdict": "",
            "claim": each.promise.claim,
            "why": each.why,
        }
        for each in scan.proposals
        if not each.source
    ]
    verdicts = Counter(row["verdict"] for row in rows if row["verdict"])
    if args.json:
        print_json(
            {"title": title, "targets": str(file), "remarks": list(scan.remarks), "functions": rows}
        )
    else:
        _print(args, scan, outcomes, verdicts)
        if not args.quiet:
            print(f"targets: {file}")
            print(f"report:  {page.with_suffix('.html') if page else 'not written'}")
    settled = "NOT_REFUTED" in verdicts and "SUSPECT" not in verdicts
    code = OK if settled else NO_VERDICT
    return code_after_write(VIOLATED if "VIOLATED" in verdicts else code, failed)


def _row(scan: Scanned, outcome: ScanOutcome) -> Json:
    site = outcome.proposal.sites[0]
    return {
        "function": outcome.proposal.function.path,
        "verdict": outcome.verdict,
        "claim": outcome.proposal.promise.claim,
        "relations": list(outcome.proposal.relations),
        "recorded": outcome.proposal.recorded,
        "place": f"{site.file.relative_to(scan.root)}:{site.line}",
        "why": outcome.why or ("" if outcome.result is None else outcome.result.headline()),
        "trace": outcome.traced,
    }


def _finding(outcome: ScanOutcome) -> str:
    result = outcome.result
    said = "" if result is None else result.headline().partition(";")[0]
    return f"{_place(outcome.proposal)}: {said}"


def _place(proposal: Proposal) -> str:
    site = proposal.sites[0]
    return f"{site.file.name}:{site.line} {proposal.function.path}"


def _print(
    args: argparse.Namespace, scan: Scanned, outcomes: Sequence[ScanOutcome], verdicts: Counter[str]
) -> None:
    """Print the findings, what needs a person, and the counts."""
    others = []
    for outcome in outcomes:
        if outcome.verdict in _FOUND:
            _print_finding(outcome)
        elif outcome.verdict and outcome.result is not None:
            others.append(f"{outcome.proposal.function.path}: {outcome.result.headline()}")
    waiting = [(each.proposal.function.path, each.why) for each in outcomes if each.why]
    waiting += [(each.function.path, each.why) for each in scan.proposals if each.why]
    lines = [] if args.quiet else [f"needs you: {path}: {why}" for path, why in waiting]
    lines += [f"note: {remark}" for remark in scan.remarks]
    for line in [*lines, *(others if args.verbose else [])]:
        print(reports.plain(line))
    counts = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in verdicts.items()) or "none"
    print(
        f"places that draw noise: {len(scan.found.sites)}; functions that promise privacy: "
        f"{len(scan.proposals)}; audited: {counts}; waiting for you: {len(waiting)}"
    )


def _print_finding(outcome: ScanOutcome) -> None:
    """Print a finding with its pair of datasets, and what a trace shows."""
    show(mark_verdict(reports.plain(_finding(outcome))))
    if outcome.result is not None and outcome.result.pair is not None:
        sides = outcome.result.pair.to_json()
        shown = [reports.truncated_line(dataset(sides[side]), 160) for side in ("d0", "d1")]
        print(reports.plain(f"    on {shown[0]} and {shown[1]}"))
    if outcome.traced:
        print(reports.plain(f"    a trace shows: {outcome.traced[:300]}"))
