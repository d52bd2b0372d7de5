"""What a witness names is judged before it is imported: a module that may not run leaves no trace,
whoever wrote the file.
"""

import inspect
import math
import sys

import numpy as np
import pytest

from dpwitness import (
    InvalidArgument,
    Pair,
    Verdict,
    audit,
    audit_sensitivity,
    audit_utility,
    replay,
)
from dpwitness import mechanisms as m
from dpwitness.auditors import Scaling
from dpwitness.auditors.witnesses.seals import seal
from dpwitness.auditors.workers.descriptions import describe_target
from dpwitness.auditors.workers.trust import Trust
from dpwitness.benchmarks.damaged_witnesses import HOSTILE
from dpwitness.mechanisms import Laplace, Records
from dpwitness.mechanisms.textbook.zoo import zoo

PAIR = Pair(np.array([0.0]), np.array([1.0]))
MODULE = """
from pathlib import Path
import functools
import os
import shutil
import subprocess
import numpy as np

Path({mark!r}).write_text("ran")


def leaky(dataset, size, rng, scale=0.3):
    return np.round(1024 * (np.sum(dataset) + rng.laplace(0.0, scale, size))) / 1024


class Rows:
    pass


system, popen, bound, mean = os.system, subprocess.Popen, functools.partial(os.system, "true"), np.mean
"""


