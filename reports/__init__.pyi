from .audit.document import result_json as result_json
from .audit.report import check_writable as check_writable
from .audit.report import write_report as write_report
from .phrasing.summary import holm as holm
