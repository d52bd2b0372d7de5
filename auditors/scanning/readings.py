"""Readings: what a public name is (a mechanism, an accountant, or something else), and why; and all
proposed calls of a name, with those of estimators and synthesizers, which are fitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dpwitness.auditors.scanning.arguments import Arguments, Choice, classes_of, fill
from dpwitness.auditors.scanning.claims import ClaimReading
from dpwitness.auditors.scanning.data_forms import Form, records, relation_of, rows, table
from dpwitness.auditors.scanning.names import Method, Parameter, PublicName
from dpwitness.auditors.scanning.recipes import (
    Recipe,
    Source,
    choices,
    data_parameter,
    fed_objects,
    function_recipes,
    holders,
    object_recipe,
    objects,
)
from dpwitness.auditors.scanning.vocabulary import (
    BUDGETS,
    DIAGNOSTIC,
    GAUSSIAN_NOTION,
    POST_PROCESSING,
    PRIVACY_NAMES,
    PRIVACY_WORDS,
    VARIANCES,
    is_tolerance,
    role,
)
from dpwitness.mechanisms.wrappers.recognition import BOOKKEEPING

_SHARE = 24  # recipes of one kind that are tried before those of the other kinds
_FITTING = ("fit", "train", "learn")  # methods of estimators
# methods of synthesizers
_SAMPLING = ("sample", "generate", "synthesize", "generate_samples", "sample_data")
# data of one column
_COLUMNS = (
    "values",
    "series",
    "column",
    "sample",
    "samples",
    "vals",
    "values_list",
    "arr",
    "numbers",
)
_ATTRIBUTE = re.compile(r"(?m)^\s*(\w+[a-z]_)\s*:")
_OF_RECORDS = (
    "labels_",
    "inertia_",
    "embedding_",
    "support_",
    "dual_coef_",
    "estimators_",
    "estimator_",
    "tree_",
)  # not meant for release, or objects


def recipes_for(source: Source) -> list[Recipe]:
    """Return the proposed calls of a function or class, the most likely first."""
    makers: Sequence[Callable[[Source], Iterator[Recipe]]] = (
        synthesizers,
        estimators,
        objects,
        holders,
        fed_objects,
    )
    if source.name.kind != "class":
        makers = (function_recipes,)
    elif _fit_method(source) is not None:  # other methods need the fitted object
        makers = (synthesizers, estimators, fed_objects, objects, holders)
    found = [list(maker(source)) for maker in makers]
    return [recipe for group in found for recipe in group[:_SHARE]] + [
        recipe for group in found for recipe in group[_SHARE:]
    ]


def scaled(source: Source) -> list[Recipe]:
    """Return the calls of a function that adds noise of a given scale, whose claim for answers at
    distance 1 follows from scale 1.
    """
    text = f"{source.name.name} {source.name.doc} {' '.join(source.name.names)}"
    laplace, gauss = (
        bool(re.search("lapla", text, re.I)),
        bool(re.search(r"gauss|\bnormal\b", text, re.I)),
    )
    if laplace == gauss:
        return []
    given = {"scale": "1.0", "sensitivity": "", "norm": ""}  # whatever their defaults are
    parameters = tuple(
        replace(p, example=given[role(p)], required=True) if role(p) in given else p
        for p in source.name.parameters or ()
    )
    found = recipes_for(replace(source, name=replace(source.name, parameters=parameters)))
    scale = next(p.word for p in parameters if role(p) == "scale")
    # that of Laplace noise of scale 1 is sqrt(2)
    deviation = laplace and (scale in VARIANCES or re.search("^st|_st|sd|deviation", scale))
    stated = (
        f"{'Laplace' if laplace else 'Gaussian'} noise of "
        f"{'standard deviation' if deviation else 'scale'} 1"
    )
    claim = ClaimReading(
        "pure:1.4143" if deviation else "pure:1" if laplace else "zcdp:0.5", stated
    )
    return [
        replace(each, claim=claim)
        for each in found
        if each.form.domain["kind"] in ("Answers", "Counts")
    ]


def synthesizers(source: Source) -> Iterator[Recipe]:
    """Yield fits of a synthesizer to a data frame, whose synthetic records are the output."""
    fit = _fit_method(source)
    sampling = next((m for name in _SAMPLING if (m := source.name.method(name)) is not None), None)
    if fit is None or sampling is None:
        return
    parameters, own = (
        source.name.parameters or (),
        tuple(p for p in sampling.parameters or () if p.required),
    )
    relation = relation_of(source.text, source.name.name, parameters, source.convention)[0]
    for form in (table(relation), rows(relation)):
        for choice in choices(source.name.name, parameters):
            first = fill(parameters, form, None, choice, source.classes, matrix=True)
            second, (call, fitted) = (
                fill(own, form, None, choice, source.classes),
                _fitting(source, fit, form, choice),
            )
            given = ", ".join(
                "4" if role(p) == "size" else value
                for p, (_, value) in zip(own, second.values, strict=False)
            )
            body = (
                f"model = {source.spelled}({first.spelled()})",
                call,
                f"return model.{sampling.name}({given})",
            )
            together, everything = (
                first.joined(fitted).joined(second),
                [*parameters, *(fit.parameters or ())],
            )
            yield object_recipe(
                source, body, form, together, source.name.doc, "df", everything, how="estimator"
            )


def _fit_method(source: Source) -> Method | None:
    """Return the method that fits an estimator to data."""
    return next(
        (m for name in _FITTING if (m := source.name.method(name)) is not None and m.parameters),
        None,
    )


def _fitting(source: Source, fit: Method, form: Form, choice: Choice) -> tuple[str, Arguments]:
    """Return the line that fits `model` to data, and the privacy and requirements of
    its arguments.
    """
    data, *others = fit.parameters or ()
    spends = any(role(p) == "epsilon" for p in source.name.parameters or ())
    chosen = [
        p
        for p in others
        if p.required
        or (form.labels and p.name == form.second)
        or (role(p) == "epsilon" and not spends)
    ]
    given = fill(
        (data, *chosen),
        form,
        data.name,
        choice,
        source.classes,
        matrix=form.domain["kind"] == "Rows",
    )
    return f"model.{fit.name}({given.spelled()})", given


def estimators(source: Source) -> Iterator[Recipe]:
    """Yield fits of an estimator, whose learned attributes are the output."""
    fit = _fit_method(source)
    if fit is None:
        return
    parameters, second = (
        source.name.parameters or (),
        next(
            (
                p
                for p in (fit.parameters or ())[1:]
                if role(p) == "labels" or p.word in ("y_train", "train_y", "targets")
            ),
            None,
        ),
    )
    labels = second is not None and (
        second.required or bool(re.search(r"class|regress|bayes", source.name.name, re.I))
    )
    learned = [
        name
        for name in dict.fromkeys(_ATTRIBUTE.findall(source.name.doc))
        if name not in (*BOOKKEEPING, "n_features_", *_OF_RECORDS)
    ][:4]
    outputs = [f"[getattr(model, name) for name in {tuple(learned)!r}]"] if learned else []
    if any(name.startswith("coef") for name in learned):
        outputs = [
            "[getattr(model, name) for name in "
            f"{tuple(name for name in learned if name in ('coef_', 'intercept_'))!r}]"
        ]
    outputs += (
        ["model.predict_proba(np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]]))"]
        if source.name.method("predict_proba")
        else []
    )
    outputs += (
        [
            '[value for name, value in sorted(vars(model).items()) if name.endswith("_") and '
            'name[0] != "_"]'
        ]
        if not learned
        else []
    )
    outputs += (
        ["model.predict(np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]]))"]
        if source.name.method("predict")
        else []
    )
    # two numbers of at most 0.7 have a norm below 1
    high = 0.7 if any(role(p) == "norm" for p in parameters) else 1.0
    matrix = replace(rows("replace-one", labels, high), second=second.name if second else "")
    column = not labels and (fit.parameters or ())[0].word in _COLUMNS
    for form, output in (
        (form, output)
        for form in ((records("replace-one"), matrix) if column else (matrix,))
        for output in outputs
    ):
        for choice in choices(source.name.name, parameters):
            first = fill(parameters, form, None, choice, source.classes, matrix=form is matrix)
            call, fitted = _fitting(source, fit, form, choice)
            body, everything = (
                (f"model = {source.spelled}({first.spelled()})", call, f"return {output}"),
                [*parameters, *(fit.parameters or ())],
            )
            yield object_recipe(
                source,
                body,
                form,
                first.joined(fitted),
                source.name.doc,
                "X",
                everything,
                how="estimator",
            )


_NOISE = frozenset(
    (
        *(
            "laplace",
            "normal",
            "gauss",
            "exponential",
            "geometric",
            "binomial",
            "randint",
            "uniform",
            "randn",
            "rand",
            "standard_normal",
            "choice",
        ),
        *(
            "random",
            "random_sample",
            "integers",
            "betavariate",
            "SystemRandom",
            "token_bytes",
            "randbelow",
            "poisson",
            "gumbel",
            "standard_exponential",
        ),
        *(
            "expovariate",
            "getrandbits",
            "laplacian",
            "choices",
            "shuffle",
            "permutation",
            "multinomial",
            "gamma",
            "standard_gamma",
            "noise",
            "bernoulli",
        ),
    )
)
_LAWS = re.compile(r"lapla|gauss|\bnormal\b|geometric|gumbel|add_noise", re.I)
_CHECKS = re.compile(
    r"^(check|validate|assert|is_|has_|verify|require|ensure|warn(?=_|$|ing)|plot|save|load|print|format|parse|test_|copy_|main$|setup|read_|write_|list_)"
)
_ACCOUNTING = re.compile(
    r"(eps|epsilon|delta|rdp|zcdp|privacy_spent|privacy_loss|account|compos|sigma|noise_multiplier|calibrat|noise_scale|budget|gdp|mu)",
    re.I,
)
_MECHANISM_NAME = re.compile(
    r"(Mechanism|Mech|Measurement|Randomi[sz]er|Noise)$|_(mechanism|measurement)$|^(add_noise|randomi[sz]e|privati[sz]e|perturb|rand(omi[sz]ed)?_?response)"
)
_RELEASING = re.compile(
    r"^(dp_?release|gen_?noise|add_.*noise|randomi[sz]e|privati[sz]e|perturb|noisy_|release_noisy)",
    re.I,
)
_FIGURES = re.compile(
    r"rdp|renyi|zcdp|rho|(^|_)(mu|gdp)($|_)|sigma|noise_multiplier|noise_scale|calibrat|stddev|noise_std|scale|delta|eps",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Reading of one public name.

    Attributes
    ----------
    name : PublicName
        The name.
    role : {"mechanism", "transformation", "other"}
        What the name is.
    because : str
        Why, with the words of the signature or docstring.
    recipes : tuple of Recipe
        Proposed calls of a mechanism.
    skip : str
        Why nothing is tried; empty for a mechanism with recipes.
    declared : bool
        Whether the object declares its own claim and domain.
    """

    name: PublicName
    role: str
    because: str
    recipes: tuple[Recipe, ...] = ()
    skip: str = ""
    declared: bool = False


