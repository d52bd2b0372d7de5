"""Tests of the options ``--seconds`` and ``--scores``."""

from dataclasses import replace

import pytest

PAIR = ["--claim", "pure:1", "--d0", "[0]", "--d1", "[1]"]
FILE = """
import time
import numpy as np

def bits(dataset, size, rng):
    found = rng.integers(0, 2, (size, 12))
    odd = rng.random(size) < (0.2 if dataset[0] else 0.8)
    found[:, -1] = (found[:, :-1].sum(axis=1) + odd) % 2
    return found

def parity(outputs):
    return outputs.sum(axis=1) % 2

def slow(dataset, size, rng):
    time.sleep(2e-4 * size)
    return np.round((np.sum(np.clip(np.nan_to_num(dataset), 0, 1)) + rng.laplace(0.0, 2.0, size)) * 1024) / 1024

slow.claim = "pure:1"
slow.domain = {"kind": "Records", "size": 1}

class Suggests:
    def sample(self, dataset, size, rng):
        return bits(dataset, size, rng)

    def features(self, outputs):
        return {"odd": parity(outputs), "none": np.full(len(outputs), np.nan)}
"""


@pytest.mark.slow
def test_scores_by_name_and_those_of_a_mechanism_in_a_worker(shell):
    (shell.folder / "timed.py").write_text(FILE)
    options = [*PAIR, "--trials", "30000", "--report", "out"]
    found = shell.dpwitness("audit", "timed.py:bits", *options, "--scores", "timed.py:parity")
    assert found.returncode == 1 and "output 0 is the score parity" in found.stdout
    again = shell.dpwitness("replay", "out/witness-bits.json", "--seed", "8")
    assert (
        again.returncode == 1
        and "; score timed.py:parity (timed.py, line 11)" in again.stdout.splitlines()[0]
    )
    (shell.folder / "elsewhere").mkdir()
    elsewhere = replace(shell, folder=shell.folder / "elsewhere")
    refused = elsewhere.dpwitness(
        "replay", "../out/witness-bits.json", "--seed", "8", "--allow", "timed.py:bits"
    )
    assert refused.returncode == 2 and "--allow timed.py:parity" in refused.stderr
    suggested = shell.dpwitness("audit", "timed.py:Suggests", *options, "--verbose")
    assert suggested.returncode == 1 and "output 0 is the score features[odd]" in suggested.stdout
    assert "score features[none] was left out: it gave NaN for 64 of 64 outputs" in suggested.stdout
    assert shell.dpwitness("replay", "out/witness-suggests.json", "--seed", "8").returncode == 1
    wrong_names = {
        "timed.py:gone": "which is not there",
        "gone.py:parity": "must name an existing file",
        "x": "must have the form",
    }
    for name, told in wrong_names.items():
        wrong = shell.dpwitness("audit", "timed.py:bits", *options, "--scores", name)
        assert wrong.returncode == 2 and told in wrong.stderr and "--scores" in wrong.stderr
