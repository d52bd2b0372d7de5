"""The right benchmark programs of CheckDP (Wang et al. 2020) in the provable subset of Python, and
others of their kind.
"""

from dpwitness.proofs_checks.alignments.program import provable

POSITIVE = "epsilon > 0"
LIMITED = "epsilon > 0 and limit >= 1"


@provable(cost="epsilon", where=POSITIVE)
def noisy_max(queries, rng, epsilon: float = 1.0):
    winner = 0
    best = 0.0
    for i, q in enumerate(queries):
        noisy = q + rng.laplace(scale=2 / epsilon)
        if i == 0 or noisy > best:
            winner = i
            best = noisy
    return winner


@provable(cost="epsilon", where=POSITIVE)
def noisy_max_exponential(queries, rng, epsilon: float = 1.0):
    winner = 0
    best = 0.0
    for i, q in enumerate(queries):
        noisy = q + rng.exponential(2 / epsilon)
        if i == 0 or noisy > best:
            winner = i
            best = noisy
    return winner


@provable(cost="epsilon", where=POSITIVE, neighbors="monotone")
def noisy_max_monotone(queries, rng, epsilon: float = 1.0):
    winner = 0
    best = 0.0
    for i, q in enumerate(queries):
        noise = rng.laplace(scale=1 / epsilon)
        if i == 0 or q + noise > best:
            winner = i
            best = q + noise
    return winner


@provable(cost="epsilon", where=LIMITED)
def sparse_vector(queries, rng, epsilon: float = 1.0, threshold: float = 0.5, limit: int = 1):
    out = []
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    count = 0
    for q in queries:
        if count < limit:
            if q + rng.laplace(scale=4 * limit / epsilon) >= noisy_threshold:
                out.append(True)
                count += 1
            else:
                out.append(False)
    return out


@provable(cost="epsilon", where=LIMITED)
def sparse_vector_break(queries, rng, epsilon: float = 1.0, threshold: float = 0.5, limit: int = 1):
    out = []
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    count = 0
    for i, q in enumerate(queries):
        if q + rng.laplace(scale=4 * limit / epsilon) >= noisy_threshold:
            out.append(i)
            count += 1
            if count >= limit:
                break
    return out


@provable(cost="epsilon", where=LIMITED, neighbors="monotone")
def sparse_vector_monotone(
    queries, rng, epsilon: float = 1.0, threshold: float = 0.5, limit: int = 1
):
    out = []
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    count = 0
    for q in queries:
        if count < limit:
            noise = rng.laplace(scale=2 * limit / epsilon)
            if q + noise >= noisy_threshold:
                out.append(True)
                count += 1
            else:
                out.append(False)
    return out


@provable(cost="epsilon", where=LIMITED)
def gap_sparse_vector(queries, rng, epsilon: float = 1.0, threshold: float = 0.5, limit: int = 1):
    out = []
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    count = 0
    for q in queries:
        if count < limit:
            noisy = q + rng.laplace(scale=4 * limit / epsilon)
            if noisy >= noisy_threshold:
                out.append(noisy - noisy_threshold)
                count += 1
            else:
                out.append(0.0)
    return out


@provable(cost="epsilon", where=LIMITED)
def num_sparse_vector(queries, rng, epsilon: float = 1.0, threshold: float = 0.5, limit: int = 1):
    out = []
    noisy_threshold = threshold + rng.laplace(scale=3 / epsilon)
    count = 0
    for q in queries:
        if count < limit:
            if q + rng.laplace(scale=6 * limit / epsilon) >= noisy_threshold:
                out.append(q + rng.laplace(scale=3 * limit / epsilon))
                count += 1
            else:
                out.append(0.0)
    return out


@provable(cost="epsilon", where=LIMITED)
def adaptive_sparse_vector(
    queries, rng, epsilon: float = 1.0, threshold: float = 0.5, limit: int = 1
):
    out = []
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    spent = 0
    for q in queries:
        if spent <= 2 * limit - 2:
            top = rng.laplace(scale=8 * limit / epsilon)
            if q + top - noisy_threshold >= 16:
                out.append(q + top - noisy_threshold)
                spent += 1
            else:
                middle = rng.laplace(scale=4 * limit / epsilon)
                if q + middle - noisy_threshold >= 0:
                    out.append(q + middle - noisy_threshold)
                    spent += 2
                else:
                    out.append(0.0)
    return out


@provable(cost="epsilon", where=POSITIVE, neighbors="one")
def partial_sum(queries, rng, epsilon: float = 1.0):
    total = 0.0
    for q in queries:
        total += q
    return total + rng.laplace(scale=1 / epsilon)


@provable(cost="epsilon", where=POSITIVE, neighbors="one")
def prefix_sum(queries, rng, epsilon: float = 1.0):
    out = []
    total = 0.0
    for q in queries:
        total = total + q + rng.laplace(scale=1 / epsilon)
        out.append(total)
    return out


@provable(cost="2 * epsilon", where="epsilon > 0 and block >= 2", neighbors="one")
def smart_sum(queries, rng, epsilon: float = 0.5, last: int = 8, block: int = 3):
    out = []
    following = 0.0
    total = 0.0
    for i, q in enumerate(queries):
        if i <= last:
            if (i + 1) % block == 0:
                following = total + q + rng.laplace(scale=1 / epsilon)
                total = 0.0
                out.append(following)
            else:
                following = following + q + rng.laplace(scale=1 / epsilon)
                total = total + q
                out.append(following)
    return out


@provable(cost="epsilon", where=POSITIVE, neighbors="one")
def histogram(queries, rng, epsilon: float = 1.0):
    out = []
    for q in queries:
        out.append(q + rng.laplace(scale=1 / epsilon))
    return out


PROGRAMS = {name: each for name, each in list(globals().items()) if hasattr(each, "promise")}
