"""The sum of decision trees at the rows of a matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpwitness.mechanisms.numerics.jit import jit


@jit
def sum_of_trees(
    matrix: NDArray[np.float64],
    feature: NDArray[np.int64],
    threshold: NDArray[np.float64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    value: NDArray[np.float64],
    roots: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Of each row: from each root to the left where a number is at most the threshold, else (NaN too) to the right, down to a leaf."""
    total = np.zeros(len(matrix))
    for i in range(len(matrix)):
        for root in roots:
            node = root
            while left[node] >= 0:
                node = left[node] if matrix[i, feature[node]] <= threshold[node] else right[node]
            total[i] += value[node]
    return total
