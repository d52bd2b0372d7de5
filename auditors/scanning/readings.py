"""Readings: what a public name is (a mechanism, an accountant, or something else), and why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dpwitness.auditors.scanning.arguments import classes_of
from dpwitness.auditors.scanning.data_forms import relation_of
from dpwitness.auditors.scanning.fitted_models import recipes_for, scaled
from dpwitness.auditors.scanning.names import Parameter, PublicName
from dpwitness.auditors.scanning.recipes import Recipe, Source, data_parameter
from dpwitness.auditors.scanning.vocabulary import (
    BUDGETS,
    DIAGNOSTIC,
    GAUSSIAN_NOTION,
    POST_PROCESSING,
    PRIVACY_NAMES,
    PRIVACY_WORDS,
    is_tolerance,
    role,
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
_RETURNS = (
    ("rdp", r"rdp|renyi"),
    ("zcdp", r"zcdp|rho"),
    ("mu", r"(^|_)(mu|gdp)($|_)"),
    ("noise", r"sigma|noise_multiplier|noise_scale|calibrat|stddev|noise_std|scale"),
    ("delta", r"delta"),
    ("epsilon", r"eps"),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Reading of one public name.

    Attributes
    ----------
    name : PublicName
        The name.
    role : {"mechanism", "accountant", "transformation", "other"}
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
    if reason := _no_mechanism(name, classes):
        return Reading(name, "other", reason, skip=reason)
    if computed := _accountant(name):
        return computed
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
    if _MECHANISM_NAME.search(name.name):
        why = "the claim is missing: no parameter of its signature is a privacy parameter"
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
        why = "the claim is missing: no parameter of its signature is a privacy parameter"
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


def _accountant(name: PublicName) -> Reading | None:
    """Return the reading of a function that computes a privacy parameter or a scale of noise from
    numbers; None for another name.
    """
    if name.kind == "class" or not _ACCOUNTING.search(name.name) or name.names & _NOISE:
        return None
    parameters = [p for p in name.parameters or () if p.is_named]
    numbers = {"epsilon", "delta", "rho", "scale", "sensitivity", "size", "other"}
    inputs = [p for p in parameters if role(p) in ("epsilon", "delta", "rho", "scale")]
    if not inputs or any(role(p) not in numbers for p in parameters):
        return None
    if not PRIVACY_WORDS.search(f"{name.name} {name.doc} {name.module}"):
        return None
    returned = next(
        (
            kind
            for kind, pattern in _RETURNS
            if re.search(pattern, name.name.partition("_from")[0].partition("_for")[0], re.I)
        ),
        "",
    )
    if not returned:
        return None
    because = f"computes {returned} from {', '.join(p.name for p in inputs)}, and draws no noise"
    return Reading(name, "accountant", because)


def returned_quantity(reading: Reading) -> str:
    """Return the quantity that an accountant computes: epsilon, delta, rdp, zcdp, mu or noise."""
    return reading.because.split()[1]
