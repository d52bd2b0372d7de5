"""Target file of a scan: one function for each mechanism, with the reason for its claim, and
commented skeletons for the rest.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from dpwitness.auditors.scanning.package_discovery import TypedEntries
from dpwitness.auditors.scanning.proposals import Proposal, relation_words
from dpwitness.auditors.scanning.source import (
    PUBLIC_VALUE,
    file_header,
    function_source,
    open_epsilon,
    spent_source,
)
from dpwitness.auditors.scanning.vocabulary import role
from dpwitness.core.values.json_reader import Json

_HEADER = """Targets of {title}, proposed by `dpwitness scan`.

Each function makes `size` runs and returns one output each. Its attribute `claim` is what an audit tests, and `domain` says which datasets
are neighbors. `guessed` says what the scan has guessed: a violation of a guessed claim is SUSPECT, not VIOLATED. Correct what is wrong,
and delete the line `guessed` where the claim is right. Then:

    dpwitness audit {file}:NAME{python}
"""  # noqa: E501


def target_file(
    proposals: Sequence[Proposal],
    *,
    title: str,
    file: str,
    about: Json,
    python: str | None = None,
    root: str = "",
    preamble: str = "",
    typed: TypedEntries = TypedEntries(),  # noqa: B008 - immutable
) -> str:
    """Return the text of a target file.

    Parameters
    ----------
    proposals : sequence of Proposal
        Proposals for the public names of a package.
    title, file : str
        Package and version, and name of the file, for the first lines.
    about : dict
        Facts about the package (`Discovered.about`).
    python : str, optional
        Interpreter of the package.
    root : str
        Folder to import from, relative to the file; empty for an installed package.
    preamble : str
        Lines of Python before the imports (`Discovered.preamble`).
    typed : TypedEntries
        Entries of typed constructors.
    """
    running = [p for p in proposals if p.runs and p.recipe is not None]
    needed = {each for p in running if p.recipe is not None for each in p.recipe.imports}
    option = f" --python {python}" if python else ""
    parts = [
        file_header(
            sorted(needed),
            _HEADER.format(title=title, file=file, python=option),
            root=root,
            preamble=preamble,
        )
    ]
    if about.get("distribution"):
        parts.append(f"LIBRARY = {about['distribution']!r}\n")
    parts += (
        [PUBLIC_VALUE]
        if any(
            "public_value(" in line
            for p in proposals
            if p.recipe is not None
            for line in p.recipe.body
        )
        else []
    )
    parts += [_declared(p) for p in proposals if p.reading.declared and p.runs]
    parts += [entry(p) for p in running]
    related = [p for p in running if p.recipe is not None and open_epsilon(p.recipe)]
    parts += [_relations(related)] if related else []
    parts += _typed(typed, "|=" if related else "=") if typed.entries else []
    parts += [skeleton(p) for p in proposals if p.is_skeleton]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _declared(proposal: Proposal) -> str:
    """Return the import of an object that declares its own claim and domain."""
    name = proposal.reading.name
    alias = "" if proposal.target == name.name else f" as {proposal.target}"
    return (
        f"# {name.path} {proposal.reading.because}.\nfrom {name.module} import {name.name}{alias}\n"
    )


def _comment(text: str) -> list[str]:
    """Return comment lines without the leading ``# ``."""
    return textwrap.wrap(text, 118, break_long_words=False)


def entry(proposal: Proposal) -> str:
    """Return the source of one target with its reasons."""
    recipe, name = proposal.recipe, proposal.target
    assert recipe is not None
    reading = proposal.reading
    words = f": {recipe.claim.words}" if recipe.claim.words else ""
    comments = [
        *_comment(f"{reading.name.path}: {recipe.form.what}."),
        *_comment(f"claim: {reading.because}{words}"),
        *_comment(f"relation: {relation_words(reading, recipe)}."),
    ]
    text = function_source(name, recipe, comments=comments)
    lines = []
    if recipe.spent:
        lines += [
            "",
            "",
            *spent_source(name, recipe).splitlines(),
            "",
            "",
            f"{name}.claim = _{name}_claim",
        ]
    else:
        lines += ["", "", f'{name}.claim = "{recipe.claim.text}"']
    lines.append(f"{name}.domain = {recipe.form.domain!r}")
    if proposal.guess:
        lines.append(f"{name}.guessed = {proposal.guess!r}")
    if proposal.trial is not None and not proposal.trial.seeded:
        lines.append(f"{name}.seeded = False  # the same seed gives other outputs")
    return text + "\n".join(lines).removeprefix("\n") + "\n"


def skeleton(proposal: Proposal) -> str:
    """Return a commented entry that lists the missing parts."""
    reading, name = proposal.reading, proposal.target
    lines = [
        *_comment(f"TODO {reading.name.path}: {proposal.why}."),
        *_comment(f"read as a {proposal.role}, because of its {reading.because}."),
    ]
    recipe = proposal.recipe
    lines += (
        function_source(name, recipe).splitlines()
        if recipe is not None
        else [f"def {name}(dataset, size, rng):", f"    return {reading.name.path}(...)"]
    )
    claim = recipe.claim.text if recipe is not None and recipe.claim.text else "..."
    lines += [
        f'{name}.claim = "{claim}"',
        f"{name}.domain = {recipe.form.domain if recipe else '...'!r}",
    ]
    return "\n".join(f"# {line}".rstrip() for line in lines) + "\n"


def _relations(proposals: Sequence[Proposal]) -> str:
    """Return the declarations of relations between runs at several values of epsilon, which need no
    claim.
    """
    lines = ["TARGETS = {", "    # relations between runs at several values of epsilon"]
    for proposal in proposals:
        recipe, name = proposal.recipe, proposal.target
        assert recipe is not None
        additive = recipe.form.domain["kind"] == "Answers" and recipe.form.relation in ("l1", "l2")
        additive &= not {role(parameter) for parameter in recipe.parameters} & {
            "lower",
            "upper",
            "bounds",
        }
        only = ["zero_epsilon_is_constant", *(["more_epsilon_spreads_no_more"] if additive else [])]
        guess = f"{name} with epsilon = 0 promises an output without information" + (
            ", and adds noise to its answer" if additive else ""
        )
        delta = re.fullmatch(r"approx:.*,(.*)", recipe.claim.text)
        declaration = {
            "kind": "metamorphic",
            "at_epsilon": name,
            "only": only,
            **({"delta": float(delta[1])} if delta else {}),
            "guessed": guess,
        }
        lines.append(f"    '{name}_at_epsilon': {declaration!r},")
    return "\n".join([*lines, "}"]) + "\n"


def _typed(typed: TypedEntries, assign: str) -> list[str]:
    """Return the sources of entries of typed constructors, each with its program in a comment, and
    their declarations.
    """
    parts = ["\n".join(["from math import inf, nan  # in datasets", "", *typed.header]) + "\n"]
    for each in typed.entries:
        comments = [
            f"# {line}"
            for line in (
                *_comment(f"{each.target}: {each.why}"),
                *_comment(f"claim: {each.because}"),
            )
        ]
        parts.append("\n".join(comments) + "\n" + each.source + "\n")
    declared = [each for each in typed.entries if each.declaration]
    lines = [
        f"TARGETS {assign} {{",
        *(f"    {each.target!r}: {each.declaration!r}," for each in declared),
        "}",
    ]
    return [*parts, "\n".join(lines) + "\n"]
