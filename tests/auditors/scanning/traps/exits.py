"""Ends at import."""

import sys

sys.exit("no")
