"""Typed search of OpenDP from its signatures: `python search.py --seconds 600` prints an entry for
a target file in each line of JSON.

Runs inside the interpreter of the library, with nothing but the library. Workers search; a worker
that the library aborts is started again, and the query that it had announced last is tried input by
input. `benchmarks/scan/opendp.py` audits the entries.
"""

import argparse
import itertools
import json
import math
import os
import random
import re
import resource
import subprocess
import sys
import time
import warnings

# an error with its trace takes 70 ms
os.environ |= {"RUST_BACKTRACE": "0", "RUST_LIB_BACKTRACE": "0", "POLARS_MAX_THREADS": "1"}
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
warnings.simplefilter("ignore")

import opendp.prelude as dp  # noqa: E402

dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")

import opendp_arrays as arrays  # noqa: E402
import opendp_chains as chains  # noqa: E402
import opendp_entries as entries  # noqa: E402
import opendp_frames as frames  # noqa: E402
import opendp_inputs as inputs  # noqa: E402
import opendp_truncations as truncations  # noqa: E402

KINDS = [
    ("i64", 0, 0),
    ("i64", 1, 0),
    ("f64", 0, 1),
    ("f64", 1, 0),
    ("f64", 0, 0),
    ("str", 0, 0),
    ("u32", 0, 0),
    ("f32", 0, 0),
    ("date", 0, 0),
    ("datetime", 0, 0),
    ("time", 0, 0),
    ("bool", 1, 0),
    ("i8", 0, 0),
    ("i32", 0, 0),
]
PARTS = ("chains", "frames", "truncations", "arrays")
FIRST = ("arrays",)  # parts that end by themselves, and run once
X = "pl.col('x')"


def say(kind, content):
    """Write one line of JSON."""
    print(json.dumps({kind: content}, default=str), flush=True)


def search_chains(seconds, seed):
    """Search chains of transformations of vectors and scalars."""
    rng = random.Random(seed)
    spoiled = set()
    for entry, made in chains.candidates(seconds, seed, spoiled):
        say("trying", entry)
        found = chains.search(entry, made, rng)
        if found:
            spoiled.add(entry["build"])
            say("finding", found)


def texts_of(starts, rng):
    """Return the expressions that Polars builds: methods of each start, and operators on x."""
    texts = [text for start, most in starts for text in frames.applied(start, rng, most)]
    return list(filter(frames.is_expression, [*texts, *frames.binaries(X)]))


def expression_pool(columns, rng):
    """Return expressions on column x that OpenDP accepts: row by row, and then those that only
    aggregations accept.
    """
    texts = texts_of([(X, 2)], rng)
    rows = [t for t in texts if frames.accepted_rows(columns, t)]
    counts = {t: t + ".dp.len(1.0, signed=True)" for t in texts if t not in rows}
    inner = [
        t
        for t, count in counts.items()
        if frames.accepted_aggregation(frames.entry(columns, "select", count))
    ]
    return [X, *rows, *inner]


def search_frames(seconds, seed):
    """Search queries of one column type: random expressions of up to three calls, aggregated in
    random scenes.
    """
    rng, deadline = random.Random(seed), time.monotonic() + seconds
    kind = KINDS[seed % len(KINDS)]
    columns = frames.columns_of(kind[0], bool(kind[1]), bool(kind[2]))
    pool = expression_pool(columns, rng)
    types = {text: frames.type_of(columns, text) for text in pool}
    own, queue = types[X], rng.sample(pool, len(pool))
    while time.monotonic() < deadline:
        text = queue.pop() if queue else rng.choice(pool)
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            if frames.type_of(columns, text) == own:  # the pool was tried on this type
                text = rng.choice(pool).replace(X, text, 1)
        form = rng.choice(frames.aggregations(columns, text))
        entry = frames.entry(columns, frames.scene_for(form, rng), form.format(e=text))
        if frames.accepted_aggregation(entry):
            say("trying", entry)
            found = frames.search(entry, rng)
            if found:
                say("finding", smallest(found, rng))


def smallest(found, rng):
    """Return a finding of the same kind with as few calls as possible."""
    calls = split_calls(found["expression"])
    for i in range(len(calls) - 1, 0, -1):
        shorter = "".join(calls[:i] + calls[i + 1 :])
        entry = {
            name: found[name]
            for name in found
            if name not in ("kind", "distance_in", "allowed", "found", "inputs", "outcomes")
        }
        entry |= {
            "expression": shorter,
            "plan": found["plan"].replace(found["expression"], shorter),
        }
        if len(calls) > 2 and frames.accepted_aggregation(entry):
            other = frames.search(entry, rng)
            if other and other["kind"] == found["kind"]:
                return smallest(other, rng)
    return found


