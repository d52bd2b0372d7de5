"""Benchmark of `dpwitness scan`: shares of the places that draw noise, and of the mechanisms of
packages, that are found, of the mechanisms that get a right target, and wrong accusations.

`lists.toml` has the mechanisms that a reader of each package lists, with the kind of claim and the
relation, written before the first scan of the package. Ten packages were named by the project; the
others were drawn by chance, in several draws, from those of the registry that mention differential
privacy. The packages of the newest draw are scanned twice: with the tests of their source
distribution, and without. `first_scans.toml` has the counts of the first scan of each draw, which
no change of the code follows.

Other parts scan OpenDP, and measure the time from the installation of a library to the first
finding. Each part runs alone by `--part`. By default, the named packages and those of the newest
draw are scanned.
"""

from __future__ import annotations

import fnmatch
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpwitness.auditors.scanning.proposals import Proposal
from dpwitness.auditors.scanning.scan import audits, scanned
from dpwitness.benchmarks.installation import Environment, install, pinned_environments
from dpwitness.benchmarks.scan import first_finding, opendp
from dpwitness.benchmarks.table import Row, Table, require_parts, root_seed, seed_note
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument

LISTS = Path(__file__).with_name("lists.toml")
GROUPS = (
    "named", "drawn", "second draw", "third draw", "fourth draw", "fifth draw", "sixth draw",
    "seventh draw", "eighth draw",
)  # fmt: skip
TESTED = GROUPS[-2:]  # draws that are scanned with tests and without
PARTS = (*GROUPS, "opendp", "first")
DEFAULT_PARTS = ("named", *TESTED, "opendp", "first")
REQUIRED = {  # share: requirement with tests, and without
    "sites": (0.95, 0.90),
    "found": (0.90, 0.85),
    "right": (0.60, 0.35),
    "claims": (0.95, 0.95),
}
TEXTS = {
    "sites": "places that draw noise are found",
    "found": "mechanisms that are found",
    "right": "mechanisms with a right target",
    "claims": "targets whose claim is right",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """Package with the mechanisms that a reader lists: names, and claims such as ``pure
    replace-one|add-remove``; the places that draw noise, such as ``file.py:12``; and the mechanisms
    whose claim the reader finds broken.
    """

    package: str
    group: str
    environment: str
    requirements: tuple[str, ...]
    mechanisms: Mapping[str, str]
    no_deps: tuple[str, ...] = ()
    sdist: str = ""  # requirement whose source distribution has the tests
    sites: tuple[str, ...] = ()
    faulty: tuple[str, ...] = ()

    def installed(self) -> Environment:
        """Return the environment that has the package; make it first if it is missing."""
        known = pinned_environments().get(self.environment) or Environment(
            f"scan-{self.environment}", self.requirements, self.no_deps
        )
        install(known)
        return known

    def tests(self, place: Path) -> list[str]:
        """Return the folders of tests of the source distribution in a copy of it in `place`; it is
        downloaded first if it is missing.
        """
        folder = self.installed().folder / "sdist" / self.package
        if self.sdist and not folder.exists():
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            pip += ["--no-binary", ":all:", "--dest", str(folder), self.sdist]
            subprocess.run(pip, check=True)
        for file in folder.glob("*.tar.gz"):
            with tarfile.open(file) as archive:
                archive.extractall(place, filter="data")
        return [str(each) for each in place.glob("*/test*") if each.is_dir()]


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
                    table.get("sdist", ""),
                    tuple(table.get("sites", ())),
                    tuple(table.get("faulty", ())),
                )
            )
    return found


