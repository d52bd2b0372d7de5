"""Proposed calls of estimators and synthesizers, which are fitted, and all proposed calls of a
name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dpwitness.auditors.scanning.arguments import Arguments, Choice, fill
from dpwitness.auditors.scanning.claims import ClaimReading
from dpwitness.auditors.scanning.data_forms import Form, records, relation_of, rows, table
from dpwitness.auditors.scanning.names import Method, Parameter
from dpwitness.auditors.scanning.recipes import (
    Recipe,
    Source,
    choices,
    fed_objects,
    function_recipes,
    holders,
    object_recipe,
    objects,
)
from dpwitness.auditors.scanning.vocabulary import VARIANCES, role

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
    makers = (synthesizers, estimators, objects, holders, fed_objects)
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
    changed = [
        replace(p, example=given[role(p)], required=True) if role(p) in given else p
        for p in source.name.parameters or ()
    ]
    parameters = tuple(changed)
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
        next((p for p in (fit.parameters or ())[1:] if _is_label(p)), None),
    )
    labels = second is not None and (
        second.required or bool(re.search(r"class|regress|bayes", source.name.name, re.I))
    )
    learned = [
        name
        for name in dict.fromkeys(_ATTRIBUTE.findall(source.name.doc))
        if name not in (*_BOOKKEEPING, *_OF_RECORDS)
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


def _is_label(parameter: Parameter) -> bool:
    return role(parameter) == "labels" or parameter.word in ("y_train", "train_y", "targets")
