"""Commands of the contract suite, run in this process."""

import contextlib
import io

from dpwitness.cli import main


def run(*arguments):
    """Run a command; return exit code, standard output and standard error."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:  # of the parser of arguments
            code = end.code
    return code, out.getvalue(), err.getvalue()
