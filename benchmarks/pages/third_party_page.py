"""Page of the audits of third-party libraries, made from the JSON file of the suite or from the
page's own JSON file.

``python -m dpwitness.benchmarks.pages third-party reports/published DIR...`` publishes reports of
``dpwitness suite third-party --report DIR``. ``python -m dpwitness.benchmarks.pages
third-party-exact reports/published ADAPTER=PYTHON... FINDINGS.json...`` audits declared accountants
of adapters, each with an interpreter that has its library, adds findings of scans, asks the package
index for the newest releases, and writes the page again. Rows of other sources stay.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpwitness.benchmarks.pages.exact_audits import exact_parts, newest_release, section
from dpwitness.core.values.atomic_files import write_json, write_text
from dpwitness.core.values.json_reader import Json, read_json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.core.values.wording import count, figure, number
from dpwitness.reports.wording import code, escaped_markdown, table, verdict

Found = Json


def page(found: Found) -> str:
    """Return the markdown of the page from the JSON of the suite."""
    rows = found["rows"]
    by_library: dict[str, list[Found]] = {}
    for row in rows:
        by_library.setdefault(f"{row['library']} {row['version']}", []).append(row)
    blocks = [
        "# Third-party libraries, audited",
        *_introduction_paragraphs(found, by_library),
        *_trace_comparison(rows),
    ]
    for library, group in sorted(by_library.items(), key=lambda item: item[0].lower()):
        blocks += _library_section(library, group, found["witnesses"])
    if found.get("exact"):
        blocks += section(found["exact"], rows)
    if found["missing"]:
        lines = [f"- {name}: `{line}`" for name, line in found["missing"].items()]
        blocks += [
            "## Not run",
            "Their environments were not installed. To install them:",
            "\n".join(lines),
        ]
    return "\n\n".join(blocks) + "\n"


def _plural(found: int, noun: str) -> str:
    return f"{found:,} {noun}{'s' * (found != 1)}"


def _agreement_sentence(right: int, wrong: int) -> str:
    """Return a sentence on the verdicts whose truth is known."""
    if not right + wrong:
        return "The true privacy of no target is known from analysis."
    agree = (
        f"{_plural(right, 'verdict')} agree{'s' * (right == 1)}, {wrong} do{'es' * (wrong == 1)} "
        "not"
    )
    known = f"The true privacy of {_plural(right + wrong, 'target')} is known from analysis"
    return f"{known}: {agree if wrong else 'all verdicts agree with it'}."


def _introduction_paragraphs(found: Found, by_library: Mapping[str, Sequence[Found]]) -> list[str]:
    rows, settings = found["rows"], found["settings"]
    value = [row for row in rows if row["verdict"] == "VIOLATED"]
    bits = [
        row for row in rows if row["verdict"] != "VIOLATED" and row["bit_verdict"] == "VIOLATED"
    ]
    right, wrong = (sum(row["right"] is is_right for row in rows) for is_right in (True, False))
    return [
        f"{_plural(len(rows), 'target')} of {_plural(len(by_library), 'release')}, each run "
        f"in its own interpreter. {len(value)} "
        f"{'is' if len(value) == 1 else 'are'} refuted at the level of values, {len(bits)} "
        "more at the level of float bits only; for the "
        f"other {len(rows) - len(value) - len(bits)} nothing was found. "
        f"{_agreement_sentence(right, wrong)}",
        "Each row is an observation that can be repeated: one release, one call, one claim, "
        "one neighboring relation, one pair of "
        "datasets. It is not a judgment on a library, and a row where nothing was found "
        "proves no privacy. Where a library's documentation "
        "does not say which relation its parameter is meant for, both were tried, and a "
        "refuted row names the relation.",
        "Pairs come from the domain that each target file declares; none was given by hand. "
        "*Certified* is a lower bound on the claim's "
        f"parameter at confidence {settings['confidence']}, each level apart; *limit* is the "
        "median of the best test on that pair "
        "with as many runs, where the law of the mechanism is known. *CPU* is the time that "
        "the library itself took. "
        "*Bits* looks at the lowest set bits of floating-point outputs; a dash stands for "
        "outputs without any. *Gray box* is what a trace "
        "of a few pairs found, and whether an audit on its pair confirmed that.",
        "Made by `dpwitness suite third-party --report DIR`, after `dpwitness targets setup "
        "NAME...`; any refuted row can be reproduced with `dpwitness replay WITNESS`. Libraries "
        "that take no seed are marked with a star: their counts differ from run to run. Seed "
        f"{settings['seed']}.",
    ]


def _library_section(library: str, group: Sequence[Found], witnesses: str) -> list[str]:
    header = [
        "target",
        "claim",
        "relation",
        "values",
        "certified",
        "limit",
        "bits",
        "certified in bits",
        "runs",
        "CPU",
    ]
    lines = table([*header, "gray box", "witness"], [_table_row(row, witnesses) for row in group])
    causes = [
        _cause_paragraph(row)
        for row in group
        if row["verdict"] == "VIOLATED" or row["bit_verdict"] == "VIOLATED"
    ]
    first = group[0]
    where = (
        f"Python {first['python']}, NumPy {first['numpy']}."
        if first["python"]
        else "A program, driven over its standard input."
    )
    return [f"## {library}", where, "\n".join(lines), *causes, *_trace_list(group)]


def _table_row(row: Found, witnesses: str) -> list[str]:
    name = f"{row['key']} " if row["key"] else ""
    link = f"[JSON]({witnesses}{row['witness']})" if row["witness"] else ""
    bits = verdict(row["bit_verdict"]).lower() if row["bit_verdict"] else "-"
    return [
        f"{name}{code(row['target'])}{'' if row['seeded'] else '*'}",
        code(row["claim"]),
        str(row["relation"] or "-"),
        verdict(row["verdict"]).lower()
        + (f": {escaped_markdown(row['error'])}" if row["error"] else ""),
        f"{row['parameter']} > {figure(row['parameter_lower'])}",
        figure(row["limit"]),
        bits,
        f"epsilon > {figure(row['bit_epsilon_lower'])}"
        if number(row["bit_epsilon_lower"])
        else "-",
        count(row["trials"]),
        f"{row['cpu_seconds']:g} s",
        _format_trace(row),
        link,
    ]


def _format_trace(row: Found) -> str:
    """Format the findings of a target's trace, with the number of runs."""
    found = row.get("gray_box")
    if not found:
        return "-"
    if found["verdict"] == "ERROR":
        return "no trace"
    confirmed = ", not confirmed" if found["findings"] else ""
    if found["verdict"] == "VIOLATED":
        confirmed = f", {row['parameter']} > {figure(found['certified'])}"
    return f"{_kinds(found)} in {found['runs']} runs{confirmed}"


