"""Extraction of the features X and the labels y of a dataset."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np

from .errors import MechanismFailed


def parts(dataset: Any, label: Optional[int], labeled: bool = False) -> Tuple[Any, Any]:
    """Return X and y of a dataset; y is None without labels. With `labeled`, the last column of an
    array is y.
    """
    fields = (
        dataset
        if isinstance(dataset, dict)
        else {key: getattr(dataset, key) for key in ("x", "y") if hasattr(dataset, key)}
    )
    if {"x", "y"} <= set(fields):
        counts = fields.get("multiplicity", getattr(dataset, "multiplicity", None))
        x, y = np.asarray(fields["x"]), np.asarray(fields["y"])
        return (x, y) if counts is None else (np.repeat(x, counts, axis=0), np.repeat(y, counts))
    if (
        isinstance(dataset, (tuple, list))
        and len(dataset) == 2
        and all(isinstance(part, np.ndarray) for part in dataset)
    ):
        return dataset[0], dataset[1]
    if labeled and label is None and hasattr(dataset, "iloc") and getattr(dataset, "ndim", 0) == 2:
        return dataset.iloc[:, :-1], dataset.iloc[:, -1]
    rows = np.array(dataset)
    if rows.ndim == 1:
        rows = rows[:, None]
    if labeled and label is None:
        if rows.shape[1] < 2:
            raise MechanismFailed(
                "labels are required: give rows with the label in the last column, or (X, "
                f"y); got shape {rows.shape}"
            )
        label = -1
    if label is None:
        return rows, None
    if not -rows.shape[1] <= label < rows.shape[1]:
        raise MechanismFailed(
            f"from_estimator: label must be a column of the dataset, got {label} for shape "
            f"{rows.shape}"
        )
    return np.delete(rows, label, axis=1), rows[:, label]
