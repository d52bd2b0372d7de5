"""The formats of a report by name. Light: what writes them is imported when it is asked for."""

SUFFIXES = {"md": ".md", "html": ".html", "sarif": ".sarif", "junit": ".junit.xml"}
FORMATS = tuple(SUFFIXES)
USUAL = ("md", "html", "sarif")  # written beside the JSON where no formats are asked for
