"""``dpwitness claims``: list, show and check the claims of the papers. ``dpwitness prove``: prove
that a loop program is private.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import textwrap
from contextlib import suppress
from importlib.metadata import version

from dpwitness import proofs_checks, reports
from dpwitness.clone import from_clone
from dpwitness.commands.common import print_json
from dpwitness.commands.inputs import load_object
from dpwitness.core.values import json_reader
from dpwitness.core.values.atomic_files import write_json
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, number_from_text
from dpwitness.mechanisms.wrappers.programs.worker_pool import home
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

_KEPT = (
    "verdict",
    "evidence",
    "scope",
)  # fields of a finding that are cached for `list` and `show`


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
    for option in ("trials", "confidence", "workers", "executor", "target", "allow", "summary"):
        if getattr(args, option, None) not in (None, [], 1):
            raise InvalidArgument(
                f"--{option} is only for the witness of an audit: a claim is checked again "
                "at the recorded parameters"
            )
    if args.report is not None:
        raise InvalidArgument(
            "--report is only for the witness of an audit; for the page of the claims: "
            "dpwitness claims check all --report DIR"
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
    """Run ``dpwitness claims list``: print all claims with their cached findings."""
    verdicts = _load_findings()
    rows = [it.to_json() for it in proofs_checks.declarations().values()]
    for row in rows:
        row.update(verdicts.get(_cache_key(row), {}))
    if args.json:
        print_json(rows)
        return OK
    width = max(len(row["id"]) for row in rows)
    for row in rows:
        found = (
            f"{row.get('verdict', ''):<14}  {row.get('evidence', ''):<11}  "
            f"{row.get('scope', ''):<12}"
        )
        print(f"{row['id']:<{width}}  {row['kind']:<14}  {found}  {row['statement']}")
    return OK


def show_claim(args: argparse.Namespace) -> int:
    """Run ``dpwitness claims show``: print one claim and its proof."""
    it = declaration(args.id)
    known = _load_findings().get(_cache_key(it.to_json()), {})
    if args.json:
        print_json(it.to_json() | known)
        return OK
    domain = ", ".join(f"{name} in [{low:g}, {high:g}]" for name, (low, high) in it.domain.items())
    rows = [
        ("source", it.source),
        ("claim", it.statement),
        ("formula", it.formula),
        ("domain", domain),
        ("kind", it.kind),
        ("repairs", it.repairs or ""),
        ("depends on", ", ".join(it.depends)),
        ("last result", ", ".join(known[key] for key in _KEPT) if known else ""),
    ]
    print(it.id)
    for name, text in rows:
        if text:
            print(f"  {name:<11} {text}")
    for paragraph in ["", *it.proof.splitlines()]:
        print(textwrap.fill(paragraph, 100, initial_indent="  ", subsequent_indent="  "))
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
    if not settings:
        _save_findings([found.to_json()])
    return _print_finding(args, found)


def _check_all(args: argparse.Namespace) -> int:
    """Check all claims, print a line for each, and write the report."""
    from dpwitness.suites import run_all  # loads every audit

    if args.report is not None:
        pages = from_clone("pages.papers.claims_page", "claims check all --report")
        reports.check_writable(args.report)
    out = sys.stderr if args.json else sys.stdout
    width = max(map(len, proofs_checks.declarations()))
    results, interrupted = [], False
    try:
        for found in run_all(
            seconds=args.seconds, quick=args.quick, seed=args.seed or 0, workers=args.workers
        ):
            results.append(found)
            print(
                f"{found['name']:<{width}}  {found['seconds']:5.1f} s  {found['headline']}",
                file=out,
                flush=True,
            )
    except KeyboardInterrupt:
        interrupted = True
    _save_findings(results)
    words = [found["verdict"] for found in results]
    tally = ", ".join(
        f"{words.count(word)} {word.replace('_', ' ').lower()}" for word in sorted(set(words))
    )
    print(
        f"{len(results)} claims: {tally}; {sum(found['seconds'] for found in results):.0f} s",
        file=out,
    )
    print(scope_summary(results), file=out)
    missing = len(proofs_checks.declarations()) - len(results)
    if interrupted:
        print(f"interrupted: {missing} claims were not checked", file=out)
    write_failed = write_report_files(args.report, lambda folder: pages.write(results, folder), out)
    if args.json:
        print_json(results)
    return code_after_write(NO_VERDICT if interrupted else _exit_code(words), write_failed)


def _save_findings(findings: list[Json]) -> None:
    """Cache the findings of claims for `list` and `show`; nothing else reads the cache."""
    verdicts = _load_findings() | {
        _cache_key(found): {key: found[key] for key in _KEPT} for found in findings
    }
    file = home().parent / "claims.json"
    with suppress(OSError):  # `list` then shows no findings
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, verdicts)


def _load_findings() -> dict[str, dict[str, str]]:
    """Return the cached findings by claim key; empty if the cache is missing or damaged."""
    try:
        row = json_reader.record(**dict.fromkeys(_KEPT, json_reader.text(40)))
        return dict(
            json_reader.items(row)(
                json_reader.read_json(home().parent / "claims.json"), "claims.json"
            )
        )
    except InvalidArgument:
        return {}


def _cache_key(row: Json) -> str:
    """Return a cache key of a claim's declaration and the release, so that a changed claim counts
    as unchecked.
    """
    identity = [row[key] for key in ("id", "statement", "formula", "domain", "proof")]
    text = json.dumps([version("dpwitness"), *identity])
    return f"{row['id']} {hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def _parse_settings(pairs: list[str]) -> dict[str, float | tuple[float, float]]:
    """Parse NAME=VALUE and NAME=LOW:HIGH into parameters and ranges."""
    found: dict[str, float | tuple[float, float]] = {}
    for text in pairs:
        name, equals, value = text.partition("=")
        try:
            numbers = [number_from_text(part) for part in value.split(":")]
        except ValueError:
            numbers = []
        if not equals or len(numbers) not in (1, 2):
            raise InvalidArgument(f"--set must be NAME=VALUE or NAME=LOW:HIGH, got {text!r}")
        if name in found:
            raise InvalidArgument(
                f"--set must give each parameter once, got {name!r} twice: a range is "
                f"{name}=LOW:HIGH"
            )
        found[name] = numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
    return found


def _exit_code(verdicts: list[str]) -> int:
    """Return the exit code of several verdicts: a failing claim outranks an inconclusive claim."""
    return VIOLATED if "FAILS" in verdicts else NO_VERDICT if "INCONCLUSIVE" in verdicts else OK
