"""Figures of a campaign and the published page: recall by family with exact intervals, violations
of repaired releases, and a cause for each miss. All numbers come from the stored runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpwitness.auditors.statistics.certificate import clopper_pearson_lower
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.benchmarks.recall.campaign import BUDGETS, NOT_INSTALLED, Run, RunKey
from dpwitness.benchmarks.recall.corpus import FAMILIES, FOLDER, PARTS, TUNED, Entry
from dpwitness.benchmarks.table import Row, Table
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.wording import figure
from dpwitness.reports.wording import table as markdown_table

CONFIDENCE = 0.95
REQUIRED = {1: 0.75, 10: 0.85}  # recall by CPU minutes
Runs = Mapping[RunKey, Run]


@dataclass(frozen=True, slots=True)
class Recall:
    """Number of bugs that were found among those that were audited."""

    found: int
    audited: int

    @property
    def rate(self) -> float:
        return self.found / self.audited if self.audited else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Two-sided Clopper-Pearson interval at the confidence `CONFIDENCE`.

        Examples
        --------
        >>> [round(limit, 4) for limit in Recall(0, 10).interval]
        [0.0, 0.3085]
        """
        alpha = (1 - CONFIDENCE) / 2
        if not self.audited:
            return 0.0, 1.0
        low = clopper_pearson_lower(self.found, self.audited, alpha)
        high = 1 - clopper_pearson_lower(self.audited - self.found, self.audited, alpha)
        return float(low), float(high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.found} of {self.audited} ({low:.2f} to {high:.2f})"


def recall(entries: Sequence[Entry], runs: Runs, minutes: int, first: bool = False) -> Recall:
    """Return the recall on entries: violations of releases before the repair, among the entries
    whose audits could run, by the first runs of parts set aside or by the latest ones.

    A violation with a smaller budget counts: only what an audit misses is audited again with the
    next budget.
    """
    spent = [budget for budget in BUDGETS if budget <= minutes]
    outcomes = [
        [
            runs[key]
            for key in ((entry.name, "before", budget, first) for budget in spent)
            if key in runs
        ]
        for entry in entries
    ]
    audited = [
        kept
        for found in outcomes
        if (kept := [run for run in found if run.outcome != NOT_INSTALLED])
    ]
    return Recall(sum(any(run.violated for run in found) for found in audited), len(audited))


def table(entries: Sequence[Entry], runs: Runs) -> Table:
    """Return the figures of a campaign, with notes on misses, and entries that could not run.

    Parameters
    ----------
    entries : sequence of Entry
        The corpus.
    runs : mapping
        Stored runs by entry, side, CPU minutes, and whether they are first runs.

    Returns
    -------
    Table
        One row per part and budget that has runs, for the latest runs and for the first runs of
        the parts set aside; a row for each budget counts the violations of repaired releases.
    """
    rows = list[Row]()
    for first, part, minutes in _series():
        found = recall(part_of(entries, runs, minutes, part, first), runs, minutes, first)
        if found.audited:
            rows.append(
                Row(
                    f"recall, {part}{', first run' if first else ''}, {spent_by(minutes)}",
                    REQUIRED[minutes],
                    found.rate,
                    "rate",
                    counts=(found.found, found.audited),
                )
            )
    for minutes in BUDGETS:
        repaired = [
            run
            for run in runs.values()
            if run.side == "after" and run.minutes == minutes and run.outcome != NOT_INSTALLED
        ]
        if repaired:
            alarms = sum(run.violated for run in repaired)
            row = Row(
                f"violations in {len(repaired)} audits of repaired releases, {minutes} CPU min",
                0,
                alarms,
                "audits",
                at_most=True,
            )
            rows.append(row)
    return Table("recall", tuple(rows), (*misses(runs), *undecided(runs), *not_run(entries, runs)))


def _series() -> list[tuple[bool, str, int]]:
    """Return what is counted apart: whether first runs, the part, and the CPU minutes."""
    kinds = [(False, part) for part in PARTS] + [(True, part) for part in PARTS if part != TUNED]
    return [(*kind, minutes) for kind in kinds for minutes in BUDGETS]


