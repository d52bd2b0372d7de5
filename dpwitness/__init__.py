"""Public API of dpwitness: verification and auditing of differential-privacy implementations."""

import os as _os
import signal as _signal
import sys as _sys


def _end_at_interrupt(sign: int, frame: object) -> None:
    """End a command that Ctrl-C interrupts during its imports, before `interrupts` handles signals,
    with one line and its exit code.
    """
    try:
        _os.write(
            2,
            b"dpwitness: interrupted by SIGINT before the command began: nothing was "
            b"changed; run the command again\n",
        )
    finally:
        _os._exit(3)


# First, because Python shows a traceback until the handler is installed. A program that imports
# dpwitness keeps its own handler.
_command = _os.path.basename((_sys.argv or [""])[0])
_is_command = _command in ("dpwitness", "dpwitness.exe") or (
    _command == "-m" and "dpwitness" in _sys.orig_argv
)
if _is_command and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _end_at_interrupt)

import lazy_loader as _lazy  # noqa: E402

_root = _os.path.dirname(_os.path.dirname(_os.path.abspath(__file__)))
if _os.path.isfile(_os.path.join(_root, "core", "__init__.py")):
    __path__.append(_root)  # in a clone, the other packages lie next to this folder, not inside

__getattr__, __dir__, _names = _lazy.attach_stub(__name__, __file__)
_MODULES = {"canaries", "claims", "console", "domains", "executors", "results", "stability", "wrap"}
__all__ = [name for name in _names if name not in _MODULES]
