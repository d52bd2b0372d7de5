"""Claims on randomness alignments of the sparse vector technique and of report noisy max, decided
by z3 over the reals.

An alignment maps the noise of a run on D to noise that gives the same output on D'. If the output
determines by how much each noise moves, the map is injective for each output. Moving Laplace noise
of scale s by d costs |d| / s, and the privacy loss of a run is at most the sum of these costs
(Zhang and Kifer 2017; Lyu, Su and Li 2017, Theorem 2). Answers q change by at most 1, in either
direction.
"""

from __future__ import annotations

from typing import Any

from dpwitness.mechanisms import BrokenSparseVector, NoisyMax, PureDP, SparseVector
from dpwitness.proofs_checks.engine import (
    Ball,
    Box,
    Effort,
    Enclosure,
    Evidence,
    certificate,
    certified,
    claim,
    enclose,
    unsatisfiable,
    z3,
)

SVT = "Lyu, Su and Li 2017"
NOISY_MAX = "Dwork and Roth 2014, section 3.3"


def call_obligation(lift: int) -> list[Any]:
    """Return z3 constraints for a threshold call (below or above) whose outcome changes under the
    alignment.

    Answers change by at most 1, and the threshold moves up by `lift`.
    """
    q, q_neighbour, noise, threshold = z3.Reals("q q_neighbour noise noisy_threshold")
    called = q + noise >= threshold
    return [
        z3.Abs(q - q_neighbour) <= 1,
        called
        != (q_neighbour + (noise + z3.If(called, lift + q - q_neighbour, 0)) >= threshold + lift),
    ]


def threshold_obligations(
    above: Any, threshold_rate: Any, query_rate: Any, epsilon: Any, *, threshold_noise: bool = True
) -> list[list[Any]]:
    """Return z3 constraints for the negations of a threshold test's obligations: the alignment is
    valid and costs at most epsilon.

    Rates are 1 / scale, as z3 terms. `above` is the number of calls above that end the run; a z3
    term proves the claim for any number. The query is any query of the run.

    The threshold's noise moves up by 1 (by 0 without threshold noise), the noise of a call above by
    1 + q - q', that of a call below by 0. No call may change its outcome. Induction on k bounds the
    cost of the first k calls above by threshold_rate + k times the largest cost of a move, 2
    query_rate. The cost of `above` calls must be at most epsilon.
    """
    q, q_neighbour = z3.Reals("q q_neighbour")
    lift = int(threshold_noise)
    near = z3.Abs(q - q_neighbour) <= 1
    calls, paid, before = z3.Reals("calls paid paid_before")
    dearest = (1 + lift) * query_rate
    first = lift * threshold_rate > threshold_rate
    step = [
        paid == before + z3.Abs(lift + q - q_neighbour) * query_rate,
        before <= threshold_rate + calls * dearest,
    ]
    bounded = [epsilon > 0, threshold_rate >= 0, query_rate > 0, calls >= 0]
    return [
        call_obligation(lift),
        [*bounded, first],
        [*bounded, near, *step, paid > threshold_rate + (calls + 1) * dearest],
        [above >= 1, lift * threshold_rate + above * dearest > epsilon],
    ]


@claim(
    "ZOO-SVT",
    kind="certificate",
    source=f"{SVT}, Algorithm 1; Dwork and Roth 2014, Algorithm 1 for c = 1",
    statement="Threshold noise 2 / epsilon and query noise 4c / epsilon, halted after c calls "
    "above, are epsilon-DP",
    formula="1 / (2/epsilon) + c |1 + q - q'| / (4c/epsilon) <= epsilon",
)
def sparse_vector_alignment(effort: Effort) -> Evidence:
    """The noisy threshold moves up by 1 and pays epsilon/2; calls below are then free; each call
    above moves by 1 + q - q' in [0, 2].

    c is a term like epsilon, and the price of k calls is bounded by induction on k.
    """
    epsilon, c = z3.Reals("epsilon c")
    return unsatisfiable(
        effort,
        *threshold_obligations(c, epsilon / 2, epsilon / (4 * c), epsilon),
        text="the moves keep every call and cost at most epsilon, for any c and any number of "
        "queries",
    )


