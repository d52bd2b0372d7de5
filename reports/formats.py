"""Formats of a report document. May import summaries, wording, plots and cards.

A new format is a function in a module of this package and a line of `FORMATS`. The names are listed
without an import of any format, so that the command line starts fast.
"""

from typing import NamedTuple


class Format(NamedTuple):
    """A format: the suffix of its file, and MODULE:FUNCTION in this package.

    The function takes the document, and, if the format has `plots`, also the entries and the album.
    The function returns a text, or a JSON value.
    """

    suffix: str
    function: str
    plots: bool = False


FORMATS = {
    "html": Format(".html", "html_format:html", plots=True),
    "junit": Format(".junit.xml", "machine_formats:junit"),
    "md": Format(".md", "markdown_formats:markdown_with_plots", plots=True),
    "sarif": Format(".sarif", "machine_formats:sarif"),
    "sp800-226": Format(".sp800-226.md", "markdown_formats:sheet"),
}
DEFAULT_FORMATS = ("md", "html", "sarif")  # written in addition to the JSON
