from .cards import card_for as card_for
from .report import check_writable as check_writable
from .report import result_json as result_json
from .report import write_report as write_report
from .summary import holm as holm
