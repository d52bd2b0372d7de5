"""Mechanisms made of single runs: one Python call a run, each on an object of its own where there is one.

A parameter named `rng`, `random_state`, `seed` or another name of `randomness.SEEDS` receives the audit's generator, or a seed drawn from
the generator for every call. A function without such a parameter may draw from `np.random`, `random` or PyTorch, whose global generators an
audit seeds; ``seeded=False`` declares randomness from elsewhere.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from .errors import InvalidArgument, MechanismFailed, require_callable, shown
from .labels import parts
from .randomness import bound, converted, given, parameters, takes_labels
from .randomness import told as told_seeded

DECLARED = ("claim", "domain", "seeded", "batch", "trials", "expected_failures", "expected_findings", "features", "primitives", "cause")

Once = Callable[[Any, Any], Any]  # (dataset, rng) -> output


class PerRun:
    """A mechanism ``f(dataset, size, rng)`` that makes its runs one by one. It is found again by the name it has in its module."""

    def __init__(
        self, name: str, once: Once, rebuilt: Tuple[Any, ...], notes: Sequence[str], limit: float, declared: Dict[str, Any]
    ) -> None:
        owner = rebuilt[0].__name__
        if not isinstance(limit, (int, float)) or isinstance(limit, bool) or not 0 < limit < 1e9:
            raise InvalidArgument(f"{owner}: time_limit must be positive and below 1e9 seconds, got {shown(limit)}")
        for key, value in declared.items():
            if key not in DECLARED:
                raise InvalidArgument(f"{owner}: {shown(key)} is no option; a mechanism may declare {', '.join(DECLARED)}")
            setattr(self, key, value)
        self._name, self._once, self._rebuilt, self._limit = name, once, rebuilt, float(limit)
        self.notes = (*notes, "runs are single calls, one after the other")
        self.__module__, self.__doc__ = _caller(), inspect.getdoc(unbound(rebuilt[1][0]))

    def __getattr__(self, name: str) -> Any:
        """`__qualname__`, the name under which its module holds it: it has none where it is in no module, as in a function."""
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
        return _again, (*self._rebuilt, {key: getattr(self, key) for key in DECLARED if hasattr(self, key)})

    def __call__(self, dataset: Any, size: int, rng: np.random.Generator) -> Any:
        found: List[Any] = []
        with _Loop(self._name, self._limit) as loop:
            for _ in range(size):
                value = self._once(dataset, rng)
                if inspect.isasyncgen(value):
                    value = _collected_async(self._name, value)
                elif inspect.isgenerator(value):
                    value = _collected(self._name, value)
                found.append(_plain(loop.result(value) if inspect.isawaitable(value) else value))
        first = found[0] if found else None
        if type(first) is np.ndarray and first.ndim and all(type(v) is np.ndarray and _kind(v) == _kind(first) for v in found):
            return np.stack(found)
        return found


def one_run(function: Callable[..., Any], *, time_limit: float = 60.0, **arguments: Any) -> PerRun:
    """Return a mechanism made of a function of one run, ``f(dataset)`` or ``f(dataset, rng)``; it may be ``async``, or a PyTorch module.

    It costs a Python call a run, where ``f(dataset, size, rng)`` costs one a batch: a microsecond or two on top of the function's own time.

    Parameters
    ----------
    function : callable
        Returns one output, of any kind; a generator function's output is the list of its values. A parameter named `rng`,
        `random_state`, `seed`, `generator`, `random_generator`, `prng`, `np_random`, `rs` or `key` receives the randomness. A required
        second parameter named `y` or `labels` receives the labels of the dataset: its second part, or the last column of an array. A module
        of PyTorch gets a tensor and gives one; gradients are off.
    time_limit : float
        Seconds that a coroutine may take.
    **arguments
        Arguments of the function; and `claim`, `domain`, `seeded` and the other attributes that a target may have.

    Returns
    -------
    callable
        A mechanism ``f(dataset, size, rng)``. Bound to a name in a module it can be sent to processes, and found again by a witness.

    Raises
    ------
    InvalidArgument
        If `function` is not callable, an argument does not exist, or a required argument is missing.

    Examples
    --------
    >>> def noisy(dataset, epsilon, rng):
    ...     return float(dataset[0] + rng.laplace(scale=1 / epsilon))
    >>> len(one_run(noisy, epsilon=1.0)([0.0], 3, np.random.default_rng(1)))
    3
    """
    require_callable("one_run", "function", function)
    mine, declared = split("one_run", function, arguments)
    run = calling("one_run", function, mine)
    rebuilt = (one_run, (function,), {"time_limit": time_limit, **mine})
    return PerRun(named(function), run, rebuilt, told(function), time_limit, declared)


def fresh(
    factory: Callable[..., Any], method: Union[str, Callable[..., Any], None] = None, *, time_limit: float = 60.0, **arguments: Any
) -> PerRun:
    """A mechanism from a class with state, of which each run makes an object of its own.

    Parameters
    ----------
    factory : callable
        Makes the object: a class, or a function. It receives randomness by the names of `one_run`.
    method : str or callable, optional
        What is run: a method by its name, or ``f(object, dataset)``; the object itself is called if it is left out.
    time_limit
        As in `one_run`.
    **arguments
        Arguments of the factory or of the method; and attributes as in `one_run`.

    Returns
    -------
    callable
        As `one_run`. A factory that gives an object that it has given before ends in MechanismFailed: its state would leak from run to run.

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
    require_callable("fresh", "factory", factory)
    if method is not None and not isinstance(method, str):
        require_callable("fresh", "method", method)
    mine, others = split("fresh", factory, arguments)
    declared = {key: value for key, value in others.items() if key in DECLARED}
    of_method = {key: value for key, value in others.items() if key not in DECLARED}
    if of_method and not isinstance(method, (str, type(None))):
        raise InvalidArgument(f"fresh: {', '.join(of_method)} must be arguments of {named(factory)}, which does not take them")
    make = made("fresh", factory, mine)

    def once(dataset: Any, rng: Any) -> Any:
        found = make(rng)
        if method is not None and not isinstance(method, str):
            return method(found, dataset)
        if method is not None and not callable(getattr(found, method, None)):
            raise MechanismFailed(f"fresh: method must be one of {type(found).__name__}, got {method!r}, which it does not have")
        if method is None and not callable(found):
            raise MechanismFailed(f"fresh: an object of {type(found).__name__} cannot be called: name what is run, method='...'")
        return calling("fresh", found if method is None else getattr(found, method), of_method)(dataset, rng)

    options = {"time_limit": time_limit, **mine, **of_method}
    return PerRun(named(factory), once, (fresh, (factory, method), options), told(factory), time_limit, declared)


