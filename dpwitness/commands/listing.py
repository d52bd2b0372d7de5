"""Commands on what there is: ``list`` for mechanisms, domains, suites and others, ``targets`` for
environments of libraries and new target files, ``store`` for stored audits, and ``bench``; and
``init``, which writes an example.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from dpwitness import mechanisms, reports
from dpwitness.auditors.witnesses.store import StoredAudit, open_store, read_store, reporting_damage
from dpwitness.clone import from_clone, is_clone
from dpwitness.commands.claims import list_claims
from dpwitness.commands.common import print_json
from dpwitness.commands.options import SECTIONS
from dpwitness.core.datasets.relations import OPTIONS, RELATIONS
from dpwitness.core.domains import domain_kinds, field_texts
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, did_you_mean
from dpwitness.mechanisms.textbook.zoo import zoo
from dpwitness.terminal import NO_VERDICT, OK, VIOLATED

_MECHANISM = '''"""A mechanism to audit. Replace noisy_count with your own function.

    dpwitness audit my_mechanism.py:noisy_count --claim pure:1 --kwargs '{"epsilon": 1}' --d0 '[0, 0]' --d1 '[0, 1]' --trials 1e5

--claim    the promise: pure:EPSILON, approx:EPSILON,DELTA, zcdp:RHO, ...
--kwargs   arguments of the function except for the dataset and the randomness
--d0 --d1  two neighboring datasets, as JSON: here the second record differs
--trials   calls of the function, both datasets together: more calls find smaller violations
--report   folder for a report, and for a witness if the claim is violated

Exit code 0: no violation found. 1: violated. 2: wrong usage. 3: no verdict.
"""

import numpy as np


def noisy_count(data, epsilon, rng):
    """Return the number of records above 0.5 with Laplace noise, rounded to a grid of 1/1024.

    One record changes the count by at most 1, so noise of scale 1 / epsilon keeps epsilon-DP. Change 1 / epsilon to
    0.9 / epsilon, and the audit finds the violation. Without the rounding, the last bits of the sum reveal the count.

    The parameter rng receives a numpy Generator, because rng is its name. A function without such a parameter works too.
    """
    count = np.sum(np.asarray(data) > 0.5)
    noise = rng.laplace(0.0, 1 / epsilon)
    return np.round((count + noise) * 1024) / 1024
'''

_TEST = '''"""Run with: pytest test_privacy.py --dp-report out/tests.md

dp_audit is a fixture of the pytest plugin of dpwitness. A mechanism that keeps its claim fails the test with probability at
most 1e-9, and the seed is fixed: the test gives the same result on each run.
"""

import dpwitness as dpw
import numpy as np
from my_mechanism import noisy_count


def test_noisy_count_keeps_epsilon_1(dp_audit):
    mechanism = dpw.one_run(noisy_count, epsilon=1.0)  # one call of the function is one run
    pair = dpw.Pair(np.array([0.0, 0.0]), np.array([0.0, 1.0]))  # two datasets that differ in one record
    dp_audit(mechanism, claim="pure:1", pair=pair, trials=20_000)
'''

_WORKFLOW = """# Copy this file to .github/workflows/privacy.yml. It runs the audits on every push.
name: privacy

on: [push, pull_request]

jobs:
  audit:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: python -m pip install dpwitness pytest
      - run: python -m pytest test_privacy.py --dp-report out/tests.md
      - run: >-
          dpwitness audit my_mechanism.py:noisy_count --claim pure:1 --kwargs '{"epsilon": 1}'
          --d0 '[0, 0]' --d1 '[0, 1]' --trials 100000 --report out/audit
      - if: always()  # also after a violation
        uses: actions/upload-artifact@v4
        with:
          name: privacy
          path: out/
