"""diffprivlib in its usual form: estimators, and tools that share a budget. The worker provides the
module `dpwitness`.
"""

import functools
import warnings

import numpy as np
from diffprivlib import BudgetAccountant, models, tools
from diffprivlib.utils import PrivacyLeakWarning

import dpwitness as dpw

LIBRARY = "diffprivlib"

# scikit-learn's, on deprecated parameters that diffprivlib passes on
warnings.simplefilter("ignore")
warnings.simplefilter("error", PrivacyLeakWarning)

_LABELLED = {"kind": "Rows", "labels": (0, 1)}

linear_regression_object = dpw.wrap.from_estimator(
    functools.partial(
        models.LinearRegression,
        epsilon=1.0,
        fit_intercept=False,
        bounds_X=(0.1, 1),
        bounds_y=(0, 1),
    ),
    "coef_",
    label=-1,
    claim="pure:1",
    domain={**_LABELLED, "size": 20, "features": ((0.1, 1),)},
    cause="The noise of the second-degree coefficient takes the square of the lower bound of the "
    "feature for its sensitivity: with bounds "
    "(0.1, 1) it is 0.01 where 0.99 is needed.",
)


def _moments(model):
    return np.concatenate([model.theta_.ravel(), model.var_.ravel(), model.class_count_])


gaussian_nb_object = dpw.wrap.from_estimator(
    functools.partial(models.GaussianNB, epsilon=1.0, bounds=(100, 101)),
    _moments,
    label=-1,
    claim="pure:1",
    domain={**_LABELLED, "size": 10, "features": ((100, 101),), "every_label": True},
    cause="The sum over a class gets noise for a change by the width of the bounds, where a label "
    "that is turned over moves it by it.",
)

decision_tree_object = dpw.wrap.from_estimator(
    functools.partial(
        models.DecisionTreeClassifier, max_depth=1, epsilon=1.0, bounds=(0, 1), classes=[0, 1]
    ),
    "predict",
    at=[[0.0], [1.0]],
    label=-1,
    claim="pure:1",
    domain={**_LABELLED, "size": 2, "relation": "add-remove"},
    expected_findings={
        "CALLS": "an empty leaf draws its label uniformly, which is permute-and-flip without votes"
    },
)

standard_scaler_object = dpw.wrap.from_estimator(
    functools.partial(models.StandardScaler, epsilon=1.0, bounds=(0, 1)),
    "mean_",
    claim="pure:1",
    domain={"kind": "Records", "size": 10, "low": 0, "high": 1},
    cause="The noisy statistics are 64-bit floats that are not rounded to a grid; their low bits "
    "depend on the exact answer.",
)


class _Budget:
    """Means and sums of the data, a quarter of epsilon each, until the accountant refuses."""

    def start(self, dataset, rng):
        self.data, self.state = (
            np.array(dataset),
            np.random.RandomState(rng.integers(2**32, dtype=np.uint64)),
        )
        self.accountant = BudgetAccountant(epsilon=1.0, delta=0.0)

    def ask(self, query):
        common = {"epsilon": 0.25, "accountant": self.accountant, "random_state": self.state}
        if query == "mean":
            return float(tools.mean(self.data, bounds=(0, 1), **common))
        return float(tools.sum(self.data, bounds=(0, 1), **common))


budget = dpw.wrap.interactive(
    _Budget,
    expected_findings={
        "SOURCE": "entries in the accountant are played back, so that nothing is spent in the "
        "second run"
    },
    queries=["mean", "sum"],
    rounds=6,
    claim="pure:1",
    domain={"kind": "Records", "size": 10, "low": 0, "high": 1},
    cause="The noisy statistics are 64-bit floats that are not rounded to a grid; their low bits "
    "depend on the exact answer.",
)
