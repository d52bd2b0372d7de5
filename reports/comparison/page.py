"""Output of a comparison: text for the terminal, a page in markdown and HTML, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dpwitness.core.values.atomic_files import atomic_folder, write_json, write_text
from dpwitness.reports.audit.report import check_writable
from dpwitness.reports.comparison.compare import CRITERION, Comparison, Row
from dpwitness.reports.formats.markdown_page import page
from dpwitness.reports.phrasing.summary import acceptance_text
from dpwitness.reports.phrasing.wording import code, escaped_markdown, table, verdict

HEADER = ("change", "audit", "claim", "old", "new", "numbers [interval of the run]")


def terminal(comparison: Comparison, *, explain: bool = False) -> str:
    """Return a comparison as text for a terminal: the headline, and a table of the changed rows,
    worst first.
    """
    rows = [HEADER, *(_cells(row) for row in changed(comparison))]
    lines = [comparison.headline(), f"old: {comparison.old}", f"new: {comparison.new}"]
    if len(rows) > 1:
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
        lines += [
            "",
            *(
                "  ".join(
                    text.ljust(width) for text, width in zip(row, widths, strict=True)
                ).rstrip()
                for row in rows
            ),
        ]
    return "\n".join([*lines, "", CRITERION] if explain else lines)


def markdown(comparison: Comparison) -> str:
    """Return a comparison as a markdown page."""
    rows = changed(comparison)
    lines = ["# Comparison", "", f"**{escaped_markdown(comparison.headline())}**", ""]
    lines += [
        f"Old: {code(comparison.old)}. New: {code(comparison.new)}.",
        "",
        f"What to do: {_what_to_do(comparison)}.",
        "",
    ]
    lines += ["## What changed", ""]
    formatters = (
        escaped_markdown,
        code,
        code,
        escaped_markdown,
        escaped_markdown,
        escaped_markdown,
    )
    cells = [
        [formatter(text) for formatter, text in zip(formatters, _cells(row), strict=True)]
        for row in rows
    ]
    lines += table(HEADER, cells) if rows else ["Nothing."]
    same = len(comparison.rows) - len(rows)
    if same:
        lines += ["", f"The same within their error: {same}."]
    return "\n".join([*lines, "", "## How it was judged", "", CRITERION]) + "\n"


def html(comparison: Comparison) -> str:
    """Return a comparison as an HTML page in one file."""
    return page("Comparison", markdown(comparison))


WRITERS: dict[str, Callable[[Comparison], str]] = {"md": markdown, "html": html}


def write(
    comparison: Comparison, folder: Path | str, formats: Sequence[str] = ("md",)
) -> list[Path]:
    """Write ``compare.json`` and the given formats, ``compare.md`` or ``compare.html``; return the
    paths, the JSON last.
    """
    path = check_writable(folder)
    with atomic_folder(path) as draft:
        for name in formats:
            write_text(draft / f"compare.{name}", WRITERS[name](comparison))
        write_json(draft / "compare.json", comparison.to_json())
    return [path / f"compare.{name}" for name in (*formats, "json")]


def changed(comparison: Comparison) -> list[Row]:
    """Return the rows of a comparison with any change."""
    return [row for row in comparison.rows if row.changes != ("same",)]


def _cells(row: Row) -> tuple[str, ...]:
    """Return the texts of a row's cells, in the order of `HEADER`."""
    moves = [
        f"{move.what}: {move.old.symbol} {move.old} -> {move.new}, "
        f"{move.change}{f' ({move.remark})' if move.remark else ''}"
        for move in row.moves
        if move.change != "same"
    ]
    notes = [*moves, *([f"test {row.test}"] if row.test else [])]
    if row.accepted:
        notes.append(f"accepted {acceptance_text({'accepted': row.accepted})}")
    rules = [violation.rule for violation in row.violations if not violation.accepted]
    change = ", ".join(
        f"{each} ({', '.join(rules)})" if each == "new violation" else each for each in row.changes
    )
    return (
        change,
        row.name,
        row.claim or "-",
        _verdicts(row.old, row.old_bits),
        _verdicts(row.new, row.new_bits),
        "; ".join(notes),
    )


def _verdicts(value: str | None, bits: str | None) -> str:
    """Return the verdict on values, and the verdict on low bits if there is one, as text."""
    return verdict(value or "-") + (f", bits {verdict(bits).lower()}" if bits else "")


def _what_to_do(comparison: Comparison) -> str:
    """Return the advice that follows from the counts of changes."""
    found, steps = comparison.counts, []
    if found["new violation"]:
        steps.append(
            "release nothing under a claim that is newly violated: replay its witness, which "
            "is in the folder of the new report"
        )
    if found["no verdict"]:
        steps.append("run the audits without a verdict again")
    if found["rose"]:
        steps.append(
            "look at what rose: the mechanism leaks more, or the new run found a better event"
        )
    if found["fell"]:
        steps.append(
            "look at what fell: the mechanism leaks less, or the new run found a weaker event"
        )
    if found["higher elsewhere"] + found["lower elsewhere"]:
        steps.append(
            "run both audits on the same pair (--d0, --d1) where the numbers come from "
            "different pairs"
        )
    return "; ".join(steps) or "no change is needed on this evidence"
