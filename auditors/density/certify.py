"""White-box certification of a pair: bounds on the privacy profile, and a verdict, from the
mechanism's log-density.

The routes, strongest first, are proofs, enumeration, composition through privacy-loss
distributions, quadrature, and bounded means under defensive importance sampling. The result names
the route and the evidence for its bounds.

A claim is refuted or certified only by a proved or statistical bound. If a computed law exceeds a
claim, sampling has to confirm the excess.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dpwitness.auditors.density.bounds import (
    bounds_from_law,
    bounds_from_samples,
    confirmed,
    find_worst_output,
    largest_loss_near_worst,
    with_worst_output,
)
from dpwitness.auditors.density.density_check import (
    FALSE_ALARM,
    BadOracle,
    CheckedOracle,
    Underflow,
    check_oracle,
    contradiction_with_law,
)
from dpwitness.auditors.density.mismatch import TOLERANCE, Mismatch, check_scale, smallest_mismatch
from dpwitness.auditors.density.proved.bounds import ProvedBounds, proved_bounds
from dpwitness.auditors.density.result import CertifyResult, End, Found, decide
from dpwitness.auditors.density.routes import enclosed_law
from dpwitness.auditors.search.catalogue import pairs_for, require_domain
from dpwitness.auditors.search.search import search
from dpwitness.auditors.statistics.loss_law import EnclosedLaw
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.loading import describe_target
from dpwitness.core.claims import Claim, promised, resolved
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.numerics.solvers import ConvergenceError
from dpwitness.core.protocols.capabilities import states_one_law
from dpwitness.core.protocols.mechanism import name_of
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    InvalidArgument,
    require_integer,
    require_one_of,
    require_probability,
    require_type,
)


def certify(
    mechanism: Any,
    pair: Pair | None = None,
    claim: Claim | str | None = None,
    *,
    trials: int = 100_000,
    confidence: float = 0.999,
    seed: int = 0,
    density_runs: int | None = None,
    route: str = "auto",
    name: str | None = None,
    target: Json | None = None,
) -> CertifyResult:
    """Enclose the privacy profile of a pair, from the mechanism's output density.

    Sampled outputs are compared with the density, and the result states the smallest mismatch
    that they would have shown. CERTIFIED is a verdict about the mechanism. If the user wrote the
    density and the sampler separately, CERTIFIED requires that the claim leaves room for the
    largest unnoticed mismatch in the noise scale. Otherwise the verdict is SUPPORTED, and its
    upper bound is assumed.

    Parameters
    ----------
    mechanism : Mechanism
        With ``sample`` and ``log_density``; ``support``, ``factors`` and ``breakpoints`` are used
        where offered.
    pair : Pair, optional
        The verdict covers both orders of this pair. Default: the pair with the largest loss in
        the catalog of ``mechanism.domain``.
    claim : Claim or str, optional
        Default: ``mechanism.claim``.
    trials : int
        Runs of the mechanism where outputs are sampled, both orders and pilots together. At least
        10,000. In addition, as many runs on each dataset, at most 100,000, compare the density
        with the sampler. If a computed law breaks the claim at delta > 0 or for another notion,
        as many runs again, at least 200,000, confirm this.
    confidence : float
        Confidence of all statistical statements of the result together. Exact routes do not use
        it.
    seed : int
        Root of all randomness.
    density_runs : int, optional
        Additional runs on each dataset, which compare the scale and the center of continuous
        outputs with the density. Default: 4 `trials`, at most 400,000; none for mechanisms of
        this package, whose sampler and density follow from one declared law.
    route : {"auto", "law", "sampling"}
        ``auto``: the strongest route that applies. ``law``: an exact or enclosed law only.
        ``sampling``: sampling only.
    name : str, optional
        Name for the report.
    target : dict, optional
        How to find the mechanism again, for the witness. Default: detected for importable
        mechanisms.

    Returns
    -------
    CertifyResult
        Verdict, bounds and their evidence.

    Raises
    ------
    InvalidArgument
        If an argument breaks its rule, or ``route="law"`` and no law can be computed. A density
        that contradicts the sampler does not raise: the verdict is ERROR.

    Examples
    --------
    >>> from dpwitness.mechanisms import Gaussian
    >>> gaussian = Gaussian(1.0, 1e-5, noise_multiplier=0.8)
    >>> certify(gaussian, gaussian.worst_pair(), "approx:1,1e-5").verdict
    <Verdict.VIOLATED: 'VIOLATED'>
    """
    started = time.perf_counter()
    claim = promised(mechanism, claim, "certify")
    for needed in ("sample", "log_density"):
        if not callable(getattr(mechanism, needed, None)):
            raise InvalidArgument(
                f"certify: mechanism must have a method {needed}, {type(mechanism).__name__} "
                "has none"
            )
    trials = require_integer("trials", trials, "certify", least=10_000)
    require_probability("confidence", confidence, "certify")
    seed = require_integer("seed", seed, "certify", least=0)
    if density_runs is not None:
        density_runs = require_integer("density_runs", density_runs, "certify", least=0, most=10**9)
    require_one_of("route", route, ["auto", "law", "sampling"], "certify")
    require_type("name", name, str, "be a text", "certify", optional=True)
    require_type("target", target, dict, "be a dict", "certify", optional=True)
    if pair is None:
        domain = getattr(mechanism, "domain", None)
        if domain is None:
            raise InvalidArgument(
                "certify: pair must be given for a mechanism without a domain, got None"
            )
        require_domain(domain, "certify")
        pair = search(
            mechanism, domain, claim, evaluations=len(pairs_for(domain)), seed=seed, keep=1
        )[0][0]
    if not isinstance(pair, Pair):
        raise InvalidArgument(f"certify: pair must be a Pair, got {type(pair).__name__}")
    claim, claim_notes = resolved(claim, pair)
    declared = states_one_law(mechanism)
    if density_runs is None:
        density_runs = 0 if declared else min(4 * trials, 400_000)
    name, target = name or name_of(mechanism), target or describe_target(mechanism)
    request = _Request(
        mechanism,
        pair,
        claim,
        trials,
        confidence,
        seed,
        density_runs,
        route,
        name,
        target,
        declared,
        tuple(claim_notes),
    )
    return _certified(request, started)


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """Validated arguments of `certify`, with the claim on the pair."""

    mechanism: Any
    pair: Pair
    claim: Claim
    trials: int
    confidence: float
    seed: int
    density_runs: int
    route: str
    name: str
    target: Json | None
    declared: bool  # whether sampler and density follow from one declared law
    claim_notes: tuple[str, ...]

    @property
    def checked_runs(self) -> int:
        """Return the number of runs per side that compare density and sampler."""
        return min(self.trials, 100_000)

    @property
    def edge(self) -> float:
        """Return the claimed parameter, with an allowance for rounding."""
        # mu and rho depend on relative errors in the tails
        return self.claim.parameter * (1 + (1e-9 if self.claim.bounds_epsilon else 1e-6))


def _certified(request: _Request, started: float) -> CertifyResult:
    """Run the stages of a certification: each takes the request and what earlier stages
    returned.
    """
    streams = [
        np.random.Generator(np.random.SFC64(s))
        for s in np.random.SeedSequence(request.seed, spawn_key=(0xCE27,)).spawn(6)
    ]
    try:
        checked = check_oracle(request.mechanism, request.pair, request.checked_runs, streams[0])
        bets = check_scale(
            request.mechanism, request.pair, checked, request.density_runs, streams[5]
        )
        proved = law = objection = None
        if request.route != "sampling":
            proved = proved_bounds(request.mechanism, request.pair, request.claim)
            law = enclosed_law(request.mechanism, request.pair, checked.lonely())
        if law is not None:
            objection = contradiction_with_law(law, checked)
            law = law if objection is None else None
        elif request.route == "law":
            raise InvalidArgument(
                f"certify: no exact law can be computed for {request.name}; use route='sampling'"
            )
        found = _bounds(request, checked, law, proved, streams[1:3])
        found, confirming_runs = _confirm(request, found, law, streams[3])
        mismatch = smallest_mismatch(checked, streams[4], bets)
        decision = _decide(request, found, objection, mismatch)
        runs = mismatch.runs + (request.trials if law is None else 0) + confirming_runs
        return _make_result(request, found, proved, decision, mismatch, runs, started)
    except Underflow as error:
        verdict, note = Verdict.INCONCLUSIVE, str(error)
    except BadOracle as error:
        verdict = Verdict.ERROR
        note = f"{error} (false-alarm probability at most {FALSE_ALARM:g})"
    except (ConvergenceError, ArithmeticError) as error:
        verdict, note = Verdict.ERROR, f"the mechanism raises {type(error).__name__}: {error}"
    found = Found("none", (), (), np.empty(0), np.empty(0), np.empty(0))
    nothing = _Decision(
        verdict, End(0.0, "numerical", 0.0), End(math.inf, "none", math.inf), (note,)
    )
    return _make_result(request, found, None, nothing, None, 2 * request.checked_runs, started)


def _bounds(
    request: _Request,
    checked: CheckedOracle,
    law: EnclosedLaw | None,
    proved: ProvedBounds | None,
    streams: list[np.random.Generator],
) -> Found:
    """Return the bounds from the law or from samples, with those from the worst output and from
    proofs.
    """
    mechanism, pair, claim = request.mechanism, request.pair, request.claim
    if law is not None:
        found = bounds_from_law(law, claim)
    else:
        found = bounds_from_samples(
            mechanism, pair, claim, request.trials, 1 - request.confidence, streams
        )
    if claim.is_pure:
        found = with_worst_output(found, find_worst_output(mechanism, pair, request.seed), law)
        largest = max(checked.largest, 0.0)
        found = found.with_lower(largest, "statistical(0)", largest)
    if proved is not None:
        if proved.tight:  # other routes add no information
            found = replace(found, lowers=(), uppers=())
        found = found.with_lower(proved.parameter_lower, "proved", proved.epsilon_lower)
        found = replace(
            found,
            uppers=(*found.uppers, End(proved.parameter_upper, "proved", proved.epsilon_upper)),
        )
    return found


def _confirm(
    request: _Request, found: Found, law: EnclosedLaw | None, rng: np.random.Generator
) -> tuple[Found, int]:
    """Return the bounds with the lower bound that samples give to a numerical excess over the
    claim, and the number of runs.
    """
    claim, edge = request.claim, request.edge
    over = [end for end in found.lowers if end.value > edge]
    if not over or any(end.sound for end in over):
        return found, 0
    if claim.is_pure:
        loss = (
            largest_loss_near_worst(request.mechanism, request.pair, found.worst, rng)
            if found.worst is not None
            else 0.0
        )
        return found.with_lower(loss, "statistical(0)", loss) if loss > edge else found, 0
    if law is None:
        return found, 0
    trials = max(request.trials, 200_000)
    end = confirmed(
        request.mechanism,
        request.pair,
        claim,
        [law.lower, law.lower.swapped()],
        trials,
        1 - request.confidence,
        rng,
    )
    if end is not None and end.value > edge:
        found = found.with_lower(end.value, end.why, max(end.epsilon, found.lowers[0].epsilon))
    return found, trials


class _Decision(NamedTuple):
    """Verdict, the bounds to report with it, and notes on doubts."""

    verdict: Verdict
    low: End
    high: End
    notes: tuple[str, ...] = ()


def _decide(
    request: _Request, found: Found, objection: str | None, mismatch: Mismatch
) -> _Decision:
    """Return the decision, after doubts about the density, about an unconfirmed excess, and about
    the sampler.

    A certificate becomes INCONCLUSIVE if the density does not integrate to 1. Unless density and
    sampler follow from one declared law, it becomes SUPPORTED if the claim leaves no room for the
    mismatch that would not have been noticed.
    """
    verdict, low, high = decide(found.lowers, found.uppers, request.edge)
    notes: tuple[str, ...] = ()
    if objection is not None:
        notes = (
            f"{objection}; sampled outputs do not confirm that the density is wrong, so the "
            "computed law was not used",
        )
    if (
        objection is not None
        and verdict in (Verdict.CERTIFIED, Verdict.SUPPORTED)
        and "integrate" in objection
    ):
        verdict = Verdict.INCONCLUSIVE
    elif verdict is Verdict.INCONCLUSIVE and low.value > request.edge:
        notes = (
            f"{request.claim.symbol} is {low.value:.6g} by numerics alone: this number of samples "
            "does not confirm that it exceeds the claim",
            *notes,
        )
    if request.declared:
        return _Decision(verdict, low, high, notes)
    if (
        verdict is Verdict.VIOLATED
        and math.isfinite(mismatch.scale)
        and low.value <= request.edge * (1 + mismatch.scale)
    ):
        note = (
            "the excess over the claim is smaller than the mismatch of sampler and density that "
            "would have been noticed"
        )
        notes = (note, *notes)
    if verdict is not Verdict.CERTIFIED or mismatch.room(high.value, request.edge):
        return _Decision(verdict, low, high, notes)
    if mismatch.scale <= TOLERANCE:
        why = (
            f"the claim leaves no room for a noise scale that is {100 * mismatch.scale:.2g} % "
            "smaller than that of the density"
        )
    else:
        why = (
            "a certificate of the mechanism needs runs that would notice a noise scale that "
            f"differs by {100 * TOLERANCE:g} %: raise trials"
        )
    high = replace(
        high, why=f"assumed: the sampler follows the density, whose upper end is {high.why}"
    )
    return _Decision(
        Verdict.SUPPORTED,
        low,
        high,
        (f"certified for the density, not for the mechanism: {why}", *notes),
    )


def _make_result(
    request: _Request,
    found: Found,
    proved: ProvedBounds | None,
    decision: _Decision,
    mismatch: Mismatch | None,
    runs: int,
    started: float,
) -> CertifyResult:
    verdict, low, high, doubts = decision
    route, unchecked = found.route, [request.pair.unchecked] if request.pair.unchecked else []
    notes = (*doubts, *found.notes)
    if proved is not None and "proved" in (low.why, high.why):
        route = f"proved: {proved.route}" + (
            "" if low.why == high.why else f"; numerical bounds: {route}"
        )
        found = replace(
            found,
            epsilons=proved.epsilons,
            delta_lower=proved.delta_lower,
            delta_upper=proved.delta_upper,
        )
    return CertifyResult(
        verdict=verdict,
        route=route,
        lower_end=low.why,
        upper_end=high.why,
        epsilon_lower=low.epsilon,
        epsilon_upper=high.epsilon,
        parameter_lower=low.value,
        parameter_upper=high.value,
        **{
            key: getattr(found, key)
            for key in (
                "epsilons",
                "delta_lower",
                "delta_upper",
                "fpr",
                "tpr_lower",
                "tpr_upper",
                "worst",
            )
        },
        notes=(*notes, *request.claim_notes, *unchecked),
        mismatch=mismatch,
        **{
            key: getattr(request, key)
            for key in ("name", "claim", "pair", "confidence", "seed", "target", "declared")
        },
        subject=request.mechanism,
        trials=runs,
        seconds=time.perf_counter() - started,
    )
