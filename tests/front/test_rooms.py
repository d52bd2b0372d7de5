"""Tests of the architecture: no circular imports, no import from a higher layer, and few files per
folder.

`ROOMS` lists the layers, lowest first.
"""

import ast
import functools
import re
from pathlib import Path

import networkx as nx

import dpwitness

ROOT = Path(dpwitness.__file__).resolve().parent.parent
FOLDERS = {
    "dpwitness.core": ROOT / "core",
    "dpwitness.mechanisms": ROOT / "mechanisms",
    "dpwitness.auditors": ROOT / "auditors",
    "dpwitness.proofs_checks": ROOT / "proofs_checks",
    "dpwitness.reports": ROOT / "reports",
    "dpwitness.benchmarks": ROOT / "benchmarks",
    "dpwitness": ROOT / "dpwitness",
}
INSIDE = {  # the layers of each package, lowest first
    "dpwitness.core": "values datasets claims protocols domains numerics balls",
    "dpwitness.mechanisms": "textbook papers wrappers wrappers.recording wrappers.programs",
    "dpwitness.auditors": (  # a module that stands above the rest of its folder is named
        "statistics workers.descriptions workers.loading "
        "workers.trust events.leaves events density witnesses "
        "witnesses.witness_reader witnesses.result density.result workers "
        "witnesses.replay witnesses.store witnesses.audit_records search "
        "density.pair_search search.search "
        "density.proved density.bounded_mean density.bounds "
        "density.certify density.kind traces audit traces.result traces.trace checks "
        "canaries functions "
        "audit.power audit.plan audit.watch scanning"
    ),
    "dpwitness.proofs_checks": "engine alignments claims",
    "dpwitness.reports": (
        "wording summary drawing numbers album cards formats html_format machine_formats "
        "markdown_formats document report intervals compare"
    ),
}
KERNEL = ["dpwitness.proofs_checks.kernel"]  # imports nothing of the project
ROOMS = KERNEL + [
    room
    for package, names in INSIDE.items()
    for room in [*(f"{package}.{name}" for name in names.split()), package]
]
ROOMS += [
    "dpwitness.executors",
    "dpwitness",
    *(f"dpwitness.{name}" for name in ("suites", "commands", "benchmarks")),
]
ROOMS += [
    "dpwitness.benchmarks.kernel",
    "dpwitness.benchmarks.adversarial",  # attacks of the kernel are in its room
    "dpwitness.benchmarks.hostile",
    "dpwitness.benchmarks.proofs",
    "dpwitness.benchmarks.mutation",
    "dpwitness.benchmarks.pages",
    "dpwitness.benchmarks.libraries",
    "dpwitness.benchmarks.protocol",
]
# what stands at the very top, in no room
FRONT = ("dpwitness.cli", "dpwitness.__main__", "dpwitness.pytest_plugin")


def modules():
    found = {}
    for package, folder in FOLDERS.items():
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            if parts[0] != "libraries" or len(parts) == 2:
                found[".".join([package, *(part for part in parts if part != "__init__")])] = file
    return found


def imports(module, file, known):
    """Yield the modules that a file imports, also inside functions; a name imported from a package
    may be a module.
    """
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                origin = ".".join(
                    [
                        *package.split(".")[: len(package.split(".")) - node.level + 1],
                        *filter(None, [node.module]),
                    ]
                )
            for alias in node.names:
                full = f"{origin}.{alias.name}"
                if full in known or origin in known:
                    yield full if full in known else origin


@functools.cache
def graph():
    known = modules()
    return {
        name: {other for other in imports(name, file, known) if other != name}
        for name, file in known.items()
    }


def room_of(module):
    """Return the innermost layer that contains a module; the `__init__` of a layer belongs to the
    layer.
    """
    return max((room for room in ROOMS if module == room or module.startswith(f"{room}.")), key=len)


def circles(arrows):
    """Return the groups of modules that import each other, directly or indirectly."""
    groups = nx.strongly_connected_components(
        nx.DiGraph({name: list(others) for name, others in arrows.items()})
    )
    return {frozenset(group) for group in groups if len(group) > 1}


def test_no_circle():
    assert circles(graph()) == set()


def test_no_arrow_up():
    order = {room: place for place, room in enumerate(ROOMS)}
    upwards = []
    for name, others in graph().items():
        for other in others:
            here, there = order[room_of(name)], order[room_of(other)]
            if there > here and name not in FRONT and other not in FOLDERS:
                upwards.append(f"{name} -> {other}")
    assert upwards == []


def test_a_folder_holds_few_files_and_says_what_they_are():
    for folder in {
        file.parent for root in [*FOLDERS.values(), ROOT / "tests"] for file in root.rglob("*.py")
    }:
        assert len(list(folder.glob("*.py"))) <= 24, folder
    for folder in {file.parent for file in modules().values()}:
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))), (
            folder
        )


def test_every_witness_that_code_names_is_in_the_index():
    index = (ROOT / "proofs_checks" / "witnesses.md").read_text(encoding="utf-8")
    listed = {int(n) for n in re.findall(r"^\| W(\d+) \|", index, re.M)}
    sources = [
        p.read_text(encoding="utf-8")
        for room in ("proofs_checks", "core", "mechanisms")
        for p in (ROOT / room).rglob("*.py")
    ]
    assert (
        listed
        == set(range(1, 22))
        >= {int(n) for text in sources for n in re.findall(r"\bW(\d+)\b", text)}
    )
    places = re.findall(r"`((?:claims|engine|mechanisms|tests)/[\w/.]+)`", index)
    assert not [
        p for p in places if not (ROOT / p).is_file() and not (ROOT / "proofs_checks" / p).is_file()
    ]


def test_documents_name_files_that_exist():
    for name in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        places = {
            p
            for p in re.findall(r"`([\w./]+/[\w./]*\w/?)`", text)
            if p.partition("/")[0]
            in ("core", "mechanisms", "auditors", "proofs_checks", "reports", "benchmarks", "tests")
        }
        assert places and not [p for p in places if not (ROOT / p).exists()], name
        files = [
            f"/{file.relative_to(ROOT).as_posix()}"
            for folder in FOLDERS.values()
            for file in folder.rglob("*.py")
        ]
        # a file may be named by the last part of its path
        short = re.findall(r"`([\w/]+\.py)[`:]", text)
        assert not [
            p
            for p in short
            if not any(
                f"/{p}" == file[-len(p) - 1 :]
                for file in [*files, f"/{p}" if (ROOT / p).exists() else ""]
            )
        ], name


def test_no_import_is_there_for_its_effect_alone():
    """Ruff rejects unused imports except for `import x as x` and lines marked noqa: no file
    contains these exceptions.
    """
    found = list(modules().values())
    bad = [
        p
        for p in found
        if re.search(r"import (\w+) as \1\b|noqa: F401", p.read_text(encoding="utf-8"))
    ]
    assert len(found) > 150 and bad == []
