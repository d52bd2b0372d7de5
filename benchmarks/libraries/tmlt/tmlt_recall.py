"""Tumult Core: a join with a public table and its stability, and Laplace noise in
forked processes.
"""

import functools
import os
import sys

import numpy as np
from library_target import target

LIBRARY = "tmlt.core"

TARGETS = {
    "left_join": {
        "kind": "transformation",
        "map": "join_map",
        "input": {"type": "vector", "dtype": "i64", "bounds": [0, 3]},
        "input_metric": "symmetric",
        "output_metric": "symmetric",
        "d_in": [1],
    }
}


@functools.cache
def _join():
    from pyspark.sql import SparkSession
    from pyspark.sql.types import LongType, StructField, StructType
    from tmlt.core.domains.spark_domains import SparkDataFrameDomain, SparkIntegerColumnDescriptor
    from tmlt.core.metrics import SymmetricDifference
    from tmlt.core.transformations.spark_transformations.join import PublicJoin

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    )
    schema = StructType([StructField("key", LongType(), nullable=False)])
    public = spark.createDataFrame(
        [], StructType([*schema.fields, StructField("name", LongType(), nullable=False)])
    )
    domain = SparkDataFrameDomain({"key": SparkIntegerColumnDescriptor()})
    described = SparkDataFrameDomain(
        {"key": SparkIntegerColumnDescriptor(), "name": SparkIntegerColumnDescriptor()}
    )
    join = PublicJoin(
        input_domain=domain,
        metric=SymmetricDifference(),
        public_df=public,
        public_df_domain=described,
        join_cols=["key"],
        how="left",
    )
    return spark, schema, join


def left_join(rows):
    """PublicJoin(how="left") of a column of keys with a public table that has no rows."""
    spark, schema, join = _join()
    joined = join(spark.createDataFrame([(int(value),) for value in rows], schema))
    return [-1 if row["name"] is None else int(row["name"]) for row in joined.collect()]


def join_map(d_in):
    """Return the distance of the outputs that the library allows."""
    return _join()[2].stability_function(int(d_in)).to_float(round_up=True)


@target("pure:1", seeded=False, batch=64, kind="Answers", length=2, low=-10, high=10, relation="l1")
def forked_noise(dataset, size, rng):
    """AddLaplaceNoise with scale 1 of two answers, each in a process that is forked for it."""
    from tmlt.core.domains.numpy_domains import NumpyFloatDomain
    from tmlt.core.measurements.noise_mechanisms import AddLaplaceNoise

    measure, found = AddLaplaceNoise(input_domain=NumpyFloatDomain(), scale=1), []
    for _ in range(size):
        measure(np.float64(0))  # the parent works on between the runs, so that runs are independent
        found.append([_in_child(measure, float(value)) for value in dataset])
    return np.array(found)


def _in_child(measure, value):
    """Run a measurement in a forked process and return its answer."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.write(writes, repr(float(measure(np.float64(value)))).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as file:
        answer = float(file.read())
    os.waitpid(child, 0)
    return answer
