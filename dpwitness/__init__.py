"""Public API of dpwitness: verification and auditing of differential-privacy implementations."""

import importlib as _importlib
import os as _os
import warnings as _warnings

from dpwitness.early_interrupt import end_at_interrupt as _end_at_interrupt
from dpwitness.early_interrupt import is_command as _is_command

if _is_command():
    _end_at_interrupt()

import lazy_loader as _lazy

_root = _os.path.dirname(_os.path.dirname(_os.path.abspath(__file__)))
if _os.path.isfile(_os.path.join(_root, "mechanisms", "__init__.py")):
    __path__.append(_root)  # in a clone, the other packages lie next to this folder, not inside

from dpwitness.auditors.results.verdicts import Result as _Result  # noqa: E402

_Result.shown_by = "dpwitness.reports.formats.notebook"

# Names that earlier releases had here, by their module: they work for one more release.
_MOVED = {
    "canaries": "CanaryLimit GradientCanaries ImpliedTraining canary_limit canary_records implied_training prediction_scores",
    "claims": "DPSGD CoordinateDP GroupDP MetricDP RenyiCurve TradeoffCurve",
    "console": "progress_bar",
    "domains": "Events Graph Relation Table Texts search",
    "executors": "executor",
    "results": "AuditResult CanaryResult CertifyResult Plan TraceResult limit",
    "wrap": "Adversary Draws FoundAdversary Query Session find_adversary fresh from_estimator interactive",
}
_load, __dir__, _names = _lazy.attach_stub(__name__, __file__)
__all__ = [name for name in _names if name not in (*_MOVED, "stability")]


def __getattr__(name: str) -> object:
    """Return a public name, imported at its first use; warn about a name that has moved to another module."""
    for module, moved in _MOVED.items():
        if name in moved.split():
            place = f"dpwitness.{module}.{name}"
            _warnings.warn(f"dpwitness.{name} is deprecated, use {place}", DeprecationWarning, stacklevel=2)
            return getattr(_importlib.import_module(f"dpwitness.{module}"), name)
    return _load(name)
