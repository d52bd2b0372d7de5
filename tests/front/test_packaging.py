"""The lock file answers to pyproject.toml, and says nothing of where packages come from."""

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINES = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]


def test_every_line_is_a_pin():
    assert [line for line in LINES if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line)] == []


def test_every_requirement_is_met_by_its_pin():
    pins = {canonicalize_name(name): version for name, version in (line.split("==") for line in LINES)}
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["test"], *extras["proofs"], *PROJECT["build-system"]["requires"]]
    unmet = [str(r) for r in map(Requirement, wanted) if not r.specifier.contains(pins.get(canonicalize_name(r.name), "0"))]
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
    assert not {"mechanisms", "auditors", "reports", "proofs_checks"} & set(packages_distributions())