def spent_by(minutes: int) -> str:
    """Return the words for the budgets of an entry up to this one."""
    return " then ".join(str(budget) for budget in BUDGETS if budget <= minutes) + " CPU min"


def causes(file: Path = FOLDER / "causes.toml") -> dict[str, str]:
    """Return the cause of each miss and each violation of a repaired release, by ``entry side``."""
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def part_of(
    entries: Sequence[Entry], runs: Runs, minutes: int, part: str, first: bool = False
) -> list[Entry]:
    """Return the entries of a part; none if no audit of the part had this budget."""
    found = [entry for entry in entries if entry.part == part]
    return found if any((entry.name, "before", minutes, first) in runs for entry in found) else []


def by_family(entries: Sequence[Entry], runs: Runs, minutes: int) -> dict[str, Recall]:
    """Return the recall of each family that has runs, over the parts with audits of this budget."""
    parts = [entry for part in PARTS for entry in part_of(entries, runs, minutes, part)]
    found = {
        family: recall([entry for entry in parts if entry.family == family], runs, minutes)
        for family in FAMILIES
    }
    return {family: count for family, count in found.items() if count.audited}


def misses(runs: Runs) -> list[str]:
    """Return lines with the misses and the violations of repaired releases, each with its cause."""
    known = causes()
    wrong = [
        run
        for run in runs.values()
        if run.outcome != NOT_INSTALLED and run.violated is not (run.side == "before")
    ]
    return [
        f"{'missed' if run.side == 'before' else 'violated after the repair'}, {run.minutes} "
        f"CPU min: {run.entry} {run.release}, "
        f"{run.outcome}{', first run' if run.first else ''}: "
        f"{known.get(f'{run.entry} {run.side}', 'cause not known yet; ' + run.headline)}"
        for run in wrong
        if run.side == "before" or run.violated
    ]


def undecided(runs: Runs) -> list[str]:
    """Return lines with the repaired releases whose audit has no verdict: a repair that refuses the
    call, or a target that fails.
    """
    found = [
        run
        for run in runs.values()
        if run.side == "after" and run.outcome in (Verdict.ERROR.value, Verdict.INCONCLUSIVE.value)
    ]
    return [
        f"no verdict after the repair, {run.minutes} CPU min: {run.entry} {run.release}: "
        f"{run.headline}"
        for run in found
    ]


def not_run(entries: Sequence[Entry], runs: Runs) -> list[str]:
    """Return lines with the releases that could not be installed and the entries without one."""
    return [
        *(
            f"not installed: {run.entry} {run.release}: {run.headline}"
            for run in runs.values()
            if run.outcome == NOT_INSTALLED
        ),
        *(f"harmless: {entry.name}: {entry.harmless}" for entry in entries if entry.harmless),
        *(
            f"needs a build from source: {entry.name}: {release.build}"
            for entry in entries
            for _, release in entry.sides
            if release.build
        ),
        *(
            f"no target yet: {entry.name}"
            for entry in entries
            if not (entry.target or entry.harmless or any(r.build for _, r in entry.sides))
        ),
        *(
            f"not audited yet: {entry.name}"
            for entry in entries
            if entry.runnable
            and not any((entry.name, "before", BUDGETS[0], first) in runs for first in (0, 1))
        ),
    ]


