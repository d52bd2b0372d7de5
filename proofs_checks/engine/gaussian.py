"""Gaussian mechanism in ball arithmetic: normal tails, and the exact delta of Balle and Wang (2018)
without cancellation.

With Q the normal tail, phi the density and m = Q / phi the Mills ratio, delta = Q(a) - e^epsilon
Q(b), a = epsilon/mu - mu/2, b = a + mu. Since b^2 - a^2 = 2 epsilon, e^epsilon phi(b) = phi(a), so
that delta = phi(a) (m(a) - m(b)).
"""

from __future__ import annotations

from flint import arb, ctx

from dpwitness.proofs_checks.engine.enclosures import Ball, excess, twice

PRECISION = 160  # bits for differences of Mills ratios; enough for arguments up to 1e4


def mills(x: Ball) -> Ball:
    """Enclose the Mills ratio Q(x) / phi(x), which is decreasing, by its values at the endpoints of
    the ball.
    """
    with ctx.workprec(PRECISION):
        return _mills_at(x.upper()).union(_mills_at(x.lower()))


def gaussian_excess(
    epsilon: Ball, delta: Ball, *, per_log: float, per_epsilon: float, constant: Ball | float = 0.0
) -> Ball:
    """Enclose the excess, exact delta / delta - 1, of Gaussian noise of variance v (shift /
    epsilon)^2.

    Here v = per_log log(1/delta) + per_epsilon epsilon + constant, so mu = epsilon / sqrt(v) and a
    = sqrt(v) - mu / 2. After cancellation, log(exact / delta) = (1 - per_log/2) log(1/delta) + (1 -
    per_epsilon) epsilon / 2 - constant / 2 - mu^2 / 8
    - log sqrt(2 pi) + log(m(a) - m(a + mu)). The last difference falls in a, since m is convex, and
      rises in mu.
    """

    def variance_at(epsilon: Ball, delta: Ball) -> Ball:
        return per_log * -delta.log() + per_epsilon * epsilon + constant

    def form(epsilon: Ball, delta: Ball) -> Ball:
        digits, variance = -delta.log(), variance_at(epsilon, delta)
        mu = epsilon / variance.sqrt()
        a = variance.sqrt() - mu / 2
        with ctx.workprec(PRECISION):
            low, high = (
                _mills_at(at) - _mills_at(at + shift)
                for at, shift in ((a.upper(), mu.lower()), (a.lower(), mu.upper()))
            )
            difference = low.union(high).nonnegative_part()
        log_ratio = (
            (2 - arb(per_log)) * digits + (1 - arb(per_epsilon)) * epsilon - arb(constant)
        ) / 2 - mu * mu / 8
        return (log_ratio + difference.log() - (2 * arb.pi()).log() / 2).expm1()

    def plain(epsilon: Ball, delta: Ball) -> Ball:
        with ctx.workprec(PRECISION):
            mu = epsilon / variance_at(epsilon, delta).sqrt()
            return excess(
                tail(epsilon / mu - mu / 2) - epsilon.exp() * tail(epsilon / mu + mu / 2), delta
            )

    return twice(form, plain, epsilon, delta)


def tail(x: Ball) -> Ball:
    """Return the normal tail Q(x), the probability above x."""
    return (x / arb(2).sqrt()).erfc() / 2


def gap(low: Ball, high: Ball) -> Ball:
    """Return Q(low) - Q(high), the normal probability between two points; use it for points that
    are far apart.
    """
    with ctx.workprec(PRECISION):
        root = arb(2).sqrt()
        return ((low / root).erfc() - (high / root).erfc()) / 2


def _mills_at(x: Ball) -> Ball:
    root = arb(2).sqrt()
    return (arb.pi() / 2).sqrt() * (x * x / 2).exp() * (x / root).erfc()
