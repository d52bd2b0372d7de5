"""Parsing of claims from text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

from dpwitness.mechanisms.core.validation import InvalidArgument, require_integer, require_type, shown
from dpwitness.mechanisms.privacy.accounting import DPSGD
from dpwitness.mechanisms.privacy.base import GDP, ApproxDP, Claim, PureDP
from dpwitness.mechanisms.privacy.pair_budgets import CoordinateDP, GroupDP, MetricDP
from dpwitness.mechanisms.privacy.renyi import RDP, ZCDP, RenyiCurve
from dpwitness.mechanisms.privacy.tradeoff_curves import TradeoffCurve, read_curve


def _numbers(text: str, *counts: int) -> list[float]:
    """Return the numbers of a comma-separated text. Raise ValueError unless their count is one of `counts`."""
    found = [float(part) for part in text.split(",")]
    if counts and len(found) not in counts:
        raise ValueError
    return found


def _points(text: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the two columns of a text of points ``a=b,a=b,...``."""
    pairs = [tuple(map(float, part.split("="))) for part in text.split(",")]
    first, second = zip(*pairs, strict=True)
    return first, second


def _rdp(text: str) -> Claim:
    """Return an RDP claim at one order, or a Renyi curve of points ``alpha=epsilon,...``."""
    return RenyiCurve(*_points(text)) if "=" in text else RDP(*_numbers(text, 2))


def _fdp(text: str) -> Claim:
    """Return the trade-off curve of points ``alpha=beta,...``, or of a file."""
    if not text:
        raise ValueError
    return TradeoffCurve(*_points(text)) if "=" in text and "," in text else read_curve(text)


def _dpsgd(text: str) -> Claim:
    """Return the curve of DP-SGD, or its point at a given delta."""
    sampling, noise, steps, *delta = _numbers(text, 3, 4)
    curve = DPSGD(sampling, noise, require_integer("steps", steps, "DPSGD", most=10**7))
    return curve.at(*delta) if delta else curve


def _metric(text: str) -> Claim:
    """Return a metric claim, with a distance or a norm."""
    epsilon, _, distance = text.partition(",")
    try:
        return MetricDP(float(epsilon), float(distance) if distance else None)
    except InvalidArgument:
        raise
    except ValueError:
        return MetricDP(float(epsilon), distance)


def _group(text: str) -> Claim:
    """Return a claim about groups."""
    size, _, rest = text.partition(",")
    return GroupDP(require_integer("size", float(size), "GroupDP", most=10**6), parse_claim(rest))


