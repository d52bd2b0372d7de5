"""Charts of the overview's sections, one section per published page. All numbers come from the
tables of the page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
from dpwitness.benchmarks.pages.frame import heading_id
from dpwitness.benchmarks.pages.markdown_tables import link, tables, value
from dpwitness.core.claims.claim import parse_claim
from dpwitness.core.values.wording import figure
from dpwitness.reports.formats.html_format import text

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


def ratio(row: Mapping[str, str], certified: str = "certified") -> float:
    """Return the certified bound divided by the claimed parameter, from a row of a table."""
    return value(row[certified]) / parse_claim(text(row["claim"])).parameter


def times(found: float) -> str:
    """Format a multiple of the claim, such as "1.27 ×"; "no bound" for infinity."""
    return "no bound" if math.isinf(found) else f"{found:#.3g} \u00d7"


def zoo(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the charts of certified and true privacy loss relative to the claim, for every
    mechanism of the zoo.
    """
    required_columns = ("audit", "claim", "expected", "verdict", "certified")
    rows = [
        row for table in tables(texts["zoo"]) if table.has(*required_columns) for row in table.rows
    ]
    if not rows:
        return None
    axis = LogAxis(0.3, 15.0)
    parts: dict[bool, list[tuple[float, Strip]]] = {True: [], False: []}
    for row in rows:
        broken, found = "VIOLATED" in row["verdict"], ratio(row)
        truth = value(row["expected"].partition("=")[2]) / parse_claim(text(row["claim"])).parameter
        name = text(row["audit"])
        marks = (
            [Mark(axis.place(truth), MIDDLE, "truth", f"{name}: truth {times(truth)}")]
            if not math.isnan(truth)
            else []
        )
        marks.append(
            Mark(
                axis.place(found),
                MIDDLE,
                "violated" if broken else "kept",
                f"{name}: certified {times(found)}",
            )
        )
        parts[broken].append(
            (found, Strip(name, tuple(marks), times(found), "zoo.html" + link(row["audit"])))
        )
    charts = [
        Strips(
            title,
            tuple(strip for _, strip in sorted(parts[broken], key=lambda pair: -pair[0])),
            axis.ticks((1, 3)),
            axis.place(1.0),
        )
        for broken, title in (
            (True, f"{len(parts[True])} violate their claim"),
            (False, f"{len(parts[False])} are not refuted"),
        )
        if parts[broken]
    ]
    keys = [
        ("violated", "certified, violates the claim"),
        ("kept", "certified, not refuted"),
        ("truth", "the true value"),
    ]
    caption = "Lower bound over the claim (dashed line: the claim itself), logarithmic."
    return SectionCharts(charts, keys, caption, (str(len(rows)), "mechanisms of known privacy"))


