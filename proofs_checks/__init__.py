"""Ledger of the claims of published papers, each with a statement, a check and a computed verdict;
proofs of loop programs.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