def _kinds(trace: Found) -> str:
    return ", ".join(dict.fromkeys(f["kind"] for f in trace["findings"])) or "nothing"


def _trace_list(group: Sequence[Found]) -> list[str]:
    """Return the findings of a library's traces as a markdown list."""
    lines = []
    for row in group:
        found = row.get("gray_box") or {"findings": []}
        for finding in found["findings"]:
            where = f" at {code(finding['where'])}" if finding["where"] else ""
            if found["verdict"] == "VIOLATED":
                confirmed = f"certified {row['parameter']} > {figure(found['certified'])}"
            elif found["audit_runs"]:
                confirmed = f"not confirmed by an audit of {count(found['audit_runs'])} runs"
            else:
                confirmed = "no matter for an audit of outputs"
            lines.append(
                f"- {code(row['target'])}, {finding['kind']}: "
                f"{escaped_markdown(finding['told'])}{where}; "
                f"pair: {escaped_markdown(found['pair'])}; {confirmed}."
            )
    return ["Traces:", "\n".join(lines)] if lines else []


def _trace_comparison(rows: Sequence[Found]) -> list[str]:
    """Return the section that compares the cost of finding the known violations with a trace and
    with an audit of outputs.
    """
    known_violations = [
        row for row in rows if row["key"] and row["verdict"] == "VIOLATED" and row.get("gray_box")
    ]
    if not known_violations:
        return []
    header = ["row", "trace finds", "runs", "CPU", "the audit certifies", "runs", "CPU"]
    lines = []
    for row in known_violations:
        found = row["gray_box"]
        trace_cells = [_kinds(found), str(found["runs"]), f"{found['cpu_seconds']:.2g} s"]
        audit_cells = [
            f"{row['parameter']} > {figure(row['parameter_lower'])}",
            count(row["trials"]),
            f"{row['cpu_seconds']:g} s",
        ]
        lines.append([f"{row['key']} {code(row['target'])}", *trace_cells, *audit_cells])
    return [
        "## Known violations, by a trace and by runs",
        "A *trace* records the noise of one run and replays it on the neighboring dataset "
        "(`dpwitness trace`). It looks inside: "
        "a few runs show an error and its place in the code; a finding is not certified "
        "until an audit has confirmed it. CPU is "
        "the time of the library.",
        "\n".join(table(header, lines)),
    ]


