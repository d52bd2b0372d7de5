"""Calls of the functions of a noise map, from a process in the interpreter of the package: as its
tests and scripts make them, else made up from type hints, names and literals, each with the
argument that holds the data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpwitness.auditors.scanning.noise_map import (
    Function,
    FunctionParameter,
    NoiseMap,
    constructor_parameters,
    scale_names,
)
from dpwitness.auditors.scanning.promises import SCORES, privacy_parameters
from dpwitness.auditors.scanning.ranges import data_range, stated_bounds, values_of
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.arguments import SEEDS
from dpwitness.mechanisms.wrappers.programs.inside.function_calls import GENERATOR, LISTS, SEED
from dpwitness.mechanisms.wrappers.programs.worker_pool import LAUNCHER, launch_of
from dpwitness.mechanisms.wrappers.programs.worker_process import (
    Launch,
    Process,
    WorkerDied,
    WorkerTimeout,
)
from dpwitness.mechanisms.wrappers.recognition import SIZES

LONGEST_LINE = 2**24  # bytes of a line
# forms of data of a parameter without a telling type hint, in the order of trial
_FORMS = ("array", "list", "3.0", "integers", "matrix", "1", "texts", "labels", "True")
_HINTS = (
    (r"datetime|\bdate\b", ("datetime.datetime(2024, 1, 1)",)),
    (r"Series", ("series",)),
    (r"(List|list|Sequence|Iterable)\[.*(ndarray|NDArray)", ("list(matrix)", "matrix")),
    (r"ndarray|ArrayLike|NDArray", ("array", "matrix", "integers")),
    (r"(List|list|Sequence|Iterable)\[([Dd]ict|Mapping)", ("records",)),
    (r"(List|list|Sequence|Iterable)\[bool", ("[0, 1, 1, 0, 1, 1, 0, 1]",)),
    (r"(List|list|Sequence|Iterable)\[int", ("whole",)),
    (r"(List|list|Sequence|Iterable)\[str", ("texts", "labels")),
    (r"(List|list|Sequence|Iterable|Tuple|tuple)", ("list", "array")),
    (r"(Dict|dict|Mapping)", ("{'a': 3, 'b': 5}",)),
    (r"\bbool\b", ("True", "False")),
    (r"\bint\b", ("3", "1", "40")),
    (r"\bfloat\b", ("3.0", "0.5")),
    (r"\bstr\b", ("'a'",)),
    (r"Callable", ("numpy.mean", "sum", "len")),
)
_TUPLES = re.compile(r"(?:List|list|Sequence|Iterable)\[[Tt]uple\[([\w, ]+)\]")
_CATEGORIES = re.compile(f"{LISTS}|labels|outputs")
_VALUES = (
    (_CATEGORIES, "['a', 'b', 'c']"),
    (r"lower\w*|low|lo|min(_\w+)?|a_min|\w+_min", "0.0"),
    (r"upper\w*|high|hi|max(_\w+)?|a_max|\w+_max", "1.0"),
    (r"(l[12]_?)?sens\w*|\w*sensitivity|clip\w*|cap|max_norm|\w*_norm|bound|radius", "1.0"),
    (r"bounds?|range|limits|clip_range|data_range", "(0.0, 1.0)"),
    (r"sigma|noise_multiplier|scale|noise_scale|std|stddev|noise_std", "1.0"),
    (r"threshold|t|tau|alpha|beta|gamma|p|q|prob\w*|fraction|rate", "0.5"),
    (r"n|k|d|m|size|num_\w+|n_\w+|bins|count_\w+|steps|rounds|epochs|iterations", "3"),
    (r"random_state|seed|random_seed|rng_seed", SEED),
    (r"rng|generator|prng|gen", GENERATOR),
    (r"y(_\w+)?|labels?|targets?", "numpy.array([0, 1, 0, 1, 1, 0, 1, 0])"),
    (r"(query|func|function|fn|f|statistic|agg\w*|utility\w*)", "numpy.mean"),
    (r"w(eights?)?(_\w+)?|theta|coef\w*", "numpy.zeros(2)"),
    (r"(start|begin|from)_\w*(date|time)", "datetime.datetime(2024, 1, 1)"),
    (r"(end|to|until)_\w*(date|time)", "datetime.datetime(2024, 12, 31)"),
    (r"column|col|field|attribute|key", "'a'"),
)
_SINGLE = re.compile(
    r"(\w+_)?(value|val|answer|count|result|number|total|item|statistic|bit|response|query)|x|v"
)
_TEXTS = re.compile(r"(\w+_)?(texts|words|sentences|documents|messages|strings)")
_FRAME = re.compile(r"df|data_?frame|frame")
_TELLING = re.compile(r"list|List|^(int|float|bool|str)$")
_BOUNDS = re.compile(r"lower\w*|upper\w*|low|high|bounds?|range|min|max|\w+_(min|max)")
_PRIVACY = {"epsilon": "1.0", "delta": "1e-05", "rho": "0.5", "mu": "1.0"}


@dataclass(frozen=True, slots=True)
class Script:
    """Slot of a process that runs a script under limits and prints lines: interpreter, the folder
    that it may write to, memory limit in bytes (0: none), arguments after the interpreter.
    """

    python: str | None
    working_folder: str
    memory: int = 0
    command: tuple[str, ...] = (LAUNCHER, "function_calls")

    def launch(self) -> Launch:
        command, folder, environment = launch_of(self.python, self.command, self.working_folder)
        return command, folder, environment | {"MPLBACKEND": "Agg", "CUDA_VISIBLE_DEVICES": ""}

    def start(self, time_limit: float) -> Process:
        return Process(self)


def lines_of(slot: Script, request: Json, seconds: float) -> tuple[list[Json], str]:
    """Send a request to a script. Return the script's lines of JSON, and the reason why the script
    stopped early; an empty text if its last line was ``{"done": true}``.
    """
    process, found = slot.start(0.0), list[Json]()

    def read() -> None:
        process.send([json.dumps(request).encode() + b"\n"])
        while not found or not found[-1].get("done"):
            found.append(json.loads(process.line(LONGEST_LINE, "a call")))

    try:
        process.within(seconds, read)
        return found[:-1], ""
    except WorkerTimeout:
        return found, f"took longer than {seconds:g} s"
    except (ValueError, WorkerDied):
        return found, process.ended()
    finally:
        process.close()


def calls_of(
    found: NoiseMap,
    functions: Sequence[Function],
    slot: Script,
    *,
    root: Path,
    tests: Sequence[str] = (),
    scripts: Sequence[str] = (),
    kept: Sequence[Json] = (),
    seconds: float,
) -> tuple[list[Json], list[str]]:
    """Return calls with the results of the experiments on them, and remarks.

    Parameters
    ----------
    found, functions : NoiseMap, sequence of Function
        The map, and the functions whose calls are wanted.
    slot : Script
        Interpreter and limits.
    root : Path
        Folder from which the package is imported.
    tests, scripts : sequence of str
        Files or folders for pytest, and scripts to run.
    kept : sequence of dict
        Calls that `pytest --dp-discover` has written.
    seconds : float
        Time limit of the process.
    """
    request = {
        "paths": [str(root)],
        "wanted": wanted(found, functions),
        "modules": list(dict.fromkeys(each.module for each in functions)),
        "spelled": {each.path: {"spelled": each.path, "module": each.module} for each in functions},
        "tests": list(tests),
        "seconds": 0.6 * seconds,
        "scripts": list(scripts),
        "calls": [*kept, *(call for each in functions for call in made_up_calls(found, each))],
    }
    lines, ended = lines_of(slot, request, seconds)
    remarks = [line["remark"] for line in lines if "remark" in line]
    remarks += [f"the process of the calls {ended}"] if ended else []
    return [line for line in lines if "function" in line], remarks


def wanted(found: NoiseMap, functions: Sequence[Function]) -> dict[str, list[str]]:
    """Return module and qualified name of the functions to record, and of the constructors of all
    classes, by dotted name.
    """
    makers = [found.functions[path] for path in found.constructors.values() if path]
    return {
        each.path: [each.module, each.path.removeprefix(f"{each.module}.")]
        for each in (*functions, *makers)
    }


def made_up_calls(found: NoiseMap, function: Function) -> Iterator[Json]:
    """Yield calls to try, at most fifteen. The scan uses the first call that works."""
    forms = _forms(found, function)
    both = [("self", p) for p in constructor_parameters(found, function)]
    both += [("", p) for p in function.parameters]
    places = [(owner, p) for owner, p in both if p.required or _is_left_open(p)]
    is_categorical = any(_CATEGORIES.fullmatch(p.name) for _, p in both)
    choices = [_choices(found, p, function, forms, categorical=is_categorical) for _, p in places]
    owners = [owner for owner, _ in places]
    for chosen in (*_same_form(choices), *_one_data(owners, choices, forms)):
        given = [(owner, p.name, value) for (owner, p), value in zip(places, chosen, strict=True)]
        arguments = [[name, value, ""] for owner, name, value in given if not owner]
        if function.owner and not function.static:
            own = [f"{name}={value}" for owner, name, value in given if owner]
            arguments.insert(0, ["self", f"{function.owner}({', '.join(own)})", ""])
        text = " ".join(str(value) for _, value, _ in arguments)
        yield {
            "function": function.path,
            "arguments": arguments,
            "modules": [m for m in ("datetime", "numpy", "pandas", "polars") if f"{m}." in text],
            "alternative": True,
        }


def _same_form(choices: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Yield values for all parameters, the first form of data for all, then the second."""
    for turn in range(max(map(len, choices), default=1)):
        yield [held[min(turn, len(held) - 1)] for held in choices]


