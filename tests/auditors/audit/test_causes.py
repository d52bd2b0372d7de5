"""Several causes of one violation: each part of the outputs is tested by itself, and none is
accused for another.
"""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom

from dpwitness import Pair, Verdict, audit
from dpwitness.auditors.statistics.certificate import Tally, certified, partial_bound
from dpwitness.auditors.witnesses.counts import describe_causes as causes_text
from dpwitness.auditors.witnesses.kinds import recompute_bounds
from dpwitness.mechanisms import InvalidArgument, parse_claim
from dpwitness.reports.document import build_document, checked_document

PAIR = Pair(np.array([0.0]), np.array([1.0]))
SMALL = {"claim": "pure:1", "pair": PAIR, "trials": 4_000, "seed": 3, "bits": False, "trace": False}


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


@pytest.mark.slow
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
