"""Public API of dpwitness: verification and auditing of differential-privacy implementations."""

import os as _os

import lazy_loader as _lazy

_root = _os.path.dirname(_os.path.dirname(_os.path.abspath(__file__)))
if _os.path.isfile(_os.path.join(_root, "mechanisms", "__init__.py")):
    __path__.append(_root)  # in a clone, the other packages lie next to this folder, not inside

from dpwitness.auditors.results.verdicts import Result as _Result  # noqa: E402

_Result.shown_by = "dpwitness.reports.formats.notebook"
__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
