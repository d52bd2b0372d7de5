"""diffpriv-pure 0.1.0: sums, means and counts. All noise is Python's module `random`."""

import numpy as np
from diffpriv_pure import private_count, private_mean, private_sum
from library_target import runs, seed_random, target

LIBRARY = "diffpriv-pure"


_LOW_BITS = (
    "Noise is added to the answer as a 64-bit float and not rounded to a grid (Mironov 2012)."
)


def _bounded(function, doc, claim="pure:1", *delta, **more):
    """Return the target of a function of 5 numbers in [0, 1], epsilon 1."""
    run = runs(
        seed_random,
        lambda dataset: function(
            np.asarray(dataset, dtype=float).tolist(), (0.0, 1.0), 1.0, *delta
        ),
    )
    return target(claim, _LOW_BITS, doc, kind="Records", size=5, low=0, high=1, **more)(run)


total = _bounded(
    private_sum,
    "private_sum of 5 numbers clamped to [0, 1], epsilon 1; one replaced.",
    outside=True,
)
total_gaussian = _bounded(
    private_sum,
    "private_sum of 5 numbers in [0, 1], epsilon 1, delta 1e-5; one replaced.",
    "approx:1,1e-5",
    1e-5,
)
mean = _bounded(private_mean, "private_mean of 5 numbers in [0, 1], epsilon 1; one replaced.")
count = target(
    "pure:1",
    "geometric_noise is never negative: an output below the larger count is impossible there "
    "and likely under the smaller one.",
    'private_count of one count, epsilon 1 ("Shifted geometric for pure ε-DP integer counts").',
    kind="Counts",
    length=1,
    low=0,
    high=100,
)(runs(seed_random, lambda dataset: private_count(int(dataset[0]), 1.0)))
