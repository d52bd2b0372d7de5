"""Progress bars on a terminal and in notebooks."""

from dpwitness.terminal import Progress, progress_bar

__all__ = ["Progress", "progress_bar"]
