"""Pipelines: batches that a worker gets before their outputs are needed."""

import numpy as np
import pytest

from dpwitness import Pair, Target
from dpwitness.auditors.workers.engine import MechanismFailed, Phase, Stage
from dpwitness.auditors.workers.statefulness import same_outputs
from dpwitness.mechanisms.wrappers.programs import pipeline
from dpwitness.mechanisms.wrappers.programs.inside import global_generators
from dpwitness.mechanisms.wrappers.programs.worker_process import _busy, _idle

TEXT = """
import os
import numpy as np

def noisy(dataset, size, rng):
    return dataset[0] + rng.laplace(size=size)

def dies(dataset, size, rng, marker, times):
    found = noisy(dataset, size, rng)
    done = os.path.getsize(marker)
    with open(marker, "a") as file:
        file.write(".")
    if 5 <= done < 5 + times:
        os._exit(3)
    return found
"""


@pytest.fixture
def stage(tmp_path):
    """Return a function that makes a stage of six chunks, of a target whose runs are known to be
    fast.
    """
    file, marker = tmp_path / "piped.py", tmp_path / "marker"
    file.write_text(TEXT)
    marker.touch()

    def make(name="noisy", **kwargs):
        kwargs |= {"marker": str(marker)} if kwargs else {}
        target = Target(str(file), name, kwargs=kwargs)
        target._state.took(1e-6, 100)
        return Stage(
            target.sample, Pair(np.zeros(1), np.ones(1)), 1, (5, 0, Phase.TEST), 600, 100, 60.0
        )

    return make


def drawn(stage, first=0, last=6):
    return [side for index in range(first, last) for side in stage.sample(index)]


def agree(one, other):
    return len(one) == len(other) and all(
        same_outputs(a, b) for a, b in zip(one, other, strict=True)
    )


def spied(monkeypatch):
    """Return a list that gets an entry for each answer from a pipeline: whether there was one."""
    answers, plain = [], pipeline.Pipeline.answer

    def answer(*arguments):
        found = plain(*arguments)
        answers.append(found is not None)
        return found

    monkeypatch.setattr(pipeline.Pipeline, "answer", answer)
    return answers


def test_a_pipeline_changes_no_output(stage, monkeypatch):
    """Every batch is answered by the pipeline, in the same process, and a block that ends early
    leaves an idle worker.
    """
    each, answers = stage(), spied(monkeypatch)
    plain = drawn(each)
    assert answers == []
    with each.ahead(0, 6):
        piped = drawn(each)
    assert agree(plain, piped) and answers == [True] * 12
    with each.ahead(0, 6):
        drawn(each, 0, 1)
    assert (
        agree(plain, drawn(each))
        and not _busy
        and len([w for w in _idle if w.slot == each.run.__self__._slot]) == 1
    )


def test_other_batches_are_run_as_without_a_pipeline(stage, monkeypatch):
    each, answers = stage(), spied(monkeypatch)
    plain = drawn(each)
    with each.ahead(2, 6):
        assert agree(plain, drawn(each))
    assert answers == [False] * 4 + [True] * 8


def test_slow_batches_get_no_pipeline(stage, monkeypatch):
    each, answers = stage(), spied(monkeypatch)
    each.run.__self__._state.took(100.0, 100)
    with each.ahead(0, 6):
        drawn(each)
    assert answers == []


def test_a_worker_that_dies_is_replaced_once(stage):
    """The batch is run again with the same seed, and the batches after it as well."""
    plain = drawn(stage())
    each = stage("dies", times=1)
    with each.ahead(0, 6):
        assert agree(plain, drawn(each))


def test_a_worker_that_dies_twice_is_named(stage):
    each = stage("dies", times=2)
    with (
        each.ahead(0, 6),
        pytest.raises(
            MechanismFailed, match=r"ended with exit code 3.*tried twice with the same seed"
        ),
    ):
        drawn(each)
    assert not _busy


def test_words_of_a_generator_leave_it_and_read_no_entropy():
    rng = np.random.Generator(np.random.SFC64(1))
    before, read = rng.bit_generator.state, global_generators.fingerprint()
    words = global_generators.words_of(rng)
    assert (
        words
        == np.random.Generator(np.random.SFC64(1)).integers(2**32, size=4, dtype=np.uint32).tolist()
    )
    assert str(rng.bit_generator.state) == str(before) and global_generators.fingerprint() == read
