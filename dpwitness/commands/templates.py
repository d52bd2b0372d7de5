"""``dpwitness init`` and ``dpwitness targets new``: write commented examples: a mechanism, its test,
a CI job, and a target file.
"""

from __future__ import annotations

import argparse
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

TEMPLATE = '''"""A target file: runs in any interpreter that has NumPy and the library under test."""
import numpy as np


def noisy_sum(dataset, size, rng):
    """Return noisy sums of the records, clipped to [0, 1]: `size` independent runs, one output each."""
    noisy = np.clip(np.nan_to_num(dataset), 0, 1).sum() + rng.laplace(0.0, 1.0, size)
    return np.round(noisy * 1024) / 1024  # without rounding to a grid, the low bits of the sum leak


noisy_sum.claim = "pure:1"  # or approx:EPS,DELTA, zcdp:RHO, rdp:ALPHA,EPS, gdp:MU and others
noisy_sum.domain = {"kind": "Records", "size": 3, "low": 0.0, "high": 1.0, "relation": "replace-one"}

# Further attributes of a target:
# noisy_sum.domain = {"kind": "Table", "columns": {"age": (0, 120), "city": ["Ulm", "Bern"]}, "user": "user"}
#     a pandas frame whose neighbors differ in all rows of one user; for all kinds and their keys: dpwitness list domains
# noisy_sum.trials = 20_000          default number of runs of an audit
# noisy_sum.batch = 64               maximum number of runs per call, for slow targets
# noisy_sum.seeded = False           the library cannot be seeded: counts are not reproducible
# noisy_sum.expected_failures = {"check_...": "why"}   checks that are known to fail
# noisy_sum.expected_findings = {"kind": "why"}        findings of a trace that are not faults
# noisy_sum.primitives = {"module.add_noise": {"law": "laplace", "input": "value"}}   noise for a trace to record
# noisy_sum.features = np.abs        statistics of outputs that may distinguish the datasets
'''


def init(args: argparse.Namespace) -> int:
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


def write_template(path: Path) -> int:
    """Write a new target file and return the exit code."""
    if path.suffix != ".py":
        raise InvalidArgument(f"FILE must end in .py, got {str(path)!r}")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except OSError as error:
        raise InvalidArgument(
            f"FILE must be a new file, got {str(path)!r}: {error.strerror}"
        ) from None
    print(f"written: {path}; try it with: dpwitness check {path}")
    return OK
