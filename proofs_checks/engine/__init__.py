"""The claim ledger, the findings of its checks, interval enclosures, and mutation tests of the
checks. May import the auditors.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
