"""Tests of the command ``dpwitness trace`` and of the fixture `dp_trace`."""

import json

import pytest

COUNTS = """
import numpy as np

def add_noise(value, sensitivity, epsilon, rng):
    return value + rng.laplace(0.0, sensitivity / epsilon)

PRIMITIVES = {"add_noise": {"law": "laplace", "input": "value", "scale": "sensitivity / epsilon", "sensitivity": "sensitivity"}}

def mean(dataset, size, rng):
    return np.array([add_noise(dataset.sum(), 1 / len(dataset), 1.0, rng) for _ in range(size)])

def total(dataset, size, rng):
    return np.array([add_noise(dataset.sum(), 1.0, 1.0, rng) for _ in range(size)])

mean.claim = total.claim = "pure:1"
mean.domain = total.domain = {"kind": "Records", "size": 5, "low": 0.0, "high": 1.0}
"""


@pytest.fixture
def counts(shell):
    (shell.folder / "counts.py").write_text(COUNTS)
    return shell


def test_a_pair_and_primitives_of_the_command_line(counts):
    entry = {"fine": {"law": "laplace", "input": "dataset[0]", "scale": "1.0"}}
    found = counts.dpwitness(
        "trace",
        "mine.py:bare",
        "--claim",
        "pure:1",
        "--d0",
        "[0]",
        "--d1",
        "[3]",
        "--no-confirm",
        "--relation",
        "linf",
    )
    assert found.returncode in (2, 3)  # distance 3 is no neighbour under linf
    found = counts.dpwitness(
        "trace", "mine.py:bare", "--claim", "pure:0.5", "--d0", "[0]", "--d1", "[1]", "--no-confirm"
    )
    assert found.returncode == 3 and "compose to epsilon = 1, claimed 0.5" in found.stdout
    missing = counts.dpwitness(
        "trace", "counts.py:mean", "--primitives", json.dumps({"nothing": entry["fine"]})
    )
    assert missing.returncode == 2 and "'nothing'" in missing.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--primitives", "["], "--primitives must be JSON"),
        (["--primitives", "[]"], "--primitives must be a JSON object"),
        (["--primitives", '{"add_noise": {"law": "x"}}'], "law must be one of"),
        (["--no-confirm", "--trials", "5000"], "--no-confirm cannot be combined with --trials"),
        (["--pairs", "0"], "pairs"),
        (["--time-limit", "0"], "seconds"),
    ],
)
def test_what_is_refused(counts, options, told):
    found = counts.dpwitness("trace", "counts.py:mean", *options)
    assert found.returncode == 2 and told in found.stderr, found.stderr