def read(
    name: PublicName, classes: Mapping[str, PublicName], convention: str = "", private: bool = False
) -> Reading:
    """Classify a public name, and propose the calls to try.

    Parameters
    ----------
    name : PublicName
        A function, class or callable object.
    classes : mapping of str to PublicName
        All classes of the package by dotted name.
    convention : str
        Relation that the functions of the package name (`convention_of`).
    private : bool
        Whether the package as a whole is about differential privacy.
    """
    found = _read(name, classes, convention, private)
    if name.broken and found.role == "mechanism":
        return Reading(
            name,
            found.role,
            found.because,
            skip="its module cannot be imported: " + re.sub(r" \(/[^)]*\)", "", name.broken),
        )
    return found


def _read(
    name: PublicName, classes: Mapping[str, PublicName], convention: str, private: bool
) -> Reading:
    if name.declared.get("claim") is not None:
        return Reading(
            name, "mechanism", f"declares the claim {name.declared['claim']}", declared=True
        )
    if reason := _no_mechanism(name, classes) or _computed(name):
        return Reading(name, "other", reason, skip=reason)
    privacy = _privacy_parameters(name)
    if not privacy:
        return _without_privacy(name, classes, convention, private)
    if not (private or PRIVACY_WORDS.search(_about(name)) or PRIVACY_NAMES.search(name.path)):
        reason = f"{privacy[0].name} without a word on privacy"
        return Reading(name, "other", reason, skip=reason)
    recipes = tuple(recipes_for(Source(name, classes, convention)))
    because = f"parameter {privacy[0].name!r}"
    if not recipes:
        return Reading(name, *_without_data(name, because))
    return Reading(name, "mechanism", because, recipes)


