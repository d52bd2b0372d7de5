"""What a function returns in its worker is encoded as if it had been called here; nothing but data
crosses the pipe.
"""

import ast
import importlib.util
import io
import sys
from pathlib import Path

import numpy as np
import pytest

from dpwitness import Target
from dpwitness.auditors.events.outputs import WrongShape, encode
from dpwitness.auditors.workers.fitness import same_outputs
from dpwitness.mechanisms.wrappers.programs.inside import codec

KINDS = [
    *(
        "float",
        "int",
        "bool",
        "big",
        "int64",
        "uint64",
        "float32",
        "swapped",
        "complex",
        "text",
        "text array",
        "scalars",
        "arrays",
    ),
    *(
        "ragged",
        "mixed",
        "nested",
        "exceptions",
        "own types",
        "objects",
        "none",
        "empty",
        "decimals",
        "times",
        "masked",
        "records",
    ),
]


def here(file):
    spec = importlib.util.spec_from_file_location("peculiar", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_encoded_as_in_process(file, foreign, kind):
    target = Target(file, "kinds", foreign, {"kind": kind})
    for size in (1, 40):
        far = encode(target.sample(None, size, np.random.default_rng(3)), size)
        near = encode(here(file).kinds(None, size, np.random.default_rng(3), kind), size)
        assert far.names == near.names
        assert same_outputs(far, near)
        assert np.array_equal(np.signbit(far.values), np.signbit(near.values))


@pytest.mark.parametrize("kind", ["too few", "number"])
def test_wrong_shapes_are_told(file, kind):
    with pytest.raises(WrongShape, match=r"mechanism (returned 9 outputs|must return an array)"):
        encode(
            Target(file, "kinds", kwargs={"kind": kind}).sample(None, 10, np.random.default_rng(0)),
            10,
        )


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(2, 3),
        np.array(5, dtype=np.uint8),
        np.empty((0, 3), dtype=np.float32),
        [1, 2**80, -(2**63), "é\ud800", None, True],
        {"a": (1.5, [np.int8(3)]), 2: b"\x00\xff"},
        [float("inf"), -0.0, 5e-324],
    ],
)
def test_datasets_arrive_as_they_are(value):
    blobs: list[bytes] = []
    packed = codec.pack(value, blobs)
    sent = io.BytesIO(b"".join(codec.message({"op": "x", "data": packed}, blobs)))
    header, received = codec.receive(sent.readline, sent.read)
    back = codec.unpack(header["data"], received)
    assert repr(back) == repr(value) and type(back) is type(value)
    assert getattr(back, "dtype", None) == getattr(value, "dtype", None)


def test_large_datasets_travel_once_to_each_worker(tmp_path):
    path = tmp_path / "sums.py"
    path.write_text(
        "import numpy as np\n\ndef sums(dataset, size, rng):\n    return np.full(size, "
        "dataset.sum())\n"
    )
    target = Target(str(path), "sums")
    data = [np.full(10_000, float(i)) for i in range(20)]  # more than a worker keeps
    for _ in range(2):
        for i, dataset in enumerate(data):
            assert target.sample(dataset, 1, np.random.default_rng(0))[0] == 10_000.0 * i
    from dpwitness.mechanisms.wrappers.programs.worker_pool import packed_as
    from dpwitness.mechanisms.wrappers.programs.worker_process import borrowed_worker

    with borrowed_worker(target._slot, 10.0) as worker:
        part, sent = worker.dataset(packed_as(data[-1]))
        assert set(part) == {"key"} and sent == []


INSIDE = Path(codec.__file__).parent
ALONE = [
    *INSIDE.glob("*.py"),
    INSIDE.parent / "supervisor.py",
    INSIDE.parents[1] / "recording" / "global_generators.py",
    *(
        INSIDE.parents[3] / "core" / "values" / f"{name}.py"
        for name in ("dataframe_backends", "library_parts", "object_tree", "validation")
    ),
]


LATER = {"functools.cache", "itertools.pairwise", "math.lcm", "math.nextafter", "ast.unparse"}
OWN = {
    ".".join(["dpwitness", *file.relative_to(INSIDE.parents[3]).with_suffix("").parts])
    for file in [*ALONE, INSIDE.parents[1] / "recording"]
}


@pytest.mark.parametrize("file", ALONE, ids=lambda file: file.stem)
def test_the_worker_stands_alone(file):
    """It is read by Python 3.8, imports the standard library, NumPy and its own modules alone, and
    knows no pickle.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))
    for_types = [
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If)
        for node in outer.body
        if "TYPE" in ast.dump(outer.test)
    ]
    names = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    imports = [
        n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and id(n) not in for_types
    ]
    for each in imports:
        if each.module.startswith("dpwitness."):
            found = {each.module, *(f"{each.module}.{alias.name}" for alias in each.names)}
            assert found & OWN
    names |= {each.module.partition(".")[0] for each in imports} - {"dpwitness"}
    plain = "__init__ launch supervisor"
    assert ("numpy" in names) == (file.stem not in plain.split())
    assert not names & {"dpwitness", "pickle", "marshal", "shelve"}
    assert names - {"numpy"} <= set(sys.stdlib_module_names) | {"__future__"}
    later = [  # what Python 3.8 can read, but not run
        ast.unparse(node)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and ast.unparse(node) in LATER)
        or (isinstance(node, ast.Attribute) and node.attr in ("removeprefix", "removesuffix"))
        or (isinstance(node, ast.keyword) and node.arg == "strict")
        or (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("isinstance", "issubclass")
            and isinstance(node.args[1], ast.BinOp)
        )
    ]
    assert later == []
