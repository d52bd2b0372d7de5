"""The coin-flip certificate: an exact binomial confidence limit for every privacy notion.

Round i flips b_i ~ Bernoulli(1/2) and runs y_i ~ M(D_{b_i}). A guess rule, fixed on separate
data, guesses b_i or abstains. In N rounds, C guesses are right and W are wrong, M = C + W. The
rule uses k = 1 or 2 guess directions ("the dataset was D1", "the dataset was D0").

**Theorem.** Let c, w be the probabilities that a round is right and wrong, and s = c + w. Let g
be the curve of the claim: any event with Q-probability q has P-probability at most g(q), in both
orders of the pair. Then, with k = 2, c <= g(w), and with k = 1, 2c <= g(2w).

*Proof.* Let A be the event "guess D1" and B the event "guess D0" (disjoint). c = (P(A) + Q(B))/2
and w = (Q(A) + P(B))/2. The claim gives P(A) <= g(Q(A)) and Q(B) <= g(P(B)). As g is concave, c
<= (g(Q(A)) + g(P(B)))/2 <= g(w). With k = 1, B (or A) is empty and the first step alone gives 2c
<= g(2w). For (epsilon, delta)-DP this is c <= e^epsilon w + delta k/2.  []

**Certificate.** Rounds are independent, so given M, C ~ Binomial(M, theta) with theta = c/s.
Under the claim theta <= theta0(s), the value at which (w, c) = (s (1 - theta), s theta) meets the
curve. g is concave with g(0) >= 0, so g(w)/w falls in w and theta0 falls in s. A lower confidence
limit s_L on s thus gives theta0(s_L) >= theta0(s) with probability at least 1 - gamma, whatever M
is. Define

    theta_L = CP lower limit of C/M at level alpha - gamma,
    s_L = CP lower limit of M/N at level gamma,

where CP is the Clopper-Pearson limit. The certified parameter is the smallest one whose curve
contains (s_L (1 - theta_L), s_L theta_L) (both doubled if k = 1). It is at most the true
parameter, except with probability alpha: the two limits fail with probability gamma + (alpha -
gamma) at most. The certified parameter rises with both theta_L and s_L, so the two limits carry
over to the parameter.

Pure DP depends on the ratio c/w alone, so for pure DP gamma = 0 and eps_L = logit(theta_L). For
(epsilon, delta)-DP, with d = delta k/2, the certified parameter is eps_L = ln((1 - d/s_L)/(1 -
theta_L) - 1), and none if s_L <= d.  []

**Certified point.** A tally also bounds the full trade-off curve and the privacy profile of a pair.
Let g be the trade-off curve of the pair itself: the least concave curve above the rates of every
test in either order of the pair. g rises, g(0) >= 0, and g is its own mirror image in the
antidiagonal, since the complement of an event swaps the orders.

A round is right with probability c = s theta and wrong with probability w =
s (1 - theta). With k guess directions, (2w/k, 2c/k) lies under g. Let theta_L <= theta and s_L <=
s be the two Clopper-Pearson limits; both hold with probability 1 - alpha. Then the **certified
point**

    (q_L, p_L) = 2/k (s_L (1 - theta_L), s_L theta_L)

lies under g too. A smaller s moves along a ray towards the origin, which stays under a concave g
with g(0) >= 0. A smaller theta moves right and down, which stays under a rising g. Since
delta(eps) = sup_q g(q) - e^eps q, and (1 - p_L, 1 - q_L) lies under g by the mirror symmetry,

    delta(eps) >= delta_L(eps) = max(0, p_L - e^eps q_L, (1 - q_L) - e^eps (1 - p_L))

for all eps >= 0 at once, at the single error alpha. (Taking the concave hull does not change the
supremum, so delta(eps) is the larger hockey-stick divergence of the two orders.)

A claim is refuted if delta_L exceeds its profile anywhere, or if its curve runs below the
certified point. Pure DP needs theta_L alone. So its certified epsilon lies slightly beyond the
end of this curve, which also spends error on s_L.  []

**One cause of a violation.** The certificate of events on a part of the outputs is corrected for
how often that part occurs. Outputs are divided into parts, fixed before the test: exceptions,
values that repeat, and all other outputs. The certificate of a part answers two questions at once.
Do events on this part alone violate the claim? And do they still if the parts before it, which may
be the reason why this part occurs more often on one dataset, are disregarded?

**Theorem.** Let R be a set of outputs, with k1 = P(R) and k0 = Q(R) on D1 and D0. Let A ("guess
D1") and B ("guess D0") be disjoint events in R, with odds c/w of right to wrong guesses. Let rho <=
1 be at most k0/k1 (if B is empty), at most k1/k0 (if A is empty), or at most both. Let x be the
parameter that the certificate of `certificate` computes from its lower limit on the frequency of
guesses, and from odds that are rho times its lower limit on the odds. If this limit on the odds,
this limit on the frequency and the limits behind rho hold, then x is at most the parameter of the
mechanism, and at most the parameter of the conditional law of its outputs given R.

*Proof.* The certified parameter rises with the odds, and rho <= 1. So x is at most the bound of the
ordinary certificate for A and B, which are events of the mechanism itself. Under the conditional
law, c' = (P(A)/k1 + Q(B)/k0)/2 and w' = (Q(A)/k0 + P(B)/k1)/2. If B is empty, c'/w' = (c/w) k0/k1;
if A is empty, c'/w' = (c/w) k1/k0; otherwise c' >= c/max(k1, k0) and w' <= w/min(k1, k0). In all
cases c'/w' >= rho c/w. As k1, k0 <= 1, also c' + w' >= c + w. The theorem of `certificate` holds
for the conditional law, and the certified parameter rises with frequency and odds.  []

The limits behind rho. Given that a round is in R, its dataset is D1 with probability pi = k1/(k1 +
k0), and the number of such rounds is binomial given the number of rounds in R. Two Clopper-Pearson
limits of pi at level gamma give both ratios. Rounds lost (`rounds`) count against each limit. The
error of the whole statement is alpha: gamma for each limit, and the rest for the ordinary
certificate.

A part that occurs more often on one dataset only because another part does not is thus never
accused. If the mechanism raises an exception on D1 in nine of ten runs and never on D0, the event
"no exception" violates a claim of epsilon = 1, and rests on the exceptions. For R = "no exception",
rho is a tenth, and the discounted odds are those of the values alone.

An audit tests at most `PARTS` parts, each at error alpha / `PARTS`. By the union bound, all
statements about parts hold together with probability at least 1 - alpha, next to the audit's own
statement, which has its own alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, expit

from dpwitness.auditors.statistics.mean_limits import bracket_each
from dpwitness.core.claims import Claim
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.validation import InvalidArgument, require_integer

# gamma / alpha: s is estimated far more precisely than theta, so a small share suffices
SHARE_FOR_FREQUENCY = 1 / 50


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of a guess rule: `correct` and `wrong` guesses in `rounds` coin flips, and the number
    of guess `directions`, 1 or 2.
    """

    correct: int
    wrong: int
    rounds: int
    directions: int = 2

    def __post_init__(self) -> None:
        for name in ("correct", "wrong", "rounds"):
            require_integer(name, getattr(self, name), "Tally", least=0)
        require_integer("directions", self.directions, "Tally", least=1, most=2)
        if self.correct + self.wrong > self.rounds:
            raise InvalidArgument(
                f"Tally: correct + wrong must be at most rounds = {self.rounds}, got "
                f"{self.correct + self.wrong}"
            )

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.correct + other.correct,
            self.wrong + other.wrong,
            self.rounds + other.rounds,
            self.directions,
        )


