"""Page on canaries: the bounds that one training run certifies, next to a published tool, from the
JSON of `dpwitness bench canaries`.

``python -m dpwitness.benchmarks.pages canaries FOLDER canaries.json`` writes ``canaries.md``
and its plot. All numbers come from the JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpwitness.benchmarks.pages.bench_json import outcome, read_table, required, sentences
from dpwitness.benchmarks.pictures import drawing
from dpwitness.benchmarks.table import Row, Table
from dpwitness.core.values.atomic_files import write_text
from dpwitness.core.values.wording import figure
from dpwitness.reports.wording import table

_INTRODUCTION = (
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


def page(found: Table, plot_name: str) -> str:
    """Return the markdown of the page from the table of `bench canaries`."""
    lines = [
        "# Canaries: what one run of a training certifies",
        "",
        _INTRODUCTION,
        "",
        f"![Certified against the truth]({plot_name})",
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


def plot(details: Sequence[Mapping[str, Any]], path: Path) -> None:
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
        axes.legend(loc="upper left", fontsize=8)


def write(folder: Path, file: str) -> None:
    """Write ``canaries.md`` and its plot from JSON of `dpwitness bench canaries`."""
    found = read_table(file, "canaries")
    plot(found.details, folder / "canaries.svg")
    write_text(folder / "canaries.md", page(found, "canaries.svg"))
