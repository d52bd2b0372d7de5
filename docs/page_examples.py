"""Run the Python examples of pages, all those of a page in one session, and print each output that
differs from the page.

`python docs/page_examples.py FOLDER PAGE...` runs them in FOLDER, a copy of `docs/examples`, and
exits with 1 after a difference. The build of the pages and their tests both call it.
"""

import contextlib
import doctest
import os
import sys
from pathlib import Path

from markdown_it import MarkdownIt


def examples(text: str) -> str:
    """Return the `pycon` blocks of a page as one text."""
    return "\n".join(
        token.content
        for token in MarkdownIt("commonmark").parse(text)
        if token.type == "fence" and token.info == "pycon"
    )


def failures(page: Path) -> int:
    """Run the examples of a page in the current folder, print differences, and return
    their number.
    """
    session = doctest.DocTestParser().get_doctest(
        examples(page.read_text(encoding="utf-8")), {"__name__": "page"}, page.name, str(page), 0
    )
    runner = doctest.DocTestRunner(verbose=False)
    with contextlib.redirect_stderr(sys.stdout):
        return runner.run(session, out=sys.stdout.write).failed


if __name__ == "__main__":
    folder, *pages = map(Path.resolve, map(Path, sys.argv[1:]))
    os.chdir(folder)
    sys.path[0] = str(folder)
    sys.exit(1 if sum(map(failures, pages)) else 0)
