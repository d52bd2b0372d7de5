"""Shims of other languages: the protocol, the random numbers, and the published conversation."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from broken_programs import ALONE, SHIMS, TOOLS, VECTORS

from dpwitness import Target, Verdict, audit, mechanisms
from dpwitness.benchmarks.protocol.conformance import check_protocol
from dpwitness.mechanisms.wrappers.programs.program import parse_hello

JAVA = (
    "public final class Words { public static void main(String[] a) { Dpwitness.Rng r = new "
    "Dpwitness.Rng(new long[] {1, 2, 3, 4}); "
)
WORDS = {  # print words of the generator in each language
    "cpp": '#include <cinttypes>\n#include "dpwitness.hpp"\nint main() { const std::uint32_t '
    "s[4] = {1, 2, 3, 4}; dpwitness::Rng r(s);"
    ' for (int i = 0; i < 5; ++i) std::printf("%016" PRIx64 "\\n", r.next()); }',
    "rust": "#[allow(dead_code)]\nmod dpwitness;\nfn main() { let mut r = "
    "dpwitness::Rng::new([1, 2, "
    "3, 4]);"
    ' for _ in 0..5 { println!("{:016x}", r.next()); } }',
    "java": JAVA
    + 'for (int i = 0; i < 5; i++) System.out.println(String.format("%016x", r.next())); } }',
    "javascript": 'const { Rng } = require("./dpwitness.js"); const r = new Rng([1, 2, 3, 4]);'
    ' for (let i = 0; i < 5; i++) console.log(r.next().toString(16).padStart(16, "0"));',
    "go": 'package main\nimport ("fmt"; "example/dpwitness")\nfunc main() { r := '
    "dpwitness.NewRng([4]uint32{1, 2, 3, 4});"
    ' for i := 0; i < 5; i++ { fmt.Printf("%016x\\n", r.Next()) } }',
}


def tool(name):
    return shutil.which(name) or shutil.which(name, path=str(Path.home() / ".cargo" / "bin"))


@pytest.fixture(scope="session", params=list(TOOLS))
def shim(request, tmp_path_factory):
    """The example of a language, compiled: its command, and that of one that prints words of its
    generator (None in R).
    """
    language, found = request.param, tool(TOOLS[request.param])
    if found is None:
        pytest.skip(f"{TOOLS[language]} is not installed")
    place = tmp_path_factory.mktemp(language) / language
    shutil.copytree(SHIMS / language, place)
    sources = {
        "cpp": "words.cpp",
        "rust": "words.rs",
        "java": "Words.java",
        "javascript": "words.js",
        "go": "words/words.go",
    }
    source = place / sources.get(language, "words")
    source.parent.mkdir(exist_ok=True)
    source.write_text(WORDS.get(language, ""))
    builds = {
        "cpp": [
            [found, "-O1", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"{name}.cpp", "-o", name]
            for name in ("example", "words")
        ],
        "rust": [
            [found, "-O", "-Dwarnings", f"{name}.rs", "-o", name] for name in ("example", "words")
        ],
        "java": [[found, "Dpwitness.java", "Example.java", "Words.java"]],
        "go": [
            [found, "build", "-o", "example.bin", "."],
            [found, "build", "-o", "words.bin", "./words"],
        ],
    }
    for command in builds.get(language, ()):
        built = subprocess.run(
            command, cwd=place, capture_output=True, text=True, timeout=300, check=False
        )
        assert built.returncode == 0, built.stderr
    run = {
        "java": ["java", "-XX:TieredStopAtLevel=1", "-cp", str(place)],
        "javascript": [found],
        "r": [found],
    }.get(language, [])
    suffix = {"go": ".bin", "javascript": ".js", "r": ".R"}.get(language, "")
    compiled = [str(place / f"{name}{suffix}") for name in ("example", "words")]
    example, words = ("Example", "Words") if language == "java" else compiled
    return [*run, example], [*run, words] if language != "r" else None


def as_bytes(parts):
    return b"".join(
        part.encode() if isinstance(part, str) else bytes.fromhex(part["hex"]) for part in parts
    )


@pytest.mark.slow
def test_a_shim_keeps_the_protocol_and_draws_the_same_numbers(shim):
    example, words = shim
    missed = [
        (found.step, found.status)
        for found in check_protocol(Target(command=example).slot_of_program)
        if found.status != "ok"
    ]
    assert missed in ([], [("a dataset in JSON", "skipped")])
    if words is None:
        return
    printed = subprocess.run(
        words, capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()
    assert printed == VECTORS["generator"][0]["words"]
    said = subprocess.run(
        example,
        input=as_bytes(VECTORS["conversation"]["asked"]),
        capture_output=True,
        timeout=60,
        check=True,
    ).stdout
    assert said.partition(b"\n")[2] == as_bytes(VECTORS["conversation"]["answered"])


@pytest.mark.slow
def test_a_right_and_a_wrong_mechanism(shim):
    """Both verdicts fail with probability below 1e-6 for any seed."""
    right, wrong = (
        audit(Target(command=[*shim[0], *more]), trials=20_000, seed=3, **ALONE)
        for more in ((), ("wrong",))
    )
    assert right.verdict is Verdict.NOT_REFUTED and right.bit_level.verdict is not Verdict.VIOLATED
    assert wrong.verdict is Verdict.VIOLATED and 1.5 < wrong.epsilon_lower < 2.0


def test_the_conversation_of_the_page_is_that_of_the_vectors():
    page = (Path(mechanisms.__path__[0]).parent / "docs" / "reference" / "protocol.md").read_text(
        encoding="utf-8"
    )
    hello, *told = re.search(r"```text\n(.*?)```", page, re.DOTALL)[1].splitlines()
    assert parse_hello(hello[2:].encode())["domain"]["kind"] == "Records"
    for side, mark in (("asked", ">"), ("answered", "<")):
        shown = [line[2:] for line in told if line[0] == mark]
        known = [
            part.rstrip() if isinstance(part, str) else part["hex"]
            for part in VECTORS["conversation"][side]
        ]
        assert len(shown) >= 3 and [line for line in known if line in shown] == shown


def test_the_vectors_are_those_of_numpy():
    for vector in VECTORS["generator"]:
        bits = np.random.SFC64()
        state, words = bits.state, vector["seed"]
        state["state"]["state"] = np.array(
            [words[0] | words[1] << 32, words[2] | words[3] << 32, 0, 1], dtype=np.uint64
        )
        bits.state = state
        bits.random_raw(18)
        count = len(vector["words"])
        drawn = bits.random_raw(count)
        assert [f"{word:016x}" for word in drawn.tolist()] == vector["words"]
        assert [(word >> 11) * 2.0**-53 for word in drawn.tolist()] == vector["uniform"]
