"""What the target files of libraries share: declarations of targets, and runs after a seed.

Workers find this folder for the files of `benchmarks/libraries`. Python 3.8 or later, with NumPy.
"""

import random

import numpy as np

SETTINGS = ("seeded", "batch", "trials", "expected_findings")


def target(claim, cause="", doc="", **declared):
    """Return a decorator that declares a function as a target.

    Keywords in `SETTINGS` are attributes of the target, the others are its domain. `doc` is for
    functions without a docstring.
    """

    def declare(function):
        settings = {name: declared[name] for name in SETTINGS if name in declared}
        domain = {name: value for name, value in declared.items() if name not in SETTINGS}
        vars(function).update(settings, claim=claim, cause=cause, domain=domain)
        function.__doc__ = doc or function.__doc__
        return function

    return declare


def accountants(module, **rows):
    """Define accountants in a module, and return their declarations for TARGETS.

    A row is the mechanism, what the accountant returns, the function, whose arguments have the
    names of the mechanism's parameters, and the ranges of some parameters.
    """
    found = {}
    for name, (mechanism, returns, function, ranges) in rows.items():
        module[name] = function
        parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
        found[name] = {
            "kind": "accountant",
            "mechanism": mechanism,
            "returns": returns,
            "parameters": {parameter: parameter for parameter in parameters},
            "ranges": ranges,
        }
    return found


def random_state(rng):
    """Return a seeded generator of NumPy's old kind."""
    return np.random.RandomState(rng.integers(2**32, dtype=np.uint64))


def seed_numpy(rng):
    """Seed NumPy's global generator."""
    np.random.seed(rng.integers(2**32, dtype=np.uint64))


def seed_random(rng):
    """Seed the generator of the module `random`."""
    random.seed(int(rng.integers(2**63)))


def runs(seed, one):
    """Return the function of a target that calls `one(dataset)` for each run, after a seed."""

    def run(dataset, size, rng):
        seed(rng)
        return np.array([one(dataset) for _ in range(size)])

    return run
