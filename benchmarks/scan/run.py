"""Benchmark of `dpwitness scan`: shares of the mechanisms of packages that are found and that get a
right target, and wrong accusations.

`lists.toml` has the mechanisms that a reader of each package lists, with the kind of claim and the
relation, written before the first scan of the package. Ten packages were named by the project; the
others were drawn by chance, in several draws, from those of the registry that mention differential
privacy. `first_scans.toml` has the counts of the first scan of each draw, which no change of the
code follows.

Other parts scan OpenDP, and measure the time from the installation of a library to the first
finding. Each part runs alone by `--part`. By default, the named packages and those of the newest
draw are scanned; of the earlier draws, the table has the counts of the first scans.
"""

from __future__ import annotations

import fnmatch
import re
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.auditors.scanning.proposals import Proposal
from dpwitness.auditors.scanning.scan import audits, scanned
from dpwitness.benchmarks.installation import Environment, install, pinned_environments
from dpwitness.benchmarks.scan import first_finding, opendp
from dpwitness.benchmarks.table import Row, Table, require_parts
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument

LISTS = Path(__file__).with_name("lists.toml")
FIRST_SCANS = Path(__file__).with_name("first_scans.toml")
GROUPS = ("named", "drawn", "second draw", "third draw", "fourth draw", "fifth draw", "sixth draw")
PARTS = (*GROUPS, "opendp", "first")
DEFAULT_PARTS = ("named", GROUPS[-1], "opendp", "first")
REQUIRED = {"found": 0.70, "right": 0.45, "claims": 0.90}


@dataclass(frozen=True, slots=True)
class Listed:
    """Package with the mechanisms that a reader lists: names, and claims such as ``pure
    replace-one|add-remove``.
    """

    package: str
    group: str
    environment: str
    requirements: tuple[str, ...]
    mechanisms: Mapping[str, str]
    no_deps: tuple[str, ...] = ()

    def python(self) -> str:
        """Return the interpreter that has the package; make its environment first if it
        is missing.
        """
        known = pinned_environments().get(self.environment) or Environment(
            f"scan-{self.environment}", self.requirements, self.no_deps
        )
        install(known)
        return str(known.interpreter)


def listed(file: Path = LISTS) -> list[Listed]:
    """Return the packages of the list."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    shared = {
        name: table for name, table in tables.items() if not {"mechanisms", "group"} & table.keys()
    }
    found = []
    for name, table in tables.items():
        place = table.get("environment", name)
        pins = shared.get(place, table)
        if name not in shared:
            found.append(
                Listed(
                    table.get("package", name),
                    table["group"],
                    place,
                    tuple(pins.get("requirements", ())),
                    table.get("mechanisms", {}),
                    tuple(pins.get("no_deps", ())),
                )
            )
    return found


def measured(found: Listed) -> Json:
    """Scan one package without its tests, and return its counts: listed, found, right and wrong
    targets, verdicts, and seconds.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder, python = Path(place), found.python()
        # seconds of the calls of one package
        scan = scanned(found.package, python=python, folder=folder, seconds=60.0)
        counts = Counter(outcome for _, outcome in mechanism_outcomes(found, scan.proposals))
        verdicts = Counter[str]()
        for outcome in audits(
            scan, folder / "targets.py", python=python, folder=folder, memory=0.0,
            # seconds of the audits of one package
            seconds=40.0, clock="wall", seed=0, progress=lambda line: None,
        ):  # fmt: skip
            verdicts[outcome.verdict] += bool(outcome.verdict)
        return {
            **counts,
            "sites": len(scan.found.sites),
            "seconds": round(time.monotonic() - began, 1),
            "verdicts": dict(+verdicts),
            "remarks": [without_paths(remark) for remark in scan.remarks[:3]],
        }


def without_paths(text: str) -> str:
    """Return a remark without the absolute paths in parentheses that import errors name.

    Examples
    --------
    >>> without_paths("cannot import name 'A' from 'b' (/b.py)")
    "cannot import name 'A' from 'b'"
    """
    return re.sub(r" \(/[^)]*\)", "", text)


def mechanism_outcomes(found: Listed, proposals: Sequence[Proposal]) -> Iterator[tuple[str, str]]:
    """Yield (name, outcome) pairs of each listed mechanism: always ``listed``, then ``found`` and
    ``right`` or ``wrong`` if they apply.
    """
    by_name: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        function = proposal.function
        by_name.setdefault(function.name, []).append(proposal)
        if function.owner:
            by_name.setdefault(function.owner.rpartition(".")[2], []).append(proposal)
    wanted = {
        name: claim
        for pattern, claim in found.mechanisms.items()
        for name in by_name
        if fnmatch.fnmatchcase(name, pattern)
    }
    wanted |= {name: claim for name, claim in found.mechanisms.items() if "*" not in name}
    for name, claim in wanted.items():
        yield name, "listed"
        own = by_name.get(name, [])
        if own:
            yield name, "found"
        ready = [each for each in own if each.source]
        if ready:
            yield name, "right" if any(is_right(each, claim) for each in ready) else "wrong"


