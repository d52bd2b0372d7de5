"""Several causes of one violation: each part of the outputs is tested by itself, and none is
accused for another.
"""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom

from dpwitness import Pair, Verdict, audit
from dpwitness.auditors.audit.after_test import divide
from dpwitness.auditors.events.outputs import encode
from dpwitness.auditors.statistics.certificate import PARTS, Tally, certified, partial_bound
from dpwitness.auditors.witnesses.kinds import recompute_bounds
from dpwitness.auditors.witnesses.witness_reader import describe_causes as causes_text
from dpwitness.mechanisms import InvalidArgument, PureDP, parse_claim
from dpwitness.reports.audit.document import build_document, checked_document

PAIR = Pair(np.array([0.0]), np.array([1.0]))
SMALL = {"claim": "pure:1", "pair": PAIR, "trials": 4_000, "seed": 3, "bits": False, "trace": False}


def noisy(scale, raised=0.0, stuck=0.0):
    """Laplace noise of this scale. On 0 only, a run raises with probability `raised`, else returns
    -1 with probability `stuck`.

    Each exception has another message.
    """

    def mechanism(dataset, size, rng):
        noise = dataset[0] + rng.laplace(0.0, scale, size)
        if dataset[0] == 0:
            if (rng.random(size) < raised).any():
                raise ZeroDivisionError(f"{rng.random()} is divided by zero")
            return np.where(rng.random(size) < stuck, -1.0, noise)
        return noise

    return mechanism


def answer(epsilon, raised=0.2):
    """Randomized response with this epsilon. On 0 only, a run raises with probability `raised`."""

    def mechanism(dataset, size, rng):
        if dataset[0] == 0 and (rng.random(size) < raised).any():
            raise ZeroDivisionError("division by zero")
        return np.where(rng.random(size) < 1 / (1 + math.exp(-epsilon)), dataset[0], 1 - dataset[0])

    return mechanism


def verdicts(result):
    return {cause.kind: cause.verdict.value for cause in result.causes}


@pytest.fixture(scope="module")
def double():
    return audit(answer(2.0), **SMALL)


def test_a_fault_behind_an_exception_is_found(double):
    assert double.verdict is Verdict.VIOLATED and verdicts(double) == {
        "exceptions": "VIOLATED",
        "values": "VIOLATED",
    }
    exceptions, values = double.causes
    assert (
        exceptions.words == "raises ZeroDivisionError"
        and exceptions.lower > 2
        and 1 < values.lower < 2
    )
    assert (
        SMALL["trials"] < double.trials <= 1.2 * SMALL["trials"]
        and double.requested == SMALL["trials"]
    )
    assert causes_text(double.to_json()).startswith(
        "VIOLATED by exceptions (raises ZeroDivisionError), epsilon > "
    )


def test_an_edited_cause_is_refused(double):
    document = json.loads(json.dumps(build_document([double], title="t")))
    assert checked_document(document)["results"][0]["causes"] == document["results"][0]["causes"]
    for key, value in (("parameter_lower", 2.4), ("verdict", "NOT_REFUTED"), ("alpha", 0.01)):
        edited = document["results"][0] | {
            "causes": [document["results"][0]["causes"][0] | {key: value}]
        }
        with pytest.raises(InvalidArgument, match="damaged or edited"):
            recompute_bounds(edited)


def test_three_causes():
    result = audit(noisy(0.4, raised=0.1, stuck=0.2), **SMALL | {"trials": 6_000})
    assert verdicts(result) == {
        "exceptions": "VIOLATED",
        "repeated values": "VIOLATED",
        "values": "VIOLATED",
    }
    assert result.causes[1].words == "-1"


def test_causes_after_a_sequential_audit(tmp_path):
    """A sequential audit ends after some hundred runs; a stored audit with a larger budget does not
    test the causes again.
    """
    options = SMALL | {"sequential": True, "trials": 20_000, "store": tmp_path / "s.db"}
    result, again = (
        audit(answer(2.0), **options | {"trials": trials}) for trials in (20_000, 40_000)
    )
    assert verdicts(result) == {"exceptions": "VIOLATED", "values": "VIOLATED"}
    assert [cause.to_json() for cause in result.causes] == [
        cause.to_json() for cause in again.causes
    ] and result.trials == again.trials
    assert (
        audit(answer(2.0), **options | {"store": None, "causes": False}).trials
        < result.trials
        <= 20_000
    )


@pytest.mark.parametrize("raised", [0.2, 0.9])
def test_values_are_not_accused_for_exceptions(raised):
    """Where nine runs in ten raise on one dataset, the event "no exception" alone violates the
    claim.
    """
    result = audit(answer(0.5, raised), **SMALL)
    assert verdicts(result) == {"exceptions": "VIOLATED", "values": "NOT_REFUTED"}
    assert result.causes[1].lower < 0.5


