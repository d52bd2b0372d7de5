"""Benchmark of `dpwitness scan`: shares of the mechanisms of 20 packages that are found and that get a right target, and wrong accusations.

`lists.toml` has the mechanisms that a reader of each package lists, with the kind of claim and the relation, written before the first
scan of the package. Ten packages were named by the project; ten were drawn by chance from those of the registry that mention differential
privacy.
"""

from __future__ import annotations

import fnmatch
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpwitness.auditors.results.verdicts import Verdict
from dpwitness.auditors.scanning.audits import AuditPlan, audit_entries
from dpwitness.auditors.scanning.package_discovery import discover
from dpwitness.auditors.scanning.proposals import Proposal, propose, readings_of
from dpwitness.auditors.scanning.scan import written
from dpwitness.benchmarks.scan import opendp
from dpwitness.benchmarks.table import Row, Table
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.mechanisms.foreign.environments import Environment, environments
from dpwitness.mechanisms.foreign.target import Target

LISTS = Path(__file__).with_name("lists.toml")
AUDIT_SECONDS = 40.0  # of the audits of one package
REQUIRED = {"found": 0.70, "right": 0.45, "claims": 0.90}


@dataclass(frozen=True, slots=True)
class Listed:
    """Package with the mechanisms that a reader lists: names, and claims such as ``pure replace-one|add-remove``."""

    package: str
    group: str
    environment: str
    requirements: tuple[str, ...]
    mechanisms: Mapping[str, str]

    def python(self) -> str:
        """Return the interpreter that has the package; make its environment first if it is missing."""
        known = environments().get(self.environment) or Environment(f"scan-{self.environment}", self.requirements)
        if not known.interpreter.exists():
            known.setup(lambda line: None)
        return str(known.interpreter)


def listed(file: Path = LISTS) -> list[Listed]:
    """Return the packages of the list."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return [
        Listed(t.get("package", name), t["group"], t.get("environment", name), tuple(t.get("requirements", ())), t.get("mechanisms", {}))
        for name, t in tables.items()
    ]


def measured(found: Listed) -> Json:
    """Scan one package, and return its counts: listed, found, right and wrong targets, verdicts, and seconds."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        try:
            python = found.python()
            explored = discover(package=found.package, python=python, working_folder=str(folder))
        except InvalidArgument as error:
            return {"package": found.package, "group": found.group, "listed": len(found.mechanisms), "error": str(error)}
        options: Json = {"python": python, "network": explored.network, "root": "", "memory": 0.0, "deadline": time.monotonic() + 300}
        proposals = propose(readings_of(explored), folder, **options)
        scan = written(found.package, folder / "targets.py", explored, proposals, python)
        counts = Counter(outcome for _, outcome in judged(found, proposals, scan.file, python))
        running = [p.target for p in proposals if p.runs and p.role == "mechanism"]
        verdicts, first = _audited(AuditPlan(scan.file, python, folder, AUDIT_SECONDS), running, began)
        result = {"package": found.package, "group": found.group, **counts, "seconds": round(time.monotonic() - began, 1)}
        return result | {"verdicts": verdicts, "first finding": first, "remarks": list(explored.remarks)[:3]}


def judged(found: Listed, proposals: Sequence[Proposal], file: Path, python: str) -> Iterator[tuple[str, str]]:
    """Yield (name, outcome) pairs of each listed mechanism: always ``listed``, then ``found`` and ``right`` or ``wrong`` if they apply."""
    by_name: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        by_name.setdefault(proposal.reading.name.name, []).append(proposal)
    wanted = {name: claim for pattern, claim in found.mechanisms.items() for name in by_name if fnmatch.fnmatchcase(name, pattern)}
    wanted |= {name: claim for name, claim in found.mechanisms.items() if "*" not in name}
    for name, claim in wanted.items():
        yield name, "listed"
        own = [p for p in by_name.get(name, []) if p.role == "mechanism"]
        if own:
            yield name, "found"
        runs = next((p for p in own if p.runs), None)
        if runs is not None:
            yield name, "right" if is_right(runs, claim, file, python) else "wrong"


def is_right(proposal: Proposal, claim: str, file: Path, python: str) -> bool:
    """Return whether a target has the listed kind of claim, under one of the listed relations."""
    kind, _, relations = claim.partition(" ")
    recipe = proposal.recipe
    if recipe is None:
        return False
    text = recipe.claim.text or str(Target(str(file), proposal.target, python).claim)
    return text.startswith(kind) and recipe.form.relation in relations.split("|")


def _audited(plan: AuditPlan, names: Sequence[str], began: float) -> tuple[dict[str, int], float | None]:
    """Return the number of each verdict, and the seconds until the first violation."""
    verdicts, first = Counter[str](), None
    for outcome in audit_entries(plan, names, {}):
        if outcome.results:
            verdicts[outcome.verdict_name] += 1
        if outcome.verdict in (Verdict.SUSPECT, Verdict.VIOLATED) and first is None:
            first = round(time.monotonic() - began, 1)
    return dict(verdicts), first


def measure() -> Table:
    """Scan all packages of the list."""
    details = [measured(found) for found in listed()]
    rows = [row for group in ("named", "drawn") for row in _rows(group, [d for d in details if d["group"] == group])]
    violated = sum(d.get("verdicts", {}).get("VIOLATED", 0) for d in details)
    rows.append(Row("claims that are violated without a suspicion", 0, violated, "claims", at_most=True))
    rows += opendp.rows()
    notes = [f"{d['package']}: {d['error']}" for d in details if "error" in d]
    notes += [f"{d['package']}: first finding after {d['first finding']} s" for d in details if d.get("first finding")]
    return Table("scan", tuple(rows), tuple(notes), tuple(details))


def _rows(group: str, details: Sequence[Json]) -> Iterator[Row]:
    total = {key: sum(d.get(key, 0) for d in details) for key in ("listed", "found", "right", "wrong")}
    claims = total["right"] + total["wrong"]
    parts = (("found", total["found"], total["listed"]), ("right", total["right"], total["listed"]), ("claims", total["right"], claims))
    texts = {"found": "mechanisms that are found", "right": "mechanisms with a right target", "claims": "targets whose claim is right"}
    for key, part, of in parts:
        yield Row(f"{group}: {texts[key]}", REQUIRED[key], part / max(of, 1), "share", counts=(part, of))
