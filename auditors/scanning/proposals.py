"""Proposals: from the calls of a function to a target with a claim and a domain, or to the one
thing that is missing.
"""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpwitness.auditors.scanning.noise_map import (
    COMMON_LAWS,
    Function,
    NoiseMap,
    Site,
    constructor_parameters,
    scale_names,
)
from dpwitness.auditors.scanning.promises import (
    NOISE,
    PRIVACY,
    SCORES,
    SENSITIVITY,
    Promise,
    privacy_parameters,
    promise_of,
    relation_of,
)
from dpwitness.auditors.scanning.ranges import COUNT, data_range, is_real, stated_bounds, values_of
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.programs.inside.function_calls import (
    GENERATOR,
    RANDOM,
    RANDOM_STATE,
    SEED,
)

_ATTACK = re.compile(r"attack|adversar|reconstruct|inference_risk|infer_member")
_NOISE = re.compile(r"noise|laplace|gauss", re.IGNORECASE)  # names of functions that return noise
_COUNTS = re.compile(
    r"(\w+_)?(counts?|totals?|sums?|freq(uency)?|answer|statistic|number|card(inality)?|size|n)"
)
_PLACEHOLDERS = {
    GENERATOR: "rng",
    RANDOM_STATE: "numpy.random.RandomState(rng.integers(2**31))",
    RANDOM: "random.Random(int(rng.integers(2**31)))",
    SEED: "int(rng.integers(2**31))",
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """Result of a scan for one function that reaches noise.

    Attributes
    ----------
    function : Function
        The function.
    sites : tuple of Site
        The noise that it reaches.
    promise : Promise
        Its claim; without a claim, the missing part.
    why : str
        Work for a person before the function can be audited; empty for a target.
    source : str
        Source of the target, without its attributes.
    domain : dict
        Declaration of its domain.
    relations : tuple of str
        Relations under which its claim is audited; a violation under all of them counts.
    modules : tuple of str
        Modules that the source needs.
    seeded : bool
        Whether the same seed gives the same output.
    recorded : bool
        Whether the call is one that the package itself makes.
    seconds : float
        CPU time of one run.
    """

    function: Function
    sites: tuple[Site, ...]
    promise: Promise
    why: str = ""
    source: str = ""
    domain: Json | None = None
    relations: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    seeded: bool = True
    recorded: bool = True
    seconds: float = 0.0

    @property
    def target(self) -> str:
        """Return the name of the target: class and function."""
        inner = self.function.path.removeprefix(self.function.module + ".").split(".")
        return re.sub(r"\W", "_", "_".join(part.strip("_") for part in inner))


def mechanisms(found: NoiseMap) -> list[Function]:
    """Return the public functions that reach noise and speak of privacy, in their parameters or
    docstring; not samplers, which take nothing but parameters of the noise.
    """
    return [function for function in found.public() if _is_mechanism(found, function)]


def _is_mechanism(found: NoiseMap, function: Function) -> bool:
    """Return whether a function that reaches noise speaks of privacy and is not a sampler."""
    if function.name == "__init__" or _ATTACK.search(function.name):
        return False
    own = [p.name for p in function.parameters]
    names = [*own, *(p.name for p in constructor_parameters(found, function))]
    words = f"{function.path.replace('_', ' ')} {function.doc} {_class_doc(found, function)}"
    uncommon = any(site.law not in COMMON_LAWS for site in found.reached[function.path])
    claims = uncommon and bool(privacy_parameters(names))
    of_noise = [privacy_parameters([name]) or NOISE.fullmatch(name.lower()) for name in own]
    is_sampler = bool(own) and all(of_noise) and not function.owner
    return bool(claims or PRIVACY.search(words)) and not is_sampler


def propose(found: NoiseMap, function: Function, calls: Sequence[Json]) -> Proposal:
    """Return the proposal for a function whose calls had these outcomes."""
    sites = found.reached[function.path]
    working = [call for call in calls if call.get("data") or _is_noise(found, function, call)]
    ranked = sorted(working, key=lambda call: (bool(call.get("alternative")), _preference(call)))
    if not ranked:
        return Proposal(function, sites, Promise("", "the claim"), why=_obstacle(calls))
    promises = [_promise(found, function, call, sites) for call in ranked]
    stated = [place for place, promise in enumerate(promises) if promise.claim]
    if not stated:
        return Proposal(function, sites, promises[-1], why=promises[-1].because)
    call, promise = ranked[stated[0]], promises[stated[0]]
    made = _form(found, function, call)
    if isinstance(made, str):
        return Proposal(function, sites, promise, why=made)
    expression, domain = made
    if linked := call.get("form", {}).get("linked"):  # two arguments hold parts of each record
        expression, other = _parts(linked)
        arguments = [
            [name, other if name == linked["name"] else text, why]
            for name, text, why in call["arguments"]
        ]
        call = call | {"arguments": arguments}
    return _target(function, sites, promise, call, expression, domain)


def _parts(linked: Json) -> tuple[str, str]:
    """Return the expressions of both arguments that hold parts of the rows of a dataset."""
    width, flat = linked["width"], linked["flat"]
    return (
        "dataset[:, 0]" if flat[0] else f"dataset[:, :{width}]",
        "dataset[:, -1]" if flat[1] else f"dataset[:, {width}:]",
    )


def _is_noise(found: NoiseMap, function: Function, call: Json) -> bool:
    """Return whether a call returns noise for answers of a stated sensitivity."""
    names = [p.name for p in (*function.parameters, *constructor_parameters(found, function))]
    stated = privacy_parameters(names) and any(SENSITIVITY.fullmatch(n.lower()) for n in names)
    return call.get("role") == "noise" and bool(stated and _NOISE.search(function.name))


def _preference(call: Json) -> int:
    """Return a sort key: data of some records first, since one record hides others' place."""
    size = int(call.get("form", {}).get("size", 1))
    return (size < 3) * 2 + (size > 50)


def _obstacle(calls: Sequence[Json]) -> str:
    """Return why no call can be audited."""
    if not calls:
        return "a call of it: no test calls it, and no call could be made up"
    own = [call for call in calls if not call.get("alternative")] or list(calls)
    missing = [
        f"a value that can be written down: {name} is {why}"
        for call in own
        for name, text, why in call["arguments"]
        if text is None
    ]
    return str([*missing, own[0].get("why") or "a call that works"][0])


def _texts(found: NoiseMap, function: Function, call: Json) -> dict[str, str]:
    """Return the source of what a call gives to parameters, those of the constructor, defaults and
    constants of the module included.
    """
    texts = dict(function.constants) | {
        p.name: p.default for p in (*constructor_parameters(found, function), *function.parameters)
    }
    for name, text, _ in call["arguments"]:
        if text and name != "self":
            texts[name] = text
        made = [each for each in ast.walk(ast.parse(text or "0")) if isinstance(each, ast.Call)]
        for each in reversed(made):  # the object itself last, after those in its arguments
            maker = found.functions.get(found.constructors.get(ast.unparse(each.func), ""))
            if maker is not None:
                texts |= {p.name: p.default for p in maker.parameters if p.name not in texts}
                texts |= {str(k.arg): ast.unparse(k.value) for k in each.keywords}
    return texts


def _promise(found: NoiseMap, function: Function, call: Json, sites: Sequence[Site]) -> Promise:
    texts = _texts(found, function, call)
    parameters = (*function.parameters, *constructor_parameters(found, function))
    names = list(dict.fromkeys(p.name for p in parameters))
    if not privacy_parameters(names):  # an object that is given may hold them
        names = [name for name in texts if name not in function.constants]
    return promise_of(
        names,
        {name: float(value) for name, value in values_of(texts).items() if is_real(value)},
        [site.law for site in sites],
        f"{function.path} {function.doc} {_class_doc(found, function)}",
    )


def _class_doc(found: NoiseMap, function: Function) -> str:
    maker = found.constructors.get(function.owner, "")
    return found.functions[maker].doc if maker else ""


def _form(found: NoiseMap, function: Function, call: Json) -> tuple[str, Json] | str:
    """Return the expression of the data over ``dataset`` and the domain; or what is missing."""
    form, role = call.get("form", {"value": 0.0}), call["role"]
    laws = {site.law for site in found.reached[function.path]} - {*COMMON_LAWS}
    norm = "l2" if "gauss" in function.path.lower() or laws == {"gaussian"} else "l1"
    if role == "records" and SCORES.fullmatch(call["data"]) and form["kind"] == "values":
        role, norm = "answers", "linf"
    texts = _texts(found, function, call)
    sensitivity = _sensitivity(texts)
    factor = f" * {sensitivity}" if is_real(values_of({"": sensitivity}).get("")) else ""
    answers = {"kind": "Answers", "low": -10.0, "high": 10.0, "relation": "l1"}
    if role == "answers":
        data = f"(dataset{factor}){'.tolist()' if form['container'] == 'list' else ''}"
        range_ = {"length": int(form["size"]), "low": -5.0, "high": 5.0}
        return data, answers | range_ | {"relation": norm}
    is_rounded = (  # an answer whose noise is rounded or cut
        role == "category" and form["kind"] == "number" and _COUNTS.fullmatch(call["data"])
    )
    if is_rounded or role in ("answer", "noise"):
        if isinstance(form["value"], int) and not factor.strip(" *1.0"):
            counts = {"kind": "Counts", "length": 1, "low": 0, "high": 100}
            return "int(dataset[0])", counts | {"relation": "l1"}
        return f"float(dataset[0]){factor}", answers | {"length": 1}
    if role == "category":
        return _category(form, texts)
    given = {name: text for name, text, _ in call["arguments"] if "sens" in name.lower()}
    if sensitivity := _sensitivity(given):
        return f"what changes by at most {sensitivity} in its data"
    values, scales = values_of(texts), scale_names(found, function)
    widen = functools.partial(data_range, function.limits, function.guards, scales, values)
    return _records(
        form,
        stated_bounds(values),
        lambda about: widen(float(about.get("low", 0.0)), float(about.get("high", 1.0))),
    )


def _category(form: Json, texts: Mapping[str, str]) -> tuple[str, Json] | str:
    """Return the expression and the domain of one person's category; or what is missing."""
    expression, most = "int(dataset[0])", 1
    if form["kind"] == "str":
        listed = [text for text in values_of(texts).values() if isinstance(text, list | tuple)]
        known = next((each for each in listed if form["value"] in each), ())
        if not known:
            return "the list of the values that its data can have"
        expression, most = f"{known!r}[int(dataset[0])]", len(known) - 1
    elif form["kind"] == "number":
        most = max(1, int(form["value"]))
    elif form["kind"] == "bool":
        expression = "bool(dataset[0])"
    return expression, {"kind": "Records", "size": 1, "low": 0, "high": most, "categories": True}


def _sensitivity(texts: Mapping[str, Any]) -> str:
    """Return the source of the first argument that states a sensitivity; empty without one."""
    stated = (text for name, text in texts.items() if SENSITIVITY.fullmatch(name.lower()) and text)
    return str(next(stated, ""))


def _records(
    form: Json, bounds: tuple[float, float] | None, widened: Callable[[Json], tuple[float, float]]
) -> tuple[str, Json] | str:
    """Return expression and domain of data with one record for each person: numbers within the
    bounds that the call states, else within the range of the data, widened.
    """
    # larger data are cut for the domain
    size = min(int(form["size"]), 200)
    if size < 1:
        return "data with records"
    if form["kind"] in ("frame", "dicts", "tuples"):
        columns = {name: _column(each, widened) for name, each in form["columns"].items()}
        frame = form["library"] if form["kind"] == "frame" else "records"
        data = "[tuple(row.values()) for row in dataset]" if form["kind"] == "tuples" else "dataset"
        return data, {"kind": "Table", "columns": columns, "size": size, "frame": frame}
    if form["kind"] == "rows":
        features = [list(bounds or widened(each)) for each in form["columns"]]
        whole = [i for i, each in enumerate(form["columns"]) if each["kind"] != "float"]
        data = "dataset" if form["container"] == "ndarray" else "dataset.tolist()"
        return data, {"kind": "Rows", "size": size, "features": features, "integer": whole}
    of = form["of"]
    texts = of.get("values", ())
    if of["kind"] == "text" and len(texts) < 2:
        return "data with two different texts"
    low, high = bounds or widened(of)
    forms: dict[str, tuple[str, Json]] = {
        "text": (
            f"[{texts!r}[int(value)] for value in dataset]",
            {"high": len(texts) - 1, "categories": True},
        ),
        "boolean": ("[bool(value) for value in dataset]", {"integer": True}),
        "integer": (
            "[int(value) for value in dataset]",
            {"low": low, "high": high, "integer": True},
        ),
        "float": ("dataset.tolist()", {"low": low, "high": high}),
    }
    listed, more = forms[of["kind"]]
    container = {"ndarray": "numpy.array({})", "list": "{}", "tuple": "tuple({})"}.get(
        form["container"], "pandas.Series({})"
    )
    return container.format(listed), {"kind": "Records", "size": size, "low": 0, "high": 1} | more


def _column(about: Json, widened: Callable[[Json], tuple[float, float]]) -> Any:
    texts, (low, high) = about.get("values", ()), widened(about)
    return {
        "text": texts if len(texts) > 1 else [*texts, "other"],
        "boolean": {"categories": [False, True]},
        "integer": (int(low), int(high)),
        "float": (low, high),
    }[about["kind"]]


def _target(
    function: Function,
    sites: tuple[Site, ...],
    promise: Promise,
    call: Json,
    expression: str,
    domain: Json,
) -> Proposal:
    """Return the proposal of a target that repeats a call with other data."""
    many = domain["kind"] in ("Records", "Rows", "Table") and domain["size"] > 1
    data, values = call.get("data", ""), {}
    for name, text, _ in call["arguments"]:
        values[name] = _with_randomness(str(text))
        if name == data:
            values[name] = expression
        elif name == "self" and data.startswith("self."):
            made = _with_argument(str(text), data.removeprefix("self."), expression)
            values[name] = _with_randomness(made)
        elif many and text == str(call["form"].get("size")) and COUNT.fullmatch(name):
            values[name] = "len(dataset)"
    owner = values.pop("self", "")
    arguments = [f"{name}={value}" for name, value in values.items()]
    run, called = "", function.path
    if owner:
        run, called = f"mechanism = {owner}\n", f"mechanism.{function.name}"
    called += f"({', '.join(arguments)})"
    if call["role"] == "noise":
        run += f"return {expression} + {called}"
    elif owner:
        run += (
            f"found = {called}\n"
            "return found if found is not None and found is not mechanism else "
            "{key: value for key, value in vars(mechanism).items() if key.endswith('_')}"
        )
    else:
        run += f"return {called}"
    named = [m for m in ("datetime", "numpy", "pandas", "polars", "random") if f"{m}." in run]
    proposal = Proposal(
        function,
        sites,
        promise,
        domain=domain,
        relations=_relations(function, domain, call.get("moved", ()), many=many),
        modules=tuple(dict.fromkeys([function.module, *call["modules"], *named])),
        seeded=bool(call["seeded"]),
        recorded=not call.get("alternative"),
        seconds=float(call["seconds"]),
    )
    lines = [
        f"def {proposal.target}(dataset, size, rng):",
        "    def run():",
        textwrap.indent(run, " " * 8),
        "",
        "    return [run() for _ in range(size)]",
    ]
    return replace(proposal, source="\n".join(lines))


def _with_argument(text: str, name: str, value: str) -> str:
    """Return the source of a call of a constructor with another value of an argument."""
    made: Any = ast.parse(text, mode="eval").body
    for keyword in made.keywords:
        if keyword.arg == name:
            keyword.value = ast.parse(value, mode="eval").body
    return ast.unparse(made)


def _with_randomness(text: str) -> str:
    pattern = "|".join(map(re.escape, _PLACEHOLDERS))
    return re.sub(pattern, lambda found: _PLACEHOLDERS[found[0]], text)


def _relations(
    function: Function, domain: Json, moved: Sequence[str], *, many: bool
) -> tuple[str, ...]:
    """Return the relations to audit: that of the docstring, else those under which the output
    moves.
    """
    if domain["kind"] in ("Answers", "Counts"):
        return (str(domain["relation"]),)
    stated = relation_of(function.doc) if many else "replace-one"
    if stated:
        return (stated,)
    names = {"replaced": "replace-one", "removed": "add-remove"}
    return tuple(names[what] for what in dict.fromkeys(moved))
