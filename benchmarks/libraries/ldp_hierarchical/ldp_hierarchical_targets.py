"""ldp-hierarchical-mechanism 0.1.3: a tree of counts under local privacy. Noise is of pure-ldp's
clients: `random`, NumPy's global.
"""

import numpy as np
from hierarchical_mechanism_LDP.mechanism import Private_TreeBary
from library_target import seed_numpy, seed_random, target

LIBRARY = "ldp-hierarchical-mechanism"


def _tree(protocol, every):
    def function(dataset, size, rng):
        seed_random(rng)
        seed_numpy(rng)
        values = [int(value) for value in dataset]
        found = []
        for _ in range(size):
            tree = Private_TreeBary(4, 2, 0.5, protocol=protocol, on_all_levels=every)
            tree.update_tree(values)
            found.append(
                np.concatenate([np.ravel(server.aggregated_data) for server in tree.servers])
            )
        return np.array(found)

    shown = "each user on every level" if every else "each user on one level"
    doc = (
        f"What the servers hold after update_tree of 3 users' numbers below 4 ({protocol}, "
        f"{shown}), epsilon 0.5 a level."
    )
    levels = Private_TreeBary(4, 2, 0.5).depth - 1 if every else 1
    domain = {"kind": "Records", "size": 3, "low": 0, "high": 3, "integer": True}
    return target(f"pure:{0.5 * levels!r}", "", doc, **domain)(function)


direct = _tree("direct_encoding", True)
unary = _tree("unary_encoding", True)
direct_one_level = _tree("direct_encoding", False)
