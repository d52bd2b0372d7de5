"""Tests of the docstrings of public names, and of the words in docstrings and messages."""

import ast
import enum
import importlib
import inspect
import re
from pathlib import Path

import pytest

import dpwitness

ROOT = Path(dpwitness.__file__).resolve().parent.parent
MODULES = (
    "accounting",
    "canaries",
    "claims",
    "domains",
    "executors",
    "metamorphic",
    "results",
    "stability",
    "suites",
    "wrap",
)
PUBLIC = {
    name: getattr(module, name)
    for module in [*(importlib.import_module(f"dpwitness.{m}") for m in MODULES), dpwitness]
    for name in module.__all__
    if callable(getattr(module, name))
}


def section(doc, title):
    """Return the text of a section of a NumPy docstring; empty if there is none."""
    found = re.search(
        rf"^{title}\n-+\n(.*?)(?=^\w[\w ]*\n-{{3,}}\n|\Z)", doc, re.MULTILINE | re.DOTALL
    )
    return found[1] if found else ""


def described(doc):
    """Return the names that the Parameters and Attributes sections describe."""
    heads = re.findall(
        r"^([*\w][\w*, ]*)(?: :.*)?$",
        section(doc, "Parameters") + section(doc, "Other Parameters") + section(doc, "Attributes"),
        re.MULTILINE,
    )
    return {name.strip(" *") for head in heads for name in head.split(",")}


def parameters(found):
    """Return the parameters of a function, or of the constructor of a class that users build or
    read.
    """
    if inspect.isclass(found) and (
        issubclass(found, BaseException | enum.Enum)
        or inspect.isabstract(found)
        or not own_constructor(found)
    ):
        return set()
    names = set()
    for name, parameter in inspect.signature(found).parameters.items():
        unpacked = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if unpacked:
            names |= set(found.__globals__[unpacked[1]].__annotations__)
        elif not name.startswith("_"):
            names.add(name)
    return names


def own_constructor(found):
    """Return the constructor of a class that is written in Python; None for protocols and plain
    classes.
    """
    return (
        None
        if getattr(found, "_is_protocol", False) or found.__init__ is object.__init__
        else found.__init__
    )


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_docstring_describes_parameters_result_and_errors(name):
    found = PUBLIC[name]
    doc = inspect.getdoc(found) or ""
    assert parameters(found) - described(doc) == set()
    if inspect.isfunction(found):
        assert section(doc, "Returns") or section(doc, "Yields")
    checks = (
        [getattr(found, "__post_init__", None), own_constructor(found)]
        if inspect.isclass(found)
        else [found]
    )
    source = "".join(
        inspect.getsource(check)
        for check in checks
        if inspect.isfunction(check) and "<string>" not in check.__code__.co_filename
    )
    if re.search(r"\brequire_\w+\(|raise InvalidArgument|\bparse_claim\(", source):
        assert "InvalidArgument" in section(doc, "Raises")


@pytest.mark.parametrize(
    "name", sorted(name for name, found in PUBLIC.items() if inspect.isclass(found))
)
def test_every_public_method_has_a_docstring(name):
    members = {
        member: getattr(PUBLIC[name], member)
        for member in vars(PUBLIC[name])
        if not member.startswith("_")
    }
    found = {
        member: value
        for member, value in members.items()
        if inspect.isfunction(value) or isinstance(value, property)
    }
    assert [member for member, value in found.items() if not inspect.getdoc(value)] == []


UNUSED_WORDS = re.compile(r"\b(told|handed|beside|anew|so many|holds? against|hands? over)\b")


def unused_words(text):
    """Return the words of prose, without code spans and names of parameters, that this project does
    not use.
    """
    return UNUSED_WORDS.findall(re.sub(r"`[^`]*`|^ *\w+ : .*$", "", text, flags=re.MULTILINE))


def test_docstrings_and_messages_use_plain_words():
    """The statements and proofs of claims (`proofs_checks/claims`) are exempt: their texts were
    reviewed one by one.
    """
    found = set()
    for package in ("dpwitness", "core", "auditors", "mechanisms", "proofs_checks", "reports"):
        for file in (ROOT / package).rglob("*.py"):
            place = file.relative_to(ROOT).as_posix()
            if not place.startswith(("benchmarks/libraries/", "proofs_checks/claims")):
                texts = [
                    node.value
                    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
                    if isinstance(node, ast.Constant)
                ]
                found |= {
                    (place, word)
                    for text in texts
                    if isinstance(text, str) and " " in text
                    for word in unused_words(text)
                }
    assert found == set()
