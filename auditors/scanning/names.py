"""Public functions and classes of a package, as their interpreter describes them: names,
parameters, type hints and docstrings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpwitness.core.values.json_reader import Json

_GENERATOR = re.compile(r"(generate|make|create|build|get)_")
_OVERLOAD = re.compile(r"(?m)^\s*(?:\d+\.\s*)?`*(\w+)\((.*)\)\s*(?:->|[`:]*\s*$)")
# of a parameter: as in Python, with the type in parentheses as in Boost, and with the type first as
# in C
_DECLARATIONS = (
    re.compile(r"(?P<name>\w+)(?:\s*:(?!:)\s*(?P<hint>.+))?"),
    re.compile(r"\((?P<hint>.+)\)\s*(?P<name>\w+)"),
    re.compile(r"(?P<hint>.+?[\s&*])(?P<name>\w+)"),
)
_COMPILED_TYPES = (  # of extension modules, and the type hints that they mean
    (
        r"(typing\.)?SupportsFloat( \| (typing\.)?SupportsIndex)?|\b(long "
        r")?double\b|\bfloat(32|64)\b",
        "float",
    ),
    (
        r"(typing\.)?SupportsInt( \| (typing\.)?SupportsIndex)?|\b(unsigned |signed )?(long "
        r"long|long|int|short)\b( int\b)?",
        "int",
    ),
    (r"\b(std::)?s?size_t\b|\bu?int\d+_t\b|\bPy_ssize_t\b", "int"),
    (r"^(const )?(std::)?string( const)?\s*&?$|^(const )?char( const)?\s*\*$", "str"),
    (r"\bstd::vector\s*<", "list<"),
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a function, a method or a constructor; `default`, `choices` and `example` are
    Python expressions.

    `used` is the kind of values that the code of the function uses it for, in the words of a type
    hint. `keys` are those that the code reads from it, as parameters. `makers` return values for it
    (`with_makers`).
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
    makers: tuple[PublicName, ...] = field(default=(), compare=False, repr=False)

    @property
    def hint(self) -> str:
        """Return the type hint, or else the kind of values that the code expects, if it
        has parts.
        """
        return self.annotation or (
            self.used
            if self.used not in ("exponent", "length", "int", "float", "str", "list")
            else ""
        )

    @property
    def word(self) -> str:
        """Return the name in lower case, with single underscores between its words."""
        parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", self.name)
        return re.sub(r"_+", "_", parts).strip("_").lower()

    @property
    def plain_default(self) -> str | None:
        """Return the default as an expression; None if its text is not a plain value."""
        try:
            return None if ast.literal_eval(self.default or "...") is ... else self.default
        except (SyntaxError, ValueError):
            return None

    @property
    def is_named(self) -> bool:
        return self.kind in ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY", "POSITIONAL_ONLY")


@dataclass(frozen=True, slots=True)
class Method:
    """Public method of a class; `kind` is ``method``, ``static`` or ``class``. `parameters` is None
    without a signature.
    """

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
        Why the module cannot be imported, so that the name was read from its source; empty for an
        imported one.
    compiled : bool
        Whether its code is not Python, so that `names` is empty.
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
    broken: str = ""
    compiled: bool = False

    @property
    def path(self) -> str:
        """Return the dotted name."""
        return f"{self.module}.{self.name}"

    def method(self, name: str) -> Method | None:
        """Return the method of this name; None if there is none."""
        return next((each for each in self.methods if each.name == name), None)


def read_name(found: Json) -> PublicName:
    """Return a public name from the JSON of `inside.descriptions`; signatures of extension modules
    are read from their docstrings.
    """
    doc = "\n\n".join(filter(None, [found.get("doc", ""), found.get("init_doc", "")]))
    parameters, is_class = _parameters(found.get("parameters")), found["kind"] == "class"
    if _is_unknown(parameters):
        made = (
            spelled_parameters(found.get("init_doc", ""), "__init__", found["name"])
            if is_class
            else None
        )
        parameters = made or spelled_parameters(found.get("doc", ""), found["name"]) or parameters
    return PublicName(
        module=found["module"],
        name=found["name"],
        kind=found["kind"],
        parameters=_with_types(parameters, doc),
        doc=doc,
        methods=tuple(_read_method(each, found["name"]) for each in found.get("methods", [])),
        names=frozenset(found.get("names", [])),
        bases=tuple(found.get("bases", [])),
        declared=found.get("declared", {}),
        abstract=bool(found.get("abstract")),
        shadowed=bool(found.get("shadowed")),
        enum=bool(found.get("enum")),
        returns=found.get("returns") or "",
        broken=found.get("broken", ""),
        compiled=bool(found.get("compiled")),
    )


def _read_method(found: Json, owner: str) -> Method:
    parameters = _parameters(found.get("parameters"))
    if _is_unknown(parameters):
        parameters = spelled_parameters(found.get("doc", ""), found["name"], owner) or parameters
    own = ("name", "doc", "kind", "own", "abstract", "returns")
    return Method(
        parameters=_with_types(parameters, found.get("doc", "")),
        **{key: found[key] for key in own if key in found},
    )


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


# words of a docstring's type, and the type hint that they mean; the first in the text counts
_TYPES = (
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
    """Return the parameters with the types that a docstring states, for those without a
    type hint.
    """
    if parameters is None or not doc:
        return parameters
    return tuple(
        p if p.annotation or p.choices else _typed(p, documented_type(doc, p.name))
        for p in _with_parts(parameters, doc)
    )


def _with_parts(parameters: tuple[Parameter, ...], doc: str) -> Iterator[Parameter]:
    """Yield the parameters, with the parts of a container that the docstring states where the type
    hint names the container only.
    """
    for parameter in parameters:
        stated = (
            documented_type(doc, parameter.name)
            if parameter.annotation in ("list", "dict", "tuple")
            else ""
        )
        yield (
            replace(parameter, annotation=stated)
            if stated.startswith(f"{parameter.annotation}[")
            else parameter
        )


def _typed(parameter: Parameter, text: str) -> Parameter:
    listed = re.match(r"\{(.*?)\}", text)
    if listed and re.search(r"['\"]", listed[1]):
        return replace(
            parameter,
            choices=tuple(
                part.strip() for part in listed[1].split(",") if part.strip()[:1] in "'\""
            ),
        )
    found = [
        (match.start(), hint)
        for pattern, hint in _TYPES
        if (match := re.search(pattern, text, re.I))
    ]
    return replace(parameter, annotation=min(found, default=(0, ""))[1])


def documented_type(doc: str, name: str) -> str:
    """Return the type of a parameter in a docstring of the styles of NumPy, Google or Sphinx; empty
    if it states none.

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
    return next(
        (found[1].strip() for pattern in patterns if (found := re.search(pattern, doc, re.M))), ""
    )


