"""``dpwitness claims``: list, show and check the claims of the papers. ``dpwitness prove``: prove
that a loop program is private.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections import Counter
from contextlib import suppress

from dpwitness import proofs_checks, reports
from dpwitness.clone import from_clone
from dpwitness.commands.common import print_json
from dpwitness.commands.loading import load_object
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, number_from_text
from dpwitness.proofs_checks.engine.finding import scope_summary
from dpwitness.proofs_checks.engine.ledger import MissingPackage, declaration
from dpwitness.terminal import (
    NO_VERDICT,
    OK,
    VIOLATED,
    code_after_write,
    redirected_stdout,
    show,
    write_report_files,
)


def prove(args: argparse.Namespace) -> int:
    """Run ``dpwitness prove`` and return the exit code."""
    function = load_object("", args.target, build=False)
    try:
        with redirected_stdout():
            found = proofs_checks.prove(
                function,
                seconds=args.seconds,
                trials=args.trials,
                confidence=args.confidence,
                seed=args.seed,
            )
    except MissingPackage as error:
        raise InvalidArgument(str(error)) from None
    if args.json:
        print_json(found.to_json())
    else:
        rows = (f"  {label:<10} {text}" for label, text in found.lines({}))
        show(reports.plain("\n".join([found.name, found.headline(), *rows])))
    return {"CERTIFIED": OK, "VIOLATED": VIOLATED}.get(found.verdict.value, NO_VERDICT)


def replay(args: argparse.Namespace, witness: Json) -> int:
    """Run ``dpwitness replay`` on a claim's witness: check the claim again at the recorded
    parameters.
    """
    for option in args.given - {"witness", "seed", "json", "quiet", "verbose", "color"}:
        raise InvalidArgument(
            f"--{option} is only for the witness of an audit: a claim is checked again at the "
            "recorded parameters"
        )
    settings = {
        name: tuple(v) if isinstance(v, list) else float(v)
        for name, v in witness["settings"].items()
    }
    print(
        f"checks the claim with seed {args.seed}",
        file=sys.stderr if args.json else sys.stdout,
        flush=True,
    )
    found = proofs_checks.settle(declaration(witness["name"]), settings, seed=args.seed)
    return _print_finding(args, found, {"seed": args.seed})


def _print_finding(
    args: argparse.Namespace, found: proofs_checks.ClaimFinding, more: Json | None = None
) -> int:
    """Print one finding, with `more` merged into its JSON, and return its exit code."""
    if args.json:
        print_json(found.to_json() | (more or {}))
    else:
        print(
            f"{found.name}  {found.headline()}  ({found.evidence.method}; {found.grade}, "
            f"{found.scope}; {found.seconds:.1f} s)"
        )
    return _exit_code([found.claim_verdict.value])


def list_claims(args: argparse.Namespace) -> int:
    """Run ``dpwitness claims list``: print all claims."""
    rows = [it.to_json() for it in proofs_checks.declarations().values()]
    if args.json:
        print_json(rows)
    else:
        print(
            "\n".join(reports.aligned([(row["id"], row["kind"], row["statement"]) for row in rows]))
        )
    return OK


def show_claim(args: argparse.Namespace) -> int:
    """Run ``dpwitness claims show``: print one claim and its proof."""
    it = declaration(args.id)
    if args.json:
        print_json(it.to_json())
        return OK
    rows = {
        "source": it.source,
        "claim": it.statement,
        "formula": it.formula,
        "domain": ", ".join(f"{x} in [{low:g}, {high:g}]" for x, (low, high) in it.domain.items()),
        "kind": it.kind,
        "repairs": it.repairs,
        "depends on": ", ".join(it.depends),
    }
    print("\n".join([it.id, *(f"  {name:<11} {text}" for name, text in rows.items() if text)]))
    width = min(100, shutil.get_terminal_size((100, 24)).columns)
    for paragraph in ["", *it.proof.splitlines()]:
        print(textwrap.fill(paragraph, width, initial_indent="  ", subsequent_indent="  "))
    return OK


def check_claims(args: argparse.Namespace) -> int:
    """Run ``dpwitness claims check`` and return the exit code."""
    settings = _parse_settings(args.set)
    if args.id == "all":
        if settings:
            raise InvalidArgument("--set needs the id of one claim, got all")
        return _check_all(args)
    if args.report is not None:
        raise InvalidArgument("--report is only for `claims check all`, whose page it writes")
    found = proofs_checks.check(
        args.id, seconds=args.seconds, quick=args.quick, seed=args.seed or 0, **settings
    )
    return _print_finding(args, found)


def _check_all(args: argparse.Namespace) -> int:
    """Check all claims, print a line for each, and write the report."""
    from dpwitness.suites import run_all  # loads every audit

    if args.report is not None:
        pages = from_clone("pages.papers.claims_page", "claims check all --report")
        reports.check_writable(args.report)
    out = sys.stderr if args.json else sys.stdout
    names = list(proofs_checks.declarations())
    width = max(map(len, names))
    results: list[Json] = []
    options = {"seconds": args.seconds, "quick": args.quick, "seed": args.seed or 0}
    with suppress(KeyboardInterrupt):
        for found in run_all(**options, workers=args.workers):
            results.append(found)
            line = f"{found['name']:<{width}}  {found['seconds']:5.1f} s  {found['headline']}"
            print(line, file=out, flush=True)
    words = sorted(found["verdict"] for found in results)
    tally = [f"{n} {word.replace('_', ' ').lower()}" for word, n in Counter(words).items()]
    seconds = sum(found["seconds"] for found in results)
    print(f"{len(results)} claims: {', '.join(tally)}; {seconds:.0f} s", file=out)
    print(scope_summary(results), file=out)
    code, missing = _exit_code(words), len(names) - len(results)
    if missing:
        print(f"interrupted: {missing} claims were not checked", file=out)
        code = NO_VERDICT
    write_failed = write_report_files(args.report, lambda folder: pages.write(results, folder), out)
    if args.json:
        print_json(results)
    return code_after_write(code, write_failed)


def _parse_settings(pairs: list[str]) -> dict[str, float | tuple[float, float]]:
    """Parse NAME=VALUE and NAME=LOW:HIGH into parameters and ranges."""
    found: dict[str, float | tuple[float, float]] = {}
    for text in pairs:
        name, _, value = text.partition("=")
        low, colon, high = value.partition(":")
        if name in found:
            raise InvalidArgument(
                f"--set must give each parameter once, got {name!r} twice: a range is "
                f"{name}=LOW:HIGH"
            )
        try:
            first = number_from_text(low)
            found[name] = (first, number_from_text(high)) if colon else first
        except ValueError:
            raise InvalidArgument(
                f"--set must be NAME=VALUE or NAME=LOW:HIGH, got {text!r}"
            ) from None
    return found


def _exit_code(verdicts: list[str]) -> int:
    """Return the exit code of several verdicts: a failing claim outranks an inconclusive claim."""
    return VIOLATED if "FAILS" in verdicts else NO_VERDICT if "INCONCLUSIVE" in verdicts else OK
