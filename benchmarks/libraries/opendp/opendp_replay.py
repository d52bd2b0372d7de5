"""Witnesses of the scan, run again: `python opendp_replay.py SEARCH_FOLDER rows.json` prints one
line of JSON for each row.
"""

import json
import math
import os
import subprocess
import sys
import warnings

os.environ |= {"RUST_BACKTRACE": "0", "RUST_LIB_BACKTRACE": "0", "POLARS_MAX_THREADS": "1"}
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")

import opendp.prelude as dp  # noqa: E402

dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")

import opendp_arrays as arrays  # noqa: E402
import opendp_chains as chains  # noqa: E402
import opendp_frames as frames  # noqa: E402
import opendp_inputs as inputs  # noqa: E402
import opendp_measurements as measurements  # noqa: E402
import opendp_truncations as truncations  # noqa: E402


def chain(row):
    """Return the finding of a chain's outputs on both inputs, with the numbers."""
    made = chains.build(row["build"])
    allowed = made.map(row["distance_in"])
    members = all(made.input_domain.member(v) for v in row["inputs"])
    within = inputs.distance(row["input_metric"], *row["inputs"]) <= row["distance_in"] ** (
        2 if row["input_metric"] == "l2" else 1
    )
    one, other = (chains.outcome(made, v) for v in row["inputs"])
    if row["kind"] == "support":
        again = chains.far_outcome(row, made, allowed)
        return "support" if members and within and again is not None else None, allowed, again
    if one[0] != other[0]:
        return "error" if members and within else None, allowed, None
    found = inputs.distance(row["output_metric"], one[1], other[1])
    return (
        "distance"
        if members and within and inputs.exceeds(row["output_metric"], found, allowed)
        else None,
        allowed,
        found,
    )


def frame(row):
    """Return the finding of a query's exact results on both inputs, with the numbers."""
    allowed = frames.claim(frames.query(row, frames.SCALE), row["distance_in"])
    fits = (
        frames.allowed_pair(row, *row["inputs"])
        and inputs.row_distance(row["input_metric"], *row["inputs"]) <= row["distance_in"]
    )
    exact = frames.query(row, 0.0)
    one, other = (frames.result(exact, row, rows) for rows in row["inputs"])
    if one[0] != other[0]:
        return "error" if fits else None, allowed, None
    found = frames.gap(one[1], other[1], frames.key_columns(row))
    return "distance" if fits and found > allowed else None, allowed, found


def truncation(row):
    """Return the finding of a frame-to-frame query on both inputs."""
    made, bounds = truncations.build(row)
    one, other = (truncations.outcome(made, row, rows) for rows in row["inputs"])
    if one[0] != other[0]:
        return "error", row["allowed"], None
    found = truncations.excess(bounds, one[1], other[1])
    return "bound" if found else None, row["allowed"], found


def array(row):
    """Return the finding of a transformation of arrays on both inputs."""
    space = arrays.names()
    np, made = space["np"], arrays.built(row["build"], space)
    one, other = (
        arrays.outcome(made, np.array(v, dtype=float).reshape(-1, 2)) for v in row["inputs"]
    )
    if one[0] != other[0]:
        return "error", row["allowed"], None
    found, allowed = arrays.gap(made, one[1], other[1]), made.map(row["distance_in"])
    return "distance" if found > allowed * arrays.SLACK else None, allowed, found


def measurement(row):
    """Return the finding of comparing a privacy map with the exact figure."""
    for check in measurements.CHECKS:
        for found in check() if check.__name__ == row["check"] else ():
            if (
                found["build"] == row["build"]
                and found["kind"] == row["kind"]
                and str(found["distance_in"]) == str(_tuple(row["distance_in"]))
            ):
                return found["kind"], found["allowed"], found["found"]
    return None, row["allowed"], None


def _tuple(value):
    return tuple(value) if isinstance(value, list) else value


def abort(row):
    """Return whether the library aborts the process on one input only; each input gets a separate
    process.
    """
    script = os.path.join(sys.argv[1], "search.py")
    command = [
        sys.executable,
        script,
        "--worker",
        row["part"],
        "--probe",
        json.dumps(row),
        "--rows",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    codes = [
        subprocess.run([*command, repr(rows)], check=False, **quiet).returncode
        for rows in row["inputs"]
    ]
    return "abort" if (codes[0] < 0) != (codes[1] < 0) else None, None, codes


PARTS = {
    "chains": chain,
    "frames": frame,
    "truncations": truncation,
    "arrays": array,
    "measurements": measurement,
}


def replay(row):
    """Return the name of a row, the finding of its witness when run again, and the numbers."""
    try:
        shown, allowed, found = abort(row) if row["kind"] == "abort" else PARTS[row["part"]](row)
    except Exception as error:
        return {"name": row["name"], "kind": None, "error": str(error)[:300]}
    return {"name": row["name"], "kind": shown, "allowed": str(allowed), "found": str(found)}


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
