"""Forms of data that a function may take, in the order of trial: an expression over `dataset`, and
the domain of the dataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dpwitness.auditors.scanning.names import Parameter
from dpwitness.auditors.scanning.vocabulary import (
    ADD_REMOVE,
    COLUMN,
    FILES,
    MAPPERS,
    METRIC,
    REPLACE_ONE,
    SELECTING,
    SINGLE,
    is_query,
    role,
)
from dpwitness.core.values.json_reader import Json

CATEGORIES = 4  # categories of a domain without a size
RECORDS = 10  # records of a dataset
_BINARY = re.compile(
    r"\bbinary (?!search|tree|mech|count|local|hash)|\bboolean|\byes[ /-](or )?no\b", re.I
)


@dataclass(frozen=True, slots=True)
class Form:
    """Form of the data of one call.

    Attributes
    ----------
    what : str
        What the data are, in words.
    data : str
        Expression over `dataset` that a call receives.
    domain : dict
        Declaration of the domain, as in target files.
    low, high : float
        Bounds of one record or answer.
    labels : str
        Expression of the labels, or of the second column; empty without.
    second : str
        Name of the parameter that receives the second column.
    integer : bool
        Whether the values are integers.
    imports : tuple of str
        Modules that the expressions need.
    """

    what: str
    data: str
    domain: Json
    low: float = 0.0
    high: float = 1.0
    labels: str = ""
    second: str = ""
    integer: bool = False
    imports: tuple[str, ...] = ()

    @property
    def relation(self) -> str:
        return str(self.domain.get("relation", "replace-one"))

    @property
    def many(self) -> bool:
        """Return whether a dataset has several records, so that the number of records is a
        parameter.
        """
        return bool(self.domain.get("size", 1) > 1)


def answer(
    length: int = 1,
    norm: str = "l1",
    low: float = -10.0,
    high: float = 10.0,
    data: str = "float(dataset[0])",
) -> Form:
    """Return the form of true query answers, whose neighbors differ by at most 1 in a norm."""
    what = "the true answer of a query" if length == 1 else f"{length} true answers of queries"
    return Form(
        what,
        data,
        {"kind": "Answers", "length": length, "low": low, "high": high, "relation": norm},
        low,
        high,
    )


def count(low: int = 0, high: int = 100) -> Form:
    """Return the form of one true count."""
    return Form(
        "a true count",
        "int(dataset[0])",
        {"kind": "Counts", "length": 1, "low": low, "high": high, "relation": "l1"},
        low,
        high,
        integer=True,
    )


def records(
    relation: str,
    low: float = 0.0,
    high: float = 1.0,
    data: str = "np.array(dataset)",
    integer: bool = False,
    size: int = RECORDS,
) -> Form:
    """Return the form of a list of numbers, one for each person."""
    what = (
        f"{size} {'whole ' if integer else ''}numbers in [{low:g}, {high:g}], one for each person"
    )
    domain: Json = {
        "kind": "Records",
        "size": size,
        "low": low,
        "high": high,
        "relation": relation,
    } | ({"integer": True} if integer else {})
    return Form(what, data, domain, low, high, integer=integer)


def category(count: int = CATEGORIES, data: str = "int(dataset[0])") -> Form:
    """Return the form of one person's category."""
    return Form(
        f"the category of one person, among {count}",
        data,
        {
            "kind": "Records",
            "size": 1,
            "low": 0,
            "high": count - 1,
            "categories": True,
            "relation": "replace-one",
        },
        0,
        count - 1,
        integer=True,
    )


def _texts_of_many(count: int) -> Form:
    """Return the form of an array of texts, one for each of six persons."""
    letters = ["no", "yes"] if count == 2 else list("abcd"[:count])
    spelled = "[" + ", ".join(f'"{letter}"' for letter in letters) + "]"
    return Form(
        f"an array of {count} categories, one for each of 6 persons",
        f"np.array([{spelled}[int(value)] for value in dataset])",
        category(count).domain | {"size": 6},
        0,
        count - 1,
        integer=True,
    )