_INTRODUCTION = (
    "Each entry of the corpus is one documented bug of a library: a release before and a "
    "release after the repair, and a target that was "
    "written from the library's documentation, with a claim and a domain, but no pair of "
    "datasets and no event. The audit has the default "
    "options and a budget. It should find a violation before the repair, and none after it."
)
_METHOD = (
    "A part that is *set aside* is audited once before anything is changed for it: these first "
    "runs are kept as they are, and only they are a test of unseen bugs. The first part is a third "
    "of the first entries, drawn by a seed; it showed faults of targets, which no one had run "
    "before, and weaknesses of the auditor. The entries of the second part were collected "
    "afterwards, and audited after a check that their targets run; one of these audits "
    "(`opacus-closure`, before) was void and repeated, because another release than the pinned one "
    "was installed. The entries of the third part were collected later still, most of them of "
    "libraries that the others lack; algorithms whose libraries no registry offers were written "
    "anew from descriptions, with the fault and without it (`rebuilt`). An entry that an audit of "
    f"{BUDGETS[0]} CPU minute misses has another one of {BUDGETS[1]} CPU minutes; a row for both "
    "counts the violations of either. Each audit draws its seed from the operating system, and "
    "`recall.json` names it. "
    f"Intervals are exact, at confidence {CONFIDENCE:g}. An audit without a verdict counts as a "
    "miss. Budgets are CPU time, of the audit and of the library; those of the first runs of the "
    "first two parts went by the clock on a busy machine. One entry is left out, because its "
    "release does not have the fault that its issue describes (*harmless*, below)."
)
_COMMANDS = """```
dpwitness bench recall
python -m dpwitness.benchmarks.recall.run --check
python -m dpwitness.benchmarks.recall.run --minutes 1 NAME
python -m dpwitness.benchmarks.recall.run --page reports/published
```"""


def write_page(entries: Sequence[Entry], runs: Runs, folder: Path) -> None:
    """Write ``recall.md`` into a folder."""
    write_text(folder / "recall.md", page(entries, runs))


def page(entries: Sequence[Entry], runs: Runs) -> str:
    """Return the markdown of the page."""
    libraries = len({entry.library for entry in entries})
    total = recall(entries, runs, BUDGETS[-1])
    title = f"# Recall: {total.found} of {total.audited} documented bugs found"
    lines = [title, "", _INTRODUCTION, "", _METHOD, ""]
    runnable = sum(entry.runnable for entry in entries)
    lines += [
        f"The corpus has {len(entries)} entries of {libraries} libraries; {runnable} of them "
        "run, from releases of a registry or rebuilt."
    ]
    lines += [
        "",
        "## Found",
        "",
        *_parts_table(entries, runs),
        "",
        *_also_after(runs),
        "## By family",
        "",
        *_families_table(entries, runs),
    ]
    lines += [
        "",
        "[recall.json](recall.json) has the verdict, the bound and the CPU seconds of every audit; "
        "`benchmarks/libraries/*/entries.toml` has the source of every entry.",
        "",
        "## Misses and violations after the repair",
        "",
    ]
    lines += [f"- {line}." for line in [*misses(runs), *undecided(runs)]]
    lines += [
        "",
        "## Not audited",
        "",
        *(f"- {line.rstrip('.')}." for line in not_run(entries, runs)),
    ]
    return "\n".join([*lines, "", "## Reproduce", "", _COMMANDS]) + "\n"


def _parts_table(entries: Sequence[Entry], runs: Runs) -> list[str]:
    """Return the table of the recall and the violations after the repair, by part and budget."""
    rows = []
    for first, part, minutes in _series():
        members = part_of(entries, runs, minutes, part, first)
        found = recall(members, runs, minutes, first)
        keys = [(entry.name, "after", minutes, first) for entry in members]
        repaired = [runs[key] for key in keys if key in runs and runs[key].cpu_seconds > 0]
        alarms = f"{sum(run.violated for run in repaired)} of {len(repaired)}" if repaired else "-"
        if found.audited:
            label = f"{part}, first run" if first else part
            rows.append([label, spent_by(minutes), figure(found.rate, 3), str(found), alarms])
    return markdown_table(
        ["part", "budget", "recall", "found (interval)", "violated after the repair, last budget"],
        rows,
    )


def _also_after(runs: Runs) -> list[str]:
    """Return a paragraph on the found entries whose repaired release is violated too."""
    both = sorted({run.entry for run in runs.values() if run.side == "after" and run.violated})
    if not both:
        return []
    names = ", ".join(f"`{name}`" for name in both)
    return [
        f"The repaired release is violated too, by another bug, in {names}. Before the "
        "repair the audit may have found that bug.",
        "",
    ]


def _families_table(entries: Sequence[Entry], runs: Runs) -> list[str]:
    columns = [by_family(entries, runs, minutes) for minutes in BUDGETS]
    rows = [[family, *(str(column.get(family, "")) for column in columns)] for family in columns[0]]
    return markdown_table(["family", *(spent_by(minutes) for minutes in BUDGETS)], rows)
