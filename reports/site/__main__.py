"""Command ``python -m dpwitness.reports.site FOLDER``, which builds the site of the published pages."""

from dpwitness.reports.site.site import main

if __name__ == "__main__":
    raise SystemExit(main())