def papers(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the charts of the papers' claims: one square per claim, colored by verdict, with a
    link to the claim's check.
    """
    verdicts = {}
    for line in texts.get("papers-checks", "").splitlines():
        if line.startswith("#### "):
            name, _, word = text(line[5:]).rpartition(": ")
            verdicts[name] = word.replace(" ", "-")
    groups: dict[str, list[Cell]] = {}
    for table in tables(texts["papers"]):
        for row in table.rows if table.has("claim", "says") else ():
            name = text(row["claim"])
            if (verdict := verdicts.get(name)) not in SIGNS:
                continue
            place, title = (
                link(row["claim"]).replace(".md#", ".html#"),
                f"{name} {verdict.replace('-', ' ')}: {text(row['says'])}",
            )
            groups.setdefault(text(table.section), []).append(
                Cell(place, verdict, SIGNS[verdict][0], title)
            )
    if not groups:
        return None
    names = [cell.name for cells in groups.values() for cell in cells]
    ranked = {
        title: sorted(cells, key=lambda cell: [*SIGNS].index(cell.name))
        for title, cells in groups.items()
    }
    figures = [Cells(f"{title}: {len(cells)}", tuple(cells)) for title, cells in ranked.items()]
    keys = [
        (name, f"{meaning}: {names.count(name)}")
        for name, (_, meaning) in SIGNS.items()
        if name in names
    ]
    caption = "One square for each claim. Each opens the check behind the verdict."
    return SectionCharts(figures, keys, caption, (str(len(names)), "claims of papers, checked"))


def libraries(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the charts of third-party libraries: certified / claimed, with a row per violation and
    a row per release for other calls.
    """
    read = [
        table for table in tables(texts["third-party"]) if table.has("target", "claim", "values")
    ]
    found = [(text(table.section), row) for table in read for row in table.rows]
    if not found:
        return None
    axis = LogAxis(0.01, 20.0)
    broken, others = list[tuple[float, Strip]](), dict[str, list[Mark]]()
    for release, row in found:
        reached, name = ratio(row), text(row["target"])
        shape = (
            "violated"
            if row["values"].strip("*") == "violated"
            else "bits"
            if "violated" in row["bits"]
            else "kept"
        )
        mark = Mark(
            axis.place(reached),
            MIDDLE,
            shape,
            f"{release} {name}: certified {times(reached)} the claim",
        )
        if shape == "violated":
            place = f"third-party.html#{heading_id(release)}"
            broken.append(
                (reached, Strip(f"{release.split()[0]} {name}", (mark,), times(reached), place))
            )
        others.setdefault(release, []).extend([mark] if shape != "violated" else [])
    rest = tuple(
        Strip(
            release,
            tuple(sorted(marks, key=lambda m: m.shape)),
            str(len(marks)),
            f"third-party.html#{heading_id(release)}",
        )
        for release, marks in others.items()
        if marks
    )
    worst_first = tuple(strip for _, strip in sorted(broken, key=lambda pair: -pair[0]))
    named = {
        f"{len(broken)} violated rows": worst_first,
        f"{len(found) - len(broken)} other rows, by release": rest,
    }
    sides = [
        Strips(title, strips, axis.ticks(), axis.place(1.0))
        for title, strips in named.items()
        if strips
    ]
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
    return SectionCharts(
        sides, keys, caption, (str(len(found)), f"calls of {len(others)} library releases")
    )


def figures(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the chart of reproduced over printed test errors, for each method on each problem."""
    rows = [
        row
        for table in tables(texts["reproductions"])
        if table.has("problem", "method", "paper")
        for row in table.rows
    ]
    ours = next((name for name in (rows[0] if rows else ()) if name.startswith("ours")), "")
    pairs = [
        (row, value(row["paper"]), value(row[ours]))
        for row in rows
        if ours and not math.isnan(value(row["paper"]))
    ]
    if not pairs:
        return None
    height, top = 240, 0.6
    shapes = {"std": "other", "scale": "other", "gamma": "kept", "LR": "truth-dot"}
    marks = []
    for row, paper, here in pairs:
        method = text(row["method"])
        if method.split()[-1] in shapes:
            x, y = across(0, 1) + (paper / top - 0.5) * 88.0, down(here, top, height)
            marks.append(
                Mark(
                    x,
                    y,
                    shapes[method.split()[-1]],
                    f"{row['problem']}, {method}: paper {paper:g}, here {here:g}",
                )
            )
    levels = tuple((down(level, top, height), f"{level:g}") for level in (0.0, 0.2, 0.4, 0.6))
    ticks = tuple(
        (across(0, 1) + (level / top - 0.5) * 88.0, f"{level:g}") for level in (0.0, 0.2, 0.4, 0.6)
    )
    diagonal = (ticks[0][0], levels[0][0], ticks[-1][0], levels[-1][0])
    title = "Test error here (upwards) against the paper's (to the right)"
    plot = Plot(title, height, tuple(marks), levels, ticks=ticks, diagonal=diagonal)
    keys = [
        ("other", "noise as printed"),
        ("kept", "noise that keeps the promise"),
        ("truth-dot", "without noise"),
    ]
    caption = (
        f"{len(marks)} test errors of {len({row['problem'] for row, _, _ in pairs})} problems. "
        "On the diagonal both agree."
    )
    count = len({table.section for table in tables(texts["reproductions"]) if table.section})
    return SectionCharts(
        [plot], keys, caption, (str(count), "published figures, computed again"), broad=False
    )


def power(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the chart of certified / limit for each case, at two budgets."""
    budgets = ("20,000", "400,000")
    cases = [
        (text(row["case"]), [value(row[budget]) for budget in budgets])
        for table in tables(texts["power"])
        if table.has("case", *budgets)
        for row in table.rows
    ]
    cases = sorted(
        (case for case in cases if not any(map(math.isnan, case[1]))),
        key=lambda case: (case[1][1], case[0]),
    )
    if not cases:
        return None
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
    plot = Plot(
        "Certified over the limit, one column for each case",
        height,
        tuple(marks),
        levels,
        down(1.0, top, height),
        tuple(bars),
    )
    middle = [median(found[i] for _, found in cases) for i in (0, 1)]
    worst = ", ".join(f"{name} ({found[1]:g})" for name, found in cases[:3])
    caption = (
        f"{len(cases)} cases. The median is {figure(middle[0], 3)} with {budgets[0]} runs "
        f"and {figure(middle[1], 3)} with {budgets[1]}. "
        f"The smallest with {budgets[1]}: {worst}."
    )
    tile = (figure(middle[1], 3), f"of the best possible bound, in the median ({budgets[1]} runs)")
    return SectionCharts(
        [plot],
        [("small", f"{budgets[0]} runs"), ("large", f"{budgets[1]} runs")],
        caption,
        tile,
        broad=False,
    )


def peers(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the chart of certified bounds over the truth for each mechanism, one mark per tool."""
    rows = [
        row
        for table in tables(texts["peers"])
        if table.has("mechanism", "claim", "truth", "dpwitness")
        for row in table.rows
    ]
    axis, strips = LogAxis(0.1, 1.3), list[Strip]()
    for row in (row for row in rows if math.isfinite(value(row["truth"]))):
        found = {
            tool: value(cell.strip("*"))
            for tool, cell in row.items()
            if tool not in ("mechanism", "claim", "truth")
        }
        shown = [(tool, share) for tool, share in found.items() if share > 0]
        marks = [
            Mark(
                axis.place(share),
                MIDDLE,
                "large" if tool == "dpwitness" else "small",
                f"{tool}: {share:g}",
            )
            for tool, share in shown
        ]
        strips.append(Strip(text(row["mechanism"]), tuple(marks), figure(found["dpwitness"], 3)))
    if not strips:
        return None
    chart = Strips(
        "Certified bound over the truth", tuple(strips), axis.ticks((1, 2, 5)), axis.place(1.0)
    )
    caption = (
        "Best settings of each tool, logarithmic. The dashed line is the truth; each row names "
        "the bound of dpwitness."
    )
    return SectionCharts(
        [chart],
        [("large", "dpwitness"), ("small", "another tool")],
        caption,
        (str(len(rows[0]) - 4), "other tools on the same mechanisms"),
    )


def recall(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the chart of the share of documented bugs that audits find, by part of the corpus and
    budget.
    """
    rows = [
        row
        for table in tables(texts["recall"])
        if table.has("part", "budget", "recall", "found (interval)")
        for row in table.rows
    ]
    axis, strips = LogAxis(0.1, 1.0), list[Strip]()
    for row in rows:
        rate, found = value(row["recall"]), text(row["found (interval)"])
        mark = Mark(axis.place(rate), MIDDLE, "large", f"{found}, {text(row['budget'])}")
        strips.append(
            Strip(f"{text(row['part'])}, {text(row['budget'])}", (mark,), figure(rate, 3))
        )
    if not strips:
        return None
    chart = Strips(
        "Share of the documented bugs that are found",
        tuple(strips),
        axis.ticks((1, 2, 5)),
        axis.place(1.0),
    )
    caption = (
        "Logarithmic. The dashed line is 1. Each entry is a release before the repair of a "
        "documented bug; intervals are on the page."
    )
    return SectionCharts(
        [chart],
        [("large", "recall")],
        caption,
        (strips[0].value, "of the documented bugs of the tuned part found"),
    )


def canaries(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the charts of certified and true epsilon of ideal canaries, one chart per number of
    canaries, by kind of claim.
    """
    rows = [
        row
        for table in tables(texts["canaries"])
        if table.has("case", "measured", "ceiling")
        for row in table.rows
    ]
    axis, charts = LogAxis(0.15, 10.0), dict[str, dict[str, list[Mark]]]()
    shares = list[tuple[float, str]]()
    for row in rows:
        case, _, kind = text(row["case"]).partition(": ")
        group, _, label = case.partition(", ")
        truth, found = value(label.partition("=")[2]), value(row["measured"])
        if not (truth > 0 and math.isfinite(found)):
            continue
        marks = charts.setdefault(group, {}).setdefault(
            label, [Mark(axis.place(truth), MIDDLE, "truth", f"{case}: truth")]
        )
        marks.append(
            Mark(
                axis.place(found),
                MIDDLE,
                "large" if "curve" in kind else "small",
                f"{case}: {found:g} by {kind}",
            )
        )
        shares.append((found / truth, f"{found:g} of {truth:g}, with {group}"))
    if not charts:
        return None
    figures = [
        Strips(
            group,
            tuple(Strip(label, tuple(marks)) for label, marks in strips.items()),
            axis.ticks((1, 2, 5)),
        )
        for group, strips in charts.items()
    ]
    keys = [
        ("large", "certified, by a Gaussian curve"),
        ("small", "certified, by (epsilon, delta)"),
        ("truth", "the true epsilon"),
    ]
    share, where = max(shares)
    caption = f"Epsilon on a logarithmic axis. The largest share of the true epsilon is {where}."
    return SectionCharts(
        figures,
        keys,
        caption,
        (f"{100 * share:.0f} %", "of the true epsilon, at best, from one training run"),
    )


def findings(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the chart of promised and spent epsilon, one row for each finding."""
    rows = [
        row
        for table in tables(texts["findings"])
        if table.has("finding", "promised epsilon", "spent epsilon")
        for row in table.rows
    ]
    if not rows:
        return None
    axis, strips = LogAxis(0.5, 200.0), list[Strip]()
    for row in rows:
        promised, spent = value(row["promised epsilon"]), value(row["spent epsilon"])
        name = f"{text(row['library'])}: {text(row['finding'])}"
        marks = (
            Mark(axis.place(promised), MIDDLE, "truth", f"promised {promised:g}"),
            Mark(axis.place(spent), MIDDLE, "violated", name),
        )
        strips.append(Strip(name, marks, times(spent / promised)))
    keys = [("violated", "epsilon that is spent"), ("truth", "epsilon that the library promises")]
    libraries_text = ", ".join(dict.fromkeys(f"{row['library']} {row['release']}" for row in rows))
    caption = f"Epsilon on a logarithmic axis, in {libraries_text}."
    chart = Strips(f"{len(rows)} findings", tuple(strips), axis.ticks((1, 10)))
    return SectionCharts(
        [chart],
        keys,
        caption,
        (str(len(rows)), "bugs in other libraries that no public issue named"),
    )


def violations(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the chart of all counted violations: one square for each bug of a release."""
    rows = [
        row
        for table in tables(texts["violations"])
        if table.has("release", "violations", "bugs")
        for row in table.rows
    ]
    if not rows:
        return None
    named = [(text(row["release"]), bug) for row in rows for bug in text(row["bugs"]).split(", ")]
    cells = tuple(
        Cell("violations.html", "fails", SIGNS["fails"][0], f"{release}: {bug}")
        for release, bug in named
    )
    total = f"{sum(value(row['violations']) for row in rows):g}"
    figure = Cells(f"{total} violations in {len(rows)} releases", cells)
    tile = (total, f"violations in {len(rows)} releases of libraries")
    return SectionCharts(
        [figure], [("fails", "violated by values")], "One square for each bug of a release.", tile
    )


def scan(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the chart of the shares of mechanisms that are found and that get a right target, one
    column for each package.
    """
    read = [
        row
        for table in tables(texts["scan"])
        if table.has("package", "listed", "found", "right")
        for row in table.rows
    ]
    listed = [
        (text(row["package"]), value(row["listed"]), value(row["found"]), value(row["right"]))
        for row in read
    ]
    shares = sorted(
        (right / most, found / most, name) for name, most, found, right in listed if most > 0
    )
    if not shares:
        return None
    height, marks, bars = 200, list[Mark](), list[tuple[float, float, float]]()
    for i, (right, found, name) in enumerate(shares):
        x, low, high = across(i, len(shares)), down(right, 1.0, height), down(found, 1.0, height)
        bars.append((x, high, low))
        marks += [
            Mark(x, high, "small", f"{name}: {found:.0%} found"),
            Mark(x, low, "large", f"{name}: {right:.0%} right"),
        ]
    levels = tuple((down(level, 1.0, height), f"{level:g}") for level in (0.0, 0.5, 1.0))
    plot = Plot(
        "Share of the listed mechanisms, one column for each package",
        height,
        tuple(marks),
        levels,
        bars=tuple(bars),
    )
    keys = [("small", "found"), ("large", "found, with a right target")]
    caption = f"{len(shares)} packages with mechanisms, of {len(read)}."
    total = sum(most for _, most, _, _ in listed)
    tile = (
        f"{100 * sum(right for *_, right in listed) / total:.0f} %",
        f"of {total:g} mechanisms in other packages get a right target",
    )
    return SectionCharts([plot], keys, caption, tile, broad=False)


def library_scans(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the charts of library scans: one square for each issue of a tracker, and one for each
    finding that no issue names.
    """
    issues, new = list[Cell](), list[Cell]()
    for table in tables(texts["library-scans"]):
        place = f"library-scans.html#{heading_id(table.part)}"
        for row in table.rows if table.has("issue", "title", "result") else ():
            name = "holds" if text(row["result"]).strip("*") == "hit" else "not-refuted"
            issues.append(
                Cell(place, name, SIGNS[name][0], f"{row['issue']}: {text(row['title'])}")
            )
        for row in table.rows if table.has("finding", "cause", "witness") else ():
            new.append(
                Cell(
                    place,
                    "fails",
                    SIGNS["fails"][0],
                    f"{text(row['finding'])}: {text(row['cause'])}",
                )
            )
    if not issues:
        return None
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
    return SectionCharts(
        figures,
        keys,
        caption,
        (f"{hits} of {len(issues)}", "privacy bugs of a library's tracker, found by a scan"),
    )


def trust(texts: Mapping[str, str]) -> SectionCharts | None:
    """Return the charts of measured error rates with exact intervals, and the stated
    error rates.
    """
    found = [
        (t, row)
        for t in tables(texts["trust"])
        if t.has("counted", "rate", "95 % interval", "stated")
        for row in t.rows
    ]
    rated = [(t, row, value(row["stated"].rpartition(" ")[2])) for t, row in found]
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for table, row, stated in rated:
        if stated > 0:
            groups.setdefault((text(table.part or table.section), row["stated"]), []).append(row)
    if not groups:
        return None
    never = [row for _, row, stated in rated if stated == 0]
    tried = sum(int(value(row["counted"].partition(" of ")[2])) for row in never)
    failures = sum(int(value(row["counted"])) for row in never)
    met = [row for _, row in found if "missed" not in row.get("", "")]
    caption = (
        "Each dot is a measured rate with its exact 95 % interval; the dashed line is the "
        f"stated rate. {len(met)} of {len(found)} rows "
        f"agree with the statement. {len(never)} rows count errors that must never happen: "
        f"{failures} in {tried:,} trials."
    )
    plots = [_rate_plot(title, stated, rows) for (title, stated), rows in groups.items()]
    keys = [("dot", "measured rate"), ("missed", "measured rate that chance does not explain")]
    return SectionCharts(
        plots, keys, caption, (f"{len(met)} of {len(found)}", "error rates as stated")
    )


def _rate_plot(title: str, stated: str, rows: Sequence[Mapping[str, str]]) -> Plot:
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


SECTIONS: Mapping[str, Callable[[Mapping[str, str]], SectionCharts | None]] = {
    "zoo": zoo,
    "papers": papers,
    "third-party": libraries,
    "violations": violations,
    "findings": findings,
    "scan": scan,
    "library-scans": library_scans,
    "reproductions": figures,
    "recall": recall,
    "peers": peers,
    "power": power,
    "canaries": canaries,
    "trust": trust,
}
