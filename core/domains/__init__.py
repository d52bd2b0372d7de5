"""Domains: the datasets that a mechanism accepts, and which of them are neighbors. One file per
domain, with its search for pairs; and `spaces`, the typed inputs of transformations.

A new domain is a file here, found by itself, and a line in `mechanisms/__init__.pyi` that makes its
name public.
"""

import dataclasses
import functools
import inspect
from typing import Any

from dpwitness.core.domains.base import Domain
from dpwitness.core.values.json_codec import modules_of
from dpwitness.core.values.validation import InvalidArgument, did_you_mean

__all__ = ["Domain", "build_domain", "domain_kinds", "field_texts"]


@functools.cache
def domain_kinds() -> dict[str, type[Domain]]:
    """Return the domains that a target file may declare, by class name: every public `declarable`
    Domain of a module in this folder.
    """
    kinds = {
        name: cls
        for module in modules_of(__name__)
        for name, cls in vars(module).items()
        if isinstance(cls, type)
        and issubclass(cls, Domain)
        and cls.declarable
        and not inspect.isabstract(cls)
    }
    return dict(sorted(kinds.items()))


def field_texts(kind: type[Domain]) -> dict[str, str]:
    """Return the keys of a domain class, each with its type and default as text."""
    return {
        f.name: str(f.type) + ("" if f.default is dataclasses.MISSING else f" = {f.default!r}")
        for f in dataclasses.fields(kind)  # type: ignore[arg-type]
        if f.init
    }


def build_domain(found: Any, owner: str) -> Domain:
    """Return the domain of its declaration ``{"kind": NAME, **arguments}``.

    Raise InvalidArgument, whose message begins with `owner`, if the declaration is invalid.
    """
    if not isinstance(found, dict) or "kind" not in found:
        raise InvalidArgument(
            f"{owner}: domain must be a dict with a kind and its arguments, got {found!r}"
        )
    kinds, arguments = domain_kinds(), dict(found)
    kind = arguments.pop("kind")
    cls = kinds.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise InvalidArgument(
            f"{owner}: domain kind must be one of {', '.join(kinds)}, got {kind!r}"
            f"{did_you_mean(kind, kinds)}"
        )
    known = field_texts(cls)
    unknown = [key for key in arguments if key not in known]
    if unknown:
        raise InvalidArgument(
            f"{owner}: domain {cls.__name__} has the keys {', '.join(known)}, got {unknown[0]!r}"
            f"{did_you_mean(unknown[0], known)}"
        )
    try:
        return cls(**arguments)
    except (TypeError, InvalidArgument) as error:
        raise InvalidArgument(f"{owner}: domain: {error}") from None
