"""Recipes: calls of a function, of a new object, or of an estimator, with proposed arguments, as
lines of Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpwitness.auditors.scanning.arguments import TEXTS, Arguments, Choice, fill, maker_in
from dpwitness.auditors.scanning.claims import ClaimReading, claim_of_measurement, read_claim
from dpwitness.auditors.scanning.data_forms import Form, forms_for
from dpwitness.auditors.scanning.names import Method, Parameter, PublicName
from dpwitness.auditors.scanning.vocabulary import (
    APPROXIMATE,
    FEEDING,
    FILES,
    METRIC,
    READING,
    RELEASE_METHODS,
    role,
)

_FACTORY = re.compile(r"^(create|from_|make|build|of$|for_)")
_MAKER = re.compile(r"(make|create|build|new)_")
_SETTER = re.compile(r"^(set|with)_(epsilon(_delta)?|sensitivity|bounds|delta|privacy)$")
# of parts of the data
_NAMES = re.compile(r"(^|_)(col|column|field|attribute|attr|feature|key|name|group_by|by)(_name)?$")
# results of a method `encode`
_ENCODED = re.compile(r"^(encoded|encoding|bits|bit_?vector|vector|vec|v|one_?hot|unary)")
_HOLDS_DATA = re.compile(r"ndarray|array|DataFrame|LazyFrame|Series|list|Sequence|Iterable")
_NOISE_METHOD = re.compile(
    r"^(compute|generate|sample|get|draw|make)?_?noise(_sample)?$|^sample$|^draw$"
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One proposed call.

    Attributes
    ----------
    how : {"function", "object", "estimator", "noise"}
        Which kind of call.
    body : tuple of str
        Lines of a function of `dataset` and `rng`; the last returns the output.
    form : Form
        Form of the data.
    claim : ClaimReading
        Claim that the arguments state.
    missing : tuple of str
        What is not known: required parameters.
    imports : tuple of str
        Modules that the lines need.
    data : str
        Name of the parameter that receives the data.
    spent : tuple of str
        Lines of a function that returns the claim as the library computes it; empty if it computes
        none.
    """

    how: str
    body: tuple[str, ...]
    form: Form
    claim: ClaimReading
    missing: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    data: str = ""
    spent: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Source:
    """Function or class, the classes of its package, and how its path is spelled in the target
    file.
    """

    name: PublicName
    classes: Mapping[str, PublicName]
    convention: str = ""  # relation that the functions of the package name

    @property
    def spelled(self) -> str:
        return self.name.name if self.name.shadowed else self.name.path

    @property
    def imports(self) -> tuple[str, ...]:
        return (
            (f"{self.name.module}:{self.name.name}",) if self.name.shadowed else (self.name.module,)
        )

    @property
    def text(self) -> str:
        return f"{self.name.name} {self.name.doc}"


def choices(name: str, parameters: Sequence[Parameter]) -> list[Choice]:
    """Return the ways of filling in arguments, the usual one first."""
    optional = {role(p) for p in parameters if not p.required}
    gaussian = re.search(r"gauss", " ".join([name, *(str(p.default) for p in parameters)]), re.I)
    first = Choice(delta=bool(gaussian) and "delta" in optional)
    fractions = any(
        p.required and (p.annotation or p.used) == "float" and role(p) == "other"
        for p in parameters
    )
    shown = any(p.example and role(p) == "other" for p in parameters if not p.required)
    bounded = "sensitivity" in optional and optional & {"lower", "upper", "bounds"}
    others: list[tuple[object, dict[str, bool]]] = [
        (True, {"integer": True}),
        (fractions, {"fractions": True}),
        ("delta" in optional, {"delta": not first.delta}),
        (any("bins" in p.word for p in parameters), {"edges": True}),
        (any(p.required and p.example for p in parameters), {"usual": True}),
        (shown, {"shown": True}),
        (bounded, {"bounded": False}),
        ("seed" in optional, {"seeded": False}),
    ]
    return [first, *(replace(first, **changes) for applies, changes in others if applies)]


