"""Before a release: wheel and source distribution are built, installed apart, and each one audits,
reports and replays.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROMISE = ("audit", "dpwitness.mechanisms:Laplace", "--kwargs", '{"epsilon": 1.0}')


def run(*command: object, code: int = 0) -> str:
    """What it prints; the release fails where it ends in another code."""
    found = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    if found.returncode != code:
        raise SystemExit(
            f"{' '.join(map(str, command))}: exit code {found.returncode}, {code} expected\n"
            f"{found.stdout}{found.stderr}"
        )
    return found.stdout


def smoke(package: Path, folder: Path, version: str) -> None:
    """Install a package into an environment of its own and use it from an empty folder."""
    venv.create(folder, with_pip=True)
    python, program = folder / "bin" / "python", folder / "bin" / "dpwitness"
    run(python, "-m", "pip", "install", "--quiet", package)
    assert run(program, "--version").split()[-1] == version, f"{package.name}: version"
    report = folder / "report"
    run(program, *PROMISE, "--claim", "pure:1", "--trials", "20000")
    found = json.loads(
        run(
            program,
            *PROMISE,
            "--claim",
            "pure:0.5",
            "--trials",
            "20000",
            "--json",
            "--report",
            report,
            code=1,
        )
    )
    assert found["verdict"] == "VIOLATED", found
    run(program, "replay", *report.glob("witness-*.json"), code=1)
    run(program, "claims", "check", "CM-02", code=1)


def main() -> None:
    """Build and try both."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (
        f"## {version}" in (changes := (ROOT / "CHANGELOG.md").read_text())
        or "## Unreleased" in changes
    ), "CHANGELOG.md: no such version"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT)
        for package in sorted((folder / "dist").iterdir()):
            smoke(package, folder / package.name.replace(".", "-"), version)
            print(f"{package.name}: installed, audited, reported, replayed")


if __name__ == "__main__":
    main()
