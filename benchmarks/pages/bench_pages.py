"""Pages from the JSON of benchmarks: the reader of this JSON, and the pages on canaries, on power
and on the scan of packages.

``python -m dpwitness.benchmarks.pages canaries FOLDER canaries.json`` writes ``canaries.md``, its
plot and its data, and ``power FOLDER power.json...`` and ``scan FOLDER scan.json`` the other two.
All numbers come from the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dpwitness.auditors.witnesses.verdicts import strict
from dpwitness.benchmarks.pictures import drawing
from dpwitness.benchmarks.scan.run import TEXTS, first_scans
from dpwitness.benchmarks.table import Row, Table
from dpwitness.core.values.atomic_files import write_json, write_text
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import count, figure
from dpwitness.reports.wording import escaped_markdown, table


def read_tables(path: Path | str) -> list[Table]:
    """Return the benchmark tables of a file. Raise InvalidArgument for other files."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{path} must be JSON of `dpwitness bench`: {error}") from None
    try:
        return [_table(entry) for entry in (found if isinstance(found, list) else [found])]
    except (TypeError, KeyError):
        raise InvalidArgument(
            f"{path} must hold tables with name and rows, as `dpwitness bench NAME --json` "
            "prints them"
        ) from None


def _table(entry: Json) -> Table:
    rows = []
    for row in entry["rows"]:
        # JSON has infinity as a text
        numbers = {name: float(row[name]) for name in ("required", "measured")}
        counts = tuple(row["counts"]) if row.get("counts") else None
        rows.append(Row(**row | numbers | {"counts": counts}))
    notes, details = (tuple(entry.get(key, ())) for key in ("notes", "details"))
    return Table(entry["name"], tuple(rows), notes, details)


def read_table(path: Path | str, name: str) -> Table:
    """Return the one table of a benchmark with its details from a file. Raise InvalidArgument if
    there is not exactly one.
    """
    found = [entry for entry in read_tables(path) if entry.name == name and entry.details]
    if len(found) != 1:
        raise InvalidArgument(
            f"{path} must hold one table of `dpwitness bench {name}` with its details, got "
            f"{len(found)}"
        )
    return found[0]


def store(folder: Path, name: str, found: Sequence[Table]) -> None:
    """Write tables of benchmarks as ``NAME.json`` into a folder."""
    write_json(folder / f"{name}.json", strict([asdict(each) for each in found]))


def stored_tables(folder: Path, name: str, files: Sequence[str]) -> list[Table]:
    """Return the tables of files with JSON of benchmarks, and store them as ``NAME.json`` of a
    folder; without files, the stored ones.
    """
    published = str(folder / f"{name}.json")
    found = [each for file in files or [published] for each in read_tables(file)]
    if files:
        store(folder, name, found)
    return found


def joined(parts: Sequence[Table]) -> Table:
    """Return one table of the parts of a benchmark."""
    rows = tuple(row for part in parts for row in part.rows)
    notes = tuple(note for part in parts for note in part.notes)
    return Table(parts[0].name, rows, notes, tuple(d for part in parts for d in part.details))


def direction(row: Row) -> str:
    """Return on which side of the required number the measured one must be."""
    return "at most" if row.at_most else "at least"


def required(row: Row, digits: int = 4) -> str:
    """Format the required number of a row: ``at most`` or ``at least`` the number."""
    return f"{direction(row)} {figure(row.required, digits)}"


def outcome(is_met: bool) -> str:
    """Return whether a measured number meets the required number, as the text of a cell."""
    return "met" if is_met else "**missed**"


def sentences(notes: Sequence[str]) -> list[str]:
    """Return the notes of a benchmark as sentences."""
    return [f"{note[0].upper()}{note[1:]}." for note in notes if note]


