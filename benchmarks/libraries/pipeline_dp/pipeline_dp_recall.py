"""PipelineDP on its local backend; noise is drawn in Google's C++ library and cannot be seeded."""

import numpy as np
import pipeline_dp
from library_target import target
from pipeline_dp.aggregate_params import NormKind

LIBRARY = "pipeline-dp"

_EXTRACTORS = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0],
    partition_extractor=lambda row: 0,
    value_extractor=lambda row: row[1],
)


def _vector_sums(doc, max_norm):
    """Return the target of VECTOR_SUM with Laplace noise of 100 public users and the users of a
    dataset, epsilon 1, delta 1e-5.
    """
    public = [(-user, np.zeros(2)) for user in range(1, 101)]  # so many that the partition is kept

    def run(dataset, size, rng):
        users = enumerate(np.asarray(dataset).reshape(-1, 2))
        rows = [*public, *((user, np.array(row, dtype=float)) for user, row in users)]
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
                vector_max_norm=float(max_norm),
                vector_size=2,
            )
            result = engine.aggregate(rows, parameters, _EXTRACTORS)
            accountant.compute_budgets()
            kept = list(result)
            found.append([float(value) for value in kept[0][1].vector_sum] if kept else None)
        return found

    return target(
        "approx:1,1e-5",
        "",
        doc,
        seeded=False,
        batch=256,
        kind="Rows",
        size=5,
        features=((-max_norm, max_norm),) * 2,
        relation="add-remove",
        outside=True,
    )(run)


vector_sum = _vector_sums(
    "VECTOR_SUM with vector_max_norm 4 (L-infinity) of up to 5 users among public ones; one user "
    "more or less.",
    4,
)
unit_vector_sum = _vector_sums("The same with vector_max_norm 1.", 1)
