"""Numbers of every type are numbers to an audit."""

import dataclasses
import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpwitness import Pair, Verdict, audit
from dpwitness.auditors.events.outputs import WrongShape, encode

PAIR = Pair(np.array([0.0]), np.array([1.0]))
START = datetime.datetime(2020, 1, 1)


@dataclasses.dataclass
class Answer:
    value: float
    unit: str = "m"


class Plain:
    def __init__(self, value):
        self.value = value


def structured(values):
    out = np.zeros(len(values), dtype=[("sum", "f8"), ("n", "i4")])
    out["sum"] = values
    return out


HOLDERS = {
    "complex array": lambda v: v * 1j,
    "complex": lambda v: [complex(0.0, x) for x in v],
    "Decimal": lambda v: [Decimal(x) for x in v],
    "Fraction": lambda v: [Fraction(x) for x in v],
    "datetime": lambda v: [START + datetime.timedelta(seconds=x) for x in v],
    "timedelta": lambda v: [datetime.timedelta(seconds=x) for x in v],
    "datetime64": lambda v: np.datetime64("2020-01-01", "us") + (1e6 * v).astype("m8[us]"),
    "structured": structured,
    "masked": lambda v: np.ma.masked_array(np.column_stack([v, v]), mask=[[False, True]] * len(v)),
    "longdouble": lambda v: v.astype(np.longdouble),
    "dataclass": lambda v: [Answer(x) for x in v],
    "object": lambda v: [Plain(x) for x in v],
    "array in dict": lambda v: [{"a": np.array([x])} for x in v],
    "structured row": lambda v: list(structured(v).reshape(-1, 1)),
}


PLAIN = {"bits": False, "trace": False, "causes": False}


def audited(run, trials=2_000, **options):
    return audit(run, claim="pure:1", pair=PAIR, trials=trials, seed=1, **options)


@pytest.mark.slow_cases(
    "Decimal",
    "Fraction",
    "array in dict",
    "structured row",
    "object",
    "dataclass",
    "timedelta",
    "datetime",
    "complex array",
)
@pytest.mark.parametrize("kind", HOLDERS)
def test_a_leak_in_numbers_of_any_type_is_found(kind):
    """Every output differs from every other, and 0.2 of Laplace noise hides 1: epsilon = 5 is
    missed with probability below 1e-9.
    """
    result = audited(lambda d, n, rng: HOLDERS[kind](d[0] + rng.laplace(0.0, 0.2, n)), **PLAIN)
    assert result.verdict is Verdict.VIOLATED


@pytest.mark.parametrize("depth", [3_000, None])
def test_deep_outputs_end_in_one_sentence(depth):
    """3,000 levels, and an output that contains itself."""
    deep: list = []
    if depth is None:
        deep.append(deep)
    else:
        for _ in range(depth):
            deep = [deep]
    with pytest.raises(WrongShape, match="nested too deeply"):
        encode([deep], 1)
    result = audited(lambda d, n, rng: [deep] * n)
    assert result.verdict is Verdict.ERROR and "nested too deeply" in result.notes[0]
