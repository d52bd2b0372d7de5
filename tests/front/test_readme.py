"""The README's code blocks, run as printed."""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def blocks():
    return re.findall(r"^```(\w+)\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


def test_everything_as_printed(shell, blocks):
    python = [text for kind, text in blocks if kind == "python"]
    named = {re.match(r"# (\w+\.py)", text).group(1): text for text in python if re.match(r"# \w+\.py", text)}
    assert set(named) == {"mine.py", "test_privacy.py", "test_theirs.py", "counts.py", "exact.py", "users.py", "objects.py", "module.py"}
    theirs = named["test_theirs.py"]
    for name in ("mine.py", "test_privacy.py", "counts.py"):
        (shell.folder / name).write_text(named[name])
    commands = [line[2:] for kind, text in blocks if kind == "console" for line in text.splitlines() if line.startswith("$ ")]
    (cpp,) = (text for kind, text in blocks if kind == "cpp")
    (shell.folder / "mine.cpp").write_text(cpp)
    shim, build, program = (shlex.split(command) for command in commands if "cpp" in command or "--command" in command)
    others = (command for command in commands if not any(word in command for word in ("cpp", "--command", "objects.py")))
    audit, replay, pytest_, new, check, their_audit, trace, exact = (shlex.split(command) for command in others)
    assert (audit[:2], replay[:2], pytest_[0]) == (["dpwitness", "audit"], ["dpwitness", "replay"], "pytest")
    found = shell.dpwitness(*audit[1:])
    number = r"epsilon > ([\d.]+)"
    promised = " ".join(re.search(r"says `(VIOLATED.*?)` and", README.read_text(), re.DOTALL).group(1).split())
    said = found.stdout.splitlines()[0]
    assert found.returncode == 1
    assert re.sub(number, "", said) == re.sub(number, "", promised)
    assert float(re.search(number, said)[1]) == pytest.approx(float(re.search(number, promised)[1]), abs=0.01)
    assert shell.dpwitness(*replay[1:]).returncode == 1
    traced = shell.dpwitness(*trace[1:])
    assert traced.returncode == 1 and "add_noise: input moves by 1 (l1), declared 0.2 (23 runs)" in traced.stdout
    enclosed = shell.dpwitness(*exact[1:])
    assert enclosed.returncode == 1 and enclosed.stdout.startswith("VIOLATED: no finite epsilon holds on this pair")
    assert float(re.search(r"VIOLATED: epsilon > ([\d.]+) certified", enclosed.stdout)[1]) > 4
    assert (ran := shell.run(sys.executable, "-c", named["exact.py"])).returncode == 0, ran.stderr
    pytest.importorskip("pandas")
    ran = shell.run(sys.executable, "-c", named["users.py"])
    assert ran.stdout.split() == ["add-remove", "NOT_REFUTED", "add-remove:unit=user", "VIOLATED"], ran.stderr
    (script,) = (text for text in python if text not in named.values())
    ran = shell.run(sys.executable, "-c", script)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("VIOLATED")
    tested = shell.run(sys.executable, "-m", *pytest_, "-p", "no:cacheprovider")
    assert "2 passed" in tested.stdout, tested.stdout
    assert len(json.loads((shell.folder / "out" / "audit.json").read_text())["results"]) == 2
    for command in (new, check, their_audit):
        assert (ran := shell.dpwitness(*command[1:])).returncode == 0, ran.stdout + ran.stderr
    if shutil.which(build[0]) is not None:
        assert shell.dpwitness(*shim[1:]).returncode == 0 and shell.run(*build).returncode == 0
        ran = shell.dpwitness(*program[1:])
        assert ran.returncode == 1 and "VIOLATED: epsilon > 1.9" in ran.stdout, ran.stdout + ran.stderr
    (shell.folder / "test_theirs.py").write_text(theirs)
    tested = shell.pytest("test_theirs.py")
    assert "14 passed, 4 skipped" in tested.stdout, tested.stdout


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", README.read_text()):
        assert (README.parent / target).exists()


def test_objects_as_printed(shell, blocks):
    """A line each; PyTorch's is run where PyTorch is."""
    named = {match[1]: text for kind, text in blocks if kind == "python" and (match := re.match(r"# (objects|module)\.py", text))}
    (shell.folder / "objects.py").write_text(named["objects"])
    estimator, session = (
        shlex.split(line[2:]) for kind, text in blocks if kind == "console" for line in text.splitlines() if "objects.py" in line
    )
    found = shell.dpwitness(*estimator[1:])
    assert found.returncode == 1 and "VIOLATED: epsilon > 1.8" in found.stdout, found.stdout + found.stderr
    found = shell.dpwitness(*session[1:])
    assert found.returncode == 0 and "adversary found by a search" in found.stdout, found.stdout + found.stderr
    for name in ("stateful", "coroutine"):
        found = shell.dpwitness("audit", f"objects.py:{name}", "--d0", "[0, 0]", "--d1", "[0, 1]", "--trials", "2000")
        assert found.returncode == 0 and "NOT REFUTED" in found.stdout, found.stdout + found.stderr


def test_module_of_pytorch_as_printed(shell, blocks):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    (text,) = (text for kind, text in blocks if kind == "python" and text.startswith("# module.py"))
    (shell.folder / "module.py").write_text(text)
    found = shell.dpwitness("audit", "module.py:module", "--d0", "[0, 0]", "--d1", "[0, 1]", "--trials", "2000")
    assert found.returncode == 0 and "NOT REFUTED" in found.stdout, found.stdout + found.stderr
