"""Target file of a scan: one function for each mechanism, with the reason for its claim, and
commented skeletons for the rest.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpwitness.auditors.scanning.names import PublicName
from dpwitness.auditors.scanning.package_discovery import TypedEntries
from dpwitness.auditors.scanning.proposals import Proposal, relation_words
from dpwitness.auditors.scanning.readings import Reading, returned_quantity
from dpwitness.auditors.scanning.source import (
    PUBLIC_VALUE,
    file_header,
    function_source,
    open_epsilon,
    spent_source,
)
from dpwitness.auditors.scanning.vocabulary import SCALES, role
from dpwitness.core.values.json_reader import Json

_HEADER = """Targets of {title}, proposed by `dpwitness scan`.

Each function makes `size` runs and returns one output each. Its attribute `claim` is what an audit tests, and `domain` says which datasets
are neighbors. `guessed` says what the scan has guessed: a violation of a guessed claim is SUSPECT, not VIOLATED. Correct what is wrong,
and delete the line `guessed` where the claim is right. Then:

    dpwitness audit {file}:NAME{python}
"""  # noqa: E501


# words of arguments, and the parameter of `audit_accountant` that they are
_PARAMETERS: tuple[tuple[str, str], ...] = (
    (
        r"q|sample_rate|sampling_rate|sampling_prob(ability)?|sampling_probability|subsampling_rate|prob|gamma",
        "q",
    ),
    (
        r"steps|num_steps|n_steps|t|iterations|num_iterations|rounds|num_compositions|compositions|k|count|num_queries",
        "steps",
    ),
    (r"alpha|order|renyi_order", "order"),
    (r"mu", "mu"),
)


@dataclass(frozen=True, slots=True)
class AccountantEntry:
    """Entry of an accountant in TARGETS, the source of the function that it names, and what is
    missing.
    """

    declaration: Json
    source: tuple[str, ...]
    missing: str = ""


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
    accountants = [p for p in proposals if p.role == "accountant" and p.target]
    counted = [p.reading.name for p in accountants]
    imports = sorted(needed | {f"{n.module}:{n.name}" if n.shadowed else n.module for n in counted})
    option = f" --python {python}" if python else ""
    parts = [
        file_header(
            imports,
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
    found = {p.target: accountant_entry(p.reading, p.target) for p in accountants}
    complete = [p for p in accountants if not found[p.target].missing]
    parts += _accountants(found, complete) if complete else []
    related = [p for p in running if p.recipe is not None and open_epsilon(p.recipe)]
    parts += [_relations(related, "|=" if complete else "=")] if related else []
    parts += [
        _accountant_skeleton(p, found[p.target]) for p in accountants if found[p.target].missing
    ]
    parts += _typed(typed, "|=" if complete or related else "=") if typed.entries else []
    parts += [skeleton(p) for p in proposals if p.is_skeleton and p.role != "accountant"]
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


def _accountants(found: Mapping[str, AccountantEntry], proposals: Sequence[Proposal]) -> list[str]:
    """Return the functions of the accountants and the dict that declares them, with the reason in a
    comment above each entry.
    """
    lines = ["TARGETS = {"]
    for proposal in proposals:
        lines += [
            f"    # {line}"
            for line in _comment(f"{proposal.reading.name.path} {proposal.reading.because}.")
        ]
        lines.append(f"    {proposal.target!r}: {found[proposal.target].declaration!r},")
    return ["\n".join(found[proposal.target].source) + "\n" for proposal in proposals] + [
        "\n".join([*lines, "}"]) + "\n"
    ]


def _relations(proposals: Sequence[Proposal], assign: str) -> str:
    """Return the declarations of relations between runs at several values of epsilon, which need no
    claim.
    """
    lines = [f"TARGETS {assign} {{", "    # relations between runs at several values of epsilon"]
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


def _accountant_skeleton(proposal: Proposal, entry: AccountantEntry) -> str:
    lines = [
        *_comment(
            f"TODO {proposal.reading.name.path}: missing is {entry.missing}. It "
            f"{proposal.reading.because}."
        )
    ]
    lines += [*entry.source, f"TARGETS[{proposal.target!r}] = {entry.declaration!r}"]
    return "\n".join(f"# {line}" for line in lines) + "\n"


def accountant_entry(reading: Reading, target: str) -> AccountantEntry:
    """Return the entry of an accountant, with its guesses; `missing` names required arguments of
    unknown meaning.
    """
    name = reading.name
    mechanism = _mechanism(name)
    known = {
        p.name: _meaning(p.word, role(p), mechanism) for p in name.parameters or () if p.is_named
    }
    used = {argument: meaning for argument, meaning in known.items() if meaning}
    unknown = [
        p.name for p in name.parameters or () if p.required and p.is_named and not known[p.name]
    ]
    repeated = {meaning for meaning in used.values() if list(used.values()).count(meaning) > 1}
    missing = (
        f"the meaning of {', '.join(unknown)}"
        if unknown
        else f"several arguments may be {', '.join(sorted(repeated))}"
        if repeated
        else ""
    )
    returns = returned_quantity(reading)
    spelled = name.name if name.shadowed else name.path
    arguments = ", ".join(f"{each}={each}" for each in used)
    source = (f"def {target}({', '.join(used)}):", f"    return {spelled}({arguments})")
    declaration = {
        "kind": "accountant",
        "function": target,
        "mechanism": mechanism,
        "parameters": used,
        "returns": returns,
        "guessed": f"{name.name} returns {returns} of the {mechanism} mechanism, read from its "
        "name and from the names of its arguments",
    }
    return AccountantEntry(declaration, source, missing)


def _mechanism(name: PublicName) -> str:
    """Return the mechanism that a function accounts for, by its name, arguments and docstring."""
    text, words = f"{name.name} {name.doc[:600]}".lower(), [p.word for p in name.parameters or ()]
    sampled = any(_meaning(word, "other", "") == "q" for word in words)
    if "laplace" in text and "gauss" not in text:
        return "laplace"
    if any(word == "mu" for word in words) or "gdp" in name.name.lower():
        return "gdp"
    if any(role(p) == "rho" for p in name.parameters or ()):
        return "zcdp"
    return "subsampled-gaussian" if sampled else "gaussian"


def _meaning(word: str, part: str, mechanism: str) -> str:
    """Return the parameter of the mechanism that an argument stands for; empty if unknown."""
    if part in ("epsilon", "delta", "rho", "sensitivity"):
        return part
    if word in SCALES:
        return "scale" if mechanism == "laplace" else "sigma"
    return next((meaning for pattern, meaning in _PARAMETERS if re.fullmatch(pattern, word)), "")
