"""Content and size of the wheel, from the files that setuptools would pack. `make release-check`
builds and installs it.
"""

import io
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = 1_690_000  # bytes; a wheel also has metadata, mostly the hashes of its files


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
