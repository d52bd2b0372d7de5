"""Frames and graphs reach a target in its worker as they are, once each, and witnesses
hold them.
"""

import json

import numpy as np
import pytest

import dpwitness as dpw
from dpwitness.auditors.witnesses.parquet_files import ENTRIES, has_frame_files
from dpwitness.auditors.witnesses.witness_reader import load_json
from dpwitness.core.values.json_codec import from_jsonable
from dpwitness.reports.document import read_document
from dpwitness.reports.report import write_document, write_report

pd, pl, nx = (pytest.importorskip(name) for name in ("pandas", "polars", "networkx"))

TARGETS = """
import numpy as np

def rows(frame, size, rng):
    return np.array([[float(type(frame).__name__ == "DataFrame"), len(frame)]] * size)

def total(frame, size, rng):
    return frame["x"].clip(0, 1).sum() + rng.laplace(0, 1, size)

def changes(frame, size, rng):
    frame.iloc[0, 0] = 7
    return rng.laplace(0, 1, size)

def edges(graph, size, rng):
    graph.add_edge("a", "b")
    return np.full(size, graph.number_of_edges())

def parts(both, size, rng):
    return np.full(size, len(both[0]) + both[1]["more"].height)

def spelled(frame, size, rng):
    return np.zeros(size)

for target in (rows, total, changes, edges, parts, spelled):
    target.claim = "pure:1"
total.domain = {"kind": "Table", "columns": {"x": (0.0, 9.0)}, "user": "user"}
spelled.domain = {"kind": "Table", "columns": {"x": (0.0, 9.0)}, "users": "user"}
rows.trails = 3
"""


@pytest.fixture
def target(tmp_path):
    (tmp_path / "frames.py").write_text(TARGETS)
    return lambda name: dpw.Target(str(tmp_path / "frames.py"), name)


def big(rows=100_000):
    rng = np.random.default_rng(0)
    texts = rng.choice(["a", "bb", "ccc"], rows)
    frame = pd.DataFrame(
        {
            "user": rng.integers(0, 5000, rows),
            "x": rng.random(rows),
            "text": texts,
            "kind": pd.Categorical(texts),
        }
    )
    frame.loc[3, "text"] = None
    return frame


def test_what_a_target_does_to_its_dataset(target):
    frame, graph = pd.DataFrame({"x": [1.0] * 600}), nx.path_graph(4)
    assert (
        target("parts").sample(
            (frame, {"more": pl.DataFrame({"y": [1]})}), 1, np.random.default_rng(0)
        )[0]
        == 601
    )
    for name, dataset in (("changes", frame), ("edges", graph)):
        with pytest.raises(Exception, match="mechanism changes its dataset in place"):
            target(name).sample(dataset, 1, np.random.default_rng(0))


def violated(d0, d1, relation):
    def count(dataset, size, rng):
        return 9.0 * len(dataset) + rng.laplace(0.0, 1.0, size)

    return dpw.audit(
        count,
        claim="pure:1",
        pair=dpw.Pair(d0, d1, relation),
        trials=2000,
        seed=1,
        target={"target": "mine:count"},
    ), count


@pytest.fixture
def witnessed(tmp_path):
    """Return the witness of a report on large frames, its frame and its mechanism."""
    pytest.importorskip("pyarrow")
    frame = big(ENTRIES)
    result, count = violated(frame, frame.iloc[1:], "add-remove")
    write_report([result], tmp_path, title="T", plots=False)
    return tmp_path / "witness-count.json", frame, count


@pytest.mark.slow
def test_large_frames_lie_beside_their_witness(witnessed, tmp_path):
    path, frame, count = witnessed
    files = sorted(tmp_path.glob("frame-*.parquet"))
    assert (
        len(files) == 2
        and has_frame_files(json.loads(path.read_text()))
        and path.stat().st_size < 10_000
    )
    raw, _ = load_json(path)
    pd.testing.assert_frame_equal(from_jsonable(raw["pair"]["d0"]), frame)
    assert dpw.replay(path, mechanism=count, trials=1000, seed=8).verdict is dpw.Verdict.VIOLATED
    document = read_document(tmp_path / "audit.json")
    other = tmp_path / "other"
    other.mkdir()
    # a report that is made anew holds all that it names
    write_document(document, other, plots=False)
    assert (
        dpw.replay(other / "witness-count.json", mechanism=count, trials=1000, seed=8).verdict
        is dpw.Verdict.VIOLATED
    )
    content = files[0].read_bytes()
    files[0].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(dpw.InvalidArgument, match=r"frame-\w+.parquet was edited or damaged"):
        dpw.replay(path, mechanism=count)
    files[0].unlink()
    with pytest.raises(dpw.InvalidArgument, match="the Parquet file of a frame, must be readable"):
        dpw.replay(path, mechanism=count)
