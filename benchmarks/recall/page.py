"""Published page of the recall campaign. All numbers come from the stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpwitness.benchmarks.recall.campaign import BUDGETS
from dpwitness.benchmarks.recall.corpus import PARTS, SET_ASIDE, TUNED, Entry
from dpwitness.benchmarks.recall.figures import (
    CONFIDENCE,
    Runs,
    by_family,
    latest,
    misses,
    not_run,
    part_of,
    recall,
    spent_by,
    undecided,
)
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.wording import figure
from dpwitness.reports.wording import table

_INTRODUCTION = (
    "Each entry of the corpus is one documented bug of a library: a release before and a "
    "release after the repair, and a target that was "
    "written from the library's documentation, with a claim and a domain, but no pair of "
    "datasets and no event. The audit has the default "
    "options and a budget. It should find a violation before the repair, and none after it."
)
_METHOD = (
    "A third of the first entries, drawn by a seed, was set aside before any tuning and "
    "audited once, at the end. That test showed faults "
    "of targets, which no one had run before, and weaknesses of the auditor; both were "
    "repaired, so a later run of the same entries is not "
    "a test of unseen bugs. The entries of the second part set aside were collected "
    "afterwards and audited once, at the end, after "
    "a check that their targets run. One of these audits (`opacus-closure`, before) was void "
    "and repeated: another release than the pinned "
    "one was installed, which the check now notices. An entry that an audit of "
    f"{BUDGETS[0]} CPU minute misses may have another one of {BUDGETS[1]} CPU minutes; a row "
    "for both counts the violations of either. "
    f"Intervals are exact, at confidence {CONFIDENCE:g}. An audit without a verdict counts "
    "as a miss. Budgets are CPU time, of "
    "the audit and of the library. Audits of the tuned part before the repair, and all with "
    "the larger budget, kept budgets of CPU time. "
    "The others are older: their budgets went by the clock on a busy machine, so they used "
    "less, as each row shows. Entries of the "
    "tuned part whose targets or audits were mended after a miss were audited anew. One "
    "entry is left out, because its release does not "
    "have the fault that its issue describes (*harmless*, below)."
)
_COMMANDS = """```
dpwitness bench recall
python -m dpwitness.benchmarks.recall.run --check
python -m dpwitness.benchmarks.recall.run --minutes 1 --part tuned
python -m dpwitness.benchmarks.recall.run --page reports/published
```"""


def write_page(entries: Sequence[Entry], runs: Runs, folder: Path) -> None:
    """Write ``recall.md`` into a folder."""
    write_text(folder / "recall.md", page(entries, runs))


def page(entries: Sequence[Entry], runs: Runs) -> str:
    """Return the markdown of the page."""
    libraries = len({entry.library for entry in entries})
    lines = [
        "# Recall: documented bugs of libraries, before and after their repair",
        "",
        _INTRODUCTION,
        "",
        _METHOD,
        "",
    ]
    runnable = sum(entry.runnable for entry in entries)
    lines += [
        f"The corpus has {len(entries)} entries of {libraries} libraries; {runnable} of them "
        "run from releases of a registry."
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
        "## Every entry",
        "",
        *_entries_table(entries, runs),
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
    again = any(run.later for run in runs.values())
    versions = [(part, part, runs) for part in PARTS] + [
        (SET_ASIDE, f"{SET_ASIDE}, after the fact", latest(runs))
    ] * again
    rows = []
    for name, label, made in versions:
        for minutes in BUDGETS:
            part = part_of(entries, made, minutes, name)
            names = {entry.name for entry in part}
            found = recall(part, made, minutes)
            if found.audited:
                audited = [
                    run
                    for run in made.values()
                    if run.cpu_seconds > 0 and not run.later and run.entry in names
                ]
                repaired = [
                    run for run in audited if run.side == "after" and run.minutes == minutes
                ]
                alarms = f"{sum(run.violated for run in repaired)} of {len(repaired)}"
                rows.append([label, spent_by(minutes), figure(found.rate, 3), str(found), alarms])
    return table(
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
    return table(["family", *(spent_by(minutes) for minutes in BUDGETS)], rows)


def _entries_table(entries: Sequence[Entry], runs: Runs) -> list[str]:
    """Return the table of all audited entries, with the verdict and the CPU seconds of
    each audit.
    """
    rows = []
    for entry in entries:
        cells = [_verdicts(entry, side, runs) for side in ("before", "after")]
        if any(cells):
            releases = " → ".join(release.name for _, release in entry.sides)
            address = entry.source[0].split()[0]  # without the section of a changelog
            source = f"[{address.rsplit('/', 1)[-1][:12]}]({address})"
            rows.append(
                [
                    f"`{entry.name}`",
                    "" if entry.part == TUNED else entry.part,
                    releases,
                    entry.family,
                    source,
                    *cells,
                ]
            )
    return table(["entry", "part", "releases", "family", "source", "before", "after"], rows)


def _verdicts(entry: Entry, side: str, runs: Runs) -> str:
    """Return verdict and CPU seconds of the audits of one side."""
    found = [
        runs[key]
        for later in (False, True)
        for minutes in BUDGETS
        if (key := (entry.name, side, minutes, later)) in runs
    ]
    words = [
        f"{'later ' if run.later else ''}{run.outcome.replace('_', ' ').lower()} "
        f"({run.cpu_seconds:.0f} s)"
        for run in found
    ]
    return "; ".join(words)
