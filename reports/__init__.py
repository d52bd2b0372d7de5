"""What a person reads: JSON, markdown and plots of audit results."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
