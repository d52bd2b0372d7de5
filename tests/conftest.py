"""For all tests."""

import signal
import sys

import pytest


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard():
    """Jobs in the background start with Ctrl-C ignored, which the programs that tests interrupt would inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _files_of_a_test_are_forgotten(tmp_path_factory):
    """Many tests write a `mine.py`; a module that one left loaded would stand in the way of the next."""
    yield
    below = str(tmp_path_factory.getbasetemp())
    for name in [name for name, module in list(sys.modules.items()) if str(getattr(module, "__file__", None)).startswith(below)]:
        del sys.modules[name]
    sys.path[:] = [place for place in sys.path if not place.startswith(below)]