def _cause_paragraph(row: Found) -> str:
    at_values = row["verdict"] == "VIOLATED"
    event = row["description"] if at_values else row["bit_description"]
    bound = (
        f"{row['parameter']} > {figure(row['parameter_lower'])}"
        if at_values
        else f"epsilon > {figure(row['bit_epsilon_lower'])}"
    )
    pair = row["pair"]
    level = "" if at_values else ", by float bits"
    seen = (
        f"Pair: {escaped_markdown(pair['why'])} (D0 {code(pair['d0'])}, D1 {code(pair['d1'])}). "
        f"Event: {escaped_markdown(event)}."
    )
    known = f"{escaped_markdown(row['doc'])} {escaped_markdown(row['cause'])}"
    return (
        f"**{code(row['target'])}** ({bound} against {code(row['claim'])}{level}). {known} {seen}"
    )


def _write(found: Found, folder: Path) -> None:
    write_json(folder / "third-party.json", found)
    write_text(folder / "third-party.md", page(found))


def write(folder: Path, *reports: str) -> None:
    """Publish reports of the suite: the page, its JSON, and the witnesses in a folder
    ``third-party``.

    Rows of later reports replace rows of earlier reports.

    Raises
    ------
    InvalidArgument
        If a folder does not contain a report of the suite.
    """
    together: Found = {}
    rows: dict[str, tuple[Found, Path]] = {}
    for report in map(Path, reports):
        source = report / "third-party.json"
        if not source.is_file():
            raise InvalidArgument(
                "reports must be folders that `dpwitness suite third-party --report` wrote, "
                f"got {str(report)!r}"
            )
        found = read_json(source, "publish")
        together = found | {"missing": together.get("missing", {}) | found["missing"]}
        rows |= {row["name"]: (row, report) for row in found["rows"]}
    together["rows"] = sorted(
        (row for row, _ in rows.values()), key=lambda row: int(row["key"][1:] or 1000)
    )
    together["missing"] = {
        name: line for name, line in together["missing"].items() if name not in rows
    }
    together["witnesses"] = "third-party/"
    if (folder / "third-party.json").is_file():
        before = read_json(folder / "third-party.json", "publish")
        together |= {key: before[key] for key in before.keys() & {"exact"}}
    shutil.rmtree(folder / "third-party", ignore_errors=True)
    (folder / "third-party").mkdir(parents=True)
    for row, report in rows.values():
        if row["witness"]:
            name = Path(row["witness"]).name
            shutil.copy(report / name, folder / "third-party" / name)
    _write(together, folder)


def rewrite(folder: Path, *sources: str) -> None:
    """Write the published page after each source of `exact_parts`, and at the end with the newest
    release of each refuted library.
    """
    found = read_json(folder / "third-party.json", "publish")
    before = found.get("exact") or {}
    for name, exact in exact_parts(sources, before):
        _write(found | {"exact": {"newest": {}} | exact}, folder)
        print(f"{name}: {exact['failed'].get(name, 'done')}", flush=True)
    refuted = [
        row["library"] for row in (*found["rows"], *exact["rows"]) if row["verdict"] == "VIOLATED"
    ]
    newest = {library: newest_release(library) for library in dict.fromkeys(refuted)}
    _write(found | {"exact": exact | {"newest": newest}}, folder)
