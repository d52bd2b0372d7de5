"""Command that writes published pages.

``python -m dpwitness.benchmarks.pages FOLDER`` builds the site; ``python -m
dpwitness.benchmarks.pages NAME FOLDER FILE...`` writes one page from JSON of benchmarks or reports.
"""

import sys

from dpwitness.benchmarks.pages.site import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
