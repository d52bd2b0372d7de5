"""DataSynthesizer: the description of a numeric column."""

import contextlib
import io
import os
import tempfile

import pandas as pd
from DataSynthesizer.DataDescriber import DataDescriber
from library_target import target

LIBRARY = "DataSynthesizer"


@target("pure:1", batch=64, kind="Records", size=10, low=0, high=100, relation="replace-one")
def described_numbers(dataset, size, rng):
    """describe_dataset_in_independent_attribute_mode of 10 rows of one number in [0, 100], epsilon
    1: range and distribution of the column.
    """
    found = []
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data.csv")
        pd.DataFrame({"age": [float(value) for value in dataset]}).to_csv(data, index=False)
        for _ in range(size):
            describer = DataDescriber()
            with contextlib.redirect_stdout(io.StringIO()):
                describer.describe_dataset_in_independent_attribute_mode(
                    data,
                    epsilon=1.0,
                    attribute_to_datatype={"age": "Float"},
                    attribute_to_is_categorical={"age": False},
                    attribute_to_is_candidate_key={"age": False},
                    seed=int(rng.integers(2**32)),
                )
            column = describer.attr_to_column["age"]
            probabilities = [float(value) for value in column.distribution_probabilities]
            found.append([float(column.min), float(column.max), *probabilities])
    return found