def data_parameter(parameters: Sequence[Parameter], *, positional: bool = True) -> Parameter | None:
    """Return the parameter that receives the data: by its name or its type hint, else the first
    required parameter without another role.
    """
    named = [
        p
        for p in parameters
        if p.is_named and not (p.annotation in ("str", "builtins.str") and _NAMES.search(p.word))
    ]
    for wanted in ("data", "utility"):
        found = [
            p
            for p in named
            if role(p) == wanted and (p.required or p.word in ("value", "x", "values", "data"))
        ]
        if found:  # parameters of a model are public where its gradients are data
            return next((p for p in found if p.word not in ("params", "param")), found[0])
    hinted = [p for p in named if p.required and role(p) == "other" and _HOLDS_DATA.search(p.hint)]
    if hinted:  # a list of texts may be the names of what another argument holds
        return next((p for p in hinted if not TEXTS.match(p.hint)), hinted[0])
    if read := [p for p in named if p.required and FILES.match(p.word)]:
        return read[0]
    open_parameters = [p for p in named if p.required and role(p) in ("other", "size")]
    first = named[0] if named else None
    needed = [p for p in named if p.required]
    if positional and len(needed) == 1 and role(needed[0]) in ("categories", "norm", "utility"):
        return needed[0]  # of a method that releases something, whatever its name
    return first if positional and first is not None and first in open_parameters else None


def _variants(
    source: Source, data: Parameter | None, parameters: Sequence[Parameter], text: str
) -> Iterator[tuple[Form, Choice]]:
    others = [p for p in parameters if data is None or p.name != data.name]
    others += [
        inner
        for p in others
        for place in p.classes
        if place in source.classes
        for inner in source.classes[place].parameters or ()
    ]
    forms = list(forms_for(data, others, source.name.name, text, source.convention))[:16]
    first, *rest = choices(source.name.name, parameters)
    made = [
        first,
        *([replace(first, generated=True)] if any(len(p.makers) > 1 for p in parameters) else []),
    ]
    yield from ((form, each) for form in forms for each in made)
    yield from ((form, choice) for form in forms[:6] for choice in rest)


def function_recipes(source: Source) -> Iterator[Recipe]:
    """Yield calls of a function that takes data, that returns noise, or that makes an object with a
    release method.
    """
    parameters, name = source.name.parameters or (), source.name
    makes = _MAKER.match(name.name)
    data = data_parameter(parameters, positional=not makes)
    noisy = re.search(r"noise|laplace|geometric|gauss", name.name, re.I)
    if data is None or (noisy and role(data) == "size"):
        made = _class_made(source)
        if made is not None:
            yield from _released(source, made, parameters, source.spelled)
        elif makes:  # perhaps a function of the data
            called = Method("__call__", (Parameter("data", kind="POSITIONAL_ONLY"),))
            yield from _released(
                source, replace(name, kind="class", methods=(called,)), parameters, source.spelled
            )
        elif noisy:
            yield from _noise(source, parameters)
        return
    for form, choice in _variants(source, data, parameters, source.text):
        matrix = form.domain["kind"] == "Rows"
        arguments = fill(parameters, form, data.name, choice, source.classes, matrix=matrix)
        yield Recipe(
            "function",
            (f"return {source.spelled}({arguments.spelled()})",),
            form,
            read_claim(arguments.privacy, name.doc, name.name),
            arguments.missing,
            (*source.imports, *arguments.imports),
            data.name,
            parameters=parameters,
        )


def _class_made(source: Source) -> PublicName | None:
    """Return the class of the object that a function makes: by its return type, else by a class of
    its module that releases outputs.
    """
    name = source.name
    for cls in source.classes.values():
        if name.returns and cls.name == name.returns.rpartition(".")[2]:
            return cls
    if not _MAKER.match(name.name):
        return None
    return next(
        (
            cls
            for cls in source.classes.values()
            if cls.module == name.module and _release_methods(cls)
        ),
        None,
    )


def _noise(source: Source, parameters: Sequence[Parameter]) -> Iterator[Recipe]:
    """Yield the sum of an answer and the noise that a function returns."""
    for form, choice in _variants(source, None, parameters, source.text):
        arguments = fill(parameters, form, None, choice, source.classes)
        yield Recipe(
            "noise",
            (f"return {form.data} + {source.spelled}({arguments.spelled()})",),
            form,
            read_claim(arguments.privacy, source.name.doc, source.name.name),
            arguments.missing,
            (*source.imports, *arguments.imports),
            parameters=tuple(parameters),
        )


