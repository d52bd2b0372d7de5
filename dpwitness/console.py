"""Terminal output for people while a command runs: a progress bar, and announcements."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TextIO

from dpwitness.reports.phrasing.wording import plain


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
        # after a second, the rate is stable enough to estimate the remaining time
        if rate > 0 and now - since >= 1.0:
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
        width = min(30, max_width - len(status) - 2)
        full = round(share * width)
        bar_text = f"[{'#' * full}{'.' * (width - full)}]{status}" if width >= 5 else status.strip()
        self._line.draw(bar_text[:max_width])

    def close(self) -> None:
        self._line.close()


@contextmanager
def bar() -> Iterator[Bar | None]:
    """Yield a progress bar on standard error, erased at the end; None if standard error is not a
    terminal, or with ``--quiet``.
    """
    with progress_bar() as drawn:
        yield drawn if isinstance(drawn, Bar) else None


def _is_quiet() -> bool:
    return bool(getattr(sys.stderr, "quiet", False))


def progress_bar() -> Progress:
    """Return a progress callback for the ``progress=`` argument of `audit` and other entry points.

    On a terminal and in a notebook the callback draws a bar on one line, and elsewhere nothing.
    `close`, or the end of a ``with`` block, erases the bar.

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
    in_notebook = shell is not None and "text/html" in shell.display_formatter.active_types
    if in_notebook or (sys.stderr.isatty() and not _is_quiet()):
        return Bar(sys.stderr)
    return Progress()


def announce(line: str) -> None:
    """Print a line on standard error, also if standard error is not a terminal; print nothing with
    ``--quiet``.
    """
    if not _is_quiet():
        print(plain(line), file=sys.stderr, flush=True)
