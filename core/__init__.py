"""Values, datasets, claims, domains and numerics, on which everything else is built."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
