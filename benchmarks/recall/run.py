"""Benchmark of recall: audits of documented bugs before and after their repair, at 1 and 10 CPU
minutes.

``dpwitness bench recall`` runs the audits that the published campaign lacks and prints its figures.
Parts of a campaign: ``python -m dpwitness.benchmarks.recall.run --minutes 1 --part tuned NAME...``.
With ``--check``, each target runs a few times in each of its releases, and nothing is audited.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.auditors.functions.accountant_search import points, question_of
from dpwitness.auditors.functions.declared_targets import DeclaredAccountant, DeclaredTransformation
from dpwitness.auditors.functions.stability_metrics import metric_named
from dpwitness.auditors.functions.stability_neighbors import neighbors_of
from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.benchmarks.installation import install
from dpwitness.benchmarks.recall.campaign import BUDGETS, auditor, campaign, stored
from dpwitness.benchmarks.recall.corpus import PARTS, TUNED, Entry, Release, corpus
from dpwitness.benchmarks.recall.figures import table, write_page
from dpwitness.benchmarks.table import Table, format_table
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.declared import declarations
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_process import borrowed_worker

_ALL = "all"


def measure() -> Table:
    """Run the audits that are not stored yet, those with the larger budget for what the smaller one
    misses; return the figures.
    """
    short, long = BUDGETS
    campaign(corpus(), short, _say)
    runs = stored()
    found = {
        entry
        for (entry, *key), run in runs.items()
        if key == ["before", short, False] and run.violated and run.code == auditor()
    }
    campaign([entry for entry in corpus() if entry.name not in found], long, _say, side="before")
    return table(corpus(), stored())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a part of the campaign and print the figures so far."""
    parser = argparse.ArgumentParser(description="run a part of the recall campaign")
    parser.add_argument(
        "--minutes", type=int, choices=BUDGETS, default=BUDGETS[0], help="CPU minutes of one audit"
    )
    parser.add_argument("--part", choices=(*PARTS, _ALL), help="part of the corpus; default: all")
    parser.add_argument(
        "--first",
        action="store_true",
        help="store the runs as the first run of a part set aside, which is never made again",
    )
    parser.add_argument("--side", choices=("before", "after"), help="the only side to audit")
    parser.add_argument(
        "--check",
        action="store_true",
        help="run each target a few times in both releases and audit nothing",
    )
    parser.add_argument(
        "--page",
        metavar="FOLDER",
        type=Path,
        help="write recall.md from the stored runs, and run nothing",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="beginnings of names of entries; default: all of the part",
    )
    args = parser.parse_args(arguments)
    if args.first and args.part in (None, _ALL, TUNED):
        parser.error("--first needs --part with a part that was set aside")
    part = args.part or _ALL
    entries = [
        entry
        for entry in corpus()
        if part in (entry.part, _ALL) and entry.name.startswith(tuple(args.names) or "")
    ]
    if args.check:
        return _check(entries)
    if args.page:
        write_page(corpus(), stored(), args.page)
    else:
        campaign(entries, args.minutes, _say, first=args.first, side=args.side)
    print(format_table(table(corpus(), stored())))
    return 0


def _check(entries: Sequence[Entry]) -> int:
    """Run each target a few times and print the outcomes; return 1 if a target does not run before
    the repair.
    """
    failed = 0
    for entry in entries:
        for side, release in entry.sides if entry.runnable else ():
            outcome = check_side(entry, release)
            failed += side == "before" and outcome != RUNS
            print(f"{entry.name} {side} ({release.name}): {outcome}", flush=True)
    return int(failed > 0)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


RUNS = "runs"
_RUNS = 3  # runs of a mechanism, and calls of a transformation or an accountant


def check_side(entry: Entry, release: Release) -> str:
    """Install a release, run the target of an entry a few times on one dataset, and return ``runs``
    or the error.

    An entry whose target cannot run before the repair is a fault of the corpus, not a miss of the
    auditor.
    """
    if release.environment is None:
        raise InvalidArgument(f"{entry.name} {release.name} must be built by hand: {release.build}")
    file, _, name = entry.target.rpartition(":")
    python = str(release.environment.interpreter)
    try:
        install(release.environment)
        declaration = (
            declarations(file, python).get(name)
            if "TARGETS" in Path(file).read_text(encoding="utf-8")
            else None
        )
        target = Target(file, name, python)
        try:
            _require_version(target, release)
            _try(target, declaration)
        finally:
            target.close()
    except (
        Exception
    ) as error:  # of the installation, of the target file or of a run: each is reported
        return (
            f"{type(error).__name__}: "
            f"{str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        )
    return RUNS


def _require_version(target: Target, release: Release) -> None:
    """Raise InvalidArgument if the library that the target imports is not the release that its
    environment pins.
    """
    assert release.environment is not None
    with borrowed_worker(target._slot, target.time_limit) as worker:
        library, version = str(worker.loaded.get("library") or ""), worker.loaded.get("version")
    pinned = [
        pin.partition("==")
        for pin in (*release.environment.requirements, *release.environment.no_deps)
    ]
    wanted = [
        number for name, _, number in pinned if name.partition("[")[0].lower() == library.lower()
    ]
    if version and wanted and version not in wanted:
        raise InvalidArgument(f"{library} {version} is imported, not {wanted[0]}")


def _try(target: Target, declaration: Json | None) -> None:
    """Run a target a few times. Raise its exception."""
    if declaration is None:
        if target.domain is None or target.claim is None:
            raise InvalidArgument(f"{target.name} must declare a domain and a claim")
        # datasets of a mechanism, of which it must accept one
        _run_some([pair.d0 for pair in pairs_for(target.domain)[:8]], target)
    elif declaration["kind"] == "transformation":
        transformation = DeclaredTransformation(target, declaration)
        d_in = declaration.get("d_in") or [1]
        transformation.stability_map(d_in[0])
        metric = metric_named(declaration["input_metric"], "input_metric", target.name)
        groups = neighbors_of(transformation.space, metric, d_in).adversarial([])
        datasets = [group.datasets[-1] for group in itertools.islice(groups, _RUNS)]
        _require_one(transformation.apply_all(datasets))
    else:
        accountant = DeclaredAccountant(target, declaration)
        declared = [
            declaration.get(key) for key in ("mechanism", "returns", "parameters", "ranges")
        ]
        question, _ = question_of(accountant, *declared)
        _require_one(
            question.call(
                list(itertools.islice(points(question.parameters, np.random.default_rng(0)), _RUNS))
            )
        )


def _run_some(datasets: Sequence[Any], target: Target) -> None:
    """Run a mechanism on the first dataset that it does not refuse. Raise its first exception if it
    refuses all.
    """
    errors: list[Exception] = []
    for dataset in datasets:
        try:
            target.sample(dataset, _RUNS, np.random.default_rng(0))
        except Exception as error:
            errors.append(error)
        else:
            return
    raise errors[0]


def _require_one(answers: Any) -> None:
    """Raise the first answer unless one of the answers is not an exception: single inputs may be
    refused.
    """
    if all(isinstance(answer, BaseException) for answer in answers):
        raise answers[0]


if __name__ == "__main__":
    sys.exit(main())
