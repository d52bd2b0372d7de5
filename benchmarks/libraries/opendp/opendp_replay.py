"""Witnesses of the scan, run again: `python opendp_replay.py SEARCH_FOLDER rows.json` prints one
line of JSON for each row.
"""

import json
import math
import sys

import numpy as np

sys.path.insert(0, sys.argv[1])

import opendp_arrays as arrays
import opendp_chains as chains
import opendp_entries as entries
import opendp_frames as frames
import opendp_measurements as measurements
import opendp_truncations as truncations
import search  # enables the features of the library


def chain(row):
    """Return the finding of a chain's outputs on both inputs."""
    made = chains.build(row["build"])
    trial = (row["distance_in"], made.map(row["distance_in"]), row["inputs"])
    times = 200 if row["kind"] == "support" else 1  # one random output in several is far enough
    return chains.judged(row, made, [trial] * times)


def frame(row):
    """Return the finding of a query's exact results on both inputs."""
    return frames.again(row, row["distance_in"], row["inputs"])


def truncation(row):
    """Return the finding of a frame-to-frame query on both inputs."""
    return truncations.judged(row, [row["inputs"]])


def array(row):
    """Return the finding of a transformation of arrays on both inputs."""
    made = eval(row["build"], arrays.names())
    trial = (row["distance_in"], made.map(row["distance_in"]), row["inputs"])
    return arrays.judged(made, row["build"], [trial])


def measurement(row):
    """Return the finding of comparing a privacy map with the exact figure."""
    (check,) = (check for check in measurements.CHECKS if check.__name__ == row["check"])
    for found in check():
        same = all(found[key] == row[key] for key in ("build", "kind"))
        if same and list(np.ravel(found["distance_in"])) == list(np.ravel(row["distance_in"])):
            return found
    return None


def abort(row):
    """Return whether the library aborts the process on one input only; each input gets a separate
    process.
    """
    codes = [search.exit_code(row, rows) for rows in row["inputs"]]
    is_one_sided = (codes[0] < 0) != (codes[1] < 0)
    return {"kind": "abort", "allowed": None, "found": codes} if is_one_sided else None


PARTS = {
    "chains": chain,
    "frames": frame,
    "truncations": truncation,
    "arrays": array,
    "measurements": measurement,
}


def replay(row):
    """Return the name of a row, and the finding of its witness when run again: the query, both
    inputs, the bound of the map and the distance, as texts; without a finding, the kind is None.
    """
    try:
        found = (abort if row["kind"] == "abort" else PARTS[row["part"]])(row)
    except Exception as error:
        return {"name": row["name"], "kind": None, "error": str(error)[:300]}
    shown = entries.described(row | (found or {}))
    return {"name": row["name"]} | shown | {"kind": found and found["kind"]}


def main():
    """Replay all rows of a file."""
    with open(sys.argv[2], encoding="utf-8") as file:
        rows = json.load(
            file,
            parse_constant={
                "NaN": math.nan,
                "Infinity": math.inf,
                "-Infinity": -math.inf,
            }.__getitem__,
        )
    for row in rows["findings"]:
        print(json.dumps(replay(row)), flush=True)


if __name__ == "__main__":
    main()
