"""Values for the parameters of a proposed call: by the role of a parameter, its type hint, and
tables of usual names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dpwitness.auditors.scanning.data_forms import CATEGORIES, Form
from dpwitness.auditors.scanning.names import Parameter, PublicName
from dpwitness.auditors.scanning.vocabulary import (
    BUDGETS,
    BY_HINT,
    COLUMN,
    DISTANCES,
    EXTRACTORS,
    MAPPERS,
    OTHERS,
    OUTPUTS,
    PREDICATES,
    PURE_CHOICES,
    QUERIES,
    UTILITIES,
    WEIGHTS,
    default_number,
    is_query,
    is_tolerance,
    role,
)
from dpwitness.mechanisms.wrappers.arguments import GENERATORS

EPSILON, DELTA, RHO = 1.0, 1e-5, 0.5  # privacy parameters of a proposed call
OUTPUT_FILE = '"output.csv"'  # expression of the path of a file that a call writes
_DEPTH = 2  # objects inside of arguments of arguments

_BY_USE = {"exponent": "2", "length": str(CATEGORIES)}  # use of a number in the code, and its value
# of time, by default
_COSTS = {
    "n_jobs": "1",
    "num_workers": "1",
    "n_workers": "1",
    "n_estimators": "3",
    "num_trees": "3",
    "n_trees": "3",
}
_SHORT = {"cfg": "config", "conf": "config", "mech": "mechanism", "params": "parameters"}
_TWO = re.compile(r"Callable\[\[[^\]]*,")  # a function of two arguments or more
_SUMMED = ("np.array(dataset)", "dataset.tolist()", "[int(value)")  # data whose sum is a number
TEXTS = re.compile(r"(typing\.|collections\.abc\.)?(List|list|Sequence|Iterable)\[str\]")


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of one call.

    Attributes
    ----------
    values : tuple of (str, str)
        Names and expressions; an empty name is a positional argument.
    privacy : tuple of (str, str, float)
        Role, parameter and value of each argument that spends privacy: epsilon, delta, rho.
    missing : tuple of str
        Required parameters for which no value is known.
    imports : tuple of str
        Modules that the expressions need.
    """

    values: tuple[tuple[str, str], ...] = ()
    privacy: tuple[tuple[str, str, float], ...] = ()
    missing: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    def spelled(self) -> str:
        """Return the arguments as the text between the parentheses of the call."""
        return ", ".join(value if not name else f"{name}={value}" for name, value in self.values)

    def joined(self, other: Arguments) -> Arguments:
        """Return the privacy arguments, missing parameters and imports of two calls together,
        without the values.
        """
        return Arguments(
            (),
            self.privacy + other.privacy,
            self.missing + other.missing,
            self.imports + other.imports,
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to fill in the arguments of a call; the ways are tried one after the other."""

    delta: bool = False  # whether an optional delta is set
    seeded: bool = True  # whether randomness is given
    integer: bool = False  # whether sensitivity and bounds are integers
    edges: bool = False  # whether bins are edges
    bounded: bool = True  # whether optional bounds are set where a sensitivity is
    fractions: bool = False  # whether unknown numbers lie between 0 and 1
    shown: bool = False  # whether optional arguments have the values of examples
    usual: bool = False  # whether usual values replace those of examples
    # whether public values are those of the last function or class that makes them
    generated: bool = False
    # whether scales are set, because the library computes the claim that follows
    exact: bool = False


def fill(
    parameters: Sequence[Parameter],
    form: Form,
    data: str | None,
    choice: Choice,
    classes: Mapping[str, PublicName],
    *,
    matrix: bool = False,
    depth: int = 0,
) -> Arguments:
    """Return the arguments of a call.

    Parameters
    ----------
    parameters : sequence of Parameter
        Parameters of the function, method or constructor.
    form : Form
        Form of the data.
    data : str or None
        Name of the parameter that receives the data.
    choice : Choice
        Which way of filling in is tried.
    classes : mapping of str to PublicName
        Classes of the package by dotted name, of which arguments can be built.
    matrix : bool
        Whether bounds and ranges are those of a matrix with two columns.
    """
    values: list[tuple[str, str]] = []
    found, parts = Arguments(), {role(p) for p in parameters}
    for parameter in parameters:
        if not parameter.is_named:
            continue
        # d counts the categories
        part = (
            role(parameter)
            if parameter.word != "k" or all(p.word != "d" for p in parameters)
            else "other"
        )
        if parameter.name == data:
            expression: str | None = form.data
            found = replace(found, imports=found.imports + form.imports)
        elif form.labels and (part == "labels" or parameter.name == form.second):
            expression = form.labels
        elif not parameter.required and (
            (part == "rho" and "epsilon" in parts)
            or (part in ("lower", "upper", "bounds") and not choice.bounded)
            # the default of a parameter chooses a noise without delta, as in mechanism="laplace"
            or (
                part == "delta"
                and any(PURE_CHOICES.search(str(p.default)) for p in parameters if not p.required)
            )
        ):
            expression = None
        elif part == "epsilon" and parameter.word.endswith("_delta"):  # both in one argument
            named = re.search("[Dd]ict|Mapping", parameter.hint)
            expression = (
                f'{{"epsilon": {EPSILON!r}, "delta": {DELTA!r}}}'
                if named
                else f"({EPSILON!r}, {DELTA!r})"
            )
            found = replace(
                found,
                privacy=(
                    *found.privacy,
                    (part, parameter.name, EPSILON),
                    ("delta", parameter.name, DELTA),
                ),
            )
        elif part in ("delta", "rho", "mu") or (part == "epsilon" and not is_tolerance(parameter)):
            number, expression = _privacy_value(parameter, part, choice)
            if number is not None:
                found = replace(found, privacy=(*found.privacy, (part, parameter.name, number)))
        else:
            expression, inner = _value(parameter, part, form, choice, classes, matrix, depth)
            found = found.joined(inner)
        if expression is None and parameter.kind == "POSITIONAL_ONLY":
            expression = parameter.plain_default  # a later argument must keep its place
        if expression is None:
            if parameter.required or parameter.kind == "POSITIONAL_ONLY":
                found = replace(found, missing=(*found.missing, parameter.name))
            continue
        unnamed = parameter.kind == "POSITIONAL_ONLY" or (
            parameter.name == data and not values and parameter.kind != "KEYWORD_ONLY"
        )
        values.append(("" if unnamed else parameter.name, expression))
    return replace(found, values=tuple(values))


def _privacy_value(
    parameter: Parameter, part: str, choice: Choice
) -> tuple[float | None, str | None]:
    """Return the number and the expression of a privacy parameter in the call; the expression is
    None if the parameter is omitted.
    """
    if part == "delta":
        default = default_number(parameter)
        if not parameter.required and default is not None and 0 < default < 1:
            return default, None
        return (DELTA, repr(DELTA)) if parameter.required or choice.delta else (None, None)
    # the first report of a permanent randomized response has a smaller epsilon
    number = 2.0 if parameter.word == "eps_perm" else RHO if part == "rho" else EPSILON
    return number, repr(number)


def _value(
    parameter: Parameter,
    part: str,
    form: Form,
    choice: Choice,
    classes: Mapping[str, PublicName],
    matrix: bool,
    depth: int,
) -> tuple[str | None, Arguments]:
    """Return the expression of a parameter other than data and privacy, and its requirements; None
    to omit the parameter.
    """
    if MAPPERS.fullmatch(parameter.word) and form.integer:
        return "lambda item: item", Arguments()  # categories are numbers from 0 on
    optional_and_set = not parameter.required and parameter.default != "None"
    if part == "seed":
        return (_seed(parameter) if choice.seeded or parameter.required else None), Arguments()
    if parameter.word in ("deterministic", "reproducible") and parameter.default == "True":
        return "False", Arguments()  # the noise would be a function of the data
    if parameter.word in _COSTS and default_number(parameter) not in (None, 0.0, 1.0):
        return _COSTS[parameter.word], Arguments()
    if choice.shown and part == "other" and parameter.example and not parameter.required:
        return parameter.example, Arguments()
    if optional_and_set:
        if parameter.default == "'int'" and parameter.word == "dtype":
            return ('"int"' if form.integer else '"float"'), Arguments()
        return None, Arguments()
    if choice.exact and parameter.required and (part == "scale" or parameter.word == "alpha"):
        return "1", Arguments()
    if TEXTS.match(parameter.hint) and '["a", "b", "c"]' in form.data:
        return '["a", "b", "c"]', Arguments()  # the names of the data
    configured = (
        _configured(parameter, form, choice, classes, depth) if parameter.required else None
    )
    if configured is not None:
        return configured
    by_column = bool(re.match(r"(typing\.)?([Dd]ict|Mapping)", parameter.annotation))
    known = _by_role(parameter, part, form, choice, matrix and not by_column)
    if known is not None and by_column:
        known = (
            f'{{"a": {known}, "b": {known}}}'
            if '["a", "b"]' in form.data
            else f'{{"{COLUMN}": {known}}}'
        )
    if known is not None:
        return known, Arguments()
    if not parameter.required:
        hinted = [classes[place] for place in classes_of(parameter, classes) if place in classes]
        spends = any(role(p) == "epsilon" for cls in hinted for p in cls.parameters or ())
        return (spends and _built(parameter, form, choice, classes, depth)) or (None, Arguments())
    if parameter.choices:
        pure = next(
            (each for each in parameter.choices if re.search("laplace|pure|epsilon", each, re.I)),
            parameter.choices[0],
        )
        # the module of an enumeration member
        module = re.fullmatch(r"([A-Za-z_][\w.]*)\.\w+", pure)
        return pure, Arguments(imports=(module[1].rpartition(".")[0],) if module else ())
    if OUTPUTS.match(parameter.word):
        return OUTPUT_FILE, Arguments()
    if "Callable" in parameter.hint or (
        not parameter.annotation and (is_query(parameter) or parameter.word in UTILITIES)
    ):
        return _function(parameter, form), Arguments()
    built = _built(parameter, form, choice, classes, depth)
    if built is not None:
        return built
    usual = _usual_value(parameter, form, choice)
    of_frame = f'"{COLUMN}"' in form.data and usual == f'"{COLUMN}"'
    if parameter.example and not of_frame and (usual is None or not choice.usual):
        return parameter.example, Arguments()
    if usual is not None:
        return usual, Arguments()
    made = _made(parameter, form, choice, classes, depth)
    if made is not None:
        return made
    if WEIGHTS.match(parameter.word) and re.search("array|ndarray", parameter.annotation):
        return "np.zeros(2)", Arguments()
    if parameter.word in (
        "df",
        "dataframe",
        "data_frame",
    ):  # public, as another argument receives the data
        return f'pandas.DataFrame({{"{COLUMN}": list(range({CATEGORIES}))}})', Arguments(
            imports=("pandas",)
        )
    return _by_annotation(parameter, choice)


def _function(parameter: Parameter, form: Form) -> str | None:
    """Return a query of sensitivity 1 for records in [0, 1], a utility, a distance, or a part of a
    record; None for another function.
    """
    if DISTANCES.match(parameter.word):
        return "lambda one, other: float(one != other)"
    if PREDICATES.match(parameter.word) and not _TWO.match(parameter.hint):
        return "lambda each: True"
    if EXTRACTORS.match(parameter.word) and not _TWO.match(parameter.hint):
        return "lambda each: each"
    if role(parameter) == "utility" or parameter.word in UTILITIES:
        return "lambda data, candidate: float(sum(value == candidate for value in data))"
    summed = form.many and form.high <= 1 and form.data.startswith(_SUMMED)
    return (
        "sum"
        if summed and QUERIES.match(parameter.word) and not _TWO.match(parameter.hint)
        else None
    )


def _usual_value(parameter: Parameter, form: Form, choice: Choice) -> str | None:
    """Return the value of a parameter in the table of usual names; None if the table does not list
    the name.
    """
    if parameter.used in _BY_USE and len(parameter.word) == 1:  # a letter says less than the code
        return _BY_USE[parameter.used]
    edges = "[{low}, {middle}, {high}]"
    for pattern, text in OTHERS:
        if re.fullmatch(pattern, parameter.word):
            if choice.fractions and text in ("0.5", "1.0"):
                return "0.1"
            chosen = edges if text == edges or ("bins" in parameter.word and choice.edges) else text
            numbers = {
                "low": repr(form.low),
                "high": repr(form.high),
                "middle": repr((form.low + form.high) / 2),
            }
            return chosen.format(**numbers) if chosen == edges else chosen
    return _BY_USE.get(parameter.used)


def _by_role(
    parameter: Parameter, part: str, form: Form, choice: Choice, matrix: bool
) -> str | None:
    """Return the value that follows from the role of a parameter and the form of the data."""
    low, high = (
        (int(form.low), int(form.high)) if choice.integer or form.integer else (form.low, form.high)
    )
    small = parameter.word.startswith(("l0", "linf")) or choice.integer or form.integer
    if part == "bounds" and matrix and parameter.word not in ("bounds_y", "bound"):
        pair = f"([{low}, {low}], [{high}, {high}])"
        return f"[({low}, {high}), ({low}, {high})]" if parameter.word == "range" else pair
    table = {
        "sensitivity": "1" if small else "1.0",
        "lower": repr(low),
        "upper": repr(high),
        "bounds": f"({low!r}, {high!r})" if parameter.word != "bound" else repr(high),
        "norm": repr(max(1.0, abs(high))),
        "categories": str(int(form.high) + 1 if form.domain.get("categories") else CATEGORIES)
        if parameter.required
        else None,
        "category list": _category_list(form)
        if parameter.required or parameter.word == "classes"
        else None,
        "size": str(form.domain.get("size", 1)) if parameter.required else None,
    }
    return table.get(part)


def _category_list(form: Form) -> str:
    if form.relation == "linf":  # a candidate for each score
        return f"list(range({form.domain['length']}))"
    if '["no", "yes"]' in form.data:
        return '["no", "yes"]'
    if '"a", "b"' in form.data:
        return '["a", "b", "c", "d"]'
    return "[0, 1]" if form.labels else f"list(range({int(form.high) + 1}))"


def _seed(parameter: Parameter) -> str:
    """Return the expression of the randomness that a parameter takes."""
    note, seed = parameter.annotation, "int(rng.integers(2**32))"
    if "RandomState" in note:
        return f"np.random.RandomState({seed})"
    if "random.Random" in note or note == "Random":
        return f"random.Random({seed})"
    if "Generator" in note or (parameter.word in GENERATORS and "int" not in note):
        return "rng"
    return seed


def _by_annotation(parameter: Parameter, choice: Choice) -> tuple[str | None, Arguments]:
    """Return a value for a plain type hint, and the requirements of the value; None for other
    hints.
    """
    note = (parameter.annotation or parameter.used).replace("builtins.", "")
    # numbers that differ with the last digit of the name: mu0 and mu1
    if choice.fractions and note == "float":
        return repr({"0": 0.3, "1": 0.6, "2": 0.6}.get(parameter.name[-1:], 0.5)), Arguments()
    for pattern, value, module in BY_HINT:
        if re.fullmatch(pattern, note):
            year = "2021" if re.search(r"end|to|until|stop", parameter.word) else "2020"
            return value.format(year=year), Arguments(imports=(module,) if module else ())
    return None, Arguments()


def classes_of(parameter: Parameter, classes: Mapping[str, PublicName]) -> tuple[str, ...]:
    """Return the classes in the type hint of a parameter, or else the classes whose names end with
    the name of the parameter.
    """
    # a type hint that cannot be resolved, as its module imports it for type checks only
    if not parameter.classes and parameter.annotation:
        words = re.findall(r"[A-Z]\w+", parameter.annotation)
        return tuple(
            place
            for word in words
            for place, cls in classes.items()
            if cls.name == word and place == cls.path
        )[:3]
    wanted = _SHORT.get(parameter.word, parameter.word).replace("_", "")
    if parameter.classes or len(wanted) < 4 or not parameter.required:
        return parameter.classes
    found = [
        place
        for place, cls in classes.items()
        if cls.name.lower().endswith(wanted) and not cls.enum and place == cls.path
    ]
    if not found and role(parameter) == "accountant":
        found = [
            place
            for place, cls in classes.items()
            if BUDGETS.search(cls.name) and place == cls.path
        ]
    return tuple(sorted(found, key=len)[:3])


def _configured(
    parameter: Parameter, form: Form, choice: Choice, classes: Mapping[str, PublicName], depth: int
) -> tuple[str, Arguments] | None:
    """Return a dict with the keys that the code reads from a parameter; None for another parameter,
    or if a value is not known.
    """
    if (
        not parameter.keys
        or not re.match(r"(typing\.)?([Dd]ict|Mapping|Any|$)", parameter.annotation)
        or depth >= _DEPTH
    ):
        return None
    inner = fill(parameter.keys, form, None, choice, classes, depth=depth + 1)
    items = ", ".join(f"{name!r}: {value}" for name, value in inner.values)
    return None if inner.missing else (f"{{{items}}}", replace(inner, values=()))


def _built(
    parameter: Parameter, form: Form, choice: Choice, classes: Mapping[str, PublicName], depth: int
) -> tuple[str, Arguments] | None:
    """Return an expression that builds an object of a class in the type hint; None if none can be
    built.

    The epsilon of a budget object differs from an epsilon of the call, so its role is ``budget
    epsilon``.
    """
    listed = re.match(
        r"(typing\.)?(List|list|Tuple|tuple|Sequence|Iterable|collections\.abc\.\w+)\[",
        parameter.annotation,
    )
    for place in classes_of(parameter, classes) if depth < _DEPTH else ():
        cls = classes.get(place)
        if cls is None:
            continue
        if cls.abstract:  # its first subclass that can be built
            below = tuple(
                other.path
                for other in classes.values()
                if place in other.bases and not other.abstract
            )
            inner_built = (
                _built(replace(parameter, classes=below), form, choice, classes, depth)
                if below
                else None
            )
            if inner_built is not None:
                return inner_built
        if cls.abstract or cls.parameters is None or cls.enum:
            continue
        made_from = cls.parameters
        if {"lower", "upper", "bounds"} & {role(p) for p in made_from}:  # it describes a column
            made_from = tuple(
                replace(p, example=f'"{COLUMN}"') if p.word == "name" else p for p in made_from
            )
        inner = fill(made_from, form, None, choice, classes, depth=depth + 1)
        if BUDGETS.search(cls.name):
            inner = replace(
                inner,
                privacy=tuple(
                    (f"budget {part}", name, number) for part, name, number in inner.privacy
                ),
            )
        if not inner.missing:
            made = f"{cls.path}({inner.spelled()})"
            return (f"[{made}]" if listed else made), replace(
                inner, values=(), imports=(*inner.imports, cls.module)
            )
    return None


def _made(
    parameter: Parameter, form: Form, choice: Choice, classes: Mapping[str, PublicName], depth: int
) -> tuple[str, Arguments] | None:
    """Return a public value that a function or an object of another class makes, such as hash
    functions; None if it cannot be made.
    """
    if not parameter.makers or depth >= _DEPTH:
        return None
    maker = parameter.makers[-choice.generated]
    inner = fill(maker.parameters or (), form, None, choice, classes, depth=depth + 1)
    made = f"{maker.path}({inner.spelled()})" + f".get_{parameter.name}()" * (maker.kind == "class")
    return (
        None
        if inner.missing
        else (f"public_value(lambda: {made})", Arguments(imports=(*inner.imports, maker.module)))
    )


def maker_in(arguments: Arguments) -> str:
    """Return the expression of the object that makes a public value for a call; empty
    if none does.
    """
    found = (
        re.fullmatch(r"public_value\(lambda: (.*)\.get_\w+\(\)\)", value)
        for _, value in arguments.values
    )
    return next((match[1] for match in found if match), "")
