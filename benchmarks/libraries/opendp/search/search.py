"""Typed search of OpenDP from its signatures: `python search.py --seconds 600 --seed 1` prints an
entry for a target file in each line of JSON. The budget is CPU time, of all processes together.

Runs inside the interpreter of the library, with nothing but the library. Workers search; a worker
that the library aborts is started again, and the query that it had announced last is tried input by
input. `benchmarks/scan/opendp.py` audits the entries.
"""

import argparse
import ast
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
import opendp_measurements as measurements  # noqa: E402
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
PARTS = ("chains", "frames", "truncations", "arrays", "measurements")
FIRST = ("measurements", "arrays")  # parts that end by themselves, and run once
X = "pl.col('x')"
LENGTH = "dp.len(1.0, signed=True)"
# part: the source that shrinks, and the function that judges a query on one pair again
SHRUNK = {
    "frames": ("expression", frames.again),
    "truncations": ("plan", lambda entry, _, pair: truncations.judged(entry, [pair])),
}


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
            other = inputs.value_of(chains.alone, found)
            say("finding", other if other and nature(other) == nature(found) else found)


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
    rng, deadline, seen = random.Random(seed), time.process_time() + seconds, set()
    kind = KINDS[seed % len(KINDS)]
    columns = frames.columns_of(kind[0], bool(kind[1]), bool(kind[2]))
    pool = expression_pool(columns, rng)
    types = {text: frames.type_of(columns, text) for text in pool}
    own, queue = types[X], rng.sample(pool, len(pool))
    while time.process_time() < deadline:
        text = queue.pop() if queue else rng.choice(pool)
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            if frames.type_of(columns, text) == own:  # the pool was tried on this type
                text = rng.choice(pool).replace(X, text, 1)
        form = rng.choice(frames.aggregations(columns, text))
        entry = frames.entry(columns, frames.scene_for(form, rng), form.format(e=text))
        if frames.accepted_aggregation(entry):
            say("trying", entry)
            shrink_and_say(frames.search(entry, rng), seen)


def shrink_and_say(found, seen):
    """Write a finding with a small query, unless its calls have been seen."""
    if found and cause(found) not in seen:
        seen.add(cause(found))
        say("finding", smallest(found))


def smallest(found):
    """Return a finding of the same nature, on the same two datasets, whose query has as few calls
    and operators as possible.

    If the scene shows the finding with a plain count too, the scene is at fault, not the
    expression.
    """
    key, again = SHRUNK[found["part"]]
    bare = {name: found[name] for name in found if name not in inputs.FINDING}
    for text in [*([LENGTH] if key == "expression" else []), *smaller(found[key])]:
        entry = bare | {"plan": found["plan"].replace(found[key], text), key: text}
        other = inputs.value_of(again, entry, found["distance_in"], found["inputs"])
        if len(text) < len(found[key]) and other and nature(other) == nature(found):
            return smallest(other)
    return found


def nature(found):
    """Return the properties of a finding that must not change while its query shrinks: its kind
    (a distance of random outputs is one too), whether the distance is infinite, and which bound is
    exceeded.
    """
    text, kind = str(found["found"]), found["kind"].replace("support", "distance")
    return kind, text == "inf", kind == "bound" and text.partition(" by ")[0]


def smaller(text):
    """Return the sources of an expression with one call or operator less, the shortest first."""
    found = set()
    for node in ast.walk(ast.parse(text, mode="eval")):
        parts = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts = [node.func.value]
        elif isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        for part in map(without_namespace, parts):
            inner = f"({text[part.col_offset : part.end_col_offset]})"
            shorter = text[: node.col_offset] + inner + text[node.end_col_offset :]
            found.add(ast.unparse(ast.parse(shorter, mode="eval")))
    return sorted(found, key=lambda source: (len(source), source))


def without_namespace(node):
    """Return an expression without a namespace, such as `.str`, at its end."""
    return without_namespace(node.value) if isinstance(node, ast.Attribute) else node


