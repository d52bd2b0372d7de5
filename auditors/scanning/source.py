"""Source text of target functions: the same text is tried, written to the target file, and audited."""

from __future__ import annotations

from collections.abc import Sequence

from dpwitness.auditors.scanning.recipes import Recipe

NETWORK_ANSWERS = """
class _Answer:  # the import of the package asks the network, which is cut off: requests get an empty answer
    status_code = status = code = 200
    found = {"info": {"version": "0"}}  # in the form of a package index, as most ask for the newest version of themselves
    text = '{"info": {"version": "0"}}'
    ok, content, headers, url = True, text.encode(), {}, ""
    read = lambda self, *_: self.content
    json = lambda self: self.found
    raise_for_status = lambda self: None
    __enter__ = lambda self: self
    __exit__ = lambda self, *_: None


urllib.request.urlopen = lambda *_, **__: _Answer()
try:
    import requests

    requests.Session.request = lambda *_, **__: _Answer()
except ImportError:
    pass
"""


def import_lines(imports: Sequence[str]) -> list[str]:
    """Return the import statements of modules, and of names that another name hides (``module:name``)."""
    lines = {
        f"from {each.partition(':')[0]} import {each.partition(':')[2]}" if ":" in each else f"import {each}" for each in imports if each
    }
    return sorted(lines)


def file_header(imports: Sequence[str], docstring: str, *, root: str = "", network: bool = False, safe: bool = False) -> str:
    """Return the first lines of a target file: docstring, imports.

    Parameters
    ----------
    imports : sequence of str
        Modules to import.
    docstring : str
        Docstring of the file; empty for none.
    root : str
        Folder to import from, relative to the file; empty for an installed package.
    network : bool
        Whether requests to the network at import get an empty answer.
    safe : bool
        Whether an import that fails is passed over.
    """
    lines = ['"""' + docstring + '"""', ""] if docstring else []
    lines += [
        *(["import os"] if root else []),
        "import random",
        *(["import sys"] if root else []),
        *(["import urllib.request"] if network else []),
    ]
    lines += ["", "import numpy as np"]
    if root:
        lines += ["", f"sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), {root!r}))"]
    if network:
        lines += ["", NETWORK_ANSWERS.strip("\n"), ""]
    for line in import_lines(imports):
        lines += ["try:", f"    {line}", "except Exception:", "    pass"] if safe else [line]
    return "\n".join(lines) + "\n"


def function_source(name: str, recipe: Recipe, docstring: str = "", comments: Sequence[str] = (), keywords: str = "") -> str:
    """Return the source of a target function ``name(dataset, size, rng)`` for a recipe; `keywords` are further parameters."""
    body = [f"        {line}" for line in recipe.body]
    lines = [f"# {comment}" for comment in comments]
    lines += [f"def {name}(dataset, size, rng{keywords}):"]
    lines += [f'    """{docstring}"""', ""] if docstring else []
    lines += ["    def run():", *body, "", "    return [run() for _ in range(size)]"]
    return "\n".join(lines) + "\n"


def spent_source(name: str, recipe: Recipe) -> str:
    """Return the source of the function that returns the claim as the library computes it."""
    body = [f"    {line}" for line in recipe.spent]
    return "\n".join([f"def _{name}_claim():", '    """Return the claim that the library computes."""', *body]) + "\n"
