"""Commands of ``dpwitness``, one file each: `arguments` declares options, `run` returns the exit code. May import everything else."""
