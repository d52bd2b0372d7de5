import numpy as np


def add_noise(value, sensitivity, epsilon, rng):
    return value + rng.laplace(0.0, sensitivity / epsilon)


PRIMITIVES = {  # one line each: the law, and which arguments say what
    "add_noise": {
        "law": "laplace",
        "input": "value",
        "scale": "sensitivity / epsilon",
        "sensitivity": "sensitivity",
    }
}


def mean(dataset, size, rng):
    present = dataset[dataset > 0]
    return np.array(
        [
            add_noise(present.mean() if len(present) else 0.0, 1 / len(dataset), 1.0, rng)
            for _ in range(size)
        ]
    )


mean.claim, mean.domain = "pure:1", {"kind": "Records", "size": 5, "low": 0.0, "high": 1.0}
