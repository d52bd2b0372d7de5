"""JSON of audits, as far as comparisons of reports read it."""

import numpy as np

from dpwitness import Pair
from dpwitness.reports.document import build_document

NEAR = Pair(np.array([0.0]), np.array([1.0]))
TALLY = {"correct": 7_400, "wrong": 2_600, "rounds": 20_000, "directions": 2}


def row(name="m", verdict="NOT_REFUTED", *, tally=TALLY, bits=None, **more):
    """Return the JSON of an audit with the fields that are compared."""
    found = {
        "name": name,
        "kind": "black box",
        "claim": "pure:1",
        "relation": "replace-one",
        "verdict": verdict,
        "confidence": 0.99,
    }
    lower = 1.1 if verdict == "VIOLATED" else 0.9
    found |= {
        "parameter": "epsilon",
        "parameter_lower": lower,
        "tally": tally,
        "event": {"kind": "a"},
        "pair": NEAR.to_json(),
    }
    found |= ({"bit_level": {"verdict": bits, "epsilon_lower": 2.0}} if bits else {}) | more
    return found | {"pair": found["pair"] | {"relation": found["relation"] or "replace-one"}}


def report(*results):
    return build_document(results, title="t")
