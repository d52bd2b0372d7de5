"""Parsing of claims from text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from dpwitness.core.claims.claim import NOTIONS, Claim
from dpwitness.core.values.validation import InvalidArgument, require_type, short_repr


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
    if kind == "pure" and found[3]:
        kind = "approx"
    guess = f"{kind}:{numbers}"
    try:
        return (
            f"; did you mean {guess}?"
            if kind and guess != text and NOTIONS[kind].parse(numbers)
            else ""
        )
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
        raise InvalidArgument(
            f"{owner}: claim must be a privacy notion or a text like 'pure:1', got "
            f"{short_repr(found)}"
        )
    return found