def _is_unknown(parameters: tuple[Parameter, ...] | None) -> bool:
    """Return whether a signature contains no information: it is missing, or ``(*args,
    **kwargs)``.
    """
    return parameters is None or all(p.kind.startswith("VAR_") for p in parameters)


def spelled_parameters(doc: str, name: str, owner: str = "") -> tuple[Parameter, ...] | None:
    """Return the parameters that a docstring spells, as those of extension modules do; None without
    such a line.

    The overload with the most parameters is taken, except for a generic one with ``*args``. The
    instance of the class `owner` is left out.

    Examples
    --------
    >>> doc = "add(self: lib.Noise, value: float, epsilon: float = 1.0) -> float"
    >>> [(p.name, p.annotation, p.default) for p in spelled_parameters(doc, "add", "Noise")]
    [('value', 'float', None), ('epsilon', 'float', '1.0')]
    >>> [(p.name, p.annotation) for p in spelled_parameters("add(double value, std::vector< double > const & weights)", "add")]
    [('value', 'float'), ('weights', 'list< float > const &')]
    >>> [p.name for p in spelled_parameters("add( (Noise)arg1, (float)value [, (float)epsilon=1.0]) -> float :", "add", "Noise")]
    ['value', 'epsilon']
    """  # noqa: E501
    found: list[tuple[Parameter, ...]] = []
    for match in _OVERLOAD.finditer(doc):
        if match[1] != name or "*args" in match[2]:
            continue
        # brackets around what may be left out
        text, optional = re.subn(r"\s*\[\s*,", ",", match[2])
        read = _read_parts(
            [
                part.strip()
                for part in _split(text.rstrip("] ") if optional else text)
                if part.strip()
            ]
        )
        if read is not None:
            # the instance: by its name, or by its type if it has no name of its own
            is_method = read and (
                read[0].name == "self"
                or (
                    read[0].name == "arg1"
                    and read[0].annotation.rpartition(".")[2] in ("object", owner)
                )
            )
            found.append(read[1:] if is_method else read)
    return max(found, key=len, default=None)


