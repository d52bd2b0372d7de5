"""Privacy notions. Each notion is a trade-off curve g(q): the largest true-positive rate of any
attacker at false-positive rate q.

Dong, Roth and Su (2022) for curves and GDP; Kairouz, Oh and Viswanath (2015) for (epsilon, delta).
Curves are those of a symmetric neighboring relation: both orders of a pair satisfy the notion.

`parse_claim` reads a claim from text.
"""

from __future__ import annotations

import difflib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpwitness.core.values.validation import (
    InvalidArgument,
    number_from_text,
    require_integer,
    require_type,
    short_repr,
)

FloatArray = NDArray[np.float64]
Lines = tuple[FloatArray, FloatArray]  # epsilons in decreasing order, and deltas
Span = tuple[float, float]  # lower and upper bound

NOTIONS: dict[str, type[Claim]] = {}  # kind -> class that parses the claims of this kind


class Divergences(Protocol):
    """Enclosures of the divergences of one ordered pair (P, Q) of output laws, by ball arithmetic
    (`auditors/density/proved`).
    """

    @property
    def mu(self) -> Span | None: ...
    def epsilon(self, delta: float, *, edge: float | None = None) -> Span: ...
    def renyi(self, order: float) -> Span: ...
    def concentrated(self) -> Span: ...


