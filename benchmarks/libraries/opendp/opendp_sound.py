"""Search of chains of sound constructors: `python opendp_sound.py SEARCH_FOLDER SECONDS SEED`
prints each false finding, and the count.
"""

import json
import os
import random
import re
import sys

os.environ |= {"RUST_BACKTRACE": "0", "RUST_LIB_BACKTRACE": "0"}
sys.path.insert(0, sys.argv[1])

import opendp.prelude as dp

dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")

import opendp_chains as chains  # noqa: E402

MOST = 10_000
SOUND = """
bounded_float_checked_sum bounded_float_ordered_sum bounded_int_monotonic_sum bounded_int_ordered_sum
bounded_int_split_sum cast_default cast_inherent clamp count count_by_categories count_distinct drop_null find_bin
impute_constant index is_equal is_null lipschitz_float_mul mean quantile_score_candidates
sized_bounded_float_checked_sum sized_bounded_float_ordered_sum sized_bounded_int_checked_sum
sized_bounded_int_monotonic_sum sized_bounded_int_ordered_sum sized_bounded_int_split_sum sum unordered variance
"""  # constructors whose maps are proved in the papers that their docstrings cite, or that change each row by itself  # noqa: E501


def main():
    """Search until the CPU time is over or enough chains were searched; print each finding, which
    is a false one, and the number of chains.
    """
    seconds, seed = float(sys.argv[2]), int(sys.argv[3])
    rng, tried, names = random.Random(seed), 0, re.compile(r"(?:make|then)_([a-z_]+)\(")
    for entry, made in chains.candidates(seconds, seed):
        if not set(names.findall(entry["build"])) <= set(SOUND.split()):
            continue
        tried += 1
        found = chains.search(entry, made, rng, 8)
        if found:
            print(json.dumps({"finding": found}, default=str), flush=True)
        if tried == MOST:
            break
    print(json.dumps({"sound": tried}), flush=True)


if __name__ == "__main__":
    main()
