"""PyDP's algorithms as objects: a new one for each run, or one that spends its budget in parts."""

import pydp.algorithms.laplacian as dp

import dpwitness as dpw

LIBRARY = "python-dp"

_RECORDS = {"kind": "Records", "size": 5, "low": 0, "high": 1, "relation": "add-remove"}
_LIMITS = {"epsilon": 1.0, "l0_sensitivity": 1, "linf_sensitivity": 1}


def _bounded_sum():
    return dp.BoundedSum(lower_bound=0, upper_bound=1, dtype="float", **_LIMITS)


def _count():
    return dp.Count(dtype="float", **_LIMITS)


def _result(algorithm, dataset):
    algorithm.add_entries([float(value) for value in dataset])
    return float(algorithm.result())


bounded_sum_object = dpw.wrap.fresh(
    _bounded_sum, _result, claim="pure:1", domain=_RECORDS, seeded=False
)
count_object = dpw.wrap.fresh(_count, _result, claim="pure:1", domain=_RECORDS, seeded=False)
