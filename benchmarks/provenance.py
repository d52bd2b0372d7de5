"""Provenance of measurements: the commit they were made from, and a digest of the code that could
change them.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import subprocess
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# folders of the code, by what they decide
INPUTS = {
    "claims": ("core/claims", "proofs_checks/claims", "proofs_checks/engine"),
    "search": ("auditors/audit", "auditors/search"),
    "learner": ("auditors/events",),
    "certificate": ("auditors/statistics", "auditors/density"),
    "canaries": ("auditors/canaries",),
    "functions": ("auditors/functions",),
    "scan": ("auditors/scanning", "auditors/traces"),
    "mechanisms": ("mechanisms/papers", "mechanisms/textbook"),
    "kernel": ("proofs_checks/kernel", "auditors/witnesses"),
}


@functools.cache
def digest(name: str) -> str:
    """Return a digest of the statements of an entry of `INPUTS`. Comments, docstrings and the
    layout do not change it.
    """
    found = hashlib.blake2b(digest_size=6)
    for folder in INPUTS[name]:
        for path in sorted((ROOT / folder).rglob("*.py")):
            found.update(path.relative_to(ROOT).as_posix().encode())
            found.update(statements(path.read_text(encoding="utf-8")).encode())
    return found.hexdigest()


def statements(text: str) -> str:
    """Return the syntax tree of a module as a text, without docstrings.

    Examples
    --------
    >>> statements("def f(x):\\n    'Doc.'\\n    return (x)  # c") == statements(
    ...     "def f(x): return x")
    True
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for one in body if not _is_text(one)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    """Return whether a statement is a text, such as a docstring."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def digests(names: Collection[str]) -> dict[str, str]:
    """Return the digests of entries of `INPUTS` by name."""
    return {name: digest(name) for name in names}


@functools.cache
def commit() -> str:
    """Return the commit of this clone, with ``+`` if files of the code differ from it; empty
    outside a clone.
    """

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!reports/published")
    return git("rev-parse", "--short=8", "HEAD") + ("+" if changed else "")