def _one_data(
    owners: Sequence[str], choices: Sequence[Sequence[str]], forms: Mapping[str, str]
) -> Iterator[list[str]]:
    """Yield values for all parameters: where several names and hints tell nothing, data for the
    first parameter of the function itself, and numbers for the others.
    """
    untold = [place for place, held in enumerate(choices) if held[0] == forms["array"]]
    own = [place for place in untold if not owners[place]]
    for form in ("array", "matrix", "list") if own and untold[1:] else ():
        values = ["1" if place in untold else held[0] for place, held in enumerate(choices)]
        values[own[0]] = forms[form]
        yield values


def _is_left_open(parameter: FunctionParameter) -> bool:
    """Return whether a parameter without a value by default states a claim, bounds or scores, or
    its default makes all runs equal.
    """
    if parameter.default != "None":
        return parameter.default.isdigit() and _known(parameter) == SEED
    names = (_BOUNDS.fullmatch(parameter.name), SCORES.fullmatch(parameter.name))
    return bool(privacy_parameters([parameter.name]) or any(names))


def _known(parameter: FunctionParameter) -> str:
    """Return a value that the name of a parameter suggests; empty if it suggests none."""
    name = parameter.name.lower().strip("_")
    for notion in privacy_parameters([parameter.name]):
        return _PRIVACY[notion]
    return next((value for pattern, value in _VALUES if re.fullmatch(pattern, name)), "")


