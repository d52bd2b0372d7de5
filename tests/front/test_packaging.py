"""Tests of the lock file, which must match pyproject.toml and name no source of packages, and of
the installed packages.
"""

import io
import re
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dpwitness import cli

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


MOST = 1_500_000  # bytes; a wheel also has metadata, mostly the hashes of its files


@pytest.fixture
def packed(monkeypatch):
    """Return the paths of the files that the wheel contains, relative to the clone."""
    config = pytest.importorskip("setuptools.config.pyprojecttoml")
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.chdir(ROOT)
    build = config.apply_configuration(
        setuptools.Distribution({"script_name": "setup.py"}), "pyproject.toml"
    ).get_command_obj("build_py")
    build.ensure_finalized()
    data = [Path(folder, file) for _, folder, _, files in build.data_files for file in files]
    return {Path(file).as_posix() for file in [*build.get_source_files(), *data]}


def test_the_wheel_is_small(packed):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in packed:
            wheel.write(file)
    assert len(archive.getvalue()) <= MOST


def test_the_wheel_has_what_an_audit_needs_and_nothing_else(packed):
    """Every module of the packages and shims; no benchmark, library, test, page or generated
    report.
    """
    packages = ("dpwitness", "core", "mechanisms", "auditors", "proofs_checks", "reports")
    assert {file.partition("/")[0] for file in packed} == set(packages)
    sources = {
        p.relative_to(ROOT).as_posix() for name in packages for p in (ROOT / name).rglob("*.py")
    }
    assert sources <= packed
    assert not [file for file in packed if file.startswith("reports/published")]
    assert not [file for file in packed if file.endswith("environments.toml")]


HEAVY = "{'numpy', 'scipy', 'numba', 'matplotlib', 'statsmodels', 'pandas', 'hypothesis', 'pytest'}"


@pytest.mark.parametrize(
    "statement",
    [
        "import dpwitness",
        "import dpwitness.cli",
        "import dpwitness.pytest_plugin; sys.modules.pop('pytest')",
        "from dpwitness.cli import main; main(['--version'])",
    ],
)
def test_light(shell, statement):
    ran = shell.run(
        sys.executable, "-c", f"import sys; {statement}; print(sorted({HEAVY} & set(sys.modules)))"
    )
    assert ran.stdout.splitlines()[-1] == "[]", ran.stderr


def test_help_names_every_command_and_loads_nothing(shell):
    ran = shell.dpwitness("--help")
    assert ran.returncode == 0
    assert all(
        f"\n  {command} " in ran.stdout + shell.dpwitness("more").stdout for command in cli.COMMANDS
    )
    code = (
        "import sys\nfrom dpwitness.cli import main\ntry:\n    main(['--help'])\nexcept "
        f"SystemExit:\n    print({HEAVY} & set(sys.modules))"
    )
    assert shell.run(sys.executable, "-c", code).stdout.splitlines()[-1] == "set()"


def test_an_audit_does_not_load_what_few_audits_need(shell):
    """`scipy.stats` alone takes half a second."""
    ran = shell.run(
        sys.executable,
        "-c",
        "import sys, dpwitness.auditors.audit.audit; print({'scipy.stats', 'lightgbm'} & "
        "set(sys.modules))",
    )
    assert ran.stdout == "set()\n", ran.stderr
