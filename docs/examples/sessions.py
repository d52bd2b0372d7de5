# sessions.py
import dpwitness as dpw


class Sparse:
    """Answers whether queries lie above a threshold, ten times yes at most, and pays
    for one yes.
    """

    def start(self, dataset, rng):
        self.data, self.rng, self.left = dataset, rng, 10
        self.threshold = 0.5 + rng.laplace(0.0, 2.0)

    def ask(self, query):
        if self.left == 0:
            return None
        top = bool(self.data[query] + self.rng.laplace(0.0, 2.0) > self.threshold)
        self.left -= top
        return top


sparse = dpw.wrap.interactive(
    Sparse,
    queries=[0, 1],
    rounds=16,
    claim="pure:1",
    domain={"kind": "Answers", "length": 2, "low": 0, "high": 1, "relation": "linf"},
)