def convention_of(names: Sequence[PublicName]) -> str:
    """Return the relation that the functions of a package name in their signatures and docstrings;
    empty unless they agree.
    """
    found = set()
    for name in names:
        relation, words = relation_of(_about(name), "", _parameters_of(name))
        if words:
            found.add(relation)
    return found.pop() if len(found) == 1 else ""


def _about(name: PublicName) -> str:
    return " ".join([name.doc, *(method.doc for method in name.methods if method.own)])


def _no_mechanism(name: PublicName, classes: Mapping[str, PublicName]) -> str:
    """Return the reason why a name is certainly not a mechanism, from its kind and spelling; empty
    if it may be a mechanism.
    """
    if name.enum:
        return "an enumeration"
    if name.kind == "class" and name.abstract:
        return "an abstract base class"
    if any(
        base.rpartition(".")[2] in ("TypedDict", "NamedTuple", "Protocol")
        or base == "builtins.tuple"
        for base in name.bases
    ):
        return "a record"
    if _CHECKS.match(name.name):
        return "its name says that it checks, reads, writes or plots"
    if name.parameters is None and not name.methods:
        return "it has no signature"
    if POST_PROCESSING.search(name.name) and not (
        (_privacy_parameters(name) or _spending(name, classes))
        and _LAWS.search(" ".join(sorted(name.names)))
    ):
        return "its name says that it processes what was released"
    if (
        DIAGNOSTIC.search(name.name)
        and not _MECHANISM_NAME.search(name.name)
        and not any(role(p) in ("epsilon", "rho") for p in name.parameters or ())
    ):
        return "its name says that it describes or corrects what was released"
    if name.kind == "class" and BUDGETS.search(name.name):
        return "it keeps or splits a budget"
    return ""