def _release_methods(cls: PublicName) -> list[Method]:
    """Return the methods that may release an output for data, the most likely first."""
    found: list[tuple[int, bool, bool, int, Method]] = []
    for method in cls.methods:
        if method.parameters is None or (method.abstract and not method.own):
            continue
        released = bool(re.search(r"releas|noisy|privati|random|noise|perturb", method.name, re.I))
        data = data_parameter(
            method.parameters,
            positional=method.name in RELEASE_METHODS or method.name == "__call__" or released,
        )
        if method.name not in RELEASE_METHODS and not released and FEEDING.match(method.name):
            continue
        if data is None or method.name.startswith(
            ("set_", "check", "valid", "fit", "plot", "save", "load", "get_params")
        ):
            continue
        if (
            method.name in RELEASE_METHODS
            or released
            or method.name == "__call__"
            or role(data) == "data"
            or _HOLDS_DATA.search(data.hint)
        ):
            listed = RELEASE_METHODS.index(method.name) if method.name in RELEASE_METHODS else 99
            found.append(
                (
                    listed if method.name != "__call__" else 50,
                    not released,
                    not method.own,
                    len(found),
                    method,
                )
            )
    return [method for *_, method in sorted(found, key=lambda each: each[:4])][:3]


def objects(source: Source) -> Iterator[Recipe]:
    """Yield calls of a method of a new object."""
    cls = source.name
    yield from _released(source, cls, cls.parameters or (), source.spelled)
    for factory in [
        m for m in cls.methods if m.kind != "method" and _FACTORY.match(m.name) and m.parameters
    ]:
        returned = factory.returns.strip("'\"").rpartition(".")[2]
        made = next((each for each in source.classes.values() if each.name == returned), cls)
        yield from _released(
            source, made, factory.parameters or (), f"{source.spelled}.{factory.name}"
        )
    static = [
        m
        for m in cls.methods
        if m.kind != "method"
        and not _FACTORY.match(m.name)
        and data_parameter(m.parameters or ()) is not None
    ]
    for method in sorted(
        static,
        key=lambda m: (
            not any(role(p) in ("epsilon", "rho") for p in m.parameters or ()),
            m.name not in RELEASE_METHODS,
        ),
    ):
        called = replace(
            cls,
            kind="function",
            name=f"{cls.name}.{method.name}",
            parameters=method.parameters,
            doc=f"{method.doc}\n{cls.doc}",
        )
        yield from function_recipes(replace(source, name=called))


def _released(
    source: Source, cls: PublicName, made_from: Sequence[Parameter], maker: str
) -> Iterator[Recipe]:
    """Yield calls of the release methods of an object that `maker` makes from these parameters."""
    yield from _method_noise(source, cls, made_from, maker)
    methods = [m for m in _release_methods(cls) if m.kind == "method"]
    setters = [m for m in cls.methods if _SETTER.match(m.name) and m.parameters]
    computes = cls.method("privacy_function") is not None
    for method in methods:
        own = method.parameters or ()
        data = data_parameter(own)
        if data is None:
            continue
        parameters = [*made_from, *own, *(p for setter in setters for p in setter.parameters or ())]
        # a computed claim is for answers at distance 1
        parameters += [Parameter("sensitivity", required=False)] if computes else []
        text = f"{method.name} {source.text}\n{method.doc}"
        for form, choice in _variants(source, data, parameters, text):
            exact = replace(choice, exact=computes)
            first = fill(made_from, form, None, exact, source.classes)
            second = fill(own, _encoded(cls, data, form), data.name, exact, source.classes)
            lines = [f"mechanism = {maker}({first.spelled()})"]
            together = first.joined(second)
            for line, arguments in _setting(source, setters, form, choice):
                lines.append(line)
                together = together.joined(arguments)
            call = (
                f"mechanism({second.spelled()})"
                if method.name == "__call__"
                else f"mechanism.{method.name}({second.spelled()})"
            )
            recipe = object_recipe(
                source, (*lines, f"return {call}"), form, together, text, data.name, parameters
            )
            if computes:
                recipe = replace(
                    recipe,
                    spent=claim_of_measurement(lines, form),
                    claim=ClaimReading("", "privacy_function of the library"),
                )
            elif not together.privacy:
                recipe = _with_kept_epsilon(recipe, source, cls, made_from, first)
            yield recipe


def _encoded(cls: PublicName, data: Parameter, form: Form) -> Form:
    """Return the form of data that the object has encoded first, if the parameter receives the
    result of a method ``encode``.
    """
    encode = cls.method("encode")
    if (
        encode is None
        or not _ENCODED.match(data.word)
        or len([p for p in encode.parameters or () if p.required]) != 1
    ):
        return form
    return replace(form, data=f"mechanism.encode({form.data})")


