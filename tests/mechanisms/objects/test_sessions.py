"""Sessions against adversaries: transcripts, wrong sessions found, adversaries searched for.

Each audit is made at an error of 1e-9, with a fixed seed; searches stop by number, never by time.
"""

import sys
import types

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.auditors.witnesses.verdicts import Verdict

RNG = np.random.default_rng
DOWN = dpw.Pair(np.array([1.0, 0.0]), np.array([0.0, 1.0]), relation="linf")  # one falls, one rises


class Sparse:
    """The sparse vector technique for two tops: a new threshold after each, and noise for both
    (Lyu, Su and Li 2017, variant 2).
    """

    tops, refresh, pays = 2, True, 2

    def start(self, dataset, rng):
        self.data, self.rng, self.left = dataset, rng, self.tops
        self.draw()

    def draw(self):
        self.threshold = 0.5 + self.rng.laplace(0.0, 2.0 * self.pays)

    def ask(self, query):
        if self.left == 0:
            return None
        top = bool(self.data[query] + self.rng.laplace(0.0, 4.0 * self.pays) > self.threshold)
        if top:
            self.left -= 1
            if self.refresh:
                self.draw()
        return top


class Forgets(Sparse):
    """Ten tops and one threshold for all of them, with half the noise of one top."""

    tops, refresh, pays = 10, False, 0.5


class Spent:
    """Two answers of epsilon = 1/2, then a refusal."""

    after = False

    def start(self, dataset, rng):
        self.data, self.rng, self.left = dataset, rng, 2

    def ask(self, query):
        if self.left == 0 and not self.after:
            raise PermissionError("the budget is spent")
        self.left -= 1
        return float(self.data[query] + self.rng.laplace(0.0, 2.0))


class Answers(Spent):
    """It goes on answering after its budget is spent."""

    after = True


sparse = dpw.wrap.interactive(Sparse, queries=[0, 1], rounds=16, claim="pure:1")
forgets = dpw.wrap.interactive(Forgets, queries=[0, 1], rounds=16, claim="pure:1")
REPEAT = {"stages": [[0] * 6 + [1] * 10], "rounds": 16, "usual": ""}


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setitem(
        sys.modules, __name__, sys.modules.get(__name__) or types.SimpleNamespace(**globals())
    )


def audited(mechanism, pair=DOWN, trials=6_000, claim="pure:1"):
    options = {"confidence": 1 - 1e-9, "bits": False, "trace": False, "causes": False}
    return dpw.audit(mechanism, claim=claim, pair=pair, trials=trials, seed=5, **options)


def test_a_transcript_is_what_was_asked_in_order():
    class Echo:
        def start(self, dataset, rng):
            self.data = dataset

        def ask(self, query):
            if query == "no":
                raise ValueError("refused")
            return query, self.data

    answers = dpw.wrap.interactive(Echo, ["a", "no", "b"])("d", 2, RNG(1))
    assert [str(answer) for answer in answers[0]] == [
        "('a', 'd')",
        "refused",
        "('b', 'd')",
    ] and len(answers) == 2
    asks = dpw.wrap.interactive(Echo, lambda seen: None if len(seen) == 2 else f"q{len(seen)}")
    assert asks("d", 1, RNG(1)) == [[("q0", "d"), ("q1", "d")]]


def test_right_sessions_are_not_refuted():
    assert audited(sparse.against(REPEAT)).verdict is Verdict.NOT_REFUTED
    pair = dpw.Pair(np.array([0.0]), np.array([1.0]))
    result = audited(dpw.wrap.interactive(Spent, [0, 0, 0, 0]), pair)
    assert result.verdict is Verdict.NOT_REFUTED and result.epsilon_lower > 0.4


@pytest.mark.slow
def test_a_threshold_that_is_not_drawn_again_is_found():
    result = audited(forgets.against(REPEAT))
    assert result.verdict is Verdict.VIOLATED and result.epsilon_lower > 1.5


@pytest.mark.slow
def test_answers_after_the_budget_is_spent_are_found():
    result = audited(
        dpw.wrap.interactive(Answers, [0] * 6), dpw.Pair(np.array([0.0]), np.array([1.0]))
    )
    assert result.verdict is Verdict.VIOLATED and result.epsilon_lower > 1.2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((np.mean, DOWN, "pure:1"), "mechanism must be interactive"),
        ((dpw.wrap.interactive(Sparse, [0]), DOWN, "pure:1"), "queries must be given"),
        ((sparse, None, "pure:1"), "pair must be given, or a domain"),
        ((sparse, [3], "pure:1"), "pair must be a Pair"),
    ],
)
def test_searches_that_cannot_be_made_are_refused(arguments, text):
    with pytest.raises(dpw.InvalidArgument, match=text):
        dpw.wrap.find_adversary(*arguments)