def _listed(form: Form) -> Form:
    """Return the form with its array as a list."""
    return replace(
        form,
        what=form.what.replace("an array", "a list", 1),
        data=form.data.removeprefix("np.array(").removesuffix(")"),
    )


def one_value(low: float = 0.0, high: float = 1.0) -> Form:
    """Return the form of one person's number."""
    return Form(
        f"the number of one person, in [{low:g}, {high:g}]",
        "float(dataset[0])",
        {"kind": "Records", "size": 1, "low": low, "high": high, "relation": "replace-one"},
        low,
        high,
    )


def rows(relation: str, labels: bool = False, high: float = 1.0) -> Form:
    """Return the form of a matrix with one row for each person, and a label if `labels`."""
    domain: Json = {
        "kind": "Rows",
        "size": RECORDS,
        "features": [[0.0, high], [0.0, high]],
        "relation": relation,
    }
    if not labels:
        return Form(
            f"{RECORDS} rows of 2 numbers in [0, {high:g}]", "np.array(dataset)", domain, 0.0, high
        )
    domain |= {"labels": [0, 1], "every_label": True}
    what = f"{RECORDS} rows of 2 numbers in [0, {high:g}], with a label 0 or 1"
    return Form(
        what, "np.array(dataset[:, :-1])", domain, 0.0, high, labels="np.array(dataset[:, -1])"
    )


def table(relation: str) -> Form:
    """Return the form of a data frame with two columns of numbers, one row for each person."""
    form = rows(relation)
    return replace(
        form,
        what=f"{form.what}, in a DataFrame",
        data='pandas.DataFrame(np.array(dataset), columns=["a", "b"])',
        imports=("pandas",),
    )


def file_of(form: Form) -> Form:
    """Return the form of a data frame as the name of a file with its records."""
    return replace(
        form,
        what=f"{form.what}, in a CSV file",
        data=f'({form.data}.to_csv("records.csv", index=False) or "records.csv")',
    )


def framed(form: Form, note: str, kind: str = "DataFrame") -> Form:
    """Return the form with its data in a data frame or a series, of the library that the type hint
    `note` names: polars, else pandas.
    """
    library = "polars" if re.search(r"\bpl\.|polars|lazyframe", note) else "pandas"
    kind = "LazyFrame" if "lazyframe" in note else kind
    # the library of a LazyFrame is polars
    data = (
        f"{library}.Series({form.data})"
        if kind == "Series"
        else f'{library}.{kind}({{"{COLUMN}": {form.data}}})'
    )
    return replace(form, what=f"{form.what}, in a {kind}", data=data, imports=(library,))


def relation_of(
    text: str, name: str, parameters: Sequence[Parameter], convention: str = ""
) -> tuple[str, str]:
    """Return the relation of a function of many records, and the words from which it was read; the
    words are empty for a default.

    `convention` is the relation that other functions of the package name, if they agree.
    """
    adding, replacing = ADD_REMOVE.search(text), REPLACE_ONE.search(text)
    if adding and not replacing:
        return "add-remove", f"the docstring says {adding[0]!r}"
    if replacing and not adding:
        return "replace-one", f"the docstring says {replacing[0]!r}"
    contributions = next(
        (
            p.name
            for p in parameters
            if re.search(r"l0_sens|linf_sens|max_(partitions|contrib)", p.word)
        ),
        "",
    )
    if contributions:
        return "add-remove", f"the parameter {contributions!r} bounds what one person adds"
    if re.search(r"count|hist|tally|frequenc", name, re.I):
        return "add-remove", f"{name!r} counts records"
    if convention:
        return convention, f"the other functions of the package mean {convention}"
    return "replace-one", ""