def _forms(found: NoiseMap, function: Function) -> dict[str, str]:
    """Return data in each form, as source: numbers that lie on both sides of what the code compares
    them with, or within the bounds of its arguments.
    """
    texts = dict(function.constants) | {
        p.name: p.default or _known(p)
        for p in (*constructor_parameters(found, function), *function.parameters)
    }
    values = values_of(texts)
    low, high = stated_bounds(values) or data_range(
        function.limits, function.guards, scale_names(found, function), values, 0.0, 1.0
    )
    # numbers of data, as shares of their range
    numbers = [
        round(low + share * (high - low), 6) for share in (0.9, 0.5, 0.2, 0.1, 0.7, 0.3, 0.6, 0.4)
    ]
    whole = list(map(round, numbers)) if high - low > 2 else [0, 1, 1, 0, 2, 1, 0, 2]
    known = [v for v in function.texts if len(v) <= 40 and v not in function.columns][:3]
    labels = _labels([*known, "a", "b", "c"])
    words = [v for v in function.texts if re.fullmatch(r"[A-Za-z]\w*", v)][:4] or ["a", "b"]
    rows = [list(row) for row in zip(numbers, numbers[::-1], strict=True)]
    columns = function.columns or dict.fromkeys(words, False)
    frame = {name: labels if is_label else numbers for name, is_label in columns.items()}
    return {
        "between": f"{low + 0.45 * (high - low):g}",
        "array": f"numpy.array({numbers})",
        "list": str(numbers),
        "series": f"pandas.Series({numbers})",
        "matrix": f"numpy.array({rows})",
        "list(matrix)": f"list(numpy.array({rows}))",
        "whole": str(whole),
        "integers": f"numpy.array({whole})",
        "texts": str(_labels(["a", "b", "c"])),
        "text array": f"numpy.array({_labels(['a', 'b', 'c'])})",
        "labels": str(labels),
        "frame": f"pandas.DataFrame({frame})",
        "records": str(
            [dict(zip(frame, row, strict=True)) for row in zip(*frame.values(), strict=True)]
        ),
        "label frame": f"pandas.DataFrame({dict.fromkeys(columns, labels)})",
        "polars frame": f"polars.DataFrame({frame})",
        "polars labels": f"polars.DataFrame({dict.fromkeys(columns, labels)})",
    }


