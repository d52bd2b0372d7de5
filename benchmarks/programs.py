"""Benchmark of external programs: two driven programs against two plain main() loops that write to
memory, and a large dataset.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from dpwitness.benchmarks.table import Row, Table
from dpwitness.mechanisms.wrappers.programs.program import Program
from dpwitness.mechanisms.wrappers.programs.program_messages import sent_as
from dpwitness.mechanisms.wrappers.programs.target import Target

PROCESSES = 2
BATCH = 2**20  # runs per batch
_CPP = """
#include <chrono>
#include <cstring>
#include "dpwitness.hpp"

static void batch(const dpwitness::Dataset& data, std::size_t size, dpwitness::Rng& rng, double* out) {
    for (std::size_t i = 0; i < size; ++i) out[i] = data.values[0] + rng.laplace(1.0) + rng.laplace(2.0) + rng.uniform();  // 20 ns
}

int main(int argc, char** argv) {
    dpwitness::Program program;
    if (argc < 3) return program.serve(batch);
    const std::size_t size = std::stoul(argv[1]), batches = std::stoul(argv[2]);
    std::vector<double> out(size);
    dpwitness::Dataset data{{0.0}, {1}, ""};
    double seconds = 0;
    for (std::size_t i = 0; i <= batches; ++i) {  // the first one is not counted
        const std::uint32_t seed[4] = {std::uint32_t(i), 2, 3, 4};
        dpwitness::Rng rng(seed);
        const auto start = std::chrono::steady_clock::now();
        batch(data, size, rng, out.data());
        if (i) seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    std::printf("%.9f\\n", seconds);
}
"""
_NODE = """
const { serve, Rng } = require("./dpwitness.js");

function batch(dataset, size, rng, out) {
  for (let i = 0; i < size; i++) out[i] = dataset[0] + rng.laplace(1) + rng.laplace(2) + rng.uniform();
}

if (process.argv.length < 4) serve({ name: "bench", batch: true }, batch);
else {
  const [size, batches] = process.argv.slice(2).map(Number);
  const out = new Float64Array(size);
  const dataset = Float64Array.of(0);
  let seconds = 0;
  for (let i = 0; i <= batches; i++) {
    const start = process.hrtime.bigint();
    batch(dataset, size, new Rng([i, 2, 3, 4]), out);
    if (i) seconds += Number(process.hrtime.bigint() - start) / 1e9;
  }
  console.log(seconds);
}
"""


def driven(command: Sequence[str], batches: int) -> tuple[float, float, float]:
    """Return nanoseconds per run: elapsed time of two plain loops, elapsed time of two driven
    programs, and CPU time of this process.
    """
    sizes = [str(BATCH), str(batches)]
    loops = [
        subprocess.Popen([*command, *sizes], stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    plain = max(float(loop.communicate()[0]) for loop in loops)

    target, data = Target(command=list(command)), np.array([0.0])

    def drive(worker: int, count: int) -> None:
        rng = np.random.default_rng(worker)
        for _ in range(count):
            target.sample(data, BATCH, rng)

    with ThreadPoolExecutor(PROCESSES) as executor:
        # starts and warms up the workers
        list(executor.map(drive, range(PROCESSES), [1] * PROCESSES))
        started, before = time.perf_counter(), time.process_time()
        list(executor.map(drive, range(PROCESSES), [batches] * PROCESSES))
        clock, own_cpu = time.perf_counter() - started, time.process_time() - before
    target.close()
    runs = BATCH * batches / 1e9
    return plain / runs, clock / runs, own_cpu / runs / PROCESSES


def dataset_bytes(command: Sequence[str]) -> float:
    """Return the bytes sent for ten batches on a dataset of 100,000 rows, relative to the size of
    the dataset.
    """
    target, data = Target(command=list(command)), np.zeros(100_000)
    worker: Program = target.slot_of_program.start(60.0)
    sent, send = 0, worker.send

    def counted(parts: Sequence[bytes], deadline: float) -> None:
        nonlocal sent
        sent += sum(map(len, parts))
        send(parts, deadline)

    worker.send = counted  # type: ignore[assignment, method-assign]
    for _ in range(10):
        worker.run(sent_as(data), [10], [(1, 2, 3, 4)], 60.0)
    worker.close()
    return sent / data.nbytes


def measure() -> Table:
    """Run the benchmark of external programs for the installed languages and return its table of
    medians of five.
    """
    rows, notes = [], []
    with (
        as_file(files("dpwitness.mechanisms.wrappers.programs") / "shims") as shims,
        tempfile.TemporaryDirectory() as build_folder,
    ):
        for language, tool, required, batches in (
            ("C++", "g++", 0.8, 40),
            ("Node", "node", 0.9, 20),
        ):
            tool_path = shutil.which(tool)
            if tool_path is None:
                notes.append(f"{tool} is not installed, which the benchmark needs for {language}")
                continue
            command = _build_program(tool, tool_path, shims, Path(build_folder))
            runs = np.array([driven(command, batches) for _ in range(5)])
            plain, clock, own_cpu = np.median(runs, axis=0)
            ratio = float(np.median(runs[:, 0] / runs[:, 1]))
            rows.append(
                Row(
                    f"{language} target on 2 workers / by itself, by the clock",
                    required,
                    ratio,
                    "ratio",
                )
            )
            rows.append(
                Row(
                    f"{language} target: processor time of its controller / its own",
                    1 - required,
                    own_cpu / plain,
                    "ratio",
                    at_most=True,
                )
            )
            rows.append(
                Row(
                    f"{language}: a dataset of 10^5 rows in ten batches",
                    1.1,
                    dataset_bytes(command),
                    "transfers",
                    at_most=True,
                )
            )
            notes.append(
                f"a run of the {language} target takes {plain:.1f} ns by itself, {clock:.1f} "
                f"ns driven, {own_cpu:.2f} ns of the controller"
            )
    return Table("programs", tuple(rows), tuple(notes))


def _build_program(tool: str, tool_path: str, shims: Path, build_folder: Path) -> list[str]:
    """Build the program of a language and return its command."""
    if tool == "g++":
        (build_folder / "bench.cpp").write_text(_CPP, encoding="utf-8")
        subprocess.run(
            [tool_path, "-O2", "-std=c++17", f"-I{shims / 'cpp'}", "bench.cpp", "-o", "bench"],
            cwd=build_folder,
            check=True,
        )
        return [str(build_folder / "bench")]
    shutil.copy(shims / "javascript" / "dpwitness.js", build_folder)
    (build_folder / "bench.js").write_text(_NODE, encoding="utf-8")
    return [tool_path, str(build_folder / "bench.js")]
