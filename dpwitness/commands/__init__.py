"""Commands of ``dpwitness``, one module each.

In each module, `arguments` adds the command to the parser, and `run` runs the command and returns
the exit code. Commands may import all other packages.
"""