def forms_for(
    data: Parameter | None, others: Sequence[Parameter], name: str, text: str, convention: str = ""
) -> Iterator[Form]:
    """Yield the forms of the data of a call, the most likely first.

    Parameters
    ----------
    data : Parameter or None
        Parameter that receives the data; None for a function that returns noise only.
    others : sequence of Parameter
        Other parameters of the call.
    name, text : str
        Name of the function, and its docstrings.
    convention : str
        Relation that other functions of the package name.
    """
    roles = {
        role(p)
        for p in others
        if "noise" in name.lower() or not p.word.startswith(("l0_", "linf_"))
    }
    relation, _ = relation_of(text, name, others, convention)
    if data is None and METRIC.search(f"{name} {text}"):
        yield answer(2, "l2", data="np.array(dataset)")
        yield answer(1, "l2")
        return
    if data is None:
        yield from (
            (count(), answer())
            if re.search(r"geometric|discrete|integer", name, re.I)
            else (answer(), count())
        )
        return
    note = data.hint.lower()
    if METRIC.search(f"{name} {text}"):
        yield from _points(data, others)
        return
    if "dataframe" in note or "lazyframe" in note or data.word in ("df", "data_frame", "dataframe"):
        yield from _frames(note, relation, roles, name, text)
        return
    if FILES.match(data.word):
        yield file_of(framed(records(relation), ""))
        yield file_of(table(relation))
        form = records(relation)
        yield replace(
            form,
            what=f"{form.what}, in the lines of a file",
            data='(np.savetxt("records.txt", np.array(dataset)) or "records.txt")',
        )
        return
    if role(data) == "utility":
        yield from _keyed(note, "linf", relation)
        yield answer(4, "linf", data="dataset.tolist()")
        yield answer(4, "linf", data="np.array(dataset)")
        return
    if any(role(p) == "labels" and p.required for p in others):
        yield rows(relation, labels=True)
        if data.name == "x":  # perhaps one column
            yield replace(rows(relation, labels=True), data="np.array(dataset[:, 0])")
        return
    second = next((p.name for p in others if p.required and _is_second(data, p)), "")
    if second:
        yield replace(
            rows(relation),
            data="np.array(dataset[:, 0])",
            labels="np.array(dataset[:, 1])",
            second=second,
        )
        return
    if any(p.word in ("lst_k", "list_k", "domain_sizes") for p in others):
        # with 2 and 3 categories
        domain: Json = {
            "kind": "Rows",
            "size": 1,
            "features": [[0, 1], [0, 2]],
            "integer": [0, 1],
            "categories": [0, 1],
            "relation": "replace-one",
        }
        yield Form(
            "the categories of one person in 2 attributes",
            "[int(value) for value in dataset[0]]",
            domain,
            0,
            1,
            integer=True,
        )
        return
    if re.search(r"(list|sequence|iterable)\[tuple\[str, *(int|float)\]", note):
        named = {"kind": "Counts", "length": 3, "low": 0, "high": 100, "relation": "l1"}
        yield Form(
            "3 true counts with their names",
            'list(zip(["a", "b", "c"], map(int, dataset)))',
            named,
            0,
            100,
            integer=True,
        )
    selecting = SELECTING.search(f"{name} {text[:400]}")
    callables = any(
        ("Callable" in p.hint and not MAPPERS.match(p.word)) or (p.required and is_query(p))
        for p in others
    )
    found = [
        *_keyed(note, "linf" if selecting else "l1", relation),
        *_by_kind(data, roles, relation, name, text),
    ]
    if (
        selecting
        and not callables
        and not roles & {"categories", "category list", "lower", "upper", "bounds"}
    ):
        scores = [
            answer(4, "linf", data="np.array(dataset)"),
            answer(4, "linf", data="dataset.tolist()"),
        ]
        found = [*scores, *found] if data.word not in SINGLE else found
    if callables:  # a function of the data is no answer, but is computed from records
        found = [form for form in found if form.many] or found
    if any(p.word in ("value0", "value_0") for p in others):
        found = sorted(found, key=lambda form: '["no", "yes"]' not in form.data)
    if "series" in note:
        found = [framed(form, note, "Series") for form in found]
    yield from _ranked(found, note or ("iterated" if data.used == "list" else ""))


