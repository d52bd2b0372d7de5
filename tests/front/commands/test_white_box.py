"""Tests of ``--white-box`` and ``--search``: exact privacy loss and search for pairs."""

import pytest

PAIR = ["--d0", "[0]", "--d1", "[1]"]
LEAKY = ["mine.py:leaky", "--claim", "pure:1"]
LAPLACE = ["dpwitness.mechanisms:Laplace", "--kwargs", '{"epsilon": 1.0}']


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (*LEAKY, *PAIR, "--white-box"),
            "--white-box needs a mechanism with log_density, but leaky has none",
        ),
        ((*LEAKY, "--search"), "--search needs a mechanism with a domain, but leaky has none"),
        ((*LEAKY, *PAIR, "--search"), "--search chooses the pair: leave out --d0 and --d1"),
        (
            (*LAPLACE, "--search", "--search-seconds", "0"),
            "search seconds must lie in (0, 1e+06], got 0.0",
        ),
        (
            (*LAPLACE, *PAIR, "--white-box", "--trials", "10"),
            "trials must be a whole number, between 1000 and 1000000000000, got 10",
        ),
    ],
)
def test_user_errors_are_refused(shell, monkeypatch, refused, arguments, message):
    monkeypatch.chdir(shell.folder)
    assert message in refused("audit", *arguments)
