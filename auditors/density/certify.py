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
from dataclasses import replace
from typing import Any

import numpy as np

from dpwitness.auditors.density.bounds import (
    bounds_from_law,
    bounds_from_samples,
    confirmed,
    largest_loss_near_worst,
    with_worst_output,
)
from dpwitness.auditors.density.density_check import (
    FALSE_ALARM,
    CheckedOracle,
    Underflow,
    check_oracle,
    contradiction_with_law,
)
from dpwitness.auditors.density.mismatch import TOLERANCE, Mismatch, check_scale, smallest_mismatch
from dpwitness.auditors.density.pair_search import worst_pairs
from dpwitness.auditors.density.proved.bounds import proved_bounds
from dpwitness.auditors.density.result import CertifyResult, End, RouteBounds, decide
from dpwitness.auditors.density.routes import BadOracle, enclosed_law
from dpwitness.auditors.search.catalogue import pairs_for, require_domain
from dpwitness.auditors.statistics.loss_law import EnclosedLaw
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.auditors.workers.descriptions import describe_target
from dpwitness.core.claims import Claim, promised, resolved
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.numerics.solvers import ConvergenceError
from dpwitness.core.protocols import name_of, states_one_law
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
        The verdict covers both orders of this pair, (D0, D1) and (D1, D0). Default: the pair with
        the largest loss in the catalog of ``mechanism.domain``.
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
    declared = states_one_law(mechanism)
    if density_runs is None:
        density_runs = 0 if declared else min(4 * trials, 400_000)
    density_runs = require_integer("density_runs", density_runs, "certify", least=0, most=10**9)
    require_one_of("route", route, ["auto", "law", "sampling"], "certify")
    require_type("name", name, str, "be a text", "certify", optional=True)
    require_type("target", target, dict, "be a dict", "certify", optional=True)
    if pair is None:
        pair = _worst_of_catalogue(mechanism, claim, seed)
    require_type("pair", pair, Pair, "be a Pair", "certify")
    claim, claim_notes = resolved(claim, pair)
    edge = claim.parameter * (1 + (1e-9 if claim.bounds_epsilon else 1e-6))  # allows for rounding
    checked_runs = min(trials, 100_000)  # runs per side that compare density and sampler
    runs, proved, mismatch = 2 * checked_runs, None, None
    streams = [
        np.random.Generator(np.random.SFC64(s))
        for s in np.random.SeedSequence(seed, spawn_key=(0xCE27,)).spawn(6)
    ]
    try:
        checked = check_oracle(mechanism, pair, checked_runs, streams[0])
        bets = check_scale(mechanism, pair, checked, density_runs, streams[5])
        if route != "sampling":
            proved = proved_bounds(mechanism, pair, claim)
        found, law, objection = _bounds_by_route(
            mechanism, pair, claim, checked, route, trials, 1 - confidence, streams[1:3]
        )
        runs += trials if law is None else 0
        if claim.is_pure:
            largest = max(checked.largest, 0.0)
            found = with_worst_output(found, mechanism, pair, seed, law).with_lower(
                largest, "statistical(0)", largest
            )
        if proved is not None:
            found = _with_proved(found, proved)
        found, confirming_runs = _confirm(
            mechanism, pair, claim, found, law, edge, trials, 1 - confidence, streams[3]
        )
        mismatch = smallest_mismatch(checked, streams[4], bets)
        runs += confirming_runs + mismatch.runs - 2 * checked_runs
        verdict, low, high, doubts = _decide(found, objection, mismatch, claim, edge, declared)
    except (Underflow, BadOracle, ConvergenceError, ArithmeticError) as error:
        verdict, doubt = _verdict_of_error(error)
        found = RouteBounds("none", (), (), np.empty(0), np.empty(0), np.empty(0))
        low, high, doubts = End(0.0, "numerical", 0.0), End(math.inf, "none", math.inf), [doubt]
        proved, mismatch, runs = None, None, 2 * checked_runs
    shown, route = _shown(found, proved, low, high)
    return CertifyResult(
        name=name or name_of(mechanism),
        verdict=verdict,
        route=route,
        lower_end=low.why,
        upper_end=high.why,
        epsilon_lower=low.epsilon,
        epsilon_upper=high.epsilon,
        parameter_lower=low.value,
        parameter_upper=high.value,
        epsilons=shown.epsilons,
        delta_lower=shown.delta_lower,
        delta_upper=shown.delta_upper,
        fpr=found.fpr,
        tpr_lower=found.tpr_lower,
        tpr_upper=found.tpr_upper,
        worst=found.worst,
        notes=(*doubts, *found.notes, *claim_notes, *([pair.unchecked] if pair.unchecked else [])),
        mismatch=mismatch,
        claim=claim,
        pair=pair,
        confidence=confidence,
        seed=seed,
        target=target or describe_target(mechanism),
        declared=declared,
        subject=mechanism,
        trials=runs,
        seconds=time.perf_counter() - started,
    )


def _worst_of_catalogue(mechanism: Any, claim: Claim, seed: int) -> Pair:
    """Return the pair with the largest loss in the catalog of the mechanism's domain."""
    domain = getattr(mechanism, "domain", None)
    if domain is None:
        raise InvalidArgument(
            "certify: pair must be given for a mechanism without a domain, got None"
        )
    require_domain(domain, "certify")
    count = len(pairs_for(domain))
    limits: dict[str, Any] = {"evaluations": count, "seconds": 60.0, "seed": seed}
    return worst_pairs(mechanism, domain, claim, **limits, keep=1)[0].pair


