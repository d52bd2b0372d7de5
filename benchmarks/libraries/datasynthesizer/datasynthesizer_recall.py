"""DataSynthesizer: descriptions of a table from which synthetic data are drawn."""

import contextlib
import io
import json
import os
import tempfile

import numpy as np
import pandas as pd
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.lib.PrivBayes import construct_noisy_conditional_distributions
from library_target import target

LIBRARY = "DataSynthesizer"

_NETWORK = [("b", ["a"]), ("c", ["b"])]


@target(
    "pure:1",
    batch=256,
    kind="Rows",
    size=6,
    features=((0, 1), (0, 1), (0, 1)),
    categories=(0, 1, 2),
    relation="add-remove",
)
def network_distributions(dataset, size, rng):
    """construct_noisy_conditional_distributions of a fixed network on three columns, epsilon 1; one
    row more or less among public rows.

    The public rows hold each category of each column, so the function sees the same domain for all
    data.
    """
    public = [(0, 0, 0), (1, 1, 1)]
    rows = [
        *public,
        *((int(row[0]), int(row[1]), int(row[2])) for row in np.asarray(dataset).reshape(-1, 3)),
    ]
    frame, found = pd.DataFrame(rows, columns=["a", "b", "c"]), []
    np.random.seed(int(rng.integers(2**32, dtype=np.uint64)))
    for _ in range(size):
        tables = construct_noisy_conditional_distributions(_NETWORK, frame, 1.0)
        found.append(
            np.concatenate(
                [
                    np.ravel(tables["a"]),
                    *(np.ravel(list(tables[name].values())) for name in ("b", "c")),
                ]
            )
        )
    return np.array(found, dtype=float)


@target("pure:1", batch=64, seeded=False, kind="Records", size=10, low=0, high=2, categories=True)
def described_by_default(dataset, size, rng):
    """describe_dataset_in_independent_attribute_mode of 10 rows of one categorical column with a
    public domain, epsilon 1.
    """
    found = []
    with tempfile.TemporaryDirectory() as folder:
        data, domain = os.path.join(folder, "data.csv"), os.path.join(folder, "domain.json")
        pd.DataFrame({"city": [f"c{int(value)}" for value in dataset]}).to_csv(data, index=False)
        with open(domain, "w", encoding="utf-8") as file:
            json.dump({"city": ["c0", "c1", "c2"]}, file)
        for _ in range(size):
            describer = DataDescriber()
            with contextlib.redirect_stdout(io.StringIO()):
                describer.describe_dataset_in_independent_attribute_mode(
                    data,
                    epsilon=1.0,
                    attribute_to_datatype={"city": "String"},
                    attribute_to_is_categorical={"city": True},
                    attribute_to_is_candidate_key={"city": False},
                    categorical_attribute_domain_file=domain,
                )
            found.append(
                [
                    float(value)
                    for value in describer.attr_to_column["city"].distribution_probabilities
                ]
            )
    return found
