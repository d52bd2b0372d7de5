"""Report formats by name. This module imports no writers, so that the command line starts fast."""

SUFFIXES = {"md": ".md", "html": ".html", "sarif": ".sarif", "junit": ".junit.xml"}
FORMATS = tuple(SUFFIXES)
DEFAULT_FORMATS = ("md", "html", "sarif")  # default formats, written in addition to the JSON