def test_an_exception_in_every_run_leaves_nothing_to_compare():
    result = audit(answer(1.0, 1.0), **SMALL)
    assert verdicts(result) == {"exceptions": "VIOLATED", "values": "INCONCLUSIVE"}
    assert (
        result.causes[1].words == "too few outputs on D0 to compare"
        and result.causes[1].tally is None
    )


@pytest.mark.parametrize(("epsilon", "raised"), [(1.0, 0.0), (1.0, 0.02), (2.0, 0.0), (2.0, 0.02)])
def test_no_runs_without_a_violation_by_exceptions(epsilon, raised):
    """An exception with probability 0.02 on both datasets is not a cause."""

    def mechanism(dataset, size, rng):
        if (rng.random(size) < raised).any():
            raise ZeroDivisionError("division by zero")
        return answer(epsilon, 0.0)(dataset, size, rng)

    result = audit(mechanism, **SMALL)
    assert (
        (result.verdict is Verdict.VIOLATED) == (epsilon == 2)
        and result.causes == ()
        and result.trials <= SMALL["trials"]
    )


def test_causes_can_be_left_out(double):
    result = audit(answer(2.0), **SMALL, causes=False)
    assert result.tally == double.tally and result.causes == () and result.trials <= SMALL["trials"]


def stopping(done, planned):
    if done > SMALL["trials"]:
        raise KeyboardInterrupt


def test_an_interruption_keeps_the_verdict(tmp_path, double):
    options = SMALL | {"name": double.name, "store": tmp_path / "s.db"}
    stopped = audit(answer(2.0), **options, progress=stopping)
    assert (
        stopped.verdict is Verdict.VIOLATED
        and stopped.causes == ()
        and "not separated: interrupted" in str(stopped.notes)
    )
    for _ in range(2):  # continued, and read from the store
        result = audit(answer(2.0), **options)
        assert [cause.to_json() for cause in result.causes] == [
            cause.to_json() for cause in double.causes
        ]
        assert result.trials == double.trials


def test_repeated_values_are_those_among_other_numbers():
    rng = np.random.default_rng(2)
    noise, labels = rng.normal(size=2_000), rng.integers(0, 3, 2_000).astype(float)
    outputs = (
        noise,
        labels,
        np.clip(noise, -1.0, 2.0),
        np.where(rng.random(2_000) < 0.1, np.nan, noise),
    )
    found = [divide((encode(each, 2_000), encode(each[:1], 1))) for each in outputs]
    assert [[(part.kind, part.words) for part in parts] for parts in found] == [
        [("values", "")],
        [("values", "")],
        [("repeated values", "-1, 2"), ("values", "")],
        [("repeated values", "inf or missing"), ("values", "")],
    ]


def counts(epsilon, rounds, size):
    """Counts of randomized response with exactly this epsilon, whose runs return on D1 with
    probability 0.6 and always on D0.
    """
    rng, right = np.random.default_rng(5), 1 / (1 + math.exp(-epsilon))
    ones = rng.binomial(rounds, 0.5, size)
    returned = rng.binomial(ones, 0.6), rounds - ones
    # D1 is guessed
    guesses = [rng.binomial(n, p) for n, p in zip(returned, (right, 1 - right), strict=True)]
    return np.column_stack([*returned, *guesses]).tolist()


@pytest.mark.parametrize(
    ("claim", "epsilon", "side"),
    [("pure:1", 1.0, -1), ("pure:1", 1.0, 1), ("pure:1", 1.0, 0), ("approx:1,0.01", 1.0, -1)],
)
def test_values_that_attain_the_claim_are_accused_at_the_stated_rate(claim, epsilon, side):
    """False-failure probability below 1e-6. Without the discount, guesses of D0 are accused in
    nearly every audit.
    """
    alpha, size, rounds, accused, plain = 0.1, 1_000, 3_000, 0, 0
    claim = parse_claim(claim)
    for one, zero, guess1, guess0 in counts(epsilon, rounds, size):
        right, wrong = (
            (guess1 if side >= 0 else 0) + (zero - guess0 if side <= 0 else 0),
            guess0 * (side >= 0) + (one - guess1) * (side <= 0),
        )
        tally = Tally(right, wrong, rounds, 1 if side else 2)
        bound = partial_bound(claim, tally, alpha, within=(one, zero), side=side)
        unadjusted = float(certified(claim, right, wrong, rounds, alpha, tally.directions))
        assert bound <= unadjusted
        accused, plain = accused + (bound > claim.parameter), plain + (unadjusted > claim.parameter)
    assert accused <= binom.isf(1e-6, size, alpha)
    assert (plain > 0.9 * size) == (side == -1)


def test_lost_rounds_lower_the_bound():
    tallies = [Tally(2_000, 400 + lost, 5_000 + lost) for lost in (0, 50)]
    found = [
        partial_bound(PureDP(1.0), each, 0.01 / PARTS, each.wrong - 400, (2_500, 2_500))
        for each in tallies
    ]
    assert found[1] < found[0] < partial_bound(PureDP(1.0), tallies[0], 0.01 / PARTS)
