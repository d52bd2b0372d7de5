"""For all tests."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard():
    """Jobs in the background start with Ctrl-C ignored, which the programs that tests interrupt would inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
