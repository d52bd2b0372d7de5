"""White-box certification of a pair: bounds on the privacy profile, and a verdict, from the mechanism's log-density.

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

from dpwitness.auditors.pairs.catalogue import pairs_for, require_domain
from dpwitness.auditors.pairs.search import search
from dpwitness.auditors.privacy_loss.density_check import (
    FALSE_ALARM,
    BadOracle,
    CheckedOracle,
    Underflow,
    check_oracle,
    contradiction_with_law,
)
from dpwitness.auditors.privacy_loss.mismatch import TOLERANCE, Mismatch, smallest_mismatch
from dpwitness.auditors.privacy_loss.routes import enclosed_law
from dpwitness.auditors.privacy_loss.scale_bets import check_scale
from dpwitness.auditors.proved.bounds import proved_bounds
from dpwitness.auditors.results.certify_result import CertifyResult
from dpwitness.auditors.results.enclosure_bounds import End, Found, decide
from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.statistics.loss_law import EnclosedLaw
from dpwitness.auditors.targets.loading import describe_target
from dpwitness.auditors.white_box.exact_bounds import add_worst_output, bounds_from_law, find_worst_output
from dpwitness.auditors.white_box.monte_carlo_bounds import bounds_from_samples, confirmed, largest_loss_near_worst
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument, require_integer, require_one_of, require_probability, require_type
from dpwitness.mechanisms.data.pairs import Pair
from dpwitness.mechanisms.numerics.solvers import ConvergenceError
from dpwitness.mechanisms.privacy import Claim, promised, resolved
from dpwitness.mechanisms.protocols.capabilities import states_one_law
from dpwitness.mechanisms.protocols.mechanism import name_of

__all__ = ["CertifyResult", "certify"]


_EPSILON_TOLERANCE = 1e-9  # relative tolerance at a claimed epsilon
_TAIL_TOLERANCE = 1e-6  # relative tolerance at a claimed mu or rho, which depend on relative errors in the tails
_MAX_CHECKED_RUNS = 100_000  # largest number of runs per side that compare density and sampler
_DENSITY_FACTOR = 4  # runs that compare scale and center, as a multiple of the trials
_MAX_DENSITY_RUNS = 400_000
_MIN_CONFIRMING_RUNS = 200_000  # least number of runs that confirm an excess of a computed law


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
    claim = promised(mechanism, claim, "certify")
    for needed in ("sample", "log_density"):
        if not callable(getattr(mechanism, needed, None)):
            raise InvalidArgument(f"certify: mechanism must have a method {needed}, {type(mechanism).__name__} has none")
    trials = require_integer("trials", trials, "certify", least=10_000)
    require_probability("confidence", confidence, "certify")
    seed = require_integer("seed", seed, "certify", least=0)
    if density_runs is not None:
        density_runs = require_integer("density_runs", density_runs, "certify", least=0, most=10**9)
    require_one_of("route", route, ["auto", "law", "sampling"], "certify")
    require_type("name", name, str, "be a text", "certify", optional=True)
    require_type("target", target, dict, "be a dict", "certify", optional=True)
    started = time.perf_counter()
    if pair is None:
        domain = getattr(mechanism, "domain", None)
        if domain is None:
            raise InvalidArgument("certify: pair must be given for a mechanism without a domain, got None")
        require_domain(domain, "certify")
        pair = search(mechanism, domain, claim, evaluations=len(pairs_for(domain)), seed=seed, keep=1)[0][0]
    if not isinstance(pair, Pair):
        raise InvalidArgument(f"certify: pair must be a Pair, got {type(pair).__name__}")
    claim, claim_notes = resolved(claim, pair)
    streams = [np.random.Generator(np.random.SFC64(s)) for s in np.random.SeedSequence(seed, spawn_key=(0xCE27,)).spawn(6)]
    name = name or name_of(mechanism)
    check, declared = min(trials, _MAX_CHECKED_RUNS), states_one_law(mechanism)
    extra_runs = (0 if declared else min(_DENSITY_FACTOR * trials, _MAX_DENSITY_RUNS)) if density_runs is None else density_runs
    common: dict[str, Any] = {"name": name, "claim": claim, "pair": pair, "confidence": confidence, "seed": seed}
    common |= {"target": target or describe_target(mechanism), "mechanism": mechanism}
    try:
        checked = check_oracle(mechanism, pair, check, streams[0])
        bets = check_scale(mechanism, pair, checked, extra_runs, streams[5])
        proved = None if route == "sampling" else proved_bounds(mechanism, pair, claim)
        law, objection = _law_or_objection(mechanism, pair, checked, route, name)
        alpha = 1 - confidence
        used_runs = 0 if law is not None else trials
        found = bounds_from_law(law, claim) if law is not None else bounds_from_samples(mechanism, pair, claim, trials, alpha, streams[1:3])
        if claim.is_pure:
            add_worst_output(found, find_worst_output(mechanism, pair, seed), law)
            found.lowers.append(End(max(checked.largest, 0.0), "statistical(0)", max(checked.largest, 0.0)))
        if proved is not None:
            if proved.tight:  # other routes add no information
                found.lowers, found.uppers = [], []
            found.lowers.append(End(proved.parameter_lower, "proved", proved.epsilon_lower))
            found.uppers.append(End(proved.parameter_upper, "proved", proved.epsilon_upper))
        edge = claim.parameter * (1 + (_EPSILON_TOLERANCE if claim.bounds_epsilon else _TAIL_TOLERANCE))
        if _unconfirmed(found, edge):
            used_runs += _confirm(found, mechanism, pair, claim, law, edge, trials, alpha, streams[3])
        verdict, low, high = decide(found.lowers, found.uppers, edge)
        verdict = _verdict_with_doubts(verdict, low, claim, found, law, objection, edge)
        mismatch = smallest_mismatch(checked, streams[4], bets)
        verdict, high = (verdict, high) if declared else _verdict_on_sampler(verdict, low, high, mismatch, edge, found)
    except Underflow as error:
        return _result_without_bounds(Verdict.INCONCLUSIVE, str(error), common, 2 * check, time.perf_counter() - started)
    except (BadOracle, ConvergenceError, ArithmeticError) as error:
        alarm = f" (false-alarm probability at most {FALSE_ALARM:g})"
        note = f"{error}{alarm}" if isinstance(error, BadOracle) else f"the mechanism raises {type(error).__name__}: {error}"
        return _result_without_bounds(Verdict.ERROR, note, common, 2 * check, time.perf_counter() - started)
    route_text = found.route
    if proved is not None and "proved" in (low.why, high.why):
        route_text = f"proved: {proved.route}" + ("" if low.why == high.why else f"; numerical bounds: {route_text}")
        found.notes += proved.notes
        if len(proved.epsilons):
            found.epsilons, found.delta_lower, found.delta_upper = proved.epsilons, proved.delta_lower, proved.delta_upper
    return CertifyResult(
        verdict=verdict,
        route=route_text,
        lower_end=low.why,
        upper_end=high.why,
        epsilon_lower=low.epsilon,
        epsilon_upper=high.epsilon,
        parameter_lower=low.value,
        parameter_upper=high.value,
        **{key: getattr(found, key) for key in ("epsilons", "delta_lower", "delta_upper", "fpr", "tpr_lower", "tpr_upper", "worst")},
        notes=(*found.notes, *claim_notes, *([pair.unchecked] if pair.unchecked else [])),
        mismatch=mismatch,
        declared=declared,
        **common,
        trials=mismatch.runs + used_runs,
        seconds=time.perf_counter() - started,
    )


def _law_or_objection(mechanism: Any, pair: Pair, checked: CheckedOracle, route: str, name: str) -> tuple[EnclosedLaw | None, str | None]:
    """Return the law of the loss, and an objection to the density or to this law.

    The law is None if there is an objection, or if no law can be computed.
    """
    if route == "sampling":
        return None, None
    law = enclosed_law(mechanism, pair, checked.lonely())
    if law is None:
        if route == "law":
            raise InvalidArgument(f"certify: no exact law can be computed for {name}; use route='sampling'")
        return None, None
    objection = contradiction_with_law(law, checked)
    return (law, None) if objection is None else (None, objection)


def _unconfirmed(found: Found, edge: float) -> bool:
    """Return whether some lower bound exceeds the claim, but none that is proved or statistical."""
    return any(end.value > edge for end in found.lowers) and not any(end.sound and end.value > edge for end in found.lowers)


def _confirm(
    found: Found,
    mechanism: Any,
    pair: Pair,
    claim: Claim,
    law: EnclosedLaw | None,
    edge: float,
    trials: int,
    alpha: float,
    rng: np.random.Generator,
) -> int:
    """Add the lower bound that samples give to a numerical excess over the claim, and return the number of runs."""
    if claim.is_pure:
        loss = largest_loss_near_worst(mechanism, pair, found.worst, rng) if found.worst is not None else 0.0
        if loss > edge:
            found.lowers.append(End(loss, "statistical(0)", loss))
        return 0
    if law is None:
        return 0
    trials = max(trials, _MIN_CONFIRMING_RUNS)
    end = confirmed(mechanism, pair, claim, [law.lower, law.lower.swapped()], trials, alpha, rng)
    if end is not None and end.value > edge:
        found.lowers.append(End(end.value, end.why, max(end.epsilon, found.lowers[0].epsilon)))
    return trials


def _verdict_with_doubts(
    verdict: Verdict, low: End, claim: Claim, found: Found, law: EnclosedLaw | None, objection: str | None, edge: float
) -> Verdict:
    """Return the verdict after adding notes on an objection to the density and on an unconfirmed excess.

    A certificate becomes INCONCLUSIVE if the density does not integrate to 1.
    """
    if objection is not None:
        found.notes.insert(0, f"{objection}; sampled outputs do not confirm that the density is wrong, so the law was left aside")
        if verdict in (Verdict.CERTIFIED, Verdict.SUPPORTED) and "integrate" in objection:
            return Verdict.INCONCLUSIVE
    if verdict is Verdict.INCONCLUSIVE and low.value > edge:
        found.notes.insert(
            0, f"{claim.symbol} is {low.value:.6g} by numerics alone: this number of samples does not confirm that it exceeds the claim"
        )
    return verdict


def _verdict_on_sampler(verdict: Verdict, low: End, high: End, mismatch: Mismatch, edge: float, found: Found) -> tuple[Verdict, End]:
    """Return the verdict and the upper bound for a mechanism whose density and sampler were written separately.

    CERTIFIED becomes SUPPORTED if the claim leaves no room for the mismatch that would not have
    been noticed.
    """
    if verdict is Verdict.VIOLATED and math.isfinite(mismatch.scale) and low.value <= edge * (1 + mismatch.scale):
        found.notes.insert(0, "the excess over the claim is smaller than the mismatch of sampler and density that would have been noticed")
    if verdict is not Verdict.CERTIFIED or mismatch.room(high.value, edge):
        return verdict, high
    if mismatch.scale <= TOLERANCE:
        why = f"the claim leaves no room for a noise scale that is {100 * mismatch.scale:.2g} % smaller than that of the density"
    else:
        why = (
            f"a certificate of the mechanism needs runs that would notice a noise scale that differs by {100 * TOLERANCE:g} %: raise trials"
        )
    found.notes.insert(0, f"certified for the density, not for the mechanism: {why}")
    return Verdict.SUPPORTED, replace(high, why=f"assumed: the sampler follows the density, whose upper end is {high.why}")


def _result_without_bounds(verdict: Verdict, note: str, common: Json, trials: int, seconds: float) -> CertifyResult:
    """Return a result without bounds."""
    empty: dict[str, Any] = dict.fromkeys(("epsilons", "delta_lower", "delta_upper", "fpr", "tpr_lower", "tpr_upper"), np.empty(0))
    ends: dict[str, Any] = {"epsilon_lower": 0.0, "epsilon_upper": math.inf, "parameter_lower": 0.0, "parameter_upper": math.inf}
    return CertifyResult(
        verdict=verdict, route="none", upper_end="none", **ends, **empty, **common, trials=trials, notes=(note,), seconds=seconds
    )
