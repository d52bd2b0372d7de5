from .mechanisms.notions import GDP as GDP
from .mechanisms.notions import RDP as RDP
from .mechanisms.notions import ZCDP as ZCDP
from .mechanisms.notions import ApproxDP as ApproxDP
from .mechanisms.notions import PureDP as PureDP
from .mechanisms.notions import parse_claim as parse_claim
from .mechanisms.pairs import Pair as Pair
from .mechanisms.validation import InvalidArgument as InvalidArgument
