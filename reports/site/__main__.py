"""``python -m dpwitness.reports.site [FOLDER]``: the published pages as a site."""

from dpwitness.reports.site.site import main

if __name__ == "__main__":
    raise SystemExit(main())
