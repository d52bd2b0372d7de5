"""Recognition of the form of a mechanism: a batch function, a function of one run, an object, or an
estimator.

Needs only the standard library and NumPy, Python 3.8 or later. A form is a text: ``batch``,
``run``, ``object``, ``object.METHOD``, ``estimator.ATTRIBUTE``. The name of a target includes its
form as ``NAME as FORM``.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from dpwitness.core.values.validation import InvalidArgument, MechanismFailed

from .arguments import (
    POSITIONAL_KINDS,
    SEEDS,
    check_names,
    keyword,
    missing,
    parameters,
    randomness_argument,
    takes_labels,
)
from .single_runs import (
    DECLARABLE_ATTRIBUTES,
    PerRun,
    fresh,
    from_estimator,
    learned,
    made,
    one_run,
)

SIZES = (
    "size",
    "runs",
    "trials",
    "n_runs",
    "n_trials",
    "num_runs",
    "num_trials",
    "n_samples",
    "num_samples",
)
# these names may also mean something else
SHORT_SIZES = ("n", "m", "k", "count", "num", "samples", "draws", "batch")
DATA = (
    "data",
    "dataset",
    "database",
    "db",
    "x",
    "xs",
    "values",
    "records",
    "rows",
    "d",
    "df",
    "frame",
    "table",
    "array",
    "series",
    *("value", "item", "items", "input", "inputs", "true_value"),
)
# Names of methods that release an output.
RELEASES = (
    "release",
    "randomize",
    "randomise",
    "privatize",
    "perturb",
    "add_noise",
    "query",
    "answer",
    "respond",
    "run",
)
BOOKKEEPING = (
    "n_features_in_",
    "feature_names_in_",
    "n_iter_",
    "classes_",
    "n_samples_seen_",
    "n_outputs_",
    "epsilon_",
    "accountant_",
)


def split_form(name: str) -> Tuple[str, str]:
    """Return the name and the form of ``NAME as FORM``; the form is empty if it is missing."""
    base, _, form = name.partition(" as ")
    return base, form


def formed(found: Any, kwargs: Dict[str, Any], form: str) -> Any:
    """Return the mechanism that applies a form to a function or class. Raises InvalidArgument for
    an unknown form.
    """
    kind, _, detail = form.partition(".")
    builders: Dict[Tuple[str, bool], Callable[[], Any]] = {
        ("batch", False): lambda: _Batch(found, kwargs),
        ("run", False): lambda: one_run(found, **kwargs),
        ("object", False): lambda: fresh(found, **kwargs),
        ("object", True): lambda: fresh(found, detail, **kwargs),
        ("estimator", True): lambda: from_estimator(found, detail, **kwargs),
    }
    if (kind, bool(detail)) not in builders:
        raise InvalidArgument(
            f"form must be batch, run, object, object.METHOD or estimator.ATTRIBUTE, got {form!r}"
        )
    mechanism = builders[kind, bool(detail)]()
    for key in DECLARABLE_ATTRIBUTES:
        value = inspect.getattr_static(found, key, None)
        if value is not None and not hasattr(value, "__get__") and not callable(value):
            setattr(mechanism, key, value)
    return mechanism


class _Batch:
    """A batch function that receives the number of runs by name, and randomness by name or not at
    all.
    """

    def __init__(self, function: Any, kwargs: Dict[str, Any]) -> None:
        self.function = functools.partial(function, **kwargs) if kwargs else function
        names = [p.name for p in parameters(self.function) or []]
        self.size = next((name for name in (*SIZES, *SHORT_SIZES) if name in names[1:]), None)
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, dataset: Any, size: int, rng: Any) -> Any:
        if self.size is None:
            return self.function(dataset, size, rng)
        return self.function(
            dataset, **{self.size: size}, **randomness_argument(self.function)(rng)
        )


def recognize(
    found: Any, name: str, kwargs: Dict[str, Any], dataset: Any = None
) -> Tuple[str, str]:
    """Return the form of a target and a sentence that explains it; both are empty for a mechanism
    in the usual form.

    Raises
    ------
    InvalidArgument
        If the form is ambiguous, or an argument is missing; the message names the remedy.
    """
    if isinstance(found, PerRun) or hasattr(found, "sample") or not callable(found):
        return "", ""
    if isinstance(found, type):
        return _class_form(found, name, kwargs, dataset)
    check_names("--kwargs", found, kwargs, name)
    run = functools.partial(found, **kwargs) if kwargs else found
    form = _function_form(run, name, dataset)
    if form == "run":
        seed = keyword(run)
        seeding = "numpy.random, random, secrets and torch are seeded globally"
        if seed:
            seeding = f"its randomness is {seed}"
        if not inspect.isroutine(found) and not isinstance(found, functools.partial):
            seeding += "; runs share the state of this object"
        return form, (
            f"{name} is called once for each run; {seeding}. To override: --as batch, for "
            "f(dataset, size, rng)"
        )
    if form == "batch":
        size = _Batch(found, kwargs).size
        return form, (
            f"{name} returns {size} outputs in one call, each is taken as one run. "
            f"If {size} is an argument of one run, give it: --kwargs '{{\"{size}\": ...}}'"
        )
    return "", ""


def _missing_argument_error(name: str, missing_names: List[str]) -> InvalidArgument:
    """Return the error for missing arguments, with an example of how to give them."""
    example = ", ".join(f'"{key}": ...' for key in missing_names)
    return InvalidArgument(
        f"{name} needs {', '.join(missing_names)}: give --kwargs '{{{example}}}'. "
        f"Only a parameter named {', '.join(SEEDS)} receives randomness; a batch function is "
        "f(dataset, size, rng)"
    )


def _function_form(run: Any, name: str, dataset: Any) -> str:
    """Return the form of a function whose arguments are bound; a trial call decides where the names
    are ambiguous.
    """
    found = parameters(run)
    if found is not None:
        _require_dataset_first(found, name)
    positional = [p for p in found or [] if p.kind in POSITIONAL_KINDS]
    if not positional:
        return "" if _is_batch(run, dataset) else "run"
    names = [p.name for p in positional]
    required = [p.name for p in positional if p.default is p.empty]
    if names[1:2] == required[1:2] and len(names) >= 3:
        second, third = names[1:3]
        if second in SIZES or (second in SHORT_SIZES and third in SEEDS):
            return ""  # f(dataset, size, rng), which the caller validates
    return _form_by_required_arguments(run, name, required, dataset)


def _form_by_required_arguments(run: Any, name: str, required: List[str], dataset: Any) -> str:
    """Return the form of a function that takes the dataset first; `required` are its positional
    parameters without defaults.
    """
    lacking, batch = missing(run, 2 if takes_labels(run) else 1), _Batch(run, {})
    size = batch.size
    if size is not None and lacking in ([], [size]) and _is_batch(batch, dataset):
        if not lacking and (dataset is None or size in SHORT_SIZES):
            raise InvalidArgument(
                f"{name}: {size} may be the number of runs or an argument of one run: give --as "
                f"batch, or --as run (with --kwargs '{{\"{size}\": ...}}')"
            )
        return "batch"
    if not lacking:
        return "run"
    is_triple = len(required) == 3 and {*lacking} <= {*required} and lacking != [size]
    if is_triple and _is_batch(run, dataset):
        return ""
    raise _missing_argument_error(name, lacking)


def _require_dataset_first(found: List[inspect.Parameter], name: str) -> None:
    """Raise InvalidArgument unless the first parameter of a function, or ``*args``, can receive the
    dataset.
    """
    names = [p.name for p in found if p.kind in POSITIONAL_KINDS]
    unpacked = [p.name for p in found if p.kind is p.VAR_POSITIONAL]
    is_swapped = len(names) > 1 and names[0] in SEEDS and names[1].lower() in DATA
    if is_swapped or not names + unpacked:
        raise InvalidArgument(
            f"{name} takes no dataset as its first parameter: the dataset must be the first "
            f"parameter; reorder, or audit a function, def f(data): return {name}(..., data)"
        )
    if not names and unpacked[0].lower() in DATA:
        raise InvalidArgument(
            f"{name} takes the records as separate arguments, *{unpacked[0]}: audit a "
            f"function, def f(data): return {name}(*data)"
        )


def _is_batch(run: Any, dataset: Any) -> bool:
    """Return whether trial calls with three different sizes return as many outputs as requested.

    Without a dataset there is no trial call, and the names of the parameters decide: True.
    """
    for size in () if dataset is None else (2, 3, 7):
        try:
            found = run(dataset, size, np.random.default_rng(0))
            if isinstance(found, (str, bytes, dict)) or len(found) != size:
                return False
        except Exception:  # a call with the wrong meaning may raise anything
            return False
    return True


def _class_form(found: Any, name: str, kwargs: Dict[str, Any], dataset: Any) -> Tuple[str, str]:
    """Return the form of a class: an estimator with `fit`, a callable object, or an object with one
    method that takes a dataset.
    """
    class_names = {"self", *(p.name for p in parameters(found) or [])}
    class_arguments = {key: value for key, value in kwargs.items() if key in class_names}
    method_arguments = {key: value for key, value in kwargs.items() if key not in class_names}
    missing_names = missing(functools.partial(found, **class_arguments), 0)
    if missing_names and missing_names[0].lower() in DATA:
        raise InvalidArgument(
            f"{name} takes its dataset when it is created: audit a function, def f(data): "
            f"return {name}(data, ...).METHOD()"
        )
    if missing_names and not method_arguments:
        raise _missing_argument_error(name, missing_names)
    if callable(getattr(found, "fit", None)):
        output = _learned_attributes(found, name, class_arguments, dataset)
        labeled = takes_labels(functools.partial(found.fit, None))
        note = "; y is the second part of the dataset, or its last column" if labeled else ""
        return f"estimator.{output}", (
            f"{name} is fitted for each run, and {output} is its output{note}. To override: --as "
            "estimator.ATTRIBUTE"
        )
    # every class has the __call__ of its metaclass, which `dir` omits
    if "__call__" in dir(found) and inspect.isroutine(inspect.getattr_static(found, "__call__")):
        call = functools.partial(found.__call__, None, **method_arguments)
        if _function_form(call, name, None) == "":
            return "", ""
        form, how = "object", "called"
    else:
        method = _release_method(found, name)
        form, how = f"object.{method}", f"its method {method} is called"
    return form, f"{name} is created for each run, and {how}. To override: --as object.METHOD"


def _release_method(found: Any, name: str) -> str:
    """Return the name of the only method of a class that takes a dataset; raise InvalidArgument if
    there is not exactly one.
    """
    members = {key: inspect.getattr_static(found, key) for key in dir(found) if key[0] != "_"}
    methods = [key for key, value in members.items() if _takes_dataset(key, value)]
    methods = [key for key in methods if key in RELEASES] or methods
    if len(methods) == 1:
        return methods[0]
    unbound = [k for k, v in members.items() if isinstance(v, (staticmethod, classmethod))]
    hint = "".join(f"; or audit {name}.{key}" for key in unbound[:1])
    has = f"it has {', '.join(methods) or 'none'}"
    raise InvalidArgument(
        f"{name} must have one method that takes a dataset, {has}: name it as in {name}.METHOD, or "
        f"define __call__{hint}"
    )


def _takes_dataset(name: str, function: Any) -> bool:
    """Return whether a method takes a dataset, by the name of its first parameter or by its own
    name.
    """
    after_self = (parameters(function) or [])[1:] if inspect.isfunction(function) else []
    if not after_self or after_self[0].name in SEEDS:
        return False
    is_release = name in RELEASES and after_self[0].default is inspect.Parameter.empty
    return is_release or after_self[0].name.lower() in DATA


def _learned_attributes(found: Any, name: str, kwargs: Dict[str, Any], dataset: Any) -> str:
    """Return the names of the attributes that `fit` learns: the coefficients, or the only numeric
    attribute.
    """
    if dataset is None:
        raise InvalidArgument(
            f"{name} is an estimator: name the released attribute, --as estimator.ATTRIBUTE, "
            "or give --d0 and --d1"
        )
    rng = np.random.default_rng(0)
    before = set(vars(made("--as", found, kwargs)(rng)))
    try:
        (estimator,) = from_estimator(found, lambda fitted: fitted, **kwargs)(dataset, 1, rng)
    except MechanismFailed as error:
        raise InvalidArgument(f"{name}: {error}") from None
    numeric = (int, float, np.ndarray, np.generic, list, tuple)
    has = [
        key
        for key, value in learned(estimator).items()
        if key not in {*before, *BOOKKEEPING} and isinstance(value, numeric)
    ]
    if "coef_" in has:
        has = ["coef_,intercept_" if "intercept_" in has else "coef_"]
    if len(has) != 1:
        raise InvalidArgument(
            f"{name} has learned {', '.join(has) or 'no attribute NAME_'}: name the released "
            "attribute, --as estimator.ATTRIBUTE"
        )
    return str(has[0])
