"""Entry point of ``python -m dpwitness``: the command line."""

import sys

from dpwitness.cli import main

if __name__ == "__main__":
    sys.exit(main())
