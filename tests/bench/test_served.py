"""Entries of the corpus as programs of the protocol."""

import io
import json

import numpy as np

from dpwitness.benchmarks.recall.corpus import corpus
from dpwitness.benchmarks.recall.served import hello, main, serve
from dpwitness.core.claims import parse_claim
from dpwitness.domains import Records


class Doubled:
    """A target that returns twice its dataset, and raises on an empty one."""

    claim, domain = parse_claim("pure:1"), Records(2, low=0, high=1)

    def sample(self, dataset, size, rng):
        if not dataset:
            raise ValueError("empty")
        return np.tile(2 * np.asarray(dataset), (size, 1))


def answers(*requests):
    sink = io.BytesIO()
    lines = "".join(f"{json.dumps(request)}\n" for request in requests)
    target = Doubled()
    serve(target, hello(corpus()[0], target), io.BytesIO(lines.encode()), sink)
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def dataset(number, value):
    return {"op": "dataset", "dataset": number, "encoding": "json", "value": value}


def run(number, size=2):
    return {"op": "run", "dataset": number, "size": size, "seed": [1, 2, 3, 4]}


def test_the_first_line_has_claim_and_domain_and_each_run_an_answer():
    first, *found = answers(
        dataset(0, [0.5, 1.0]), dataset(1, []), run(0), run(1), run(2), run(0, 0)
    )
    assert first["claim"] == "pure:1" and first["domain"]["kind"] == "Records"
    assert found[:3] == [{"kind": "json", "rows": 2}, [1.0, 2.0], [1.0, 2.0]]
    assert found[3] == {"raised": "ValueError", "text": "empty"}
    assert all("failed" in answer for answer in found[4:]) and len(found) == 6


def test_all_entries_are_listed_with_releases_and_sources(capsys):
    assert main(["--list"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert len(listed) == len(corpus())
    assert all(entry["source"] and entry["before"]["name"] for entry in listed)
