"""Options of commands: names with their keywords for `argparse`, each declared once, and parsers of
their values, which check bounds and explain them in one line.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from dpwitness.core.values.validation import InvalidArgument, number_from_text
from dpwitness.executors.specs import FORMS, parse
from dpwitness.terminal import COLOR_CHOICES

Options = Mapping[str, dict[str, Any]]
# of `dpwitness list`; the last one needs a clone
SECTIONS = ("zoo", "mechanisms", "domains", "relations", "suites", "bench")
COMPARISON_FORMATS = ("md", "html")


def integer(name: str, least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser of integers in [least, most] that also accepts scientific notation such as
    1e6.

    Examples
    --------
    >>> integer("trials", 1000, 10**12)("2e5")
    200000
    """

    def parse(text: str) -> int:
        try:
            number_from_text(text)
            value = Decimal(text)
            fits = (
                value.is_finite() and value.adjusted() <= 18 and value == value.to_integral_value()
            )
        except (InvalidOperation, ValueError):
            fits = False
        if not fits:
            raise argparse.ArgumentTypeError(
                f"{name} must be a whole number such as 200000 or 2e5, got {text!r}"
            )
        high = 10**18 if most is None else most
        if not least <= value <= high:
            bounds = f"at least {least}" if most is None else f"between {least} and {most}"
            raise argparse.ArgumentTypeError(f"{name} must be a whole number, {bounds}, got {text}")
        return int(value)

    return parse


