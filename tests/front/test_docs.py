"""Tests of the pages in docs/: links, examples and their output, names, commands and options.

`make docs` (a part of `make release-check`) builds the pages, with warnings as errors, and runs
their commands and Python examples.
"""

import contextlib
import itertools
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import dpwitness
from dpwitness import cli

ROOT = Path(dpwitness.__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "published")
MARKDOWN = MarkdownIt("commonmark").enable("table")


def tokens(text):
    for token in MARKDOWN.parse(text):
        yield token
        yield from token.children or ()


def fences(page, kind):
    return [
        token.content
        for token in tokens(page.read_text(encoding="utf-8"))
        if token.type == "fence" and token.info == kind
    ]


def links(text):
    return [str(token.attrs["href"]) for token in tokens(text) if token.type == "link_open"]


def anchors(text):
    """Return the named anchors of a page, and the slugs of its headings as the page parser and the
    repository's host make them.
    """
    slugs, parsed = set(), MARKDOWN.parse(text)
    for opened, inline in itertools.pairwise(parsed):
        if opened.type == "heading_open":
            title = "".join(child.content for child in inline.children)
            slugs.add(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"))
    return slugs | set(re.findall(r"^\((\S+)\)=$", text, re.MULTILINE))


def lost(text, folder):
    """Return the broken links of a page in `folder`, and links that are not of the form
    https://host/path.
    """
    found = []
    for link in links(text):
        place, _, anchor = link.partition("#")
        target = folder / place
        if "://" in link:
            found += [] if re.fullmatch(r"https://[\w.-]+\.\w+(/[\w./~-]*)?", link) else [link]
        elif not (
            target.is_file()
            and (not anchor or anchor in anchors(target.read_text(encoding="utf-8")))
        ):
            found.append(link)
    return found


def commands(page):
    """Return the command lines that a page shows or runs."""
    text = page.read_text(encoding="utf-8")
    shown = [
        line[2:]
        for block in fences(page, "console")
        for line in block.splitlines()
        if line.startswith("$ dpwitness")
    ]
    return shown + re.findall(r"^```\{command-output\} (dpwitness .*)$", text, re.MULTILINE)


def options(parser):
    """Return the option strings of each command, such as "claims check"."""
    found = {"": {name for action in parser._actions for name in action.option_strings}}
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for name, below in action.choices.items():
                found |= {f"{name} {rest}".strip(): own for rest, own in options(below).items()}
    return found


def misused(line, known):
    """Return the words of a command line that are neither a command nor one of its options;
    placeholders are allowed.
    """
    words = [word for word in line.split()[1:] if word != "-"]  # a dash is standard input
    name = max(
        (name for name in known if f"{' '.join(words)} ".startswith(f"{name} ")),
        key=len,
        default="",
    )
    wrong = [
        word for word in words if word.startswith("-") and word.strip("[].") not in known[name]
    ]
    return wrong + ([] if name or words[0].startswith("-") else words[:1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    assert lost(page.read_text(encoding="utf-8"), page.parent) == []


def test_every_page_is_in_the_table():
    listed = {
        line
        for block in fences(DOCS / "index.md", "{toctree}")
        for line in block.splitlines()
        if line and not line.startswith(":")
    }
    pages = {file.relative_to(DOCS).with_suffix("").as_posix() for file in DOCS.rglob("*.md")}
    assert listed | {"index"} == pages


def test_published_pages_show_files_that_exist():
    for file in (DOCS / "published").glob("*.md"):
        origin = file.read_text(encoding="utf-8").split()[1]
        assert (DOCS / "published" / origin).resolve() in {
            ROOT / file.name,
            ROOT / "reports" / "published" / file.name,
        }
        assert (DOCS / "published" / origin).is_file()


def test_every_public_name_is_in_the_reference():
    modules = [
        dpwitness,
        *(
            getattr(dpwitness, name)
            for name in (
                "canaries",
                "claims",
                "domains",
                "executors",
                "results",
                "stability",
                "wrap",
            )
        ),
    ]
    public = {
        getattr(module, name)
        for module in modules
        for name in module.__all__
        if name not in ("accounting", "metamorphic")
    }
    reference = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    listed = {
        pkgutil.resolve_name(name)
        for name in re.findall(r"^\.\. auto\w+:: ([\w.]+)$", reference, re.MULTILINE)
    }
    assert len(public) > 50 and public - listed == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_command_lines_can_be_given(page, capsys):
    parser = cli._parser()
    for line in commands(page):
        with contextlib.suppress(SystemExit) as ended:
            parser.parse_args(shlex.split(line)[1:])
        assert "see dpwitness" not in capsys.readouterr().err, (line, ended)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_in_the_text_exist(page):
    known = options(cli._parser())
    told = [
        t.content
        for t in tokens(page.read_text(encoding="utf-8"))
        if t.type == "code_inline" and t.content.startswith("dpwitness ")
    ]
    assert [(line, wrong) for line in told if (wrong := misused(line, known))] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if fences(page, "pycon")], ids=lambda page: page.stem
)
def test_examples_print_what_is_shown(page, tmp_path):
    """All Python examples of a page run in one session, in a copy of the examples folder, as when
    the pages are built.
    """
    shutil.copytree(DOCS / "examples", tmp_path / "examples")
    command = [
        sys.executable,
        str(DOCS / "page_examples.py"),
        str(tmp_path / "examples"),
        str(page),
    ]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_an_example_that_prints_something_else_is_noticed(tmp_path):
    for shown, code in (("2", 0), ("3", 1)):
        (tmp_path / "page.md").write_text(
            f"# A page\n\n```pycon\n>>> x = 1\n```\n\nText\n\n```pycon\n>>> x + 1\n{shown}\n```\n"
        )
        ran = subprocess.run(
            [
                sys.executable,
                str(DOCS / "page_examples.py"),
                str(tmp_path),
                str(tmp_path / "page.md"),
            ],
            capture_output=True,
        )
        assert ran.returncode == code and (b"Got:" in ran.stdout) == bool(code)


def block(page, start):
    """Return the text of the page's block that starts with `start`."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.search(rf"^```\w+\n({re.escape(start)}.*?)^```", text, re.MULTILINE | re.DOTALL)[1]
