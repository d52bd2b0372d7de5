"""PipelineDP on its local backend; noise is drawn in Google's C++ library and cannot be seeded."""

import numpy as np
import pipeline_dp
from pipeline_dp.aggregate_params import NormKind

LIBRARY = "pipeline-dp"

_EXTRACTORS = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0],
    partition_extractor=lambda row: 0,
    value_extractor=lambda row: row[1],
)


def _vector_sums(dataset, size, max_norm):
    """VECTOR_SUM with Laplace noise of 100 public users and the users of a dataset, epsilon 1,
    delta 1e-5.
    """
    public = [(-user, np.zeros(2)) for user in range(1, 101)]  # so many that the partition is kept
    rows = [
        *public,
        *(
            (user, np.array(row, dtype=float))
            for user, row in enumerate(np.asarray(dataset).reshape(-1, 2))
        ),
    ]
    found = []
    for _ in range(size):
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=1e-5)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        parameters = pipeline_dp.AggregateParams(
            noise_kind=pipeline_dp.NoiseKind.LAPLACE,
            metrics=[pipeline_dp.Metrics.VECTOR_SUM],
            max_partitions_contributed=1,
            max_contributions_per_partition=1,
            vector_norm_kind=NormKind.Linf,
            vector_max_norm=max_norm,
            vector_size=2,
        )
        result = engine.aggregate(rows, parameters, _EXTRACTORS)
        accountant.compute_budgets()
        kept = list(result)
        found.append([float(value) for value in kept[0][1].vector_sum] if kept else None)
    return found


def vector_sum(dataset, size, rng):
    """VECTOR_SUM with vector_max_norm 4 (L-infinity) of up to 5 users among public ones; one user
    more or less.
    """
    return _vector_sums(dataset, size, 4.0)


def unit_vector_sum(dataset, size, rng):
    """The same with vector_max_norm 1."""
    return _vector_sums(dataset, size, 1.0)


for _target, _norm in ((vector_sum, 4), (unit_vector_sum, 1)):
    _target.claim, _target.seeded, _target.batch = "approx:1,1e-5", False, 256
    _target.domain = {
        "kind": "Rows",
        "size": 5,
        "features": ((-_norm, _norm),) * 2,
        "relation": "add-remove",
        "outside": True,
    }
