"""Outputs of which some parts are not audited, or are encoded one by one: verdicts, and the numbers
that are still seen.
"""

import re
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sent_outputs import Written, audited, sent

from dpwitness import Verdict, audit_outputs
from dpwitness.auditors.events.outputs import _encode_objects, _encode_scalars, encode


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
    "match", "nanoseconds in a list", "object with a text", "texts", "texts in a frame"
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


def test_addresses_in_messages_of_exceptions_are_numbers():
    """Messages that differ in an address only have one text; exceptions of other types remain other
    structures.
    """
    kinds = [ValueError, ValueError, KeyError]
    first, second, other = (
        encode([kind(f"<box at {address:#x}> is empty")], 1)
        for kind, address in zip(kinds, (140, 2**47 - 1, 140), strict=True)
    )
    rest = first.texts[first.codes[0]][0].rest
    assert (
        first.codes[0] == second.codes[0] != other.codes[0]
        and first.values[0, rest] == second.values[0, rest]
    )
    assert (first.values[0, rest + 1], second.values[0, rest + 1]) == (140.0, 2.0**47 - 1)


def test_texts_that_repeat_are_audited():
    result = audited(
        lambda d, n, rng: [f"category {word}" for word in rng.choice(["a", "b", "c"], n)]
    )
    assert result.verdict is Verdict.NOT_REFUTED


def test_an_object_that_holds_itself_is_read_once():
    node = Written(1)
    node.value = [node]
    found = encode([node, sent(node)], 2)
    assert len(set(found.codes.tolist())) == 1 and "levels up" in next(iter(found.names.values()))


def test_gaps_do_not_hide_numbers():
    """Every output misses some of ten numbers, and the first differs by 20 noise scales where it is
    there.
    """

    def run(dataset, size, rng):
        values = rng.laplace(0.0, 1.0, (size, 40))
        values[:, 0] += 20 * dataset[0]
        values[rng.random(values.shape) < 0.3] = np.nan
        return values

    assert audited(run, bits=False).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(
    "kind", [float, np.float64, np.float32, np.float16, int, np.int64, np.int32, bool, np.bool_]
)
def test_numbers_of_one_type_are_encoded_at_once(kind):
    """The columns, codes and names are those of outputs that are read one by one."""
    numbers = [kind(value) for value in (0, 1, -0.0, 3.7, 0)] + (
        [kind("nan"), kind("-inf")] if kind(0.5) else []
    )
    fast, slow = _encode_scalars(numbers), _encode_objects(numbers)
    assert np.array_equal(fast.matrix(), slow.matrix(), equal_nan=True) and (
        fast.names,
        fast.texts,
    ) == (slow.names, slow.texts)


@pytest.mark.parametrize(
    "items",
    [[], [1, 2.0], [2**53, 1], [2**63 + 1, 1], [2**70, 1], ["a"], [None], [1j, 2j], [True, 1]],
)
def test_other_outputs_are_read_one_by_one(items):
    assert _encode_scalars(items) is None
