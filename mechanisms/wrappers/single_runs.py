"""Mechanisms made of single runs: one Python call per run, each on a new object where a class is
given. Estimators have scikit-learn's conventions; the attributes that they learn are the output.

A parameter named `rng`, `random_state`, `seed` or another name of `arguments.SEEDS` receives the
audit's generator, or a seed drawn from the generator for every call. A function without such a
parameter may draw from `np.random`, `random` or PyTorch: an audit seeds their global generators.
``seeded=False`` declares randomness from other sources.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import itertools
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import numpy as np

from dpwitness.core.values.validation import (
    InvalidArgument,
    MechanismFailed,
    require_callable,
    short_repr,
)

from .arguments import (
    bound,
    dataset_converter,
    parameters,
    parts,
    randomness_argument,
    seeding_notes,
    takes_labels,
)

DECLARABLE_ATTRIBUTES = (
    *("claim", "domain", "seeded", "batch", "trials"),
    *("expected_failures", "expected_findings", "features", "primitives", "cause"),
)

# types of outputs that need no conversion
_FINISHED = frozenset([float, int, bool, str, type(None), np.ndarray, np.float64, np.int64])

Once = Callable[[Any, Any], Any]  # (dataset, rng) -> output


class PerRun:
    """A mechanism ``f(dataset, size, rng)`` that makes its runs one by one. Pickling refers to its
    name in its module.

    `build` is the function that makes the mechanism again from `given`, whose first part is the
    wrapped function or class, and `options`.
    """

    def __init__(
        self,
        build: Callable[..., Any],
        given: Tuple[Any, ...],
        options: Dict[str, Any],
        once: Once,
        declared: Dict[str, Any],
    ) -> None:
        owner, limit = build.__name__, options.get("time_limit", 60.0)
        if not isinstance(limit, (int, float)) or isinstance(limit, bool) or not 0 < limit < 1e9:
            raise InvalidArgument(
                f"{owner}: time_limit must be positive and below 1e9 seconds, got "
                f"{short_repr(limit)}"
            )
        for key, value in declared.items():
            if key not in DECLARABLE_ATTRIBUTES:
                raise InvalidArgument(
                    f"{owner}: {short_repr(key)} is not an option; a mechanism may declare "
                    f"{', '.join(DECLARABLE_ATTRIBUTES)}"
                )
            setattr(self, key, value)
        self.wrapped = given[0]  # the function or class that makes the runs
        self._name, self._once, self._limit = named(given[0]), once, float(limit)
        self._rebuilt = build, given, options
        self.notes = (
            *seeding_notes(given[0], self._name),
            "runs are single calls, one after the other",
        )
        frame: Any = sys._getframe(1)  # the first one outside of this folder
        while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
            frame = frame.f_back
        self.__module__ = str(frame.f_globals.get("__name__", "__main__"))
        self.__doc__ = inspect.getdoc(unbound(given[0]))

    def __getattr__(self, name: str) -> Any:
        """Return `__qualname__`, the name of the mechanism in its module."""
        if name == "__qualname__":
            for key, value in list(vars(sys.modules.get(self.__module__, object)).items()):
                if value is self:
                    return key
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def __name__(self) -> str:
        return getattr(self, "__qualname__", self._name)

    def __repr__(self) -> str:
        return f"<{self._rebuilt[0].__name__} of {self._name}>"

    def __reduce__(self) -> Any:
        found = getattr(self, "__qualname__", None)
        if found is not None and self.__module__ != "__main__":
            return found  # by reference, as functions are
        declared = {key: getattr(self, key) for key in DECLARABLE_ATTRIBUTES if hasattr(self, key)}
        build, given, options = self._rebuilt
        return functools.partial(build, *given, **options, **declared), ()

    def __call__(self, dataset: Any, size: int, rng: np.random.Generator) -> Any:
        process, found = os.getpid(), []
        for _ in range(size):
            value = self._once(dataset, rng)
            if os.getpid() != process:
                raise SystemExit(
                    "a forked child of the function returned: it must not make the other runs"
                )
            found.append(value if type(value) in _FINISHED else self._output(value))
        if not found or type(found[0]) is not np.ndarray or not found[0].ndim:
            return found
        kinds = {(v.dtype, v.shape) if type(v) is np.ndarray else None for v in found}
        return np.stack(found) if len(kinds) == 1 else found

    def _output(self, value: Any) -> Any:
        """Return the output for a returned value: the values of a generator, the result of a
        coroutine, the array of a tensor.
        """
        if inspect.isgenerator(value):
            value = list(itertools.islice(value, _MAX_VALUES + 1))
            if len(value) > _MAX_VALUES:
                raise MechanismFailed(
                    f"{self._name} yields more than {_MAX_VALUES:,} values in one run: let it "
                    "end, or return a list"
                )
        elif inspect.isawaitable(value):
            value = _awaited(value, self._name, self._limit)
        is_tensor = hasattr(value, "detach") and hasattr(value, "cpu")
        return value.detach().cpu().numpy() if is_tensor else value


def one_run(function: Callable[..., Any], *, time_limit: float = 60.0, **arguments: Any) -> PerRun:
    """Return a mechanism that calls a function once per run, ``f(dataset)`` or ``f(dataset, rng)``.

    The function may also be ``async`` or a PyTorch module. Each run costs one Python call, a
    microsecond or two, where ``f(dataset, size, rng)`` costs one call per batch.

    Parameters
    ----------
    function : callable
        Returns one output, of any kind; the output of a generator function is the list of its
        values. A parameter named `rng`, `random_state`, `seed`, `generator`, `random_generator`,
        `prng`, `np_random`, `rs` or `key` receives the randomness. A required second parameter
        named `y` or `labels` receives the labels of the dataset: its second part, or the last
        column of an array. A PyTorch module receives and returns a tensor, without gradients.
    time_limit : float
        Largest duration of a coroutine, in seconds.
    **arguments
        Arguments of the function; also `claim`, `domain`, `seeded` and the other attributes of a
        target.

    Returns
    -------
    callable
        A mechanism ``f(dataset, size, rng)``. If a module binds it to a name, other processes and
        witnesses can find it.

    Raises
    ------
    InvalidArgument
        If `function` is not callable, an argument does not exist, or a required argument is
        missing.

    Examples
    --------
    >>> def noisy(dataset, epsilon, rng):
    ...     return float(dataset[0] + rng.laplace(scale=1 / epsilon))
    >>> len(one_run(noisy, epsilon=1.0)([0.0], 3, np.random.default_rng(1)))
    3
    """
    require_callable("function", function, "one_run")
    own_arguments, declared = _split(function, arguments)
    run = single_run_call("one_run", function, own_arguments)
    return PerRun(one_run, (function,), {"time_limit": time_limit, **own_arguments}, run, declared)


def fresh(
    factory: Callable[..., Any],
    method: Union[str, Callable[..., Any], None] = None,
    *,
    time_limit: float = 60.0,
    **arguments: Any,
) -> PerRun:
    """Return a mechanism that creates a new object of a stateful class in each run.

    Parameters
    ----------
    factory : callable
        Class or function that makes the object. The factory receives randomness by the argument
        names that `one_run` lists.
    method : str or callable, optional
        The name of the method to run, or ``f(object, dataset)``. By default the object itself is
        called.
    time_limit
        As in `one_run`.
    **arguments
        Arguments of the factory or of the method; also attributes as in `one_run`.

    Returns
    -------
    callable
        As for `one_run`. A run raises MechanismFailed if the factory returns an earlier object
        again, whose state would leak between runs.

    Raises
    ------
    InvalidArgument
        If `factory` is not callable, `method` is neither a text nor callable, or `method` is a
        function and an argument is not one of the factory.

    Examples
    --------
    >>> class Counter:
    ...     def __init__(self, rng):
    ...         self.rng, self.calls = rng, 0
    ...     def release(self, dataset):
    ...         self.calls += 1
    ...         return self.calls
    >>> fresh(Counter, "release")([0.0], 3, np.random.default_rng(1))
    [1, 1, 1]
    """
    require_callable("factory", factory, "fresh")
    if method is not None and not isinstance(method, str):
        require_callable("method", method, "fresh")
    own_arguments, others = _split(factory, arguments)
    method_arguments = {k: v for k, v in others.items() if k not in DECLARABLE_ATTRIBUTES}
    if method_arguments and callable(method):
        raise InvalidArgument(
            f"fresh: {', '.join(method_arguments)} must be arguments of {named(factory)}, "
            "which does not take them"
        )
    make = made("fresh", factory, own_arguments)

    def once(dataset: Any, rng: Any) -> Any:
        found = make(rng)
        if callable(method):
            return method(found, dataset)
        run = found if method is None else getattr(found, method, None)
        if not callable(run):
            raise MechanismFailed(
                f"fresh: an object of {type(found).__name__} has no method "
                f"{method or '__call__'}: name the method to run, method='...'"
            )
        return single_run_call("fresh", run, method_arguments)(dataset, rng)

    options = {"time_limit": time_limit, **own_arguments, **method_arguments}
    declared = {k: v for k, v in others.items() if k not in method_arguments}
    return PerRun(fresh, (factory, method), options, once, declared)


def from_estimator(
    factory: Callable[..., Any],
    output: Union[str, Callable[[Any], Any]] = "coef_",
    *,
    at: Any = None,
    label: Optional[int] = None,
    time_limit: float = 60.0,
    **arguments: Any,
) -> PerRun:
    """Return a mechanism that fits a new estimator in each run and releases its learned attributes.

    Parameters
    ----------
    factory : callable
        Class or function that makes the estimator. Its `random_state` (`rng`, `seed`), if it has
        one, is drawn for each run.
    output : str or callable
        Released output: the name of an attribute after `fit`, several names with commas
        (``"coef_,intercept_"``), a method that is called on the points `at` (``"predict"``,
        ``"transform"``), or ``f(estimator)``.
    at : array, optional
        Public points for such a method.
    label : int, optional
        Column of the dataset that contains y, such as -1. By default a dataset is (X, y) or has
        fields x and y. In an array, y is the last column if `fit` requires y; otherwise the array
        is X.
    time_limit, **arguments
        As in `one_run`; arguments are those of the factory.

    Returns
    -------
    callable
        As for `one_run`. A run raises MechanismFailed if the attribute does not exist or if `fit`
        does not return the estimator.

    Raises
    ------
    InvalidArgument
        If `factory` or `output` is not callable, `label` is not an integer, or an argument is
        unknown.

    Examples
    --------
    >>> class Mean:
    ...     def __init__(self, random_state=None):
    ...         self.random_state = random_state
    ...     def fit(self, X, y=None):
    ...         self.mean_ = X.mean() + np.random.RandomState(self.random_state).laplace()
    ...         return self
    >>> len(from_estimator(Mean, "mean_")(np.zeros((4, 1)), 3, np.random.default_rng(1)))
    3
    """
    require_callable("factory", factory, "from_estimator")
    if not isinstance(output, str):
        require_callable("output", output, "from_estimator")
    if label is not None and (isinstance(label, bool) or not isinstance(label, (int, np.integer))):
        raise InvalidArgument(
            f"from_estimator: label must be the number of a column, got {short_repr(label)}"
        )
    factory_arguments, declared = _split(factory, arguments)
    make = made("from_estimator", factory, factory_arguments)
    points = None if at is None else np.asarray(at)

    def run(dataset: Any, rng: Any) -> Any:
        estimator = make(rng)
        if not callable(getattr(estimator, "fit", None)):
            raise MechanismFailed(
                f"from_estimator: factory must make an object with fit, {named(factory)} "
                f"made {short_repr(estimator)}"
            )
        x, y = parts(dataset, label, labeled=takes_labels(estimator.fit))
        fitted = estimator.fit(x) if y is None else estimator.fit(x, y)
        if fitted is not None and fitted is not estimator:
            raise MechanismFailed(
                "from_estimator: fit must return the estimator itself, that of "
                f"{named(factory)} returned {short_repr(fitted)}"
            )
        return _read_output(estimator, output, points)

    options = {"at": at, "label": label, "time_limit": time_limit, **factory_arguments}
    return PerRun(from_estimator, (factory, output), options, run, declared)


def _read_output(estimator: Any, output: Union[str, Callable[[Any], Any]], points: Any) -> Any:
    """Return the released output of a fitted estimator."""
    if not isinstance(output, str):
        return output(estimator)
    if "," in output:
        return tuple(_read_output(estimator, part.strip(), points) for part in output.split(","))
    name = type(estimator).__name__
    if not hasattr(estimator, output):
        raise MechanismFailed(
            f"from_estimator: output must exist after fit, {name} has no {output!r}; it has "
            f"learned {', '.join(learned(estimator)) or 'nothing'}"
        )
    value = getattr(estimator, output)
    if not callable(value):
        return np.array(value) if isinstance(value, np.ndarray) else value
    if points is None:
        raise MechanismFailed(
            f"from_estimator: {output!r} of {name} is a method: give the public points to "
            "call it on, at=..."
        )
    return value(points)


def learned(estimator: Any) -> Dict[str, Any]:
    """Return the attributes that an estimator learns in `fit`: their names end with an underscore
    and do not begin with one.
    """
    return {k: v for k, v in vars(estimator).items() if k.endswith("_") and k[0] != "_"}


def _split(function: Any, arguments: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Return the arguments of the function, and the other ones: attributes of the mechanism."""
    taken = parameters(unbound(function)) or []
    takes_any = any(p.kind is p.VAR_KEYWORD for p in taken)
    own = {*arguments} if takes_any else {p.name for p in taken}
    own -= {*DECLARABLE_ATTRIBUTES}
    return (
        {key: value for key, value in arguments.items() if key in own},
        {key: value for key, value in arguments.items() if key not in own},
    )