def _labels(known: Sequence[str]) -> list[str]:
    """Return eight texts of which three at most are different. The last occurs once, so that a
    change of it also changes the set of texts.
    """
    return [known[place] for place in (0, 1, 0, 1, 1, 0, 0, 2)]


def _choices(
    found: NoiseMap,
    parameter: FunctionParameter,
    function: Function,
    forms: Mapping[str, str],
    *,
    categorical: bool,
) -> list[str]:
    """Return the values to try for a parameter. Data are among the categories that another argument
    lists, if one does.
    """
    known = _object_of(found, parameter) or _known(parameter)
    names = [each.name for each in function.parameters]
    if names[1:2] == [parameter.name] and parameter.name in SIZES and {*names[2:3]} & {*SEEDS}:
        known = "1"  # f(dataset, size, rng) makes as many independent runs
    is_compared = parameter.name in function.limits and parameter not in function.parameters[:1]
    if is_compared and known in ("", "0.5") and parameter.hint in ("", "float"):
        known = forms["between"]
    if known:
        return [known]
    if categorical and SCORES.fullmatch(parameter.name):  # as many as `_VALUES` has categories
        return ["[3.0, 1.0, 0.0]", "numpy.array([3.0, 1.0, 0.0])"]
    tried = _data_tried(parameter, forms)
    if (
        categorical
        and "float" not in parameter.hint
        and tried[0] in ("array", "list", "texts", "3.0", "'a'")
    ):
        tried = ("text array", "texts", "'a'", *tried)
    if tried == ("'a'",):  # one of the texts that the code knows
        tried = [repr(text) for text in function.texts if text.isidentifier()][:4] or tried
    return [forms.get(each, each) for each in tried]


def _data_tried(parameter: FunctionParameter, forms: Mapping[str, str]) -> Sequence[str]:
    """Return the data to try for a parameter, by its name and type hint: names of forms, or
    source.
    """
    name, hint = parameter.name, parameter.hint
    parts = _TUPLES.search(hint)
    kinds = parts[1].split(",") if parts else []
    columns = ", ".join(forms["labels" if "str" in kind else "list"] for kind in kinds)
    hinted = next((held for telling, held in _HINTS if re.search(telling, hint)), None)
    rules: tuple[tuple[object, Sequence[str]], ...] = (
        (re.search(r"\b(pl|polars)\.", hint), ("polars frame", "polars labels")),
        (_FRAME.fullmatch(name) or "DataFrame" in hint, ("frame", "label frame")),
        (
            _SINGLE.fullmatch(name) and not _TELLING.search(hint),
            ("3.0", "1", "True", "array", "list"),
        ),
        (parts, (f"list(zip({columns}))",)),
        (re.fullmatch(r"X(_\w+)?|features", name), ("matrix", *_FORMS)),
        (_TEXTS.fullmatch(name) and not hint, ("texts", *_FORMS)),
        (True, hinted or (*_FORMS, "frame", "series")),
    )
    return next(tried for applies, tried in rules if applies)


def _object_of(found: NoiseMap, parameter: FunctionParameter, depth: int = 0) -> str:
    """Return the source of an object of the class that a type hint, or else the name, tells, if it
    is one of the files; otherwise an empty text.
    """
    named = re.findall(r"\w+", parameter.hint) or [parameter.name.title().replace("_", "")]
    classes = [path for path in found.constructors if path.rpartition(".")[2] in named]
    if len(classes) != 1 or depth > 2:
        return ""
    made = found.concrete.get(classes[0], classes[0])
    maker = found.constructors[made]
    given = [
        f"{p.name}={_object_of(found, p, depth + 1) or _known(p) or '1.0'}"
        for p in (found.functions[maker].parameters if maker else ())
        if p.required
    ]
    return f"{made}({', '.join(given)})"
