"""Commands: each command ends with each of its exit codes, and says why in its first line."""

import contextlib
import json
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from command_line import run

DOCS = Path(__file__).parents[2] / "docs" / "examples"
TARGETS = """
import numpy as np


def sound(dataset, size, rng):
    return np.round(1024 * (np.sum(dataset) + rng.laplace(0.0, 1.0, size))) / 1024


def weak(dataset, size, rng):
    return np.round(1024 * (np.sum(dataset) + rng.laplace(0.0, 0.4, size))) / 1024


def broken(dataset, size, rng):
    raise RuntimeError("out of order")


def empty(dataset, size, rng):
    return np.zeros(size)


for f in (sound, weak, broken, empty):
    f.claim, f.domain = "pure:1", {"kind": "Records", "size": 1, "low": 0.0, "high": 1.0}
"""
PACKAGE = '''
import numpy as np


def noisy_count(data, epsilon):
    """Return an epsilon-differentially private number of records."""
    return float(len(data) + np.random.laplace(0, 0.1 / epsilon))
'''
LOOP = """
from dpwitness.proofs_checks import provable


@provable(cost="epsilon", where="epsilon > 0")
def publishes(queries, rng, epsilon: float = 1.0):
    out = []
    for *x, q in enumerate(queries):
        out.append(x[0] + q > 1)
    return out
"""
ONE = "--trials 4000 --in-process"
FEW = "--trials 1000 --in-process"
LAPLACE = 'dpwitness.mechanisms:Laplace --kwargs {"epsilon":1.0,"noise_multiplier":'
CALLS = {  # name: command, exit code, a text of its answer
    "audit, sound": (f"audit noisy.py:sound {ONE}", 0, "NOT REFUTED: no violation of pure:1 found"),
    "audit, violated": (f"audit noisy.py:weak {ONE}", 1, "VIOLATED: "),
    "audit, low bits": (f"audit {LAPLACE}1.0}} --trials 20000", 0, "NOT REFUTED: "),
    "audit, low bits count": (f"audit {LAPLACE}1.0}} --trials 20000 --bits", 1, "float rounding"),
    "audit, accepted": (f"audit {LAPLACE}0.4}} {ONE} --baseline accepted.toml", 0, "VIOLATED: "),
    "audit, expired": (f"audit {LAPLACE}0.4}} {ONE} --baseline expired.toml", 1, "VIOLATED: "),
    "audit, broken": (f"audit noisy.py:broken {FEW}", 3, "ERROR: mechanism always raises RuntimeError"),
    "audit, empty": ("audit noisy.py:empty --trials 40000 --in-process", 3, "INCONCLUSIVE: "),
    "audit, sequential": (f"audit noisy.py:weak {ONE} --sequential", 1, "VIOLATED: "),
    "audit, unknown function": ("audit noisy.py:other", 2, "other"),
    "audit, unknown file": ("audit none.py:weak", 2, "none.py"),
    "audit, unknown option": ("audit noisy.py:weak --fast", 2, "--fast"),
    "audit, trials": ("audit noisy.py:weak --trials 10", 2, "trials must be"),
    "audit, claim": ("audit noisy.py:weak --claim pure:-1", 2, "epsilon must be positive"),
    "audit, pair": (f"audit noisy.py:weak --d0 [0] --d1 [0,1] {FEW}", 2, "replace-one"),
    "audit, dataset": (f"audit noisy.py:weak --d0 [0 --d1 [1] {FEW}", 2, "--d0"),
    "audit, domain": ("audit noisy.py:weak --domain {}", 2, "domain"),
    "audit, kwargs": ("audit noisy.py:weak --kwargs []", 2, "--kwargs"),
    "audit, report in a file": (f"audit noisy.py:sound {FEW} --report noisy.py", 2, "noisy.py"),
    "certify, certified": ("certify dpwitness.mechanisms:Laplace --kwargs {\"epsilon\":1.0}", 0, "CERTIFIED: "),
    "certify, violated": (
        "certify dpwitness.mechanisms:Laplace --kwargs {\"epsilon\":1.0} --claim pure:0.5", 1, "VIOLATED: ",
    ),
    "certify, no density": ("certify noisy.py:sound", 2, "log_density"),
    "trace, sound": ("trace noisy.py:sound --no-confirm --in-process", 0, "NOT REFUTED: the trace shows no violation"),
    "trace, confirmed": (f"trace noisy.py:weak {ONE}", 1, "VIOLATED: "),
    "trace, not confirmed": ("trace noisy.py:weak --no-confirm --in-process", 3, "INCONCLUSIVE: TRACE LOSS"),
    "trace, nothing recorded": ("trace noisy.py:empty --no-confirm --in-process", 3, "no call of a noise primitive"),
    "trace, unknown function": ("trace noisy.py:other", 2, "other"),
    "canaries, violated": ("canaries scores.csv --claim pure:0.5", 1, "VIOLATED: "),
    "canaries, sound": ("canaries scores.csv --claim pure:20", 0, "NOT REFUTED: "),
    "canaries, no claim": ("canaries scores.csv", 2, "--claim"),
    "canaries, no file": ("canaries none.csv --claim pure:1", 2, "none.csv"),
    "canaries, empty file": ("canaries empty.csv --claim pure:1", 2, "got nothing"),
    "canaries, columns": ("canaries accepted.toml --claim pure:1", 2, "accepted.toml"),
    "check, passed": ("check noisy.py:sound -k shape --trials 2000", 0, "1 passed"),
    "check, failed": ("check noisy.py:weak -k claim --trials 8000", 1, "VIOLATED"),
    "check, broken, outputs": ("check noisy.py:broken -k shape --trials 2000", 3, "every run raises RuntimeError"),
    "check, broken": ("check noisy.py:broken -k claim --trials 2000", 3, "always raises RuntimeError"),
    "check, no such check": ("check noisy.py:sound -k nothing", 2, "nothing"),
    "report, shown": ("report stored --show", 0, "VIOLATED: epsilon > "),
    "report, no report": ("report nowhere", 2, "nowhere"),
    "report, format": ("report stored --format pdf", 2, "pdf"),
    "compare, equal": ("compare stored stored", 0, "NO NEW VIOLATION: 1 same"),
    "compare, new violation": ("compare kept stored", 1, "weak"),
    "compare, repaired": ("compare stored kept", 0, "weak"),
    "compare, one file": ("compare stored", 2, "required: NEW.json"),
    "replay, confirmed": ("replay stored/witness-weak.json --trials 4000 --seed 1", 1, "VIOLATED"),
    "replay, repaired": ("replay stored/witness-weak.json --target noisy.py:sound --trials 4000 --seed 1", 0, "NOT REFUTED"),
    "replay, checked": ("replay stored/witness-weak.json --check", 0, "ACCEPTED"),
    "replay, edited": ("replay edited.json --trials 2000", 2, "edited.json"),
    "replay, edited and checked": ("replay edited.json --check", 1, "REFUSED"),
    "replay, no file": ("replay none.json", 2, "none.json"),
    "suite, one": ("suite zoo -k laplace-grid --trials 2000", 0, "1 right, 0 wrong"),
    "suite, no such suite": ("suite other", 2, "zoo"),
    "suite, no such name": ("suite zoo -k nothing", 2, "nothing"),
    "scan, guessed": ("scan pack --seconds 1 --clock cpu --report scanned", 3, "SUSPECT"),
    "scan, no package": ("scan no_such_package", 2, "no_such_package"),
    "claims, list": ("claims list", 0, "CM-01"),
    "claims, show": ("claims show CM-01", 0, "Definition 1"),
    "claims, holds": ("claims check CM-03 --quick", 0, "CM-03"),
    "claims, refuted": ("claims check CM-02 --set epsilon=0.5:1 --quick --seconds 5", 1, "CM-02"),
    "claims, no such claim": ("claims show CM-99", 2, "no claim 'CM-99'"),
    "prove, proved": ("prove loops.py:sparse_vector --trials 0", 0, "CERTIFIED"),
    "prove, refuted": ("prove loops.py:too_little_noise --trials 20000", 1, "VIOLATED"),
    "prove, not modelled": ("prove publishes.py:publishes --trials 0", 2, "x"),
    "plan": ("plan --claim pure:1 --find 2", 0, "1,000 runs find a violation of pure:1"),
    "plan, nothing to find": ("plan --claim pure:1", 2, "find or trials must be given"),
    "plan, no violation": ("plan --claim pure:1 --find 0.5", 2, "find"),
    "watch, violated": ("watch noisy.py:weak --store watch.db --trials 12000", 1, "VIOLATED"),
    "watch, no store": ("watch noisy.py:weak", 2, "--store"),
    "store, list": ("list stores stored.db", 0, "weak"),
    "store, no file": ("list stores none.db", 2, "none.db"),
    "store, no store": ("list stores noisy.py", 2, "noisy.py"),
    "store, clean": ("store gc stored.db", 0, "1 audits were reduced to results"),
    "store, no such audit": ("store gc stored.db nothing", 2, "'nothing'"),
    "list, all": ("list", 0, "laplace-grid"),
    "list, one": ("list mechanisms", 0, "SparseVector"),
    "list, no such list": ("list nothing", 2, "nothing"),
    "more": ("more", 0, "plan"),
    "no such command": ("audti", 2, "audti"),
    "version": ("--version", 0, "0.2.0"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("commands")
    (place / "noisy.py").write_text(TARGETS)
    (place / "publishes.py").write_text(LOOP)
    (place / "pack").mkdir()
    (place / "pack" / "__init__.py").write_text(PACKAGE)
    shutil.copy(DOCS / "loops.py", place)
    rows = [f"{k % 7 + 9.0 * (k % 2)},{k % 2}" for k in range(600)]
    (place / "empty.csv").write_text("")
    (place / "scores.csv").write_text("\n".join(["score,included", *rows]) + "\n")
    for name, year in (("accepted", 2999), ("expired", 2001)):
        entry = f'name = "Laplace"\nclaim = "pure:1"\nreason = "a test"\nexpires = {year}-01-01\n'
        (place / f"{name}.toml").write_text(f"[[accepted]]\n{entry}")
    with contextlib.chdir(place):
        run(*f"audit noisy.py:weak {ONE} --store stored.db --report stored".split())
        run(*f"audit noisy.py:weak --claim pure:9 {ONE} --report kept".split())
        witness = json.loads(Path("stored/witness-weak.json").read_text())
        Path("edited.json").write_text(json.dumps(witness | {"bound": 9.0}))
    return place


@pytest.mark.slow_cases(
    "scan, guessed",
    "audit, sound",
    "prove, refuted",
    "audit, empty",
    "watch, violated",
    "check, broken, outputs",
    "audit, broken",
)
@pytest.mark.parametrize("name", CALLS)
def test_a_command_ends_with_its_exit_code_and_says_why(folder, name):
    line, expected, text = CALLS[name]
    with contextlib.chdir(folder):
        code, out, err = run(*line.split())
    assert code == expected, (code, out, err)
    assert text in out + err, (out, err)
    assert "Traceback" not in err and "unexpected error" not in err
    if expected == 2:  # the last line names the command
        assert err.splitlines()[-1].startswith("dpwitness"), err
