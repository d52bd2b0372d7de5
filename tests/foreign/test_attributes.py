"""What a target says of itself is checked in one place, and a library that fails on import is not
called missing.
"""

import numpy as np
import pytest

from dpwitness.auditors.audit.options import require_attributes
from dpwitness.cli import main
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.inside.target_runs import UnusableTarget, attributes_of

FILE = """
import numpy as np

def f(dataset, size, rng):
    return np.sum(dataset) + rng.laplace(size=size)

f.claim = "pure:1"
f.domain = {"kind": "Records", "size": 1, "low": 0.0, "high": 1.0}
"""
HUGE = 10**5000


class Raises:
    def __repr__(self):
        raise RuntimeError("no repr")

    __bool__ = __eq__ = __iter__ = __repr__
    __hash__ = None


WHOLE = [0, -1, True, False, "x", "", "64", 1.5, float("nan"), float("inf"), HUGE, -HUGE, 1j]
WHOLE += [[], [64], {}, np.array([64]), np.bool_(True), Raises()]
HOSTILE = {
    "batch": WHOLE,
    "rounds": WHOLE,
    "trials": [*WHOLE, 1, 999, 10**13],
    "seeded": [0, 1, 2, "no", "", "yes", 1.0, [], Raises(), HUGE],
    "expected_failures": [
        3,
        "check_low_bits",
        ["check_low_bits"],
        {"check_low_bits": 3},
        {3: "why"},
        {"a": None},
        True,
        Raises(),
    ],
    "expected_findings": [3, "kind", {"kind": 1}, [("a", "b")], Raises()],
    "features": [3, "abs", [np.abs], {}, False, Raises()],
    "notes": ["a note", 3, [3], [None], True, {1: 2}, Raises()],
    "cause": [3, ["text"], True, Raises()],
    "domain": [3, "Records", 1.5, True, ["Records"], {}, {"size": 1}, ("kind",)],
}


def function(**attributes):
    def f(dataset, size, rng):
        return rng.laplace(size=size)

    vars(f).update(attributes)
    return f


@pytest.mark.slow_cases("str-int0", "str-int1")
@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in HOSTILE.items() for value in values],
    ids=lambda v: type(v).__name__,
)
def test_a_hostile_attribute_is_refused_by_name(name, value):
    with pytest.raises(UnusableTarget, match=f"^{name} must ") as caught:
        attributes_of(function(**{name: value}))
    assert len(str(caught.value)) < 250 and "\n" not in str(caught.value)
    with pytest.raises(InvalidArgument, match=f"f: {name} must "):
        require_attributes(function(**{name: value}))


def test_natural_values_are_read():
    found = attributes_of(
        function(
            batch=np.int64(64), trials=2e4, seeded=np.bool_(False), notes=("a",), features=np.abs
        )
    )
    assert (
        found["batch"],
        found["trials"],
        found["seeded"],
        found["notes"],
        found["features"],
    ) == (64, 20_000, False, ["a"], True)
    assert type(found["batch"]) is int and attributes_of(function())["seeded"] is True
    assert attributes_of(function(batch=None, trials=None, seeded=None))["batch"] is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("f.batch = 0", "mine.py:f: batch must be a positive integer, got 0"),
        ("f.batch = -1", "mine.py:f: batch must be a positive integer, got -1"),
        ("f.trials = 'x'", "mine.py:f: trials must be an integer, at least 1000, got 'x'"),
        (
            "f.domain = 3",
            "mine.py:f: domain must be a dict with a kind and its arguments, or FILE.py:NAME, got 3",
        ),
        (
            "f.claim = 3",
            "mine.py:f: claim must be text like 'pure:1', or a function that returns such "
            "text, got 3",
        ),
        ("f.domian = {}", "got f.domian; did you mean 'domain'?"),
        ("f.relation = 'l1'", "a target has the keys claim, domain,"),
        ("LIBRARY = 3", "LIBRARY must be a non-empty text, got 3"),
    ],
)
@pytest.mark.parametrize("command", [["check"], ["audit", "--trials", "1000"]])
def test_commands_name_file_function_attribute_rule_and_value(
    tmp_path, monkeypatch, capsys, line, message, command
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(f"{FILE}{line}\n")
    assert main([command[0], "mine.py:f", *command[1:]]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
