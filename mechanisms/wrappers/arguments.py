"""The arguments that a function receives in a run: its dataset, labels, and randomness.

Only a parameter with one of the names in `SEEDS` receives randomness. The caller provides all other
arguments.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import random
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from dpwitness.core.values.validation import InvalidArgument, MechanismFailed

GENERATORS = ("rng", "generator", "random_generator", "prng", "gen", "np_random")
SEEDS = ("rng", "random_state", "seed", *GENERATORS[1:], "rs", "key")

_KEYWORD_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_POSITIONAL_KINDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


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
    make = _maker(next(p for p in parameters(function) or [] if p.name == name))
    return lambda rng: {str(name): make(rng)}


def _seed(rng: Any) -> int:
    """Return a random 32-bit seed."""
    return int(rng.integers(2**32))


def _maker(taken: inspect.Parameter) -> Callable[[Any], Any]:
    """Return a function of the generator that makes the argument of one parameter.

    The kind of object follows from the annotation, else from an integer default, else from the
    name.
    """
    note = taken.annotation
    text = (
        note
        if isinstance(note, str)
        else f"{getattr(note, '__module__', '')}.{getattr(note, '__name__', note)}"
    )
    integer_default = type(taken.default) is int
    if taken.default is random or isinstance(taken.default, random.Random):
        return lambda rng: random.Random(_seed(rng))
    if (
        taken.default is np.random
        or isinstance(taken.default, np.random.RandomState)
        or "RandomState" in text
        or (taken.name == "rs" and "int" not in text and not integer_default)
    ):
        return lambda rng: np.random.RandomState(_seed(rng))
    if "random.Random" in text or text == "Random":
        return lambda rng: random.Random(_seed(rng))
    if "torch" in text:
        return lambda rng: sys.modules["torch"].Generator().manual_seed(_seed(rng))
    if taken.name == "key" and "jax" in sys.modules:
        return lambda rng: sys.modules["jax"].random.PRNGKey(_seed(rng))
    if taken.name in GENERATORS and not integer_default and text.rpartition(".")[2] != "int":
        return lambda rng: rng
    return _seed


def seeding_notes(function: Any, name: str) -> Tuple[str, ...]:
    """Return a note for reports on the seeding of a function or class."""
    found = keyword(function)
    if found is None:
        return (
            f"{name} takes no seed; numpy.random, random, secrets and torch were seeded globally",
        )
    return (
        f"{name} is given {found}"
        + ("" if found in GENERATORS else ", with a new value for each run"),
    )


def missing(function: Any, first: int = 1) -> List[str]:
    """Return the names of the required parameters that are neither among the first ones nor receive
    randomness.
    """
    open_parameters, seed_name = parameters(function) or [], keyword(function)
    positional = [p for p in open_parameters if p.kind in _POSITIONAL_KINDS][:first]
    kinds = (*_POSITIONAL_KINDS, inspect.Parameter.KEYWORD_ONLY)
    required = [
        p.name
        for p in open_parameters
        if p not in positional and p.default is p.empty and p.kind in kinds
    ]
    return [name for name in required if name != seed_name]


def takes_labels(function: Any) -> bool:
    """Return whether the second parameter is required and has a name for labels, as in ``fit(X,
    y)``.
    """
    positional = [p for p in parameters(function) or [] if p.kind in _POSITIONAL_KINDS]
    return (
        len(positional) > 1
        and positional[1].name in ("y", "label", "labels", "target", "targets")
        and positional[1].default is inspect.Parameter.empty
    )


def dataset_converter(function: Any) -> Callable[[Any], Any]:
    """Return a function that converts a dataset to the annotated type of the first parameter: a
    list, a pandas Series or DataFrame.
    """
    positional = [p for p in parameters(function) or [] if p.kind in _POSITIONAL_KINDS]
    note = positional[0].annotation if positional else ""
    text = note if isinstance(note, str) else str(getattr(note, "__name__", note))
    text = text.partition("[")[0].rpartition(".")[2]
    if text in ("Series", "DataFrame"):

        def frame(dataset: Any) -> Any:
            import pandas

            return (
                getattr(pandas, text)(dataset)
                if isinstance(dataset, (np.ndarray, list))
                else dataset
            )

        return frame
    if text in ("list", "List", "Sequence", "tuple", "Tuple"):
        kind = tuple if text in ("tuple", "Tuple") else list
        return lambda dataset: (
            kind(dataset.tolist()) if isinstance(dataset, np.ndarray) else dataset
        )
    return lambda dataset: dataset


def check_names(
    owner: str, function: Callable[..., Any], arguments: Dict[str, Any], name: str
) -> None:
    """Raise InvalidArgument for an argument that the function does not take."""
    taken = parameters(function)
    if taken is None or any(p.kind is p.VAR_KEYWORD for p in taken):
        return
    names = [p.name for p in taken if p.kind in _KEYWORD_KINDS]
    for key in arguments:
        if key not in names:
            similar = difflib.get_close_matches(key, names, 1)
            hint = f"did you mean {similar[0]!r}?" if similar else f"it takes {', '.join(names)}"
            raise InvalidArgument(
                f"{owner}: {name} has no argument {key!r}; {hint if names else 'it takes none'}"
            )


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
    array is y.
    """
    fields = (
        dataset
        if isinstance(dataset, dict)
        else {key: getattr(dataset, key) for key in ("x", "y") if hasattr(dataset, key)}
    )
    if {"x", "y"} <= set(fields):
        counts = fields.get("multiplicity", getattr(dataset, "multiplicity", None))
        x, y = np.asarray(fields["x"]), np.asarray(fields["y"])
        return (x, y) if counts is None else (np.repeat(x, counts, axis=0), np.repeat(y, counts))
    if (
        isinstance(dataset, (tuple, list))
        and len(dataset) == 2
        and all(isinstance(part, np.ndarray) for part in dataset)
    ):
        return dataset[0], dataset[1]
    if labeled and label is None and hasattr(dataset, "iloc") and getattr(dataset, "ndim", 0) == 2:
        return dataset.iloc[:, :-1], dataset.iloc[:, -1]
    rows = np.array(dataset)
    if rows.ndim == 1:
        rows = rows[:, None]
    if labeled and label is None:
        if rows.shape[1] < 2:
            raise MechanismFailed(
                "labels are required: give rows with the label in the last column, or (X, "
                f"y); got shape {rows.shape}"
            )
        label = -1
    if label is None:
        return rows, None
    if not -rows.shape[1] <= label < rows.shape[1]:
        raise MechanismFailed(
            f"from_estimator: label must be a column of the dataset, got {label} for shape "
            f"{rows.shape}"
        )
    return np.delete(rows, label, axis=1), rows[:, label]
