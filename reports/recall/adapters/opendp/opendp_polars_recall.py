"""OpenDP with polars: a private query by the Context API."""

import opendp.prelude as dp
import polars as pl

LIBRARY = "opendp"

dp.enable_features("contrib")

_KEYS = pl.LazyFrame({"group": [0, 1, 2, 3]})


def counts_by_public_key(dataset, size, rng):
    """Rows in each of four groups, whose keys are public; up to four rows, epsilon 1."""
    frame = pl.LazyFrame({"group": [int(value) for value in dataset]}, schema={"group": pl.Int64})
    found = []
    for _ in range(size):
        context = dp.Context.compositor(
            data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(epsilon=1.0), split_evenly_over=1
        )
        release = context.query().group_by("group").agg(dp.len()).with_keys(_KEYS).release().collect().sort("group")
        found.append([float(value) for value in release["len"]])
    return found


counts_by_public_key.claim, counts_by_public_key.seeded, counts_by_public_key.batch = "pure:1", False, 256
counts_by_public_key.domain = {"kind": "Records", "size": 4, "low": 0, "high": 3, "categories": True, "relation": "add-remove"}
