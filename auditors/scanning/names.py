"""Public functions and classes of a package, as their interpreter describes them: names, parameters, type hints and docstrings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpwitness.mechanisms.core.json_reader import Json

_OVERLOAD = re.compile(r"(?m)^\s*(?:\d+\.\s*)?(\w+)\((.*)\)\s*->")


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a function, a method or a constructor; `default`, `choices` and `example` are Python expressions.

    `used` is the kind of values that the code of the function uses it for, in the words of a type hint. `keys` are those that the code
    reads from it, as parameters.
    """

    name: str
    required: bool = True
    default: str | None = None
    annotation: str = ""
    kind: str = "POSITIONAL_OR_KEYWORD"
    choices: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    example: str = ""
    used: str = ""
    keys: tuple[Parameter, ...] = ()

    @property
    def hint(self) -> str:
        """Return the type hint, or else the kind of values that the code expects, if it has parts."""
        return self.annotation or (self.used if self.used not in ("int", "float", "str", "list") else "")

    @property
    def word(self) -> str:
        """Return the name in lower case, with single underscores between its words."""
        parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", self.name)
        return re.sub(r"_+", "_", parts).strip("_").lower()

    @property
    def is_named(self) -> bool:
        return self.kind in ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY", "POSITIONAL_ONLY")


@dataclass(frozen=True, slots=True)
class Method:
    """Public method of a class; `kind` is ``method``, ``static`` or ``class``. `parameters` is None without a signature."""

    name: str
    parameters: tuple[Parameter, ...] | None
    doc: str = ""
    kind: str = "method"
    own: bool = True
    abstract: bool = False
    returns: str = ""


@dataclass(frozen=True, slots=True)
class PublicName:
    """Public function, class or callable object of a package.

    Attributes
    ----------
    module, name : str
        Where the object is found: an attribute of a module.
    kind : {"function", "class", "instance"}
        What the object is.
    parameters : tuple of Parameter, or None
        Parameters of the function or of the constructor; None without a signature.
    doc : str
        Docstrings of the object and of its constructor.
    names : frozenset of str
        Names that its code uses, also in functions of its module that it calls.
    declared : dict
        Claim and domain that the object declares as attributes.
    shadowed : bool
        Whether the dotted name leads elsewhere, because another name hides the module.
    broken : str
        Why the module cannot be imported, so that the name was read from its source; empty for an imported one.
    """

    module: str
    name: str
    kind: str
    parameters: tuple[Parameter, ...] | None
    doc: str = ""
    methods: tuple[Method, ...] = ()
    names: frozenset[str] = frozenset()
    bases: tuple[str, ...] = ()
    declared: Json = field(default_factory=dict)
    abstract: bool = False
    shadowed: bool = False
    enum: bool = False
    returns: str = ""
    asynchronous: bool = False
    broken: str = ""

    @property
    def path(self) -> str:
        """Return the dotted name."""
        return f"{self.module}.{self.name}"

    def method(self, name: str) -> Method | None:
        """Return the method of this name; None if there is none."""
        return next((each for each in self.methods if each.name == name), None)


def read_name(found: Json) -> PublicName:
    """Return a public name from the JSON of `inside.descriptions`; signatures of extension modules are read from their docstrings."""
    doc = "\n\n".join(filter(None, [found.get("doc", ""), found.get("init_doc", "")]))
    parameters = _parameters(found.get("parameters"))
    if _is_unknown(parameters):
        spelled = found.get("init_doc", "") if found["kind"] == "class" else found.get("doc", "")
        parameters = spelled_parameters(spelled, "__init__" if found["kind"] == "class" else found["name"]) or parameters
    return PublicName(
        module=found["module"],
        name=found["name"],
        kind=found["kind"],
        parameters=_with_types(parameters, doc),
        doc=doc,
        methods=tuple(map(_read_method, found.get("methods", []))),
        names=frozenset(found.get("names", [])),
        bases=tuple(found.get("bases", [])),
        declared=found.get("declared", {}),
        abstract=bool(found.get("abstract")),
        shadowed=bool(found.get("shadowed")),
        enum=bool(found.get("enum")),
        returns=found.get("returns") or "",
        asynchronous=bool(found.get("async")),
        broken=found.get("broken", ""),
    )


def _read_method(found: Json) -> Method:
    parameters = _parameters(found.get("parameters"))
    if _is_unknown(parameters):
        parameters = spelled_parameters(found.get("doc", ""), found["name"]) or parameters
    own = ("name", "doc", "kind", "own", "abstract", "returns")
    return Method(parameters=_with_types(parameters, found.get("doc", "")), **{key: found[key] for key in own if key in found})


def _parameters(found: list[Json] | None) -> tuple[Parameter, ...] | None:
    if found is None:
        return None
    keys = ("name", "required", "default", "annotation", "kind", "used")
    return tuple(
        Parameter(
            **{key: each[key] for key in keys if key in each},
            choices=tuple(each.get("choices", ())),
            classes=tuple(each.get("classes", ())),
            keys=tuple(Parameter(key) for key in each.get("keys", ())),
        )
        for each in found
    )


