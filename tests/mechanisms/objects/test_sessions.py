"""Sessions against adversaries: transcripts, wrong sessions found, adversaries searched for.

Each audit is made at an error of 1e-9, with a fixed seed; searches stop by number, never by time.
"""

import math
import pickle
import sys
import types
import warnings

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness import mechanisms as m
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.loading import built, describe_target
from dpwitness.core.numerics.losses import Loss
from dpwitness.mechanisms.papers.interactive import PredictionSession

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
    return dpw.audit(mechanism, claim=claim, pair=pair, trials=trials, seed=5, confidence=1 - 1e-9)


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


def test_an_adversary_goes_on_where_an_answer_is_unusual():
    adversary = dpw.wrap.Adversary([["a", "b"], ["c"], ["d"]], rounds=6, usual="False")
    answers, asked = [], []
    for answer in (False, False, False, True, True, True):
        asked.append(adversary(answers))
        answers.append(answer)
    assert asked == ["a", "b", "a", "b", "c", "d"] and adversary(answers) is None
    assert adversary == dpw.wrap.Adversary(**adversary.to_dict())


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


@pytest.mark.slow
def test_a_witness_holds_the_adversary_and_is_replayed(monkeypatch):
    module = types.ModuleType("sessions_of_a_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.forgets = dpw.wrap.interactive(Forgets, queries=[0, 1], rounds=16, claim="pure:1")
    module.forgets.__module__ = module.__name__
    asked = module.forgets.against(REPEAT)
    assert describe_target(asked) == {
        "target": "sessions_of_a_test:forgets",
        "kwargs": {"adversary": REPEAT},
    }
    assert (
        asked.__name__ == "forgets"
        and pickle.loads(pickle.dumps(asked)).adversary == asked.adversary
    )
    result = audited(asked)
    again = dpw.replay(
        result.witness, mechanism=built(module.forgets, "forgets", {"adversary": REPEAT}), seed=8
    )
    assert again.verdict is Verdict.VIOLATED


@pytest.mark.slow
def test_a_search_finds_an_adversary_that_certifies():
    """Alone, either query tells little: the two have to be asked in turn."""
    found = dpw.wrap.find_adversary(forgets, DOWN, "pure:1", evaluations=8, seconds=600, seed=2)
    assert found.tried == 8 and "search of 8" in found.describe()
    result = audited(found.mechanism, found.pair, trials=12_000)
    assert result.verdict is Verdict.VIOLATED and result.epsilon_lower > 1.2
    first, again = (
        dpw.wrap.find_adversary(
            forgets, DOWN, "pure:1", rounds=4, evaluations=5, seconds=600, seed=3
        )
        for _ in range(2)
    )
    assert first.adversary == again.adversary and first.expected == again.expected


def test_an_adversary_that_never_ends_is_stopped():
    with pytest.raises(RuntimeError, match="must return None at the end"):
        dpw.wrap.interactive(Sparse, lambda answers: 0)([0.0, 1.0], 1, RNG(1))


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


def prediction(updates, rounds, norm, records, loss=None):
    learner = m.KernelLearner(Loss("absolute"), 1.0, 2, records, label_bound=10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that B < 1 can break the promise is what is audited
        return m.PrivateInteractivePrediction(
            learner, 1.0, 1e-6, 0.05, norm, test_points=np.full((rounds, 2), 0.5)
        )


def few_updates(records=10**8):
    """JK-07: B far below 1, where a single answer is a Laplace mechanism of e = 2.08
    (witness W8).
    """
    unit = prediction(1.0, 3, 1.0, records)
    it = prediction(1.0, 3, math.sqrt(1e-7 / unit.updates), records)
    return it, it.worst_pair(math.floor(it.norm_bound * records))


def test_the_session_follows_the_algorithm():
    """Its transcripts against fixed points are rows of the algorithm, whose own tops they tell; the
    rate of tops agrees.
    """
    learner = m.KernelLearner(Loss("absolute"), 1.0, 1, 400, label_bound=10.0)
    points, delta = np.linspace(0.4, 1.0, 6)[:, None], 0.5
    epsilon, spread = 0.3 * 100 * 2 * math.log(4 / delta), math.log(12 / 0.99)
    bound = math.sqrt(4 * 200 * math.sqrt(2 * spread) * math.log(4 / delta) / (400 * epsilon))
    it = m.PrivateInteractivePrediction(
        learner, epsilon, delta, 0.99, bound * (1 - 1e-9), test_points=points
    )
    data, runs = it.worst_pair(150).d0, 4000
    found = dpw.wrap.interactive(lambda: PredictionSession(it), list(points))(data, runs, RNG(1))
    rows = np.array(
        [[math.nan if answer is None else answer[1] for answer in run] for run in found]
    )
    told = np.array(
        [[math.nan if answer is None else float(answer[0]) for answer in run] for run in found]
    )
    assert np.array_equal(it.tops(rows), told, equal_nan=True)
    assert np.all(np.isfinite(it.log_density(rows, data)))
    own = it.tops(it.sample(data, runs, RNG(2)))
    rates = np.nanmean(told, axis=0), np.nanmean(own, axis=0)
    # 12 rates at 1e-7
    assert 0.05 < rates[0].mean() < 0.95 and np.abs(rates[0] - rates[1]).max() < 5.2 * math.sqrt(
        0.5 / runs
    )


@pytest.mark.slow
def test_the_papers_algorithm_is_refuted_at_test_points_that_the_tool_finds():
    it, pair = few_updates()
    answers = dpw.wrap.interactive(
        lambda: PredictionSession(it), queries={"ball": 1.0, "dimension": 2}, rounds=3
    )
    found = dpw.wrap.find_adversary(answers, pair, "approx:1,1e-6", evaluations=5, seconds=600)
    assert all(np.linalg.norm(query) <= 1 for stage in found.adversary.stages for query in stage)
    result = audited(found.mechanism, pair, claim="approx:1,1e-6")
    assert result.verdict is Verdict.VIOLATED and 1.2 < result.epsilon_lower < it.answer_loss