class Claim(ABC):
    """Privacy claim: a family of trade-off curves with a free `parameter` (epsilon, rho or mu) and,
    for some, a fixed second number.

    A subclass that defines `form` is registered in `NOTIONS`.
    """

    kind: ClassVar[str]  # first word of `form`
    form: ClassVar[str]  # text of the claims, such as "approx:EPSILON,DELTA"
    notion: ClassVar[str]  # name of the notion in reports
    aliases: ClassVar[tuple[str, ...]] = ()  # words that people write instead of `kind`
    symbol: ClassVar[str]  # name of the free parameter, which is a field
    # whether the parameter is the epsilon of (epsilon, delta)-DP at `delta_budget`
    bounds_epsilon: ClassVar[bool] = False
    # whether the notion bounds Renyi divergences, at the orders of `orders_among`
    bounds_renyi: ClassVar[bool] = False
    # whether canaries are tested against the curve, by its `tangents`
    has_tangents: ClassVar[bool] = False
    largest_parameter: ClassVar[float] = 200.0  # largest parameter that canaries certify
    # mu of Gaussian noise that leaks about as much, which decides how many canaries are guessed
    guess_mu: float = 1.0

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "form" in vars(cls):
            cls.kind = cls.form.partition(":")[0]
            known = NOTIONS.setdefault(cls.kind, cls)
            if known.__qualname__ != cls.__qualname__:
                raise TypeError(
                    f"{cls.__name__}: kind must be new, got {cls.kind!r}, the kind of "
                    f"{known.__name__}"
                )
            # a module that is imported under two names registers once
            if known.__module__ == cls.__module__:
                NOTIONS[cls.kind] = cls  # a dataclass with slots is created twice

    @classmethod
    def parse(cls, text: str) -> Claim:
        """Return the claim of the text after the kind. Raise ValueError for another form."""
        return cls(*parse_numbers(text, cls.form.count(",") + 1))

    @classmethod
    def recall(cls, text: str, numbers: Sequence[float]) -> Claim | None:
        """Return the claim of a text in a file, for kinds that need `numbers` in addition to the
        text.
        """
        return None

    @property
    def is_pure(self) -> bool:
        """Whether the notion bounds the likelihood ratio of every event, without a delta."""
        return self.bounds_epsilon and self.delta_budget == 0

    @property
    def at_delta(self) -> Claim:
        """The claim itself if its parameter is an epsilon at a delta, otherwise pure DP."""
        return self if self.bounds_epsilon else NOTIONS["pure"].parse("1")

    @property
    def remark(self) -> str:
        """Remark for reports, such as how the curve was built from the given points; empty for most
        claims.
        """
        return ""

    def on(self, pair: Any) -> Claim:
        """Return the claim on this pair of datasets: the claim itself, except for notions that
        depend on the pair (`pair_budgets`).
        """
        return self

    def group(self, size: int) -> Claim:
        """Return the claim for groups of `size` records, by the exact conversion of the notion or
        the best known bound.

        Raises
        ------
        InvalidArgument
            If `size` is not a whole number of at least 1, or the claim implies nothing for groups
            of this size.

        Examples
        --------
        >>> from dpwitness.mechanisms import GDP, ApproxDP, PureDP
        >>> print(PureDP(0.5).group(3), GDP(0.5).group(3))
        pure:1.5 gdp:1.5
        >>> print(ApproxDP(1.0, 1e-6).group(2))  # delta (1 + e)
        approx:2,3.71828e-06
        """
        size = require_integer("size", size, "group", most=10**6)
        return self if size == 1 else self._grouped(size)

    def _grouped(self, size: int) -> Claim:
        """Return the claim for groups of `size` >= 2 records."""
        raise InvalidArgument(
            f"group: {self} covers all distances already, there is no group version of it"
        )

    def of(self, numbers: Sequence[float]) -> Claim:
        """Return the claim of this kind with exactly these `numbers`."""
        return type(self)(*numbers)

    @property
    def spelled(self) -> str:
        """Text of the claim with all digits."""
        return f"{self.kind}:{','.join(repr(number) for number in self.numbers)}"

    def orders_among(self, orders: Sequence[float]) -> Sequence[float]:
        """Return the orders among `orders` at which the notion bounds the Renyi divergence, or its
        own orders; none for other notions.
        """
        return ()

    def divergence_at(self, order: float) -> float:
        """Return the Renyi divergence of this order that is allowed at parameter 1."""
        return math.inf

    def enclosed(self, pair_order: Divergences) -> Span | None:
        """Enclose the parameter of one ordered pair (P, Q) of output laws; None if no enclosure is
        known for the notion.
        """
        return None

    def gaussian_shift(self, parameter: float) -> float | None:
        """Return the shift over the standard deviation of Gaussian noise with this parameter; None
        without a formula.
        """
        return None

    def gaussian_parameter(self, squares: float) -> float | None:
        """Return the parameter of composed Gaussian noise, given its sum of squared shifts; None
        without a formula.
        """
        return None

    def for_canaries(self, owner: str) -> Claim:
        """Return the claim that canaries test. Raise InvalidArgument, with the name of the caller,
        if they cannot test the claim.
        """
        return self

    def trivial_parameter(self) -> float:
        """Return the largest parameter at which the curve g lies below g(q) = q somewhere, which
        excludes even random guessing.
        """
        return 0.0

    def tangents(self) -> Lines:
        """Return lines q -> e^epsilon q + delta whose minimum is the curve, or is above it; epsilon
        may be negative.
        """
        # range of the tangents, in standard deviations of the privacy loss
        largest = self.parameter**2 / 2 + 8.0 * self.parameter
        epsilons = np.linspace(largest, -largest, 600)
        return epsilons, np.asarray(self.delta(epsilons), dtype=float)

    def epsilon_at(self, delta: float) -> float:
        """Return the epsilon that the claim implies at delta."""
        from scipy.optimize import brentq

        def excess(epsilon: float) -> float:
            return float(np.max(self.delta(np.array([epsilon])))) - delta

        if excess(0.0) <= 0:
            return 0.0
        high = 1.0
        while excess(high) > 0:
            high *= 2
            if high > 1e4:
                return math.inf
        return float(brentq(excess, 0.0, high, xtol=1e-9))

    @property
    def identity(self) -> str:
        """Text by which stores identify the claim."""
        return str(self)

    def coarse(self) -> Claim:
        """Return an approximation of the claim with few Renyi orders or lines: sufficient to choose
        among events, and much faster.
        """
        return self

    @property
    def parameter(self) -> float:
        """Free parameter: epsilon, rho or mu."""
        return float(getattr(self, self.symbol))

    @property
    def numbers(self) -> tuple[float, ...]:
        """All numbers of the claim, exactly; its text rounds them."""
        return tuple(float(getattr(self, f.name)) for f in fields(self))  # type: ignore[arg-type]

    # fixed additive delta of the notion; zero except for approximate DP
    delta_budget: float = 0.0

    def with_parameter(self, value: float) -> Claim:
        """Return the same notion with another free parameter."""
        return replace(self, **{self.symbol: value})  # type: ignore[type-var]

    @abstractmethod
    def tradeoff(self, fpr: ArrayLike) -> FloatArray:
        """Return the largest true-positive rates g(q) at the false-positive rates `fpr`
        in [0, 1].
        """

    @abstractmethod
    def parameter_at(self, fpr: ArrayLike, tpr: ArrayLike) -> FloatArray:
        """Return the smallest parameter, at least 0, whose curve reaches (fpr, tpr): the parameter
        that such a test proves.
        """

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return delta(epsilon) = sup_q g(q) - e^epsilon q, the smallest delta for which the notion
        implies (epsilon, delta)-DP.
        """
        grid = np.concatenate([np.geomspace(1e-300, 1e-3, 4000), np.linspace(1e-3, 1.0, 4001)[1:]])
        eps = np.atleast_1d(np.asarray(epsilon, dtype=float))
        gain = (
            self.tradeoff(grid)[None, :] - np.exp(np.minimum(eps[:, None], 700.0)) * grid[None, :]
        )
        return np.asarray(np.clip(gain.max(axis=1), 0.0, 1.0).reshape(np.shape(epsilon)))

    def implies(self, other: Claim) -> bool:
        """Return whether this claim is at least as strong as `other`: its curve is nowhere above,
        on a grid down to q = 1e-300.
        """
        grid = np.concatenate([np.geomspace(1e-300, 1e-3, 2000), np.linspace(1e-3, 1.0, 2001)])
        return bool(np.all(self.tradeoff(grid) <= other.tradeoff(grid) * (1 + 1e-9) + 1e-15))

    def __le__(self, other: Claim) -> bool:
        """Return whether ``a <= b``: a allows at most the leakage that b allows."""
        return self.implies(other)

    def __lt__(self, other: Claim) -> bool:
        return self.implies(other) and not other.implies(self)

    def __str__(self) -> str:
        return f"{self.kind}:{self.parameter:g}"


def parse_numbers(text: str, *counts: int) -> list[float]:
    """Return the numbers of a comma-separated text. Raise ValueError unless their count is one of
    `counts`.
    """
    found = [number_from_text(part) for part in text.split(",")]
    if counts and len(found) not in counts:
        raise ValueError
    return found


def parse_points(text: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the two columns of a text of points ``a=b,a=b,...``."""
    pairs = [tuple(map(number_from_text, part.split("="))) for part in text.split(",")]
    first, second = zip(*pairs, strict=True)
    return first, second


