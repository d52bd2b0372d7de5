"""Interval arithmetic with directed rounding, with the names of python-flint's balls and none of
its code.

Sums, products, quotients and square roots are rounded outwards by mpmath's binary floats, whose
rounding is exact integer arithmetic. Exponentials, logarithms and the normal law are the integer
enclosures of `proofs_checks/kernel/checker.py`. An operation without a value on an interval returns
the real line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from fractions import Fraction
from numbers import Integral
from types import ModuleType
from typing import Any, TypeAlias

from mpmath import bernfrac, libmp

from dpwitness.proofs_checks.kernel import checker

Float: TypeAlias = Any  # mpmath's raw binary float: sign, mantissa, exponent and number of bits
BITS = 256  # of the end points
FRACTIONS = 160  # convergents of the continued fraction of the Mills ratio
EXACT = 10_000  # size of exponents up to which 1 + x is computed without rounding
NEWTON, MARGIN = 12, 2.0**-200  # steps and margin of `lambertw`
SHIFT, TERMS = 40, 21  # of Stirling's series
FAR = 8  # from here on, the Mills ratio is computed by its continued fraction


class Arb:
    """Closed interval of real numbers. A comparison is true if it holds for all numbers of both
    sides.
    """

    __array_ufunc__ = None
    __slots__ = ("high", "low")

    def __init__(self, middle: Any = 0, radius: Any = 0) -> None:
        if isinstance(middle, str | Fraction):  # a decimal fraction, or any fraction
            number = Fraction(middle)
            middle = Arb(number.numerator) / number.denominator
        low, high = (middle.low, middle.high) if isinstance(middle, Arb) else (_exact(middle),) * 2
        by = radius.high if isinstance(radius, Arb) else _exact(radius)
        self._set(libmp.mpf_sub(low, by, BITS, "f"), libmp.mpf_add(high, by, BITS, "c"))

    def _set(self, low: Float, high: Float) -> None:
        is_known = libmp.fnan not in (low, high)
        self.low, self.high = (low, high) if is_known else (libmp.fninf, libmp.finf)

    @classmethod
    def between(cls, low: Float, high: Float) -> Arb:
        """Return the interval with these end points."""
        found = cls.__new__(cls)
        found._set(low, high)
        return found

    @classmethod
    def line(cls) -> Arb:
        """Return the real line."""
        return cls.between(libmp.fninf, libmp.finf)

    @classmethod
    def pi(cls) -> Arb:
        """Return an interval that contains pi, from the kernel's enclosure of 1 / sqrt(2 pi)."""
        root = cls.between(_units(checker.DENSITY), _units(checker.DENSITY + 1))
        return 1 / (2 * root * root)

    def lower(self) -> Arb:
        return Arb.between(self.low, self.low)

    def upper(self) -> Arb:
        return Arb.between(self.high, self.high)

    def mid(self) -> Arb:
        middle = libmp.mpf_shift(libmp.mpf_add(self.low, self.high, BITS, "n"), -1)
        return Arb.between(middle, middle)

    def rad(self) -> Arb:
        radius = libmp.mpf_shift(libmp.mpf_sub(self.high, self.low, BITS, "c"), -1)
        return Arb.between(radius, radius)

    def union(self, other: Arb) -> Arb:
        return Arb.between(_least(self.low, other.low), _most(self.high, other.high))

    def nonnegative_part(self) -> Arb:
        return Arb.between(_most(self.low, libmp.fzero), _most(self.high, libmp.fzero))

    def max(self, other: Any) -> Arb:
        other = _interval(other)
        return Arb.between(_most(self.low, other.low), _most(self.high, other.high))

    def min(self, other: Any) -> Arb:
        return -(-self).max(-_interval(other))

    def overlaps(self, other: Any) -> bool:
        other = _interval(other)
        return bool(libmp.mpf_le(self.low, other.high) and libmp.mpf_le(other.low, self.high))

    def is_finite(self) -> bool:
        return not {self.low, self.high} & {libmp.finf, libmp.fninf}

    def is_nan(self) -> bool:
        return bool(self.low == libmp.fninf and self.high == libmp.finf)

    def __float__(self) -> float:
        return float(libmp.to_float(self.mid().low, rnd="n"))

    # the name `str` is this method here
    def str(self, digits: int = 15, radius: bool = True) -> Any:
        return " to ".join(libmp.to_str(end, digits) for end in (self.low, self.high))

    def __neg__(self) -> Arb:
        return Arb.between(libmp.mpf_neg(self.high), libmp.mpf_neg(self.low))

    def __pos__(self) -> Arb:
        return self

    def __abs__(self) -> Arb:
        return self.max(-self).nonnegative_part()

    def __add__(self, other: Any) -> Arb:
        other = _interval(other)
        return Arb.between(
            libmp.mpf_add(self.low, other.low, BITS, "f"),
            libmp.mpf_add(self.high, other.high, BITS, "c"),
        )

    def __sub__(self, other: Any) -> Arb:
        return self + -_interval(other)

    def __rsub__(self, other: Any) -> Arb:
        return _interval(other) + -self

    def __mul__(self, other: Any) -> Arb:
        other = _interval(other)
        pairs = [(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return _hull(libmp.mpf_mul, pairs)

    def __truediv__(self, other: Any) -> Arb:
        other = _interval(other)
        if not (other > 0 or other < 0):
            return Arb.line()
        return _hull(
            libmp.mpf_div, [(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        )

    def __rtruediv__(self, other: Any) -> Arb:
        return _interval(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, power: Any) -> Arb:
        if not isinstance(power, int):
            return (self.log() * _interval(power)).exp()
        if power < 0:
            return 1 / self**-power
        base, found = (abs(self) if power % 2 == 0 else self), Arb(1)
        for _ in range(power):
            found = found * base
        return found

    def __rpow__(self, base: Any) -> Arb:
        return _interval(base) ** self

    def __lt__(self, other: Any) -> bool:
        return bool(libmp.mpf_lt(self.high, _interval(other).low))

    def __le__(self, other: Any) -> bool:
        return bool(libmp.mpf_le(self.high, _interval(other).low))

    def __gt__(self, other: Any) -> bool:
        return _interval(other) < self

    def __ge__(self, other: Any) -> bool:
        return _interval(other) <= self

    def __eq__(self, other: object) -> bool:
        return self <= other and self >= other

    def __ne__(self, other: object) -> bool:
        return self < other or self > other

    __hash__ = None  # type: ignore[assignment]

    def sqrt(self) -> Arb:
        if not self >= 0:
            return Arb.line()
        return Arb.between(
            libmp.mpf_sqrt(self.low, BITS, "f"), libmp.mpf_sqrt(self.high, BITS, "c")
        )

    def root(self, degree: int) -> Arb:
        return (self.log() / degree).exp()

    def exp(self) -> Arb:
        return Arb.between(_exp(self.low)[0], _exp(self.high)[1])

    def expm1(self) -> Arb:
        return self.exp() - 1

    def log(self) -> Arb:
        return Arb.between(_log(self.low)[0], _log(self.high)[1]) if self >= 0 else Arb.line()

    def log1p(self) -> Arb:
        """Return log(1 + x), where 1 + x is exact unless an end is extremely small or large."""
        ends = zip((self.low, self.high), "fc", strict=True)
        return Arb.between(
            *(
                libmp.mpf_add(libmp.fone, end, 0 if abs(end[2]) < EXACT else BITS, way)
                for end, way in ends
            )
        ).log()

    def lambertw(self) -> Arb:
        """Return the w >= 0 with w e^w = x, for x >= 0: Newton's steps, and a margin at whose ends
        w e^w is compared with x.
        """
        w = self.log1p().mid()
        for _ in range(NEWTON):
            w = (w - (w - self * (-w).exp()) / (w + 1)).mid()
        low, high = w - MARGIN, w + MARGIN
        return low.union(high) if low * low.exp() <= self <= high * high.exp() else Arb.line()

    def gamma(self) -> Arb:
        """Return the gamma function of x > 0: Stirling's series at x + SHIFT, whose remainder is
        below its first omitted term.
        """
        if not self > 0:
            return Arb.line()
        y, product = self + SHIFT, Arb(1)
        for k in range(SHIFT):
            product = product * (self + k)
        terms = [
            Arb(Fraction(*bernfrac(2 * k)) / (2 * k * (2 * k - 1))) / y ** (2 * k - 1)
            for k in range(1, TERMS + 1)
        ]
        log = (
            (y - 0.5) * y.log()
            - y
            + (2 * Arb.pi()).log() / 2
            + sum(terms[:-1], Arb(0))
            + terms[-1].union(-terms[-1])
        )
        return log.exp() / product

    def gamma_upper(self, shape: Arb, is_regularized: bool) -> Arb:
        """Return the tail of a gamma variable: 1 - x^s e^-x / Gamma(s + 1) (1 + x / (s + 1) + x^2 /
        ((s + 1) (s + 2)) + ...).
        """
        if not (is_regularized and self >= 0 and self.is_finite() and shape > 0):
            return Arb.line()
        total, term, k = Arb(0), Arb(1), 0
        while not (2 * self <= shape + k + 1 and term <= total * 2.0**-BITS):
            total, k = total + term, k + 1
            term = term * self / (shape + k)
        total = total + term.union(2 * term)  # the ratio of the terms left is below 1/2
        return (
            1 - total * (shape * self.log() - self).exp() / (shape + 1).gamma()
        ).nonnegative_part()

    def erfc(self) -> Arb:
        """Return 2 Q(x sqrt(2)) for the normal tail Q, which falls."""
        at = self * Arb(2).sqrt()
        return 2 * _normal_tail(at.upper()).union(_normal_tail(at.lower()))


def as_flint() -> ModuleType:
    """Return a module that can be imported in place of flint: its `arb` are the intervals of this
    file, other names cannot be used.
    """

    class Context:
        prec = BITS

        @contextlib.contextmanager
        def workprec(self, bits: int) -> Iterator[None]:
            yield

    class Unavailable:
        def __init__(self, *arguments: Any) -> None:
            raise NotImplementedError("the checker of proof objects has real intervals only")

    module = ModuleType("flint")
    vars(module).update(arb=Arb, ctx=Context(), __getattr__=lambda name: Unavailable)
    return module


def _interval(value: Any) -> Arb:
    return value if isinstance(value, Arb) else Arb(value)


def _exact(value: Any) -> Float:
    """Return an integer or a float as a binary float, without rounding."""
    if isinstance(value, Integral):
        return libmp.from_int(int(value))
    if isinstance(value, float):
        return libmp.from_float(value)
    raise TypeError(f"an interval needs integers, floats or intervals, got {type(value).__name__}")


def _hull(operation: Any, pairs: list[tuple[Float, Float]]) -> Arb:
    """Return the smallest interval that contains the operation's values at the pairs of
    end points.
    """
    low, high = ([operation(a, b, BITS, way) for a, b in pairs] for way in "fc")
    if libmp.fnan in low or libmp.fnan in high:
        return Arb.line()
    least, most = low[0], high[0]
    for a, b in zip(low, high, strict=True):
        least, most = _least(least, a), _most(most, b)
    return Arb.between(least, most)


def _least(a: Float, b: Float) -> Float:
    return a if libmp.mpf_le(a, b) else b


def _most(a: Float, b: Float) -> Float:
    return b if libmp.mpf_le(a, b) else a


def _units(number: int, shift: int = 0) -> Float:
    """Return number 2^shift, in the kernel's units of 2^-384, without rounding."""
    return libmp.from_man_exp(number, shift - checker.BITS)


def _exp(x: Float) -> tuple[Float, Float]:
    """Enclose e^x = 2^k e^r, with r in [0, ln 2] up to k units."""
    if libmp.mpf_lt(_exact(1 << 40), libmp.mpf_abs(x)):
        return _far_exp(x)
    fixed = libmp.to_fixed(x, checker.BITS)  # rounded down by less than a unit
    k, rest = divmod(fixed, checker.LN2)
    low, high = checker.exp(rest - abs(k) - 1)[0], checker.exp(rest + abs(k) + 1)[1]
    return _units(low, k), _units(high, k)


def _far_exp(x: Float) -> tuple[Float, Float]:
    """Enclose e^x for |x| > 2^40 and infinite x."""
    big = libmp.mpf_shift(libmp.fone, 1 << 40)
    return (
        (big, libmp.finf)
        if libmp.mpf_gt(x, libmp.fzero)
        else (libmp.fzero, libmp.mpf_shift(libmp.fone, -(1 << 40)))
    )


def _log(x: Float) -> tuple[Float, Float]:
    """Enclose ln x for x >= 0."""
    if x in (libmp.fzero, libmp.finf):
        return (libmp.fninf, libmp.fninf) if x == libmp.fzero else (libmp.finf, libmp.finf)
    _, mantissa, exponent, _ = x
    low, high = checker.log(int(mantissa) << max(exponent, 0), 1 << max(-exponent, 0))
    return _units(low), _units(high)


def _normal_tail(x: Arb) -> Arb:
    """Enclose Q(x) at a point: by the kernel, or by the continued fraction of the Mills ratio for
    large x.
    """
    if not x.is_finite():
        return Arb(0).union(Arb(1))
    if x < -FAR:
        return 1 - _normal_tail(-x)
    if not x >= FAR:
        # rounded outwards
        ends = (
            -libmp.to_fixed(libmp.mpf_neg(x.high), checker.BITS),
            libmp.to_fixed(x.low, checker.BITS),
        )
        return Arb.between(_units(checker.normal(ends[0])[0]), _units(checker.normal(ends[1])[1]))
    even, odd = x, x
    # consecutive convergents of 1 / (x + 1 / (x + 2 / (x + ...))) enclose the ratio
    for n in range(FRACTIONS, 0, -1):
        even, odd = x + n / even, x + (n / odd if n < FRACTIONS else 0)
    return (1 / even).union(1 / odd) * (-x * x / 2).exp() / (2 * Arb.pi()).sqrt()