def _method_noise(
    source: Source, cls: PublicName, made_from: Sequence[Parameter], maker: str
) -> Iterator[Recipe]:
    """Yield the sum of an answer and the noise that a method returns, of an object without a method
    that receives data.
    """
    noisy = [
        m
        for m in cls.methods
        if _NOISE_METHOD.search(m.name)
        and m.kind == "method"
        and _needs_no_data(m.parameters or ())
    ]
    for method in (
        noisy[:1] if not any(m.name in RELEASE_METHODS for m in _release_methods(cls)) else ()
    ):
        own = [p for p in method.parameters or () if p.required]
        for form, choice in _variants(source, None, [*made_from, *own], source.text):
            first, second = (
                fill(made_from, form, None, choice, source.classes),
                fill(own, form, None, choice, source.classes),
            )
            body = (
                f"mechanism = {maker}({first.spelled()})",
                f"return {form.data} + mechanism.{method.name}({second.spelled()})",
            )
            yield object_recipe(
                source, body, form, first.joined(second), source.text, "", [*made_from, *own]
            )


def _setting(
    source: Source, setters: Sequence[Method], form: Form, choice: Choice
) -> Iterator[tuple[str, Arguments]]:
    """Yield the lines that call the setters of `mechanism`, with their arguments; a method
    ``with_...`` may return another object.
    """
    names = [setter.name.partition("_")[2] for setter in setters]
    # one for epsilon only
    left_out = (
        "epsilon"
        if choice.delta and "epsilon_delta" in names
        else "epsilon_delta"
        if "epsilon" in names
        else ""
    )
    order = ("epsilon", "epsilon_delta", "delta", "sensitivity", "bounds", "privacy")
    chosen = [setter for setter, name in zip(setters, names, strict=True) if name != left_out]
    for setter in sorted(chosen, key=lambda setter: order.index(setter.name.partition("_")[2])):
        arguments = fill(
            setter.parameters or (),
            form,
            None,
            replace(choice, delta=setter.name.endswith("delta")),
            source.classes,
        )
        if not arguments.missing:
            yield (
                f"{'mechanism = ' * setter.name.startswith('with_')}mechanism.{setter.name}({arguments.spelled()})",  # noqa: E501
                arguments,
            )


def _with_kept_epsilon(
    recipe: Recipe,
    source: Source,
    cls: PublicName,
    made_from: Sequence[Parameter],
    arguments: Arguments,
) -> Recipe:
    """Return the recipe with the epsilon that an object made without one keeps, `cls` or the maker
    of its arguments; not with a delta.
    """
    maker = next((p.makers[0] for p in made_from if p.makers), None)
    lines, kept, keeper = recipe.body[:-1], "mechanism", cls
    if maker is not None and "epsilon" in maker.names and (made := maker_in(arguments)):
        lines, kept, keeper = (), made, maker
    if (
        "epsilon" not in keeper.names
        or APPROXIMATE.search(source.text)
        or re.search("gauss", source.text, re.I)
    ):
        return recipe
    kind = "metric" if METRIC.search(source.text) else "pure"
    return replace(
        recipe,
        spent=(*lines, f'return f"{kind}:{{float({kept}.epsilon)!r}}"'),
        claim=ClaimReading(
            "",
            guess=f"the claim is {kind} with the attribute epsilon of {keeper.name}, under "
            f"{recipe.form.relation}",
        ),
    )


def object_recipe(
    source: Source,
    body: tuple[str, ...],
    form: Form,
    arguments: Arguments,
    text: str,
    data: str,
    parameters: Sequence[Parameter],
    how: str = "object",
) -> Recipe:
    """Return the recipe of a call that makes an object, with the form of its data and the claim in
    its arguments.
    """
    return Recipe(
        how,
        body,
        form,
        read_claim(arguments.privacy, text, source.name.name),
        arguments.missing,
        (*source.imports, *form.imports, *arguments.imports),
        data,
        parameters=tuple(parameters),
    )