def parse_claim(text: str) -> Claim:
    """Return the claim of a text such as ``approx:1,1e-5``.

    The forms are ``pure:1``, ``approx:1,1e-5``, ``zcdp:0.5``, ``rdp:2,0.3`` (alpha, epsilon),
    ``rdp:2=0.3,4=0.7`` (several orders), ``gdp:1``; ``fdp:FILE`` (points alpha, beta of a trade-off
    curve, CSV or JSON); ``dpsgd:0.01,1.1,1000`` (sampling, noise, steps; a fourth number delta
    selects the accountant's epsilon at this delta); ``metric:1`` (epsilon per unit of distance; the
    second argument is the distance or its norm); ``percoordinate:0.5,1,2``; ``group:3,CLAIM``.
    ``1``, ``eps=1`` and ``epsilon=1`` are short for ``pure:1``; ``1,1e-5`` and ``eps=1,delta=1e-5``
    for ``approx:1,1e-5``.

    Parameters
    ----------
    text : str
        Text in one of these forms.

    Returns
    -------
    Claim
        The claim with exactly the numbers of the text.

    Raises
    ------
    InvalidArgument
        If the form is unknown, a number is missing, or a number is out of range.

    Examples
    --------
    >>> from dpwitness.core.claims.claim import parse_claim
    >>> parse_claim("rdp:2,0.3")
    RDP(alpha=2.0, epsilon=0.3)
    >>> print(parse_claim("rdp:2=0.3,4=0.7"), parse_claim("group:3,gdp:0.5").on(None))
    rdp:2=0.3,4=0.7 gdp:1.5
    """
    require_type("claim", text, str, "be a text like 'pure:1'", "parse_claim")
    kind, _, rest = text.partition(":")
    short_form = _BARE.fullmatch(text.strip())
    if short_form is not None:
        kind, rest = (
            ("pure", short_form[1])
            if short_form[2] is None
            else ("approx", f"{short_form[1]},{short_form[2]}")
        )
    if kind not in NOTIONS:
        forms = ", ".join(
            sorted((notion.form for notion in NOTIONS.values()), key=lambda form: form.count(","))
        )
        raise InvalidArgument(f"claim must be one of {forms}, got {short_repr(text)}{_hint(text)}")
    try:
        return NOTIONS[kind].parse(rest)
    except InvalidArgument:
        raise
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(
            f"claim must have the form {NOTIONS[kind].form}, got {short_repr(text)}{_hint(text)}"
        ) from None


