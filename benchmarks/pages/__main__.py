"""Command ``python -m dpwitness.benchmarks.pages FOLDER``, which builds the site of the published
pages.
"""

from dpwitness.benchmarks.pages.site import main

if __name__ == "__main__":
    raise SystemExit(main())
