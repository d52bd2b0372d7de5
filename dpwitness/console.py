"""Terminal output for people: a progress bar, and a summary of a result in a few lines."""

from __future__ import annotations

import math
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Self, TextIO

from dpwitness.auditors.witnesses.verdicts import Result, Verdict
from dpwitness.core.values.json_reader import Json
from dpwitness.reports.phrasing.wording import dataset, figure, format_times, plain
from dpwitness.terminal import mark_verdict

if TYPE_CHECKING:
    from dpwitness.auditors.witnesses.audit_result import AuditResult, TraceResult
    from dpwitness.auditors.witnesses.certify_result import CertifyResult
    from dpwitness.reports.phrasing.facts import Entry

_BAR_WIDTH = 30
_MAX_CALLS = 12  # maximum number of lines with calls of a trace
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
        share = min(1.0, done / max(planned, 1))
        since, before = self._first = self._first or (now, done)
        rate = (done - before) / max(now - since, 1e-9)
        status = f" {share:4.0%}  {_format_count(done)} of {_format_count(planned)}"
        if rate > 0 and now - since >= _MIN_RATE_SECONDS:
            status += (
                f"  {rate:.3g} runs/s  {_format_clock(max((planned - done) / rate, 0.0))} left"
            )
        self._draw(share, status + self._bound)

    def _draw(self, share: float, status: str) -> None:
        pass

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

    def draw(self, text: str) -> None:
        """Replace the drawn text by another."""
        self._stream.write("\r" + text.ljust(self._length))
        self._stream.flush()
        self._length = len(text)

    def close(self) -> None:
        """Erase the line."""
        if self._length:
            self._stream.write("\r" + " " * self._length + "\r")
            self._stream.flush()
            self._length = 0


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
        self._update_display(
            f'<progress max="1" value="{share:.3f}" aria-label="runs"></progress> '
            f"<small>{status}</small>",
            status.strip(),
        )

    def close(self) -> None:
        if self._handle is not None:
            self._update_display("", "")
            self._handle = None

    def _update_display(self, html: str, text: str) -> None:
        data = {"text/html": html, "text/plain": text}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def _format_count(count: int) -> str:
    return f"{count:,}" if count < 10**7 else f"{count:.3g}"


def _format_clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


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
    from dpwitness.auditors.witnesses.audit_result import AuditResult, TraceResult
    from dpwitness.auditors.witnesses.certify_result import CertifyResult
    from dpwitness.reports.phrasing.summary import acceptance_text

    notes = list(data.get("notes", []))
    if isinstance(result, CertifyResult):
        rows, in_headline = _enclosure_lines(result, data), [Verdict.ERROR]
    elif isinstance(result, AuditResult):
        rows, in_headline = _audit_lines(result, data, bits), [Verdict.ERROR, Verdict.INCONCLUSIVE]
    elif isinstance(result, TraceResult):
        rows, in_headline = _trace_lines(result, data), [Verdict.ERROR]
    else:  # the headline contains the measurement
        rows, in_headline = [_pair_row(data)] if data.get("pair") else [], [Verdict.ERROR]
    rows += [
        *([("accepted", acceptance_text(data))] if data.get("accepted") else []),
        *(("note", note) for note in (notes[1:] if result.verdict in in_headline else notes)),
        ("next", next_step),
        *([("report", report)] if report else []),
    ]
    if not every and not isinstance(result, TraceResult):
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
    traced = [text for name, text in rows if name == "trace"][:1]  # the call with the largest loss
    timed = any(name == "note" and text.startswith("time budget") for name, text in rows)
    kept = (
        "event",
        "causes",
        "trace",
        "low bits",
        "accepted",
        "next",
        "report",
        *(["time"] if timed else []),
    )
    hidden = {"NOT_REFUTED": "trace", "ERROR": "event", "INCONCLUSIVE": "event"}.get(verdict.value)
    chosen = [
        (name, text)
        for name, text in rows
        if name in kept
        and name != hidden
        and (name != "trace" or text in traced)
        and (name != "low bits" or text.startswith("VIOLATED"))
    ]
    notes = [text for name, text in rows if name == "note" and not _RUN_NOTE.search(text)]
    note_lines = _MAX_LINES - 1 - len(chosen)
    if not notes or note_lines < 1:
        return chosen
    note_text = notes[0] if len(notes) == 1 else f"{notes[0]} (+{len(notes) - 1} more: --verbose)"
    next_index = next(i for i, (name, _) in enumerate(chosen) if name == "next")
    return [*chosen[:next_index], ("note", note_text), *chosen[next_index:]]


