"""How the pages are built: MyST markdown, a reference from docstrings, formulas as MathML, and what
runs in a copy of `examples`.

Commands print their output on the page. Python examples must print what the page shows.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

HERE = Path(__file__).parent
# where `command-output` runs: out/docs-examples of the repository
WORK = HERE.parent / "out" / "docs-examples"

project, author, copyright = "dpwitness", "the dpwitness authors", "the dpwitness authors"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinxcontrib.programoutput",
]
exclude_patterns = ["examples"]
html_theme, html_title, html_copy_source = "furo", "dpwitness", False
html_math_renderer = "mathml"
html_css_files = ["wide.css"]
html_static_path = ["_static"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # published pages skip levels

default_role = "code"  # a word in single backticks of a docstring is code
autodoc_typehints = "none"  # types stand in the docstrings, in words
autodoc_member_order = "bysource"
napoleon_google_docstring, napoleon_use_ivar, napoleon_use_rtype = False, True, False
# words of docstrings are no links; what is named in full must be there
nitpick_ignore_regex = [("py:.*", r"(?!dpwitness\.).*")]

programoutput_prompt_template = "$ {command}\n{output}"


def _set_the_table(app: Any) -> None:
    """A copy of the examples, and the commands of this interpreter; files that commands have
    written stay while their output is kept.
    """
    if not app.env.all_docs:
        shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(HERE / "examples", WORK, dirs_exist_ok=True)
    os.environ["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    )
    os.environ |= {"COLUMNS": "100", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def _inside(app: Any, docname: str, source: list[str]) -> None:
    """Published pages are pages here, from the text that the repository shows, and links to them
    stay inside.
    """
    up = "../" * docname.count("/")
    source[0] = re.sub(
        rf"\]\({re.escape(up)}\.\./(?:reports/published/)?([\w-]+\.md)",
        rf"]({up}published/\1",
        source[0],
    )
    if docname.startswith("published/"):
        origin = HERE / "published" / source[0].split()[1]
        app.env.note_dependency(str(origin))
        text = origin.read_text(encoding="utf-8")
        text = re.sub(
            r"\]\(([\w./-]+\.(?:json|svg))\)",
            lambda m: f"]({os.path.relpath(origin.parent / m[1], HERE / 'published')})",
            text,
        )
        source[0] = text.replace("](docs/", "](../")


def _run_examples(app: Any, docname: str, source: list[str]) -> None:
    """Run the Python examples of a page; an output that differs from the page is a warning, which
    ends the build.
    """
    if "```pycon" in source[0]:
        page = HERE / f"{docname}.md"
        command = [sys.executable, str(HERE / "page_examples.py"), str(WORK), str(page)]
        ran = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        if ran.returncode:
            logging.getLogger(__name__).warning(
                "examples print something else:\n%s", ran.stdout, location=docname
            )


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Formulas by the converter of docutils: MathML, which browsers draw without a script or a
    network.
    """
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("builder-inited", _set_the_table)
    app.connect("source-read", _run_examples)
    app.connect("source-read", _inside)
