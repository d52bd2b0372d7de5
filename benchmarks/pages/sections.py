"""Charts of the overview, one section per published page. All numbers come from the tables of the
page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dpwitness.benchmarks.pages.charts import (
    Cell,
    Cells,
    Figure,
    LogAxis,
    Mark,
    Plot,
    Strip,
    Strips,
    across,
    down,
)
from dpwitness.benchmarks.pages.frame import Table, heading_id, link, tables, value
from dpwitness.core.claims.claim import parse_claim
from dpwitness.core.values.wording import figure
from dpwitness.reports.html_format import text

MIDDLE = 10  # pixels from the top of a strip to its axis
SIGNS = {  # verdict of a claim -> (sign, meaning)
    "fails": ("\u00d7", "false, with a counterexample"),
    "underspecified": ("?", "leaves a constant open"),
    "vacuous": ("\u2013", "true, but says nothing at practical sizes"),
    "inconclusive": ("!", "not settled"),
    "not-refuted": ("\u25cb", "measured, and not refuted"),
    "holds": ("\u2713", "holds"),
    "holds-tight": ("=", "holds, and the bound is attained"),
}
Key = tuple[str, str]  # (shape of a mark, or sign of a square; meaning)
Row = Mapping[str, str]
Texts = Mapping[str, str]
Value = tuple[float, str, str]  # number at a mark, its shape, and its tooltip


@dataclass(frozen=True, slots=True)
class SectionCharts:
    """Charts of a section, with the legend of their marks, a caption, and a number with its label
    for the head of the page.
    """

    figures: Sequence[Figure]
    keys: Sequence[Key]
    caption: str
    tile: tuple[str, str]
    broad: bool = True


def rows_of(read: Iterable[Table]) -> list[Row]:
    """Return the rows of all tables."""
    return [row for table in read for row in table.rows]


def strip(
    axis: LogAxis, label: str, values: Iterable[Value], shown: str = "", href: str = ""
) -> Strip:
    """Return a row with a mark for each value that is not NaN."""
    marks = [
        Mark(axis.place(at), MIDDLE, shape, title)
        for at, shape, title in values
        if not math.isnan(at)
    ]
    return Strip(label, tuple(marks), shown, href)


def charts_of(
    axis: LogAxis,
    named: Mapping[str, Iterable[Strip]],
    factors: Sequence[float] = (1,),
    *,
    one: bool = True,
) -> list[Strips]:
    """Return a chart for each title that has rows, with a reference line at 1 unless `one` is
    False.
    """
    ticks, at = axis.ticks(factors), axis.place(1.0) if one else None
    return [
        Strips(title, found, ticks, at) for title, rows in named.items() if (found := tuple(rows))
    ]


def worst_first(found: Iterable[tuple[float, Strip]]) -> list[Strip]:
    """Return rows by falling number."""
    return [row for _, row in sorted(found, key=lambda pair: -pair[0])]


def ratio(row: Row) -> float:
    """Return the certified bound divided by the claimed parameter, from a row of a table."""
    return value(row["certified"]) / parse_claim(text(row["claim"])).parameter


def times(found: float) -> str:
    """Format a multiple of the claim, such as "1.27 ×"; "no bound" for infinity."""
    return "no bound" if math.isinf(found) else f"{found:#.3g} \u00d7"


def zoo(read: Sequence[Table], _: Texts) -> SectionCharts:
    """Return the charts of certified and true privacy loss relative to the claim, for every
    mechanism of the zoo.
    """
    axis, rows = LogAxis(0.3, 15.0), rows_of(read)
    parts: dict[str, list[tuple[float, Strip]]] = {"violated": [], "kept": []}
    for row in rows:
        name, found = text(row["audit"]), ratio(row)
        truth = value(row["expected"].partition("=")[2]) / parse_claim(text(row["claim"])).parameter
        shape = "violated" if "VIOLATED" in row["verdict"] else "kept"
        marks = (
            (truth, "truth", f"{name}: truth {times(truth)}"),
            (found, shape, f"{name}: certified {times(found)}"),
        )
        drawn = strip(axis, name, marks, times(found), "zoo.html" + link(row["audit"]))
        parts[shape].append((found, drawn))
    titles = {"violated": "violate their claim", "kept": "are not refuted"}
    named = {f"{len(parts[s])} {title}": worst_first(parts[s]) for s, title in titles.items()}
    keys = [
        ("violated", "certified, violates the claim"),
        ("kept", "certified, not refuted"),
        ("truth", "the true value"),
    ]
    caption = "Lower bound over the claim (dashed line: the claim itself), logarithmic."
    tile = (str(len(rows)), "mechanisms of known privacy")
    return SectionCharts(charts_of(axis, named, (1, 3)), keys, caption, tile)


def papers(read: Sequence[Table], texts: Texts) -> SectionCharts | None:
    """Return the charts of the papers' claims: one square per claim, colored by verdict, with a
    link to the claim's check.
    """
    heads = [line for line in texts.get("papers-checks", "").splitlines() if line[:5] == "#### "]
    checked = (text(line[5:]).rpartition(": ") for line in heads)
    verdicts = {name: word.replace(" ", "-") for name, _, word in checked}
    groups: dict[str, list[Cell]] = {}
    for table in read:
        for row in table.rows:
            name, place = text(row["claim"]), link(row["claim"]).replace(".md#", ".html#")
            verdict = verdicts.get(name, "")
            if verdict in SIGNS:
                title = f"{name} {verdict.replace('-', ' ')}: {text(row['says'])}"
                cell = Cell(place, verdict, SIGNS[verdict][0], title)
                groups.setdefault(text(table.section), []).append(cell)
    if not groups:
        return None
    names, order = [cell.name for cells in groups.values() for cell in cells], [*SIGNS]
    figures = [
        Cells(f"{title}: {len(cells)}", tuple(sorted(cells, key=lambda c: order.index(c.name))))
        for title, cells in groups.items()
    ]
    keys = [
        (name, f"{meaning}: {names.count(name)}")
        for name, (_, meaning) in SIGNS.items()
        if name in names
    ]
    caption = "One square for each claim. Each opens the check behind the verdict."
    return SectionCharts(figures, keys, caption, (str(len(names)), "claims of papers, checked"))


def libraries(read: Sequence[Table], _: Texts) -> SectionCharts:
    """Return the charts of third-party libraries: certified / claimed, with a row per violation and
    a row per release for other calls.
    """
    axis, broken = LogAxis(0.01, 20.0), list[tuple[float, Strip]]()
    others: dict[str, list[Value]] = {}
    for table in read:
        release = text(table.section)
        place, rest = f"third-party.html#{heading_id(release)}", others.setdefault(release, [])
        for row in table.rows:
            found, name = ratio(row), text(row["target"])
            title = f"{release} {name}: certified {times(found)} the claim"
            if row["values"].strip("*") == "violated":
                mark, label = (found, "violated", title), f"{release.split()[0]} {name}"
                broken.append((found, strip(axis, label, [mark], times(found), place)))
            else:
                rest.append((found, "bits" if "violated" in row["bits"] else "kept", title))
    count = sum(map(len, others.values()))
    named = {
        f"{len(broken)} violated rows": worst_first(broken),
        f"{count} other rows, by release": [
            strip(
                axis,
                release,
                sorted(marks, key=lambda mark: mark[1]),
                str(len(marks)),
                f"third-party.html#{heading_id(release)}",
            )
            for release, marks in others.items()
            if marks
        ],
    }
    keys = [
        ("violated", "violated by the values"),
        ("bits", "violated by float bits only"),
        ("kept", "no violation found"),
    ]
    caption = (
        "Lower bound over the claim (dashed line: the claim itself), logarithmic. Smaller "
        "bounds than 0.01 are drawn at the left edge. "
        "On the left each row names its multiple of the claim, on the right the number of "
        "its marks."
    )
    tile = (str(len(broken) + count), f"calls of {len(others)} library releases")
    return SectionCharts(charts_of(axis, named), keys, caption, tile)


def power(read: Sequence[Table], _: Texts) -> SectionCharts:
    """Return the chart of certified / limit for each case, at two budgets."""
    budgets = ("20,000", "400,000")
    every = [
        (text(row["case"]), [value(row[budget]) for budget in budgets]) for row in rows_of(read)
    ]
    cases = sorted(
        (case for case in every if not any(map(math.isnan, case[1]))),
        key=lambda case: (case[1][1], case[0]),
    )
    height, top = 240, math.ceil(10 * max(max(found) for _, found in cases)) / 10
    marks, bars = list[Mark](), list[tuple[float, float, float]]()
    for i, (name, found) in enumerate(cases):
        x, places = across(i, len(cases)), [down(v, top, height) for v in found]
        bars.append((x, places[0], places[1]))
        for shape, place, budget, v in zip(("small", "large"), places, budgets, found, strict=True):
            marks.append(Mark(x, place, shape, f"{name}: {v:g} with {budget} runs"))
    levels = tuple(
        (down(level, top, height), f"{level:g}") for level in (0.0, 0.5, 1.0, 1.5) if level <= top
    )
    title, one = "Certified over the limit, one column for each case", down(1.0, top, height)
    plot = Plot(title, height, tuple(marks), levels, one, tuple(bars))
    middle = [figure(median(found[i] for _, found in cases), 3) for i in (0, 1)]
    worst = ", ".join(f"{name} ({found[1]:g})" for name, found in cases[:3])
    caption = (
        f"{len(cases)} cases. The median is {middle[0]} with {budgets[0]} runs "
        f"and {middle[1]} with {budgets[1]}. "
        f"The smallest with {budgets[1]}: {worst}."
    )
    tile = (middle[1], f"of the best possible bound, in the median ({budgets[1]} runs)")
    keys = [("small", f"{budgets[0]} runs"), ("large", f"{budgets[1]} runs")]
    return SectionCharts([plot], keys, caption, tile, broad=False)


def peers(read: Sequence[Table], _: Texts) -> SectionCharts:
    """Return the chart of certified bounds over the truth for each mechanism, one mark per tool."""
    axis, strips, rows = LogAxis(0.1, 1.3), list[Strip](), rows_of(read)
    columns = [name for name in rows[0] if name not in ("mechanism", "claim", "truth")]
    for row in (row for row in rows if math.isfinite(value(row["truth"]))):
        found = {tool: value(row[tool].strip("*")) for tool in columns}
        marks = [
            (share, "large" if tool == "dpwitness" else "small", f"{tool}: {share:g}")
            for tool, share in found.items()
            if share > 0
        ]
        strips.append(strip(axis, text(row["mechanism"]), marks, figure(found["dpwitness"], 3)))
    caption = (
        "Best settings of each tool, logarithmic. The dashed line is the truth; each row names "
        "the bound of dpwitness."
    )
    return SectionCharts(
        charts_of(axis, {"Certified bound over the truth": strips}, (1, 2, 5)),
        [("large", "dpwitness"), ("small", "another tool")],
        caption,
        (str(len(columns) - 1), "other tools on the same mechanisms"),
    )


def recall(read: Sequence[Table], _: Texts) -> SectionCharts:
    """Return the chart of the share of documented bugs that audits find, by part of the corpus and
    budget.
    """
    axis, strips = LogAxis(0.1, 1.0), list[Strip]()
    for row in rows_of(read):
        rate, budget = value(row["recall"]), text(row["budget"])
        mark = (rate, "large", f"{text(row['found (interval)'])}, {budget}")
        strips.append(strip(axis, f"{text(row['part'])}, {budget}", [mark], figure(rate, 3)))
    title = "Share of the documented bugs that are found"
    return SectionCharts(
        charts_of(axis, {title: strips}, (1, 2, 5)),
        [("large", "recall")],
        "Logarithmic. The dashed line is 1. Each entry is a release before the repair of a "
        "documented bug; intervals are on the page.",
        (strips[0].value, "of the documented bugs of the tuned part found"),
    )


def violations(read: Sequence[Table], _: Texts) -> SectionCharts:
    """Return the chart of all counted violations: one square for each bug of a release."""
    rows, sign = rows_of(read), SIGNS["fails"][0]
    cells = tuple(
        Cell("violations.html", "fails", sign, f"{text(row['release'])}: {bug}")
        for row in rows
        for bug in text(row["bugs"]).split(", ")
    )
    total = f"{sum(value(row['violations']) for row in rows):g}"
    return SectionCharts(
        [Cells(f"{total} violations in {len(rows)} releases", cells)],
        [("fails", "violated by values")],
        "One square for each bug of a release.",
        (total, f"violations in {len(rows)} releases of libraries"),
    )


def canaries(read: Sequence[Table], _texts: Texts) -> SectionCharts:
    """Return the charts of certified and true epsilon of ideal canaries, one chart per number of
    canaries, by kind of claim.
    """
    axis, shares = LogAxis(0.15, 10.0), list[tuple[float, str]]()
    charts: dict[str, dict[str, list[Value]]] = {}
    for row in rows_of(read):
        case, _, kind = text(row["case"]).partition(": ")
        group, _, label = case.partition(", ")
        truth, found = value(label.partition("=")[2]), value(row["measured"])
        if truth > 0 and math.isfinite(found):
            marks = charts.setdefault(group, {}).setdefault(
                label, [(truth, "truth", f"{case}: truth")]
            )
            shape = "large" if "curve" in kind else "small"
            marks.append((found, shape, f"{case}: {found:g} by {kind}"))
            shares.append((found / truth, f"{found:g} of {truth:g}, with {group}"))
    named = {
        group: [strip(axis, label, marks) for label, marks in rows.items()]
        for group, rows in charts.items()
    }
    keys = [
        ("large", "certified, by a Gaussian curve"),
        ("small", "certified, by (epsilon, delta)"),
        ("truth", "the true epsilon"),
    ]
    share, where = max(shares)
    caption = f"Epsilon on a logarithmic axis. The largest share of the true epsilon is {where}."
    tile = (f"{100 * share:.0f} %", "of the true epsilon, at best, from one training run")
    return SectionCharts(charts_of(axis, named, (1, 2, 5), one=False), keys, caption, tile)


def findings(read: Sequence[Table], _: Texts) -> SectionCharts:
    """Return the chart of promised and spent epsilon, one row for each finding."""
    axis, strips, rows = LogAxis(0.5, 200.0), list[Strip](), rows_of(read)
    for row in rows:
        promised, spent = value(row["promised epsilon"]), value(row["spent epsilon"])
        name = f"{text(row['library'])}: {text(row['finding'])}"
        marks = ((promised, "truth", f"promised {promised:g}"), (spent, "violated", name))
        strips.append(strip(axis, name, marks, times(spent / promised)))
    releases = ", ".join(dict.fromkeys(f"{row['library']} {row['release']}" for row in rows))
    return SectionCharts(
        charts_of(axis, {f"{len(rows)} findings": strips}, (1, 10), one=False),
        [("violated", "epsilon that is spent"), ("truth", "epsilon that the library promises")],
        f"Epsilon on a logarithmic axis, in {releases}.",
        (str(len(rows)), "bugs in other libraries that no public issue named"),
    )


def library_scans(read: Sequence[Table], texts: Texts) -> SectionCharts:
    """Return the charts of library scans: one square for each issue of a tracker, and one for each
    finding that no issue names.
    """

    def cell(table: Table, name: str, title: str) -> Cell:
        return Cell(f"library-scans.html#{heading_id(table.part)}", name, SIGNS[name][0], title)

    issues = [
        cell(
            table,
            "holds" if text(row["result"]).strip("*") == "hit" else "not-refuted",
            f"{row['issue']}: {text(row['title'])}",
        )
        for table in read
        for row in table.rows
    ]
    new = [
        cell(table, "fails", f"{text(row['finding'])}: {text(row['cause'])}")
        for table in tables(texts["library-scans"])
        if table.has("finding", "cause", "witness")
        for row in table.rows
    ]
    hits = sum(cell.name == "holds" for cell in issues)
    figures = [
        Cells(f"{len(issues)} issues of trackers", tuple(issues)),
        Cells(f"{len(new)} findings that no issue names", tuple(new)),
    ]
    keys = [
        ("holds", f"found: {hits}"),
        ("not-refuted", f"missed: {len(issues) - hits}"),
        ("fails", f"found, in no issue: {len(new)}"),
    ]
    caption = "One square for each privacy bug. Each opens the table with its title or cause."
    tile = (f"{hits} of {len(issues)}", "privacy bugs of a library's tracker, found by a scan")
    return SectionCharts(figures, keys, caption, tile)


def trust(read: Sequence[Table], _: Texts) -> SectionCharts:
    """Return the charts of measured error rates with exact intervals, and the stated
    error rates.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for table in read:
        for row in table.rows:
            groups.setdefault((text(table.part or table.section), row["stated"]), []).append(row)
    rows = rows_of(read)
    never = [row for row in rows if value(row["stated"].rpartition(" ")[2]) == 0]
    tried = sum(int(value(row["counted"].partition(" of ")[2])) for row in never)
    failures = sum(int(value(row["counted"])) for row in never)
    met = sum("missed" not in row.get("", "") for row in rows)
    caption = (
        "Each dot is a measured rate with its exact 95 % interval; the dashed line is the "
        f"stated rate. {met} of {len(rows)} rows "
        f"agree with the statement. {len(never)} rows count errors that must never happen: "
        f"{failures} in {tried:,} trials."
    )
    plots = [
        _rate_plot(title, stated, found)
        for (title, stated), found in groups.items()
        if value(stated.rpartition(" ")[2]) > 0
    ]
    keys = [("dot", "measured rate"), ("missed", "measured rate that chance does not explain")]
    return SectionCharts(plots, keys, caption, (f"{met} of {len(rows)}", "error rates as stated"))


