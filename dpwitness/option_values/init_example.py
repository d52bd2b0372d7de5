"""``dpwitness init``: write a commented example into the current folder: a mechanism, its test, and
a CI job.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from dpwitness.core.values.validation import InvalidArgument
from dpwitness.terminal import OK

_MECHANISM = '''"""A mechanism to audit. Replace noisy_count with your own function.

    dpwitness audit my_mechanism.py:noisy_count --claim pure:1 --kwargs '{"epsilon": 1}' --d0 '[0, 0]' --d1 '[0, 1]' --trials 1e5

--claim    the promise: pure:EPSILON, approx:EPSILON,DELTA, zcdp:RHO, ...
--kwargs   arguments of the function except for the dataset and the randomness
--d0 --d1  two neighboring datasets, as JSON: here the second record differs
--trials   calls of the function, both datasets together: more calls find smaller violations
--report   folder for a report, and for a witness if the claim is violated

Exit code 0: no violation found. 1: violated. 2: wrong usage. 3: no verdict.
"""

import numpy as np


def noisy_count(data, epsilon, rng):
    """Return the number of records above 0.5 with Laplace noise, rounded to a grid of 1/1024.

    One record changes the count by at most 1, so noise of scale 1 / epsilon keeps epsilon-DP. Change 1 / epsilon to
    0.9 / epsilon, and the audit finds the violation. Without the rounding, the last bits of the sum reveal the count.

    The parameter rng receives a numpy Generator, because rng is its name. A function without such a parameter works too.
    """
    count = np.sum(np.asarray(data) > 0.5)
    noise = rng.laplace(0.0, 1 / epsilon)
    return np.round((count + noise) * 1024) / 1024
'''

_TEST = '''"""Run with: pytest test_privacy.py --dp-report out/tests.md

dp_audit is a fixture of the pytest plugin of dpwitness. A mechanism that keeps its claim fails the test with probability at
most 1e-9, and the seed is fixed: the test gives the same result on each run.
"""

import dpwitness as dpw
import numpy as np
from my_mechanism import noisy_count


def test_noisy_count_keeps_epsilon_1(dp_audit):
    mechanism = dpw.one_run(noisy_count, epsilon=1.0)  # one call of the function is one run
    pair = dpw.Pair(np.array([0.0, 0.0]), np.array([0.0, 1.0]))  # two datasets that differ in one record
    dp_audit(mechanism, claim="pure:1", pair=pair, trials=20_000)
'''

_WORKFLOW = """# Copy this file to .github/workflows/privacy.yml. It runs the audits on every push.
name: privacy

on: [push, pull_request]

jobs:
  audit:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: python -m pip install dpwitness pytest
      - run: python -m pytest test_privacy.py --dp-report out/tests.md
      - run: >-
          dpwitness audit my_mechanism.py:noisy_count --claim pure:1 --kwargs '{"epsilon": 1}'
          --d0 '[0, 0]' --d1 '[0, 1]' --trials 100000 --report out/audit
      - if: always()  # also after a violation
        uses: actions/upload-artifact@v4
        with:
          name: privacy
          path: out/
"""

FILES = {"my_mechanism.py": _MECHANISM, "test_privacy.py": _TEST, "privacy-ci.yml": _WORKFLOW}


def arguments(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    command(
        "init",
        "write a commented example into the current folder: a mechanism, a pytest test, a CI job",
    )


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness init``: write the example files, unless one of them exists, and return the
    exit code.
    """
    existing = [name for name in FILES if Path(name).exists()]
    if existing:
        raise InvalidArgument(
            f"{', '.join(existing)} already exist, nothing was written: run init in another folder"
        )
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    print(
        "wrote my_mechanism.py (its first lines show the audit command), test_privacy.py "
        "(pytest), privacy-ci.yml (CI)"
    )
    print(f"next: {_MECHANISM.splitlines()[2].strip()}")
    return OK