_TYPES = (  # words of a docstring's type, and the type hint that they mean; the first in the text counts
    (r"callable|function|lambda", "Callable"),
    (r"data ?frame", "DataFrame"),
    (r"\bseries\b", "Series"),
    (r"array|tensor|matrix|vector", "ndarray"),
    (r"\b(list|sequence|iterable|tuple)", "list"),
    (r"\b(dict|mapping)", "dict"),
    (r"\b(float|double|number|numeric|real|scalar)", "float"),
    (r"\b(int|integer)\b", "int"),
    (r"\bbool", "bool"),
    (r"\b(str|string)\b", "str"),
)


def _with_types(parameters: tuple[Parameter, ...] | None, doc: str) -> tuple[Parameter, ...] | None:
    """Return the parameters with the types that a docstring states, for those without a type hint."""
    if parameters is None or not doc:
        return parameters
    return tuple(p if p.annotation or p.choices else _typed(p, documented_type(doc, p.name)) for p in parameters)


def _typed(parameter: Parameter, text: str) -> Parameter:
    listed = re.match(r"\{(.*?)\}", text)
    if listed and re.search(r"['\"]", listed[1]):
        return replace(parameter, choices=tuple(part.strip() for part in listed[1].split(",") if part.strip()[:1] in "'\""))
    found = [(match.start(), hint) for pattern, hint in _TYPES if (match := re.search(pattern, text, re.I))]
    return replace(parameter, annotation=min(found, default=(0, ""))[1])


def documented_type(doc: str, name: str) -> str:
    """Return the type of a parameter in a docstring of the styles of NumPy, Google or Sphinx; empty if it states none.

    Examples
    --------
    >>> documented_type("Parameters\\n----------\\ndata : list|ndarray\\n    Data.", "data")
    'list|ndarray'
    >>> documented_type("Args:\\n    x (float): Number.", "x"), documented_type(":type x: int", "x")
    ('float', 'int')
    >>> documented_type(":param int x: it", "x"), documented_type("Nothing.", "x")
    ('int', '')
    """
    word = re.escape(name)
    patterns = (
        rf":type {word}:[ \t]*(.+)",
        rf":param (\S+) {word}:",
        rf"^[ \t]*[-*]?[ \t]*`*{word}`*[ \t]*\(([^)\n]+)\)",
        rf"^[ \t]*\[?{word}\]?[ \t]+:[ \t]*(.{{1,80}})$",
    )
    return next((found[1].strip() for pattern in patterns if (found := re.search(pattern, doc, re.M))), "")


def _is_unknown(parameters: tuple[Parameter, ...] | None) -> bool:
    """Return whether a signature contains no information: it is missing, or ``(*args, **kwargs)``."""
    return parameters is None or all(p.kind.startswith("VAR_") for p in parameters)


def spelled_parameters(doc: str, name: str) -> tuple[Parameter, ...] | None:
    """Return the parameters that a docstring spells as ``name(self: Type, epsilon: float, delta: float = 0) -> Type``; None without one.

    The overload with the most parameters is taken, except for a generic one with ``*args``.
    """
    found: list[tuple[Parameter, ...]] = []
    for match in _OVERLOAD.finditer(doc):
        if match[1] != name or "*args" in match[2]:
            continue
        parts = [part.strip() for part in _split(match[2])]
        found.append(
            tuple(
                _spelled(part) for part in parts if part and part not in ("/", "*") and not re.match(r"(self|arg0)\b.*\bself|self\b", part)
            )
        )
    return max(found, key=len, default=None)


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[(<{") - (letter in "])>}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _spelled(part: str) -> Parameter:
    declaration, _, default = part.partition("=")
    name, _, annotation = declaration.partition(":")
    return Parameter(name.strip(), required=not default, default=default.strip() or None, annotation=annotation.strip())


def with_examples(names: Sequence[PublicName], calls: Sequence[Json]) -> list[PublicName]:
    """Return the names with the arguments that examples give to each parameter: in a call of the name itself, else of another name."""
    by_name: dict[str, list[Json]] = {}
    for call in calls:
        by_name.setdefault(call["name"], []).append(call)
    anywhere: dict[str, str] = {}
    callables = [
        (name.name, name.parameters) if method is None else (method.name, method.parameters)
        for name in names
        for method in (None, *name.methods)
    ]
    own = [(parameters, _given(parameters or (), by_name.get(word, ()))) for word, parameters in callables]
    for _, values in own:
        anywhere = values | anywhere
    found = iter([_exemplified(parameters, anywhere | values) for parameters, values in own])
    return [
        replace(name, parameters=next(found), methods=tuple(replace(method, parameters=next(found)) for method in name.methods))
        for name in names
    ]


def _given(parameters: Sequence[Parameter], calls: Sequence[Json]) -> dict[str, str]:
    """Return the first value of each parameter in the calls that fit the signature."""
    words, values = [p.name for p in parameters], dict[str, str]()
    for call in calls:
        if len(call["arguments"]) <= len(words) and set(call["keywords"]) <= set(words):
            given = (*zip(words, call["arguments"], strict=False), *call["keywords"].items())
            values = {word: value for word, value in given if value} | values
    return values


def _exemplified(parameters: tuple[Parameter, ...] | None, values: Mapping[str, str]) -> tuple[Parameter, ...] | None:
    return None if parameters is None else tuple(replace(p, example=values.get(p.name, "")) for p in parameters)


def without(parameters: tuple[Parameter, ...], name: str) -> tuple[Parameter, ...]:
    """Return the parameters without the one of this name."""
    return tuple(p for p in parameters if p.name != name)