@dataclass(frozen=True, slots=True)
class Prior:
    """Expected numbers of right and of wrong guesses in `size` rounds, fixed before an epoch of a
    sequential audit (`anytime`).
    """

    right: float = 0.0
    wrong: float = 0.0
    size: float = 0.0

    def __post_init__(self) -> None:
        if not (
            self.right >= 0
            and self.wrong >= 0
            and self.right + self.wrong <= self.size * (1 + 1e-9) < math.inf
        ):
            raise InvalidArgument(
                f"Prior: right + wrong must be at most size = {self.size}, got {self.right} "
                f"+ {self.wrong}"
            )


@dataclass(frozen=True, slots=True)
class Part:
    """Counts of one stage, with its lost rounds.

    A stage of a fixed plan has a weight in the combination of stages; the last stage gets the
    weight that the others leave. An epoch of a sequential audit has a prior instead.
    """

    tally: Tally
    weight: float = 1.0
    lost: int = 0
    prior: Prior | None = None

    def plus(self, tally: Tally, lost: int) -> Part:
        """Return the stage with the counts of another chunk added."""
        return Part(self.tally + tally, self.weight, self.lost + lost, self.prior)

    def to_json(self) -> dict[str, Any]:
        tally, prior = self.tally, self.prior
        counts = {
            "correct": tally.correct,
            "wrong": tally.wrong,
            "rounds": tally.rounds,
            "directions": tally.directions,
        }
        more = {} if prior is None else {"prior": [prior.right, prior.wrong, prior.size]}
        return {**counts, "lost": self.lost, "weight": self.weight} | more


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Return the Clopper-Pearson lower limit of a binomial probability at error `alpha`; 0 where
    there are no successes.
    """
    x, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    limit = betaincinv(np.maximum(x, 1e-300), np.maximum(n - x, 0.0) + 1.0, alpha)
    return np.where(x > 0, limit, 0.0)


def wilson_lower(share: FloatArray, size: FloatArray | float, z: float) -> FloatArray:
    """Return Wilson's lower limit of a binomial proportion: close to the exact limit, and a hundred
    times faster.
    """
    share = np.clip(share, 0.0, 1.0)
    return (
        share + z**2 / (2 * size) - z * np.sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)
    ) / (1 + z**2 / size)


def frequency_error(claim: Claim, alpha: ArrayLike) -> FloatArray | float:
    """Return the part of the error for the frequency of guesses; 0 for pure DP, which does not
    depend on the frequency.
    """
    return 0.0 if claim.is_pure else np.asarray(alpha) * SHARE_FOR_FREQUENCY


def certified(
    claim: Claim,
    correct: ArrayLike,
    wrong: ArrayLike,
    rounds: ArrayLike,
    alpha: ArrayLike,
    directions: int = 2,
    lost: int = 0,
) -> FloatArray:
    """Return the certified lower bound on the claim's free parameter at error `alpha`.

    Counts are arrays and may be fractional (expected counts). A bound of 0 certifies nothing.
    `lost` is the number of `wrong` guesses that are rounds whose output was lost; these do not
    count in the frequency of guesses (proof in `rounds`).

    Examples
    --------
    >>> from dpwitness.mechanisms import PureDP
    >>> float(certified(PureDP(1.0), 7_400, 2_600, 20_000, 0.05).round(4))
    1.0083
    """
    c, w = np.asarray(correct, dtype=float), np.asarray(wrong, dtype=float)
    gamma = frequency_error(claim, alpha)
    theta = clopper_pearson_lower(c, c + w, np.asarray(alpha) - gamma)
    frequency = (
        np.ones_like(theta) if claim.is_pure else clopper_pearson_lower(c + w - lost, rounds, gamma)
    )
    return parameter_from_rates(claim, frequency, theta, directions)


def parameter_from_rates(
    claim: Claim, frequency: FloatArray, theta: FloatArray, directions: int
) -> FloatArray:
    """Return the smallest parameter that allows a rule to guess in a share `frequency` of the
    rounds, `theta` of them right.
    """
    scale = 1.0 if claim.is_pure else 2.0 / directions
    right, wrong = (
        np.minimum(scale * frequency * theta, 1.0),
        np.minimum(scale * frequency * (1 - theta), 1.0),
    )
    return np.where(theta > 0.5, claim.parameter_at(wrong, right), 0.0)


def allowed(claim: Claim, x: float, frequency: float, directions: int) -> float:
    """Return theta0, the largest share of right guesses that a parameter of `x` allows if a share
    `frequency` is guessed.
    """
    if claim.bounds_epsilon:
        delta = 0.5 * directions * claim.delta_budget
        return 1.0 if delta >= frequency else float(1 - (1 - delta / frequency) * expit(-x))
    low, high = 0.5, 1.0
    for _ in range(7):
        theta = np.linspace(low, high, 65)
        beyond = np.nonzero(
            parameter_from_rates(claim, np.full(65, frequency), theta, directions) > x
        )[0]
        if len(beyond) == 0:
            return high
        low, high = float(theta[max(beyond[0] - 1, 0)]), float(theta[beyond[0]])
    return high


def p_value(
    claim: Claim,
    correct: ArrayLike,
    wrong: ArrayLike,
    rounds: ArrayLike,
    directions: int = 2,
    lost: int = 0,
) -> FloatArray:
    """Return a valid p-value of the claim: the smallest alpha at which `certified` exceeds the
    claim's own parameter.
    """
    c, w, n = np.broadcast_arrays(
        np.asarray(correct, float), np.asarray(wrong, float), np.asarray(rounds, float)
    )

    def refuted(log_alpha: FloatArray) -> NDArray[np.bool_]:
        found = certified(claim, c, w, n, np.exp(log_alpha), directions, lost) > claim.parameter
        return np.asarray(found)

    low, high = np.full(c.shape, -690.0), np.zeros(c.shape)  # bounds on ln alpha
    _, high = bracket_each(lambda log_alpha: ~refuted(log_alpha), low, high, 60)
    return np.where(refuted(high), np.exp(high), 1.0)


def split_batches(runs: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """Return the number of coin-flip rounds in two batches of `runs` outputs, and how many outputs
    of D1 and of D0 they use.

    N' = floor(2n - 12 sqrt(n/2)) coins need more than n outputs on one dataset with probability
    below 1e-32. Such draws are repeated.
    """
    rounds = int(2 * runs - 12 * np.sqrt(runs / 2))
    ones = runs + 1
    while not rounds - runs <= ones <= runs:
        ones = int(rng.binomial(rounds, 0.5))
    return rounds, ones, rounds - ones


@dataclass(frozen=True, slots=True)
class CertifiedPoint:
    """Point under the true trade-off curve of the pair at a stated confidence, with the observed
    rates behind it.
    """

    fpr: float
    tpr: float
    observed_fpr: float
    observed_tpr: float


def certified_point(tally: Tally, alpha: float) -> CertifiedPoint:
    """Return the certified point of the module's docstring, at error `alpha`.

    Examples
    --------
    >>> point = certified_point(Tally(7_400, 2_600, 20_000), 0.05)
    >>> round(point.fpr, 3), round(point.tpr, 3), point.observed_tpr
    (0.131, 0.358, 0.37)
    """
    gamma = alpha * SHARE_FOR_FREQUENCY
    guesses = tally.correct + tally.wrong
    theta = float(clopper_pearson_lower(tally.correct, guesses, alpha - gamma))
    frequency = float(clopper_pearson_lower(guesses, tally.rounds, gamma))
    scale, rounds = 2.0 / tally.directions, max(tally.rounds, 1)
    return CertifiedPoint(
        fpr=min(1.0, scale * frequency * (1.0 - theta)),
        tpr=min(1.0, scale * frequency * theta),
        observed_fpr=min(1.0, scale * tally.wrong / rounds),
        observed_tpr=min(1.0, scale * tally.correct / rounds),
    )


def lower_profile(point: CertifiedPoint, epsilon: ArrayLike) -> FloatArray:
    """Return delta_L(epsilon), the lower bound on the privacy profile from the module's
    docstring.
    """
    growth = np.exp(np.minimum(np.asarray(epsilon, dtype=float), 700.0))
    direct = point.tpr - growth * point.fpr
    mirrored = (1.0 - point.fpr) - growth * (1.0 - point.tpr)
    return np.asarray(np.maximum(0.0, np.maximum(direct, mirrored)))


PARTS = 3
Within = tuple[int, int]  # rounds with an output in R on D1 and on D0


def error_of_counts(alpha: float, within: Within | None) -> float:
    """Return the part of the error `alpha` that is left for the ordinary certificate of a part's
    counts.
    """
    return alpha if within is None else alpha * (1 - 2 * SHARE_FOR_FREQUENCY)


def partial_bound(
    claim: Claim,
    tally: Tally,
    alpha: float,
    lost: int = 0,
    within: Within | None = None,
    side: int = 0,
) -> float:
    """Return the certified lower bound on the claim's parameter from the events of one part, at
    error `alpha`.

    Parameters
    ----------
    claim : Claim
    tally : Tally
        Counts of the guesses. `lost` of the wrong guesses are rounds whose output was lost.
    alpha : float
    lost : int
    within : pair of int, optional
        Numbers of rounds on D1 and on D0 with an output in R. None if R contains every output.
    side : {-1, 0, 1}
        1 if only D1 is guessed, -1 if only D0 is guessed, 0 otherwise.

    Examples
    --------
    >>> from dpwitness.mechanisms import PureDP
    >>> counts = PureDP(1.0), Tally(4_000, 1_000, 20_000), 0.01
    >>> [round(partial_bound(*counts, within=within), 2)
    ...     for within in (None, (9_000, 9_000), (3_000, 9_000))]
    [1.3, 1.25, 0.13]
    """
    error = error_of_counts(alpha, within)
    if within is None:
        return float(
            certified(
                claim, tally.correct, tally.wrong, tally.rounds, error, tally.directions, lost
            )
        )
    gamma, guesses = frequency_error(claim, error), tally.correct + tally.wrong
    theta = clopper_pearson_lower(tally.correct, guesses, error - gamma)
    frequency = (
        np.ones(()) if claim.is_pure else clopper_pearson_lower(guesses - lost, tally.rounds, gamma)
    )
    # rho, from two limits
    low, beyond = (
        float(clopper_pearson_lower(count, max(sum(within) + lost, 1), alpha * SHARE_FOR_FREQUENCY))
        for count in within
    )
    high = 1 - beyond
    ratios = {1: [beyond / high if high else 0.0], -1: [low / (1 - low) if low < 1 else 1.0]}
    right = theta * min(1.0, *ratios.get(side, ratios[1] + ratios[-1]))
    return float(
        parameter_from_rates(
            claim, frequency, right / np.maximum(right + 1 - theta, 1e-300), tally.directions
        )
    )