def _points(data: Parameter, others: Sequence[Parameter]) -> Iterator[Form]:
    """Yield the forms of a point whose privacy loss grows with the distance: two coordinates, as
    two arguments or as one, or a number.
    """
    second = next((p.name for p in others if p.required and _is_second(data, p)), "")
    if second:
        yield replace(answer(2, "l2"), labels="float(dataset[1])", second=second)
        return
    spelled = ["np.array(dataset)", "dataset.tolist()", "tuple(dataset.tolist())"]
    several = re.search(r"list|sequence|iterable", data.hint.lower()) or data.word in (
        "trajectory",
        "points",
        "coordinates",
        "locations",
    )
    yield from (
        answer(2, "l2", data=text)
        for text in (*["[tuple(dataset.tolist())]"] * bool(several), *spelled)
    )
    yield answer(1, "l2")


def _keyed(note: str, norm: str, relation: str) -> list[Form]:
    """Return the forms for a parameter whose type hint is a dict: records by key, or answers by
    name.
    """
    if not re.search(r"dict|mapping", note):
        return []
    if re.search(r"(list|sequence|iterable)\[.*(dict|mapping)", note):
        return [records(relation, data=f'[{{"{COLUMN}": float(value)}} for value in dataset]')]
    arrays = answer(3, "l2", data='{"a": np.array(dataset)}')
    plain = answer(3, norm, data='dict(zip(["a", "b", "c"], dataset.tolist()))')
    return [arrays, plain] if re.search(r"array|tensor", note) else [plain, arrays]


def _is_second(data: Parameter, other: Parameter) -> bool:
    """Return whether two parameters are two columns of data, by their names: x and y,
    or 1 and 2.
    """
    pairs = (
        ("_x", "_y"),
        ("1", "2"),
        ("_1", "_2"),
        ("_a", "_b"),
        ("lat", "lon"),
        ("lat", "lng"),
        ("latitude", "longitude"),
    )
    return (data.word, other.word) == ("x", "y") or any(
        data.word.endswith(a) and other.word == data.word[: -len(a)] + b for a, b in pairs
    )


def _by_kind(data: Parameter, roles: set[str], relation: str, name: str, text: str) -> list[Form]:
    """Return all forms; the other parameters of the call decide their order."""
    bounded = bool(roles & {"lower", "upper", "bounds"})
    low, high = (0.0, 1.0) if bounded else (-10.0, 10.0)
    norm = "l2" if re.search(r"l2|gauss", text, re.I) else "l1"
    answers = [
        answer(low=low, high=max(high, 1.0)),
        count(),
        answer(3, norm, data="np.array(dataset)"),
        answer(3, norm, data="dataset.tolist()"),
    ]
    people = [
        records(relation),
        records(relation, data="dataset.tolist()"),
        records(relation, data="[int(value) for value in dataset]", integer=True),
        _listed(_texts_of_many(3)),
        # two numbers of at most 0.7 have a norm below 1
        rows(relation, high=0.7 if "norm" in roles else 1.0),
        replace(rows(relation, high=0.7), data="[np.array(row) for row in dataset]"),
        table(relation),
    ]
    texts = [
        category(2, '["no", "yes"][int(dataset[0])]'),
        category(4, '["a", "b", "c", "d"][int(dataset[0])]'),
        category(2, "bool(dataset[0])"),
    ]
    categories = [
        category(),
        category(2),
        *texts,
        category(data="np.array([int(dataset[0])])"),
        category(data="[int(dataset[0])]"),
    ]
    if _BINARY.search(text) and not roles & {"categories", "category list"}:
        categories.sort(key=lambda form: form.high > 1)
    single = data.word in SINGLE or bool(
        re.search(r"(^|_)(value|item|answer|bit|point|response)$", data.word)
    )
    if "sensitivity" in roles and "series" in data.annotation.lower():
        return [*people, *answers]
    if "sensitivity" in roles and not (roles & {"categories"}):
        return (
            [*answers, *people, *categories]
            if single or not bounded
            else [*people[:2], *answers, *people[2:], *categories]
        )
    if re.search(r"partition|should_keep", name, re.I) and re.search(
        r"int|num|count|users", f"{data.annotation} {data.word}"
    ):
        # a threshold lies near 10 to 20 records at epsilon 1
        return [count(0, 20), count(), *answers]
    if re.search(r"(^|_)count$", data.word):
        return [count(), *answers, *people, *categories]
    if roles & {"categories", "category list"} or re.search(
        r"categor|randomi[sz]ed.?response|\bgrr\b|\brappor\b|unary|krr|local.?hash|hash "
        r"func|(mean|count).sketch|bloom|\boue\b|\bsue\b",
        f"{name} {text[:400]}",
        re.I,
    ):
        texts_of_many = [_texts_of_many(3), _texts_of_many(2)]
        vectors = [
            category(data="np.array(dataset).astype(int)"),
            category(data="dataset.astype(int).tolist()"),
            *texts_of_many,
        ]
        return (
            [*categories, *vectors, *people, *answers]
            if not re.search(r"(data|array|list|s)$", data.word)
            else [category(), *vectors, *categories[1:], *people]
        )
    if single:
        first = (
            [one_value(), one_value(-1.0, 1.0)]
            if bounded or re.search(r"local|ldp|\[-1", text, re.I)
            else [answers[0], answers[1], one_value()]
        )
        return [*first, *categories, *people]
    return [*people, one_value(), *categories, *answers]