def describe_event_in_words(event: str) -> str:
    """Return the intervals of an event in words.

    Examples
    --------
    >>> describe_event_in_words("D0 on (-inf, -0.16]; D1 on (1.15, inf]")
    'guess D0 if the output is at most -0.16; D1 if the output is above 1.15'
    >>> describe_event_in_words("output 2: D1 on (0.5, 1]")
    'output 2: guess D1 if it is above 0.5 and at most 1'
    """
    head, found, rest = (
        event.rpartition(": ") if re.match(r"output \d+: ", event) else ("", "", event)
    )
    subject = "it" if head else "the output"

    def interval(match: re.Match[str]) -> str:
        low, high = match["low"], match["high"]
        conditions = ([] if low == "-inf" else [f"above {low}"]) + (
            [] if high == "inf" else [f"at most {high}"]
        )
        return f"{match['side']} if {subject} is {' and '.join(conditions) or 'a number'}"

    score = re.match(r"(score over \d+ features[^:]*): (?=D[01] (?:above|below) )", rest)
    if score:
        head, found, rest = (
            f"by a {score[1]}",
            ": ",
            re.sub(r"(D[01]) (above|below)", r"\1 if it is \2", rest[score.end() :]),
        )
    description = re.sub(
        r"(?P<side>D[01]) on \((?P<low>[^,()]+), (?P<high>[^\]]+)\]", interval, rest
    )
    return f"{head}{found}{'guess ' if description[:2] in ('D0', 'D1') else ''}{description}"


def summary(entries: Sequence[Entry]) -> str:
    """Return the answer of a report and its table, worst audit first, as text that fits the
    terminal; verdicts are marked (`colors`).
    """
    from dpwitness.reports.cards.overview import answer, columns, sort_worst_first
    from dpwitness.reports.formats.html_frame import text

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


def _trace_lines(result: TraceResult, data: Json) -> list[tuple[str, str]]:
    rows = [
        *(("finding", str(finding)) for finding in result.findings),
        *(("call", call.describe()) for call in result.calls[:_MAX_CALLS]),
    ]
    if len(result.calls) > _MAX_CALLS:
        rows.append(("call", f"... {len(result.calls) - _MAX_CALLS} more lines are in the report"))
    rows.append(
        ("loss", f"{result.describe_loss()} (of this pair and trace only, not a bound for others)")
    )
    if result.audit is not None and result.audit.verdict is not result.verdict:
        rows.append(("audit", result.audit.headline()))
    return rows + ([_pair_row(data)] if data.get("pair") else [])


def _pair_row(data: Json) -> tuple[str, str]:

    pair = data["pair"]
    return "pair", f"D0 = {dataset(pair['d0'])}, D1 = {dataset(pair['d1'])} ({pair['why']})"


def _audit_lines(result: AuditResult, data: Json, bits: bool) -> list[tuple[str, str]]:
    from dpwitness.reports.phrasing.facts import causes_text, explanations

    symbol = result.claim.symbol
    rows = [
        (
            "audited",
            f"{result.name}, claim {result.claim}"
            + (f", relation {result.pair.relation}" if result.pair else ""),
        )
    ]
    if result.pair is not None:
        limit = data.get("limit")
        median_text = (
            f"; the median of the best test of this size is {figure(limit)}"
            if isinstance(limit, float)
            else ""
        )
        confidence_text = (
            f"confidence {result.confidence:.12g}, p-value {result.p_value:.2g}, "
            f"{result.trials:,} runs, seed {result.seed}"
        )
        rows += [
            ("certified", f"{symbol} > {figure(result.parameter_lower)}{median_text}"),
            ("detectable", _detectable_sentence(result)),
            ("how sure", confidence_text),
            _pair_row(data),
        ]
    if result.event is not None:
        rows.append(("event", describe_event_in_words(str(result.description))))
    rows += [
        *([("causes", causes_text(data))] if data.get("causes") else []),
        *(("trace", line) for line in explanations(data)),
    ]
    level = result.bit_level
    if level is not None:
        text = {
            Verdict.VIOLATED: (
                f"VIOLATED: rounding leak, epsilon > {figure(level.epsilon_lower)} certified "
                "from floating-point bits alone"
            ),
            Verdict.NOT_REFUTED: "nothing found in the low bits of the outputs",
        }.get(level.verdict, level.verdict.value)
        advice = (
            ""
            if bits or level.verdict is not Verdict.VIOLATED
            else " (separate; the exit code ignores it, add --bits): round outputs to a grid"
        )
        rows.append(("low bits", text + advice))
    return (
        [*rows, ("time", format_times(result.seconds, result.cpu_seconds))]
        if result.seconds
        else rows
    )


def _detectable_sentence(result: AuditResult) -> str:

    if not math.isfinite(result.detectable):
        return "too few runs to detect any violation: raise --trials"
    return (
        f"a violation of {figure(result.detectable)} or more, of the same shape, would have been "
        "found 9 times in 10"
    )


def _enclosure_lines(result: CertifyResult, data: Json) -> list[tuple[str, str]]:

    rows = [("enclosed", f"{result.name}, claim {result.claim}, relation {result.pair.relation}")]
    if result.verdict is not Verdict.ERROR:
        symbol, bounds = result.claim.symbol, (result.parameter_lower, result.parameter_upper)
        rows += [
            (symbol, f"at least {figure(bounds[0], 7)}, at most {figure(bounds[1], 7)}"),
            ("route", result.route),
            ("evidence", result.evidence),
            ("upper end", result.upper_end),
            ("density", result.about),
            (
                "how sure",
                f"confidence {result.confidence:.12g} for all sampled quantities, "
                f"{result.trials:,} runs, seed {result.seed}",
            ),
            ("event", result.event),
        ]
    return [*rows, _pair_row(data)]
