"""The commands, a file each: `arguments` declares its options, `run` does it and returns the exit code. May import everything else."""
