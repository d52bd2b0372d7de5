"""Tests of the search by coupled runs: pairs that the code suggests are found, sound functions get
none, and a choice is the same in each run.
"""

import math
import sys
from collections import Counter
from statistics import median

import pytest

import dpwitness as dpw
from dpwitness import domains
from dpwitness.auditors.audit import pair_choice
from dpwitness.auditors.search.catalogue import pairs_for
from dpwitness.auditors.search.coupled import coupled_pairs

PEOPLE = domains.Table(
    {"age": (0, 110), "city": ["Oslo", "Bergen", "Hamar"]},
    size=9,
    relation="add-remove",
    frame="records",
)
SHARES = domains.Records(8, 0.0, 1.0, relation="add-remove")


def audit(query, domain, trials=100_000, **options):
    def noisy(dataset, size, rng):
        return query(dataset) + rng.laplace(0.0, 1.0, size)

    options = options if "pair" in options else {"domain": domain, **options}
    defaults = {"seed": 1, "trace": False, "causes": False, "stop": "violation"}
    return dpw.audit(noisy, claim="pure:1", trials=trials, **(defaults | options))


def two_literals(rows):
    return len(rows) + 5 * any(row["age"] == 73 and row["city"] == "Hamar" for row in rows)


def three_equal(values):
    return sum(values) + 4 * (len(values) - len(set(values)) == 2)


def scaled(values):
    return sum(values) + 4 * any(abs(100 * v - 61.8) < 0.01 for v in values)


def count_of_seven(rows):
    return len(rows) + 4 * (len(rows) == 7)


def above_a_threshold(rows):
    cities = Counter(row["city"] for row in rows)
    return len(rows) + 4 * any(count >= 12 for count in cities.values())


OF_ANY_SIZE = domains.Table(
    {"age": (0, 110), "city": ["Oslo", "Bergen"]}, relation="add-remove", frame="records"
)
FAULTS = {"literals": (two_literals, PEOPLE), "equal values": (three_equal, SHARES),
          "a scaled value": (scaled, SHARES), "number of rows": (count_of_seven, PEOPLE),
          "more rows than usual": (above_a_threshold, OF_ANY_SIZE)}  # fmt: skip


@pytest.mark.slow_cases("literals", "equal values", "a scaled value", "more rows than usual")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_on_few_datasets_is_found_from_the_domain(name):
    trials = {"literals": 1_250_000, "number of rows": 30_000}.get(name, 100_000)
    found = audit(*FAULTS[name], trials=trials)
    assert found.verdict.value == "VIOLATED", found.headline()
    assert found.pair.why == "found by coupled runs"
    without = audit(*FAULTS[name], pair=pairs_for(FAULTS[name][1]), trials=min(trials, 100_000))
    assert without.verdict.value == "NOT_REFUTED"


@pytest.mark.slow
def test_a_result_says_which_sizes_were_tried():
    found = audit(above_a_threshold, OF_ANY_SIZE, trials=30_000)
    assert any("pairs of up to 200 rows were tried" in note for note in found.notes)
    assert max(len(found.pair.d0), len(found.pair.d1)) == 12  # the pair is shrunk
    assert not any("no size" in note for note in audit(len, PEOPLE, trials=2_000).notes)


@pytest.mark.slow
def test_the_pair_is_shrunk():
    found = audit(two_literals, PEOPLE, trials=1_250_000)
    rows = [row for side in (found.pair.d0, found.pair.d1) for row in side]
    assert len(rows) == 1 and rows[0] == {"age": 73, "city": "Hamar"}


def test_the_choice_is_the_same_in_each_run(tmp_path):
    path = tmp_path / "run.db"
    first, stored, again = (
        audit(count_of_seven, PEOPLE, trials=4_000, name="seven", **options)
        for options in ({"store": path}, {"store": path}, {})
    )
    assert first.tally == stored.tally == again.tally
    assert first.pair.d1 == stored.pair.d1 == again.pair.d1


def test_a_sound_function_gets_no_suggestion():
    found = audit(lambda rows: sum(row["age"] / 110 for row in rows), PEOPLE, trials=20_000)
    assert found.verdict.value == "NOT_REFUTED"
    assert all("coupled" not in score.pair.why for score in found.pairs)


def behind_branches(values):
    """Three conditions of which each is checked only where the one before holds."""
    found = 0
    if any(math.sin(50 * v + 2) > 0.995 for v in values):
        found += 1
        if any(math.sin(70 * v + 1) > 0.995 for v in values):
            found += 1
            if any(math.sin(90 * v + 3) > 0.995 for v in values):
                found += 1
    return sum(values) + 4 * (found == 3)


def deep_runs(seed, watched):
    """Return how many runs of a search of 2000 pairs meet the first two conditions; with another
    tracer in place, the search sees no branches.
    """
    deep = 0

    def query(values):
        nonlocal deep
        deep += any(math.sin(50 * v + 2) > 0.995 for v in values) and any(
            math.sin(70 * v + 1) > 0.995 for v in values
        )
        return behind_branches(values)

    def search(*arguments):
        *most, _, _ = arguments
        before = sys.gettrace()
        sys.settrace(None if watched else lambda *_: None)
        try:
            return coupled_pairs(*most, 2000, 60.0)
        finally:
            sys.settrace(before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_choice, "coupled_pairs", search)
        audit(query, SHARES, seed=seed, trials=2_000)
    return deep


@pytest.mark.slow
def test_datasets_that_take_a_new_branch_are_kept():
    found = [[deep_runs(seed, watched) for seed in range(1, 4)] for watched in (True, False)]
    # a lucky search without branches may stay deep: medians, not sums
    assert median(found[0]) > 1.5 * median(found[1])


UNIFORM = "(random() + 0.5) / 18446744073709551616.0"
CROWDED_QUERY = f"""
WITH noise AS (SELECT {UNIFORM} AS u),
many AS (SELECT count(*) AS n FROM data GROUP BY city HAVING count(*) >= 12)
SELECT (SELECT count(*) FROM data) + 4 * (SELECT count(*) FROM many)
       - sign(u) * ln(1 - 2 * abs(u)) FROM noise
"""


def data_dependent_noise(rows, rng):
    """The first city's rows divide the noise, which the coupled difference alone does not show."""
    few = sum(row["city"] == "Oslo" for row in rows)
    return len(rows) + float(rng.laplace(0.0, 1.0)) / (1 + max(0, few - 12))


def repeated_text(texts, rng):
    return len(texts) + 4 * (texts.count("b b b b b b") == 3) + float(rng.laplace(0.0, 1.0))


@pytest.mark.slow_cases("query", "texts")
@pytest.mark.parametrize("name", ["query", "noise", "texts"])
def test_queries_noise_and_texts_are_searched(name):
    cities = domains.Table({"city": ["Oslo", "Bergen"]}, relation="add-remove", frame="dict")
    mechanism, domain = {
        "query": (dpw.wrap.Query("sqlite:///:memory:", CROWDED_QUERY), cities),
        "noise": (dpw.one_run(data_dependent_noise), OF_ANY_SIZE),
        "texts": (
            dpw.one_run(repeated_text),
            domains.Texts(6, ("a", "b"), longest=6, relation="add-remove"),
        ),
    }[name]
    found = dpw.audit(
        mechanism,
        claim="pure:1",
        domain=domain,
        trials=50_000,
        seed=1,
        bits=False,
        causes=False,
        stop="violation",
    )
    assert found.verdict.value == "VIOLATED" and found.pair.why.startswith("found by coupled runs")
