"""Outputs of which some parts are not audited, or are encoded one by one: verdicts, and the numbers
that are still seen.
"""

import re
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sent_outputs import audited

from dpwitness import Verdict, audit_outputs


def arrow(kind, *values):
    return pa.array(values, kind)


class Shut:
    """Nothing but its name can be known."""

    __slots__ = ()

    def __reduce_ex__(self, protocol):
        raise TypeError("cannot be copied")


class Silent(Shut):
    def __repr__(self):
        return "text"


UNSEEN = {
    "object with a text": lambda rng: (Silent(), rng.random()),
    "match": lambda rng: (re.match("a*", "a" * 80), rng.random()),
    "nanoseconds in a list": lambda rng: (arrow(pa.list_(pa.time64("ns")), [1]), rng.random()),
    "texts": lambda rng: rng.bytes(12).hex(),
    "texts in a frame": lambda rng: pd.DataFrame({"a": [rng.bytes(12).hex()]}),
    "keys": lambda rng: {rng.bytes(12).hex(): 1},
    "bytes": lambda rng: rng.bytes(12),
    "object": lambda rng: Shut(),
    "lock": lambda rng: {"lock": threading.Lock()},
    "lambda": lambda rng: lambda: 0,
}


@pytest.mark.slow_cases(
    "match",
    "nanoseconds in a list",
    "object with a text",
    "texts",
    "texts in a frame",
    "bytes",
    "keys",
)
@pytest.mark.parametrize("kind", UNSEEN)
def test_what_is_not_audited_is_inconclusive(kind):
    def run(dataset, size, rng):
        return [UNSEEN[kind](rng) for _ in range(size)]

    result = audited(run)
    assert result.verdict is Verdict.INCONCLUSIVE and result.notes[0].startswith("not audited: ")
    rng = np.random.default_rng(1)
    given = audit_outputs(run(None, 1_000, rng), run(None, 1_000, rng), "pure:1")
    assert given.verdict is Verdict.INCONCLUSIVE and given.notes[0].startswith("not audited: ")


def test_a_violation_beside_what_is_not_audited_stays():
    result = audited(
        lambda d, n, rng: [
            (rng.bytes(12).hex(), x) for x in (d[0] + rng.laplace(0, 0.1, n)).tolist()
        ]
    )
    assert result.verdict is Verdict.VIOLATED and any(
        note.startswith("not audited: ") for note in result.notes
    )