_PARSERS: dict[str, tuple[str, Callable[[str], Claim]]] = {
    "pure": ("pure:EPSILON", lambda text: PureDP(*_numbers(text, 1))),
    "approx": ("approx:EPSILON,DELTA", lambda text: ApproxDP(*_numbers(text, 2))),
    "zcdp": ("zcdp:RHO", lambda text: ZCDP(*_numbers(text, 1))),
    "rdp": ("rdp:ALPHA,EPSILON or rdp:ALPHA=EPSILON,...", _rdp),
    "gdp": ("gdp:MU", lambda text: GDP(*_numbers(text, 1))),
    "fdp": ("fdp:FILE", _fdp),
    "dpsgd": ("dpsgd:SAMPLING,NOISE,STEPS[,DELTA]", _dpsgd),
    "metric": ("metric:EPSILON[,DISTANCE]", _metric),
    "percoordinate": ("percoordinate:EPSILON,...", lambda text: CoordinateDP(tuple(_numbers(text)))),
    "group": ("group:SIZE,CLAIM", _group),
}


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
    >>> parse_claim("rdp:2,0.3")
    RDP(alpha=2.0, epsilon=0.3)
    >>> print(parse_claim("rdp:2=0.3,4=0.7"), parse_claim("group:3,gdp:0.5").on(None))
    rdp:2=0.3,4=0.7 gdp:1.5
    """
    require_type("claim", text, str, "be a text like 'pure:1'", "parse_claim")
    kind, _, rest = text.partition(":")
    short_form = _BARE.fullmatch(text.strip())
    if short_form is not None:
        kind, rest = ("pure", short_form[1]) if short_form[2] is None else ("approx", f"{short_form[1]},{short_form[2]}")
    if kind not in _PARSERS:
        forms = ", ".join(form for form, _ in _PARSERS.values())
        raise InvalidArgument(f"claim must be one of {forms}, got {shown(text)}{_hint(text)}")
    form, read = _PARSERS[kind]
    try:
        return read(rest)
    except InvalidArgument:
        raise
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"claim must have the form {form}, got {shown(text)}{_hint(text)}") from None


_NUMBER = r"([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)"
_BARE = re.compile(rf"(?:(?:eps|epsilon)\s*=\s*)?{_NUMBER}(?:\s*,\s*(?:delta\s*=\s*)?{_NUMBER})?", re.IGNORECASE)
_ALIASES = {"rho": "zcdp", "mu": "gdp", "eps": "pure", "epsilon": "pure", "dp": "pure", "delta": "approx", "gaussian": "gdp"}


def _hint(text: str) -> str:
    """Return "; did you mean ...?" for a text that resembles a claim, and "" for any other text."""
    found = re.fullmatch(rf"([a-z]+)\s*[:=]?\s*{_NUMBER}((?:\s*,\s*{_NUMBER})*)", text.strip(), re.IGNORECASE)
    if found is None:
        return ""
    word, numbers = found[1].lower(), f"{found[2]}{found[3]}".replace(" ", "")
    if word == "approx" and not found[3]:
        return f"; did you mean approx:{numbers},1e-5, with the delta of your claim, or pure:{numbers}?"
    near = difflib.get_close_matches(word, _PARSERS, 1, 0.6)
    kind = _ALIASES.get(word) or (near[0] if near else "")
    if kind == "pure" and found[3]:
        kind = "approx"
    guess = f"{kind}:{numbers}"
    try:
        return f"; did you mean {guess}?" if kind and guess != text and _PARSERS[kind][1](numbers) else ""
    except (TypeError, ValueError, OverflowError):  # not a claim either
        return ""


def exact_claim(text: str, numbers: Sequence[float]) -> Claim:
    """Return the claim with exactly these numbers, which its text rounds.

    No file is opened: the numbers of a curve are its points.

    Examples
    --------
    >>> exact_claim("pure:1", [1.00000049, 0.0])
    PureDP(epsilon=1.00000049)
    """
    kind, _, rest = text.partition(":")
    try:
        if kind == TradeoffCurve.kind:
            rounded: Claim = TradeoffCurve(numbers[::2], numbers[1::2], name=rest)
        elif kind == GroupDP.kind:
            rounded = GroupDP(int(numbers[0]), exact_claim(rest.partition(",")[2], numbers[1:]))
        else:
            rounded = parse_claim(text)
        claim = rounded.of(numbers)
    except (TypeError, ValueError, OverflowError, IndexError) as error:
        raise InvalidArgument(f"claim must agree with claim_numbers, got {text} and {shown(numbers)}: {error}") from None
    if str(claim) != str(rounded) or list(claim.numbers) != list(numbers):
        raise InvalidArgument(f"claim must agree with claim_numbers, got {text} and {shown(numbers)}")
    return claim


def promised(mechanism: object, claim: Claim | str | None, owner: str) -> Claim:
    """Return the given claim, parsed if it is a text, or the mechanism's own claim. Raise InvalidArgument for `owner` if there is none."""
    found = getattr(mechanism, "claim", None) if claim is None else claim
    found = parse_claim(found) if isinstance(found, str) else found
    if not isinstance(found, Claim):
        raise InvalidArgument(f"{owner}: claim must be a privacy notion or a text like 'pure:1', got {shown(found)}")
    return found