@pytest.fixture(scope="module")
def witness():
    result = audit(
        Laplace(1.0, arithmetic="grid", noise_multiplier=0.3),
        pair=PAIR,
        trials=20_000,
        seed=5,
        bits=False,
    )
    assert result.verdict is Verdict.VIOLATED
    return result.witness


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A current folder, with a folder beside it; each has a module that leaves a mark when it is
    imported.
    """
    here, beside = tmp_path / "here", tmp_path / "beside"
    for folder, name in ((here, "inside_target"), (beside, "outside_target")):
        folder.mkdir()
        (folder / f"{name}.py").write_text(MODULE.format(mark=str(folder / "mark")))
    (beside / "package").mkdir()
    (beside / "package" / "__init__.py").write_text(MODULE.format(mark=str(beside / "mark")))
    (beside / "package" / "inner.py").write_text(MODULE.format(mark=str(beside / "mark")))
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", [*sys.path, str(beside)])
    return tmp_path


def naming(witness, target, **kwargs):
    return seal(witness | {"target": {"target": target, "kwargs": kwargs}})


@pytest.mark.slow_cases("False-subprocess:Popen")
@pytest.mark.parametrize(
    "target", [t for t in HOSTILE if t != "dpwitness.mechanisms.foreign:Target"]
)
@pytest.mark.parametrize("allow", [False, True])
def test_hostile_targets_are_refused(witness, target, allow):
    if allow and target == "numpy:load":
        return  # not built in: the user's word is enough
    before = set(sys.modules)
    with pytest.raises(InvalidArgument, match=r"target|class") as refused:
        replay(naming(witness, target), allow=[target] if allow else [])
    assert "\n" not in str(refused.value)
    assert not {
        name
        for name in set(sys.modules) - before
        if not name.startswith(("dpwitness", "encodings"))
    }


@pytest.mark.slow_cases("package.inner:leaky", "outside_target:leaky")
@pytest.mark.parametrize(
    "target",
    [
        "outside_target:leaky",
        "package:leaky",
        "package.inner:leaky",
        "../beside/outside_target.py:leaky",
    ],
)
def test_nothing_outside_the_current_folder_is_imported(witness, place, target):
    with pytest.raises(
        InvalidArgument, match="outside the current folder; to run it, pass --allow"
    ):
        replay(naming(witness, target))
    assert not (place / "beside" / "mark").exists()
    assert replay(naming(witness, target), allow=[target], seed=8).verdict is Verdict.VIOLATED
    assert (place / "beside" / "mark").exists()


@pytest.mark.slow_cases("inside_target:leaky")
@pytest.mark.parametrize("target", ["inside_target:leaky", "inside_target.py:leaky"])
def test_a_target_under_the_current_folder_runs_and_is_named(witness, place, target):
    again = replay(naming(witness, target, scale=0.25), seed=8)
    assert again.verdict is Verdict.VIOLATED and again.name == "leaky"
    assert any(
        note.startswith(f"ran {target} (inside_target.py, line 12), arguments")
        and "Laplace" in note
        for note in again.notes
    )
    assert again.target == {"target": target, "kwargs": {"scale": 0.25}}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("os.system", "built in or in the standard library"),
        ("system", "built in or in the standard library"),
        ("popen", "built in or in the standard library"),
        ("bound", "built in or in the standard library"),
        ("shutil", "built in or in the standard library"),
        ("shutil.rmtree", "built in or in the standard library"),
        ("leaky.__globals__", "must name a function or a class"),
        ("mean", "defined in the module numpy, outside the current folder"),
        ("np.mean", "defined in the module numpy, outside the current folder"),
        ("gone", "which is not there"),
    ],
)
def test_what_passes_through_a_module_that_may_run(witness, place, name, message):
    with pytest.raises(InvalidArgument, match=message):
        replay(naming(witness, f"inside_target:{name}"))
    if "standard" in message:
        with pytest.raises(InvalidArgument, match=message):
            replay(naming(witness, f"inside_target:{name}"), allow=[f"inside_target:{name}"])


def test_a_link_out_of_the_folder_is_outside(witness, place):
    (place / "here" / "linked.py").symlink_to(place / "beside" / "outside_target.py")
    with pytest.raises(InvalidArgument, match="outside the current folder"):
        replay(naming(witness, "linked.py:leaky"))
    installed = place / "here" / "env" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "theirs.py").write_text(MODULE.format(mark=str(place / "beside" / "mark")))
    with pytest.raises(InvalidArgument, match="outside the current folder"):
        replay(naming(witness, "env/site-packages/theirs.py:leaky"))
    assert not (place / "beside" / "mark").exists()


def test_a_file_of_another_loaded_module_s_name_is_not_mistaken_for_it(witness, place):
    (place / "here" / "json.py").write_text(
        "def dumps(dataset, size, rng):\n    return rng.random(size)\n"
    )
    with pytest.raises(InvalidArgument, match="a module 'json' is already loaded"):
        replay(naming(witness, "json.py:dumps"))


def test_targets_with_an_interpreter_of_their_own(witness, place):
    def foreign(**kwargs):
        return naming(witness, "dpwitness.mechanisms.foreign:Target", **kwargs)

    for kwargs, message in (
        ({"file": "os", "name": "system"}, "in the standard library"),
        ({"file": "outside_target", "name": "leaky"}, "outside the current folder"),
        ({"file": "../beside/outside_target.py", "name": "leaky"}, "outside the current folder"),
        (
            {"file": "inside_target.py", "name": "leaky", "python": "/bin/sh"},
            'interpreter "/bin/sh", which is not an environment of `dpwitness targets`',
        ),
        (
            {"file": "inside_target.py", "name": "leaky", "python": "sh"},
            "which is not an environment of",
        ),
        ({"file": "inside_target.py", "name": "os.system"}, "is only imported there"),
        ({"file": "diffprivlib", "name": "np.load"}, "is only imported there"),
        ({"file": "inside_target.py"}, "target.kwargs.name is missing"),
        (
            {"file": "inside_target.py", "name": "leaky", "memory_limit": "x"},
            "target.kwargs.memory_limit must be a number",
        ),
    ):
        with pytest.raises(InvalidArgument, match=message):
            replay(foreign(**kwargs))
    assert not (place / "beside" / "mark").exists() and not (place / "here" / "mark").exists()
    again = replay(foreign(file="inside_target.py", name="leaky", python=sys.executable), seed=8)
    assert again.verdict is Verdict.VIOLATED and again.name == "inside_target:leaky"


def test_norms_transforms_and_dataset_classes_are_judged_too(witness, place):
    measured = audit_sensitivity(np.mean, 0.2, Records(4), evaluations=100).witness
    for target in ("os:system", "outside_target:leaky"):
        with pytest.raises(InvalidArgument, match="norm"):
            replay(seal(measured | {"norm": {"target": target}}), mechanism=np.mean)
    for found in (
        seal(measured | {"norm": {"target": "math:dist"}}),
        seal(measured | {"norm": "1"}),
    ):
        assert replay(found, mechanism=lambda d: np.array([d[0]]), seed=8).verdict in (
            Verdict.VIOLATED,
            Verdict.NOT_REFUTED,
        )
    dataset = {"$type": "object", "class": "outside_target:Rows", "fields": {}}
    with pytest.raises(
        InvalidArgument, match=r'class "outside_target:Rows" lies in .*outside the current folder'
    ):
        replay(seal(witness | {"pair": witness["pair"] | {"d0": dataset}}), mechanism=Laplace(1.0))
    assert not (place / "beside" / "mark").exists()
    with pytest.raises(InvalidArgument, match="must name a dataclass"):
        replay(
            seal(witness | {"pair": witness["pair"] | {"d0": dataset}}),
            mechanism=Laplace(1.0),
            allow=["outside_target:Rows"],
        )


def growing(value, size, rng):
    return np.log(value) * rng.uniform(0.9, 1.1, size)


def test_a_transform_of_the_math_module_needs_nobody_s_word():
    found = audit_utility(growing, Scaling(0.25, (4, 32, 256, 1024), "p", math.log)).witness
    assert found["transform"] == {"target": "math:log"}
    assert replay(found, mechanism=growing, seed=8).verdict is Verdict.VIOLATED
    for target in ("os:system", "math:factorial"):
        with pytest.raises(InvalidArgument, match="in the standard library"):
            replay(seal(found | {"transform": {"target": target}}), mechanism=growing)


def test_every_mechanism_of_this_project_may_run():
    trust = Trust()
    owned = [getattr(m, name) for name in m.__all__]
    runs = [
        cls
        for cls in owned
        if inspect.isclass(cls)
        and callable(getattr(cls, "sample", None))
        and not inspect.isabstract(cls)
    ]
    assert len(runs) > 20
    for cls in runs:
        if getattr(cls, "_is_protocol", False):
            continue
        plan = trust.plan({"target": f"{cls.__module__}:{cls.__qualname__}"})
        trust.check_object(cls, plan)
    for specimen in zoo().values():
        described = describe_target(specimen)
        trust.check_object(type(specimen), trust.plan(described))
    for target in (
        "dpwitness.mechanisms:LabelledVectors",
        "dpwitness.mechanisms.wrappers.programs.worker_process:Slot",
        "dpwitness.auditors.audit.audit:audit",
    ):
        with pytest.raises(InvalidArgument, match="is not a mechanism of this project"):
            trust.plan({"target": f"dpwitness.{target}"}).load()


def test_sizes_that_only_hang_are_refused(witness):
    kwargs = {"epsilon": 1.0, "length": 10**9, "threshold": 0.0}
    with pytest.raises(
        InvalidArgument,
        match=r"target\.kwargs\.length must be at most 200,000 in a witness, got 1000000000; for "
        r"larger sizes, pass the mechanism",
    ):
        replay(naming(witness, "dpwitness.mechanisms:BrokenSparseVector", **kwargs))
