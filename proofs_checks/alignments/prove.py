"""Proof or refutation of a loop program: alignments are searched and checked; without one, an audit
looks for a violation.

First the function is compared with the program that the reader understood: both run on the same
queries with the same noise. The proof is about the program, with the arithmetic of real numbers;
Python runs the function. Where the two differ, there is no proof.
"""

from __future__ import annotations

import ast
import itertools
import math
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
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
from dpwitness.proofs_checks.alignments.checker import (
    DIRECTIONS,
    Alignment,
    Obligations,
    execute,
    failed_obligation,
)
from dpwitness.proofs_checks.alignments.floating_point import MOST, zero_problem
from dpwitness.proofs_checks.alignments.program import (
    BREAK,
    SIZE,
    Append,
    LoopProgram,
    NoiseCall,
    Numbers,
    value,
)
from dpwitness.proofs_checks.alignments.reader import read
from dpwitness.proofs_checks.alignments.search import (
    Trial,
    alignments,
    candidates,
    inductive,
    random_parameters,
    survivors,
    trial_runs,
)
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
        Assumptions of the proof.
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
    # the promise covers the defaults of the parameters with this number of queries
    pairs = [
        pair
        for pair in _patterns(program)
        if value(program.where, {**program.defaults, SIZE: len(pair[0])}, Numbers)
    ]
    if not pairs:
        raise InvalidArgument(f"prove: the defaults of {program.name} do not satisfy {where!r}")
    if differs := difference(function, program, seed):
        raise InvalidArgument(f"prove: {differs}. A proof would not hold for this function")
    members = alignments(program)
    promise = f"({ast.unparse(program.budget)})-DP where {where}; {_NEIGHBORS[program.neighbors]}"
    common: dict[str, Any] = {"name": program.name, "promise": promise, "tried": len(members)}
    found = (
        _proved(program, direction, members, seed, start + seconds)
        for direction in DIRECTIONS[program.neighbors]
    )
    proofs = tuple(proof for proof in found if proof is not None)
    if len(proofs) == len(DIRECTIONS[program.neighbors]):
        if problem := zero_problem(program):
            raise InvalidArgument(
                f"prove: {program.name}: {problem}. The proof is about real numbers, which "
                "have one zero"
            )
        return ProofResult(
            verdict=Verdict.CERTIFIED, proofs=proofs, seconds=time.monotonic() - start, **common
        )
    late = ("the search for a proof ended at its time limit",)
    notes = late if time.monotonic() > start + seconds else ()
    if not trials:
        return ProofResult(
            verdict=Verdict.INCONCLUSIVE, notes=notes, seconds=time.monotonic() - start, **common
        )
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
    is_violated = result.verdict is Verdict.VIOLATED
    where = (
        f"the audit ran at the defaults of the parameters, on {len(chosen)} pairs that refute "
        "many alignments"
    )
    return ProofResult(
        verdict=Verdict.VIOLATED if is_violated else Verdict.INCONCLUSIVE,
        audit=result,
        notes=(*notes, where, *(() if is_violated else (f"audit: {result.headline()}",))),
        seconds=time.monotonic() - start,
        **common,
    )


def _proved(
    program: LoopProgram,
    direction: tuple[int, int],
    members: list[Alignment],
    seed: int,
    deadline: float,
) -> Proved | None:
    """Return the first alignment with invariants that the checker proves for one direction."""
    for alignment in survivors(trial_runs(program, direction, seed), members, deadline):
        obligations = Obligations(program, direction, alignment)
        invariants = inductive(obligations, candidates(program), deadline) if program.query else []
        if not failed_obligation(program, direction, alignment, invariants):
            return Proved(
                direction,
                {name: str(shift) for name, shift in alignment.items()},
                tuple(invariants),
            )
    return None


def _ranked(
    program: LoopProgram,
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
            Trial(program, dict(program.defaults), left, right, random.Random(1000 * k + run))
            for run in range(3)
        ]
        ranked.append(sum(any(trial.refutes(each) for trial in runs) for each in sample))
    relation = "l1" if program.neighbors == "one" else "linf"
    best = sorted(range(len(pairs)), key=lambda k: -ranked[k])[:_PAIRS]
    return [
        Pair(np.array(pairs[k][0]), np.array(pairs[k][1]), relation, "refutes alignments")
        for k in best
    ]


def _patterns(program: LoopProgram) -> list[tuple[list[float], list[float]]]:
    """Return pairs on which the losses of all queries add up: answers that rise, fall or change
    places (Ding et al. 2018).
    """
    found: list[tuple[list[float], list[float]]] = []
    for size in (10, 5, 2):
        half, ones, zeros = size // 2, [1.0] * size, [0.0] * size
        mixed = [[1.0] * part + [-1.0] * (size - part) for part in (1, half, size - 1)]
        rising, falling = ones[:half] + zeros[half:], zeros[:half] + ones[half:]
        changes = {
            "one": [[float(k == place) for k in range(size)] for place in (0, half, size - 1)],
            "monotone": [ones, ones[:1] + zeros[1:], rising],
            "all": [ones, *mixed, *([-step for step in change] for change in mixed)],
        }[program.neighbors]
        found += [(zeros, change) for change in changes]
        found += [(falling, rising)] if program.neighbors == "all" else []
    return found


Call = tuple[str, float]  # law and scale of a noise call
_RUNS = 30
_TOLERANCE = 1e-6  # of outputs, relative to the largest number that enters


