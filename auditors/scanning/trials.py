"""Trial calls of proposed recipes in a worker of the package's interpreter: which of them return random outputs."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpwitness.auditors.scanning.recipes import Recipe
from dpwitness.auditors.scanning.source import file_header, function_source, spent_source
from dpwitness.mechanisms.core.validation import InvalidArgument
from dpwitness.mechanisms.foreign.target import Target
from dpwitness.mechanisms.foreign.worker_pool import CONFINED, build_domain
from dpwitness.mechanisms.protocols.mechanism import MechanismFailed

_RUNS = 12
_PAIRS = 5  # pairs of a domain on which a call is tried
_TRIAL_SECONDS = 15.0  # of one call
_NAME_SECONDS = 20.0  # of all calls of one name
_LEAKS_RAISE = """import warnings

warnings.filterwarnings("error", message="(?is).*(leak|privacy is lost|loss of privacy|not (differentially )?private|no longer private)")
"""  # a warning that privacy is lost makes the claim void
_SHOWN = 160
_MOST_CRASHES = 2  # crashes and time-outs after which a name is given up
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


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
    """

    works: bool
    why: str = ""
    seeded: bool = True
    seconds: float = 0.0
    constant: bool = False
    partial: bool = False


@contextmanager
def limits(folder: Path) -> Iterator[None]:
    """Run all workers that start in this block under limits: they may write below `folder` only, and have no network."""
    token = CONFINED.set(str(folder))
    try:
        yield
    finally:
        CONFINED.reset(token)


def write_trials(recipes: Mapping[str, Sequence[Recipe]], file: Path, *, root: str = "", network: bool = False) -> None:
    """Write all recipes of all names to one file, so that one worker imports the package once.

    Parameters
    ----------
    recipes : mapping of str to sequence of Recipe
        Recipes by the prefix of their functions.
    file : Path
        File to write.
    root : str
        Folder to import from, relative to the file; empty for an installed package.
    network : bool
        Whether the import of the package needs an answer from the network.
    """
    imports = sorted({each for group in recipes.values() for recipe in group for each in recipe.imports})
    texts = [trial_source(f"{prefix}_{number}", recipe) for prefix, group in recipes.items() for number, recipe in enumerate(group)]
    header = file_header(imports, "", root=root, network=network, safe=True)
    file.write_text("\n\n".join([header, _LEAKS_RAISE, *texts]) + "\n", encoding="utf-8")


def trial_source(name: str, recipe: Recipe) -> str:
    """Return the source of a trial function, with the claim where the library computes it."""
    text = function_source(name, recipe)
    return f"{text}\n\n{spent_source(name, recipe)}\n{name}.claim = _{name}_claim\n" if recipe.spent else text


def try_recipes(recipes: Sequence[Recipe], prefix: str, file: Path, python: str | None, memory: float, deadline: float) -> list[Trial]:
    """Try the recipes of one name in turn until one works, and return the outcomes; equal recipes are tried once."""
    found: list[Trial] = []
    seen: dict[str, Trial] = {}
    deadline = min(deadline, time.monotonic() + _NAME_SECONDS)
    for number, recipe in enumerate(recipes):
        if time.monotonic() > deadline or sum("took longer" in each.why or "killed" in each.why for each in found) >= _MOST_CRASHES:
            break
        key = "\n".join(recipe.body) + repr(recipe.form.domain)
        if key not in seen:
            seen[key] = _tried(Target(str(file), f"{prefix}_{number}", python, {}, _TRIAL_SECONDS, memory), recipe)
        found.append(seen[key])
        if found[-1].works and not found[-1].partial:
            break
    return found


def chosen(trials: Sequence[Trial]) -> int | None:
    """Return the number of the recipe to use: one that works on all datasets, else the first that works on some; None if none works."""
    working = [number for number, trial in enumerate(trials) if trial.works]
    return next((number for number in working if not trials[number].partial), working[0] if working else None)


def _tried(target: Target, recipe: Recipe) -> Trial:
    """Return the outcome of the trial calls of one recipe, on one pair of its domain."""
    try:
        started = time.monotonic()
        outputs, partial = _outputs_on_pair(target, recipe)
        if recipe.spent and target.claim is None:
            return Trial(False, "the library computes no claim")
    except (MechanismFailed, InvalidArgument) as error:
        return Trial(False, _line(error))
    seconds = (time.monotonic() - started) / (3 * _RUNS)
    errors = [each for each in (*outputs[0], *outputs[2]) if isinstance(each, Exception)]
    if errors:
        return Trial(False, f"raises {_line(errors[0])}")
    if any(each is None for each in outputs[0]):
        return Trial(False, "returns None", constant=True)
    kinds = [[_shown(each) for each in row] for row in outputs]
    if any(_ADDRESS.search(each) for each in kinds[0]):
        return Trial(False, f"returns an object that is no number or text: {_line(kinds[0][0])}")
    if len(set(kinds[0])) == 1 and len(set(kinds[2])) == 1:
        return Trial(False, "returns the same output in every run", constant=True)
    return Trial(True, "", kinds[0] == kinds[1], seconds, partial=partial)


def _outputs_on_pair(target: Target, recipe: Recipe) -> tuple[list[list[Any]], bool]:
    """Return outputs on D0, on D0 with the same seed, and on D1, of the first pair with random outputs, else of the first pair.

    The second value is whether an earlier pair raised an exception. Other pairs are tried while a pair raises a ValueError, because the
    data may have the wrong values, and for counts while the output is constant, because a threshold may be far away.
    """
    first: list[list[Any]] = []
    raised = False
    pairs = (pair for pair in build_domain(recipe.form.domain, "scan").catalogue() if pair is not None)
    for pair in itertools.islice(pairs, _PAIRS):
        outputs = [_outputs(target, pair.d0, 1), _outputs(target, pair.d0, 1), _outputs(target, pair.d1, 2)]
        first = first or outputs
        errors = [each for row in outputs for each in row if isinstance(each, Exception)]
        if not errors:
            if len({_shown(each) for row in outputs for each in row}) > 2 or recipe.form.domain["kind"] != "Counts":
                return outputs, raised
        elif not all("alue" in type(each).__name__ for each in errors):  # other values of the data would not help
            break
        raised |= bool(errors)
    return first, raised


def _outputs(target: Target, dataset: Any, seed: int) -> list[Any]:
    parts = target.sample_each(dataset, _RUNS, np.random.default_rng(seed))
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
