"""Plan of a canary audit: canaries for a user's training, as gradients or records, and scores for
the canaries; and the largest bound that canaries can certify, with ideal scores, a known noise law
and no interference between canaries.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr
from scipy.stats import binom

from dpwitness.auditors.canaries.bounds import (
    chance,
    epsilons_refuted,
    largest,
    p_value,
    parameter_refuted,
    refutes,
    schedule,
    sizes,
    tests_curve,
)
from dpwitness.auditors.witnesses.verdicts import SCHEMA, strict
from dpwitness.core.claims import GDP, Claim, PureDP, promised
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import (
    require,
    require_integer,
    require_numbers,
    require_one_of,
    require_probability,
    require_that,
)


@dataclass(frozen=True, eq=False)
class GradientCanaries:
    """Orthogonal gradients for white-box audits: each gradient is visible in an update
    independently of the others.

    Nasr et al. (2023), section 4 (Dirac); Steinke, Nasr and Jagielski (2023), section 6. A canary's
    record may be anything with this gradient. For Dirac gradients, use a number in an additional
    layer.

    Parameters
    ----------
    count, dimension : int
        Number of canaries, at most the number of entries of a gradient, and number of entries.
    norm : float
        Length of each gradient. Use a length well above the clipping norm: otherwise, a training
        without clipping passes.
    kind : {"dirac", "orthogonal"}
        Gradients with one nonzero entry, in the first entries; or a random orthonormal system, for
        training code that treats entries differently.
    seed : int
        Seed of the orthonormal system.

    Raises
    ------
    InvalidArgument
        If a parameter is out of range.

    Examples
    --------
    >>> canaries = GradientCanaries(count=3, dimension=8, norm=10.0)
    >>> canaries.rows([1])
    array([[ 0., 10.,  0.,  0.,  0.,  0.,  0.,  0.]])
    >>> canaries.scores(np.arange(8.0))
    array([0., 1., 2.])
    """

    count: int
    dimension: int
    norm: float = 1.0
    kind: str = "dirac"
    seed: int = 0
    _system: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require(self).integer("count", "dimension").positive("norm").one_of(
            "kind", ["dirac", "orthogonal"]
        )
        require_integer("seed", self.seed, "GradientCanaries", least=0)
        require_that(
            self.count <= self.dimension,
            f"count must be at most dimension, {self.dimension}, got {self.count}",
            "GradientCanaries",
        )
        system = np.empty((0, self.dimension))
        if self.kind == "orthogonal":
            gradients = np.random.default_rng(self.seed).normal(size=(self.dimension, self.count))
            system = np.linalg.qr(gradients)[0].T
        object.__setattr__(self, "_system", system)

    def rows(self, which: ArrayLike) -> FloatArray:
        """Return the gradients of the canaries `which`, given by number or by a mask: (k,
        dimension).
        """
        chosen = np.arange(self.count)[np.asarray(which)]
        if self.kind == "orthogonal":
            return np.asarray(self.norm * self._system[chosen])
        values = np.zeros((len(chosen), self.dimension))
        values[np.arange(len(chosen)), chosen] = self.norm
        return values

    def scores(self, update: ArrayLike) -> FloatArray:
        """Return the inner product of each canary's direction with a noisy sum of gradients, to be
        summed over steps: (count,).

        Negate an update that points against the gradient, such as a change of the model's
        parameters: large scores must indicate included canaries.
        """
        values = require_numbers("update", update, "GradientCanaries").ravel()
        require_that(
            values.size == self.dimension,
            f"update must have as many entries as gradients, {self.dimension}, got {values.size}",
            "GradientCanaries",
        )
        return (
            values[: self.count].copy()
            if self.kind == "dirac"
            else np.asarray(self._system @ values)
        )


def canary_records(
    features: ArrayLike, labels: ArrayLike, count: int, *, kind: str = "mislabelled", seed: int = 0
) -> tuple[FloatArray, np.ndarray]:
    """Return features and labels of `count` canary records that a training would have to memorize,
    for black-box audits.

    Parameters
    ----------
    features, labels : array_like
        The real table, (n, k) and (n,), from which canaries are made.
    count : int
        Number of canaries.
    kind : {"mislabelled", "blank", "extreme"}
        Real records with another label that occurs, drawn without replacement while records remain;
        records of zeros with random labels; or records with every column three ranges beyond an
        end, at random ends and with random labels.
    seed : int
        Seed of the random choices.

    Returns
    -------
    features : ndarray, (count, k)
        Features of the canaries.
    labels : ndarray, (count,)
        Labels of the canaries.

    Raises
    ------
    InvalidArgument
        If an argument is invalid, for example if all labels are equal.

    Notes
    -----
    Blank canaries with one label are the same record many times. The model's bias moves with their
    number, and a single canary has almost no effect.

    Examples
    --------
    >>> table, truth = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
    >>> x, y = canary_records(table, truth, 2)
    >>> [bool(y[i] != truth[np.flatnonzero((table == x[i]).all(axis=1))[0]]) for i in range(2)]
    [True, True]
    """
    owner = "canary_records"
    table, label_array = require_numbers("features", features, owner), np.asarray(labels)
    require_that(
        table.ndim == 2 and len(table),
        f"features must be a table with one row per record, got shape {table.shape}",
        owner,
    )
    require_that(
        label_array.shape == (len(table),),
        f"labels must have one entry per record, {len(table)}, got shape {label_array.shape}",
        owner,
    )
    require_integer("count", count, owner)
    require_one_of("kind", kind, ["mislabelled", "blank", "extreme"], owner)
    kinds, codes = np.unique(label_array, return_inverse=True)
    require_that(
        len(kinds) >= 2, f"labels must be of at least two kinds, all are {kinds[0]}", owner
    )
    rng = np.random.default_rng(require_integer("seed", seed, owner, least=0))
    if kind == "mislabelled":
        permutations = [rng.permutation(len(table)) for _ in range(-(-count // len(table)))]
        chosen = np.concatenate(permutations)[:count]
        return table[chosen], kinds[
            (codes[chosen] + rng.integers(1, len(kinds), count)) % len(kinds)
        ]
    random_labels = kinds[rng.integers(len(kinds), size=count)]
    if kind == "blank":
        return np.zeros((count, table.shape[1])), random_labels
    low, high = table.min(axis=0), table.max(axis=0)
    distance = 3.0 * np.where(high > low, high - low, 1.0)
    return np.where(
        rng.random((count, table.shape[1])) < 0.5, low - distance, high + distance
    ), random_labels


def prediction_scores(
    predictions: ArrayLike, labels: ArrayLike, kind: str = "margin"
) -> FloatArray:
    """Return a score of how well a released model fits each canary, for black-box audits and for a
    released minimizer.

    Parameters
    ----------
    predictions : array_like
        Predictions of the model for the canaries. (m,) numbers for labels -1 and 1, such as <w, x>
        at a released minimizer w; or (m, classes) log-odds up to a constant, for labels 0, 1, ...
    labels : array_like
        Labels of the canaries, (m,).
    kind : {"margin", "loss"}
        Prediction for the label minus the best other prediction; or minus the logistic loss, log
        P(label).

    Returns
    -------
    ndarray, (m,)
        Score of each canary. Large scores indicate included canaries.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.

    Examples
    --------
    >>> prediction_scores([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]], [1, 2])
    array([ 1., -3.])
    >>> prediction_scores([2.0, -1.0], [1, 1], "loss").round(3)
    array([-0.127, -1.313])
    """
    owner = "prediction_scores"
    values = require_numbers("predictions", predictions, owner)
    label_array = require_numbers("labels", labels, owner)
    require_one_of("kind", kind, ["margin", "loss"], owner)
    require_that(
        values.ndim in (1, 2) and label_array.shape == values.shape[:1],
        f"labels must have one entry per row of predictions, got shapes {label_array.shape} and "
        f"{values.shape}",
        owner,
    )
    classes = values.shape[-1]
    known, rule = range(classes), f"0 to {classes - 1}, of at least two classes"
    if values.ndim == 1:
        known, rule = range(-1, 2, 2), "-1 or 1 for one number per canary"
    wrong = label_array[~np.isin(label_array, known)]
    require_that(
        len(known) >= 2 and not len(wrong),
        f"labels must be {rule}, got {wrong[0] if len(wrong) else label_array[0]:g}",
        owner,
    )
    if values.ndim == 1:
        margins = label_array * values
        return np.asarray(margins if kind == "margin" else -np.logaddexp(0.0, -margins))
    label_index = np.arange(len(values)), label_array.astype(int)
    label_values = values[label_index]
    if kind == "loss":
        return np.asarray(label_values - np.logaddexp.reduce(values, axis=1))
    others = values.copy()
    others[label_index] = -np.inf
    return np.asarray(label_values - others.max(axis=1))


MOST = 10**7  # canaries


@dataclass(frozen=True, slots=True)
class CanaryLimit:
    """Largest bound that canaries can certify.

    Attributes
    ----------
    epsilon, parameter : float
        Median bound of audits with ideal scores, for the best number of guesses under this law,
        known in advance: as an epsilon at `delta`, and as the claim's own parameter.
    guesses : int
        Best number of guesses.
    true : float
        True epsilon at `delta`.
    detectable : float
        Smallest true epsilon that refutes the claim with probability 0.9; infinity if there is
        none.
    claim, delta, canaries, runs, confidence
        Arguments of `dpwitness.canaries.canary_limit`.
    """

    claim: Claim
    delta: float
    canaries: int
    runs: int
    confidence: float
    true: float
    epsilon: float
    parameter: float
    guesses: int
    detectable: float

    def headline(self) -> str:
        """Return a one-line summary."""
        runs = f"each of {self.runs} runs" if self.runs > 1 else "one run"
        at = f" at delta = {self.delta:g}" if self.delta else ""
        which = (
            "no epsilon"
            if math.isinf(self.detectable)
            else f"a true epsilon of {self.detectable:.4g}"
        )
        return (
            f"at most epsilon = {self.epsilon:.3g} of {self.true:.4g}{at} is certified by "
            f"{self.canaries:,} canaries in {runs} "
            f"(median, {self.guesses:,} guesses, {self.claim}, confidence "
            f"{self.confidence:g}); {which} refutes the claim with probability 0.9"
        )

    def to_json(self) -> Json:
        """Return the fields as JSON values."""
        fields = {key: value for key, value in asdict(self).items() if key != "claim"}
        return {
            "schema_version": SCHEMA,
            "kind": "canary limit",
            "claim": str(self.claim),
            "claim_numbers": list(self.claim.numbers),
            "headline": self.headline(),
            **strict(fields),
        }

    def __str__(self) -> str:
        return f"{self.headline()}\n\n  assumes  {self.assumed}, both kinds of guesses"

    @property
    def assumed(self) -> str:
        """Return the assumptions on noise, scores and coins."""
        noise = "randomized response" if self.claim.is_pure else "Gaussian noise"
        return f"{noise}, scores that do not disturb each other, fair coins"


def canary_limit(
    claim: Claim | str,
    canaries: int,
    runs: int = 1,
    *,
    delta: float = 1e-5,
    confidence: float = 0.95,
    method: str = "best",
) -> CanaryLimit:
    """Return the largest bound that canaries can certify if the training satisfies the claim
    exactly.

    No audit of one run does much better. The claim is satisfied by Gaussian noise, or without delta
    by randomized response of each coin.

    Parameters
    ----------
    claim : Claim or str
        ``pure:EPSILON``. ``approx:EPSILON,DELTA``: the theorem for (epsilon, delta)-DP, at the
        Gaussian noise with this epsilon and delta. ``gdp:MU``, or an approximate claim with
        ``method="curve"``: the theorem for Gaussian curves. A `DPSGD` or `TradeoffCurve` is
        replaced by the Gaussian curve with the same epsilon at `delta`.
    canaries, runs : int
        Number of canaries of each run, included and left out together, and number of runs.
    delta : float
        Delta at which a GDP claim is converted to an epsilon.
    confidence : float
        Confidence level of the bound, in (0, 1).
    method : {"best", "curve"}
        Theorem; ``curve`` tests an approximate claim by the Gaussian curve with the same epsilon
        and delta.

    Returns
    -------
    CanaryLimit
        Median bound, best number of guesses, and smallest detectable epsilon.

    Raises
    ------
    InvalidArgument
        If an argument is invalid.

    Examples
    --------
    >>> found = canary_limit("approx:8,1e-5", 1000)
    >>> round(found.epsilon, 1), round(canary_limit("approx:8,1e-5", 1000,
    ...     method="curve").epsilon, 1)
    (3.0, 4.8)
    """
    owner = "canary_limit"
    claim = promised(None, claim, owner).for_canaries(owner)
    size = require_integer("canaries", canaries, owner, least=10, most=MOST)
    run_count = require_integer("runs", runs, owner, most=10**6)
    alpha = 1 - require_probability("confidence", confidence, owner)
    by_curve = tests_curve(claim, method, owner)
    if claim.has_tangents:
        claim = GDP.implied_by(claim, require_probability("delta", delta, owner))
    else:
        delta = claim.delta_budget
    truth = claim if claim.is_pure else GDP.implied_by(claim, delta)
    total = size * run_count
    guesses, p = shares(truth, total)
    right = binom.ppf(0.5, guesses, p)  # the median
    if by_curve:
        best, parameter = int(guesses[-1]), 0.0
        for r, v in zip(guesses.tolist(), right.astype(int).tolist(), strict=True):
            found = parameter_refuted(GDP(1.0), v, r, total, alpha, parameter)
            best, parameter = (r, found) if found > parameter else (best, parameter)
    else:
        bounds = epsilons_refuted(right, guesses, delta, total, alpha, chance)
        best, parameter = int(guesses[bounds.argmax()]), float(bounds.max())
    epsilon = GDP(parameter).epsilon_at(delta) if by_curve and parameter > 0 else parameter
    return CanaryLimit(
        claim=claim,
        delta=delta,
        canaries=size,
        runs=run_count,
        confidence=confidence,
        true=truth.epsilon_at(delta),
        epsilon=epsilon,
        parameter=parameter if by_curve == claim.has_tangents else epsilon,
        guesses=best,
        detectable=detectable(truth if by_curve else claim, total, alpha, delta, by_curve),
    )


def shares(truth: Claim, canaries: int) -> tuple[np.ndarray, np.ndarray]:
    """Return several numbers of guesses, and for each the probability that a guess is right if the
    attack is ideal.
    """
    if truth.is_pure:  # randomized response is equally informative about all coins
        return (guesses := sizes(canaries)), np.full(guesses.size, expit(truth.parameter))
    mu = truth.parameter
    guesses = np.unique(np.geomspace(4, canaries, 40).astype(int))
    grid = np.linspace(mu / 2, mu / 2 + 12, 4_000)  # thresholds of the guess "in"
    at = np.interp(-guesses / (2 * canaries), -(0.5 * (ndtr(-grid) + ndtr(mu - grid))), grid)
    return guesses, ndtr(mu - at) / (ndtr(-at) + ndtr(mu - at))


def detectable(claim: Claim, canaries: int, alpha: float, delta: float, by_curve: bool) -> float:
    """Return the smallest true epsilon at delta that refutes the claim with probability 0.9.

    The true law is Gaussian noise, or randomized response if `delta` is 0.
    """
    lines = claim.tangents() if by_curve else None
    most = round(0.43 * canaries)  # that may be guessed

    def missed(epsilon: float) -> bool:
        guesses, p = (
            shares(GDP.with_epsilon(epsilon, delta), canaries)
            if delta
            else shares(PureDP(epsilon), most)
        )
        if lines is None:
            return not bool(
                (
                    p_value(binom.ppf(0.1, guesses, p), guesses, claim.parameter, delta, canaries)
                    # the number of guesses is not known in advance
                    <= 0.8 * alpha
                ).any()
            )
        for r, share in schedule(canaries, most, alpha, claim.guess_mu):
            v = int(binom.ppf(0.1, r, np.interp(r, guesses, p)))
            if refutes(v, r, canaries, *lines, share):
                return False
        return True

    return math.inf if missed(64.0) else largest(missed, claim.epsilon_at(delta))