def _ranked(forms: list[Form], note: str) -> list[Form]:
    """Return the forms, first the forms that fit the type hint."""
    scalar = re.fullmatch(r"(builtins\.)?(int|float|str|bool|number|numbers\.\w+)", note)
    if "dict" in note or "mapping" in note:
        return forms
    if note == "iterated":
        return sorted(forms, key=lambda form: form.data.startswith(("float(", "int(", "bool(")))
    tests = {
        "int": "int(dataset",
        "float": "float(dataset",
        "bool": "bool(dataset",
        "str": '"][int(dataset',
    }
    if scalar and scalar[2] in tests:
        return sorted(
            forms,
            key=lambda form: (
                not form.data.startswith(tests[scalar[2]]) and tests[scalar[2]] not in form.data
            ),
        )
    if re.search(r"ndarray|arraylike|array", note):
        return sorted(forms, key=lambda form: not form.data.startswith("np.array"))
    if re.search(r"list|sequence|iterable|tuple", note):
        wanted = (
            '[["'
            if "str" in note
            else "[int(value)"
            if "int" in note and "float" not in note
            else "dataset.tolist()"
        )
        return sorted(
            forms,
            key=lambda form: (
                not form.data.startswith(wanted),
                not form.data.startswith(("dataset.tolist()", "[int")),
            ),
        )
    return forms


def _frames(note: str, relation: str, roles: set[str], name: str, text: str) -> Iterator[Form]:
    """Yield forms with a data frame of one column."""
    binary = replace(
        category(2, '["no", "yes"][int(dataset[0])]'),
        data='[["no", "yes"][int(value)] for value in dataset]',
    )
    categories = [
        replace(category(4), data='[["a", "b", "c", "d"][int(value)] for value in dataset]'),
        binary,
    ]
    several = [replace(form, domain=form.domain | {"size": 6}) for form in categories]
    several += [_texts_of_many(3), _texts_of_many(2)]
    numbers = [
        records(relation),
        records(relation, data="[int(value) for value in dataset]", integer=True),
    ]
    numeric_first = bool(roles & {"lower", "upper", "bounds", "sensitivity"}) or not re.search(
        r"categor|response|exponential", f"{name} {text[:300]}", re.I
    )
    for form in (*numbers, *several) if numeric_first else (*several, *numbers):
        yield framed(form, note)
    yield table(relation)
