"""White-box certification of a pair: the privacy profile from below and from above, and a verdict, from the mechanism's log-density.

Routes, strongest first: enumeration, composition through privacy-loss distributions, quadrature, and otherwise bounded means under
defensive importance sampling. The route and what its upper end rests on are named in the result.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.bounded_mean import Sampled, sampled
from dpwitness.auditors.catalogue import pairs_for
from dpwitness.auditors.certify_result import CertifyResult
from dpwitness.auditors.ends import End, decide
from dpwitness.auditors.loss_law import Enclosure, LossLaw, enclose
from dpwitness.auditors.loss_search import WorstOutput, worst_output
from dpwitness.auditors.oracle import FALSE_ALARM, BadOracle, check_oracle
from dpwitness.auditors.pair_search import search
from dpwitness.auditors.pair_space import require_neighbours
from dpwitness.auditors.proved import ProvedEnds, proved_ends
from dpwitness.auditors.result import Verdict
from dpwitness.auditors.witness import describe_target
from dpwitness.mechanisms.jsonable import same_value
from dpwitness.mechanisms.notions import GDP, RDP, ZCDP, ApproxDP, Claim, promised
from dpwitness.mechanisms.pairs import Pair
from dpwitness.mechanisms.protocol import name_of
from dpwitness.mechanisms.solvers import ConvergenceError
from dpwitness.mechanisms.validation import InvalidArgument, require_integer, require_one_of, require_probability, require_type

__all__ = ["CertifyResult", "certify"]

FloatArray = NDArray[np.float64]

_ROUNDING = 1e-9  # relative: an end this close to the claimed epsilon agrees with it
_TAILS = 1e-6  # the same for mu and rho, which hang on relative errors far out
_ORDERS = 1.0 + np.geomspace(1e-3, 1e4, 240)  # zCDP
_FPR = np.concatenate([[0.0], np.geomspace(1e-9, 1e-2, 36), np.linspace(0.02, 1.0, 50)])
_GRID, _SAMPLED_GRID = 41, 13  # epsilons of the profile


def certify(
    mechanism: Any,
    pair: Pair | None = None,
    claim: Claim | str | None = None,
    *,
    trials: int = 100_000,
    confidence: float = 0.999,
    seed: int = 0,
    route: str = "auto",
    name: str | None = None,
    target: dict[str, Any] | None = None,
) -> CertifyResult:
    """Enclose the privacy profile of a pair, from the mechanism's output density.

    Parameters
    ----------
    mechanism : Mechanism
        With ``sample`` and ``log_density``; ``support``, ``factors`` and ``breakpoints`` are used where offered.
    pair : Pair, optional
        The verdict is for this pair, both orders. If left out, the one with the largest loss in the catalogue of ``mechanism.domain``.
    claim : Claim or str, optional
        ``mechanism.claim`` if left out.
    trials : int
        Runs of the mechanism where outputs are sampled, both orders and pilots together. At least 10,000. A fifth of it, at most 40,000,
        serves on top to hold the density against the sampler.
    confidence : float
        Of all statistical statements of the result together. Exact routes do not need it.
    seed : int
        Root of all randomness.
    route : {"auto", "law", "sampling"}
        The strongest that applies; an exact or enclosed law only; or sampling, whatever else would apply.
    name : str, optional
        For the report.
    target : dict, optional
        How to find the mechanism again, for the witness; found out by itself for importable mechanisms.

    Returns
    -------
    CertifyResult

    Raises
    ------
    InvalidArgument
        If an argument breaks its rule, or ``route="law"`` and no law can be computed. A bad density ends in the verdict ERROR instead.

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
    require_one_of("route", route, ["auto", "law", "sampling"], "certify")
    require_type("name", name, str, "be a text", "certify", optional=True)
    require_type("target", target, dict, "be a dict", "certify", optional=True)
    started = time.perf_counter()
    if pair is None:
        domain = getattr(mechanism, "domain", None)
        if domain is None:
            raise InvalidArgument("certify: pair must be given for a mechanism without a domain, got None")
        require_neighbours(domain, "certify")
        pair = search(mechanism, domain, claim, evaluations=len(pairs_for(domain)), seed=seed, keep=1)[0][0]
    if not isinstance(pair, Pair):
        raise InvalidArgument(f"certify: pair must be a Pair, got {type(pair).__name__}")
    streams = [np.random.Generator(np.random.SFC64(s)) for s in np.random.SeedSequence(seed, spawn_key=(0xCE27,)).spawn(3)]
    name = name or name_of(mechanism)
    check = min(trials // 10, 20_000)
    common: dict[str, Any] = {"name": name, "claim": claim, "pair": pair, "confidence": confidence, "seed": seed}
    common["target"] = target or describe_target(mechanism)
    try:
        law = None if route == "sampling" else enclose(mechanism, pair)
        if law is None and route == "law":
            raise InvalidArgument(f"certify: no exact law can be computed for {name}; use route='sampling'")
        check_oracle(mechanism, pair, law, check, streams[0])
        found = _from_law(law, claim) if law is not None else _from_samples(mechanism, pair, claim, trials, 1 - confidence, streams[1:])
        if isinstance(claim, ApproxDP) and claim.delta_budget == 0:
            _add_worst(found, _worst(mechanism, pair, seed), law)
        verdict = _judge(found, claim, None if route == "sampling" else proved_ends(mechanism, pair, claim))
    except (BadOracle, ConvergenceError, ArithmeticError) as error:
        alarm = f" (false-alarm probability at most {FALSE_ALARM:g})"
        note = f"{error}{alarm}" if isinstance(error, BadOracle) else f"the mechanism raises {type(error).__name__}: {error}"
        empty: dict[str, Any] = dict.fromkeys(("epsilons", "delta_lower", "delta_upper", "fpr", "tpr_lower", "tpr_upper"), np.empty(0))
        ends: dict[str, Any] = {"epsilon_lower": 0.0, "epsilon_upper": math.inf, "parameter_lower": 0.0, "parameter_upper": math.inf}
        seconds = time.perf_counter() - started
        return CertifyResult(
            verdict=Verdict.ERROR,
            route="none",
            upper_end="none",
            **ends,
            **empty,
            **common,
            trials=2 * check,
            notes=(note,),
            seconds=seconds,
        )
    used = 2 * check + (0 if law is not None else trials)
    return CertifyResult(verdict=verdict, **found, **common, trials=used, seconds=time.perf_counter() - started)


def _worst(mechanism: Any, pair: Pair, seed: int) -> WorstOutput | None:
    """The output that betrays most; of a mechanism of independent parts with one that differs, an output of that part."""
    if hasattr(mechanism, "factors"):
        parts = [(part, d0, d1) for part, d0, d1 in mechanism.factors(pair.d0, pair.d1) if not same_value(d0, d1)]
        if len(parts) == 1 and hasattr(parts[0][0], "sample"):
            (mechanism, d0, d1), *_ = parts
            pair = Pair(d0, d1, pair.relation, pair.why)
    try:
        return worst_output(mechanism, pair, seed=seed)
    except InvalidArgument:  # outputs that are no rows of numbers
        return None


def _add_worst(found: dict[str, Any], worst: WorstOutput | None, law: Enclosure | None) -> None:
    """Let the largest loss that a search over outputs has found raise the ends."""
    found["worst"] = worst
    if worst is None or (law is not None and law.label == "exact"):
        return
    for end in ("epsilon", "parameter"):
        found[f"{end}_lower"] = max(found[f"{end}_lower"], worst.loss)
        found[f"{end}_upper"] = max(found[f"{end}_upper"], worst.loss)
    if math.isfinite(found["epsilon_upper"]):
        found["upper_end"] = "assumed: no output has a larger loss than the nodes of the quadrature and a search over outputs show"


def _judge(found: dict[str, Any], claim: Claim, proved: ProvedEnds | None) -> Verdict:
    """The verdict; `found` takes the ends that are told with it."""
    edge = claim.parameter * (1 + (_ROUNDING if isinstance(claim, ApproxDP) else _TAILS))
    lowers, uppers = ([End(found[f"parameter_{side}"], found[f"{side}_end"], found[f"epsilon_{side}"])] for side in ("lower", "upper"))
    if proved is not None and proved.tight:
        lowers, uppers = [], []
    if proved is not None:
        lowers.insert(0, End(proved.parameter_lower, "proved", proved.epsilon_lower))
        uppers.insert(0, End(proved.parameter_upper, "proved", proved.epsilon_upper))
    verdict, low, high = decide(lowers, uppers, edge)
    if verdict is Verdict.INCONCLUSIVE and low.value > edge:
        verdict = Verdict.VIOLATED
    for side, end in (("lower", low), ("upper", high)):
        found[f"parameter_{side}"], found[f"{side}_end"], found[f"epsilon_{side}"] = end.value, end.why, end.epsilon
    if proved is not None and "proved" in (low.why, high.why):
        beside = "" if low.why == high.why else f"; numbers beside it: {found['route']}"
        found["route"], found["notes"] = f"proved: {proved.route}{beside}", (*found["notes"], *proved.notes)
        if len(proved.epsilons):
            found["epsilons"], found["delta_lower"], found["delta_upper"] = proved.epsilons, proved.delta_lower, proved.delta_upper
    return verdict


def _from_law(law: Enclosure, claim: Claim) -> dict[str, Any]:
    """Everything that the law of the loss says."""
    delta = claim.delta_budget
    if delta > 0:
        near = law.lower.epsilon(delta), -law.lower.swapped().epsilon(delta)
        law = law.refined([loss for loss in near if math.isfinite(loss)])
    lower, upper = ([side, side.swapped()] for side in (law.lower, law.upper))
    ends = [max(side.epsilon(delta) for side in sides) for sides in (lower, upper)]
    notes: list[str] = []
    label = "numerical"
    if isinstance(claim, ApproxDP):
        parameters = list(ends)
    else:
        low, high, notes = _parameters(claim, lower, upper)
        parameters = [low, high]
        unseen = max(law.upper.unseen_p, law.upper.unseen_q)
        if unseen > 1e-9:
            parameters[1] = math.inf
        elif law.label != "exact":
            label = f"assumed: the mass of {unseen:.1g} that was left out shows no larger loss"
        if isinstance(claim, GDP):
            label = "assumed: events of probability below 1e-9 need no larger mu"
    # the two ends are computed by separate roundings
    ends[1], parameters[1] = max(ends), max(parameters)
    epsilons = _profile_grid(claim, ends[1], _GRID)
    profiles = [np.max([side.hockey_stick(epsilons) for side in sides], axis=0) for sides in (lower, upper)]
    curves = [np.max([_best_attack(side) for side in sides], axis=0) for sides in (lower, upper)]
    return {
        "route": law.route,
        "lower_end": "numerical",
        "upper_end": label,
        "epsilon_lower": ends[0],
        "epsilon_upper": ends[1],
        "parameter_lower": parameters[0],
        "parameter_upper": parameters[1],
        "epsilons": epsilons,
        "delta_lower": profiles[0],
        "delta_upper": np.maximum(profiles[0], profiles[1]),
        "fpr": _FPR,
        "tpr_lower": curves[0],
        "tpr_upper": np.maximum(curves[0], curves[1]),
        "notes": tuple(notes),
    }


def _profile_grid(claim: Claim, upper: float, size: int) -> FloatArray:
    scale = claim.parameter if isinstance(claim, ApproxDP) else 1.0
    top = max(1.5 * scale, 1.2 * upper if math.isfinite(upper) else 4 * scale)
    return np.linspace(0.0, min(top, 600.0), size)


def _parameters(claim: Claim, lower: list[LossLaw], upper: list[LossLaw]) -> tuple[float, float, list[str]]:
    """Smallest parameter of GDP, zCDP or RDP that the laws allow, from below and from above, over both orders.

    GDP: its curve is concave, and so is the attacker's; the vertices of the latter decide. zCDP: D_a <= sup L, so that the orders from some
    a on need no more than sup L / a.
    """
    if isinstance(claim, RDP):
        return max(law.renyi(claim.alpha) for law in lower), max(law.renyi(claim.alpha) for law in upper), []
    if isinstance(claim, ZCDP):
        ends = np.array([[max(law.renyi(a) for law in laws) / a for a in _ORDERS.tolist()] for laws in (lower, upper)])
        with np.errstate(invalid="ignore"):
            resolved = (ends[1] - ends[0] <= 1e-2 * ends[1] + 1e-9) | (ends[0] == ends[1])
        last = len(_ORDERS) if resolved.all() else int(np.argmin(resolved))
        if last == 0:
            return float(ends[0].max()), math.inf, []
        rest = max(law.supremum for law in upper) / float(_ORDERS[last - 1])
        notes = [f"orders from 1 + {_ORDERS[0] - 1:.3g} to {_ORDERS[last - 1]:.4g} were looked at"]
        if math.isinf(rest):
            notes[0] += "; the upper end assumes that those beyond need no larger rho"
            rest = 0.0
        return float(ends[0].max()), max(float(ends[1][:last].max()), min(rest, float(ends[1].max()))), notes
    values = []
    for laws in (lower, upper):
        value = 0.0
        for law in laws:
            threshold, fpr, tpr = law.roc()
            # beyond the middle the other order says the same, from tails that are summed without cancellation
            use = (fpr + tpr <= 1) & (tpr > 1e-9) & ((fpr > 0) | np.isposinf(threshold))
            with np.errstate(invalid="ignore"):
                value = max(value, float(np.max(claim.parameter_at(fpr[use], tpr[use]), initial=0.0)))
        values.append(value)
    return values[0], values[1], []


def _best_attack(law: LossLaw) -> FloatArray:
    _, fpr, tpr = law.roc()
    return np.asarray(np.minimum(1.0, np.interp(_FPR, np.append(0.0, fpr), np.append(0.0, tpr)) + law.unseen_p))


def _from_samples(
    mechanism: Any, pair: Pair, claim: Claim, trials: int, alpha: float, streams: list[np.random.Generator]
) -> dict[str, Any]:
    """Bounded means for both orders. The lower end may err for either, the upper end for the larger one only: alpha is shared so."""
    delta = claim.delta_budget
    pure_notion = isinstance(claim, ApproxDP)
    epsilons = _profile_grid(claim, math.inf if not pure_notion else claim.parameter, _SAMPLED_GRID)
    alphas = (0.2 * alpha, 0.4 * alpha, 0.1 * alpha, 0.05 * alpha)
    sides: list[Sampled] = []
    for both, stream in zip((pair, Pair(pair.d1, pair.d0, pair.relation, pair.why)), streams, strict=True):
        sides.append(sampled(mechanism, both, delta, epsilons, trials // 2, alphas, stream))
    low, high = max(side.epsilon_lower for side in sides), max(side.epsilon_upper for side in sides)
    if pure_notion:
        parameters = (low, high)
    else:
        points = [point for side in sides for point in side.operating]
        with np.errstate(invalid="ignore"):
            parameters = (max((float(claim.parameter_at(*point)) for point in points), default=0.0), math.inf)
    notes = []
    if delta == 0:
        notes.append("the lower end is the largest loss at an output: a proof where the densities are continuous")
    return {
        "route": f"bounded mean, {sides[0].method}",
        "lower_end": f"statistical({alpha:.3g})",
        "upper_end": f"statistical({alpha:.3g})",
        "epsilon_lower": low,
        "epsilon_upper": high,
        "parameter_lower": parameters[0],
        "parameter_upper": parameters[1],
        "epsilons": epsilons,
        "delta_lower": np.max([side.delta_lower for side in sides], axis=0),
        "delta_upper": np.max([side.delta_upper for side in sides], axis=0),
        "fpr": np.empty(0),
        "tpr_lower": np.empty(0),
        "tpr_upper": np.empty(0),
        "notes": tuple(notes),
    }