_CANARIES = (
    "A training is audited from one run by canaries: fair coins decide which of some "
    "examples are in its data, and "
    "each example gets a score. The tables show the bounds that these scores certify at "
    "confidence 0.95, corrected for every "
    "choice (threshold, number of guesses). `dpwitness bench canaries` prints these rows, "
    "each with its required value."
)
# (text in the case of the section's rows, heading, explanation of the numbers)
_SECTIONS = (
    (
        "against",
        "Comparison with a published tool",
        "jax-privacy's own case: 10,000 scores per side from two normal laws with means 1 "
        "apart, epsilon at delta = 1e-6 (the "
        "truth is 4.89). *Asked* is the bound of that tool: computed on the same scores in "
        "the rows of quantiles, and taken "
        "from its published tests in the other rows.",
    ),
    ("unit shift", "The same case, from random scores", "Medians of 20 seeds."),
    (
        "ideal canaries",
        "Ideal canaries",
        "Scores of isolated canaries: two normal laws, as for a Gaussian mechanism with this "
        "epsilon at delta = 1e-5. Medians "
        "of 200 seeds. The ceiling is the median bound with the best number of guesses, "
        "known in advance.",
    ),
    (
        "false alarms",
        "False alarms",
        "Claims that hold with equality, audited many times: the share of VIOLATED at an "
        "error probability of 5 %. *Asked* is 5 "
        "% plus three standard errors.",
    ),
    ("", "Time", "One audit."),
)


def canaries_page(found: Table, plot_name: str) -> str:
    """Return the markdown of the page from the table of `bench canaries`."""
    lines = [
        "# Canaries: what one run of a training certifies",
        "",
        _CANARIES,
        "",
        "![Certified over true epsilon: the nearer a line is to its dotted ceiling, the less is "
        "lost]"
        f"({plot_name})",
        "",
    ]
    remaining = list(found.rows)
    for case_part, heading, text in _SECTIONS:
        rows = [row for row in remaining if case_part in row.case]
        remaining = [row for row in remaining if case_part not in row.case]
        if rows:
            lines += [f"## {heading}", "", text, "", *_rows_table(rows, found.details)]
    return (
        "\n".join([*lines, *sentences([note for note in found.notes if "jax-privacy" in note])])
        + "\n"
    )


def _rows_table(rows: Sequence[Row], details: Sequence[Mapping[str, Any]]) -> list[str]:
    ceilings = {
        f"{at['canaries']:,} ideal canaries, epsilon = {at['epsilon']:g}: {at['theorem']}": at[
            "most"
        ]
        for at in details
    }

    def line(row: Row) -> list[str]:
        ceiling = [figure(ceilings[row.case], 3)] if row.case in ceilings else []
        return [row.case, required(row, 3), figure(row.measured, 3), *ceiling, outcome(row.met)]

    ceiling_column = ["ceiling"] if rows[0].case in ceilings else []
    return [
        *table(["case", "asked", "measured", *ceiling_column, ""], [line(row) for row in rows]),
        "",
    ]


