"""All commands of ``dpwitness``: what each does, its options, and the function that runs it.

The module imports no command, so that ``dpwitness --help`` starts fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from dpwitness.commands import options as opts
from dpwitness.commands.options import Options, integer, real
from dpwitness.reports.formats import DEFAULT_FORMATS, FORMATS

_NONE: Mapping[str, Any] = MappingProxyType({})


class Command(NamedTuple):
    """Declaration of a command.

    `run` is MODULE:FUNCTION in this folder; the function takes the parsed arguments and returns the
    exit code. A command `like` another takes the defaults of that command for the options that it
    does not have, and `fixed` values. `actions` are subcommands.
    """

    run: str
    text: str
    options: Options = _NONE
    like: str = ""
    fixed: Mapping[str, Any] = _NONE
    actions: Mapping[str, Command] = _NONE


COMMANDS: dict[str, Command] = {
    "init": Command(
        "listing:init",
        "write a commented example into the current folder: a mechanism, a pytest test, a CI job",
    ),
    "audit": Command(
        "audit:audit",
        "search for a violation of a privacy claim by running the mechanism",
        {
            **opts.SUBJECT,
            **opts.PROGRAM,
            **opts.DATABASE,
            **opts.confidence("the verdict"),
            "--stop": {
                "choices": ["gross", "violation", "never"],
                "help": "stop early at a violation far beyond the claim (gross, the default), at "
                "any violation (default with --sequential), or never",
            },
            "--sequential": {
                "excludes": ("white_box",),
                "action": "store_true",
                "help": "no planned number of runs: stop as soon as the question is settled, or "
                "after --seconds or --trials; always valid",
            },
            "--find": {
                "needs": "sequential",
                "type": real("find", 1.0, 1e6),
                "metavar": "X",
                "help": "smallest violation that --sequential looks for, as a multiple of the "
                "claim; default 1.1",
            },
            "--scores": {
                "metavar": "FILE.py:NAME",
                "action": "append",
                "default": [],
                "help": "function that returns a number for each output, for use in events; it "
                "runs in this process; may be repeated",
            },
            "--bits": {
                "action": "store_true",
                "help": "let a violation in the low bits of floating-point outputs affect the "
                "exit code",
            },
            **opts.time_limit(),
            "--no-trace": {
                "action": "store_true",
                "help": "make no traced runs before the audit, which order the pairs, propose an "
                "event and explain the verdict",
            },
            "--no-causes": {
                "action": "store_true",
                "help": "end with the first violation: make no separate tests of exceptions, of "
                "repeated values and of all other outputs",
            },
            "--in-process": {
                "action": "store_true",
                "help": "run the mechanism in this process: faster, but a crash of the mechanism "
                "ends the audit; with --white-box or --search, a mechanism that has log_density "
                "runs in this process anyway",
            },
            **opts.INTERPRETER,
            "--white-box": {
                "action": "store_true",
                "help": "enclose the exact privacy loss from the output density, instead of "
                "running the mechanism",
            },
            "--search": {
                "action": "store_true",
                "help": "search the domain for the worst pair, or for the worst adversary of an "
                "interactive mechanism, then audit it on fresh runs",
            },
            "--search-seconds": {
                "needs": "search",
                "type": real("search seconds", 0.0, 1e6),
                "metavar": "S",
                "help": "wall time of the search; default 30",
            },
            "--visible-errors": {
                "action": "store_true",
                "help": "for a transformation: count an error on one of two neighboring inputs as "
                "a violation, because errors are visible",
            },
            **opts.BASELINE,
            **opts.STORE,
            "--extend": {
                "needs": "store",
                "type": opts.TRIALS,
                "metavar": "N",
                "help": "new total number of runs, larger than planned, for a finished audit in "
                "--store: its event is tested on additional rounds",
            },
            **opts.RUNNING,
            **opts.duration("the audit"),
            **opts.DETAIL,
        },
    ),
    "scan": Command(
        "scan:scan",
        "list where a file, folder or package draws noise, run it as its tests do, and audit what "
        "it promises",
        {
            "what": {
                "metavar": "WHAT",
                "help": "a Python file, a folder, or an installed package; WHAT:FUNCTION for one "
                "function",
            },
            "--tests": {
                "metavar": "PATH",
                "action": "append",
                "default": [],
                "help": "tests for pytest, whose calls are repeated with other data; may be "
                "repeated",
            },
            "--script": {
                "metavar": "FILE",
                "action": "append",
                "default": [],
                "help": "a script whose calls are repeated; may be repeated",
            },
            "--calls": {
                "metavar": "FILE",
                "help": "calls that pytest --dp-discover FILE has written",
            },
            "--dry-run": {
                "action": "store_true",
                "help": "list where noise is drawn; nothing is imported or called",
            },
            "--seconds": {
                "type": opts.SECONDS,
                "default": 120.0,
                "metavar": "S",
                "help": "time budget; default 120",
            },
            **opts.CLOCK,
            **opts.seed(default=0),
            **opts.INTERPRETER,
            **opts.REPORTING,
            **opts.DETAIL,
        },
    ),
    "check": Command(
        "check:check",
        "run every applicable check on the targets of a file, and print one line per check",
        {
            "target": {
                "nargs": "?",
                "metavar": "FILE[:NAME]",
                "help": "target file or adapter, and the name of one of its targets; default: "
                "all its targets",
            },
            **opts.PROGRAM,
            "--claim": {"help": "claim of the program, if its hello message has none: pure:1, ..."},
            "--domain": {
                "metavar": "JSON",
                "help": "domain of the datasets, if the hello message of the program has none: "
                '{"kind": "Records", "size": 1, "low": 0, "high": 1}',
            },
            **opts.name_filter(
                "only checks whose name matches: words and `and`, `or`, `not`; a check named "
                "here fails for other numbers of draws too"
            ),
            **opts.time_limit("one batch of runs"),
            **opts.INTERPRETER,
            **opts.RUNNING,
            **opts.duration("the checks of each target"),
        },
    ),
    "trace": Command(
        "audit:trace",
        "record the noise of a run, replay it on the neighboring dataset, and compare all values",
        {
            **opts.SUBJECT,
            **opts.PROGRAM,
            "--primitives": {
                "metavar": "JSON",
                "help": 'noise primitives, besides the known ones: {"mine.noise": {"law": '
                '"laplace", "input": "value", "scale": "s / epsilon"}}; a target file may '
                "declare them as the attribute `primitives` of a target, or as PRIMITIVES",
            },
            "--pairs": {
                "type": integer("pairs", 1, 10**6),
                "metavar": "N",
                "help": "number of pairs, two runs each; more than 8 include searched pairs",
            },
            "--no-confirm": {
                "excludes": ("trials",),
                "action": "store_true",
                "help": "do not confirm findings by an audit; the verdict is then never VIOLATED",
            },
            **opts.confidence("that audit"),
            **opts.time_limit("one run", 60.0),
            **opts.IN_PROCESS,
            **opts.BASELINE,
            **opts.INTERPRETER,
            **opts.RUNNING,
            **opts.DETAIL,
        },
    ),
    "canaries": Command(
        "audit:canaries",
        "audit private training from scores of canaries, which fair coins included in the "
        "training data or left out",
        {
            "file": {
                "metavar": "FILE",
                "help": "scores: .npz with arrays scores_in and scores_out; or .npz, .csv or "
                ".parquet with columns score and included, and optionally run, id, group",
            },
            "--claim": {
                "required": True,
                "help": "pure:EPS, approx:EPS,DELTA, gdp:MU, fdp:FILE or "
                "dpsgd:SAMPLING,NOISE,STEPS",
            },
            "--method": {
                "choices": ("best", "curve"),
                "default": "best",
                "help": "theorem; default best",
            },
            "--guesses": {
                "type": integer("guesses", 1, 10**9),
                "metavar": "R",
                "help": "number of guesses, fixed before the scores were seen; default: chosen "
                "from the scores, with a correction of the bound",
            },
            "--delta": {
                "type": real("delta", 0.0, 1.0, ends="()"),
                "default": 1e-5,
                "metavar": "D",
                "help": "delta at which a bound on a trade-off curve is converted to an epsilon; "
                "default 1e-5",
            },
            **opts.confidence("the verdict", 0.95),
            "--name": {"help": "name of the training in the report; default: the file name"},
            **opts.seed("seed that chooses the revealed coins and breaks ties of scores", 0),
            **opts.REPORTING,
            **opts.BASELINE,
            **opts.DETAIL,
        },
    ),
    "replay": Command(
        "report:replay",
        "test the event of a witness again, with fresh randomness",
        {
            "witness": {"metavar": "WITNESS.json"},
            "--check": {
                "action": "store_true",
                "help": "run nothing: the kernel checks the file and prints what it verified "
                "(exit code 3: not checked)",
            },
            "--target": {
                "metavar": "FILE.py:NAME",
                "help": "run this target instead of the target that the witness names",
            },
            "--allow": {
                "metavar": "MODULE:NAME",
                "action": "append",
                "default": [],
                "help": "let the witness run this target, although it is outside the current "
                "folder; may be repeated",
            },
            **opts.confidence(
                "the verdict", None, ": that of the witness, but at least 0.99 (canaries: 0.95)"
            ),
            **opts.RUNNING,
            **opts.seed(
                "seed of an earlier replay, to repeat it exactly; default: drawn from the "
                "operating system, recorded, and shown with --verbose"
            ),
            **opts.DETAIL,
        },
    ),
    "report": Command(
        "report:report",
        "write or show the report of an earlier run again, in any format, from its audit.json",
        {
            "file": {"metavar": "AUDIT.json", "help": "file that --report wrote"},
            "--format": {
                "default": ",".join(DEFAULT_FORMATS),
                "metavar": "F,F",
                "help": f"formats, among {', '.join(FORMATS)}; default {','.join(DEFAULT_FORMATS)}",
            },
            "--report": {
                "metavar": "DIR",
                "help": "output folder; default: the folder of the file",
            },
            "--show": {
                "excludes": ("report",),
                "action": "store_true",
                "help": "print a table of the audits, worst first, and write nothing",
            },
            "--no-plots": {"action": "store_true", "help": "write no plots"},
        },
    ),
    "plan": Command(
        "audit:plan",
        "estimate, before an audit, how many runs find a violation and how long they take",
        {
            **opts.SUBJECT,
            "--find": {
                "type": opts.find,
                "metavar": "X",
                "help": "parameter of the violation to find, in the claim's notion; 10%% means 10 "
                "%% above the claim",
            },
            "--trials": {
                "type": opts.TRIALS,
                "metavar": "N",
                "help": "number of runs, for which to compute what they find",
            },
            "--canaries": {
                "needs": "claim",
                "excludes": ("target", "find", "trials", "shape"),
                "type": integer("canaries", 10, 10**7),
                "metavar": "M",
                "help": "plan an audit of private training: the best bound of M canaries per run",
            },
            "--runs": {
                "needs": "canaries",
                "type": integer("runs", 1, 10**6),
                "metavar": "R",
                "help": "with --canaries: number of training runs; default 1",
            },
            "--power": {
                "type": real("power", 0.0, 1.0, ends="()"),
                "default": 0.9,
                "metavar": "P",
                "help": "probability of finding the violation; default 0.9",
            },
            **opts.confidence("the audit"),
            **opts.workers("workers of the audit: TARGET is timed on the same number"),
            **opts.time_limit(),
            **opts.IN_PROCESS,
            "--json": {"action": "store_true", "help": "print the plan as JSON"},
            **opts.INTERPRETER,
            **opts.SHAPES,
        },
    ),
    "certify": Command(
        "audit:audit",
        "enclose the exact privacy loss of a pair, from the output density (same as audit "
        "--white-box)",
        {
            **opts.SUBJECT,
            "target": {
                key: value for key, value in opts.SUBJECT["target"].items() if key != "nargs"
            },
            **opts.confidence("sampled quantities"),
            **opts.time_limit(),
            **opts.BASELINE,
            **opts.RUNNING,
            **opts.DETAIL,
        },
        like="audit",
        fixed={"white_box": True},
    ),
    "compare": Command(
        "report:compare",
        "compare a report with an earlier report: new violations, changed verdicts, numbers that "
        "changed beyond their error",
        {
            "old": {"metavar": "OLD.json", "help": "audit.json of the earlier report"},
            "new": {
                "metavar": "NEW.json",
                "help": "audit.json of the later report; a new violation gives exit code 1",
            },
            "--report": {
                "metavar": "DIR",
                "help": "write compare.json, and compare.md or the formats of --format",
            },
            "--format": {
                "needs": "report",
                "metavar": "F,F",
                "help": f"formats of the report, among {', '.join(opts.COMPARISON_FORMATS)}; "
                "default "
                f"{opts.COMPARISON_FORMATS[0]}",
            },
            "--explain": {"action": "store_true", "help": "also explain how changes are judged"},
            "--json": {"action": "store_true", "help": "print the comparison as JSON"},
        },
    ),
    "list": Command(
        "listing:listing",
        "list zoo mechanisms, mechanism classes, domains, relations, suites and benchmarks; or "
        "targets, claims, or stores FILE...",
        {
            "what": {
                "nargs": "?",
                "choices": [*opts.SECTIONS, "targets", "claims", "stores"],
                "help": "list only this section",
            },
            "files": {
                "nargs": "*",
                "default": [],
                "metavar": "FILE",
                "help": "stores whose audits are listed",
            },
            **opts.JSON,
        },
    ),
    "targets": Command(
        "listing:targets",
        "environments of third-party libraries: list (with their state); setup NAME...; new FILE "
        "writes a target file",
        {
            "action": {
                "nargs": "?",
                "choices": ["list", "setup", "new"],
                "default": "list",
                "help": "default: list",
            },
            "names": {
                "nargs": "*",
                "default": [],
                "metavar": "NAME",
                "help": "environments to install, or the target file to write",
            },
            **opts.JSON,
        },
    ),
    "store": Command(
        "listing:store",
        "clean stored audits: gc FILE [NAME...]",
        {
            "action": {
                "choices": ["gc"],
                "help": "gc removes damaged audits, named audits, and the chunks of finished "
                "audits, whose results it keeps",
            },
            "file": {"metavar": "FILE", "help": "file of the store"},
            "names": {"nargs": "*", "default": [], "metavar": "NAME", "help": "audits to remove"},
        },
    ),
    "claims": Command(
        "claims:claims",
        "list, show and check the claims of the papers",
        {},
        actions={
            "list": Command("claims:list_claims", "list all claims"),
            "show": Command(
                "claims:show_claim",
                "show one claim and its proof",
                {"id": {"metavar": "ID", "help": "see `dpwitness list claims`"}},
            ),
            "check": Command(
                "claims:check_claims",
                "check one claim, or all",
                {
                    "id": {"metavar": "ID", "help": "see `dpwitness list claims`; or all"},
                    "--set": {
                        "metavar": "NAME=VALUE",
                        "nargs": "+",
                        "action": "extend",
                        "default": [],
                        "help": "values of parameters, or ranges NAME=LOW:HIGH",
                    },
                    "--quick": {"action": "store_true", "help": "use fewer runs and points"},
                    "--seconds": {
                        "type": opts.SECONDS,
                        "default": 60.0,
                        "metavar": "S",
                        "help": "time limit of each claim; default 60",
                    },
                    **opts.seed(),
                    "--workers": opts.workers("number of processes, for `check all`")["--workers"],
                    "--report": {
                        "metavar": "DIR",
                        "help": "`check all` in a checkout: write papers.md, papers.json, plots "
                        "and witnesses",
                    },
                },
            ),
        },
    ),
    "prove": Command(
        "claims:prove",
        "prove from its text that a loop with Laplace or exponential noise is private, or find a "
        "violation",
        {
            "target": {
                "metavar": "FILE.py:NAME",
                "help": "a function with the decorator dpwitness.proofs_checks.provable",
            },
            "--seconds": {
                "type": opts.SECONDS,
                "default": 60.0,
                "metavar": "S",
                "help": "wall time of the search for a proof; default 60",
            },
            "--trials": {
                "type": integer("trials", 0, 10**12),
                "default": 100_000,
                "metavar": "N",
                "help": "runs of the audit where no proof is found, 0 for none; default 100000",
            },
            **opts.confidence("that audit"),
            **opts.seed("root of all randomness; default 0", 0),
            **opts.JSON,
        },
    ),
    "watch": Command(
        "audit:watch",
        "add a slice of runs to each target's sequential audit in a store, for CI and services",
        {
            "targets": {
                "nargs": "+",
                "metavar": "TARGET",
                "help": "mechanisms, as MODULE:NAME or FILE.py:NAME",
            },
            "--store": {
                "metavar": "FILE",
                "required": True,
                "help": "file that keeps the slices; keep it between calls",
            },
            "--claim": {"help": "claim of all targets; default: the claim of each"},
            **opts.PAIR,
            **opts.confidence("all targets together: 1 - confidence is the false discovery rate"),
            **opts.time_limit(),
            **opts.INTERPRETER,
            "--seconds": {
                "type": opts.SECONDS,
                "default": 30.0,
                "metavar": "S",
                "help": "wall time of this call over all targets; default 30",
            },
            "--trials": {
                "type": opts.TRIALS,
                "metavar": "N",
                "help": "most runs of each target in this call",
            },
            **opts.BASELINE,
            **opts.REPORTING,
        },
        fixed={"distance": None},
    ),
    "suite": Command(
        "check:suite",
        "audit all mechanisms of a suite: zoo, papers, third-party",
        {
            "name": {"help": "see `dpwitness list`"},
            **opts.name_filter("only cases whose name matches: words and `and`, `or`, `not`"),
            **opts.confidence("each verdict", None, ": that of the suite"),
            **opts.BASELINE,
            **opts.STORE,
            **opts.RUNNING,
            **opts.duration("each audit"),
        },
    ),
    "bench": Command(
        "listing:bench",
        "run benchmarks of speed and bounds; ratios compare measurements of one run",
        {
            "name": {"nargs": "?", "help": "name of a benchmark; default: all"},
            **opts.seed(
                "seed of a benchmark that draws its cases; default: drawn from the operating system"
            ),
            "--part": {
                "metavar": "PART",
                "action": "append",
                "default": [],
                "help": "part of `power`, `scan` or `sequential` to run, or of the names of "
                "attacks of `adversarial`; may be repeated; default: all, but of the draws of "
                "`scan` the newest only",
            },
            **opts.JSON,
        },
    ),
}
