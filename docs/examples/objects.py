import numpy as np

import dpwitness as dpw


class PrivateMean:  # an estimator; claims epsilon = 1 for records in [0, 1]
    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        noise = np.random.default_rng(self.random_state).laplace(scale=0.5 / len(X))
        self.mean_ = X.mean() + noise
        return self


class Sum:
    def __init__(self, rng):
        self.rng = rng

    def release(self, dataset):
        return float(dataset.sum() + self.rng.laplace())


async def service(dataset, rng):
    return float(dataset.sum() + rng.laplace())


class Budget:  # a session: two answers of epsilon = 1/2 each
    def start(self, dataset, rng):
        self.data, self.rng, self.left = dataset, rng, 2

    def ask(self, query):
        self.left -= 1
        return float(self.data[query] + self.rng.laplace(scale=2.0)) if self.left >= 0 else None


estimator = dpw.wrap.from_estimator(PrivateMean, "mean_", claim="pure:1")
stateful = dpw.wrap.fresh(Sum, "release", claim="pure:1")
coroutine = dpw.one_run(service, claim="pure:1")
session = dpw.wrap.interactive(Budget, queries=[0, 1], rounds=4, claim="pure:1")
