"""Comparison of the verified program with checker.py: ``python compare_with_proof.py PROGRAM
[CHECKER] [WITNESS ...]``.

Both compute the bound on the binomial tail for edge cases, 10,000 random inputs, and all inputs
that occur in the check of the witnesses. The answers must be equal, digit by digit.
"""

import importlib.util
import random
import subprocess
import sys
from itertools import product
from pathlib import Path

CHECKER = Path(__file__).parents[3] / "proofs_checks" / "kernel" / "checker.py"
RANDOM_INPUTS = 10_000


def load(path):
    """Return the module `checker` of a file."""
    spec = importlib.util.spec_from_file_location("checker", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def edge_cases(one, stop):
    """Yield inputs at the ends of their ranges: no trials, no or only successes, small and large
    odds, coarse units, early ends.
    """
    odds = [
        (1, 1),
        (1, 2),
        (2, 1),
        (1, one - 1),
        (one - 1, 1),
        (1, 10**9),
        (10**9, 1),
        (one // 3, one - one // 3),
    ]
    units = [(one, stop), (one, 0), (one, one), (1, 0), (1, 1), (2, 0), (1024, 1024)]
    for n, (a, c), (unit, end) in product((0, 1, 2, 3, 10, 1000), odds, units):
        for k in sorted({0, min(1, n), n // 2, max(0, n - 1), n}):
            yield n, k, a, c, unit, end


def random_inputs(rng, count, one, stop):
    """Yield random inputs, a third of them with counts near the mean."""
    for _ in range(count):
        n = rng.choice(
            [rng.randint(0, 40)] * 60 + [rng.randint(0, 3000)] * 39 + [rng.randint(0, 10**6)]
        )
        p = rng.choice([rng.random(), rng.random() ** 8, 1 - rng.random() ** 8])
        a = min(one - 1, max(1, int(p * 2**60) * (one >> 60) + rng.randrange(max(1, one >> 60))))
        near = int(n * p + rng.gauss(0, 3) * (n * p * (1 - p)) ** 0.5)
        k = rng.choice([rng.randint(0, n), min(n, max(0, near)), min(n, max(0, near))])
        yield (
            n,
            k,
            a,
            one - a,
            *rng.choice(
                [(one, stop), (one, stop), (2**64, 2**16), (2**30, 0), (rng.randint(1, 99), 0)]
            ),
        )


def inputs_of_witnesses(checker, paths):
    """Return all inputs of `tail` in the check of the witnesses at these paths."""
    calls, tail = [], checker.tail

    def record(n, k, a, c, one=checker.ONE, stop=checker.STOP):
        calls.append((n, k, a, c, one, stop))
        return tail(n, k, a, c, one, stop)

    checker.tail = record
    try:
        for path in paths:
            checker.answer(str(path))
    finally:
        checker.tail = tail
    return calls


def main(program, path=CHECKER, *witnesses):
    """Compare, print the numbers of inputs and of differences, and return the exit code."""
    checker = load(path)
    one, stop = checker.ONE, checker.STOP
    inputs = [*edge_cases(one, stop), *random_inputs(random.Random(1), RANDOM_INPUTS, one, stop)]
    recorded = inputs_of_witnesses(checker, witnesses)
    inputs += sorted(set(recorded))
    text = "".join(" ".join(map(str, line)) + "\n" for line in inputs)
    answers = subprocess.run(
        [program], input=text, capture_output=True, text=True, check=True
    ).stdout.split()
    wrong = [
        line
        for line, answer in zip(inputs, answers, strict=True)
        if int(answer) != checker.tail(*line)
    ]
    print(
        f"{len(inputs)} inputs, of which {len(set(recorded))} from {len(witnesses)} "
        f"witnesses: {len(wrong)} differences"
    )
    for line in wrong[:5]:
        print("different:", *line)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
