"""What a person sees: a progress bar on a terminal, and a result in a few lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from dpwitness.auditors.result import AuditResult

__all__ = ["Bar", "bar", "describe"]

_WIDTH = 30


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
        full = round(share * _WIDTH)
        line = f"[{'#' * full}{'.' * (_WIDTH - full)}] {share:4.0%}  {rate:.3g} runs/s  {_clock(max(left, 0.0))} left"
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


def describe(result: AuditResult, data: dict[str, Any], *, bits: bool = False, next_step: str) -> str:
    """A result for a person: verdict, number, how sure, what to do next.

    Parameters
    ----------
    result : AuditResult
    data : dict
        ``result_json(result)``, computed once.
    bits : bool
        Whether low bits count for the exit code.
    next_step : str
        What to do.
    """
    from dpwitness.auditors.result import Verdict
    from dpwitness.reports.wording import dataset, figure

    lines = [result.headline(), ""]
    symbol, found = result.claim.symbol, result.verdict

    def line(name: str, text: str) -> None:
        lines.append(f"  {name:<10} {text}")

    line("audited", f"{result.name}, claim {result.claim}" + (f", relation {result.pair.relation}" if result.pair else ""))
    if result.pair is not None:
        bound = f"{symbol} > {figure(result.parameter_lower)}"
        limit = data.get("limit")
        best = f"; no test of this size could certify more than {figure(limit)}" if isinstance(limit, float) else ""
        line("certified", bound + best)
        line("detectable", f"{symbol} > {figure(result.detectable)}, with probability 0.9")
        line("how sure", f"confidence {result.confidence:.12g}, p-value {result.p_value:.2g}, {result.trials:,} runs, seed {result.seed}")
        pair = data["pair"]
        line("pair", f"D0 = {dataset(pair['d0'])}, D1 = {dataset(pair['d1'])} ({result.pair.why})")
    if found is Verdict.VIOLATED and result.event is not None:
        line("event", result.event.describe())
    level = result.bit_level
    if level is not None:
        text = {
            Verdict.VIOLATED: f"VIOLATED: epsilon > {figure(level.epsilon_lower)} certified from floating-point bits alone",
            Verdict.NOT_REFUTED: "nothing found in the low bits of the outputs",
        }.get(level.verdict, level.verdict.value)
        aside = "" if bits or level.verdict is not Verdict.VIOLATED else " (counts for the exit code with --bits)"
        line("low bits", text + aside)
    for note in result.notes[1:] if found in (Verdict.ERROR, Verdict.INCONCLUSIVE) else result.notes:
        line("note", note)
    line("next", next_step)
    return "\n".join(lines)
