"""Proof or refutation of a loop program: alignments are searched and checked; without one, an audit
looks for a violation.
"""

from __future__ import annotations

import ast
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpwitness.auditors.audit.audit import audit
from dpwitness.auditors.audit.result import AuditResult
from dpwitness.auditors.witnesses.result import Result
from dpwitness.auditors.witnesses.verdicts import Verdict
from dpwitness.core.claims import PureDP
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.values.json_reader import Json
from dpwitness.core.values.validation import InvalidArgument, require_integer, require_positive
from dpwitness.mechanisms.wrappers.single_runs import one_run
from dpwitness.proofs_checks.alignments.checker import DIRECTIONS, Obligations, failed_obligation
from dpwitness.proofs_checks.alignments.expressions import Numbers, value
from dpwitness.proofs_checks.alignments.invariants import candidates, inductive
from dpwitness.proofs_checks.alignments.meaning import difference
from dpwitness.proofs_checks.alignments.product import Alignment
from dpwitness.proofs_checks.alignments.program import SIZE, Program
from dpwitness.proofs_checks.alignments.reader import read
from dpwitness.proofs_checks.alignments.search import Trial, alignments, survivors
from dpwitness.proofs_checks.alignments.search import trials as trial_runs
from dpwitness.proofs_checks.alignments.zeros import zero_problem
from dpwitness.proofs_checks.engine.ledger import need

ASSUMPTIONS = (
    "noise is drawn from the real Laplace and exponential laws, and arithmetic is that of "
    "the real numbers, not of floating point",
    "rng is a numpy.random.Generator, queries are real numbers, and the number of queries is "
    "public",
    "integer parameters and the number of queries are below 2**63",
    "outputs are compared as numbers; running time and memory are not outputs",
    "z3 is right where it answers `unsat`",
)
_NEIGHBORS = {
    "all": "each answer changes by at most 1",
    "one": "one answer changes by at most 1",
    "monotone": "all answers rise, or all fall, by at most 1",
}
_PAIRS = 6
_SAMPLE = 200  # alignments that rank the pairs


@dataclass(frozen=True, slots=True)
class Proved:
    """An alignment with the loop invariants that prove it, for one range of changes q' - q."""

    direction: tuple[int, int]
    alignment: Mapping[str, str]
    invariants: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ProofResult(Result):
    """Result of `prove`.

    Attributes
    ----------
    verdict : Verdict
        CERTIFIED if an alignment is proved: the promise is kept for every number of queries and all
        parameters that it allows, under `assumptions`. VIOLATED if the audit certifies a violation
        at the default values of the parameters. INCONCLUSIVE otherwise.
    promise : str
        The promised epsilon, the neighbors and the condition on the parameters.
    proofs : tuple
        For each direction of the change, the moves of the noise calls in words, and the loop
        invariants. Empty without a proof.
    assumptions : tuple of str
        What the proof takes for granted.
    tried : int
        Number of alignments of the template.
    audit : AuditResult or None
        The audit that looked for a violation; None if there is a proof.
    name, notes, seconds, target
        As in other results.
    """

    kind: ClassVar[str] = "proof"

    promise: str
    proofs: tuple[Proved, ...] = ()
    assumptions: tuple[str, ...] = ASSUMPTIONS
    tried: int = 0
    audit: AuditResult | None = None

    def _claim_text(self) -> str:
        return self.promise

    @property
    def evidence(self) -> str:
        """Return ``proved`` with a proof, and the evidence of the audit otherwise."""
        return "proved" if self.audit is None else self.audit.evidence

    def headline(self) -> str:
        """Return the verdict and its reason in one line."""
        if self.verdict is Verdict.CERTIFIED:
            return f"CERTIFIED: {self.promise}; any number of queries, ideal noise"
        if self.verdict is Verdict.VIOLATED and self.audit is not None:
            return self.audit.headline()
        return (
            f"INCONCLUSIVE: no proof by the {self.tried:,} alignments of the template, and no "
            "violation found"
        )

    def lines(self, data: Json, *, bits: bool = False) -> list[tuple[str, str]]:
        several = len(self.proofs) > 1
        moves = [
            f"{name} moves by {move}"
            + (f" (changes in {list(proof.direction)})" if several else "")
            for proof in self.proofs
            for name, move in proof.alignment.items()
        ]
        return [
            *(("alignment", move) for move in moves),
            *(("assumes", text) for text in (self.assumptions if self.proofs else ())),
            *(("note", note) for note in self.notes),
        ]

    def _fields(self) -> Json:
        proofs = [
            {
                "change": list(p.direction),
                "alignment": dict(p.alignment),
                "invariants": list(p.invariants),
            }
            for p in self.proofs
        ]
        return {
            "proofs": proofs,
            "assumptions": list(self.assumptions),
            "alignments_tried": self.tried,
            "audit": None if self.audit is None else self.audit.to_json(),
        }


