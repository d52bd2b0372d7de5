"""Audits of faulty functions and of their sound twins, for benchmarks of what an audit finds from
claim and domain alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.benchmarks.table import Row, Table, root_seed, seed_note

Arguments = dict[str, Any]  # of `audit`; `mechanism` among them
Members = Mapping[str, Callable[[bool], Arguments]]  # arguments with the fault, or without

ERROR = 0.01  # of one audit, at its default confidence of .99
CHANCE = 1e-3  # that sound twins alone exceed the limit of first accusations


def compare_twins(
    name: str,
    members: Members,
    groups: Mapping[str, list[str]],
    limit: float,
    *,
    seed: int | None,
    **options: Any,
) -> Table:
    """Audit each member with its fault and without, and return the share of faults found in each
    group, at least `limit`, and of twins accused.

    The loss of many twins is exactly the claim, so an audit refutes a few at its stated error. A
    twin counts as accused if a second audit with another seed refutes it too; first accusations
    must stay within what that error explains.

    Parameters
    ----------
    name
        Name of the benchmark.
    members
        Arguments of `audit` of each member.
    groups
        Names of the members in each group, by the label of its row.
    limit
        Required share of the faults found.
    seed
        Seed of all audits. None: drawn from the operating system.
    **options
        Further arguments of `audit`, for all members.
    """
    from scipy.stats import binom

    seed = root_seed(seed)
    found = _violated(members, True, seed=seed, **options)
    first = _violated(members, False, seed=seed, **options)
    suspects = {each: members[each] for each in members if first[each]}
    accused = dict.fromkeys(members, False) | _violated(suspects, False, seed=seed + 1, **options)
    by_error = float(binom.isf(CHANCE, len(members), ERROR)) / len(members)
    missed = [each for each in members if not found[each]]
    return Table(
        name,
        (
            *(
                _share(label, limit, {each: found[each] for each in some})
                for label, some in groups.items()
            ),
            _share("sound twins accused, twice", 0.0, accused, at_most=True),
            _share("sound twins accused by the first audit", by_error, first, at_most=True),
        ),
        (
            f"not found: {', '.join(missed) or 'none'}",
            f"accused by the first audit: {', '.join(suspects) or 'none'}",
            f"{seed_note(name, seed)}; the second audit of an accused twin has the next seed",
        ),
        tuple(
            {
                "name": each,
                "found": found[each],
                "twin accused first": first[each],
                "twin accused twice": accused[each],
            }
            for each in members
        ),
    )


def _violated(members: Members, fault: bool, **options: Any) -> dict[str, bool]:
    """Return whether an audit refutes the claim of each member."""
    return {
        name: audit(**arguments(fault), **options, clock="cpu", name=name).verdict
        is Verdict.VIOLATED
        for name, arguments in members.items()
    }


def _share(name: str, limit: float, some: Mapping[str, bool], *, at_most: bool = False) -> Row:
    """Return the row of the share of members that are violated."""
    hits = sum(some.values())
    return Row(name, limit, hits / len(some), "share", at_most=at_most, counts=(hits, len(some)))