def made(
    owner: str, factory: Callable[..., Any], arguments: Optional[Dict[str, Any]] = None
) -> Callable[[Any], Any]:
    """Return ``make(rng)``, which makes a new object and passes the randomness that the factory
    takes.

    Raises MechanismFailed for an object that the factory has returned before.
    """
    factory = functools.partial(factory, **arguments) if arguments else factory
    seeded = randomness_argument(factory)
    # the first and the last object: a factory that cycles returns the first again
    earlier: List[Any] = []

    def make(rng: Any) -> Any:
        found = factory(**seeded(rng))
        if found is None or any(found is each for each in earlier):
            what = "None" if found is None else "the same object twice, whose state would leak"
            raise MechanismFailed(
                f"{owner}: factory must return a new object for each run, {named(factory)} "
                f"returned {what}"
            )
        earlier[1:] = [found]
        return found

    return make


def single_run_call(owner: str, function: Any, arguments: Optional[Dict[str, Any]] = None) -> Once:
    """Return ``call(dataset, rng)``, which calls the function with its arguments, its randomness,
    and labels if it requires them. For a PyTorch module, datasets become tensors of the type of its
    parameters.
    """
    kinds = [f"{cls.__module__}.{cls.__name__}" for cls in type(function).__mro__]
    if any(kind.startswith("torch.") and kind.endswith(".Module") for kind in kinds):
        torch = sys.modules["torch"]
        dtype = next((p.dtype for p in function.parameters()), torch.get_default_dtype())

        def call(dataset: Any, rng: Any) -> Any:
            with torch.no_grad():
                return function(torch.as_tensor(np.array(dataset), dtype=dtype))

        return call
    run = bound(owner, function, arguments or {}, named(function))
    seeded, fitted = randomness_argument(run), dataset_converter(function)
    if takes_labels(run):
        return lambda dataset, rng: run(*parts(dataset, None, labeled=True), **seeded(rng))
    return lambda dataset, rng: run(fitted(dataset), **seeded(rng))


_MAX_VALUES = 10_000  # values that a generator may yield in one run


def unbound(found: Any) -> Any:
    """Return the function or class inside of partials."""
    for _ in range(8):
        found = getattr(found, "func", found)
    return found


def named(found: Any) -> str:
    """Return the name of a function or class for messages, also inside of a partial."""
    found = unbound(found)
    return str(getattr(found, "__name__", type(found).__name__))


def _awaited(awaitable: Any, name: str, limit: float) -> Any:
    """Return the result of an awaitable in a new event loop; raise MechanismFailed after `limit`
    seconds.
    """

    async def limited() -> Any:
        task = asyncio.ensure_future(awaitable)
        done, _ = await asyncio.wait({task}, timeout=limit)
        if not done:
            raise MechanismFailed(
                f"a coroutine of {name} took longer than time_limit = {limit:g} s"
            )
        return task.result()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(limited())
    # this thread runs an event loop already, as in a notebook
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, limited()).result()
