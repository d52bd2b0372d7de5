"""The arguments that a function receives in a run: its dataset, labels, and randomness.

Only a parameter with one of the names in `SEEDS` receives randomness. The caller provides all other
arguments.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import random
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from dpwitness.core.values.validation import InvalidArgument, MechanismFailed, did_you_mean

GENERATORS = ("rng", "generator", "random_generator", "prng", "gen", "np_random")
SEEDS = ("rng", "random_state", "seed", *GENERATORS[1:], "rs", "key")

_KEYWORD_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
POSITIONAL_KINDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def parameters(function: Any) -> Optional[List[inspect.Parameter]]:
    """Return the parameters that are not bound yet; None for a callable without a signature."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    bound = getattr(function, "keywords", None)
    return [p for p in found if not (isinstance(bound, dict) and p.name in bound)]


def keyword(function: Any) -> Optional[str]:
    """Return the name of the parameter that receives randomness; None if there is none."""
    found = {p.name: p for p in parameters(function) or [] if p.kind in _KEYWORD_KINDS}
    for name in SEEDS:
        if name in found and not (
            name == "key"
            and found[name].default is not inspect.Parameter.empty
            and "jax" not in sys.modules
        ):
            return name
    return None


def randomness_argument(function: Any) -> Callable[[Any], Dict[str, Any]]:
    """Return a function of the generator that returns the keyword argument with the randomness, or
    no argument.
    """
    name = keyword(function)
    if name is None:
        return lambda rng: {}
    taken = next(p for p in parameters(function) or [] if p.name == name)
    make = _FROM_RNG[_kind_of_randomness(taken)]
    return lambda rng: {str(name): make(rng)}


def _seed(rng: Any) -> int:
    """Return a random 32-bit seed."""
    return int(rng.integers(2**32))


# how to make the randomness from the audit's generator
_FROM_RNG: Dict[str, Callable[[Any], Any]] = {
    "random": lambda rng: random.Random(_seed(rng)),
    "RandomState": lambda rng: np.random.RandomState(_seed(rng)),
    "torch": lambda rng: sys.modules["torch"].Generator().manual_seed(_seed(rng)),
    "jax": lambda rng: sys.modules["jax"].random.PRNGKey(_seed(rng)),
    "seed": _seed,
    "generator": lambda rng: rng,
}


def _kind_of_randomness(taken: inspect.Parameter) -> str:
    """Return the kind of object that one parameter receives, a key of `_FROM_RNG`.

    The default decides if it is a generator, then the annotation, then the name; an integer default
    or annotation asks for a seed.
    """
    note = taken.annotation
    if not isinstance(note, str):
        note = f"{getattr(note, '__module__', '')}.{getattr(note, '__name__', note)}"
    of_default = (
        ("random", taken.default is random or isinstance(taken.default, random.Random)),
        (
            "RandomState",
            taken.default is np.random or isinstance(taken.default, np.random.RandomState),
        ),
    )
    of_annotation = (
        ("RandomState", "RandomState" in note),
        ("random", "random.Random" in note or note == "Random"),
        ("torch", "torch" in note),
        ("jax", taken.name == "key" and "jax" in sys.modules),
        ("seed", type(taken.default) is int or note.rpartition(".")[2] == "int"),
    )
    of_name = (
        ("RandomState", taken.name == "rs" and "int" not in note),
        ("generator", taken.name in GENERATORS),
    )
    rules = (*of_default, *of_annotation, *of_name, ("seed", True))
    return next(kind for kind, holds in rules if holds)


def seeding_notes(function: Any, name: str) -> Tuple[str, ...]:
    """Return a note for reports on the seeding of a function or class."""
    found = keyword(function)
    if found is None:
        return (
            f"{name} takes no seed; numpy.random, random, secrets and torch were seeded globally",
        )
    renewed = "" if found in GENERATORS else ", with a new value for each run"
    return (f"{name} is given {found}{renewed}",)


def missing(function: Any, first: int = 1) -> List[str]:
    """Return the names of the required parameters that are neither among the first ones nor receive
    randomness.
    """
    taken, seed_name = parameters(function) or [], keyword(function)
    first_ones = [p.name for p in taken if p.kind in POSITIONAL_KINDS][:first]
    return [
        p.name
        for p in taken
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and p.default is p.empty
        and p.name not in (seed_name, *first_ones)
    ]