def _rate_plot(title: str, stated: str, rows: Sequence[Row]) -> Plot:
    height = 130
    limits = [(value(row["rate"]), *map(value, row["95 % interval"].split(" to "))) for row in rows]
    order = sorted(range(len(rows)), key=lambda i: limits[i])
    level = value(stated.rpartition(" ")[2])
    top = 1.05 * max([level, *(high for _, _, high in limits)])
    marks, bars = list[Mark](), list[tuple[float, float, float]]()
    for place, i in enumerate(order):
        (rate, low, high), row, x = limits[i], rows[i], across(place, len(rows))
        bars.append((x, down(high, top, height), down(low, top, height)))
        shape = "missed" if "missed" in row.get("", "") else "dot"
        marks.append(
            Mark(x, down(rate, top, height), shape, f"{text(row['case'])}: {row['counted']}")
        )
    bottom, stated_at = down(0.0, top, height), down(level, top, height)
    levels = ((bottom, "0" if bottom - stated_at > 12 else ""), (stated_at, f"{level:g}"))
    full_title = f"{title}, {stated}: {len(rows)} row{'s' * (len(rows) != 1)}"
    return Plot(full_title, height, tuple(marks), levels, stated_at, tuple(bars))


# page -> columns of the tables that its charts show, and the function of the charts
SECTIONS: Mapping[
    str, tuple[tuple[str, ...], Callable[[Sequence[Table], Texts], SectionCharts | None]]
] = {
    "zoo": (("audit", "claim", "expected", "verdict", "certified"), zoo),
    "papers": (("claim", "says"), papers),
    "third-party": (("target", "claim", "values"), libraries),
    "violations": (("release", "violations", "bugs"), violations),
    "findings": (("finding", "promised epsilon", "spent epsilon"), findings),
    "library-scans": (("issue", "title", "result"), library_scans),
    "recall": (("part", "budget", "recall", "found (interval)"), recall),
    "peers": (("mechanism", "claim", "truth", "dpwitness"), peers),
    "power": (("case", "20,000", "400,000"), power),
    "canaries": (("case", "measured", "ceiling"), canaries),
    "trust": (("counted", "rate", "95 % interval", "stated"), trust),
}


def charts(name: str, texts: Texts) -> SectionCharts | None:
    """Return the charts of a page; None for a page without charts, or without their tables."""
    columns, draw = SECTIONS.get(name, ((), papers))
    read = [table for table in tables(texts[name]) if columns and table.has(*columns)]
    return draw(read, texts) if read else None