def real(name: str, low: float, high: float, *, ends: str = "(]") -> Callable[[str], float]:
    """Return a parser of floats in an interval; `ends` gives the brackets, "[" or "]" for an
    included endpoint.

    Examples
    --------
    >>> real("memory", 0.0, 1e6, ends="[]")("0")
    0.0
    """

    def parse(text: str) -> float:
        try:
            value = number_from_text(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{name} must be a number, got {text!r}") from None
        above = value >= low if ends[0] == "[" else value > low
        below = value <= high if ends[1] == "]" else value < high
        if not (above and below):
            raise argparse.ArgumentTypeError(
                f"{name} must lie in {ends[0]}{low:g}, {high:g}{ends[1]}, got {value!r}"
            )
        return value

    return parse


_NODES = (ast.Expression, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.Not, ast.Constant)


def matches(expression: str, name: str) -> bool:
    """Return whether `name` satisfies a boolean expression of substrings, as in pytest's ``-k``.
    Raise InvalidArgument for another expression.

    Examples
    --------
    >>> [matches("laplace and not (grid or vector)", f"laplace-{name}") for name in ("0.9", "grid")]
    [True, False]
    """
    words = re.findall(r"[()]|[^\s()]+", expression)
    operators = ("and", "or", "not", "(", ")")
    code = " ".join(
        word if word in operators else str(word.lower() in name.lower()) for word in words
    )
    try:
        tree = ast.parse(code or "True", mode="eval")
        if all(isinstance(node, _NODES) for node in ast.walk(tree)):
            return bool(eval(compile(tree, "-k", "eval")))
    except (SyntaxError, RecursionError, MemoryError):
        pass
    raise InvalidArgument(f"-k must be words with and, or, not and parentheses, got {expression!r}")


def find(text: str) -> float | str:
    """Parse ``--find`` of `plan`: a number, or a percentage, which stays text until the claim is
    known.
    """
    number = real("find", 0.0, 1e6)
    return f"{number(text[:-1])}%" if text.endswith("%") else number(text)


TRIALS = integer("trials", 1000, 10**12)
SECONDS = real("seconds", 0.0, 1e6)
_SEED = integer("seed", 0)
_WORKERS = integer("workers", 1, 1024)


# Groups of options in the help of a command that has more than ten, the most used first. All other
# options of a command are in the first group.
_FIRST_GROUP = "target and claim"
_HELP_GROUPS = {
    "budget": (
        *("--trials", "--seconds", "--clock", "--confidence", "--seed", "--workers", "--executor"),
        *("--store", "--extend", "--sequential", "--find", "--stop", "--time-limit"),
    ),
    "output": (
        *("--report", "-q --quiet", "-v --verbose", "--json", "--baseline", "--summary"),
        *("--color", "-h --help"),
    ),
    "programs and databases": (
        *("--python", "--command", "--cwd", "--text", "--text-runs"),
        *("--dsn", "--query", "--table", "--setup"),
    ),
    "rarely needed": (
        *("--search", "--search-seconds", "--white-box", "--bits", "--scores", "--distance"),
        *("--visible-errors", "--no-trace", "--no-causes", "--in-process", "--memory", "--as"),
    ),
}


class Rules(NamedTuple):
    """An option of a parser: the option without which it has no meaning, and those that it
    excludes.
    """

    action: argparse.Action
    needs: str
    excludes: Sequence[str]


def add_options(parser: argparse.ArgumentParser, options: Options) -> None:
    """Add options to a parser; options with the same word under ``group`` exclude each other. An
    option may name another that it ``needs``, and others that it ``excludes``.

    The help of a parser with more than ten options shows them in groups, and a short usage.
    """
    groups: dict[str, Any] = {}
    rules = {}
    sections = _help_groups(parser, options)
    for name, section in sections.items():
        keywords = dict(options[name])
        needs, excludes = keywords.pop("needs", ""), keywords.pop("excludes", ())
        group = keywords.pop("group", "")
        if group and group not in groups:
            groups[group] = section.add_mutually_exclusive_group()
        action = groups.get(group, section).add_argument(*name.split(), **keywords)
        rules[action.dest] = Rules(action, needs, excludes)
    parser.set_defaults(rules=rules)
    if parser not in sections.values():
        parser.usage = _short_usage(parser)


def _help_groups(parser: argparse.ArgumentParser, options: Options) -> dict[str, Any]:
    """Return the group of the help to which each option is added, in the order of the help."""
    titles = {name: title for title, names in _HELP_GROUPS.items() for name in names}
    places = {name: place for place, name in enumerate(titles)}
    ordered = sorted(options, key=lambda name: places.get(name, -1))
    if sum(name.startswith("-") for name in options) <= 10:
        return dict.fromkeys(ordered, parser)
    groups = {title: parser.add_argument_group(title) for title in (_FIRST_GROUP, *_HELP_GROUPS)}
    return {name: groups[titles.get(name, _FIRST_GROUP)] for name in ordered}


def _short_usage(parser: argparse.ArgumentParser) -> str:
    """Return a usage that names the arguments and the required options only."""
    needed = (
        " ".join([*action.option_strings, str(action.metavar or action.dest.upper())])
        for action in parser._actions
        if action.required or not action.option_strings
    )
    return " ".join([parser.prog, "[options]", *needed])


def check_together(args: argparse.Namespace) -> None:
    """Note in `args.given` which options differ from their defaults. Raise InvalidArgument unless
    these may be used together.
    """
    rules: dict[str, Rules] = args.rules
    shown = {
        dest: "/".join(rule.action.option_strings) or "a target" for dest, rule in rules.items()
    }
    args.given = {
        dest
        for dest, rule in rules.items()
        if getattr(args, dest, rule.action.default) != rule.action.default
    }
    for dest, rule in rules.items():
        if dest not in args.given:
            continue
        if rule.needs and not getattr(args, rule.needs):
            raise InvalidArgument(
                f"{shown[dest]} needs {shown[rule.needs]}: add it, or leave out {shown[dest]}"
            )
        for other in sorted(args.given.intersection(rule.excludes)):
            raise InvalidArgument(
                f"{shown[dest]} cannot be combined with {shown[other]}: leave out one of them"
            )


def confidence(of: str, default: float | None = 0.99, text: str = "") -> Options:
    """Return ``--confidence`` of a quantity."""
    return {
        "--confidence": {
            "type": real("confidence", 0.0, 1.0, ends="()"),
            "default": default,
            "metavar": "C",
            "help": f"confidence of {of}; default{'' if text else ' '}{text or default}",
        }
    }


def time_limit(of: str = "one chunk of runs", default: float = 300.0) -> Options:
    """Return ``--time-limit``."""
    return {
        "--time-limit": {
            "type": SECONDS,
            "default": default,
            "metavar": "SECONDS",
            "help": f"time limit of {of}; default {default:g}",
        }
    }


def seed(text: str = "root of all randomness", default: int | None = None) -> Options:
    """Return ``--seed``."""
    return {"--seed": {"type": _SEED, "default": default, "metavar": "S", "help": text}}


def workers(
    text: str = "number of workers: threads for mechanisms of dpwitness, processes for others",
) -> Options:
    """Return ``--workers`` and ``--executor``."""
    return {
        "--workers": {
            "group": "workers",
            "type": _WORKERS,
            "default": 1,
            "metavar": "K",
            "help": text,
        },
        "--executor": {
            "group": "workers",
            "type": _spec,
            "metavar": "SPEC",
            "help": f"instead of --workers: {FORMS}; the counts do not depend on the choice",
        },
    }


def _spec(text: str) -> str:
    """Return the text of an executor's spec if it is valid."""
    try:
        parse(text)
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def duration(of: str) -> Options:
    """Return ``--seconds``, the time budget of a run, and ``--clock``."""
    return {
        "--seconds": {
            "group": "budget",
            "type": SECONDS,
            "metavar": "S",
            "help": f"approximate duration of {of}, instead of --trials: some runs are timed "
            "first, to fix and announce their number",
        },
        **CLOCK,
    }


JSON: Options = {"--json": {"action": "store_true", "help": "print as JSON"}}
# Options of all commands. `--color` has no default: the default of a subcommand would overwrite the
# value given to its parent command.
COMMON: Options = {
    "--color": {
        "choices": COLOR_CHOICES,
        "default": argparse.SUPPRESS,
        "help": "color verdicts; default auto: on a terminal, unless NO_COLOR is set",
    },
    "-h --help": {"action": "help", "help": "show this help and exit"},
}
CLOCK: Options = {
    "--clock": {
        "choices": ["wall", "cpu"],
        "default": "wall",
        "needs": "seconds",
        "help": "what --seconds counts: wall time (default), or CPU time of this process and its "
        "workers, the same on a busy machine; other time limits, and searches of declared "
        "targets, count wall time",
    }
}
REPORTING: Options = {
    "--report": {
        "metavar": "DIR",
        "help": "write audit.md, audit.sarif, audit.json, plots, and witness-*.json for each "
        "violation",
    },
    "--summary": {
        "metavar": "FILE",
        "help": "append a short summary in Markdown to FILE; default: the file that "
        "GITHUB_STEP_SUMMARY names, if set",
    },
    "--json": {"action": "store_true", "help": "print results as JSON"},
}
# options of every command that runs mechanisms
RUNNING: Options = {
    "--trials": {
        "group": "budget",
        "type": TRIALS,
        "metavar": "N",
        "help": "total number of runs of the mechanism, both datasets together, such as 1e6",
    },
    **seed("root of all randomness: the same seed gives the same counts"),
    **workers(),
    **REPORTING,
}
# options of every command that ends with `report_results`
DETAIL: Options = {
    "-q --quiet": {
        "group": "detail",
        "action": "store_true",
        "help": "print only the verdict, in one line, and no progress",
    },
    "-v --verbose": {
        "group": "detail",
        "action": "store_true",
        "help": "print all lines of a result, instead of six",
    },
}
IN_PROCESS: Options = {
    "--in-process": {"action": "store_true", "help": "run the mechanism in this process"}
}
STORE: Options = {
    "--store": {
        "excludes": ("search", "white_box"),
        "metavar": "FILE",
        "help": "file that records the counts: after an interruption, the same command resumes",
    }
}
BASELINE: Options = {
    "--baseline": {
        "metavar": "FILE",
        "help": "accepted findings (TOML: name or target, claim, reason, expires): printed with "
        "their reason, and not failures until they expire",
    }
}
INTERPRETER: Options = {
    "--python": {
        "metavar": "PATH",
        "help": "interpreter, or name of an environment, whose processes run the target",
    },
    "--memory": {
        "type": real("memory", 0.0, 1e6, ends="[]"),
        "default": 0.0,
        "metavar": "GB",
        "help": "limit of each worker's address space; default: none",
    },
}
PAIR: Options = {
    "--d0": {
        "needs": "d1",
        "metavar": "JSON",
        "help": "a dataset: a list of numbers becomes a float64 array, FILE.parquet or FILE.csv a "
        "pandas frame, other JSON a Python value",
    },
    "--d1": {
        "needs": "d0",
        "metavar": "JSON",
        "help": "a neighboring dataset; without --d0 and --d1, pairs come from the mechanism's "
        "domain",
    },
    "--relation": {
        "needs": "d0",
        "metavar": "R",
        "help": "relation of --d0 and --d1 (pairs of a domain have its relation): replace-one "
        "(default), add-remove, add-remove:unit=COLUMN, replace-one:k=K, l1, l2, linf, stated, ... "
        "(dpwitness list relations), or FILE.py:NAME of a user-defined Relation",
    },
}
# the mechanism, its claim and its pair
SUBJECT: Options = {
    "target": {
        "nargs": "?",
        "metavar": "MODULE:NAME",
        "help": "a mechanism or a function f(dataset, size, rng), as MODULE:NAME or FILE.py:NAME",
    },
    "--as": {
        "dest": "form",
        "metavar": "FORM",
        "help": "how the target is run: batch, run (one call per run), object, object.METHOD or "
        "estimator.ATTRIBUTE; default: detected",
    },
    "--claim": {
        "help": "pure:EPS, approx:EPS,DELTA, zcdp:RHO, rdp:ALPHA,EPS, rdp:ALPHA=EPS,..., gdp:MU, "
        "fdp:FILE, dpsgd:SAMPLING,NOISE,STEPS[,DELTA], metric:EPS[,DISTANCE], "
        "percoordinate:EPS,... or group:SIZE,CLAIM; default: the mechanism's claim"
    },
    "--distance": {
        "metavar": "X",
        "help": "distance of the datasets, for claims metric:EPS: a number, or the norm l1, l2 or "
        "linf; default: that of the relation, or l1",
    },
    "--kwargs": {"metavar": "JSON", "help": "keyword arguments of the class or function"},
    **PAIR,
}
# a program instead of a target
PROGRAM: Options = {
    "--command": {
        "dest": "program",
        "excludes": ("target", "python", "kwargs", "in_process"),
        "metavar": "TEXT",
        "help": "instead of a target, a program with its arguments; it must follow "
        "docs/reference/protocol.md, and starts without a shell",
    },
    "--cwd": {"needs": "program", "metavar": "DIR", "help": "working folder of the program"},
    "--text": {
        "needs": "program",
        "action": "store_true",
        "help": "the program prints one output per line; its arguments may contain {size}, "
        "{seed}, {dataset}, or it reads DPWITNESS_SIZE etc.",
    },
    "--text-runs": {
        "needs": "text",
        "choices": ["batch", "one"],
        "help": "start the program for each batch of runs (default), or for each run",
    },
}
# a database instead of a target, and the domain of its tables
DATABASE: Options = {
    "--dsn": {
        "needs": "query",
        "excludes": ("target", "program", "python", "kwargs"),
        "metavar": "DSN",
        "help": "instead of a target, a database: sqlite:///:memory: or sqlite:///FILE, which is "
        "opened read-only and copied to memory",
    },
    "--query": {
        "needs": "dsn",
        "metavar": "SQL",
        "help": "one SELECT, which may only read, or its FILE.sql; its rows are the output",
    },
    "--table": {
        "needs": "dsn",
        "metavar": "NAME",
        "help": "name of the dataset in the query; default data",
    },
    "--setup": {
        "needs": "dsn",
        "metavar": "SQL",
        "help": "statements to run before the query, or a file FILE.sql: views, parameters",
    },
    "--domain": {
        "excludes": ("white_box",),
        "metavar": "JSON",
        "help": "domain of the datasets, as in target files: "
        """'{"kind": "Table", "columns": {"age": [0, 120]}}' (dpwitness list domains); or """
        "FILE.py:NAME of a domain, or of a user-defined Relation that generates pairs",
    },
}


def name_filter(text: str) -> Options:
    """Return ``-k``, a filter of names."""
    return {"-k": {"dest": "keyword", "default": "", "metavar": "EXPR", "help": text}}


# shapes of the violation that `plan` assumes
SHAPES: Options = {
    f"--{name}": {
        "group": "shape",
        "dest": "shape",
        "action": "store_const",
        "const": name,
        "help": f"the violation has the shape of {text}",
    }
    for name, text in {
        "coin": "randomized response, which needs the fewest runs at its epsilon (default; a "
        "TARGET with a known law uses its own)",
        "laplace": "Laplace noise",
        "gaussian": "Gaussian noise",
    }.items()
}
