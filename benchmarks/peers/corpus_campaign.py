"""Campaign on the recall corpus: this project's audit of each release with a bug, and the other
tools on the pair of that audit.

Each library runs in its own interpreter once, and all tools read the same recorded outputs. A tool
pays the processor time of the library for each output that it takes, so recordings change no
figure.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.engine import read_clock
from dpwitness.benchmarks.installation import install
from dpwitness.benchmarks.peers import campaign
from dpwitness.benchmarks.peers.campaign import (
    ANSWER,
    CONFIDENCE,
    NOT_EXPRESSIBLE,
    NOT_INSTALLED,
    OWN,
    ROOT,
    SETTINGS,
    Key,
    Run,
    Tool,
    attacks,
    describe,
    is_current,
    replaced,
)
from dpwitness.benchmarks.peers.campaign import tools as all_tools
from dpwitness.benchmarks.recall import campaign as recall
from dpwitness.benchmarks.recall.campaign import auditor, declared_kind, write_runs
from dpwitness.benchmarks.recall.corpus import SECOND, THIRD, Entry, corpus
from dpwitness.benchmarks.table import root_seed
from dpwitness.core.claims import ApproxDP, parse_claim
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.core.values.validation import InvalidArgument, error_text
from dpwitness.mechanisms.wrappers.programs.environments import home
from dpwitness.mechanisms.wrappers.programs.target import Target

Outputs = NDArray[np.float64]
MISSING = -1.0  # number for a missing output, which the experiments of DP-Sniper use
# columns whose usual size is larger are divided by it, because networks need small numbers
_LARGE = 100.0
_UNBOUNDED = 1e9  # number for an infinite output
_MOST = 1_000_000  # outputs per dataset
_BATCH, _BATCH_SECONDS = 4096, 0.5
_CLOCK_PATIENCE = 4  # multiple of the CPU seconds by the clock after which a recording ends


class NoForm(Exception):
    """The entry has no form in any tool that compares distributions of numbers at an (epsilon,
    delta) claim.
    """


def recording(entry: Entry, cpu_seconds: float) -> Path:
    """Return the file of the outputs of an entry that were recorded in these CPU seconds, in the
    user's cache.
    """
    return home().parent / "recordings" / f"{entry.name}-{cpu_seconds:g}.npz"


def _location(entry: Entry) -> tuple[str, str, str]:
    """Return the file and the name of the target, and the interpreter of the release
    with the bug.
    """
    assert entry.before.environment is not None
    file, _, name = entry.target.rpartition(":")
    return file, name, str(entry.before.environment.interpreter)


def record(entry: Entry, pair: Any, cpu_seconds: float) -> None:
    """Run the release with the bug on both datasets until its CPU seconds are spent, and write the
    outputs.

    Parameters
    ----------
    entry : Entry
        Entry of the corpus, whose environment is installed.
    pair : dict or None
        The pair in JSON form; the first pair of the catalog if None.
    cpu_seconds : float
        Processor time of the library for both datasets.

    Raises
    ------
    NoForm
        If the claim is not an (epsilon, delta) claim, or the outputs are not vectors of numbers.
        The message has the reason.
    """
    file, name, python = _location(entry)
    if kind := declared_kind(entry, python):
        raise NoForm(f"the target is not a mechanism, but a function of kind {kind}")
    target = Target(file, name, python)
    try:
        claim = _claim(target)
        datasets = _datasets(target, pair)
        outputs, cost = _drawn(target, datasets, cpu_seconds)
    except InvalidArgument as error:
        raise NoForm(f"the target cannot be loaded: {error}") from None
    finally:
        target.close()
    path = recording(entry, cpu_seconds)
    path.parent.mkdir(parents=True, exist_ok=True)
    first, second = numbers(outputs)
    np.savez(
        path,
        first=first,
        second=second,
        cost=cost,
        epsilon=claim.epsilon,
        delta=claim.delta_budget,
        bits=entry.bits,
    )


def _claim(target: Target) -> ApproxDP:
    text = target.describe()["claim"]
    found = parse_claim(text)
    if not isinstance(found, ApproxDP):
        raise NoForm(f"the claim is {text}, and not (epsilon, delta)")
    return found


def _datasets(target: Target, pair: Any) -> tuple[Any, Any]:
    if pair is not None:
        return from_jsonable(pair["d0"]), from_jsonable(pair["d1"])
    domain = target.domain
    if domain is None:
        raise NoForm("there is no pair of datasets")
    first = pairs_for(domain)[0]
    return first.d0, first.d1


def _drawn(
    target: Target, datasets: tuple[Any, Any], cpu_seconds: float
) -> tuple[tuple[Outputs, Outputs], float]:
    """Return equally many outputs on both datasets, and the CPU seconds per output."""
    rng, parts = np.random.default_rng(0), (list[Outputs](), list[Outputs]())
    size, runs, end = 10, 0, time.monotonic() + _CLOCK_PATIENCE * cpu_seconds
    most = target.batch or _BATCH
    while target.cpu_seconds < cpu_seconds and runs < _MOST and time.monotonic() < end:
        for side, dataset in enumerate(datasets):
            try:
                parts[side].append(vectors(target.sample(dataset, size, rng), size))
            except NoForm:
                raise
            except Exception as error:
                raise NoForm(f"the library raises {error_text(error)[:120]}") from None
        runs += size
        per_run = target.cpu_seconds / (2 * runs)
        size = int(
            min(max(_BATCH_SECONDS / max(per_run, 1e-9), 1), most, 4 * size, max(_MOST - runs, 1))
        )
    try:
        return (np.vstack(parts[0]), np.vstack(parts[1])), target.cpu_seconds / (2 * runs)
    except ValueError:
        raise NoForm("outputs are vectors of different lengths") from None


def vectors(outputs: Any, size: int) -> Outputs:
    """Return outputs as numbers of shape (size, k), NaN where one is missing.

    Raises
    ------
    NoForm
        If the outputs are not numbers, or not equally many in each run.
    """
    rows: Sequence[Any] = outputs
    if not isinstance(outputs, np.ndarray):
        width = next((len(row) for row in outputs if isinstance(row, list | tuple)), None)
        rows = (
            outputs
            if width is None
            else [[None] * width if row is None else row for row in outputs]
        )
    try:
        return np.asarray(rows, dtype=np.float64).reshape(size, -1)
    except (TypeError, ValueError):
        raise NoForm("outputs are not vectors of numbers of one length") from None


def numbers(outputs: tuple[Outputs, Outputs]) -> list[Outputs]:
    """Return outputs with finite numbers only, for missing and infinite numbers, and with large
    columns divided by their usual size.

    Examples
    --------
    >>> numbers((np.array([[500.0, np.nan]]), np.array([[500.0, 2.0]])))
    [array([[ 1., -1.]]), array([[1., 2.]])]
    """
    if outputs[0].shape[1] != outputs[1].shape[1]:
        raise NoForm("outputs are vectors of different lengths")
    both = np.abs(np.vstack(outputs))
    usual = np.array(
        [
            np.median(column[np.isfinite(column)]) if np.isfinite(column).any() else 1.0
            for column in both.T
        ]
    )
    scale = np.where(usual > _LARGE, usual, 1.0)
    return [
        np.nan_to_num(part / scale, nan=MISSING, posinf=_UNBOUNDED, neginf=-_UNBOUNDED)
        for part in outputs
    ]


PUBLISHED = ROOT / "reports" / "published" / "peers-recall.json"
# CPU seconds of one attack, with those of the library; more if our audit does not find the bug with
# fewer
BUDGETS = (10.0, 60.0)
# multiple of the CPU seconds, with those of the start, after which this project's audit is ended
_PATIENCE = 2
_ORDER = 34  # seed of the order of entries


def entries() -> list[Entry]:
    """Return the runnable entries of the corpus in an order that a seed draws: a campaign may run
    the first ones only.
    """
    found = [entry for entry in corpus() if entry.runnable and not entry.harmless]
    later = [entry for part in (SECOND, THIRD) for entry in found if entry.part == part]
    first = [entry for entry in found if entry not in later]
    # entries that were added after the draw follow
    return random.Random(_ORDER).sample(first, len(first)) + later


def stored(file: Path = PUBLISHED) -> dict[Key, Run]:
    """Return the runs on the corpus, as `campaign.stored` does those on the zoo."""
    return campaign.stored(file)


def missed(chosen: Iterable[Entry], runs: Mapping[Key, Run], budget: float) -> list[Entry]:
    """Return the entries whose bug our audit does not find with this budget."""
    own = [
        run for run in runs.values() if run.tool == OWN and run.budget == budget and is_current(run)
    ]
    cases = {run.case for run in own if not run.violated}
    return [entry for entry in chosen if entry.name in cases]


def corpus_campaign(
    chosen: Sequence[Entry],
    tools: Iterable[Tool],
    checkouts: Mapping[str, Path],
    say: Callable[[str], None],
    file: Path = PUBLISHED,
    budget: float = BUDGETS[0],
) -> None:
    """Run this project's audit and each other tool on each entry without a stored outcome.

    Parameters
    ----------
    chosen : sequence of Entry
        Entries, of which the release with the bug is audited.
    tools : iterable of Tool
        Tools; this project's audit runs in any case, because its pair is the pair of the others.
    checkouts : mapping
        Folder with a clone of the repository, by name of the tool.
    say : callable
        Receives one line per run.
    file : Path
        File of the outcomes and of the pairs, written after each run.
    budget : float
        CPU seconds of one attack.
    """
    others = [tool for tool in tools if tool.name != OWN]
    titles = {name: tool.title for name, tool in all_tools().items()}
    seed = root_seed(None)
    for entry in chosen:
        wanted = [
            (tool.name, settings, entry.name, budget, seed)
            for tool in others
            for settings in SETTINGS
        ]
        for run in _prepared(entry, wanted, file, budget):
            _keep(run, file)
            say(describe(run, titles[run.tool]))
    for tool in others:
        known = stored(file)
        recorded = {
            entry.name: str(recording(entry, budget))
            for entry in chosen
            if recording(entry, budget).exists()
        }
        keys = [
            (tool.name, settings, name, budget, seed) for settings in SETTINGS for name in recorded
        ]
        missing = [key for key in keys if not _is_known(known, key)]
        for run in attacks(tool, missing, checkouts, recordings=recorded):
            _keep(run, file)
            say(describe(run, tool.title))


def _prepared(entry: Entry, wanted: Sequence[Key], file: Path, budget: float) -> Iterable[Run]:
    """Yield this project's outcome on an entry if it is not stored, and record the outputs that
    wanted runs need.

    Yields the wanted runs, without running a tool, if the entry has no form in any of them.
    """
    known, key = stored(file), (OWN, "default", entry.name, budget, root_seed(None))
    pairs = _pairs(file)
    if not _is_known(known, key):
        own, pair = _audit(entry, key)
        own = replace(own, code=auditor())
        pairs.setdefault(entry.name, pair)  # the one that stored runs of other tools had
        _keep(None, file, pairs)
        yield own
        if own.state == NOT_INSTALLED:
            return
    missing = [one for one in wanted if not _is_known(known, one)]
    if missing and not recording(entry, budget).exists():
        try:
            record(entry, pairs.get(entry.name), budget)
        except NoForm as reason:
            yield from (Run(*one, NOT_EXPRESSIBLE, note=str(reason)) for one in missing)


def _is_known(known: Mapping[Key, Run], key: Key) -> bool:
    """Return whether a run with any seed is stored that need not be made again."""
    return any(one[:-1] == key[:-1] and is_current(run) for one, run in known.items())


def _audit(entry: Entry, key: Key) -> tuple[Run, Any]:
    """Audit the target of an entry as ``dpwitness bench recall`` does, in CPU time; return the
    outcome and the JSON of the pair or None.
    """
    assert entry.before.environment is not None
    try:
        install(entry.before.environment)
    except InvalidArgument as error:
        return Run(*key, NOT_INSTALLED, note=str(error)[:300]), None
    python, budget = str(entry.before.environment.interpreter), key[3]
    most = _PATIENCE * budget
    command = recall.command(entry, python, recall.SHARE * budget, key[4])
    texts = _output(command, most)
    if texts is None:
        return Run(
            *key, "no answer", cpu_seconds=most, note=f"needs more than {most:g} CPU seconds"
        ), None
    outcome, headline = recall.read(*texts, entry.bits)
    try:
        result = json.loads(texts[0])
    except json.JSONDecodeError:
        result = {}
    headline = headline.replace(str(ROOT), "~")[:300]
    seconds = float(result.get("cpu_seconds") or result.get("seconds") or 0.0)
    if seconds > budget:
        return Run(
            *key,
            "no answer",
            cpu_seconds=seconds,
            note=f"needs {seconds:.0f} CPU seconds: {headline}",
        ), result.get("pair")
    state, violated = (
        "error" if outcome == Verdict.ERROR.value else ANSWER,
        outcome == Verdict.VIOLATED.value,
    )
    return Run(*key, state, violated=violated, cpu_seconds=seconds, note=headline), result.get(
        "pair"
    )


def _output(command: Sequence[str], most: float) -> tuple[str, str] | None:
    """Return what a command prints, or None if it and its workers take more than `most` CPU
    seconds.
    """
    clock = read_clock("cpu")
    begin = clock()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while True:
            try:
                return process.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                if clock() - begin > most:
                    process.terminate()
                    process.communicate()
                    return None


def _pairs(file: Path) -> dict[str, Any]:
    """Return the pair of each entry on which this project's audit has its verdict."""
    return dict(json.loads(file.read_text(encoding="utf-8"))["pairs"]) if file.exists() else {}


def _keep(run: Run | None, file: Path, pairs: Mapping[str, Any] | None = None) -> None:
    """Write a run, or the pairs, into the file."""
    runs = stored(file) if run is None else replaced(stored(file), run)
    found = _pairs(file) if pairs is None else dict(pairs)
    write_runs(
        runs.values(), file, confidence=CONFIDENCE, order=_ORDER, pairs=dict(sorted(found.items()))
    )
