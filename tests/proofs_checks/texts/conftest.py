"""Import path of the parsers of the claims' printed texts."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
