"""What a pair is worth to the search: a quick look at its privacy loss, or an estimate of the claim's parameter from samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpwitness.auditors.events.learning import expected_certificate
from dpwitness.auditors.events.outputs import WrongShape
from dpwitness.auditors.loss.outputs import Loss, sampled
from dpwitness.auditors.running.engine import run_side, stream
from dpwitness.mechanisms.numerics.solvers import ConvergenceError
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.powers import HasSupport, offers
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.validation import InvalidArgument

_FAR = np.array([1.0, 10.0, 1000.0])


class LossScore:
    """The largest loss among a few outputs: one that the search moves along with the pair, some samples, and points beyond the shift.

    `width` is how many coordinates the output has that the search moves, in units of the spread of outputs, as arguments of sinh.
    """

    def __init__(self, mechanism: Any, pilot: Sequence[Pair], seed: int, samples: int = 4) -> None:
        self._mechanism, self._seed, self._samples = mechanism, seed, samples
        rows = []
        for pair in pilot[:6]:
            try:
                rows.append(sampled(mechanism, pair.d0, 64, np.random.default_rng(seed)))
            except ConvergenceError:
                continue
        if not rows:
            tried = f"{type(mechanism).__name__} converged on none of {min(len(pilot), 6)} pairs"
            raise InvalidArgument(f"search: mechanism must run on the domain, {tried}")
        self._discrete = offers(mechanism, HasSupport)
        self._scale = np.maximum(np.median([np.median(np.abs(r), axis=0) for r in rows], axis=0), 1e-9)
        self.width = 0 if self._discrete else int(rows[0].shape[1])

    def __call__(self, pair: Pair, tail: FloatArray) -> tuple[float, FloatArray | None]:
        """The value, and the output where it was reached."""
        loss = Loss(self._mechanism, pair)
        if self._discrete:
            try:
                supports = [np.asarray(self._mechanism.support(d), dtype=float) for d in (pair.d0, pair.d1)]
                rows = np.vstack([s.reshape(len(s), -1) for s in supports])
            except InvalidArgument:  # too many to list
                rows = self._drawn(pair, 64)
        else:
            rows = np.vstack([self._scale * np.sinh(np.clip(2 * tail, -30, 30))[None, :], self._near(pair)])
        values = loss(rows)
        i = int(np.argmax(values))
        return float(values[i]), rows[i]

    def _drawn(self, pair: Pair, size: int) -> FloatArray:
        return np.vstack([sampled(self._mechanism, d, size, np.random.default_rng(self._seed)) for d in (pair.d0, pair.d1)])

    def _near(self, pair: Pair) -> FloatArray:
        """Samples with the same randomness on both sides, whose difference is the shift of additive noise, and points beyond it."""
        try:
            rows = self._drawn(pair, self._samples)
        except ConvergenceError:
            return np.zeros((1, len(self._scale)))
        first, second = rows[: self._samples], rows[self._samples :]
        shift = (first - second).mean(axis=0)
        length = float(np.linalg.norm(shift))
        if length == 0 or not np.isfinite(length):
            return rows
        reach = (_FAR * float(np.linalg.norm(self._scale)) / length)[:, None] * shift
        return np.vstack([rows, first[0] + reach, second[0] - reach])


class PilotScore:
    """The parameter that an event learned on a few runs is expected to certify; the same randomness for all pairs."""

    def __init__(self, mechanism: Any, claim: Claim, seed: int, runs: int = 1000) -> None:
        self._run, self._claim, self._seed, self._runs = getattr(mechanism, "sample", mechanism), claim, seed, runs
        if not callable(self._run):
            needed = "have log_density, or be callable as f(dataset, size, rng)"
            raise InvalidArgument(f"search: mechanism must {needed}, got {type(mechanism).__name__}")

    def __call__(self, pair: Pair) -> float:
        """A cautious figure, worth nothing as a bound."""
        try:
            first, second = (run_side(self._run, d, self._runs, stream(self._seed, i)) for i, d in enumerate((pair.d1, pair.d0)))
        except WrongShape as error:
            raise InvalidArgument(f"search: {error}") from None
        return expected_certificate(first, second, self._claim, alpha=0.01, rounds=10**6)


class ProfileScore:
    """An estimate of the claim's parameter on a pair, from the losses of samples: it ranks pairs and proves nothing.

    For (epsilon, delta): the epsilon at which the mean of (1 - e^(epsilon - L))+ is delta. For other notions: the largest parameter that a
    threshold on L, passed at least ten times, asks for.
    """

    def __init__(self, mechanism: Any, claim: Claim, seed: int, samples: int = 2048) -> None:
        self._mechanism, self._claim, self._seed, self._samples = mechanism, claim, seed, samples

    def __call__(self, pair: Pair) -> float:
        """The larger estimate of the two orders."""
        loss = Loss(self._mechanism, pair)
        rng = np.random.default_rng(self._seed)
        zero, one = (loss.signed(sampled(self._mechanism, d, self._samples, rng))[0] for d in (pair.d0, pair.d1))
        return max(self._one_way(one, zero), self._one_way(-zero, -one))

    def _one_way(self, under: FloatArray, against: FloatArray) -> float:
        claim = self._claim
        if claim.bounds_epsilon:
            if np.mean(under == np.inf) > claim.delta_budget:
                return math.inf
            finite = under[np.isfinite(under)]
            low, high = 0.0, float(max(finite.max(initial=0.0), 0.0))
            for _ in range(60):
                middle = (low + high) / 2
                if float(np.mean(-np.expm1(np.minimum(middle - under, 0.0)))) > claim.delta_budget:
                    low = middle
                else:
                    high = middle
            return low
        if len(under) < 20:
            return 0.0
        thresholds = np.sort(under)[::-1][9::8]
        tpr = np.array([np.mean(under >= t) for t in thresholds])
        # The false-positive rate of a threshold on L is a mean under the law of `under` as well, which sees far smaller ones.
        fpr = np.array([np.mean(np.where(under >= t, np.exp(-np.maximum(under, -700.0)), 0.0)) for t in thresholds])
        return float(np.max(claim.parameter_at(np.minimum(fpr, 1.0), tpr), initial=0.0))
