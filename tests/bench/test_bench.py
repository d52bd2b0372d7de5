"""The benchmark registry and its table."""

import pytest

from dpwitness import InvalidArgument
from dpwitness.benchmarks import Row, Table, bench, format_table


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
    with pytest.raises(InvalidArgument, match="bench recall takes no seed"):
        bench("recall", seed=1)
