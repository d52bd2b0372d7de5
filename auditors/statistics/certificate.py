"""The coin-flip certificate: one exact binomial limit for every privacy notion.

Round i flips b_i ~ Bernoulli(1/2), runs y_i ~ M(D_{b_i}); a guess rule, fixed on separate data, names b_i or abstains. Of N rounds C are
guessed right and W wrong, M = C + W, and k = 1 or 2 guess directions are in use ("it was D1", "it was D0").

**Theorem.** Let c, w be the probabilities that a round is right and wrong, s = c + w, and let g be the curve of the claim: any event with
Q-probability q has P-probability at most g(q), in both orders of the pair. Then, with k = 2, c <= g(w), and with k = 1, 2c <= g(2w).

*Proof.* Let A be the event "guess D1" and B the event "guess D0" (disjoint). c = (P(A) + Q(B))/2 and w = (Q(A) + P(B))/2. The claim gives
P(A) <= g(Q(A)) and Q(B) <= g(P(B)); g is concave, so c <= (g(Q(A)) + g(P(B)))/2 <= g(w). With k = 1, B (or A) is empty and the
first step alone reads 2c <= g(2w).  For (epsilon, delta)-DP this is c <= e^epsilon w + delta k/2.  []

**Certificate.** Rounds are independent, so given M, C ~ Binomial(M, theta), theta = c/s. Under the claim theta <= theta0(s), the point
where (w, c) = (s (1 - theta), s theta) meets the curve. g is concave with g(0) >= 0, so g(w)/w falls in w and theta0 falls in s: a lower
confidence limit s_L on s makes theta0(s_L) >= theta0(s) with probability at least 1 - gamma, whatever M is. Hence

    theta_L = CP lower limit of C/M at level alpha - gamma,    s_L = CP lower limit of M/N at level gamma,

and the smallest parameter whose curve contains (s_L (1 - theta_L), s_L theta_L) (both doubled if k = 1) is at most the true one, except
with probability alpha: the two limits fail with probability gamma + (alpha - gamma) at most. The parameter found rises with both theta_L
and s_L, which is what carries the two limits over to it. Pure DP depends on the ratio c/w alone, so there gamma = 0 and eps_L =
logit(theta_L).
For (epsilon, delta)-DP, with d = delta k/2, the smallest parameter is eps_L = ln((1 - d/s_L)/(1 - theta_L) - 1), and none if s_L <= d.  []
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument, require_integer

SHARE_FOR_FREQUENCY = 1 / 50  # gamma / alpha: s is known far better than theta, so it may be given a small share


@dataclass(frozen=True, slots=True)
class Tally:
    """What a guess rule scored: `correct` and `wrong` guesses in `rounds` coin flips, with `directions` (1 or 2) in use."""

    correct: int
    wrong: int
    rounds: int
    directions: int = 2

    def __post_init__(self) -> None:
        for name in ("correct", "wrong", "rounds"):
            require_integer(name, getattr(self, name), "Tally", least=0)
        require_integer("directions", self.directions, "Tally", least=1, most=2)
        if self.correct + self.wrong > self.rounds:
            raise InvalidArgument(f"Tally: correct + wrong must be at most rounds = {self.rounds}, got {self.correct + self.wrong}")

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.correct + other.correct, self.wrong + other.wrong, self.rounds + other.rounds, self.directions)


def cp_lower(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Clopper-Pearson lower limit of a binomial probability at error `alpha`; 0 where there is no success."""
    x, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    limit = betaincinv(np.maximum(x, 1e-300), np.maximum(n - x, 0.0) + 1.0, alpha)
    return np.where(x > 0, limit, 0.0)


def wilson_lower(share: FloatArray, size: FloatArray | float, z: float) -> FloatArray:
    """Wilson's lower limit of a binomial share: close to the exact one that will certify, and a hundred times faster."""
    share = np.clip(share, 0.0, 1.0)
    return (share + z**2 / (2 * size) - z * np.sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)) / (1 + z**2 / size)


def certified(
    claim: Claim, correct: ArrayLike, wrong: ArrayLike, rounds: ArrayLike, alpha: ArrayLike, directions: int = 2, lost: int = 0
) -> FloatArray:
    """Certified lower bound on the claim's free parameter (epsilon at the claim's delta, mu, rho), at error `alpha`.

    Vectorised over counts, which may be fractional (expected counts). 0 means that nothing can be said. Of the `wrong` guesses, `lost` ones
    are rounds whose output nobody saw: they do not show how often the rule guesses (proof in `rounds`).

    Examples
    --------
    >>> from dpwitness.mechanisms import PureDP
    >>> float(certified(PureDP(1.0), 7_400, 2_600, 20_000, 0.05).round(4))
    1.0083
    """
    c, w = np.asarray(correct, dtype=float), np.asarray(wrong, dtype=float)
    gamma = 0.0 if claim.is_pure else np.asarray(alpha) * SHARE_FOR_FREQUENCY
    theta = cp_lower(c, c + w, np.asarray(alpha) - gamma)
    frequency = np.ones_like(theta) if claim.is_pure else cp_lower(c + w - lost, rounds, gamma)
    return parameter_shown(claim, frequency, theta, directions)


def parameter_shown(claim: Claim, frequency: FloatArray, theta: FloatArray, directions: int) -> FloatArray:
    """Smallest parameter whose curve lets the rule be right with probability `theta` in a share `frequency` of the rounds."""
    scale = 1.0 if claim.is_pure else 2.0 / directions
    right, wrong = np.minimum(scale * frequency * theta, 1.0), np.minimum(scale * frequency * (1 - theta), 1.0)
    return np.where(theta > 0.5, claim.parameter_at(wrong, right), 0.0)


def p_value(claim: Claim, correct: ArrayLike, wrong: ArrayLike, rounds: ArrayLike, directions: int = 2, lost: int = 0) -> FloatArray:
    """Smallest alpha at which `certified` exceeds the claim's own parameter: a valid p-value for "the claim holds"."""
    c, w, n = np.broadcast_arrays(np.asarray(correct, float), np.asarray(wrong, float), np.asarray(rounds, float))
    low, high = np.full(c.shape, -690.0), np.zeros(c.shape)  # ln alpha
    for _ in range(60):
        middle = 0.5 * (low + high)
        refuted = certified(claim, c, w, n, np.exp(middle), directions, lost) > claim.parameter
        low, high = np.where(refuted, low, middle), np.where(refuted, middle, high)
    return np.where(certified(claim, c, w, n, np.exp(high), directions, lost) > claim.parameter, np.exp(high), 1.0)


def two_batches(runs: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """Rounds that two batches of `runs` outputs a side amount to, and how many rows of D1 and of D0 they use.

    Flipping N' = floor(2n - 12 sqrt(n/2)) coins needs more than n rows of one side with probability below 1e-32; such a draw is
    repeated, which changes the law of the split by less than that.
    """
    require_integer("runs", runs, least=100)
    rounds = int(2 * runs - 12 * np.sqrt(runs / 2))
    ones = runs + 1
    while not rounds - runs <= ones <= runs:
        ones = int(rng.binomial(rounds, 0.5))
    return rounds, ones, rounds - ones
