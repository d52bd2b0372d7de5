"""Reference implementations with exact log-densities, privacy notions, claims, and pairs of datasets."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
