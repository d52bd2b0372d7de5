"""A report in a folder: JSON as the source of truth, markdown and plots for a person, a witness file for each violation."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpwitness.auditors.results.verdicts import Result, environment, strict
from dpwitness.mechanisms.terms.reading import Json
from dpwitness.mechanisms.terms.validation import InvalidArgument
from dpwitness.mechanisms.terms.writing import write_json, write_text
from dpwitness.reports.audit.facts import Entry
from dpwitness.reports.audit.markdown import markdown
from dpwitness.reports.audit.summary import family, tally_of_verdicts
from dpwitness.reports.audit.wording import slugs

SCHEMA = 1
_WITNESS = re.compile(r"witness-[A-Za-z0-9._-]+\.json")


def check_writable(folder: Path | str) -> Path:
    """Create `folder` if it is missing and try it, so that nobody runs an audit for an hour before learning that it cannot be kept.

    Raises
    ------
    InvalidArgument
        If no file can be written there; the message names the folder and the reason.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InvalidArgument(f"report folder must be writable, got {str(path)!r}: {error.strerror or error}") from None
    return path


def result_json(result: Result | Mapping[str, Any]) -> Json:
    """A result as the JSON that a report is made of: what `to_json` gives, and under ``"witness"`` what replay needs.

    This is what a worker process sends to the one that writes the report.
    """
    if isinstance(result, Mapping):
        return dict(result)
    return result.to_json() | {"witness": getattr(result, "witness", None)}


def write_report(
    results: Sequence[Result | Mapping[str, Any]],
    folder: Path | str,
    *,
    title: str,
    command: str | None = None,
    stem: str = "audit",
    plots: bool = True,
) -> Path:
    """Write ``audit.json``, ``audit.md``, plots, and ``witness-NAME.json`` for each violation into `folder`.

    Parameters
    ----------
    results : sequence of Result or dict
        Results, or what `result_json` made of them.
    folder : Path
        Created if missing.
    title, command : str
        Head of the report, and the command that made it.
    stem : str
        Name of the two main files, without their suffix.
    plots : bool
        Whether to draw; matplotlib is imported only then.

    Returns
    -------
    Path
        The markdown file.
    """
    path = check_writable(folder)
    if slugs([stem]) != [stem.lower()]:
        raise InvalidArgument(f"write_report: stem must be letters, digits, dots and dashes, got {stem!r}")
    data = [strict(dict(result_json(result))) for result in results]
    together, here = family(data), strict(environment())
    parts = slugs(str(result.get("name", "")) for result in data)
    entries, drawings = [], {}
    for i, (result, slug) in enumerate(zip(data, parts, strict=True)):
        result["witness_file"] = f"witness-{slug}.json" if result.get("witness") else None
        found = _drawings(result, slug) if plots else {}
        drawings.update(found)
        shown = tuple((f"{text} of {slug}", file) for file, (text, _) in found.items())
        entries.append(Entry(result, slug, result["witness_file"], shown, together.adjusted.get(i) if together else None))
    overview = "summary.svg" if plots and _comparable(data) else None

    document = {
        "schema_version": SCHEMA,
        "title": title,
        "command": command,
        "environment": here,
        "verdicts": tally_of_verdicts(data),
        "holm": {"error": together.error, "adjusted": [together.adjusted.get(i) for i in range(len(data))]} if together else None,
        "results": data,
    }
    _forget_witnesses(path, stem, {entry.witness_file for entry in entries})
    write_json(path / f"{stem}.json", document)
    for entry in entries:
        if entry.witness_file:
            write_json(path / entry.witness_file, entry.result["witness"])
    text = markdown(entries, title=title, command=command, environment=here, together=together, overview=overview)
    write_text(path / f"{stem}.md", text)
    for file, (_, draw) in drawings.items():
        draw(path / file)
    if overview:
        from dpwitness.reports.audit.plots import plot_overview

        plot_overview(data, path / overview)
    return path / f"{stem}.md"


def _forget_witnesses(folder: Path, stem: str, kept: set[str | None]) -> None:
    """Remove the witnesses of the report that is replaced: one beside a new NOT_REFUTED would speak of a run that is gone."""
    with contextlib.suppress(InvalidArgument, OSError, ValueError, AttributeError, TypeError, KeyError):
        for result in json.loads((folder / f"{stem}.json").read_text(encoding="utf-8"))["results"]:
            name = result.get("witness_file")
            if isinstance(name, str) and _WITNESS.fullmatch(name) and name not in kept:
                (folder / name).unlink(missing_ok=True)


def _drawings(result: Json, slug: str) -> Json:
    """File name -> (what it shows, function that draws it), for the plots that this result has the data for."""
    from dpwitness.reports.audit import plots

    found: Json = {}
    if plots.has_profile(result):
        found[f"profile-{slug}.svg"] = ("Privacy profile", lambda path: plots.plot_profile(result, path))
    if plots.has_tradeoff(result):
        found[f"tradeoff-{slug}.svg"] = ("Trade-off curve", lambda path: plots.plot_tradeoff(result, path))
    if result.get("kind") == "sensitivity" and result.get("trace"):
        found[f"search-{slug}.svg"] = ("Ratio over the search", lambda path: plots.plot_search(result, path))
    if result.get("kind") == "utility" and len(result.get("points") or []) > 1:
        found[f"scaling-{slug}.svg"] = ("Error and its power", lambda path: plots.plot_scaling(result, path))
    if result.get("kind") == "trace" and plots.losses_of_calls(result):
        found[f"calls-{slug}.svg"] = ("Loss by call", lambda path: plots.plot_calls(result, path))
    return found


def _comparable(results: Sequence[Json]) -> bool:
    from dpwitness.reports.audit.plots import relative

    return sum(relative(result) is not None for result in results) > 1