def search_truncations(seconds, seed):
    """Search frame-to-frame queries."""
    rng, deadline, seen = random.Random(seed), time.process_time() + seconds, set()
    made = list(truncations.plans(texts_of([(X, 2), ("pl.col('g')", 1)], rng), rng))
    for metric, d_in, plan in rng.sample(made, len(made)):
        if time.process_time() > deadline:
            return
        entry = truncations.entry(metric, d_in, plan)
        if inputs.tried(truncations.build, entry)[0] == "output":
            say("trying", entry)
            shrink_and_say(truncations.search(entry, rng), seen)


def search_arrays(seconds, seed):
    """Search transformations of arrays."""
    for found in arrays.search(random.Random(seed), 1.5 * seconds):
        say("finding", found)


def search_measurements(seconds, seed):
    """Compare privacy maps with exact figures."""
    for found in itertools.chain.from_iterable(check() for check in measurements.CHECKS):
        say("finding", found)


SEARCHES = {
    "chains": search_chains,
    "frames": search_frames,
    "truncations": search_truncations,
    "arrays": search_arrays,
    "measurements": search_measurements,
}


def cpu_seconds():
    """Return the CPU time so far of this process and of the workers and probes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


def supervise(arguments):
    """Run workers in turn until the CPU time is over, and print the entry of each new finding."""
    tried, known = dict.fromkeys(PARTS, 0), Known(arguments.seed)
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
        left = arguments.seconds - cpu_seconds()
        if left <= 0:
            break
        part = FIRST[turn] if turn < len(FIRST) else order[turn % len(order)]
        options = [
            "--worker",
            part,
            "--seed",
            str(arguments.seed + turn),
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
        if worker.wait() != 0 and last is not None and cpu_seconds() < arguments.seconds:
            known.aborted(last)
    say("tried", tried | {"findings": known.findings, "cpu seconds": round(cpu_seconds())})


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

    def __init__(self, seed):
        self.seed, self.findings, self.calls, self.aborts = seed, 0, {}, set()

    def take(self, found):
        """Print the entry of a finding, unless an earlier one of its kind has a part of its
        calls.
        """
        self.findings += 1
        known = self.calls.setdefault(found["kind"], [])
        calls = frozenset(cause(found).split())
        if not any(each <= calls for each in known):
            known.append(calls)
            say("entry", entries.entry(found))

    def aborted(self, last):
        """Print the entry of the query that a worker had announced before the library aborted it,
        if one of two neighbors aborts.
        """
        name = cause(last | {"kind": "abort"})
        found = probe(last, random.Random(self.seed)) if name not in self.aborts else None
        self.aborts.add(name)
        if found:
            self.take(found)


def probe(entry, rng, most=8):
    """Return a finding if the library aborts the process on one of two neighbors and not on the
    other; each runs in a separate process.
    """
    known = {}

    def outcome(rows):
        if repr(rows) not in known:
            known[repr(rows)] = "abort" if exit_code(entry, rows) < 0 else "output", None
        return known[repr(rows)]

    for pair in neighbors(entry, rng, 4 * most):
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
    command = [sys.executable, __file__, "--seed", "0", "--seconds", "20"]
    command += ["--probe", json.dumps(entry), "--rows", repr(rows)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run(command, check=False, **quiet).returncode


def cause(found):
    """Return a name under which findings of the same calls and kind fall together."""
    if found.get("expression") == LENGTH:
        return f"{found['kind']} scene {found['scene']}"
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
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="CPU time")
    parser.add_argument("--slice", type=float, default=20.0)
    parser.add_argument("--probe")
    parser.add_argument("--rows")
    arguments = parser.parse_args()
    if arguments.probe or arguments.worker:
        # a worker or probe that does not end is killed after a minute more
        limit = math.ceil(arguments.seconds) + 60
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
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
