"""``dpwitness list``, which lists mechanisms, domains, suites, targets, claims and stored audits,
and ``dpwitness bench``.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable
from dataclasses import asdict
from types import ModuleType

from dpwitness.clone import from_clone
from dpwitness.commands import claims, store, targets
from dpwitness.commands import options as opts
from dpwitness.commands.common import print_json
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.terminal import OK, VIOLATED

Rows = list[Json]


def arguments(command: opts.Command) -> None:
    """Add the commands ``bench`` and ``list`` and their options to the parser."""
    bench = command(
        "bench", "run benchmarks of speed and bounds; ratios compare measurements of one run"
    )
    opts.add_options(
        bench,
        {
            "name": {"nargs": "?", "help": "name of a benchmark; default: all"},
            **opts.seed(
                "seed of the attacks of `adversarial`; default: drawn from the operating system"
            ),
            "--part": {
                "metavar": "PART",
                "action": "append",
                "default": [],
                "help": "part of `scan` or `sequential` to run, or of the names of "
                "attacks of `adversarial`; may be repeated; default: all, but of the draws of "
                "`scan` the newest only",
            },
            **opts.JSON,
        },
    )
    listing = command(
        "list",
        "list zoo mechanisms, mechanism classes, domains, relations, suites and benchmarks; "
        "or targets, claims, or stores FILE...",
    )
    opts.add_options(
        listing,
        {
            "what": {
                "nargs": "?",
                "choices": [*_SECTIONS, "targets", "claims", "stores"],
                "help": "list only this section",
            },
            "files": {"nargs": "*", "metavar": "FILE", "help": "stores whose audits are listed"},
            **opts.JSON,
        },
    )


def run(args: argparse.Namespace) -> int:
    """Run ``dpwitness list`` or ``dpwitness bench``, and return the exit code."""
    if args.command == "bench":
        return _run_bench(args)
    if bool(args.files) != (args.what == "stores"):
        raise InvalidArgument(
            f"{args.what} takes no FILE, got {args.files[0]}"
            if args.files
            else "stores needs one FILE or more, got none"
        )
    if args.what == "stores":
        return store.list_audits(args.files, args.json)
    if args.what in ("targets", "claims"):
        return {"targets": targets.list_environments, "claims": claims.list_claims}[args.what](
            args.json
        )
    found = {name: rows() for name, rows in _chosen_sections(args.what).items()}
    if args.json:
        print_json(found)
        return OK
    for i, (section, rows) in enumerate(found.items()):
        print(("\n" if i else "") + section)
        width = max((len(row["name"]) for row in rows), default=0)
        for row in rows:
            print(f"  {row['name']:<{width}}  {row['text']}".rstrip())
    return OK


def _chosen_sections(what: str | None) -> dict[str, Callable[[], Rows]]:
    """Return one section, or all; without a clone, all except the benchmarks."""
    if what is not None:
        return {what: _SECTIONS[what]}
    try:
        benchmarks()
    except InvalidArgument as error:
        print(error, file=sys.stderr)
        return {name: rows for name, rows in _SECTIONS.items() if name != "bench"}
    return _SECTIONS


def _zoo() -> Rows:
    """Return the rows of the zoo, with each claim and whether it holds."""
    from dpwitness.mechanisms.textbook.zoo import zoo

    rows = []
    for name, it in zoo().items():
        broken, claim = it.truth.breaks(it.claim), str(it.claim)
        text = f"claim {claim:<14} {f'broken: true {it.claim.symbol} = {it.truth.parameter:.4g}' if broken else 'kept'}"  # noqa: E501
        text += "" if it.truth.bits_safe else ", low bits leak"
        rows.append(
            {
                "name": name,
                "text": text,
                "claim": claim,
                "kept": not broken,
                "bits_safe": it.truth.bits_safe,
            }
        )
    return rows


def _mechanisms() -> Rows:
    from dpwitness import mechanisms

    rows = []
    for name in sorted(dir(mechanisms)):
        found = getattr(mechanisms, name)
        protocol = getattr(found, "_is_protocol", False)
        if (
            isinstance(found, type)
            and not protocol
            and hasattr(found, "sample")
            and hasattr(found, "claim")
        ):
            rows.append({"name": name, "text": (inspect.getdoc(found) or "").partition("\n")[0]})
    return rows


def _domains() -> Rows:
    """Return the rows of domains, each followed by its keys in a target file."""
    from dpwitness.core.domains import domain_kinds, field_texts

    rows: Rows = []
    for name, kind in domain_kinds().items():
        text = (inspect.getdoc(kind) or "").partition("\n\n")[0]
        keys = field_texts(kind)
        rows += [
            {"name": name, "text": " ".join(text.split()).replace("`", ""), "keys": keys},
            *({"name": f"  {key}", "text": words} for key, words in keys.items()),
        ]
    return rows


def _relations() -> Rows:
    from dpwitness.core.datasets.relations import OPTIONS, RELATIONS

    return [
        {
            "name": name
            + (f":{','.join(f'{option}=' for option in OPTIONS[name])}" if name in OPTIONS else ""),
            "text": text,
        }
        for name, text in RELATIONS.items()
    ]


def _suites() -> Rows:
    from dpwitness.suites import SUITES

    return [{"name": name, "text": found.text} for name, found in SUITES.items()]


# Rows of name and text by section; rows of the zoo also hold the claim and whether the mechanism
# satisfies it.
_SECTIONS: dict[str, Callable[[], Rows]] = {
    "zoo": _zoo,
    "mechanisms": _mechanisms,
    "domains": _domains,
    "relations": _relations,
    "suites": _suites,
    "bench": lambda: [
        {"name": name, "text": f"measured by {module}"}
        for name, module in benchmarks().BENCHMARKS.items()
    ],
}


def _run_bench(args: argparse.Namespace) -> int:
    """Run ``dpwitness bench``, print the required and measured value of each row, and return the
    exit code.

    A successful attack gives exit code 1.
    """
    found = benchmarks()
    if args.seed is not None and args.name is None:
        raise InvalidArgument(
            f"--seed is only for bench {', '.join(found.SEEDED_BENCHMARKS)}, got no name"
        )
    if args.part and args.name is None:
        raise InvalidArgument(
            f"--part is only for bench {', '.join(found.PARTED_BENCHMARKS)}, got no name"
        )
    tables = []
    for name in [args.name] if args.name else found.BENCHMARKS:
        tables.append(found.bench(name, args.seed, args.part))
        if not args.json:
            print(found.format_table(tables[-1]), flush=True)
    if args.json:
        print_json([asdict(table) for table in tables])
    return (
        VIOLATED
        if any(table.binding and not all(row.met for row in table.rows) for table in tables)
        else OK
    )


def benchmarks() -> ModuleType:
    """Return the registry of benchmarks. Raise InvalidArgument if dpwitness was installed without a
    clone.
    """
    return from_clone("", "dpwitness bench")
