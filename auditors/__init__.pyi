from .catalogue import pairs_for as pairs_for
from .checks import check_mechanism as check_mechanism
from .checks import parametrize_with_checks as parametrize_with_checks
from .result import AuditResult as AuditResult
from .result import Result as Result
from .result import Verdict as Verdict
