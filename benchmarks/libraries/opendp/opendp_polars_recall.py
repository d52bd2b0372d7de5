"""OpenDP with polars: a private query by the Context API."""

import functools

import numpy as np
import opendp.prelude as dp
import polars as pl
from library_target import target

LIBRARY = "opendp"

dp.enable_features("contrib")

_KEYS = pl.LazyFrame({"group": [0, 1, 2, 3]})


@target(
    "pure:1",
    seeded=False,
    batch=256,
    kind="Records",
    size=4,
    low=0,
    high=3,
    categories=True,
    relation="add-remove",
)
def counts_by_public_key(dataset, size, rng):
    """Rows in each of four groups, whose keys are public; up to four rows, epsilon 1."""
    frame = pl.LazyFrame({"group": [int(value) for value in dataset]}, schema={"group": pl.Int64})
    found = []
    for _ in range(size):
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=1.0),
            split_evenly_over=1,
        )
        release = (
            context.query()
            .group_by("group")
            .agg(dp.len())
            .with_keys(_KEYS)
            .release()
            .collect()
            .sort("group")
        )
        found.append([float(value) for value in release["len"]])
    return found


_MOST = 4  # groups that a user may contribute to


@functools.cache
def _merged_count():
    """Count of rows after a truncation to one row a user and group and four groups a user, with all
    groups merged, and Gaussian noise.
    """
    counts = (
        pl.LazyFrame(schema={"id": pl.Int64, "g": pl.Int64})
        .filter(pl.int_range(pl.len()).over("id", "g") < 1)
        .filter(pl.struct("g").rank("dense").over("id") < _MOST + 1)
        .with_columns(g=pl.lit(0, dtype=pl.Int64))
        .group_by("g")
        .agg(dp.len(scale=1.0))
    )
    return dp.m.make_private_lazyframe(
        dp.lazyframe_domain(
            [
                dp.series_domain("id", dp.atom_domain(T="i64")),
                dp.series_domain("g", dp.atom_domain(T="i64")),
            ]
        ),
        dp.symmetric_id_distance(identifier=pl.col("id")),
        dp.zero_concentrated_divergence(),
        pl.LazyFrame({"g": [0]}).join(counts, on="g", how="left"),
    )


@target(
    lambda: f"zcdp:{_merged_count().map(1)!r}",
    seeded=False,
    batch=64,
    kind="Rows",
    size=4,
    features=((0, 1),) * _MOST,
    categories=(0, 1, 2, 3),
    relation="add-remove",
)
def merged_count(dataset, size, rng):
    """Rows of all groups together, at most one for each user and group; each row of the dataset has
    the four groups of one user.
    """
    rows = np.asarray(dataset, dtype=int).reshape(-1, _MOST)
    pairs = [
        (user, group) for user, flags in enumerate(rows) for group, flag in enumerate(flags) if flag
    ]
    frame = pl.LazyFrame(
        {"id": [user for user, _ in pairs], "g": [group for _, group in pairs]},
        schema={"id": pl.Int64, "g": pl.Int64},
    )
    return np.array([float(_merged_count()(frame).collect()["len"][0]) for _ in range(size)])
