"""Calls in the examples of a package: docstrings, the description of the distribution, and its own
tests and example files.

Uses the standard library only (Python 3.8 or later). `discovery` loads this file in the interpreter
of the package. Nothing is run: calls are read from the syntax, and only arguments that are
literals, or variables with literal values, are kept.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

_FILES = 40  # files of tests and examples that are read
_FILE_BYTES = 200_000
_CALLS = 2000
_SHOWN = 300  # characters of an argument
_FENCED = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.S)
_INDENTED = re.compile(r"(?:^(?: {2,}|\t).*\n|^\s*\n)+", re.M)
_PLACES = re.compile(
    r"(^|/)(tests?|examples?|demo|tutorials?)(/|_)|(^|/)test_|_test\.py$|example|demo", re.I
)
_ARRAYS = ("array", "asarray", "Series")


def calls_in_examples(modules: dict[str, Any], distribution: Any) -> Iterator[dict[str, Any]]:
    """Yield ``{"name": ..., "arguments": [...], "keywords": {...}}`` for the calls in all examples,
    those of docstrings first.
    """
    count = 0
    for text in _texts(modules, distribution):
        for block in _blocks(text):
            for call in _calls(block):
                count += 1
                if count > _CALLS:
                    return
                yield call


def _texts(modules: dict[str, Any], distribution: Any) -> Iterator[str]:
    for module in modules.values():
        with contextlib.suppress(Exception):
            yield inspect.getdoc(module) or ""
            for value in list(vars(module).values()):
                if getattr(value, "__module__", None) == module.__name__ and callable(value):
                    yield inspect.getdoc(value) or ""
                    for member in vars(value).values() if isinstance(value, type) else ():
                        yield inspect.getdoc(member) or ""
    with contextlib.suppress(Exception):
        yield distribution.metadata.get_payload() or ""
        yield distribution.metadata["Description"] or ""
    with contextlib.suppress(Exception):
        found = [
            file
            for file in distribution.files or ()
            if str(file).endswith(".py") and _PLACES.search(str(file))
        ]
        for file in found[:_FILES]:
            with contextlib.suppress(Exception):
                text = open(str(file.locate()), encoding="utf-8").read(_FILE_BYTES)  # noqa: SIM115
                yield "```\n" + text + "\n```"


def _blocks(text: str) -> Iterator[str]:
    """Yield the pieces of code in a text: after prompts, between fences, and indented ones."""
    prompts = [
        line.strip()[4:] for line in text.splitlines() if line.strip().startswith((">>> ", "... "))
    ]
    if prompts:
        yield "\n".join(prompts)
    fenced = _FENCED.findall(text)
    yield from (block for block in fenced if ">>>" not in block)
    if not prompts and not fenced:
        yield from (
            textwrap.dedent(block) for block in _INDENTED.findall(text + "\n") if "(" in block
        )


def _calls(block: str) -> Iterator[dict[str, Any]]:
    """Yield the calls of a piece of code; of its lines one by one if it is no valid syntax as a
    whole.
    """
    trees = []
    try:
        trees.append(ast.parse(block))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        for line in block.splitlines():
            with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                trees.append(ast.parse(line.strip()))
    known: dict[str, ast.expr] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Assign)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
            ):
                known.setdefault(node.targets[0].id, node.value)
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = (
                    node.func.attr
                    if isinstance(node.func, ast.Attribute)
                    else getattr(node.func, "id", "")
                )
                keywords = {
                    each.arg: _literal(each.value, known) for each in node.keywords if each.arg
                }
                yield {
                    "name": name,
                    "arguments": [_literal(each, known) for each in node.args],
                    "keywords": keywords,
                }


def _literal(node: ast.expr, known: dict[str, ast.expr]) -> str:
    """Return the text of a literal argument; empty for another one. An array of a literal counts as
    its elements.
    """
    for _ in range(3):
        if isinstance(node, ast.Name) and node.id in known:
            node = known[node.id]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _ARRAYS and node.args:
            node = node.args[0]
    try:
        text = repr(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return ""
    return text if len(text) <= _SHOWN else ""
