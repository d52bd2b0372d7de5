"""Needs a library that is not installed."""

import a_library_that_is_not_installed


def unreachable_sum(values: list, epsilon: float = 1.0):
    """Private sum of a module that cannot be imported."""
    return a_library_that_is_not_installed.laplace(sum(values), 1 / epsilon)