def plot_canaries(details: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the certified over the true epsilon, with a line per theorem and number of canaries, and
    dotted ceilings.
    """
    with drawing(path) as axes:
        lines = sorted(
            {(at["theorem"], at["canaries"]) for at in details},
            key=lambda each: (each[0], -each[1]),
        )
        for (theorem, canaries), (mark, face) in zip(
            lines, (("o", "black"), ("o", "white"), ("s", "black"), ("s", "white")), strict=False
        ):
            points = [
                at for at in details if (at["theorem"], at["canaries"]) == (theorem, canaries)
            ]
            x = [at["epsilon"] for at in points]
            axes.plot(x, [at["most"] for at in points], ":", color="gray", linewidth=1)
            text = f"{theorem}, {canaries:,} canaries"
            axes.plot(
                x,
                [at["found"] for at in points],
                mark + "-",
                color="black",
                markerfacecolor=face,
                linewidth=1,
                markersize=5,
                label=text,
            )
        axes.set_xlabel("true epsilon")
        axes.set_ylabel("certified epsilon (dotted: ceiling)")
        axes.legend(loc="upper left")


def write_canaries(folder: Path, file: str = "") -> None:
    """Write ``canaries.md``, its plot and its data from JSON of `dpwitness bench canaries`; without
    a file, from the published data.
    """
    found = read_table(file or folder / "canaries.json", "canaries")
    store(folder, "canaries", [found])
    plot_canaries(found.details, folder / "canaries.svg")
    write_text(folder / "canaries.md", canaries_page(found, "canaries.svg"))


Budget = Mapping[str, Any]  # an entry of the details of `bench.power`: trials, seeds, cases

_POWER = (
    "A verdict NOT_REFUTED is worth as much as the chance that a violation would have been found. "
    "Here complete audits run on every mechanism of the zoo and of the papers whose law of the "
    "privacy loss is known, on a given pair. Their certified bounds, at confidence 0.95, are "
    "divided by the *limit*: the median bound of the best event, known in advance, with as many "
    "runs. Each case is represented by its median over the seeds. By chance, a ratio can exceed 1."
)
_FAMILIES = (
    "Families of mechanisms that are hard to audit, with parameters drawn by a seed: the "
    "median over three members, each with three "
    "seeds of the audit."
)
_CAUSES = (
    "Certified / limit is the product of three factors: *rounds* that train an event certify "
    "nothing; *looks* (interim "
    "analyses) take a share of alpha; the *event* that was learned differs from the oracle's "
    "(the chance of the seeds is "
    "included here). Medians over the cases."
)
_ORACLE = (
    "An audit that knows the law, and spends every run on a test of the best event, depends "
    "on chance too: the best event "
    "may be so rare that a few counts decide. With as many seeds per case, the oracle "
    "attains these medians over many repeats:"
)
_SHORT = (
    "Below are the cases under the required 10 % quantile. Next to each is an oracle that "
    "has the training data of an audit and no more, "
    "and the audit's stages. If outputs are few, it knows which privacy losses occur, but "
    "not which output has which loss. Otherwise it "
    "knows the order of all outputs by their loss, and chooses thresholds from the training "
    "counts. An audit knows neither. Where the "
    "audit is above the 10 % quantile of this oracle over repeats, a better learner would "
    "not help: only more runs do. Elsewhere "
    "the audit loses because it learns the order."
)
_QUANTILES = (("median", 0.5), ("10 % quantile", 0.1), ("worst", 0.0))


def power_page(found: Table, plot_name: str) -> str:
    """Return the markdown of the page from the table of `bench power`."""
    budgets: Sequence[Budget] = found.details
    lines = [
        "# Power: certified bounds compared with those of an oracle",
        "",
        _POWER,
        "",
        *sentences([note for note in found.notes if note.startswith("seed ")]),
        "",
        "![Certified bound divided by that of the best possible test, b"
        "y number of runs: the best value is 1]"
        f"({plot_name})",
        "",
        "## By number of runs",
        "",
        *_quantile_table(budgets, found.rows),
        "",
        "## An oracle",
        "",
        _ORACLE,
        "",
        *_oracle_table(budgets),
        "",
        "## Causes of the gap to the limit",
        "",
        _CAUSES,
        "",
        *_causes_table(budgets),
        "",
    ]
    if any(budget["short"] for budget in budgets):
        lines += ["## Short cases", "", _SHORT, "", *_short_table(budgets), ""]
    if families := [row for row in found.rows if row.case.startswith("family: ")]:
        lines += ["## Families", "", _FAMILIES, "", *_families_table(families), ""]
    lines += ["## Every case", "", *_cases_table(budgets)]
    return "\n".join(lines) + "\n"


def _families_table(rows: Sequence[Row]) -> list[str]:
    cells = [
        (
            row.case.removeprefix("family: "),
            figure(row.measured, 3),
            f"{row.required:g} ({outcome(row.met)})",
        )
        for row in rows
    ]
    return table(("family", "median", "required"), cells)


def _ratios(budget: Budget) -> dict[str, float]:
    return {case["name"]: median(case["ratios"]) for case in budget["cases"]}


def _quantile(budget: Budget, share: float) -> float:
    return float(np.quantile(list(_ratios(budget).values()), share))


def _quantile_table(budgets: Sequence[Budget], required: Sequence[Row]) -> list[str]:
    required_values = {row.case: row.required for row in required}

    def format_share(budget: Budget, what: str, share: float) -> str:
        value = _quantile(budget, share)
        least = required_values.get(f"certified / limit at {budget['trials']:,} trials: {what}")
        return figure(value, 3) + (
            "" if least is None else f" ({outcome(value >= least)}: {least:g} required)"
        )

    head = ["trials", "cases", "seeds", *(what for what, _ in _QUANTILES)]
    return table(
        head,
        [
            [
                count(b["trials"]),
                count(len(b["cases"])),
                count(b["seeds"]),
                *(format_share(b, *q) for q in _QUANTILES),
            ]
            for b in budgets
        ],
    )


def _oracle_table(budgets: Sequence[Budget]) -> list[str]:
    return table(
        ["trials", *(what for what, _ in _QUANTILES)],
        [[count(b["trials"]), *(figure(x, 3) for x in b["oracle"])] for b in budgets],
    )


def _short_table(budgets: Sequence[Budget]) -> list[str]:
    """Return the table of cases below the required quantile, each with the oracle that learns."""
    head = [
        "trials",
        "case",
        "certified / limit",
        "oracle that learns",
        "its 10 % quantile",
        "the oracle knows",
        "a better learner would help",
    ]
    rows = [
        [
            count(b["trials"]),
            case["name"],
            *(figure(case[name], 3) for name in ("ratio", "oracle", "low")),
            "losses" if case["few"] else "order",
            "yes" if case["ratio"] < case["low"] else "no",
        ]
        for b in budgets
        for case in b["short"]
    ]
    return table(head, rows)


def _causes_table(budgets: Sequence[Budget]) -> list[str]:
    names = ("rounds", "looks", "event")
    rows = [
        [
            count(b["trials"]),
            *(figure(median(case[name] for case in b["cases"]), 3) for name in names),
        ]
        for b in budgets
    ]
    return table(["trials", *names], rows)


def _cases_table(budgets: Sequence[Budget]) -> list[str]:
    """Return the table of certified / limit by case and budget, smallest ratios first."""
    ratios = [_ratios(budget) for budget in budgets]
    names = sorted(
        {name for found in ratios for name in found},
        key=lambda name: (min(found.get(name, 9.0) for found in ratios), name),
    )
    head = ["case", *(f"{budget['trials']:,}" for budget in budgets)]
    return table(
        head, [[name, *(figure(found.get(name), 3) for found in ratios)] for name in names]
    )


def plot_power(budgets: Sequence[Budget], path: Path) -> None:
    """Draw the median, 10 % quantile and worst case over the number of trials."""
    with drawing(path) as axes:
        for (what, share), mark in zip(_QUANTILES, "osv", strict=True):
            axes.plot(
                [budget["trials"] for budget in budgets],
                [_quantile(budget, share) for budget in budgets],
                f"{mark}-",
                color="black",
                linewidth=1,
                markersize=5,
                label=what,
            )
        axes.set_xscale("log")
        axes.set_ylim(0, 1.05)
        axes.set_xlabel("trials")
        axes.set_ylabel("certified / limit")
        axes.legend(loc="lower right")


def write_power(folder: Path, *files: str) -> None:
    """Write ``power.md``, its plot and its data from JSON of `dpwitness bench power`, whose parts
    may be in several files; without files, from the published data.
    """
    found = joined(stored_tables(folder, "power", files))
    plot_power(found.details, folder / "power.svg")
    write_text(folder / "power.md", power_page(found, "power.svg"))


_SCAN = (
    "For each of {packages} packages, a person first listed its mechanisms and, for the newest "
    "draw, the places where it draws noise (`benchmarks/scan/lists.toml`); then the package was "
    "scanned. A place or a mechanism is *found* if the scan reads it as one. A target is *right* "
    "if the proposed call runs, and kind of claim and neighboring relation are those of the list,"
    " without editing. An accusation, a SUSPECT or VIOLATED, is wrong unless a reader finds the "
    "claim of this mechanism broken. Ten packages were named by the project, and the scan was "
    "developed on them. The others were drawn by chance from the packages of the registry that "
    "mention differential privacy. The packages of the newest draw are scanned with the tests of "
    "their source distributions, and without. `dpwitness bench scan --part` scans an earlier draw"
    " again."
)
_DRAWN = (
    "The test on unseen packages is the first scan of each draw: the draw was listed, and scanned"
    " once by the code of that day (`benchmarks/scan/first_scans.toml`). The rows above show the "
    "present code, after changes that the draws suggested. The draws pass over copies, packages "
    "without a mechanism, and packages that need large frameworks. Mechanisms of packages that "
    "cannot be imported count as not found. Whether the datasets of a right target are those that"
    " the library means is not part of the count."
)
_FIRST = (
    "Five libraries with known bugs, each installed into a new environment and then scanned "
    "with a budget of 600 seconds until the first "
    "finding. Seconds are of a machine with two cores and other work; the processor time "
    "includes the installation."
)


def scan_page(found: Table) -> str:
    """Return the markdown of the page from the table of `bench scan`."""
    shares = _shares(found.rows)
    counts = [of[TEXTS["right"]].counts for group, of in shares.items() if ", with tests" in group]
    right, of = (sum(column) for column in zip((0, 0), *filter(None, counts), strict=True))
    scanned = [d for d in found.details if d.get("listed")]
    packages = len({d["package"] for d in scanned})
    lines = [
        f"# Scan: right targets for {right} of {of} mechanisms of drawn packages, by their tests",
        "",
        _SCAN.format(packages=packages),
        "",
        *_shares_table(shares),
        "",
        *_other_rows(found.rows),
        "",
        _DRAWN,
        "",
        *_first_scans(),
        "",
    ]
    lines += ["## By group of packages", "", *_groups(scanned), ""]
    first = [d for d in found.details if d["group"] == "first"]
    lines += ["## Time to the first finding", "", _FIRST, "", *_first(first), ""] if first else []
    notes = [
        f"- {escaped_markdown(note)}" for note in found.notes if "first finding after" not in note
    ]
    return "\n".join([*lines, *(["## Notes", "", *notes, ""] if notes else [])])


_WRONG = "wrong accusations"


def _shares(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    """Return the shares and the wrong accusations by group of packages."""
    groups: dict[str, dict[str, Row]] = {}
    for row in rows:
        group, _, kind = row.case.rpartition(": ")
        if kind in (*TEXTS.values(), _WRONG):
            groups.setdefault(group, {})[kind] = row
    return groups


def _shares_table(groups: Mapping[str, Mapping[str, Row]]) -> list[str]:
    """Return the table of the shares and the wrong accusations by group of packages."""
    kinds = (*TEXTS.values(), _WRONG)
    return table(
        ("packages", *kinds),
        [
            (group, *(_judged(found[kind]) if kind in found else "-" for kind in kinds))
            for group, found in groups.items()
        ],
    )


def _other_rows(rows: Sequence[Row]) -> list[str]:
    """Return the list of the other measurements."""
    kinds = (*TEXTS.values(), _WRONG)
    others = [row for row in rows if row.case.rpartition(": ")[2] not in kinds]
    return [f"- {row.case}: {_judged(row)}, {required(row)} required" for row in others]


def _judged(row: Row) -> str:
    missed = "" if row.met else f", **missed**: {required(row)} required"
    return _share(row) + missed


def _first_scans() -> list[str]:
    """Return the table of the first scan of each draw."""
    rows = [
        (group, *(str(scan.get(key, "-")) for key in ("listed", "found", "right", "wrong")))
        for group, scan in first_scans().items()
    ]
    return table(("first scan", "listed", "found", "right", "wrong"), rows)


def _first(details: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of the times until the first finding."""
    rows = []
    for each in details:
        seconds = [
            f"{each[key]:.0f} s" if key in each else "-"
            for key in ("installation", "scan", "processor seconds")
        ]
        rows.append(
            (
                escaped_markdown(each["package"]),
                *seconds,
                escaped_markdown(each.get("error") or each["finding"][:160] or "none"),
            )
        )
    return table(("library", "installation", "scan", "processor time", "first finding"), rows)


def _groups(details: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of the counts of each group, with the packages whose mechanisms all have a
    right target and those of which none has.
    """
    rows = []
    for group in dict.fromkeys(d["group"] for d in details):
        own = [d for d in details if d["group"] == group]
        sums = [str(sum(d.get(key, 0) for d in own)) for key in ("listed", "found", "right")]
        whole = [d["package"] for d in own if d.get("right", 0) == d["listed"]]
        none = [d["package"] for d in own if not d.get("right", 0)]
        names = (escaped_markdown(", ".join(each)) for each in (whole, none))
        rows.append((group, str(len(own)), *sums, *names))
    head = ("group", "packages", "mechanisms", "found", "right targets", "all right", "none right")
    return table(head, rows)


def _share(row: Row) -> str:
    """Format a measured share with its counts."""
    if not row.counts:
        return f"{row.measured:g}" if row.measured < float("inf") else "never"
    part, of = row.counts
    return f"{row.measured:.0%} ({part} of {of})"


def write_scan(folder: Path, file: str = "") -> None:
    """Write ``scan.md`` and its data from JSON of `dpwitness bench scan`; without a file, from the
    published data.
    """
    found = read_table(file or folder / "scan.json", "scan")
    store(folder, "scan", [found])
    write_text(folder / "scan.md", scan_page(found))
