"""Validation of arguments, with one error type. Each message is one sentence with the argument, the
rule and the value. Workers of other interpreters load this module too (Python 3.8 or later).
"""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterable
from numbers import Integral, Real
from typing import Any


class InvalidArgument(ValueError):
    """Error of an argument that breaks a stated rule. Raised before anything is run, never turned
    into a verdict.

    The message is one printable line of at most 1000 characters, whatever value it has to show.
    """

    def __init__(self, text: str = "", *more: Any) -> None:
        line = " ".join(str(text).split())
        if not line.isprintable():
            line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
        super().__init__(line if len(line) <= 1000 else f"{line[:700]} ... {line[-290:]}", *more)


class MechanismFailed(RuntimeError):
    """Error of a mechanism that cannot be audited: it crashes, hangs, changes its output shape,
    ignores its generator or keeps state.
    """


def error_text(error: BaseException) -> str:
    """Return an exception as one line, ``ValueError: text``, of at most 300 characters, even if its
    own text raises.

    Examples
    --------
    >>> error_text(KeyError("a"))
    "KeyError: 'a'"
    """
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "<its text raises>"
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    name, shown = type(error).__name__, shown if len(shown) <= 300 else f"{shown[:300]} ..."
    return f"{name}: {shown}" if shown else name


def import_problem(name: str, error: ImportError, remedy: str) -> str:
    """Return why a library cannot be imported: not installed, with the remedy, or installed and
    broken, with its own error.
    """
    if (
        isinstance(error, ModuleNotFoundError)
        and (error.name or "").partition(".")[0] == name.partition(".")[0]
    ):
        return f"{name} is not installed: {remedy}"
    return f"{name} is installed but cannot be imported: {error_text(error)}"


_NUMBER = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|-?inf")


def number_from_text(text: str) -> float:
    """Return the number that a text spells in ASCII digits, as 0.5, -2 or 1e-5, or the words nan,
    inf and -inf.

    Raise ValueError for other spellings that `float` reads: digits of other scripts, underscores,
    spaces, and a leading plus sign.

    Examples
    --------
    >>> number_from_text("1e-5")
    1e-05
    >>> number_from_text("1_000")
    Traceback (most recent call last):
        ...
    ValueError: could not convert to a number: '1_000'
    """
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"could not convert to a number: {text!r}")
    return float(text)