def split(owner: str, function: Any, arguments: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Split keywords into arguments of the function and attributes of the mechanism."""
    taken = parameters(unbound(function)) or []
    free = any(p.kind is p.VAR_KEYWORD for p in taken)
    mine = {key: value for key, value in arguments.items() if key not in DECLARED and (free or key in [p.name for p in taken])}
    return mine, {key: value for key, value in arguments.items() if key not in mine}


def made(owner: str, factory: Callable[..., Any], arguments: Optional[Dict[str, Any]] = None) -> Callable[[Any], Any]:
    """Return ``make(rng)``, which makes a new object with the randomness that the factory takes.

    Raises MechanismFailed for an object that the factory has returned before.
    """
    factory = functools.partial(factory, **arguments) if arguments else factory
    seeded, kept = given(factory), [None, None]  # the first and the last: one that goes round comes by the first

    def make(rng: Any) -> Any:
        found = factory(**seeded(rng))
        if found is None or found is kept[0] or found is kept[1]:
            what = "None" if found is None else "the same object twice, whose state would leak from run to run"
            raise MechanismFailed(f"{owner}: factory must return a new object each time, {named(factory)} returned {what}")
        kept[:] = [found if kept[0] is None else kept[0], found]
        return found

    return make


def calling(owner: str, function: Callable[..., Any], arguments: Optional[Dict[str, Any]] = None) -> Once:
    """Return ``call(dataset, rng)``, which gives the function its arguments, its randomness, and labels where it requires them."""
    if _is_module(function):
        return _through(function)
    run = bound(owner, function, arguments or {}, named(function))
    seeded, fitted = given(run), converted(function)
    if takes_labels(run):
        return lambda dataset, rng: run(*parts(dataset, None, labeled=True), **seeded(rng))
    return lambda dataset, rng: run(fitted(dataset), **seeded(rng))


def told(function: Callable[..., Any]) -> Tuple[str, ...]:
    """Return the note on what is seeded, for reports."""
    return told_seeded(function, named(function))


_MOST = 10_000  # values of a generator


def _collected(name: str, values: Any) -> List[Any]:
    """Return the values of a generator in a list."""
    found = list(itertools.islice(values, _MOST + 1))
    if len(found) > _MOST:
        raise MechanismFailed(f"{name} yields more than {_MOST:,} values in one run: let it end, or return a list")
    return found


async def _collected_async(name: str, values: Any) -> List[Any]:
    found = []
    async for value in values:
        found.append(value)
        if len(found) > _MOST:
            raise MechanismFailed(f"{name} yields more than {_MOST:,} values in one run: let it end, or return a list")
    return found


def _is_module(found: Any) -> bool:
    """Whether it is a module of PyTorch, which is not imported for that."""
    return any(cls.__name__ == "Module" and cls.__module__.startswith("torch.") for cls in type(found).__mro__)


def _through(module: Any) -> Once:
    """A module of PyTorch on datasets as tensors of its parameters' type."""
    torch = sys.modules["torch"]
    kind = next((p.dtype for p in module.parameters()), torch.get_default_dtype())

    def call(dataset: Any, rng: Any) -> Any:
        with torch.no_grad():
            return module(torch.as_tensor(np.array(dataset), dtype=kind))

    return call


def _plain(value: Any) -> Any:
    """A tensor as an array; anything else as it is."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") and hasattr(value, "cpu") else value


def _kind(value: Any) -> Tuple[Any, Tuple[int, ...]]:
    return value.dtype, value.shape


def unbound(found: Any) -> Any:
    """The function or class inside of partials."""
    for _ in range(8):
        found = getattr(found, "func", found)
    return found


def named(found: Any) -> str:
    """What messages call a function or a class, also inside of a partial."""
    found = unbound(found)
    return str(getattr(found, "__name__", type(found).__name__))


def _again(build: Callable[..., PerRun], arguments: Tuple[Any, ...], options: Dict[str, Any], declared: Dict[str, Any]) -> PerRun:
    return build(*arguments, **options, **declared)


def _caller() -> str:
    """The module of the first frame that is not of this folder."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "__main__"))


class _Loop:
    """An event loop for the coroutines of a batch, begun with the first of them."""

    def __init__(self, name: str, limit: float) -> None:
        self._name, self._limit, self._loop = name, limit, None  # type: Any, float, Any

    def __enter__(self) -> _Loop:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._loop is not None:
            self._off(self._end)

    def result(self, waited: Any) -> Any:
        """What it returns or raises. MechanismFailed once it takes longer than the limit."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._off(lambda: self._loop.run_until_complete(self._within(waited)))

    async def _within(self, waited: Any) -> Any:
        task = asyncio.ensure_future(waited)
        done, _ = await asyncio.wait({task}, timeout=self._limit)
        if not done:
            task.cancel()
            raise MechanismFailed(f"a coroutine of {self._name} took longer than time_limit = {self._limit:g} s")
        return task.result()

    def _end(self) -> None:
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        self._loop.close()

    def _off(self, work: Callable[[], Any]) -> Any:
        """Here, or in a thread of its own where this one runs a loop already, as in a notebook."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return work()
        found: Dict[str, Any] = {}

        def run() -> None:
            try:
                found["value"] = work()
            except BaseException as error:
                found["error"] = error

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if "error" in found:
            raise found["error"]
        return found["value"]
