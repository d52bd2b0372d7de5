"""What a person sees: a progress bar on a terminal, and a result in a few lines."""

from __future__ import annotations

import shutil
import sys
import time
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from dpwitness.mechanisms.terms.reading import Json

if TYPE_CHECKING:
    from dpwitness.auditors.results.audit_result import AuditResult
    from dpwitness.auditors.results.certify_result import CertifyResult
    from dpwitness.auditors.results.trace_result import TraceResult
    from dpwitness.auditors.results.verdicts import Result

_WIDTH = 30
_CALLS = 12  # lines of a trace
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


class Bar:
    """A progress callback that draws one line, with rate and time left; `close` wipes it."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._started = self._shown = clock()
        self._length = 0

    def __call__(self, done: int, planned: int) -> None:
        now = self._clock()
        if now - self._shown < 0.1:
            return
        self._shown = now
        share = min(1.0, done / max(planned, 1))
        rate = done / max(now - self._started, 1e-9)
        left = (planned - done) / rate if rate else 0.0
        told = f" {share:4.0%}  {rate:.3g} runs/s  {_clock(max(left, 0.0))} left"
        room = shutil.get_terminal_size((80, 24)).columns - 1
        width = min(_WIDTH, room - len(told) - 2)
        full = round(share * width)
        line = (f"[{'#' * full}{'.' * (width - full)}]{told}" if width >= 5 else told.strip())[:room]
        self._stream.write("\r" + line.ljust(self._length))
        self._stream.flush()
        self._length = len(line)

    def close(self) -> None:
        """Leave the line as if nothing had been there."""
        if self._length:
            self._stream.write("\r" + " " * self._length + "\r")
            self._stream.flush()
            self._length = 0


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def bar() -> Bar | None:
    """A bar on standard error; None where that is no terminal."""
    return Bar(sys.stderr) if sys.stderr.isatty() else None


def announce(line: str) -> None:
    """One line on standard error, also where that is no terminal."""
    print(plain(line), file=sys.stderr, flush=True)


def describe(result: Result, data: Json, *, bits: bool = False, next_step: str) -> str:
    """A result for a person: verdict, number, how sure, what to do next.

    Parameters
    ----------
    result : Result
    data : dict
        ``result_json(result)``, computed once.
    bits : bool
        Whether low bits count for the exit code.
    next_step : str
        What to do.
    """
    from dpwitness.auditors.results.audit_result import AuditResult
    from dpwitness.auditors.results.certify_result import CertifyResult
    from dpwitness.auditors.results.trace_result import TraceResult
    from dpwitness.auditors.results.verdicts import Verdict
    from dpwitness.reports.words.summary import acceptance

    notes = list(data.get("notes", []))
    if isinstance(result, CertifyResult):
        told, in_headline = _enclosed(result, data), [Verdict.ERROR]
    elif isinstance(result, AuditResult):
        told, in_headline = _audited(result, data, bits), [Verdict.ERROR, Verdict.INCONCLUSIVE]
    elif isinstance(result, TraceResult):
        told, in_headline = _traced(result, data), [Verdict.ERROR]
    else:  # the headline tells the measure
        told, in_headline = [_pair(data)] if data.get("pair") else [], [Verdict.ERROR]
    told += [("accepted", acceptance(data))] if data.get("accepted") else []
    told += [("note", note) for note in (notes[1:] if result.verdict in in_headline else notes)]
    return plain("\n".join([result.headline(), "", *(f"  {name:<10} {text}" for name, text in [*told, ("next", next_step)])]))


def _traced(result: TraceResult, data: Json) -> list[tuple[str, str]]:
    """Findings, calls and the loss of a trace."""
    told = [("finding", str(finding)) for finding in result.findings]
    told += [("call", call.told()) for call in result.calls[:_CALLS]]
    if len(result.calls) > _CALLS:
        told.append(("call", f"... {len(result.calls) - _CALLS} lines more, in the report"))
    told.append(("loss", f"{result.told_loss()} (of this pair and trace, no bound over others)"))
    if result.audit is not None and result.audit.verdict is not result.verdict:
        told.append(("audit", result.audit.headline()))
    return told + ([_pair(data)] if data.get("pair") else [])


def plain(text: str) -> str:
    """Text without the power to move a cursor, colour a screen or turn its direction: such characters are shown as escapes.

    Examples
    --------
    >>> plain("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    shown = (char if char == "\n" or unicodedata.category(char) not in _UNSEEN else ascii(char)[1:-1] for char in text)
    return "".join(shown)


def _pair(data: Json) -> tuple[str, str]:
    from dpwitness.reports.words.wording import dataset

    pair = data["pair"]
    return "pair", f"D0 = {dataset(pair['d0'])}, D1 = {dataset(pair['d1'])} ({pair['why']})"


def _audited(result: AuditResult, data: Json, bits: bool) -> list[tuple[str, str]]:
    from dpwitness.auditors.results.verdicts import Verdict
    from dpwitness.reports.words.wording import figure

    symbol = result.claim.symbol
    told = [("audited", f"{result.name}, claim {result.claim}" + (f", relation {result.pair.relation}" if result.pair else ""))]
    if result.pair is not None:
        limit = data.get("limit")
        best = f"; the median of the best test of this size is {figure(limit)}" if isinstance(limit, float) else ""
        sure = f"confidence {result.confidence:.12g}, p-value {result.p_value:.2g}, {result.trials:,} runs, seed {result.seed}"
        told += [
            ("certified", f"{symbol} > {figure(result.parameter_lower)}{best}"),
            ("detectable", f"{symbol} > {figure(result.detectable)} of this event's kind, with probability 0.9"),
            ("how sure", sure),
            _pair(data),
        ]
    if result.verdict is Verdict.VIOLATED and result.event is not None:
        told.append(("event", str(result.description)))
    level = result.bit_level
    if level is not None:
        text = {
            Verdict.VIOLATED: f"VIOLATED: epsilon > {figure(level.epsilon_lower)} certified from floating-point bits alone",
            Verdict.NOT_REFUTED: "nothing found in the low bits of the outputs",
        }.get(level.verdict, level.verdict.value)
        aside = "" if bits or level.verdict is not Verdict.VIOLATED else " (counts for the exit code with --bits)"
        told.append(("low bits", text + aside))
    return told


def _enclosed(result: CertifyResult, data: Json) -> list[tuple[str, str]]:
    from dpwitness.auditors.results.verdicts import Verdict
    from dpwitness.reports.words.wording import figure

    told = [("enclosed", f"{result.name}, claim {result.claim}, relation {result.pair.relation}")]
    if result.verdict is not Verdict.ERROR:
        symbol, ends = result.claim.symbol, (result.parameter_lower, result.parameter_upper)
        told += [
            (symbol, f"at least {figure(ends[0], 7)}, at most {figure(ends[1], 7)}"),
            ("route", result.route),
            ("evidence", result.evidence),
            ("upper end", result.upper_end),
            ("density", result.mismatch),
            ("how sure", f"confidence {result.confidence:.12g} of all that was sampled, {result.trials:,} runs, seed {result.seed}"),
            ("event", result.event),
        ]
    return [*told, _pair(data)]