def holders(source: Source) -> Iterator[Recipe]:
    """Yield calls of objects that receive the data when they are made."""
    parameters = source.name.parameters or ()
    data = data_parameter(parameters, positional=False)
    readers = [
        m
        for m in source.name.methods
        if m.kind == "method" and m.parameters is not None and _needs_no_data(m.parameters)
    ]
    named = [
        m
        for m in readers
        if m.name in (*RELEASE_METHODS, "reveal", "__call__") or READING.match(m.name)
    ]
    if data is None:
        return
    for method in named[:2]:
        setters = [m for m in source.name.methods if _SETTER.match(m.name) and m.parameters]
        everything = [*parameters, *(p for m in (method, *setters) for p in m.parameters or ())]
        for form, choice in _variants(source, data, everything, f"{source.text}\n{method.doc}"):
            first = fill(parameters, form, data.name, choice, source.classes)
            second = fill(method.parameters or (), form, None, choice, source.classes)
            setting, together = list(_setting(source, setters, form, choice)), first.joined(second)
            for _, arguments in setting:
                together = together.joined(arguments)
            lines = [
                f"mechanism = {source.spelled}({first.spelled()})",
                *(line for line, _ in setting),
            ]
            body = (*lines, f"return mechanism.{method.name}({second.spelled()})")
            yield object_recipe(
                source,
                body,
                form,
                together,
                f"{source.name.doc}\n{method.doc}",
                data.name,
                everything,
            )


def _needs_no_data(parameters: Sequence[Parameter]) -> bool:
    """Return whether a method can be called with privacy parameters and randomness only."""
    known = ("epsilon", "delta", "rho", "seed")
    return all(
        not p.required or role(p) in known or (p.annotation == "str" and _NAMES.search(p.word))
        for p in parameters
    )


def fed_objects(source: Source) -> Iterator[Recipe]:
    """Yield calls of objects that receive the data by one method and return the output by another,
    or by the same for each record.
    """
    parameters = source.name.parameters or ()
    methods = [m for m in source.name.methods if m.kind == "method"]
    feeding = [
        m
        for m in methods
        if FEEDING.match(m.name) and len([p for p in m.parameters or () if p.required]) == 1
    ]
    reading = [
        m
        for m in methods
        if READING.match(m.name) and m not in feeding and not _has_more_than_data(m)
    ]
    for fed in feeding[:2]:
        data = next(p for p in fed.parameters or () if p.required)
        for read in reading[:2]:
            yield from _fed(source, parameters, fed, data, read)
        yield from _fed(source, parameters, fed, data, None)


def _public_value(parameter: Parameter, form: Form, choice: Choice, source: Source) -> str:
    """Return the value of an argument that asks for a part of the release, such as a category; it
    does not depend on the data.
    """
    known = (
        fill((parameter,), form, None, choice, source.classes).values
        if role(parameter) != "data"
        else ()
    )
    letters = '"no"' if '["no", "yes"]' in form.data else '"a"' if '"a", "b"' in form.data else ""
    return (
        known[0][1]
        if known
        else letters or (repr(int(form.low)) if form.integer else repr((form.low + form.high) / 2))
    )


def _has_more_than_data(method: Method) -> bool:
    """Return whether a method needs more arguments than one of no known role, such as the word
    whose count is estimated.
    """
    needed = [p for p in method.parameters or () if p.required]
    return len(needed) > 1 or any(role(p) not in ("other", "data") for p in needed)


def _fed(
    source: Source,
    parameters: Sequence[Parameter],
    fed: Method,
    data: Parameter,
    read: Method | None,
) -> Iterator[Recipe]:
    """Yield calls that feed all data at once, and each record by itself, and read by a method;
    without one, the answers to the records.
    """
    everything = [*parameters, *(fed.parameters or ())]
    for form, choice in _variants(source, data, everything, source.text):
        if not form.many and form.domain.get("length", 1) == 1:
            continue
        first = fill(parameters, form, None, choice, source.classes)
        rest = fill(fed.parameters or (), form, data.name, choice, source.classes)
        make = f"mechanism = {source.spelled}({first.spelled()})"
        together = first.joined(rest)
        if read is None:
            body: tuple[str, ...] = (
                make,
                f"return [mechanism.{fed.name}(each) for each in {form.data}]",
            )
            # a sequential test may need more records
            for size in (form.domain["size"], 100) if form.many else ():
                longer = replace(
                    form,
                    what=f"{form.what}, one after the other",
                    domain=form.domain | {"size": size},
                )
                yield object_recipe(
                    source, body, longer, together, source.name.doc, data.name, everything
                )
            continue
        arguments = ", ".join(
            _public_value(p, form, choice, source) for p in read.parameters or () if p.required
        )
        for feed in (
            f"mechanism.{fed.name}({rest.spelled()})",
            f"[mechanism.{fed.name}(each) for each in {form.data}]",
        ):
            body = (make, feed, f"return mechanism.{read.name}({arguments})")
            yield object_recipe(
                source, body, form, together, source.name.doc, data.name, everything
            )
