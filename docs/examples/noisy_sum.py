"""A program that keeps the protocol of dpwitness: here in Python, with nothing but its standard
library.
"""

import json
import math
import random
import struct
import sys

IN, OUT = sys.stdin.buffer, sys.stdout.buffer
datasets = {}


def say(message, block=b""):
    OUT.write(json.dumps(message).encode() + b"\n" + block)
    OUT.flush()


def noisy_sum(records, rng):
    inside = [min(max(v, 0.0), 1.0) if v == v else 0.0 for v in records]
    return round((sum(inside) + rng.expovariate(1.0) - rng.expovariate(1.0)) * 1024) / 1024


def refused(asked):
    if asked.get("op") != "run":
        return "no request that is known"
    if asked["size"] < 1:
        return "size must be at least 1"
    return "" if asked["dataset"] in datasets else "no dataset has this number"


say(
    {
        "protocol": 1,
        "name": "noisy sum",
        "seedable": True,
        "datasets": ["float64"],
        "outputs": ["float64"],
        "claim": "pure:1",
        "domain": {"kind": "Records", "size": 1, "low": 0.0, "high": 1.0},
    }
)
for line in iter(IN.readline, b""):
    try:
        asked = json.loads(line)
    except ValueError:
        asked = {}
    if asked.get("op") == "dataset":
        count = math.prod(asked["shape"])
        datasets[asked["dataset"]] = struct.unpack(f"<{count}d", IN.read(8 * count))
    elif why := refused(asked):
        say({"failed": why})
    else:
        rng = random.Random(repr(asked["seed"]))
        try:
            out = [noisy_sum(datasets[asked["dataset"]], rng) for _ in range(asked["size"])]
        except Exception as error:  # an exception is an output
            say({"raised": type(error).__name__, "text": str(error)})
        else:
            say(
                {"kind": "float64", "rows": len(out), "columns": 1},
                struct.pack(f"<{len(out)}d", *out),
            )