def _bounds_by_route(
    mechanism: Any,
    pair: Pair,
    claim: Claim,
    checked: CheckedOracle,
    route: str,
    trials: int,
    alpha: float,
    streams: list[np.random.Generator],
) -> tuple[RouteBounds, EnclosedLaw | None, str | None]:
    """Return the bounds from the law of the privacy loss, and the law, where it is computed and
    sampled outputs do not contradict it; otherwise bounds from samples, and the contradiction.
    Raise InvalidArgument if `route` requires a law that cannot be computed.
    """
    law = None if route == "sampling" else enclosed_law(mechanism, pair, checked.lonely())
    if law is None and route == "law":
        raise InvalidArgument(
            f"certify: no exact law can be computed for {name_of(mechanism)}; use route='sampling'"
        )
    objection = None if law is None else contradiction_with_law(law, checked)
    if law is not None and objection is None:
        return bounds_from_law(law, claim), law, None
    found = bounds_from_samples(mechanism, pair, claim, trials, alpha, streams)
    return found, None, objection


def _with_proved(found: RouteBounds, proved: RouteBounds) -> RouteBounds:
    """Return the proved bounds with the other fields of `found`, and with the bounds of `found`
    unless the proved ones are so tight that other routes add no information.
    """
    lowers, uppers = proved.lowers, proved.uppers
    if uppers[0].value > lowers[0].value * (1 + 1e-2):
        lowers, uppers = (*found.lowers, *lowers), (*found.uppers, *uppers)
    return replace(found, lowers=lowers, uppers=uppers)


def _verdict_of_error(error: Exception) -> tuple[Verdict, str]:
    """Return the verdict if a density cannot be used, and the reason."""
    if isinstance(error, Underflow):
        return Verdict.INCONCLUSIVE, str(error)
    if isinstance(error, BadOracle):
        return Verdict.ERROR, f"{error} (false-alarm probability at most {FALSE_ALARM:g})"
    return Verdict.ERROR, f"the mechanism raises {type(error).__name__}: {error}"


def _shown(
    found: RouteBounds, proved: RouteBounds | None, low: End, high: End
) -> tuple[RouteBounds, str]:
    """Return the bounds whose privacy profile is shown, and the name of the route."""
    if proved is None or "proved" not in (low.why, high.why):
        return found, found.route
    route = f"proved: {proved.route}"
    return proved, route if low.why == high.why else f"{route}; numerical bounds: {found.route}"


def _confirm(
    mechanism: Any,
    pair: Pair,
    claim: Claim,
    found: RouteBounds,
    law: EnclosedLaw | None,
    edge: float,
    trials: int,
    alpha: float,
    rng: np.random.Generator,
) -> tuple[RouteBounds, int]:
    """Return the bounds, and the number of runs. Where only numerical bounds exceed the claim,
    samples have to confirm the excess: their lower bound is added if it exceeds the claim too.
    """
    excess = [end for end in found.lowers if end.value > edge]
    if not excess or any(end.sound for end in excess):
        return found, 0
    if claim.is_pure:
        if found.worst is None:
            return found, 0
        loss = largest_loss_near_worst(mechanism, pair, found.worst, rng)
        return (found.with_lower(loss, "statistical(0)", loss) if loss > edge else found), 0
    if law is None:
        return found, 0
    trials = max(trials, 200_000)
    value = confirmed(mechanism, pair, claim, [law.lower, law.lower.swapped()], trials, alpha, rng)
    if value > edge:
        epsilon = max(value if claim.bounds_epsilon else 0.0, found.lowers[0].epsilon)
        found = found.with_lower(value, f"statistical({alpha:.3g})", epsilon)
    return found, trials


def _decide(
    found: RouteBounds,
    objection: str | None,
    mismatch: Mismatch,
    claim: Claim,
    edge: float,
    declared: bool,
) -> tuple[Verdict, End, End, list[str]]:
    """Return the verdict, the bounds to report with it, and notes on doubts: about the density,
    about an unconfirmed excess, and about the sampler.

    A certificate becomes INCONCLUSIVE if the density does not integrate to 1. Unless density and
    sampler follow from one declared law, it becomes SUPPORTED if the claim leaves no room for the
    mismatch that would not have been noticed.
    """
    verdict, low, high = decide(found.lowers, found.uppers, edge)
    doubts = []
    if verdict is Verdict.INCONCLUSIVE and low.value > edge:
        doubts.append(
            f"{claim.symbol} is {low.value:.6g} by numerics alone: this number of samples "
            "does not confirm that it exceeds the claim"
        )
    if objection is not None:
        doubts.append(
            f"{objection}; sampled outputs do not confirm that the density is wrong, so the "
            "computed law was not used"
        )
        if verdict in (Verdict.CERTIFIED, Verdict.SUPPORTED) and "integrate" in objection:
            verdict = Verdict.INCONCLUSIVE
    if declared:
        return verdict, low, high, doubts
    if (
        verdict is Verdict.VIOLATED
        and math.isfinite(mismatch.scale)
        and low.value <= edge * (1 + mismatch.scale)
    ):
        doubts.insert(
            0,
            "the excess over the claim is smaller than the mismatch of sampler and density that "
            "would have been noticed",
        )
    if verdict is Verdict.CERTIFIED and not mismatch.room(high.value, edge):
        verdict = Verdict.SUPPORTED
        why = (
            f"the claim leaves no room for a noise scale that is {100 * mismatch.scale:.2g} % "
            "smaller than that of the density"
            if mismatch.scale <= TOLERANCE
            else "a certificate of the mechanism needs runs that would notice a noise scale that "
            f"differs by {100 * TOLERANCE:g} %: raise trials"
        )
        doubts.insert(0, f"certified for the density, not for the mechanism: {why}")
        high = replace(
            high, why=f"assumed: the sampler follows the density, whose upper end is {high.why}"
        )
    return verdict, low, high, doubts