"""

FILES = {"my_mechanism.py": _MECHANISM, "test_privacy.py": _TEST, "privacy-ci.yml": _WORKFLOW}

TEMPLATE = '''"""A target file: runs in any interpreter that has NumPy and the library under test."""
import numpy as np


def noisy_sum(dataset, size, rng):
    """Return noisy sums of the records, clipped to [0, 1]: `size` independent runs, one output each."""
    noisy = np.clip(np.nan_to_num(dataset), 0, 1).sum() + rng.laplace(0.0, 1.0, size)
    return np.round(noisy * 1024) / 1024  # without rounding to a grid, the low bits of the sum leak


noisy_sum.claim = "pure:1"  # or approx:EPS,DELTA, zcdp:RHO, rdp:ALPHA,EPS, gdp:MU and others
noisy_sum.domain = {"kind": "Records", "size": 3, "low": 0.0, "high": 1.0, "relation": "replace-one"}

# Further attributes of a target:
# noisy_sum.domain = {"kind": "Table", "columns": {"age": (0, 120), "city": ["Ulm", "Bern"]}, "user": "user"}
#     a pandas frame whose neighbors differ in all rows of one user; for all kinds and their keys: dpwitness list domains
# noisy_sum.trials = 20_000          default number of runs of an audit
# noisy_sum.batch = 64               maximum number of runs per call, for slow targets
# noisy_sum.seeded = False           the library cannot be seeded: counts are not reproducible
# noisy_sum.expected_failures = {"check_...": "why"}   checks that are known to fail
# noisy_sum.expected_findings = {"kind": "why"}        findings of a trace that are not faults
# noisy_sum.primitives = {"module.add_noise": {"law": "laplace", "input": "value"}}   noise for a trace to record
# noisy_sum.features = np.abs        statistics of outputs that may distinguish the datasets
'''


def init(args: argparse.Namespace) -> int:
    """Run ``dpwitness init``: write the example files, unless one of them exists, and return the
    exit code.
    """
    existing = [name for name in FILES if Path(name).exists()]
    if existing:
        raise InvalidArgument(
            f"init writes new files only, but found {', '.join(existing)}: run init in another folder"
        )
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    print(
        "wrote my_mechanism.py (its first lines show the audit command), test_privacy.py "
        "(pytest), privacy-ci.yml (CI)"
    )
    print(f"next: {_MECHANISM.splitlines()[2].strip()}")
    return OK


def listing(args: argparse.Namespace) -> int:
    """Run ``dpwitness list`` and return the exit code."""
    if bool(args.files) != (args.what == "stores"):
        raise InvalidArgument(
            f"{args.what} takes no FILE, got {args.files[0]}"
            if args.files
            else "stores needs one FILE or more, got none"
        )
    others = {
        "stores": lambda: _list_stores(args.files, args.json),
        "targets": lambda: _list_environments(args.json),
        "claims": lambda: list_claims(args),
    }
    if args.what in others:
        return others[args.what]()
    chosen = [args.what] if args.what else list(SECTIONS if is_clone() else SECTIONS[:-1])
    found = {section: list(_ROWS[section]()) for section in chosen}
    if args.json:
        print_json(found)
        return OK
    sections = []
    for name, rows in found.items():
        lines = reports.aligned([(it["name"], it["text"]) for it in rows])
        sections.append("\n  ".join([name, *lines]))
    print("\n\n".join(sections))
    return OK


def _zoo_rows() -> Iterator[Json]:
    """Yield the mechanisms of the zoo, with the claim and whether the mechanism keeps it."""
    for name, it in zoo().items():
        broken, claim = it.truth.breaks(it.claim), str(it.claim)
        state = f"broken: true {it.claim.symbol} = {it.truth.parameter:.4g}" if broken else "kept"
        yield {
            "name": name,
            "text": f"claim {claim:<14} {state}{'' if it.truth.bits_safe else ', low bits leak'}",
            "claim": claim,
            "kept": not broken,
            "bits_safe": it.truth.bits_safe,
        }


def _summary(kind: type) -> str:
    """Return the summary of a class: the first paragraph of its docstring in one line."""
    text = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
    return text.replace("`", "")


def _mechanism_rows() -> Iterator[Json]:
    """Yield the concrete classes of mechanisms by their public names."""
    for name, kind in inspect.getmembers(mechanisms, inspect.isclass):
        is_concrete = not getattr(kind, "_is_protocol", False)
        if is_concrete and hasattr(kind, "sample") and hasattr(kind, "claim"):
            yield {"name": name, "text": _summary(kind)}


def _domain_rows() -> Iterator[Json]:
    """Yield the kinds of domains, each followed by its keys in target files."""
    for name, kind in domain_kinds().items():
        keys = field_texts(kind)
        yield {"name": name, "text": _summary(kind), "keys": keys}
        yield from ({"name": f"  {key}", "text": words} for key, words in keys.items())


def _relation_rows() -> Iterator[Json]:
    for name, text in RELATIONS.items():
        options = ",".join(f"{option}=" for option in OPTIONS.get(name, ()))
        yield {"name": f"{name}:{options}" if name in OPTIONS else name, "text": text}


def _suite_rows() -> Iterator[Json]:
    from dpwitness.suites import SUITES  # loads every audit

    yield from ({"name": name, "text": found.text} for name, found in SUITES.items())


def _bench_rows() -> Iterator[Json]:
    found = from_clone("", "dpwitness bench").BENCHMARKS
    yield from ({"name": name, "text": f"measured by {module}"} for name, module in found.items())


_ROWS = {
    "zoo": _zoo_rows,
    "mechanisms": _mechanism_rows,
    "domains": _domain_rows,
    "relations": _relation_rows,
    "suites": _suite_rows,
    "bench": _bench_rows,
}


def bench(args: argparse.Namespace) -> int:
    """Run ``dpwitness bench``, print the required and measured value of each row, and return the
    exit code.

    A successful attack gives exit code 1.
    """
    found = from_clone("", "dpwitness bench")
    names = {"seed": "seed", "part": "parts"}
    options = {names[key]: getattr(args, key) for key in args.given & names.keys()}
    if options and args.name is None:
        raise InvalidArgument(
            "--seed and --part need the NAME of a benchmark, got none: dpwitness list bench"
        )
    tables = []
    for name in [args.name] if args.name else found.BENCHMARKS:
        tables.append(found.bench(name, **options))
        if not args.json:
            print(found.format_table(tables[-1]), flush=True)
    if args.json:
        print_json([asdict(table) for table in tables])
    rows = [row for table in tables if table.binding for row in table.rows]
    return OK if all(row.met for row in rows) else VIOLATED


def targets(args: argparse.Namespace) -> int:
    """Run ``dpwitness targets`` and return the exit code."""
    if args.action == "new":
        return _write_target_file(args.names)
    if args.action == "setup":
        return _set_up(args.names)
    if args.names:
        raise InvalidArgument(f"targets list takes no names, got {' '.join(args.names)}")
    return _list_environments(args.json)


def _write_target_file(names: Sequence[str]) -> int:
    """Write a new target file and return the exit code."""
    if len(names) != 1 or not names[0].endswith(".py"):
        raise InvalidArgument(f"targets new needs one FILE.py, got {' '.join(names) or 'none'}")
    try:
        with open(names[0], "x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except OSError as error:
        raise InvalidArgument(
            f"FILE must be a new file, got {names[0]!r}: {error.strerror}"
        ) from None
    print(f"written: {names[0]}; try it with: dpwitness check {names[0]}")
    return OK


def _set_up(names: Sequence[str]) -> int:
    """Install environments and return the exit code."""
    installation = from_clone("installation", "dpwitness targets setup")
    known = installation.pinned_environments()
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise InvalidArgument(
            f"targets setup needs names of environments ({', '.join(known)}), got "
            f"{' '.join(unknown) or 'none'}{did_you_mean(''.join(unknown[:1]), known)}"
        )
    code = OK
    for name in names:
        try:
            installation.install(known[name], lambda line: print(line, flush=True))
        except InvalidArgument as error:
            print(f"{name} was not installed: {error}", file=sys.stderr)
            code = NO_VERDICT
    return code


def _list_environments(as_json: bool) -> int:
    """Print the environments, their state and their targets."""
    installation = from_clone("installation", "dpwitness targets")
    rows: list[Json] = [
        {
            "name": name,
            "state": installation.state_of(found),
            "installs": [*found.requirements, *found.no_deps],
            "targets": [Path(file).stem for file in found.targets],
            "folder": str(found.folder),
            "note": found.note,
        }
        for name, found in installation.pinned_environments().items()
    ]
    if as_json:
        print_json(rows)
        return OK
    cells = [
        (
            it["name"],
            it["state"],
            "".join(it["installs"][-1:]),  # an environment may install nothing
            f"{', '.join(it['targets'])}: {it['note']}",
        )
        for it in rows
    ]
    print("\n".join(reports.aligned(cells)))
    print(
        f"environments are in {installation.home()}; to install one: dpwitness targets setup NAME"
    )
    return OK


def store(args: argparse.Namespace) -> int:
    """Run ``dpwitness store gc``: remove damaged audits, named audits, and the chunks of finished
    audits; return the exit code.
    """
    file = Path(args.file)
    with reporting_damage(file), open_store(file, create=False) as opened:
        before, damage, entries = file.stat().st_size, opened.damage(spans=True), opened.entries()
        existing = {entry.name: entry.id for entry in entries}
        unknown = sorted(set(args.names) - existing.keys())
        if unknown:
            raise InvalidArgument(
                f"NAME must be an audit of {opened.path}, got {unknown[0]!r}; audits in the store: "
                f"{', '.join(sorted(existing)) or 'none'}"
            )
        for audit in (*damage, *map(existing.get, args.names)):
            opened.drop(audit)
        finished = [entry for entry in opened.entries() if entry.verdict is not None]
        for entry in finished:
            opened.drop(entry.id, only_chunks=True)
        opened.connection.execute("VACUUM")
    names = {entry.id: entry.name for entry in entries}
    for audit, row in damage.items():
        print(f"damaged audit {names.get(audit, audit)} was removed ({row})")
    print(
        f"{len(finished)} audits were reduced to results: {before / 1e6:.1f} MB before, "
        f"{file.stat().st_size / 1e6:.1f} MB now"
    )
    return OK


def _list_stores(files: Sequence[str], as_json: bool) -> int:
    """Print the audits of stores and the size of each store. Then raise InvalidArgument with the
    audits that are damaged or edited.
    """
    rows: list[Json] = []
    problems: list[str] = []
    for file in files:
        with reporting_damage(Path(file)), read_store(file) as opened:
            entries, damage = opened.entries(), opened.damage()
        names = {entry.id: entry.name for entry in entries}
        problems += [
            f"{file} is damaged at audit {names.get(audit, audit)} ({row}): remove damaged audits "
            f"with `dpwitness store gc {file}`"
            for audit, row in damage.items()
        ]
        problems += filter(None, (entry.contradiction for entry in entries))
        if not as_json:
            cells = [(reports.name_cell(it.name), _format_state(it)) for it in entries]
            size = f"{len(entries)} audits, {Path(file).stat().st_size / 1e6:.1f} MB"
            where = f"{file}: " if len(files) > 1 else ""
            print("\n".join([*reports.aligned(cells), where + size]))
        rows += [
            {
                "name": entry.name,
                "state": _format_state(entry),
                "verdict": entry.verdict,
                "runs": entry.done,
                "planned": entry.planned,
                "begun": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.begun)),
                "hash": entry.hash,
                "content": entry.identity,
            }
            for entry in entries
        ]
    if as_json:
        print_json(rows)
    if problems:
        raise InvalidArgument("; ".join(problems))
    return OK


def _format_state(entry: StoredAudit) -> str:
    return f"{entry.verdict or 'not finished'}  {entry.done:,} of {entry.planned:,} runs"
