"""Federated averaging with noise: clients train on their own records, a server adds their clipped
updates and noise.
"""

import numpy as np

RATE, NORM, NOISE = 0.25, 1.0, 2.0  # coin of a client, clipping norm, noise multiplier


def local_update(weights, features, labels, steps=5):
    """Return the change of a logistic regression by a client's training on its own records."""
    local = weights.copy()
    for _ in range(steps):
        predicted = 1.0 / (1.0 + np.exp(-features @ local))
        local -= features.T @ (predicted - labels) / len(labels)
    return local - weights


def clipped(updates):
    lengths = np.linalg.norm(updates, axis=1, keepdims=True)
    return updates * np.minimum(1.0, NORM / np.maximum(lengths, 1e-12))


def server(updates, rng, clip=clipped):
    """One round: choose clients by coins, clip the update of each, add noise to the sum."""
    chosen = updates[rng.random(len(updates)) < RATE]
    return clip(chosen).sum(axis=0) + NOISE * NORM * rng.normal(size=updates.shape[1])


def by_layer(updates, rng):
    """The same, but each of four layers is clipped to the norm, as if it were all of the update."""
    return server(updates, rng, lambda all_: np.hstack([clipped(x) for x in np.split(all_, 4, 1)]))


def not_clipped(updates, rng):
    """The same without clipping."""
    return server(updates, rng, lambda chosen: chosen)


def train(clients, canaries, aggregate, rounds, rng):
    """Train with canary clients, of which coins include half. Return the weights, the scores of the
    included canaries, and those of the others.
    """
    included = rng.random(canaries.count) < 0.5
    longs = canaries.rows(np.flatnonzero(included))
    size = canaries.dimension - canaries.count  # of the model, behind one entry for each canary
    weights, scores = np.zeros(size), np.zeros(canaries.count)
    for _ in range(rounds):
        own = np.zeros((len(clients), canaries.dimension))
        own[:, -size:] = [local_update(weights, *client) for client in clients]
        released = aggregate(np.vstack([longs, own]), rng)
        weights = weights + released[-size:] / (RATE * len(clients))
        scores += canaries.scores(released)
    return weights, scores[included], scores[~included]
