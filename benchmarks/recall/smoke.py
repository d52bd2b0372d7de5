"""Smoke check of the corpus: whether each target runs at all in each of its releases. Nothing is
audited.
"""

from __future__ import annotations

import itertools
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
from dpwitness.benchmarks.recall.corpus import Entry, Release
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.declared import declarations
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_process import borrowed_worker

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
            _run(target, declaration)
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


def _run(target: Target, declaration: Json | None) -> None:
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
