"""Does this implementation keep the privacy promise it makes? Verification and auditing of differential privacy."""

import lazy_loader as _lazy

from dpwitness.auditors.results.verdicts import Result as _Result

_Result.shown_by = "dpwitness.reports.formats.notebook"
__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
