"""Trial calls of proposed recipes in a worker of the package's interpreter: which of them return
random outputs.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.auditors.scanning.recipes import Recipe
from dpwitness.auditors.scanning.source import (
    PUBLIC_VALUE,
    adapted,
    file_header,
    function_source,
    spent_source,
)
from dpwitness.core.protocols.mechanism import MechanismFailed
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.target import Target
from dpwitness.mechanisms.wrappers.programs.worker_pool import CONFINED, build_domain

_RUNS, _LEAST_RUNS = 12, 3  # of one batch: fewer where one run is slow
_BATCH_SECONDS = 5.0
_FAR = 1e4  # distance from the bounds of records at which a call is asked whether it clips
_LEAKS_RAISE = """import warnings

warnings.filterwarnings("error", message="(?is).*(leak|privacy is lost|loss of privacy|not (differentially )?private|no longer private)")
"""  # a warning that privacy is lost makes the claim void  # noqa: E501
_ADAPTED = '''
def adapted(dataset, size, rng, call="", source="", imports=()):
    """Run a function whose source was changed after an exception."""
    scope = globals()
    if scope.get(call + "_source") != source:
        import importlib

        scope.update({each: importlib.import_module(each) for each in imports})
        exec(source, scope)
        scope[call + "_source"] = source
    return scope[call](dataset, size, rng)
'''
_SHOWN = 160
_TRUTH = re.compile(
    r"(?i)(?<![a-z])(?:true|original|actual|raw|exact|real|unnoised|non_?private)(?![a-z])"
)  # names of values without noise
_ADDRESS = re.compile(r" at 0x[0-9a-f]+|<class 'missing\.")


@dataclass(frozen=True, slots=True)
class Trial:
    """Outcome of the trial calls of one recipe.

    Attributes
    ----------
    works : bool
        Whether all runs return an output, and the outputs are random.
    why : str
        Why the recipe is not used: the exception, or that the output is constant, or None.
    seeded : bool
        Whether the same seed gives the same outputs.
    seconds : float
        Time of one run.
    constant : bool
        Whether every run returns the same output.
    partial : bool
        Whether the call raises an exception on some datasets.
    follows : bool
        Whether the output follows its input number by number, also far outside of the bounds of the
        records, as noise on answers does.
    outcome : str
        The exception, or what is returned, in full.
    """

    works: bool
    why: str = ""
    seeded: bool = True
    seconds: float = 0.0
    constant: bool = False
    partial: bool = False
    follows: bool = False
    outcome: str = ""


@contextmanager
def limits(folder: Path) -> Iterator[None]:
    """Run all workers that start in this block under limits: they may write below `folder` only,
    and have no network.
    """
    token = CONFINED.set(str(folder))
    try:
        yield
    finally:
        CONFINED.reset(token)


def write_trials(
    recipes: Mapping[str, Sequence[Recipe]], file: Path, *, root: str = "", preamble: str = ""
) -> None:
    """Write all recipes of all names to one file, so that one worker imports the package once.

    Parameters
    ----------
    recipes : mapping of str to sequence of Recipe
        Recipes by the prefix of their functions.
    file : Path
        File to write.
    root : str
        Folder to import from, relative to the file; empty for an installed package.
    preamble : str
        Lines of Python before the imports (`Discovered.preamble`).
    """
    imports = sorted(
        {each for group in recipes.values() for recipe in group for each in recipe.imports}
    )
    texts = [
        trial_source(f"{prefix}_{number}", recipe)
        for prefix, group in recipes.items()
        for number, recipe in enumerate(group)
    ]
    header = file_header(imports, "", root=root, preamble=preamble, safe=True)
    file.write_text(
        "\n\n".join([header, _LEAKS_RAISE, PUBLIC_VALUE, _ADAPTED, *texts]) + "\n", encoding="utf-8"
    )


def trial_source(name: str, recipe: Recipe) -> str:
    """Return the source of a trial function, with the claim where the library computes it."""
    text = function_source(name, recipe)
    return (
        f"{text}\n\n{spent_source(name, recipe)}\n{name}.claim = _{name}_claim\n"
        if recipe.spent
        else text
    )


@dataclass(frozen=True, slots=True)
class TrialFile:
    """File of trial functions, with the interpreter and limits of their calls."""

    path: Path
    python: str | None
    memory: float

    def target(self, name: str, **kwargs: Any) -> Target:
        return Target(str(self.path), name, self.python, kwargs, 20.0, self.memory)


def try_recipes(
    recipes: Sequence[Recipe], prefix: str, file: TrialFile, deadline: float
) -> list[tuple[Recipe, Trial]]:
    """Try the recipes of one name in turn until one works, and return each with its outcome; equal
    recipes are tried once.

    Once a call for records has turned out to add noise to whatever number it is given, only calls
    for answers are tried. A recipe that works may be a changed one (`source.adapted`), for example
    with more columns of its data frame.
    """
    found: list[tuple[Recipe, Trial]] = []
    seen: dict[str, tuple[Recipe, Trial]] = {}
    deadline = min(deadline, time.monotonic() + 40.0)
    follows, failures = False, defaultdict[str, Counter[str]](Counter)
    for number, recipe in enumerate(recipes):
        # crashes and time-outs after which a name is given up
        if (
            time.monotonic() > deadline
            or sum("took longer" in t.why or "killed" in t.why for _, t in found) >= 2
        ):
            break
        # equal failures on different data after which a method is given up
        if (follows and not _is_answer(recipe)) or max(
            failures[_call(recipe)].values(), default=0
        ) >= 8:
            continue
        key = "\n".join(recipe.body) + repr(recipe.form.domain)
        if key not in seen:
            seen[key] = _tried_and_adapted(file, f"{prefix}_{number}", recipe, deadline)
            failures[_call(recipe)].update([seen[key][1].why] if not seen[key][1].works else [])
        found.append(seen[key])
        last = found[-1][1]
        if (
            last.works
            and not last.partial
            and not (last.follows and any(map(_is_answer, recipes[number:])))
        ):
            break
        follows |= last.follows
    return found


def _call(recipe: Recipe) -> str:
    """Return the method or function that the last line of a recipe calls, and the functions that
    make its public values.
    """
    return " ".join(
        [
            recipe.body[-1].partition("(")[0],
            *re.findall(r"public_value\(lambda: ([\w.]+)", "".join(recipe.body)),
        ]
    )


def _is_answer(recipe: Recipe) -> bool:
    return recipe.form.domain["kind"] in ("Answers", "Counts")


def chosen(trials: Sequence[tuple[Recipe, Trial]]) -> int | None:
    """Return the number of the recipe to use: the best of those that work; None if none works.

    A call that works on all datasets is better than one that works on some, and one whose output
    follows any input is one for answers.
    """
    working = [number for number, (_, trial) in enumerate(trials) if trial.works]
    follows = any(trials[number][1].follows for number in working)
    return min(
        working,
        key=lambda n: (trials[n][1].partial, follows and not _is_answer(trials[n][0]), n),
        default=None,
    )


def _tried_and_adapted(
    file: TrialFile, name: str, recipe: Recipe, deadline: float
) -> tuple[Recipe, Trial]:
    """Return a recipe after the changes that the outcomes of its trials suggest, and the outcome of
    the last.
    """
    trial, first = _tried(file.target(name), recipe), recipe
    for number in range(6):
        changed = None if trial.works or recipe.spent else adapted(recipe, trial.outcome)
        if changed is None or time.monotonic() > deadline:
            break
        recipe, call = changed, f"{name}_{number}"
        added = [each for each in recipe.imports if each not in first.imports]
        trial = _tried(
            file.target("adapted", call=call, source=function_source(call, recipe), imports=added),
            recipe,
        )
    # rows of other values may be filtered out, so that a constant output says nothing
    return recipe, trial if recipe is first else replace(trial, constant=False)


def _tried(target: Target, recipe: Recipe) -> Trial:
    """Return the outcome of the trial calls of one recipe, on one pair of its domain."""
    try:
        outputs, partial, seconds = _outputs_on_pair(target, recipe)
        if recipe.spent and target.claim is None:
            return Trial(False, "the library computes no claim")
    except (MechanismFailed, InvalidArgument) as error:
        return Trial(False, _line(error), outcome=str(error))
    errors = [each for each in (*outputs[0], *outputs[2]) if isinstance(each, Exception)]
    if errors:
        return Trial(
            False, f"raises {_line(errors[0])}", outcome=f"{type(errors[0]).__name__}: {errors[0]}"
        )
    if any(each is None for each in outputs[0]):
        return Trial(False, "returns None", constant=True, outcome="returns None")
    kinds = [[_shown(each) for each in row] for row in outputs]
    if any(_ADDRESS.search(each) for each in kinds[0]):
        return Trial(
            False,
            f"returns an object that is neither a number nor a text: {_line(kinds[0][0])}",
            outcome=kinds[0][0],
        )
    if part := _truth(outputs[0][0], recipe):
        return Trial(
            False,
            "returns the true value together with the noisy one",
            outcome=f"returns the true value in {part}",
        )
    if len(set(kinds[0])) == 1 and len(set(kinds[2])) == 1:
        return Trial(False, "returns the same output in every run", constant=len(kinds[0]) == _RUNS)
    return Trial(
        True, "", kinds[0] == kinds[1], seconds, partial=partial, follows=_follows(target, recipe)
    )


def _truth(output: Any, recipe: Recipe) -> list[str]:
    """Return the parts of an output that are named after the true value, and are no release; for a
    printed text, its words.
    """
    if isinstance(output, str):
        return _TRUTH.findall(output) if "printed" in recipe.body[-1] else []
    parts = dict(getattr(output, "dpwitness_parts", ())) or (
        output if isinstance(output, dict) else {}
    )
    return (
        [name for name in parts if isinstance(name, str) and _TRUTH.search(name)]
        if len(parts) > 1
        else []
    )


def _follows(target: Target, recipe: Recipe) -> bool:
    """Return whether outputs for records far outside of their bounds lie near them, record by
    record.
    """
    domain = recipe.form.domain
    if domain["kind"] != "Records" or recipe.claim.text.startswith("metric"):
        return False
    far = np.full(domain["size"], _FAR)
    try:
        outputs = [np.asarray(each, dtype=float) for each in _outputs(target, far, 1, 2)]
    except (MechanismFailed, InvalidArgument, TypeError, ValueError):
        return False
    return all(
        each.size == far.size and bool(np.all(np.abs(each.ravel() - _FAR) < _FAR / 4))
        for each in outputs
    )


def _outputs_on_pair(target: Target, recipe: Recipe) -> tuple[list[list[Any]], bool, float]:
    """Return outputs on D0, on D0 with the same seed, and on D1, of the first pair with random
    outputs, else of the first pair.

    The second value is whether an earlier pair raised an exception, the third the time of one run.
    Other pairs are tried while a pair raises a ValueError, because the data may have the wrong
    values, and for counts while the output is constant, because a threshold may be far away.
    """
    first: list[list[Any]] = []
    raised, seconds = False, 0.0
    pairs = (
        pair for pair in build_domain(recipe.form.domain, "scan").catalogue() if pair is not None
    )
    for pair in itertools.islice(pairs, 5):
        single, seconds = _timed(target, pair.d0)
        if seconds > _BATCH_SECONDS / _RUNS and not isinstance(single[0], Exception):
            single, seconds = _timed(target, pair.d0)  # the first run may load a library
        if isinstance(single[0], Exception):
            outputs = [single] * 3
        else:
            runs = min(_RUNS, max(_LEAST_RUNS, int(_BATCH_SECONDS / max(seconds, 1e-9))))
            outputs = [
                _outputs(target, pair.d0, 1, runs),
                _outputs(target, pair.d0, 1, runs),
                _outputs(target, pair.d1, 2, runs),
            ]
        first = first or outputs
        errors = [each for row in outputs for each in row if isinstance(each, Exception)]
        if not errors:
            if (
                len({_shown(each) for row in outputs for each in row}) > 2
                or recipe.form.domain["kind"] != "Counts"
            ):
                return outputs, raised, seconds
        elif not all(
            "alue" in type(each).__name__ for each in errors
        ):  # other values of the data would not help
            break
        raised |= bool(errors)
    return first, raised, seconds


def _timed(target: Target, dataset: Any) -> tuple[list[Any], float]:
    """Return the output of one run, and its time."""
    started = time.monotonic()
    return _outputs(target, dataset, 0, 1), time.monotonic() - started


def _outputs(target: Target, dataset: Any, seed: int, runs: int) -> list[Any]:
    parts = target.sample_each(dataset, runs, np.random.default_rng(seed))
    return [each for part in parts for each in part]


def _shown(value: Any) -> str:
    """Return a text for an output; different outputs have different texts."""
    if isinstance(value, np.ndarray):
        return repr((value.shape, value.tolist()))
    if isinstance(value, Exception):
        return repr(value)
    if isinstance(value, list | tuple):
        return repr([_shown(part) for part in value])
    if getattr(value, "dpwitness_parts", ()):
        return repr([(name, _shown(part)) for name, part in value.dpwitness_parts])
    if isinstance(value, dict):
        return repr({key: _shown(part) for key, part in value.items()})
    return repr(value)


def _line(error: object) -> str:
    text = " ".join(str(error).split())
    named = (
        f"{type(error).__name__}: {text}"
        if isinstance(error, Exception) and not isinstance(error, MechanismFailed | InvalidArgument)
        else text
    )
    return named if len(named) <= _SHOWN else named[: _SHOWN - 3] + "..."
