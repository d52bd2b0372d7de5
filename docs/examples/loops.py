"""Loop programs for `dpwitness prove`: the sparse vector technique, and a variant whose noise does
not grow with the limit.
"""

from dpwitness.proofs_checks import provable


@provable(cost="epsilon", where="epsilon > 0 and limit >= 1")
def sparse_vector(queries, rng, epsilon: float = 1.0, threshold: float = 0.0, limit: int = 2):
    out = []
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    count = 0
    for q in queries:
        noise = rng.laplace(scale=4 * limit / epsilon)
        if q + noise >= noisy_threshold:
            out.append(True)
            count += 1
            if count >= limit:
                break
        else:
            out.append(False)
    return out


@provable(cost="epsilon", where="epsilon > 0 and limit >= 1")
def too_little_noise(queries, rng, epsilon: float = 1.0, threshold: float = 0.0, limit: int = 4):
    out = []
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    count = 0
    for q in queries:
        noise = rng.laplace(scale=1 / epsilon)
        if q + noise >= noisy_threshold:
            out.append(True)
            count += 1
            if count >= limit:
                break
        else:
            out.append(False)
    return out
