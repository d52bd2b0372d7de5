"""pipeline-dp 0.3.1 on its local backend. Noise is drawn in Google's C++ library through python-dp,
and cannot be seeded.
"""

import pipeline_dp
from library_target import target
from pipeline_dp import Metrics

LIBRARY = "pipeline-dp"

_EXTRACTORS = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0],
    partition_extractor=lambda row: row[1],
    value_extractor=lambda row: row[2],
)


def _aggregate(rows, metrics, **public):
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=1e-5)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    parameters = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        metrics=metrics,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=0.0,
        max_value=1.0,
    )
    result = engine.aggregate(rows, parameters, _EXTRACTORS, **public)
    accountant.compute_budgets()
    return list(result)


_SLOW = {"seeded": False, "batch": 256, "trials": 20_000}
_NUMBERS = {"kind": "Records", "size": 5, "low": 0, "high": 1}


def _numbers(metrics, text, doc="", claim="pure:1", cause="", **declared):
    """Return the target of metrics of a public 0 and numbers, a user each."""

    def function(dataset, size, rng):
        # the backend refuses an empty table
        rows = [(-1, 0, 0.0), *((user, 0, float(value)) for user, value in enumerate(dataset))]
        return [
            [float(number) for number in _aggregate(rows, metrics, public_partitions=[0])[0][1]]
            for _ in range(size)
        ]

    usual = (
        f"DPEngine.aggregate: {text} of a public 0 and up to 5 users' numbers in [0, 1], epsilon "
        "1; one user more or less."
    )
    domain = declared or {"relation": "add-remove", "outside": True}
    return target(claim, cause, doc or usual, **_SLOW, **_NUMBERS, **domain)(function)


count_sum = _numbers([Metrics.COUNT, Metrics.SUM], "count and sum")
mean = _numbers([Metrics.MEAN], "mean")
variance = _numbers([Metrics.VARIANCE], "variance")
mean_missing = _numbers(
    [Metrics.MEAN],
    "mean",
    "The same for a public 0 and 5 users' numbers, of which one is replaced and any may be "
    "missing.",
    "pure:2",  # one user replaced is one less and one more
    "Clipping to [min_value, max_value] lets NaN pass: one missing number makes the mean NaN in "
    "every run.",
    missing=True,
)


@target(
    "approx:1,1e-5",
    **_SLOW,
    kind="Records",
    size=60,
    low=0,
    high=2,
    categories=True,
    relation="add-remove",
    expected_findings={
        "CALLS": "a partition without users is never asked for, and kept with probability 0, as "
        "the selection's own rule says"
    },
)
def partitions(dataset, size, rng):
    """DPEngine.aggregate: users in each of three partitions that are selected privately, epsilon 1,
    delta 1e-5; one user more or less.
    """
    rows = [(-1, 0, 0.0), *((user, int(part), 0.0) for user, part in enumerate(dataset))]
    found = []
    for _ in range(size):
        numbers = dict(_aggregate(rows, [Metrics.PRIVACY_ID_COUNT]))
        found.append([float(numbers[part][0]) if part in numbers else None for part in range(3)])
    return found