def _parameters_of(name: PublicName) -> list[Parameter]:
    """Return the parameters of a function, or those of the constructor and the methods
    of a class.
    """
    own = [
        *(name.parameters or ()),
        *(p for method in name.methods for p in method.parameters or ()),
    ]
    return own + [key for p in own for key in p.keys if role(key) in ("epsilon", "rho")]


def _privacy_parameters(name: PublicName) -> list[Parameter]:
    if name.kind == "class" and name.method("privacy_function") is not None:
        return [Parameter("privacy_function")]
    wanted = (
        ("epsilon", "rho", "mu")
        if GAUSSIAN_NOTION.search(f"{name.name} {_about(name)}")
        else ("epsilon", "rho")
    )
    found = [
        p for p in _parameters_of(name) if role(p) in wanted and not is_tolerance(p) and p.is_named
    ]
    return found or [
        p
        for p in _parameters_of(name)
        if role(p) == "delta" and p.word == "delta" and p.required and name.kind == "class"
    ]


def _without_privacy(
    name: PublicName, classes: Mapping[str, PublicName], convention: str, private: bool
) -> Reading:
    """Return the reading of a name without a privacy parameter: noise of a given scale, a
    transformation, or something else.
    """
    nested = _spending(name, classes)
    if nested and (
        private or PRIVACY_WORDS.search(_about(name)) or PRIVACY_NAMES.search(name.path)
    ):
        because = f"its argument is a {nested[0].rpartition('.')[2]}"
        recipes = tuple(recipes_for(Source(name, classes, convention)))
        if recipes:
            return Reading(name, "mechanism", because, recipes)
        return Reading(name, *_without_data(name, because))
    if name.kind == "class" and name.method("stability_function") is not None:
        return Reading(
            name,
            "transformation",
            "it has a stability_function",
            skip="its domains and metrics are objects that the scan cannot build",
        )
    scales = [p for p in name.parameters or () if role(p) == "scale"]
    if (
        scales
        and draws_noise(name)
        and (private or PRIVACY_WORDS.search(f"{name.name} {name.doc}"))
    ):
        recipes = tuple(scaled(Source(name, classes, convention)))
        return Reading(
            name,
            "mechanism",
            f"adds noise of scale {scales[0].name!r}",
            recipes,
            skip="" if recipes else f"the claim is missing: {scales[0].name!r} is a scale of noise",
        )
    if mechanism := _mechanism_without_claim(name):
        kept = tuple(
            recipe for recipe in recipes_for(Source(name, classes, convention)) if recipe.spent
        )
        return replace(mechanism, recipes=kept, skip="") if kept else mechanism
    reason = "no privacy parameter in its signature"
    if any(is_tolerance(p) and role(p) == "epsilon" for p in _parameters_of(name)):
        reason = "epsilon is a numerical tolerance, by its default"
    return Reading(name, "other", reason, skip=reason)


