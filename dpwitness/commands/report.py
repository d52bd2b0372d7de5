"""Commands for what an earlier run wrote: ``report`` writes any format of its JSON file,
``compare`` compares two of these files, and ``replay`` tests a witness again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dpwitness import reports
from dpwitness.auditors.witnesses.replay import prepare_replay, target_arguments
from dpwitness.auditors.witnesses.seals import check_seal
from dpwitness.auditors.witnesses.verdicts import fresh_seed
from dpwitness.auditors.witnesses.witness_reader import load_json
from dpwitness.commands import claims
from dpwitness.commands.common import exit_code, prepare, print_json, report_results, summary
from dpwitness.commands.loading import load, workers
from dpwitness.commands.options import COMPARISON_FORMATS
from dpwitness.core.values.json_reader import printable
from dpwitness.core.values.validation import InvalidArgument, did_you_mean, error_text
from dpwitness.proofs_checks.kernel import checker
from dpwitness.reports import compare as comparisons
from dpwitness.reports.formats import FORMATS
from dpwitness.terminal import (
    OK,
    bar,
    code_after_write,
    redirected_stdout,
    show,
    write_report_files,
)


def report(args: argparse.Namespace) -> int:
    """Run ``dpwitness report``: write or show a report again."""
    formats = _parse_formats(args.format, tuple(FORMATS))
    file = _report_json(args.file)
    document = reports.read_document(file)
    if args.show:
        show(summary(reports.entries_of(document)))
        return OK
    folder = reports.check_writable(args.report if args.report is not None else Path(file).parent)
    try:
        files = reports.write_document(
            document,
            folder,
            formats,
            stem="audit" if file == "-" else Path(file).stem,
            plots=not args.no_plots,
        )
    except InvalidArgument:
        raise
    except (
        *(reports.IncompleteReport, ArithmeticError, AttributeError),
        *(LookupError, TypeError, ValueError),
    ) as error:  # numbers or curves in the file are inconsistent
        raise InvalidArgument(
            f"{printable(Path(file).name)} cannot be shown: {error_text(error)}"
        ) from error
    print("\n".join(map(str, files)))
    return OK


def compare(args: argparse.Namespace) -> int:
    """Run ``dpwitness compare``: compare two reports, print the comparison, and write it if
    requested.
    """
    formats = _parse_formats(args.format or COMPARISON_FORMATS[0], COMPARISON_FORMATS)
    prepare(args)
    found = comparisons.compare(_report_json(args.old), _report_json(args.new))
    if args.json:
        print_json(found.to_json())
    else:
        print(reports.plain(comparisons.terminal(found, explain=args.explain)))
    write_failed = write_report_files(
        args.report,
        lambda folder: comparisons.write(found, folder, formats)[0],
        None if args.json else sys.stdout,
    )
    return code_after_write(exit_code(found.to_json()), write_failed)


def _parse_formats(text: str, names: Sequence[str]) -> list[str]:
    """Split the comma-separated names of ``--format``. Raise InvalidArgument, listing the valid
    names, if a name is unknown.
    """
    found = [name.strip() for name in text.split(",")]
    unknown = [name for name in found if name not in names]
    if unknown:
        raise InvalidArgument(
            f"--format must be a list of names among {', '.join(names)}, got {text!r}"
            f"{did_you_mean(unknown[0], names)}"
        )
    return list(dict.fromkeys(found))


def _report_json(place: str) -> str:
    """Return the path of audit.json in a folder, or the path of a file unchanged."""
    return str(Path(place) / "audit.json") if Path(place).is_dir() else place


def replay(args: argparse.Namespace) -> int:
    """Run ``dpwitness replay`` and return the exit code."""
    if args.check:
        return int(checker.main([args.witness]))
    raw, file = load_json(args.witness)
    if raw.get("kind") == "claim":
        check_seal(raw, file)
        args.seed = fresh_seed() if args.seed is None else args.seed
        return claims.replay(args, raw)
    prepare(args)
    replacement = None
    if args.target is not None:
        replacement, _, _ = load(args.target, target_arguments(raw["target"]))
    prepared = prepare_replay(
        args.witness, mechanism=replacement, allow=args.allow, called=args.target or ""
    )
    args.source_changed = prepared.source_changed
    print(
        f"replays {prepared.describe()}", file=sys.stderr if args.json else sys.stdout, flush=True
    )
    with redirected_stdout():
        mechanism = prepared.load()
    with workers(args, mechanism) as executor, bar() as progress, redirected_stdout():
        result = prepared.run(
            mechanism,
            trials=args.trials,
            confidence=args.confidence,
            seed=args.seed,
            executor=executor,
            progress=progress,
        )
    return report_results(args, [result], title=f"Replay of {file}")