def short_repr(value: object) -> str:
    """Return the repr of a value for a message, on one line of at most 80 characters, or its type
    if its repr raises.
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a repr that raises, or a number that is too long to print
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def did_you_mean(word: object, known: Iterable[Any], *, similarity: float = 0.6) -> str:
    """Return a hint that ends a message: the known name that a misspelled word resembles most, in
    any case of letters; an empty text if no name resembles it.

    Examples
    --------
    >>> did_you_mean("replace_one", ["add-remove", "replace-one"])
    "; did you mean 'replace-one'?"
    """
    names = {str(name).lower(): str(name) for name in known}
    if not isinstance(word, str):
        return ""
    near = difflib.get_close_matches(word.lower(), names, 1, similarity)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def _fail(name: str, rule: str, value: object, owner: str) -> InvalidArgument:
    """Return the InvalidArgument of a value that breaks a rule."""
    prefix = f"{owner}: " if owner else ""
    return InvalidArgument(f"{prefix}{name} must {rule}, got {short_repr(value)}")


def _is_real(value: object) -> bool:
    """Return whether a value is a finite real number, other than a boolean."""
    try:
        return (
            isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(float(value))
        )
    except OverflowError:  # an integer or a fraction beyond the floats
        return False


def require_rules(owner: str, *rules: tuple[object, str, Any]) -> None:
    """Raise InvalidArgument for the first rule that does not hold. A rule is a condition, a text
    such as "size must be at least 2", and the value to show.
    """
    for holds, rule, value in rules:
        if not holds:
            raise InvalidArgument(f"{owner}: {rule}, got {short_repr(value)}")


def _real_number(
    name: str, value: Any, owner: str, rule: str, test: Callable[[Any], bool]
) -> float:
    """Return `value` as a float; raise InvalidArgument unless it is a finite number that passes the
    test.
    """
    if not _is_real(value) or not test(value):
        raise _fail(name, rule, value, owner)
    return float(value)


def require_positive(name: str, value: Any, owner: str = "") -> float:
    """Return `value` as a float; raise InvalidArgument unless it is positive and finite."""
    return _real_number(name, value, owner, "be positive and finite", lambda v: v > 0)


def require_nonnegative(name: str, value: Any, owner: str = "") -> float:
    """Return `value` as a float; raise InvalidArgument unless it is zero or more and finite."""
    return _real_number(name, value, owner, "be non-negative and finite", lambda v: v >= 0)


def require_finite(name: str, value: Any, owner: str = "") -> float:
    """Return `value` as a float; raise InvalidArgument unless it is a finite number."""
    return _real_number(name, value, owner, "be a finite number", lambda v: True)


def require_probability(name: str, value: Any, owner: str = "", *, zero: bool = False) -> float:
    """Return `value` as a float; raise InvalidArgument unless it lies in (0, 1), or in [0, 1) if
    `zero` is true.
    """
    rule = f"lie in {'[' if zero else '('}0, 1)"
    return _real_number(name, value, owner, rule, lambda v: 0 < v < 1 or (zero and v == 0))


def require_integer(
    name: str, value: Any, owner: str = "", *, least: int = 1, most: int | None = None
) -> int:
    """Return `value` as an int; raise InvalidArgument unless it is a whole number in
    [least, most].
    """
    # the usual case, at a tenth of the time
    if type(value) is int and value >= least and (most is None or value <= most):
        return value
    whole = (isinstance(value, Integral) and not isinstance(value, bool)) or (
        _is_real(value) and float(value).is_integer()
    )
    if not whole or value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"between {least} and {most}"
        raise _fail(name, f"be a whole number, {bounds}", value, owner)
    return int(value)


def require_one_of(name: str, value: Any, options: Collection[Any], owner: str = "") -> Any:
    """Return `value`; raise InvalidArgument unless it is one of `options`."""
    # arrays, which compare entry by entry, are never an option
    known = isinstance(value, (str, int, float, type(None))) and value in options
    if not known:
        rule = f"be one of {', '.join(map(repr, options))}"
        raise InvalidArgument(f"{_fail(name, rule, value, owner)}{did_you_mean(value, options)}")
    return value


def require_type(
    name: str,
    value: Any,
    kinds: type | tuple[type, ...],
    rule: str,
    owner: str = "",
    *,
    optional: bool = False,
) -> Any:
    """Return `value`; raise InvalidArgument unless it has one of the types, or is None and
    `optional` is true.
    """
    if not (isinstance(value, kinds) or (optional and value is None)):
        raise _fail(name, rule, value, owner)
    return value


def require_callable(
    name: str, value: Any, owner: str = "", *, arguments: int | None = None, optional: bool = False
) -> Any:
    """Return `value`; raise InvalidArgument unless it is callable (with `arguments` arguments), or
    is None and `optional` is true.
    """
    if optional and value is None:
        return value
    if not callable(value):
        raise _fail(name, "be callable", value, owner)
    if arguments is not None:
        try:
            inspect.signature(value).bind(*range(arguments))
        except TypeError:
            raise _fail(name, f"be callable with {arguments} arguments", value, owner) from None
        except ValueError:  # a builtin without a signature
            pass
    return value


def require_numbers(name: str, value: Any, owner: str = "") -> Any:
    """Return `value` as a float64 array; raise InvalidArgument unless it holds finite numbers and
    nothing else.
    """
    import numpy as np

    try:
        found = np.atleast_1d(np.asarray(value))
        if found.dtype.kind in "biuf" and np.isfinite(found.astype(np.float64)).all():
            return found.astype(np.float64)
    except Exception:  # ragged, or an object that raises on access
        pass
    raise _fail(name, "be an array of finite numbers", value, owner)


def require_that(right: object, rule: str, owner: str = "") -> None:
    """Raise InvalidArgument with the rule that is broken unless `right` is true."""
    if not right:
        raise InvalidArgument(f"{owner}: {rule}" if owner else rule)


def require_run_options(executor: Any, progress: Any, name: Any, owner: str) -> None:
    """Raise InvalidArgument unless executor, callback ``progress(done, planned)`` and name are
    valid; each may be None.
    """
    if executor is not None and (
        isinstance(executor, type) or not callable(getattr(executor, "submit", None))
    ):
        raise _fail("executor", "be a concurrent.futures.Executor", executor, owner)
    if isinstance(progress, type):
        raise _fail("progress", "be callable with 2 arguments", progress, owner)
    require_callable("progress", progress, owner, arguments=2, optional=True)
    require_type("name", name, str, "be a text", owner, optional=True)


class require:
    """Validator of the fields of a dataclass, with messages that name its class:
    ``require(self).positive("epsilon", "scale")``.
    """

    def __init__(self, instance: object) -> None:
        self._instance = instance
        self._owner = type(instance).__name__

    def positive(self, *names: str) -> require:
        """Raise InvalidArgument unless the fields are positive and finite. Return the validator."""
        return self._each(require_positive, names)

    def nonnegative(self, *names: str) -> require:
        """Raise InvalidArgument unless the fields are zero or more and finite. Return the
        validator.
        """
        return self._each(require_nonnegative, names)

    def finite(self, *names: str) -> require:
        """Raise InvalidArgument unless the fields are finite numbers. Return the validator."""
        return self._each(require_finite, names)

    def probability(self, *names: str, zero: bool = False) -> require:
        """Raise InvalidArgument unless the fields lie in (0, 1), or in [0, 1) if `zero` is true.
        Return the validator.
        """
        return self._each(require_probability, names, zero=zero)

    def _each(self, check: Callable[..., Any], names: Collection[str], **options: Any) -> require:
        for name in names:
            check(name, getattr(self._instance, name), self._owner, **options)
        return self

    def integer(self, *names: str, least: int = 1, most: int | None = None) -> require:
        """Raise InvalidArgument unless the fields are whole numbers in [least, most], and store
        them as int. Return the validator.
        """
        for name in names:
            value = getattr(self._instance, name)
            whole = require_integer(name, value, self._owner, least=least, most=most)
            if most is None and whole > 2**53:  # beyond exact floats and any feasible loop
                raise _fail(name, "be a whole number of at most 2^53", value, self._owner)
            if type(value) is not int:  # store 3.0 and np.int64(3) as 3
                object.__setattr__(self._instance, name, whole)
        return self

    def one_of(self, name: str, options: Collection[Any]) -> require:
        """Raise InvalidArgument unless the field is one of `options`. Return the validator."""
        require_one_of(name, getattr(self._instance, name), options, self._owner)
        return self