class ForcedNoise:
    """Stand-in for a numpy generator that returns given noise and records the calls."""

    def __init__(self, noise: Iterator[float]) -> None:
        self.noise = noise
        self.calls: list[Call] = []

    def laplace(self, loc: float = 0.0, scale: float = 1.0) -> float:
        """Return `loc` plus the next noise."""
        self.calls.append(("laplace", scale))
        return float(loc) + next(self.noise)

    def exponential(self, scale: float = 1.0) -> float:
        """Return the absolute value of the next noise."""
        self.calls.append(("exponential", scale))
        return abs(next(self.noise))


class Exact(Numbers):
    """Values of expressions as integers and fractions: the arithmetic of real numbers."""

    @staticmethod
    def number(value: float) -> Any:
        """Return a number without rounding: a float becomes the fraction that its text states, as
        0.1 a tenth.
        """
        return Fraction(repr(value)) if isinstance(value, float) else value

    @staticmethod
    def constant(value: float, kind: str) -> Any:
        """Return the value of a parameter, a query or noise without rounding, if its kind is
        ``real``.
        """
        return Fraction(repr(value)) if kind == "real" else value

    @staticmethod
    def quotient(value: Any, divisor: float) -> Any:
        """Return the quotient by a number."""
        return Fraction(value) / Exact.number(divisor)


def run(
    program: LoopProgram,
    parameters: Mapping[str, Any],
    queries: list[float],
    noise: Iterator[float],
    terms: Any = Numbers,
) -> tuple[Any, list[Call]]:
    """Return the output and the noise calls of a program on given noise, by the semantics of the
    proof.
    """
    public = {**parameters, SIZE: len(queries)}
    names = {name: terms.constant(each, program.types[name]) for name, each in public.items()}
    lists: defaultdict[str, list[Any]] = defaultdict(list)
    calls: list[Call] = []

    def draw(call: NoiseCall, *_: Any) -> Any:
        calls.append((call.law, float(min(call.scale.at(public), Fraction(MOST)))))
        drawn = next(noise)
        return terms.constant(abs(drawn) if call.law == "exponential" else drawn, "real")

    def emit(statement: Append, _: Any, each: Any) -> None:
        lists[statement.target].append(each)

    def segment(number: int) -> None:
        names[BREAK] = names[BREAK] if number == 1 else terms.number(False)
        execute(program.segments[number], names, terms.number(True), terms, draw, emit)

    segment(0)
    for index, query in enumerate(queries if program.query else ()):
        names |= {
            program.query: terms.constant(query, "real"),
            program.index: terms.constant(index, "int"),
        }
        segment(1)
    segment(2)
    output = tuple(
        value(item, names, terms) if item in program.returns else lists[ast.unparse(item)]
        for item in program.returned
    )
    return (output if program.is_tuple else output[0]), calls


def _cases(
    program: LoopProgram, seed: int, runs: int
) -> Iterator[tuple[dict[str, Any], list[float], list[float]]]:
    """Yield parameters that the promise allows, queries, and noise."""
    rng = random.Random(seed)
    for k in range(runs):
        parameters = random_parameters(program, rng) if k % 2 else dict(program.defaults)
        width, size = rng.choice((0.1, 1.0, 30.0)), rng.choice((0, 1, 2, 3, 5, 9))
        queries = [
            rng.choice(
                (round(2 * rng.gauss(0, 1)) / 2, rng.gauss(0, width), 1000 * rng.gauss(0, 1))
            )
            for _ in range(size)
        ]
        public = {**parameters, SIZE: size}
        # the checker requires that the promise implies positive divisors
        is_positive = all(public[name] > 0 for name in program.positive)
        if is_positive and value(program.where, public, Numbers):
            draws = (size + 2) * len(program.noises)
            yield parameters, queries, [rng.gauss(0, width) for _ in range(draws)]


def difference(
    function: Any, program: LoopProgram, seed: int, terms: Any = Exact, runs: int = _RUNS
) -> str:
    """Return where a function and its program differ: in outputs, noise calls or exceptions, in
    runs with equal noise; empty if nowhere.
    """
    for parameters, queries, noise in _cases(program, seed, runs):
        forced = ForcedNoise(iter(noise))
        expected, calls = run(program, parameters, queries, iter(noise), terms)
        try:
            found = function(list(queries), forced, **parameters)
        except Exception as error:  # an exception is an output that the program does not have
            found = error
        tolerance = 0.0 if terms is Numbers else _TOLERANCE * max(map(abs, (1.0, *queries, *noise)))
        case = f"on queries {queries} with {parameters}, {program.name}"
        if not _same(found, expected, tolerance):
            return (
                f"{case} returns {found!r}, and {_shown(expected)} in the arithmetic of real "
                "numbers"
            )
        if [law for law, _ in calls] != [law for law, _ in forced.calls] or not all(
            math.isclose(a, b, rel_tol=1e-9)
            for (_, a), (_, b) in zip(calls, forced.calls, strict=True)
        ):
            return f"{case} draws {forced.calls}, and {calls} in the proof"
    return ""


def _same(found: Any, expected: Any, tolerance: float) -> bool:
    """Return whether two outputs have equal types, lengths and numbers; a real number has no
    negative zero.
    """
    are_alike = type(found) is (float if isinstance(expected, Fraction) else type(expected))
    if not are_alike:
        return False
    if isinstance(expected, list | tuple):
        tolerances = itertools.repeat(tolerance)
        return len(found) == len(expected) and all(map(_same, found, expected, tolerances))
    if isinstance(expected, Fraction):
        distance = tolerance + _TOLERANCE * abs(expected)
        is_number = math.isfinite(found) and str(found) != "-0.0"
        return is_number and bool(abs(Fraction(found) - expected) <= distance)
    return bool(found == expected) or repr(found) == repr(expected)


def _shown(expected: Any) -> str:
    if isinstance(expected, list | tuple):
        return f"({', '.join(map(_shown, expected))})"
    return str(float(expected) if isinstance(expected, Fraction) else expected)
