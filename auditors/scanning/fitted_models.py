"""Proposed calls of estimators and synthesizers, which are fitted, and all proposed calls of a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dpwitness.auditors.scanning.arguments import fill
from dpwitness.auditors.scanning.claims import ClaimReading
from dpwitness.auditors.scanning.data_forms import relation_of, rows, table
from dpwitness.auditors.scanning.recipes import Recipe, Source, choices, fed_objects, function_recipes, holders, object_recipe, objects
from dpwitness.auditors.scanning.vocabulary import role

_SHARE = 24  # recipes of one kind that are tried before those of the other kinds
_SAMPLING = ("sample", "generate", "synthesize", "generate_samples", "sample_data")  # methods of synthesizers
_ATTRIBUTE = re.compile(r"(?m)^\s*(\w+[a-z]_)\s*:")
_BOOKKEEPING = (
    "n_features_in_",
    "feature_names_in_",
    "n_iter_",
    "classes_",
    "n_samples_seen_",
    "n_outputs_",
    "epsilon_",
    "accountant_",
    "n_features_",
)
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
    makers: Sequence[Callable[[Source], Iterator[Recipe]]]
    makers = (function_recipes,) if source.name.kind != "class" else (synthesizers, estimators, objects, holders, fed_objects)
    found = [list(maker(source)) for maker in makers]
    return [recipe for group in found for recipe in group[:_SHARE]] + [recipe for group in found for recipe in group[_SHARE:]]


def scaled(source: Source) -> list[Recipe]:
    """Return the calls of a function that adds noise of a given scale, whose claim for answers at distance 1 follows from scale 1."""
    text = f"{source.name.name} {source.name.doc} {' '.join(source.name.names)}"
    laplace, gauss = bool(re.search("lapla", text, re.I)), bool(re.search(r"gauss|\bnormal\b", text, re.I))
    if laplace == gauss:
        return []
    parameters = tuple(replace(p, example="1.0") if role(p) == "scale" else p for p in source.name.parameters or ())
    found = recipes_for(replace(source, name=replace(source.name, parameters=parameters)))
    claim = ClaimReading("pure:1" if laplace else "zcdp:0.5", f"{'Laplace' if laplace else 'Gaussian'} noise of scale 1")
    return [replace(each, claim=claim) for each in found if each.form.domain["kind"] in ("Answers", "Counts")]


def synthesizers(source: Source) -> Iterator[Recipe]:
    """Yield fits of a synthesizer to a data frame, whose synthetic records are the output."""
    fit = source.name.method("fit")
    sampling = next((m for name in _SAMPLING if (m := source.name.method(name)) is not None), None)
    if fit is None or not fit.parameters or sampling is None or any(p.required for p in fit.parameters[1:]):
        return
    parameters, own = source.name.parameters or (), tuple(p for p in sampling.parameters or () if p.required)
    relation = relation_of(source.text, source.name.name, parameters, source.convention)[0]
    for form in (table(relation), rows(relation)):
        for choice in choices(source.name.name, parameters):
            first = fill(parameters, form, None, choice, source.classes, matrix=True)
            second = fill(own, form, None, choice, source.classes)
            given = ", ".join("4" if role(p) == "size" else value for p, (_, value) in zip(own, second.values, strict=False))
            body = (f"model = {source.spelled}({first.spelled()})", f"model.fit({form.data})", f"return model.{sampling.name}({given})")
            yield object_recipe(source, body, form, first.joined(second), source.name.doc, "df", parameters, how="estimator")


def estimators(source: Source) -> Iterator[Recipe]:
    """Yield fits of an estimator, whose learned attributes are the output."""
    fit = source.name.method("fit")
    if fit is None or not fit.parameters:
        return
    parameters = source.name.parameters or ()
    labels = any(role(p) == "labels" and p.required for p in fit.parameters) or bool(
        re.search(r"class|regress|bayes", source.name.name, re.I)
    )
    learned = [name for name in dict.fromkeys(_ATTRIBUTE.findall(source.name.doc)) if name not in (*_BOOKKEEPING, *_OF_RECORDS)][:4]
    outputs = [f"[getattr(model, name) for name in {tuple(learned)!r}]"] if learned else []
    if any(name.startswith("coef") for name in learned):
        outputs = [f"[getattr(model, name) for name in {tuple(name for name in learned if name in ('coef_', 'intercept_'))!r}]"]
    outputs += ["model.predict_proba(np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]]))"] if source.name.method("predict_proba") else []
    outputs += ['[value for name, value in sorted(vars(model).items()) if name.endswith("_") and name[0] != "_"]'] if not learned else []
    outputs += ["model.predict(np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]]))"] if source.name.method("predict") else []
    high = 0.7 if any(role(p) == "norm" for p in parameters) else 1.0  # two numbers of at most 0.7 have a norm below 1
    for output in outputs:
        for choice in choices(source.name.name, parameters):
            form = rows("replace-one", labels, high)
            first = fill(parameters, form, None, choice, source.classes, matrix=True)
            given = [form.data, *([form.labels] if labels else [])]
            body = (f"model = {source.spelled}({first.spelled()})", f"model.fit({', '.join(given)})", f"return {output}")
            yield object_recipe(source, body, form, first, source.name.doc, "X", parameters, how="estimator")
