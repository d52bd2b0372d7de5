"""Tests of lazy imports: the package and the command line load heavy modules only when an audit
runs.
"""

import sys

import pytest

import dpwitness
from dpwitness import cli

HEAVY = "{'numpy', 'scipy', 'numba', 'matplotlib', 'statsmodels', 'pandas', 'hypothesis', 'pytest'}"


@pytest.mark.parametrize(
    "statement",
    [
        "import dpwitness",
        "import dpwitness.cli",
        "import dpwitness.pytest_plugin; sys.modules.pop('pytest')",
        "from dpwitness.cli import main; main(['--version'])",
    ],
)
def test_light(shell, statement):
    ran = shell.run(
        sys.executable, "-c", f"import sys; {statement}; print(sorted({HEAVY} & set(sys.modules)))"
    )
    assert ran.stdout.splitlines()[-1] == "[]", ran.stderr


def test_help_names_every_command_and_loads_nothing(shell):
    ran = shell.dpwitness("--help")
    assert ran.returncode == 0
    assert all(
        f"\n  {command} " in ran.stdout + shell.dpwitness("more").stdout for command in cli.COMMANDS
    )
    code = (
        "import sys\nfrom dpwitness.cli import main\ntry:\n    main(['--help'])\nexcept "
        f"SystemExit:\n    print({HEAVY} & set(sys.modules))"
    )
    assert shell.run(sys.executable, "-c", code).stdout.splitlines()[-1] == "set()"


def test_public_names():
    expected = {
        "audit",
        "replay",
        "check_mechanism",
        "parametrize_with_checks",
        "Pair",
        "Verdict",
        "PureDP",
        "parse_claim",
        "certify",
    }
    assert (
        expected <= set(dpwitness.__all__) <= set(dir(dpwitness)) and len(dpwitness.__all__) <= 27
    )
    assert all(getattr(dpwitness, name) is not None for name in dpwitness.__all__)


def test_an_audit_does_not_load_what_few_audits_need(shell):
    """`scipy.stats` alone takes half a second."""
    ran = shell.run(
        sys.executable,
        "-c",
        "import sys, dpwitness.auditors.audit.audit; print({'scipy.stats', 'lightgbm'} & "
        "set(sys.modules))",
    )
    assert ran.stdout == "set()\n", ran.stderr
