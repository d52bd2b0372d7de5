"""Tests of the lock file, which must match pyproject.toml and name no source of packages, and of
the installed packages.
"""

import contextlib
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINES = [
    line
    for line in (ROOT / "requirements.lock").read_text().splitlines()
    if not line.startswith("#")
]


def test_every_line_is_a_pin():
    assert [
        line
        for line in LINES
        if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*( ; [^/\\]+)?", line)
    ] == []


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_every_requirement_is_met_by_its_pin(minor):
    environment = {
        "python_version": f"3.{minor}",
        "python_full_version": f"3.{minor}.1",
        "sys_platform": "linux",
    }
    lines = [Requirement(line) for line in LINES]
    lines = [line for line in lines if line.marker is None or line.marker.evaluate(environment)]
    pins = {canonicalize_name(line.name): str(line.specifier).removeprefix("==") for line in lines}
    assert len(pins) == len(lines), "a package is pinned twice"
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    installed = [line for name in ("test", "proofs", "dev", "docs") for line in extras[name]]
    wanted = [*project["dependencies"], *installed, *PROJECT["build-system"]["requires"]]
    unmet = [
        str(r)
        for r in map(Requirement, wanted)
        if not r.specifier.contains(pins.get(canonicalize_name(r.name), "0"))
    ]
    assert unmet == []


def test_what_the_pinned_packages_need_is_pinned_too():
    """Of the packages that are installed here. An unpinned one changes without a commit, as
    codespell once did.
    """
    extras = PROJECT["project"]["optional-dependencies"]
    ahead = [
        Requirement(line).name
        for name in ("test", "proofs", "dev", "docs")
        for line in (*PROJECT["project"]["dependencies"], *extras[name])
    ]
    pinned, seen = {canonicalize_name(Requirement(line).name) for line in LINES}, set()
    while ahead:
        name = canonicalize_name(ahead.pop())
        if name not in seen:
            seen.add(name)
            with contextlib.suppress(PackageNotFoundError):
                needed = map(Requirement, requires(name) or [])
                ahead += [
                    each.name
                    for each in needed
                    if each.marker is None or each.marker.evaluate({"extra": ""})
                ]
    assert seen - pinned == set() and len(seen) > 60


def test_every_extra_that_make_installs_is_pinned():
    named = re.findall(
        r"^EXTRAS_\w+ := \[([\w,]+)\]", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert {extra for each in named for extra in each.split(",")} == {
        "test",
        "proofs",
        "dev",
        "docs",
    }


def test_every_folder_of_code_is_installed_under_one_name():
    rooms = {p.parent.relative_to(ROOT).as_posix() for p in ROOT.glob("[!.]*/**/__init__.py")}
    places = PROJECT["tool"]["setuptools"]["package-dir"]
    above = sorted(places, key=len, reverse=True)
    packages = set()
    for name in PROJECT["tool"]["setuptools"]["packages"]:
        parent = next(p for p in above if f"{name}.".startswith(f"{p}."))
        packages.add((places[parent] + name[len(parent) :]).replace(".", "/"))
    assert {room for room in rooms if room.partition("/")[0] in places.values()} == packages
    assert not {"core", "mechanisms", "auditors", "reports", "proofs_checks"} & set(
        packages_distributions()
    )


def test_a_clone_can_be_imported_where_the_package_is_installed_elsewhere():
    """In the clone's root, Python imports the folder `dpwitness` there, which must use the sibling
    packages of the clone.
    """
    code = (
        "import sys; sys.path.insert(0, '.'); import dpwitness.auditors, dpwitness.reports; "
        "print(dpwitness.auditors.__file__)"
    )
    found = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path += {sys.path[1:]!r}; {code}"],
        cwd=ROOT,
        capture_output=True,
    )
    assert found.stdout.decode().strip() == str(ROOT / "auditors" / "__init__.py"), found.stderr
