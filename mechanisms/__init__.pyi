from dpwitness.core import *

from .names import *
