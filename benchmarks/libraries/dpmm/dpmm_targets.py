"""dpmm 0.1.9: synthetic tables with PrivBayes. The noise of OpenDP takes no seed. Inference has few
iterations and adds no noise.
"""

import copy
import logging

import numpy as np
import pandas as pd
from dpmm.models.priv_bayes import PrivBayesGM
from dpmm.pipelines import PrivBayesPipeline
from library_target import random_state, target

LIBRARY = "dpmm"

logging.disable(logging.WARNING)


_SLOW = {"seeded": False, "batch": 16, "trials": 3000}
_PARAMETERS = {"n_jobs": 1, "compress": False}
# a copy of it is fitted in each run: to find its rho takes 0.2 s
_MODEL = PrivBayesGM(epsilon=1.0, delta=1e-5, **_PARAMETERS)
_MODEL.set_domain({"a": 2, "b": 2, "c": 2})
# two rows that all know, since the model divides by the number of rows less one
_PUBLIC = np.zeros((2, 3), dtype=int)
_BITS = {
    "kind": "Rows",
    "features": ((0, 1), (0, 1), (0, 1)),
    "categories": (0, 1, 2),
    "relation": "add-remove",
}


def _fitted(dataset, rng):
    model = copy.deepcopy(_MODEL)
    model.set_random_state(random_state(rng))
    rows = np.concatenate([_PUBLIC, np.asarray(dataset, dtype=int).reshape(-1, 3)])
    model.fit(pd.DataFrame(rows, columns=list("abc")), marginals_only=True)
    return model.generator


@target(
    "approx:1,1e-5",
    "Candidates are scored by mutual information over the geometric mean of the two "
    "entropies, while the sensitivity is that of mutual "
    "information itself, about 2 log(n) / n: where columns are nearly constant one record "
    "changes a score from 0 to 1.",
    size=2000,
    **_BITS,
    **_SLOW,
)
def privbayes_network(dataset, size, rng):
    """The network that PrivBayesGM selects among three columns of two values (domain given),
    epsilon 1, delta 1e-5.
    """
    return [
        "|".join("".join(clique) for clique in _fitted(dataset, rng).cliques) for _ in range(size)
    ]


_ONE = PrivBayesGM(epsilon=1.0, delta=1e-5, **_PARAMETERS)
_ONE.set_domain({"a": 4})


@target(
    "approx:1,1e-5",
    kind="Records",
    size=20,
    low=0,
    high=3,
    **_SLOW,
    categories=True,
    relation="add-remove",
)
def privbayes_column(dataset, size, rng):
    """The noisy marginal of PrivBayesGM over one column of four values (domain given), epsilon 1,
    delta 1e-5: nothing is selected.
    """
    found = []
    for _ in range(size):
        model = copy.deepcopy(_ONE)
        model.set_random_state(random_state(rng))
        model.fit(pd.DataFrame({"a": np.array([0, 0, *dataset], dtype=int)}), marginals_only=True)
        found.append(np.concatenate([np.ravel(y) for _, y, _, _ in model.generator.measures]))
    return np.array(found)


_PIPELINE = PrivBayesPipeline(
    epsilon=1.0,
    delta=1e-5,
    proc_epsilon=0.1,
    binner_type="uniform",
    n_bins=4,
    gen_kwargs={"n_iters": 5},
    **_PARAMETERS,
)
_BOUNDS = {"lower": 0.0, "upper": 1.0}


def _synthetic(doc, cause, **declared):
    """Return the target of five synthetic values of a column, which has a public one beside it;
    bounds and the number of bins are given.
    """

    def run(dataset, size, rng):
        values = np.asarray(dataset, dtype=float)
        frame = pd.DataFrame({"x": values, "y": np.resize([0.1, 0.9], len(values))})
        found = []
        for _ in range(size):
            pipeline = copy.deepcopy(_PIPELINE)
            pipeline.fit(
                frame,
                {"x": dict(_BOUNDS), "y": dict(_BOUNDS)},
                random_state=int(rng.integers(2**32)),
            )
            made = pipeline.generate(5, random_state=int(rng.integers(2**32)))
            found.append(made["x"].to_numpy(dtype=float))
        return np.array(found)

    domain = {"kind": "Records", "size": 20, "low": 0, "high": 1, **declared}
    return target("approx:1.1,1e-5", cause, doc, **_SLOW, **domain)(run)


pipeline_constant = _synthetic(
    "PrivBayesPipeline of 20 numbers in [0, 1] (bounds given, 4 uniform bins), epsilon 1 and 0.1, "
    "delta 1e-5; one replaced.",
    "A column in which all records are equal is taken out before anything is measured, and "
    "its value is put into every synthetic row as "
    "it is: a record that differs decides whether the exact value of the others is published.",
)
pipeline_missing = _synthetic(
    'The same, where numbers may be missing ("missing values are supported and will be reproduced '
    'accordingly if present").',
    "A column for missing values is made only where one is missing: a NaN in the output says "
    "for certain that a record has one.",
    missing=True,
)
