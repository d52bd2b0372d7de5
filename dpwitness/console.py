"""Terminal output for people: a progress bar, and a summary of a result in a few lines."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, Self, TextIO

from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.values.json_reader import Json
from dpwitness.reports.cards import answer, columns, sort_worst_first
from dpwitness.reports.phrasing.summary import Entry, acceptance_text
from dpwitness.reports.phrasing.wording import plain
from dpwitness.terminal import mark_verdict

_BAR_WIDTH = 30
# columns of a report on a terminal
_TABLE_COLUMNS = ("verdict", "audit", "claim", "certified", "detectable", "cost")
_COLUMN_GAP, _NARROW_WIDTH, _MIN_WIDTH, _MAX_WIDTH = "  ", 12, 4, 100
_TEXT_START = 13  # number of characters before the text of a line
_MAX_LINES = 6  # maximum number of lines of a result without --verbose
# Notes on how the mechanism is called, which the user knows before the run.
_RUN_NOTE = re.compile(
    r" is given \w+(, with a new value for each run)?$|were seeded globally$|^runs are single calls"
)
# seconds after which the rate is stable enough to estimate the remaining time
_MIN_RATE_SECONDS = 1.0


class Progress:
    """Progress callback that draws at most ten times a second; this base class draws nothing.

    `close`, or the end of a ``with`` block, removes what a subclass has drawn.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._drawn_at = clock()
        # time and count of the first call, so that the rate excludes start-up
        self._first: tuple[float, int] | None = None
        self._bound = ""

    def interim_bound(self, symbol: str, bound: float) -> None:
        """Record the lower bound of the latest interim analysis, to be drawn with the progress."""
        self._bound = f"  {symbol} > {bound:.3g} so far"

    def __call__(self, done: int, planned: int) -> None:
        now = self._clock()
        if now - self._drawn_at < 0.1:
            return
        self._drawn_at = now
        since, before = self._first = self._first or (now, done)
        rate = (done - before) / max(now - since, 1e-9)
        counts = (f"{n:,}" if n < 10**7 else f"{n:.3g}" for n in (done, planned))
        share = min(1.0, done / max(planned, 1))
        status = f" {share:4.0%}  {' of '.join(counts)}"
        if rate > 0 and now - since >= _MIN_RATE_SECONDS:
            minutes, seconds = divmod(round(max((planned - done) / rate, 0.0)), 60)
            hours, minutes = divmod(minutes, 60)
            left = f"{hours}:{minutes:02d}" if hours else f"{minutes}"
            status += f"  {rate:.3g} runs/s  {left}:{seconds:02d} left"
        self._draw(share, status + self._bound)

    def _draw(self, share: float, status: str) -> None:
        """Draw the share of the finished runs, and the status as text."""

    def close(self) -> None:
        """Erase the bar."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Line:
    """One line of a terminal that is drawn again and again."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._length = stream, 0

    def draw(self, text: str, end: str = "") -> None:
        """Replace the drawn text by another."""
        self._stream.write("\r" + text.ljust(self._length) + end)
        self._stream.flush()
        self._length = len(text)

    def close(self) -> None:
        """Erase the line."""
        if self._length:
            self.draw("", "\r")