def is_right(proposal: Proposal, claim: str) -> bool:
    """Return whether a target has the listed kind of claim, and one of the listed relations among
    its own.
    """
    kind, _, relations = claim.partition(" ")
    listed_relations = set(relations.split("|"))
    return proposal.promise.claim.startswith(kind) and not listed_relations.isdisjoint(
        proposal.relations
    )


def measure(parts: Sequence[str] = ()) -> Table:
    """Measure parts of the table.

    Parameters
    ----------
    parts : sequence of str
        Among `PARTS`. Default: `DEFAULT_PARTS`, with the counts of the first scans of the earlier
        draws.

    Raises
    ------
    InvalidArgument
        If a part is unknown.
    """
    require_parts(parts, PARTS)
    chosen, began = parts or DEFAULT_PARTS, first_finding.processor_seconds()
    details: list[Json] = [
        {"package": found.package, "group": found.group, "listed": len(found.mechanisms)}
        | _attempted(found.package, measured, found)
        for found in listed()
        if found.group in chosen
    ]
    rows = [
        row
        for group in GROUPS
        if group in chosen or not parts
        for row in _group_rows(group, details)
    ]
    # the twenty packages: ten named, and ten that were drawn afterwards and scanned once
    if "named" in chosen:
        twenty = [d for d in details if d["group"] == "named"] + [_first_scans()[GROUPS[-1]]]
        rows += _rows(f"named, and {GROUPS[-1]} at its first scan", twenty)
    if details:
        violated = sum(d.get("verdicts", {}).get("VIOLATED", 0) for d in details)
        case = "claims that are violated without a suspicion"
        rows.append(Row(case, 0, violated, "claims", at_most=True))
    if "opendp" in chosen:
        own = _attempted("scan of opendp", lambda: {"rows": opendp.rows()})
        rows += own.pop("rows", ())
        details += [{"package": "opendp", "group": "opendp"} | own] if own else []
    if "first" in chosen:
        libraries = [
            {"package": name, "group": "first"}
            | _attempted(f"first finding in {name}", first_finding.measured, name)
            for name in first_finding.LIBRARIES
        ]
        rows += map(first_finding.row, libraries)
        details += libraries
    minutes = (first_finding.processor_seconds() - began) / 60
    notes = (
        *(f"{d['package']}: not scanned: {d['error']}" for d in details if "error" in d),
        "processor time of the benchmark, with all processes that it waited for: "
        f"{minutes:.0f} minutes",
    )
    return Table("scan", tuple(rows), notes, tuple(details))


def _attempted(name: str, measure: Callable[..., Json], *arguments: Any) -> Json:
    """Return the result of a part, or its error as one line without folders."""
    try:
        found = measure(*arguments)
    except Exception as error:
        kind = "" if isinstance(error, InvalidArgument) else f"{type(error).__name__}: "
        text = re.sub(r"(/[\w.+-]+)+/", "", " ".join(str(error).split()))
        found = {"error": kind + text[:300]}
    print(f"bench scan: {name}: {found.get('error', 'done')}", file=sys.stderr, flush=True)
    return found


def _group_rows(group: str, details: Sequence[Json]) -> Iterator[Row]:
    """Yield the shares of a group: those of the first scan of a draw, if known, and those of the
    present code, if the group was scanned.
    """
    first = _first_scans().get(group)
    if first is not None:
        shares = list(_rows(f"{group}, first scan", [first]))
        # of the oldest scan, wrong claims were not counted
        yield from shares if "wrong" in first else shares[:2]
    scanned = [d for d in details if d["group"] == group]
    yield from _rows(group, scanned) if scanned else ()


def _first_scans() -> dict[str, Json]:
    """Return the counts of the first scan of each draw."""
    return tomllib.loads(FIRST_SCANS.read_text(encoding="utf-8"))


def _rows(group: str, details: Sequence[Json]) -> Iterator[Row]:
    total = {
        key: sum(d.get(key, 0) for d in details) for key in ("listed", "found", "right", "wrong")
    }
    claims = total["right"] + total["wrong"]
    parts = (
        ("found", total["found"], total["listed"]),
        ("right", total["right"], total["listed"]),
        ("claims", total["right"], claims),
    )
    texts = {
        "found": "mechanisms that are found",
        "right": "mechanisms with a right target",
        "claims": "targets whose claim is right",
    }
    for key, part, of in parts:
        yield Row(
            f"{group}: {texts[key]}", REQUIRED[key], part / max(of, 1), "share", counts=(part, of)
        )