@claim(
    "ZOO-SVT-uncut",
    kind="counterexample",
    source=f"{SVT}, Algorithm 6 (Chen et al. 2015)",
    statement="Threshold noise 2 / epsilon and query noise 2 / epsilon without a cut-off are "
    "epsilon-DP",
    formula="P(calls | D) <= e^epsilon P(calls | D')",
    domain=Box(epsilon=(0.1, 5.0), queries=(2, 12)),
)
def sparse_vector_without_cutoff(
    effort: Effort, epsilon: float = 1.0, queries: float = 10
) -> Evidence:
    """Every call above pays again, and none stops the run. All patterns of calls, exactly."""
    return certified(
        effort,
        BrokenSparseVector(epsilon, int(queries)),
        at={"epsilon": epsilon, "queries": queries},
    )


@claim(
    "ZOO-SVT-less-noise",
    kind="counterexample",
    source=f"{SVT}, Algorithm 4 (Lee and Clifton 2014)",
    statement="Query noise that does not grow with the cut-off is enough: the test is epsilon-DP",
    formula="P(calls | D) <= e^epsilon P(calls | D')",
    domain=Box(epsilon=(0.1, 5.0), cutoff=(1, 6)),
)
def sparse_vector_with_less_noise(
    effort: Effort, epsilon: float = 1.0, cutoff: float = 2
) -> Evidence:
    """Threshold noise 4 / epsilon and query noise 4 / (3 epsilon): the alignment costs (1 + 6c)
    epsilon / 4, and pairs come near. Exact.
    """
    c = int(cutoff)
    return certified(
        effort,
        SparseVector(epsilon, 12, variant=4, cutoff=c),
        numbers={"alignment_cost": (1 + 6 * c) * epsilon / 4},
        at={"epsilon": epsilon, "cutoff": cutoff},
    )


@claim(
    "ZOO-SVT-no-threshold-noise",
    kind="certificate",
    source="The sparse vector technique without noise on the threshold, as in PINP (JT)",
    statement="Calls below cost nothing when only the queries carry noise",
    formula="q + noise < T => q' + noise < T",
)
def alignment_without_threshold_noise(effort: Effort) -> Evidence:
    """The same obligation with a threshold that cannot move: z3 finds a call below that turns. What
    it costs is the next claim.
    """
    return unsatisfiable(effort, call_obligation(0), text="calls below stay below")


@certificate(
    "ZOO-SVT-no-threshold-noise-cost",
    source="The sparse vector technique without noise on the threshold",
    statement="Query noise 4 / epsilon alone is epsilon-DP until the first call above",
    formula="calls log(F(t + 1) / F(t)) <= epsilon for every t, F the distribution function of "
    "Laplace noise of scale 4 / epsilon",
    domain=Box(calls=(1.0, 1000.0)),
    depends=("ZOO-SVT-no-threshold-noise",),
    reach=250.0,
)
def calls_below_cost(calls: Ball) -> Enclosure:
    """F(t) = exp(t epsilon / 4) / 2 for t <= 0, so answers 1 or more above T that all fall by 1
    make each call below e^(epsilon/4) times as likely: the loss is calls epsilon / 4, at every
    epsilon. From five calls on it is too large.
    """
    return enclose(calls / 4 - 1)