def _read_parts(parts: Sequence[str]) -> tuple[Parameter, ...] | None:
    """Return the parameters that the parts of a signature declare; None if one of the parts
    declares none, as in an example of a call.
    """
    found: list[Parameter] = []
    kind = "POSITIONAL_OR_KEYWORD"
    for part in parts:
        if part == "/":
            found = [replace(each, kind="POSITIONAL_ONLY") for each in found]
        elif part == "*":
            kind = "KEYWORD_ONLY"
        elif (parameter := _spelled(part, kind)) is not None:
            found.append(parameter)
        else:
            return None
    return tuple(found)


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


def _spelled(part: str, kind: str) -> Parameter | None:
    """Return the parameter that a text declares; None without one. One without a name, or declared
    as in C, is given by its position.
    """
    declaration, _, default = (each.strip() for each in part.partition("="))
    for place, pattern in enumerate(_DECLARATIONS):
        if (found := pattern.fullmatch(declaration)) and not found["name"][0].isdigit():
            hint = (found["hint"] or "").strip()
            for compiled, plain in _COMPILED_TYPES:
                hint = re.sub(compiled, plain, hint)
            unnamed = place == 2 or re.fullmatch(r"arg\d*", found["name"])
            return Parameter(
                found["name"],
                not default,
                default or None,
                hint,
                "POSITIONAL_ONLY" if unnamed else kind,
            )
    return None


def with_examples(names: Sequence[PublicName], calls: Sequence[Json]) -> list[PublicName]:
    """Return the names with the arguments that examples give to each parameter: in a call of the
    name itself, else of another name.
    """
    by_name: dict[str, list[Json]] = {}
    for call in calls:
        by_name.setdefault(call["name"], []).append(call)
    anywhere: dict[str, str] = {}
    callables = [
        (name.name, name.parameters) if method is None else (method.name, method.parameters)
        for name in names
        for method in (None, *name.methods)
    ]
    own = [
        (parameters, _given(parameters or (), by_name.get(word, ())))
        for word, parameters in callables
    ]
    for _, values in own:
        anywhere = values | anywhere
    found = iter([_exemplified(parameters, anywhere | values) for parameters, values in own])
    return [
        replace(
            name,
            parameters=next(found),
            methods=tuple(replace(method, parameters=next(found)) for method in name.methods),
        )
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


def _exemplified(
    parameters: tuple[Parameter, ...] | None, values: Mapping[str, str]
) -> tuple[Parameter, ...] | None:
    return (
        None
        if parameters is None
        else tuple(replace(p, example=values.get(p.name, "")) for p in parameters)
    )


def with_makers(names: Sequence[PublicName]) -> list[PublicName]:
    """Return the names, where required arguments of constructors have the names that make them.

    These are a class with a method ``get_<argument>``, such as the server of a client, and
    functions such as ``generate_<argument>``.
    """
    getters: dict[str, list[PublicName]] = {}
    for each in names:
        made = [
            m.name[4:]
            for m in each.methods
            if m.name.startswith("get_") and not any(p.required for p in m.parameters or ())
        ]
        found = _GENERATOR.match(each.name)
        for word in (
            made
            if each.kind == "class" and not each.abstract
            else [each.name[found.end() :]]
            if found
            else ()
        ):
            getters.setdefault(word, []).append(each)

    def makers(owner: PublicName, argument: str) -> tuple[PublicName, ...]:
        others = [each for each in getters.get(argument, ()) if each is not owner]
        fitting = [
            each for each in others if each.kind != "class" or _stem(each.name) == _stem(owner.name)
        ]
        own = {p.name: p for p in owner.parameters or ()}  # what is known of an argument of both
        ordered = sorted(fitting, key=lambda each: each.kind != "class")
        return tuple(
            replace(
                each,
                parameters=tuple(
                    replace(own.get(p.name, p), required=p.required, default=p.default, kind=p.kind)
                    for p in each.parameters or ()
                ),
            )
            for each in ordered
        )

    return [
        replace(
            name,
            parameters=tuple(
                replace(p, makers=makers(name, p.name)) if p.required else p
                for p in name.parameters
            ),
        )
        if name.kind == "class" and name.parameters
        else name
        for name in names
    ]


def _stem(name: str) -> str:
    """Return the name of a class without its last word, if other words are left, such as `CMS` of
    `CMSClient`.
    """
    return re.sub(r"(?<=.)[A-Z][a-z0-9]*$", "", name)


def without(parameters: tuple[Parameter, ...], name: str) -> tuple[Parameter, ...]:
    """Return the parameters without the one of this name."""
    return tuple(p for p in parameters if p.name != name)
