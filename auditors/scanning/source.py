"""Source text of target functions: the same text is tried, written to the target file, and audited."""

from __future__ import annotations

from collections.abc import Sequence

from dpwitness.auditors.scanning.recipes import Recipe

NETWORK_ANSWERS = '''
class _Answer:  # the import of the package asks the network, which is cut off: requests get an empty answer
    status_code = status = code = 200
    ok, text, content, headers, url = True, "{}", b"{}", {}, ""
    read = lambda self, *_: b"{}"
    json = lambda self: {}
    raise_for_status = lambda self: None
    __enter__ = lambda self: self
    __exit__ = lambda self, *_: None


urllib.request.urlopen = lambda *_, **__: _Answer()
try:
    import requests

    requests.Session.request = lambda *_, **__: _Answer()
except ImportError:
    pass
'''


def import_lines(imports: Sequence[str]) -> list[str]:
    """Return the import statements of modules, and of names that another name hides (``module:name``)."""
    lines = {f"from {each.partition(':')[0]} import {each.partition(':')[2]}" if ":" in each else f"import {each}" for each in imports if each}
    return sorted(lines)


def file_header(imports: Sequence[str], docstring: str, *, network: bool = False, safe: bool = False) -> str:
    """Return the first lines of a target file: docstring, imports. With `safe`, an import that fails is passed over."""
    lines = ['"""' + docstring + '"""', ""] if docstring else []
    lines += ["import random", *(["import urllib.request"] if network else []), "", "import numpy as np"]
    if network:
        lines += ["", NETWORK_ANSWERS.strip("\n"), ""]
    for line in import_lines(imports):
        lines += ["try:", f"    {line}", "except Exception:", "    pass"] if safe else [line]
    return "\n".join(lines) + "\n"


def function_source(name: str, recipe: Recipe, docstring: str = "", comments: Sequence[str] = ()) -> str:
    """Return the source of a target function ``name(dataset, size, rng)`` for a recipe."""
    body = [f"        {line}" for line in recipe.body]
    lines = [f"# {comment}" for comment in comments]
    lines += [f"def {name}(dataset, size, rng):"]
    lines += [f'    """{docstring}"""', ""] if docstring else []
    lines += ["    def run():", *body, "", "    return [run() for _ in range(size)]"]
    return "\n".join(lines) + "\n"