def split_calls(text):
    """Return the parts of a chain of calls on column x: its start, then each `.name(...)` outside
    of parentheses.
    """
    depth, starts = 0, [0]
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth == 0 and i > 2 and re.match(r"\)\.[a-z_]", text[i - 1 :]):
            starts.append(i)
    return [text[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


def search_truncations(seconds, seed):
    """Search frame-to-frame queries."""
    rng, deadline = random.Random(seed), time.monotonic() + seconds
    made = list(truncations.plans(texts_of([(X, 2), ("pl.col('g')", 1)], rng), rng))
    for metric, d_in, plan in rng.sample(made, len(made)):
        if time.monotonic() > deadline:
            return
        entry = truncations.entry(metric, d_in, plan)
        if inputs.tried(truncations.build, entry)[0] == "output":
            say("trying", entry)
            found = truncations.search(entry, rng)
            if found:
                say("finding", found)


def search_arrays(seconds, seed):
    """Search transformations of arrays."""
    for found in arrays.search(1.5 * seconds):
        say("finding", found)


SEARCHES = {
    "chains": search_chains,
    "frames": search_frames,
    "truncations": search_truncations,
    "arrays": search_arrays,
}


def supervise(arguments):
    """Run workers in turn until the time is over, and print the entry of each new finding."""
    deadline, seed, tried, known = (
        time.monotonic() + arguments.seconds,
        arguments.seed,
        dict.fromkeys(PARTS, 0),
        Known(),
    )
    length = min(arguments.slice, arguments.seconds / 8)
    say("header", entries.HEADER)
    order = (
        "chains",
        "frames",
        "truncations",
        "frames",
        "frames",
        "chains",
        "frames",
        "truncations",
        "frames",
    )
    for turn in itertools.count():
        left = deadline - time.monotonic()
        if left <= 0:
            break
        part = FIRST[turn] if turn < len(FIRST) else order[turn % len(order)]
        options = [
            "--worker",
            part,
            "--seed",
            str(seed + turn),
            "--seconds",
            str(min(length, left)),
        ]
        worker = subprocess.Popen(
            [sys.executable, __file__, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        last = None
        for line in worker.stdout:
            kind, content = message(line)
            if kind == "trying":
                tried[part] += 1
                last = content
            elif kind is not None:
                known.take(content)
            if time.monotonic() > deadline + length:
                worker.kill()
        if worker.wait() != 0 and last is not None and time.monotonic() < deadline:
            known.aborted(last)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(
        "tried",
        tried
        | {"findings": known.findings, "processor seconds": round(used.ru_utime + used.ru_stime)},
    )


def message(line):
    """Return the kind and the content of a worker's line; None for a line that the library has
    printed.
    """
    try:
        ((kind, content),) = json.loads(line).items()
    except (ValueError, AttributeError):
        return None, None
    return kind, content


class Known:
    """Causes of findings."""

    def __init__(self):
        self.findings, self.calls, self.aborts = 0, {}, set()

    def take(self, found):
        """Print the entry of a finding, unless an earlier one of its kind has a part of its
        calls.
        """
        self.findings += 1
        known = self.calls.setdefault(found["kind"], [])
        calls = frozenset(cause(found).split())
        if not any(each <= calls for each in known):
            known.append(calls)
            made = entries.entry(found)
            if made is not None:
                say("entry", made)

    def aborted(self, last):
        """Print the entry of the query that a worker had announced before the library aborted it,
        if one of two neighbors aborts.
        """
        name = cause(last | {"kind": "abort"})
        found = probe(last) if name not in self.aborts else None
        self.aborts.add(name)
        if found:
            self.take(found)


def probe(entry, most=8):
    """Return a finding if the library aborts the process on one of two neighbors and not on the
    other; each runs in a separate process.
    """
    known = {}

    def outcome(rows):
        if repr(rows) not in known:
            known[repr(rows)] = "abort" if exit_code(entry, rows) < 0 else "output", None
        return known[repr(rows)]

    for pair in neighbors(entry, random.Random(0), 4 * most):
        if len(known) > most:
            return None
        found = inputs.difference(
            entry, [(1, None, pair)], outcome, lambda *_: None, lambda *_: "abort"
        )
        if found:
            return found
    return None


def neighbors(entry, rng, most):
    """Return neighbors for an entry, which are members of its domain."""
    if entry["part"] == "chains":
        member = chains.build(entry["build"]).input_domain.member
        return (pair for pair in chains.datasets(entry, 1, rng, most) if all(map(member, pair)))
    if entry["part"] == "frames":
        return frames.pairs(entry, entry["d_in"][0], most, rng)
    return ()


def exit_code(entry, rows):
    """Return the exit code of a separate process that applies an entry to one dataset."""
    command = [sys.executable, __file__, "--probe", json.dumps(entry), "--rows", repr(rows)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run(command, check=False, **quiet).returncode


def cause(found):
    """Return a name under which findings of the same calls and kind fall together."""
    if found.get("scene") in ("renamed", "joined-part", "joined-twice", "joined-result"):
        return "scene " + found["scene"]  # of each expression
    if found.get("part") == "arrays":
        return " ".join([found["kind"], *sorted(set(re.findall(r"make_\w+", found["build"])))])
    text = found.get("expression") or found.get("plan") or found["build"]
    names = re.findall(
        r"\.(?:then_|make_)?([a-z_0-9]+)\(|( [-+*/%]{1,2} | \*\* )",
        re.sub(r"dp\.(vector|atom)_domain|dp\.\w+_distance", "", text),
    )
    return " ".join(
        [found.get("kind", ""), found.get("scene", ""), *(a or b.strip() for a, b in names)]
    )


def main():
    """Parse the arguments, and run a worker or the supervisor."""
    parser = argparse.ArgumentParser(description="Search OpenDP from its signatures.")
    parser.add_argument("--worker", choices=tuple(SEARCHES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--slice", type=float, default=20.0)
    parser.add_argument("--probe")
    parser.add_argument("--rows")
    arguments = parser.parse_args()
    if arguments.probe:
        entry = json.loads(arguments.probe)
        rows = eval(arguments.rows, {"nan": math.nan, "inf": math.inf})
        if entry["part"] == "chains":
            chains.outcome(chains.build(entry["build"]), rows)
        else:
            frames.result(frames.query(entry, 0.0), entry, rows)
    elif arguments.worker:
        SEARCHES[arguments.worker](arguments.seconds, arguments.seed)
    else:
        supervise(arguments)


if __name__ == "__main__":
    main()