def winner_obligations(rate: Any, epsilon: Any, direction: str = "either") -> list[list[Any]]:
    """Return z3 constraints for the negations of report noisy max's obligations: the winner still
    wins, at a cost of at most epsilon.

    Only the winner's noise moves: by 1 + q - q' if answers may rise, by q - q' if all answers fall.
    `rate` is 1 / scale, a z3 term. The answers are functions of an index, so their number is
    arbitrary; the winner has the index 0.
    """
    first, second, noise = (
        z3.Function(name, z3.IntSort(), z3.RealSort()) for name in ("q", "q_neighbour", "noise")
    )
    j, rival = z3.Ints("j rival")
    low = 0 if direction == "rising" else -1
    high = 0 if direction == "falling" else 1

    def change(k: Any) -> Any:
        return z3.And(low <= second(k) - first(k), second(k) - first(k) <= high)

    near = z3.ForAll([j], change(j))
    wins = z3.ForAll([j], first(0) + noise(0) >= first(j) + noise(j))
    move = first(0) - second(0) + (0 if direction == "falling" else 1)
    return [
        [near, wins, rival != 0, second(0) + noise(0) + move < second(rival) + noise(rival)],
        [epsilon > 0, change(0), z3.Abs(move) * rate > epsilon],
    ]


@claim(
    "ZOO-NOISY-MAX",
    kind="certificate",
    source=f"{NOISY_MAX}, answers that move in either direction",
    statement="The index of the largest answer with Laplace noise 2 / epsilon is epsilon-DP for "
    "any number of answers",
    formula="|1 + q - q'| / (2/epsilon) <= epsilon",
)
def noisy_max_alignment(effort: Effort) -> Evidence:
    """The winner's noise moves up by 1 + q - q' in [0, 2]. z3 shows it for all answers at once, by
    their index.
    """
    epsilon = z3.Real("epsilon")
    return unsatisfiable(
        effort,
        *winner_obligations(epsilon / 2, epsilon),
        text="the winner still wins, at a cost of at most epsilon, against any number of others",
    )


@claim(
    "ZOO-NOISY-MAX-monotone",
    kind="certificate",
    source=f"{NOISY_MAX}, Claim 3.9, answers that all move in one direction",
    statement="The index of the largest answer with Laplace noise 1 / epsilon is epsilon-DP when "
    "no answer falls, or none rises",
    formula="|1 + q - q'| / (1/epsilon) <= epsilon",
)
def monotone_noisy_max_alignment(effort: Effort) -> Evidence:
    """The moves are 1 + q - q' for rising and q - q' for falling answers: both in [0, 1]. By index,
    as ZOO-NOISY-MAX.
    """
    epsilon = z3.Real("epsilon")
    return unsatisfiable(
        effort,
        *winner_obligations(epsilon, epsilon, "rising"),
        *winner_obligations(epsilon, epsilon, "falling"),
        text="the winner still wins, at a cost of at most epsilon, in both directions, for any "
        "number of answers",
    )


@claim(
    "ZOO-NOISY-MAX-half-noise",
    kind="counterexample",
    source=f"{NOISY_MAX}, Laplace noise 1 / epsilon for answers that move in either direction",
    statement="The index of the largest answer with Laplace noise 1 / epsilon is epsilon-DP",
    formula="P(index | D) <= e^epsilon P(index | D')",
    domain=Box(epsilon=(0.1, 5.0)),
)
def noisy_max_with_half_the_noise(effort: Effort, epsilon: float = 1.0) -> Evidence:
    """One answer rises by 1 and the others fall by 1. Exact masses of the index, by quadrature."""
    return certified(effort, NoisyMax(2 * epsilon), claim=PureDP(epsilon), at={"epsilon": epsilon})


@claim(
    "ZOO-NOISY-MAX-value",
    kind="counterexample",
    source="Ding et al. 2018, report noisy max with the value that won",
    statement="The largest noisy answer itself, with Laplace noise 2 / epsilon, is epsilon-DP",
    formula="p(value | D) <= e^epsilon p(value | D')",
    domain=Box(epsilon=(0.1, 5.0), answers=(3, 12)),
)
def noisy_max_with_its_value(effort: Effort, epsilon: float = 1.0, answers: float = 5) -> Evidence:
    """All answers rise by 1: below them all the value's density is a product of k exponentials:
    loss k epsilon / 2. Exact.
    """
    return certified(
        effort,
        NoisyMax(epsilon, int(answers), release="value"),
        numbers={"supremum": answers * epsilon / 2},
        at={"epsilon": epsilon, "answers": answers},
    )