class Bar(Progress):
    """Progress bar on one line of a terminal, with rate and remaining time."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._line = Line(stream)

    def _draw(self, share: float, status: str) -> None:
        max_width = shutil.get_terminal_size((80, 24)).columns - 1
        width = min(_BAR_WIDTH, max_width - len(status) - 2)
        full = round(share * width)
        bar_text = f"[{'#' * full}{'.' * (width - full)}]{status}" if width >= 5 else status.strip()
        self._line.draw(bar_text[:max_width])

    def close(self) -> None:
        self._line.close()


class Cell(Progress):
    """Progress bar below a notebook cell, updated in place."""

    def __init__(
        self, display: Callable[..., Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clock)
        self._display = display
        self._handle: Any = None

    def _draw(self, share: float, status: str) -> None:
        html = (
            f'<progress max="1" value="{share:.3f}" aria-label="runs"></progress> '
            f"<small>{status}</small>"
        )
        data = {"text/html": html, "text/plain": status.strip()}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/html": "", "text/plain": ""}, raw=True)
            self._handle = None


@contextmanager
def bar() -> Iterator[Bar | None]:
    """Yield a progress bar on standard error, erased at the end; None if standard error is not a
    terminal, or with ``--quiet``.
    """
    with _terminal_progress() as drawn:
        yield drawn if isinstance(drawn, Bar) else None


def _terminal_progress() -> Progress:
    return Bar(sys.stderr) if sys.stderr.isatty() and not _is_quiet() else Progress()


def _is_quiet() -> bool:
    return bool(getattr(sys.stderr, "quiet", False))


def progress_bar() -> Progress:
    """Return a progress callback for the ``progress=`` argument of `audit` and other entry points.

    In a notebook the callback draws a bar below the cell, on a terminal one line, and elsewhere
    nothing. `close`, or the end of a ``with`` block, erases the bar.

    Returns
    -------
    Progress
        A callable that takes the number of finished and of planned runs.


    Examples
    --------
    >>> from dpwitness import audit, mechanisms
    >>> with progress_bar() as shown:
    ...     result = audit(mechanisms.Laplace(epsilon=1.0), trials=20_000, progress=shown)
    """
    ipython = sys.modules.get("IPython")  # a notebook has imported it already
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and "text/html" in shell.display_formatter.active_types:
        from IPython.display import display

        return Cell(display)
    return _terminal_progress()


def announce(line: str) -> None:
    """Print a line on standard error, also if standard error is not a terminal; print nothing with
    ``--quiet``.
    """
    if not _is_quiet():
        print(plain(line), file=sys.stderr, flush=True)


def describe(
    result: Result,
    data: Json,
    *,
    bits: bool = False,
    next_step: str,
    report: str = "",
    every: bool = False,
) -> str:
    """Return a result as text: headline, then labeled lines; verdicts are marked for coloring
    (`colors`).

    `data` is ``result_json(result)``, `bits` whether a leak in low-order bits counts for the exit
    code, `next_step` the advice, and `report` the path of the report, if any. With `every`, and for
    traces, every line is shown instead of the six most important lines.
    """
    notes = data.get("notes", [])[1 if result.verdict in result.headline_is_note else 0 :]
    rows = [
        *result.lines(data, bits=bits),
        *([("accepted", acceptance_text(data))] if data.get("accepted") else []),
        *(("note", note) for note in notes),
        ("next", next_step),
        *([("report", report)] if report else []),
    ]
    if not every and not result.all_lines:
        rows = _most_important_rows(rows, result.verdict)
    lines = [mark_verdict(plain(result.headline()))]
    for name, text in rows:
        line = plain(f"  {name:<10} {text}")
        lines.append(mark_verdict(line, at=_TEXT_START) if name in ("low bits", "audit") else line)
    return "\n".join(lines)


def _most_important_rows(
    rows: Sequence[tuple[str, str]], verdict: Verdict
) -> list[tuple[str, str]]:
    """Return the most important lines after the headline, in their order, with the first note and
    the number of omitted notes.
    """
    hidden = {"NOT_REFUTED": "trace", "ERROR": "event", "INCONCLUSIVE": "event"}.get(verdict.value)
    kept = {"event", "causes", "trace", "low bits", "accepted", "next", "report"} - {hidden}
    if any(name == "note" and text.startswith("time budget") for name, text in rows):
        kept.add("time")
    # of the calls of a trace, the one with the largest loss
    traced = [text for name, text in rows if name == "trace"][:1]
    chosen = [
        (name, text)
        for name, text in rows
        if name in kept
        and (name != "trace" or text in traced)
        and (name != "low bits" or text.startswith("VIOLATED"))
    ]
    notes = [text for name, text in rows if name == "note" and not _RUN_NOTE.search(text)]
    if notes and len(chosen) < _MAX_LINES - 1:
        more = f" (+{len(notes) - 1} more: --verbose)" if len(notes) > 1 else ""
        place = [name for name, _ in chosen].index("next")
        chosen.insert(place, ("note", notes[0] + more))
    return chosen


def summary(entries: Sequence[Entry]) -> str:
    """Return the answer of a report and its table, worst audit first, as text that fits the
    terminal; verdicts are marked (`colors`).
    """
    from dpwitness.reports.formats.html_format import text  # loads the templates of pages

    columns_by_heading = {column.head: column for column in columns(entries)}
    cell_texts = [
        [text(columns_by_heading[head].text(entry)) for head in _TABLE_COLUMNS]
        for entry in sort_worst_first(entries)
    ]
    rows = [list(_TABLE_COLUMNS), *[[plain(cell) for cell in row] for row in cell_texts]]
    widths = _fit_column_widths(
        list(zip(*rows, strict=True)), shutil.get_terminal_size((10**6, 24)).columns
    )
    lines = [mark_verdict(plain(text(line))) for line in answer(entries)] + [""]
    for row in rows if entries else []:
        cells = [
            textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)
        ]
        for parts in zip_longest(*cells, fillvalue=""):
            line = _COLUMN_GAP.join(
                part.ljust(width) for part, width in zip(parts, widths, strict=True)
            ).rstrip()
            # again, for a wrapped cell may begin with a command
            lines.append(mark_verdict(plain(line)))
    return "\n".join(lines).rstrip()


def _fit_column_widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return column widths that fit: the widest are wrapped between words first, then within words;
    the first column never.
    """
    widths = [min(max(map(len, column)), _MAX_WIDTH) for column in columns]
    room -= len(_COLUMN_GAP) * (len(columns) - 1)
    for i in sorted(range(1, len(columns)), key=lambda i: -widths[i]):
        if sum(widths) > room:
            widths[i] = min(
                widths[i],
                max(_NARROW_WIDTH, *(len(word) for cell in columns[i] for word in cell.split())),
            )
    while sum(widths) > room and max(widths[1:]) > _MIN_WIDTH:
        widths[widths.index(max(widths[1:]), 1)] -= 1
    return widths