def takes_labels(function: Any) -> bool:
    """Return whether the second parameter is required and has a name for labels, as in ``fit(X,
    y)``.
    """
    positional = [p for p in parameters(function) or [] if p.kind in POSITIONAL_KINDS]
    return (
        len(positional) > 1
        and positional[1].name in ("y", "label", "labels", "target", "targets")
        and positional[1].default is inspect.Parameter.empty
    )


def dataset_converter(function: Any) -> Callable[[Any], Any]:
    """Return a function that converts a dataset to the annotated type of the first parameter: a
    list, a pandas Series or DataFrame.
    """
    positional = [p for p in parameters(function) or [] if p.kind in POSITIONAL_KINDS]
    note = positional[0].annotation if positional else ""
    text = note if isinstance(note, str) else str(getattr(note, "__name__", note))
    text = text.partition("[")[0].rpartition(".")[2]
    if text not in _CONVERTERS:
        return lambda dataset: dataset
    plain, convert = _CONVERTERS[text]
    return lambda dataset: convert(dataset) if isinstance(dataset, plain) else dataset


def _pandas(name: str) -> Callable[[Any], Any]:
    """Return a function that makes a Series or a DataFrame."""

    def convert(data: Any) -> Any:
        return getattr(importlib.import_module("pandas"), name)(data)

    return convert


# name of an annotation -> classes of datasets that are converted, conversion
_CONVERTERS: Dict[str, Tuple[Any, Callable[[Any], Any]]] = {
    **{name: ((np.ndarray, list), _pandas(name)) for name in ("Series", "DataFrame")},
    **dict.fromkeys(("list", "List", "Sequence"), (np.ndarray, lambda data: data.tolist())),
    **dict.fromkeys(("tuple", "Tuple"), (np.ndarray, lambda data: tuple(data.tolist()))),
}


def check_names(
    owner: str, function: Callable[..., Any], arguments: Dict[str, Any], name: str
) -> None:
    """Raise InvalidArgument for an argument that the function does not take."""
    taken = parameters(function)
    if taken is None or any(p.kind is p.VAR_KEYWORD for p in taken):
        return
    names = [p.name for p in taken if p.kind in _KEYWORD_KINDS]
    unknown = [key for key in arguments if key not in names]
    if unknown:
        hint = did_you_mean(unknown[0], names) or f"; it takes {', '.join(names) or 'none'}"
        raise InvalidArgument(f"{owner}: {name} has no argument {unknown[0]!r}{hint}")


def bound(
    owner: str, function: Callable[..., Any], arguments: Dict[str, Any], name: str
) -> Callable[..., Any]:
    """Return the function with its arguments bound. Raises InvalidArgument for an unknown name, or
    a required argument that is missing.
    """
    check_names(owner, function, arguments, name)
    found = functools.partial(function, **arguments) if arguments else function
    lacking = missing(found, 2 if takes_labels(found) else 1)
    if lacking:
        example = ", ".join(f"{key}=..." for key in lacking)
        raise InvalidArgument(
            f"{owner}: {name} needs {', '.join(lacking)}: give {example}. Only a parameter "
            f"named {', '.join(SEEDS)} receives randomness"
        )
    return found


def parts(dataset: Any, label: Optional[int], labeled: bool = False) -> Tuple[Any, Any]:
    """Return X and y of a dataset; y is None without labels. With `labeled`, the last column of an
    array is y. Raise MechanismFailed if required labels are missing.
    """
    keys = ("x", "y", "multiplicity")
    fields = dataset if isinstance(dataset, dict) else {k: getattr(dataset, k, None) for k in keys}
    if not any(fields.get(key) is None for key in ("x", "y")):
        x, y, counts = np.asarray(fields["x"]), np.asarray(fields["y"]), fields.get("multiplicity")
        return (x, y) if counts is None else (np.repeat(x, counts, axis=0), np.repeat(y, counts))
    is_pair = isinstance(dataset, (tuple, list)) and len(dataset) == 2
    if is_pair and all(isinstance(part, np.ndarray) for part in dataset):
        return dataset[0], dataset[1]
    if labeled and label is None and hasattr(dataset, "iloc") and np.ndim(dataset) == 2:
        return dataset.iloc[:, :-1], dataset.iloc[:, -1]
    rows = np.array(dataset)
    if rows.ndim == 1:
        rows = rows[:, None]
    if label is None and not labeled:
        return rows, None
    column, columns = -1 if label is None else label, rows.shape[1]
    if columns < 2 or not -columns <= column < columns:
        raise MechanismFailed(
            f"labels are required: give rows with the label in column {column} and at least one "
            f"other column, or (X, y); got shape {rows.shape}"
        )
    return np.delete(rows, column, axis=1), rows[:, column]
