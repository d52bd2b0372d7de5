"""Private learners, audited by canaries in one run or few, right and with noise for 16 times the
epsilon: python paper_canaries.py

The learner of diffprivlib is left out where that library is not installed.
"""

import time
import warnings

import numpy as np

import dpwitness as dpw
from dpwitness.mechanisms import (
    GLMObjectivePerturbation,
    LabelledVectors,
    LinearCosts,
    Loss,
    PrivateFTRL,
    SimplexSampling,
)

LESS = 16  # times the epsilon that is claimed: what noise and draws of the broken ones are made for


def objective_perturbation(included, broken, rng):
    """Logistic regression in as many dimensions as canaries: record i is the i-th unit vector, or 0
    in its place.
    """
    size, epsilon = len(included), 1.0 * (LESS if broken else 1)
    options = {"delta": 1e-5, "noise": "gaussian", "repaired": not broken}
    learner = GLMObjectivePerturbation(
        loss=Loss("logistic"), epsilon=epsilon, dimension=size, records=size, **options
    )
    rows = np.eye(size)
    weights = learner.sample(LabelledVectors(rows * included[:, None], np.ones(size)), 1, rng)[0]
    return dpw.canaries.prediction_scores(rows @ weights, np.ones(size), "loss")


def simplex_sampling(included, broken, rng):
    """Linear costs -1 and 1 over 2,000 coordinates, or 0 in their place; released are frequencies
    of draws.
    """
    costs = rng.choice([-1.0, 1.0], (len(included), 2_000))
    draws = {"draws": LESS} if broken else {}  # one draw is right
    learner = SimplexSampling(
        1.0, 4.0, Loss("linear"), dimension=costs.shape[1], records=len(costs), **draws
    )
    frequencies = learner.sample(
        LabelledVectors(costs * included[:, None], np.ones(len(costs))), 1, rng
    )[0]
    return dpw.canaries.prediction_scores(-costs @ frequencies, np.ones(len(costs)))


def ftrl(included, broken, rng):
    """A cost vector a round over 2,000 experts; its score is minus what the actions after it would
    have paid.
    """
    costs = rng.choice([-1.0, 1.0], (len(included), 2_000))
    epsilon = 1.0 * (LESS if broken else 1)
    learner = PrivateFTRL(
        epsilon=epsilon, delta=1e-5, bound=1.0, actions=costs.shape[1], horizon=len(costs)
    )
    actions = learner.sample(LinearCosts(costs * included[:, None]), 1, rng)[0].astype(int)
    paid = costs[:, actions]  # round s in column s, played before its own cost is seen
    return -np.triu(paid, 1).sum(axis=1)


def diffprivlib_regression(included, broken, rng):
    """diffprivlib's LogisticRegression: unit vectors as above, 0 in place of those left out, and
    one real record of the other class.
    """
    from diffprivlib.models import LogisticRegression

    rows = np.eye(len(included))
    learner = LogisticRegression(
        epsilon=1.0 * (LESS if broken else 1),
        data_norm=1.0,
        fit_intercept=False,
        random_state=int(rng.integers(2**31)),
    )
    labels = np.append(np.ones(len(rows)), 0)
    learner.fit(np.vstack([rows * included[:, None], np.zeros(len(rows))]), labels)
    return dpw.canaries.prediction_scores(learner.coef_[0], np.ones(len(rows)), "loss")


EXAMPLES = {  # canaries of a run, runs, claim
    objective_perturbation: (1_000, 1, "approx:1,1e-5"),
    simplex_sampling: (100, 40, "pure:1"),
    ftrl: (100, 40, "approx:1,1e-5"),
    diffprivlib_regression: (10, 400, "pure:1"),
}


def audit(score, broken, seed=1):
    """Few trainings, one audit."""
    canaries, runs, claim = EXAMPLES[score]
    rng = np.random.default_rng(seed)
    ins, outs = [], []
    for _ in range(runs):
        included = rng.random(canaries) < 0.5
        scores = score(included, broken, rng)
        ins.append(scores[included])
        outs.append(scores[~included])
    return dpw.audit_canaries(ins, outs, claim, name=score.__name__)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for score in EXAMPLES:
        for broken in (False, True):
            begin = time.process_time()
            try:
                found = audit(score, broken)
            except ImportError as error:
                print(f"{score.__name__}: skipped, {error}")
                break
            told = (
                f"{score.__name__:<23} {'broken' if broken else 'right':<7} "
                f"{found.verdict.name:<11} epsilon >= {found.epsilon_lower:4.2f}"
            )
            print(
                f"{told}   {found.runs} x {found.canaries // found.runs} canaries   "
                f"{time.process_time() - begin:.0f} s",
                flush=True,
            )