_NUMBER = r"([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)"
_BARE = re.compile(
    rf"(?:(?:eps|epsilon)\s*=\s*)?{_NUMBER}(?:\s*,\s*(?:delta\s*=\s*)?{_NUMBER})?", re.IGNORECASE
)


def _hint(text: str) -> str:
    """Return "; did you mean ...?" for a text that resembles a claim, and "" for any other text."""
    found = re.fullmatch(
        rf"([a-z]+)\s*[:=]?\s*{_NUMBER}((?:\s*,\s*{_NUMBER})*)", text.strip(), re.IGNORECASE
    )
    if found is None:
        return ""
    word, numbers = found[1].lower(), f"{found[2]}{found[3]}".replace(" ", "")
    if word == "approx" and not found[3]:
        return (
            f"; did you mean approx:{numbers},1e-5, with the delta of your claim, or "
            f"pure:{numbers}?"
        )
    known = [kind for kind, notion in NOTIONS.items() if word in notion.aliases]
    kind = next(iter(known or difflib.get_close_matches(word, NOTIONS, 1, 0.6)), "")
    guess = f"{'approx' if kind == 'pure' and found[3] else kind}:{numbers}"
    if guess != text:
        with suppress(InvalidArgument):  # the guess may not be a claim either
            parse_claim(guess)
            return f"; did you mean {guess}?"
    return ""


def exact_claim(text: str, numbers: Sequence[float]) -> Claim:
    """Return the claim with exactly these numbers, which its text rounds. Raise InvalidArgument if
    the text contradicts the numbers.

    No file is opened: the numbers of a curve are its points.

    Examples
    --------
    >>> from dpwitness.core.claims.claim import exact_claim
    >>> exact_claim("pure:1", [1.00000049, 0.0])
    PureDP(epsilon=1.00000049)
    """
    kind, _, rest = text.partition(":")
    try:
        rounded = (NOTIONS[kind].recall(rest, numbers) if kind in NOTIONS else None) or parse_claim(
            text
        )
        claim = rounded.of(numbers)
    except (TypeError, ValueError, OverflowError, IndexError) as error:
        raise InvalidArgument(
            f"claim must agree with claim_numbers, got {text} and {short_repr(numbers)}: {error}"
        ) from None
    if str(claim) != str(rounded) or list(claim.numbers) != list(numbers):
        raise InvalidArgument(
            f"claim must agree with claim_numbers, got {text} and {short_repr(numbers)}"
        )
    return claim


def exact_text(claim: Claim) -> str:
    """Return the text of the claim, with all digits where its usual text rounds a number or names a
    file.

    Examples
    --------
    >>> from dpwitness.core.claims.claim import exact_text, parse_claim
    >>> exact_text(parse_claim("approx:0.5,1e-5")), exact_text(parse_claim("pure:1.00000049"))
    ('approx:0.5,1e-05', 'pure:1.00000049')
    """
    try:
        is_exact = claim.kind != "fdp" and parse_claim(str(claim)).numbers == claim.numbers
    except InvalidArgument:
        is_exact = False
    return str(claim) if is_exact else claim.spelled


def promised(mechanism: object, claim: Claim | str | None, owner: str) -> Claim:
    """Return the given claim, parsed if it is a text, or the mechanism's own claim. Raise
    InvalidArgument for `owner` if there is none.
    """
    found = getattr(mechanism, "claim", None) if claim is None else claim
    found = parse_claim(found) if isinstance(found, str) else found
    if not isinstance(found, Claim):
        got = "none, and the mechanism has none" if found is None else short_repr(found)
        raise InvalidArgument(
            f"{owner}: claim must be a privacy notion or a text like 'pure:1', got {got}"
        )
    return found
