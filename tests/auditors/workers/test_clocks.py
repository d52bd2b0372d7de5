"""CPU time of this process and all of its descendants."""

import os
import subprocess
import sys
import time

import pytest

from dpwitness.auditors.workers.engine import cpu_seconds, has_cpu_clock

TICK = 2 / os.sysconf("SC_CLK_TCK")
BURN = "import time\nwhile time.process_time() < 0.1: pass\n"
WAIT = "print(flush=True)\ninput()"
NEST = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', sys.argv[1]])"


@pytest.mark.skipif(not has_cpu_clock(), reason="needs /proc")
def test_a_grandchild_counts_while_it_runs_and_after_its_end():
    before = cpu_seconds()
    command = [sys.executable, "-S", "-E", "-c", NEST, BURN + WAIT]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        running = cpu_seconds() - before
        process.communicate("\n")
    assert running >= 0.1 - TICK
    assert cpu_seconds() - before >= running - TICK


def test_this_process_counts_and_waiting_does_not():
    before, own = cpu_seconds(), time.process_time()
    time.sleep(0.05)
    assert cpu_seconds() - before <= time.process_time() - own + TICK