def measured(found: Listed, *, with_tests: bool, seed: int) -> Json:
    """Scan one package with a seed of its audits, and return its counts: listed, found, right and
    wrong targets, verdicts, wrong accusations, and seconds.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder, python = Path(place), str(found.installed().interpreter)
        tests = found.tests(folder) if with_tests else ()
        # seconds of the calls of one package
        scan = scanned(
            found.package, python=python, folder=folder, seconds=120.0 if tests else 60.0,
            tests=tests,
        )  # fmt: skip
        outcomes = list(mechanism_outcomes(found, scan.proposals))
        verdicts, accused = Counter[str](), list[str]()
        for outcome in audits(
            scan, folder / "targets.py", python=python, folder=folder, memory=0.0,
            # seconds of the audits of one package
            seconds=40.0, clock="wall", seed=seed, progress=lambda line: None,
        ):  # fmt: skip
            verdicts[outcome.verdict] += bool(outcome.verdict)
            if outcome.verdict in ("SUSPECT", "VIOLATED"):
                accused.append(outcome.proposal.function.path)
        read = {f"{site.file.name}:{site.line}" for site in scan.found.sites}
        return {
            **Counter(outcome for _, outcome in outcomes),
            "sites": sum(any(each in read for each in _places(site)) for site in found.sites),
            "sites listed": len(found.sites),
            "tests": len(tests),
            "recorded": sum(each.recorded and bool(each.source) for each in scan.proposals),
            "seconds": round(time.monotonic() - began, 1),
            "verdicts": dict(+verdicts),
            "accused": accused,
            "wrongly accused": [path for path in accused if not is_faulty(found, path)],
            "without right target": sorted(
                {name for name, _ in outcomes}
                - {name for name, what in outcomes if what == "right"}
            ),
            "remarks": [opendp.without_paths(remark) for remark in scan.remarks[:3]],
        }


def _places(site: str) -> Iterator[str]:
    """Yield the places that count for a listed one: ``file.py:12|10`` names two lines."""
    file, _, lines = site.partition(":")
    return (f"{file}:{line}" for line in lines.split("|"))


def is_faulty(found: Listed, path: str) -> bool:
    """Return whether the function or the class of a dotted name is listed as faulty."""
    names = path.split(".")[-2:]
    return any(fnmatch.fnmatchcase(name, known) for name in names for known in found.faulty)


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
    kinds, _, relations = claim.partition(" ")
    listed_relations = set(relations.split("|"))
    is_kind = proposal.promise.claim.startswith(tuple(kinds.split("|")))
    return is_kind and not listed_relations.isdisjoint(proposal.relations)


def measure(seed: int | None = None, parts: Sequence[str] = ()) -> Table:
    """Measure parts of the table.

    Parameters
    ----------
    seed : int or None
        Seed of the audits. None: drawn from the operating system. The table states it.
    parts : sequence of str
        Among `PARTS`. Default: `DEFAULT_PARTS`.

    Raises
    ------
    InvalidArgument
        If a part is unknown.
    """
    require_parts(parts, PARTS)
    seed = root_seed(seed)
    chosen, began = parts or DEFAULT_PARTS, first_finding.processor_seconds()
    details, rows = list[Json](), list[Row]()
    for group in (each for each in GROUPS if each in chosen):
        for with_tests in (True, False) if group in TESTED else (False,):
            name = f"{group}, {'with' if with_tests else 'without'} tests"
            scans = [
                {"package": found.package, "group": name, "listed": len(found.mechanisms)}
                | _attempted(
                    found.package,
                    lambda: measured(found, with_tests=with_tests, seed=seed),  # noqa: B023
                )
                for found in listed()
                if found.group == group
            ]
            rows += _rows(name, scans, with_tests=with_tests)
            details += scans
    if "opendp" in chosen:
        own = _attempted(
            "scan of opendp", lambda: dict(zip(("rows", "found"), opendp.rows(), strict=True))
        )
        rows += own.pop("rows", ())
        details.append(own.pop("found", {"package": "opendp", "group": "opendp"} | own))
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
        seed_note("scan", seed),
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


def first_scans() -> dict[str, Json]:
    """Return the counts of the first scan of each draw."""
    return tomllib.loads(Path(__file__).with_name("first_scans.toml").read_text(encoding="utf-8"))


def _rows(group: str, details: Iterable[Json], *, with_tests: bool) -> Iterator[Row]:
    """Yield the shares of a group of scans, and the number of wrong accusations."""
    total = Counter[str]()
    for each in details:
        total.update({key: value for key, value in each.items() if isinstance(value, int)})
        total["accused wrongly"] += len(each.get("wrongly accused", ()))
    parts = {
        "sites": (total["sites"], total["sites listed"]),
        "found": (total["found"], total["listed"]),
        "right": (total["right"], total["listed"]),
        "claims": (total["right"], total["right"] + total["wrong"]),
    }
    for key, (part, of) in parts.items():
        if of:
            required = REQUIRED[key][0 if with_tests else 1]
            yield Row(f"{group}: {TEXTS[key]}", required, part / of, "share", counts=(part, of))
    if total["sites listed"]:
        case = f"{group}: wrong accusations"
        yield Row(case, 0, total["accused wrongly"], "mechanisms", at_most=True)
