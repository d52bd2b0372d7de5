"""Mechanisms with exact log-densities, and wrappers of other code; also the public names of `core`:
claims, domains and pairs.
"""

import os as _os

import lazy_loader as _lazy

from dpwitness import core as _core

_own, _, _names = _lazy.attach_stub(
    __name__, _os.path.join(_os.path.dirname(__file__), "names.pyi")
)
__all__ = [name for names in (_names, _core.__all__) for name in names]


def __getattr__(name: str) -> object:
    """Return a public name, imported at its first use."""
    return getattr(_core, name) if name in _core.__all__ else _own(name)


def __dir__() -> list[str]:
    return __all__.copy()
