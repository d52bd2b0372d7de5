"""The benchmark registry and its table."""

from types import SimpleNamespace

import pytest

from dpwitness import InvalidArgument, Verdict
from dpwitness.benchmarks import Row, Table, bench, format_table, twins


def test_a_row_knows_its_side():
    assert Row("a", 2.0, 2.0, "runs/s").met and not Row("a", 2.0, 1.9, "runs/s").met
    assert (
        Row("a", 2.0, 1.9, "ratio", at_most=True).met
        and not Row("a", 2.0, 2.1, "ratio", at_most=True).met
    )


def test_a_missed_row_is_printed_as_missed():
    text = format_table(Table("demo", (Row("slow", 100.0, 50.0, "runs/s"),), ("a note",)))
    assert text.splitlines()[1].split() == ["slow", ">=", "100", "50", "runs/s", "0.5", "MISSED"]
    assert text.splitlines()[-1] == "a note"


def test_an_option_that_a_benchmark_does_not_take_is_refused():
    with pytest.raises(InvalidArgument, match="bench recall takes no --seed"):
        bench("recall", seed=1)


@pytest.mark.parametrize(
    ("times", "missed"),
    [
        # number of audits that refute a twin, by name
        ({"first": 0}, []),
        ({"first": 1}, []),
        ({"first": 2}, ["sound twins accused, twice"]),
        (dict.fromkeys("abcdef", 1), ["sound twins accused by the first audit"]),
    ],
)
def test_a_twin_is_accused_only_twice(monkeypatch, times, missed):
    """A second audit with another seed decides about an accused twin; too many first accusations
    count by themselves.
    """
    left = dict(times)

    def fixed(name, fault, seed, clock):
        refuted = fault or left.get(name, 0) > 0
        if not fault and refuted:
            left[name] -= 1
        return SimpleNamespace(verdict=Verdict.VIOLATED if refuted else Verdict.NOT_REFUTED)

    monkeypatch.setattr(twins, "audit", fixed)
    members = {name: lambda fault: {"fault": fault} for name in ("first", *"abcdefghijkl")}
    table = twins.compare_twins("demo", members, {"found": list(members)}, 0.9, seed=3)
    assert [row.case for row in table.rows if not row.met] == missed