def _mechanism_without_claim(name: PublicName) -> Reading | None:
    """Return the reading of a name that calls itself a mechanism, or has such a method, without a
    privacy parameter; None for others.
    """
    if not (PRIVACY_WORDS.search(_about(name)) or PRIVACY_NAMES.search(name.path)):
        return None
    accountant = next(
        (p.name for p in name.parameters or () if role(p) == "accountant" and p.required), ""
    )
    if accountant and name.methods:
        return Reading(
            name,
            "mechanism",
            f"it spends from {accountant!r}",
            skip=f"its argument {accountant!r} is an object that the scan cannot build",
        )
    why = "the claim is missing: no parameter of its signature is a privacy parameter"
    if _MECHANISM_NAME.search(name.name):
        return Reading(name, "mechanism", f"its name {name.name!r}", skip=why)
    released = next(
        (
            m.name
            for m in name.methods
            if _RELEASING.search(m.name) and m.parameters and not m.abstract
        ),
        "",
    )
    if released:
        return Reading(name, "mechanism", f"its method {released!r}", skip=why)
    return None


def draws_noise(name: PublicName) -> bool:
    """Return whether the code of a name uses a source of noise: a function of a generator, or
    another one that is named after a law.
    """
    return bool(name.names & _NOISE) or any(
        re.search("lapla|gauss|geometric|add_noise", each, re.I) for each in name.names
    )


def _spending(name: PublicName, classes: Mapping[str, PublicName]) -> list[str]:
    """Return the classes of arguments that take an epsilon."""
    return [
        place
        for p in name.parameters or ()
        for place in classes_of(p, classes)
        if place in classes and _spends(place, classes)
    ]


def _spends(place: str, classes: Mapping[str, PublicName]) -> bool:
    """Return whether the constructor of a class, or of one below an abstract class, takes an
    epsilon.
    """
    found = (
        [cls for cls in classes.values() if place in cls.bases]
        if classes[place].abstract
        else [classes[place]]
    )
    return any(role(p) == "epsilon" for cls in found for p in cls.parameters or ())


def _without_data(name: PublicName, because: str) -> tuple[str, str, tuple[Recipe, ...], str]:
    """Return the reading of a name with a privacy parameter but without a proposed call: role,
    reason, no recipes, obstacle.
    """
    if name.kind == "class" and data_parameter(name.parameters or (), positional=False) is not None:
        return "mechanism", because, (), "no method is known that returns what was released"
    noisy = draws_noise(name) or _MECHANISM_NAME.search(name.name)
    if noisy and (PRIVACY_WORDS.search(_about(name)) or PRIVACY_NAMES.search(name.path)):
        return "mechanism", because, (), "no argument is known that receives data"
    return "other", because, (), "no argument receives data, and its code draws no noise"


def _computed(name: PublicName) -> str:
    """Return what a function computes from privacy parameters, if these and numbers are all that it
    takes and it draws no noise; empty for another name.
    """
    if name.kind == "class" or not _ACCOUNTING.search(name.name) or name.names & _NOISE:
        return ""
    parameters = [p for p in name.parameters or () if p.is_named]
    numbers = {"epsilon", "delta", "rho", "scale", "sensitivity", "size", "other"}
    inputs = [p for p in parameters if role(p) in ("epsilon", "delta", "rho", "scale")]
    if not inputs or any(role(p) not in numbers for p in parameters):
        return ""
    returned = name.name.partition("_from")[0].partition("_for")[0]
    if not _FIGURES.search(returned) or not PRIVACY_WORDS.search(
        f"{name.name} {name.doc} {name.module}"
    ):
        return ""
    return f"it computes a number from {', '.join(p.name for p in inputs)}, and draws no noise"
