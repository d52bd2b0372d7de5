"""Made-up calls of functions that no test calls: arguments from type hints, names and literals."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from dpwitness.auditors.scanning.noise_map import (
    Function,
    NoiseMap,
    Parameter,
    constructor_parameters,
)
from dpwitness.auditors.scanning.promises import privacy_parameters
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.programs.inside.recorded_calls import GENERATOR, SEED

_NUMBERS = (0.2, 0.5, 0.9, 0.1, 0.7, 0.3, 0.6, 0.4)
_ARRAY = f"numpy.array({list(_NUMBERS)})"
_MATRIX = f"numpy.array({[[a, b] for a, b in zip(_NUMBERS, _NUMBERS[::-1], strict=True)]})"
# data of a parameter without a telling type hint, in the order of trial
_DATA = (
    _ARRAY,
    str(list(_NUMBERS)),
    "3.0",
    "numpy.array([0, 1, 1, 0, 2, 1, 0, 2])",
    _MATRIX,
    "1",
    "['a', 'b', 'a', 'c', 'b', 'a', 'a', 'c']",
    "True",
)
_HINTS = (
    (r"Series", (f"pandas.Series({list(_NUMBERS)})",)),
    (r"ndarray|ArrayLike|NDArray", (_DATA[0], _DATA[4], _DATA[3])),
    (r"(List|list|Sequence|Iterable)\[(int|bool)", ("[0, 1, 1, 0, 2, 1, 0, 2]",)),
    (r"(List|list|Sequence|Iterable)\[str", (_DATA[6],)),
    (r"(List|list|Sequence|Iterable|Tuple|tuple)", (_DATA[1], _DATA[0])),
    (r"(Dict|dict|Mapping)", ("{'a': 3, 'b': 5}",)),
    (r"\bbool\b", ("True", "False")),
    (r"\bint\b", ("3",)),
    (r"\bfloat\b", ("3.0",)),
    (r"\bstr\b", ("'a'",)),
    (r"Callable", ("numpy.mean", "sum", "len")),
)
_VALUES = (
    (r"(l[12]_?)?sens\w*|\w*sensitivity|clip\w*|max_norm|\w*_norm|bound|radius", "1.0"),
    (r"lower\w*|low|lo|min(_\w+)?|a_min|\w+_min", "0.0"),
    (r"upper\w*|high|hi|max(_\w+)?|a_max|\w+_max", "1.0"),
    (r"bounds?|range|limits|clip_range|data_range", "(0.0, 1.0)"),
    (r"sigma|noise_multiplier|scale|noise_scale|std|stddev|noise_std", "1.0"),
    (r"threshold|tau|alpha|beta|gamma|p|q|prob\w*|fraction|rate", "0.5"),
    (r"n|k|d|m|size|num_\w+|n_\w+|bins|count_\w+|steps|rounds|epochs|iterations", "3"),
    (r"random_state|seed|random_seed|rng_seed", SEED),
    (r"rng|generator|prng|gen", GENERATOR),
    (r"categories|candidates|options|choices|domain|labels|outputs|universe", "['a', 'b', 'c']"),
    (r"y|labels?|targets?", "numpy.array([0, 1, 0, 1, 1, 0, 1, 0])"),
    (r"(query|func|function|fn|f|statistic|agg\w*|utility\w*)", "numpy.mean"),
    (r"column|col|field|attribute|key", "'a'"),
)
_SINGLE = re.compile(
    r"(\w+_)?(value|val|answer|count|result|number|total|item|statistic|bit|response|query)|x|v"
)
_BOUNDS = re.compile(r"lower\w*|upper\w*|low|high|bounds?|range|min|max|\w+_(min|max)")
_PRIVACY = {"epsilon": "1.0", "delta": "1e-05", "rho": "0.5", "mu": "1.0"}


def made_up_calls(found: NoiseMap, function: Function) -> Iterator[Json]:
    """Yield calls to try, at most twelve; the first that works counts."""
    owner = ""
    if function.owner and not function.static:
        given = [
            f"{p.name}={value}"
            for p in constructor_parameters(found, function)
            if (p.required or _is_left_open(p)) and (value := _known(p) or "1.0")
        ]
        owner = f"{function.owner}({', '.join(given)})"
    parameters = [p for p in function.parameters if p.required or _is_left_open(p)]
    choices = [_choices(p, function) for p in parameters]
    open_ones = [i for i, held in enumerate(choices) if len(held) > 1]
    for turn in range(max([len(choices[i]) for i in open_ones], default=1)):
        arguments = [
            [p.name, held[min(turn, len(held) - 1)] if i in open_ones else held[0], ""]
            for i, (p, held) in enumerate(zip(parameters, choices, strict=True))
        ]
        text = " ".join(str(value) for _, value, _ in arguments) + owner
        modules = [m for m in ("numpy", "pandas") if f"{m}." in text]
        if owner:
            arguments.insert(0, ["self", owner, ""])
        yield {
            "function": function.path,
            "arguments": arguments,
            "modules": modules,
            "alternative": True,
        }


def _is_left_open(parameter: Parameter) -> bool:
    """Return whether a parameter without a value by default states a claim or bounds."""
    return parameter.default == "None" and (
        bool(privacy_parameters([parameter.name])) or bool(_BOUNDS.fullmatch(parameter.name))
    )


def _known(parameter: Parameter) -> str:
    """Return a value that the name of a parameter suggests; empty if it suggests none."""
    name = parameter.name.lower().strip("_")
    for notion in privacy_parameters([parameter.name]):
        return _PRIVACY[notion]
    for pattern, value in _VALUES:
        if re.fullmatch(pattern, name):
            return value
    return ""


def _choices(parameter: Parameter, function: Function) -> tuple[str, ...]:
    """Return the values to try for a parameter."""
    if known := _known(parameter):
        return (known,)
    if re.fullmatch(r"df|data_?frame|frame", parameter.name) or "DataFrame" in parameter.hint:
        return (_frame(function),)
    if _SINGLE.fullmatch(parameter.name) and "list" not in parameter.hint.lower():
        return _DATA[2], _DATA[5], _DATA[7], *_DATA[:2]
    if parameter.name == "X":
        return (_MATRIX, *_DATA)
    for pattern, values in _HINTS:
        if re.search(pattern, parameter.hint):
            texts = [repr(v) for v in function.literals if isinstance(v, str) and v.isidentifier()]
            return tuple(itertools.islice(texts, 4)) or values if values == ("'a'",) else values
    return *_DATA, _frame(function)


def _frame(function: Function) -> str:
    """Return a data frame whose columns are the names in the source of the function."""
    names = [v for v in function.literals if isinstance(v, str) and re.fullmatch(r"[A-Za-z]\w*", v)]
    columns = {name: list(_NUMBERS) for name in (names[:4] or ["a", "b"])}
    return f"pandas.DataFrame({columns})"
