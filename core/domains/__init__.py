"""Domains: the datasets that a mechanism accepts, and which of them are neighbors. One file per
domain, with its search for pairs; and `spaces`, the typed inputs of transformations.

A new domain is a file here, found by itself, and a line in `mechanisms/__init__.pyi` that makes its
name public.
"""

import dataclasses
import functools
import inspect

from dpwitness.core.domains.base import Domain
from dpwitness.core.values.json_codec import modules_of

__all__ = ["Domain", "domain_kinds", "field_texts"]


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