def prove(
    function: Any,
    *,
    seconds: float = 60.0,
    trials: int = 100_000,
    confidence: float = 0.99,
    seed: int = 0,
) -> ProofResult:
    """Prove the promise of a loop program for all queries and parameters, or look for a violation.

    Parameters
    ----------
    function : callable
        A function with the decorator `provable`, in the subset of Python that the guide describes.
    seconds : float
        Approximate time limit of the search for a proof.
    trials : int
        Runs of the audit that looks for a violation where no proof is found, at the default values
        of the parameters; 0 for no audit.
    confidence : float
        Confidence of that audit.
    seed : int
        Root of all randomness.

    Returns
    -------
    ProofResult

    Raises
    ------
    InvalidArgument
        If the function is outside the subset, a number that it returns may be -0.0, or the defaults
        of its parameters do not satisfy its condition.
    MissingPackage
        If z3 is not installed: ``pip install 'dpwitness[proofs]'``.
    """
    start = time.monotonic()
    require_positive("seconds", seconds, "prove")
    require_integer("trials", trials, "prove", least=0)
    need("z3", "z3-solver")
    program = read(function)
    where = ast.unparse(program.where)
    pairs = [pair for pair in _patterns(program) if _allowed(program, len(pair[0]))]
    if not pairs:
        raise InvalidArgument(f"prove: the defaults of {program.name} do not satisfy {where!r}")
    if differs := difference(function, program, seed):
        raise InvalidArgument(f"prove: {differs}. A proof would not hold for this function")
    members = alignments(program)
    promise = f"({ast.unparse(program.budget)})-DP where {where}; {_NEIGHBORS[program.neighbors]}"
    common: dict[str, Any] = {"name": program.name, "promise": promise, "tried": len(members)}
    found = [
        _proof(program, direction, members, start + seconds, seed)
        for direction in DIRECTIONS[program.neighbors]
    ]
    proofs = tuple(proof for proof in found if proof is not None)
    if len(proofs) == len(found):
        if problem := zero_problem(program):
            raise InvalidArgument(
                f"prove: {program.name}: {problem}. The proof is about real numbers, which "
                "have one zero"
            )
        return ProofResult(
            verdict=Verdict.CERTIFIED, proofs=proofs, seconds=time.monotonic() - start, **common
        )
    notes = (
        ["the search for a proof ended at its time limit"]
        if time.monotonic() > start + seconds
        else []
    )
    result = None
    if trials:
        chosen = _ranked(program, pairs, members, seed)
        budget = max(
            float(value(program.budget, {**program.defaults, SIZE: len(pair.d0)}, Numbers))
            for pair in chosen
        )
        result = audit(
            one_run(function),
            claim=PureDP(budget),
            pair=chosen,
            trials=trials,
            confidence=confidence,
            seed=seed,
            name=program.name,
            bits=False,
        )
        notes += [
            f"the audit ran at the defaults of the parameters, on {len(chosen)} pairs that "
            "refute many alignments",
            *([] if result.verdict is Verdict.VIOLATED else [f"audit: {result.headline()}"]),
        ]
    verdict = (
        Verdict.VIOLATED
        if result is not None and result.verdict is Verdict.VIOLATED
        else Verdict.INCONCLUSIVE
    )
    return ProofResult(
        verdict=verdict,
        audit=result,
        notes=tuple(notes),
        seconds=time.monotonic() - start,
        **common,
    )


def _allowed(program: Program, size: int) -> bool:
    """Return whether the promise covers the defaults of the parameters with `size` queries."""
    return bool(value(program.where, {**program.defaults, SIZE: size}, Numbers))


def _proof(
    program: Program,
    direction: tuple[int, int],
    members: list[Alignment],
    deadline: float,
    seed: int,
) -> Proved | None:
    """Return the first alignment that the checker accepts with inductive invariants."""
    for alignment in survivors(program, trial_runs(program, direction, seed), members, deadline):
        found = Obligations(program, direction, alignment)
        invariants = inductive(found, candidates(program), deadline) if program.query else []
        if not failed_obligation(program, direction, alignment, invariants):
            return Proved(
                direction,
                {name: str(shift) for name, shift in alignment.items()},
                tuple(invariants),
            )
    return None


def _ranked(
    program: Program,
    pairs: list[tuple[list[float], list[float]]],
    members: list[Alignment],
    seed: int,
) -> list[Pair]:
    """Return the pairs that refute the most alignments of the template at the default
    parameters.
    """
    rng, ranked = random.Random(seed), []
    sample = members if len(members) <= _SAMPLE else rng.sample(members, _SAMPLE)
    for k, (left, right) in enumerate(pairs):
        runs = [
            Trial(dict(program.defaults), left, right, random.Random(1000 * k + run))
            for run in range(3)
        ]
        refuted = sum(
            any(trial.refutes(program, alignment) for trial in runs) for alignment in sample
        )
        ranked.append((-refuted, k, left, right))
    relation = "l1" if program.neighbors == "one" else "linf"
    best = sorted(ranked, key=lambda each: each[:2])[:_PAIRS]
    return [
        Pair(np.array(left), np.array(right), relation=relation, why="refutes alignments")
        for _, _, left, right in best
    ]


def _patterns(program: Program) -> list[tuple[list[float], list[float]]]:
    """Return pairs on which the losses of all queries add up: answers that rise, fall or change
    places (Ding et al. 2018).
    """
    found = []
    for size in (10, 5, 2):
        half = size // 2
        mixed = [[1.0] * part + [-1.0] * (size - part) for part in (1, half, size - 1)]
        changes = [[1.0] * size, *mixed, *([-step for step in change] for change in mixed)]
        if program.neighbors == "one":
            changes = [
                [1.0 if k == place else 0.0 for k in range(size)] for place in (0, half, size - 1)
            ]
        elif program.neighbors == "monotone":
            changes = [
                [1.0] * size,
                [1.0, *[0.0] * (size - 1)],
                [1.0] * half + [0.0] * (size - half),
            ]
        found += [([0.0] * size, change) for change in changes]
        if program.neighbors == "all":
            found.append(
                ([0.0] * half + [1.0] * (size - half), [1.0] * half + [0.0] * (size - half))
            )
    return found
