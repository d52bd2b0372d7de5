"""Readings of signatures and docstrings, as pure functions."""

import types

import pytest

from dpwitness.auditors.scanning.arguments import Choice, fill
from dpwitness.auditors.scanning.claims import quote, read_claim
from dpwitness.auditors.scanning.data_forms import answer, forms_for, records
from dpwitness.auditors.scanning.names import (
    Method,
    Parameter,
    PublicName,
    read_name,
    spelled_parameters,
    with_examples,
)
from dpwitness.auditors.scanning.proposals import target_names
from dpwitness.auditors.scanning.readings import convention_of, read
from dpwitness.auditors.scanning.recipes import data_parameter
from dpwitness.auditors.scanning.vocabulary import is_tolerance, role
from dpwitness.mechanisms.wrappers.programs.inside.examples import calls_in_examples
from dpwitness.mechanisms.wrappers.programs.worker_pool import build_domain


def named(name, *parameters, doc="Differentially private.", **more):
    return PublicName("library", name, "function", parameters, doc, **more)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("epsilon", "epsilon"), ("eps_total", "epsilon"), ("privacy_budget", "epsilon"), ("delta", "delta"), ("l2_sens", "sensitivity"),
        ("min_value", "lower"), ("upperBound", "upper"), ("bounds", "bounds"), ("range", "bounds"), ("data_norm", "norm"),
        ("k", "categories"),
        ("X", "data"), ("column", "data"), ("random_state", "seed"), ("y", "labels"), ("accountant", "accountant"), ("verbose", "other"),
    ],
)  # fmt: skip
def test_the_name_of_a_parameter_says_its_role(word, expected):
    assert role(Parameter(word)) == expected


def test_a_small_default_is_a_tolerance_and_no_privacy_parameter():
    assert is_tolerance(Parameter("eps", False, "1e-08")) and not is_tolerance(
        Parameter("eps", False, "0.1")
    )
    assert (
        read(named("solve", Parameter("x"), Parameter("eps", False, "1e-08")), {}).skip
        == "epsilon is a numerical tolerance, by its default"
    )


def test_signatures_of_extension_modules_are_read_from_their_docstrings():
    doc = (
        "create(*args, **kwargs)\nOverloaded.\n1. create(epsilon: float, bounds: tuple[int, int] "
        "= (0, 1)) -> C\n2. create(x: int) -> int"
    )
    found = spelled_parameters(doc, "create")
    assert [(p.name, p.required, p.default, p.annotation) for p in found] == [
        ("epsilon", True, None, "float"),
        ("bounds", False, "(0, 1)", "tuple[int, int]"),
    ]
    method = spelled_parameters(
        "add_noise(self: lib.Mechanism, value: float) -> float", "add_noise"
    )
    assert [p.name for p in method] == ["value"]


VALUE = ("value", "float", None, "POSITIONAL_OR_KEYWORD")
EPSILON = ("epsilon", "float", "1.0", "POSITIONAL_OR_KEYWORD")


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        (
            "noisy(value: typing.SupportsFloat | typing.SupportsIndex, epsilon: float = 1.0) -> "
            "float\n\nAdd."
            , [VALUE, EPSILON]),
        ("noisy(self: lib.M, value: float, epsilon: float = 1.0) -> float", [VALUE, EPSILON]),
        ("noisy( (M)arg1, (float)value [, (float)epsilon=1.0]) -> float :\n    Add.", [VALUE, EPSILON]),
        (
            "1. ``noisy(value: float) -> float``\n2. ``noisy(value: float, epsilon: float = 1.0) "
            "-> float``"
            , [VALUE, EPSILON]),
        ("noisy(double value, const size_t & length)", [(*VALUE[:3], "POSITIONAL_ONLY"), ("length", "int", None, "POSITIONAL_ONLY")]),
        ("noisy(arg0: float, arg1: int) -> float", [(f"arg{n}", kind, None, "POSITIONAL_ONLY") for n, kind in enumerate(("float", "int"))]),
        ("noisy(value: float, *, epsilon: float = 1.0)", [VALUE, (*EPSILON[:3], "KEYWORD_ONLY")]),
        ("Add noise.\n\nnoisy(3, 1.0)\n", None),
    ],
)  # fmt: skip
def test_signatures_in_docstrings_of_several_tools_are_read(doc, expected):
    found = spelled_parameters(doc, "noisy", "M")
    assert (
        found == expected
        or [
            (p.name, p.annotation.removesuffix(" &").removeprefix("const "), p.default, p.kind)
            for p in found
        ]
        == expected
    )


def test_an_argument_without_a_name_keeps_its_place():
    parameters = spelled_parameters(
        "noisy(double value, double sensitivity=2.5, double epsilon=1.0)", "noisy"
    )
    form = answer()
    assert fill(parameters, form, "value", Choice(), {}).spelled() == f"{form.data}, 2.5, 1.0"
    hidden = spelled_parameters(
        "noisy(double value, double sensitivity=default_sensitivity(), double epsilon=1.0)", "noisy"
    )
    assert fill(hidden, form, "value", Choice(), {}).missing == ("sensitivity",)


def test_epsilon_and_delta_in_one_argument():
    parameters = (Parameter("value"), Parameter("epsilon_delta", annotation="Dict[str, float]"))
    found = fill(parameters, answer(), "value", Choice(), {})
    assert (
        "epsilon_delta={'epsilon'" in found.spelled().replace('"', "'")
        and read_claim(found.privacy, "", "").text == "approx:1,1e-05"
    )


def test_counts_with_their_names_are_data_beside_a_list_of_the_names():
    data = {
        "module": "m",
        "name": "order",
        "kind": "function",
        "doc": "Args:\n    names (list[str]): N.\n    sizes (list[tuple[str, int]]): S.",
    }
    found = read_name(
        data
        | {
            "parameters": [
                {"name": name, "annotation": "list", "required": True}
                for name in ("names", "sizes")
            ]
        }
    )
    assert data_parameter(found.parameters).name == "sizes"
    form = next(iter(forms_for(found.parameters[1], found.parameters[:1], "order", "")))
    assert form.domain["kind"] == "Counts" and "map(int, dataset)" in form.data
    assert fill(found.parameters, form, "sizes", Choice(), {}).values[0] == (
        "names",
        '["a", "b", "c"]',
    )


@pytest.mark.parametrize(
    ("privacy", "text"),
    [
        ((("epsilon", "eps", 1.0),), "pure:1"),
        ((("epsilon", "eps", 2.0), ("delta", "delta", 1e-5)), "approx:2,1e-05"),
        ((("rho", "rho", 0.5),), "zcdp:0.5"),
        ((("epsilon", "epsilon_1", 1.0), ("epsilon", "epsilon_2", 1.0)), ""),
        ((("delta", "delta", 1e-5),), ""),
        ((), ""),
    ],
)
def test_privacy_parameters_make_a_claim_or_say_what_is_missing(privacy, text):
    found = read_claim(privacy, "", "f")
    assert found.text == text and bool(found.missing) == (not text)


def test_the_words_of_the_docstring_are_quoted():
    numpy_style = (
        "Mean.\n\nParameters\n----------\nepsilon : float\n    Privacy parameter.\nbounds : tuple"
    )
    assert quote(numpy_style, "epsilon") == "epsilon : float: Privacy parameter."
    assert (
        quote(":param epsilon: the budget", "epsilon") == "epsilon: the budget"
        and quote("Nothing.", "epsilon") == ""
    )
    assert (
        quote("Adds noise. The parameter epsilon is the privacy loss.", "epsilon")
        == "The parameter epsilon is the privacy loss."
    )


def test_the_convention_of_a_package_is_the_relation_on_which_its_functions_agree():
    adding, replacing = (
        named("a", doc="adding or removing a record"),
        named("b", doc="replacing one record"),
    )
    assert (
        convention_of([adding, named("c", doc="")]) == "add-remove"
        and convention_of([adding, replacing]) == ""
    )


def test_every_form_is_a_valid_domain():
    data = [
        Parameter("value"),
        Parameter("data"),
        Parameter("X"),
        Parameter("df"),
        Parameter("scores"),
        Parameter("array_x"),
        Parameter("count"),
    ]
    others = [
        (),
        (Parameter("sensitivity"),),
        (Parameter("bounds"),),
        (Parameter("k"),),
        (Parameter("array_y"),),
        (Parameter("lst_k"),),
    ]
    domains = [
        form.domain for each in data for rest in others for form in forms_for(each, rest, "f", "")
    ]
    assert len(domains) > 100 and all(
        next(iter(build_domain(domain, "f").catalogue())) for domain in domains
    )


def test_type_hints_order_the_forms():
    first = [
        next(forms_for(Parameter("values", annotation=note), (), "f", "")).data
        for note in ("list[int]", "np.ndarray", "list", "float")
    ]
    assert first == [
        "[int(value) for value in dataset]",
        "np.array(dataset)",
        "dataset.tolist()",
        "float(dataset[0])",
    ]


def test_an_optional_delta_counts_with_its_default_and_is_set_on_request():
    delta = Parameter("delta", False, "0.001")
    assert fill((delta,), answer(), None, Choice(), {}).privacy == (("delta", "delta", 0.001),)
    optional = Parameter("delta", False, "None")
    assert (
        fill((optional,), answer(), None, Choice(), {}).privacy == ()
        and fill((optional,), answer(), None, Choice(delta=True), {}).privacy
    )


def test_an_object_of_the_package_is_built_for_an_argument():
    budget = PublicName("library", "Budget", "class", (Parameter("epsilon"), Parameter("delta")))
    found = fill(
        (Parameter("budget_of", classes=("library.Budget",)),),
        answer(),
        None,
        Choice(),
        {"library.Budget": budget},
    )
    assert found.spelled() == "budget_of=library.Budget(epsilon=1.0, delta=1e-05)" and [
        each[0] for each in found.privacy
    ] == ["budget epsilon", "budget delta"]
    assert read_claim(found.privacy, "", "release").text == "approx:1,1e-05"
    assert (
        read_claim((*found.privacy, ("epsilon", "epsilon", 0.5)), "", "release").text == "pure:0.5"
    )


def test_seeds_are_given_as_the_parameter_wants_them():
    seeds = [
        Parameter("rng"),
        Parameter("random_state"),
        Parameter("seed", annotation="int"),
        Parameter("rng", annotation="random.Random"),
    ]
    spelled = [fill((seed,), answer(), None, Choice(), {}).spelled() for seed in seeds]
    number = "int(rng.integers(2**32))"
    assert spelled == [
        "rng=rng",
        f"random_state={number}",
        f"seed={number}",
        f"rng=random.Random({number})",
    ]


def test_arguments_of_examples_are_read_from_prompts_fences_and_variables():
    module = types.ModuleType("library", "Intro.\n\n```python\nrelease([1], levels=2)\n```")
    calls = list(calls_in_examples({"library": module}, None))
    module.__doc__ = (
        f"{'>' * 3} edges = np.array([0, 5])\n{'>' * 3} release(edges, levels=3, seed=now())"
    )
    calls += list(calls_in_examples({"library": module}, None))
    found = [call for call in calls if call["name"] == "release"]
    assert [call["arguments"] for call in found] == [["[1]"], ["[0, 5]"]]
    assert [call["keywords"] for call in found] == [{"levels": "2"}, {"levels": "3", "seed": ""}]
    name = named("release", Parameter("edges"), Parameter("levels"), Parameter("seed"))
    (exemplified,) = with_examples([name], found)
    assert [p.example for p in exemplified.parameters] == ["[1]", "2", ""]


def test_names_of_targets_are_unique_and_no_names_that_the_file_uses():
    names = [
        PublicName("a.tools", "mean", "function", ()),
        PublicName("a.more", "Mean", "class", ()),
        PublicName("a.tools", "sum", "function", ()),
    ]
    assert target_names(names) == ["tools_mean", "more_Mean", "tools_sum"]


def test_a_noise_that_is_chosen_by_default_decides_whether_delta_counts():
    delta = Parameter("delta", False, "1e-05")
    for choice, spent in (("'laplace'", ()), ("'gaussian'", (("delta", "delta", 1e-5),))):
        found = fill((delta, Parameter("mechanism", False, choice)), answer(), None, Choice(), {})
        assert found.privacy == spent


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        (Parameter("city", annotation="str"), '"a"'),
        (Parameter("end_date", annotation="datetime"), "datetime.datetime(2021, 1, 1)"),
        (Parameter("extras", annotation="dict[str, int]"), "{}"),
        (Parameter("query", annotation="Callable"), "sum"),
        (Parameter("w_init", annotation="numpy.ndarray"), "np.zeros(2)"),
        (Parameter("cfg"), "library.SketchConfig()"),
        (Parameter("ledger"), "library.Odometer(epsilon=1.0)"),
    ],
)
def test_unknown_arguments_get_values_by_type_hint_or_by_a_class_of_that_name(parameter, expected):
    classes = {
        "library.SketchConfig": PublicName(
            "library", "SketchConfig", "class", (Parameter("m", False, "4"),)
        ),
        "library.Odometer": PublicName("library", "Odometer", "class", (Parameter("epsilon"),)),
    }
    found = fill((parameter,), records("replace-one"), None, Choice(), classes)
    assert found.values == ((parameter.name, expected),)


def test_unknown_numbers_of_a_second_try_differ_and_lie_between_0_and_1():
    found = fill(
        (Parameter("mu0", annotation="float"), Parameter("mu1", annotation="float")),
        answer(),
        None,
        Choice(fractions=True),
        {},
    )
    assert found.values == (("mu0", "0.3"), ("mu1", "0.6"))


def test_a_base_class_named_protocol_is_no_record():
    epsilon, value = Parameter("epsilon"), Parameter("value")
    method = Method("randomise", (value,))
    for base, role_of in (("library.BaseProtocol", "mechanism"), ("typing.Protocol", "other")):
        name = PublicName(
            "library",
            "Mechanism",
            "class",
            (epsilon,),
            "Laplace mechanism.",
            (method,),
            bases=(base,),
        )
        assert read(name, {}).role == role_of


def test_a_synthesizer_is_fitted_to_a_data_frame_and_sampled():
    fit, sample = Method("fit", (Parameter("df"),)), Method("sample", (Parameter("n"),))
    name = PublicName(
        "library",
        "Synthesizer",
        "class",
        (Parameter("epsilon"),),
        "Private synthesis.",
        (fit, sample),
    )
    first = read(name, {}).recipes[0]
    assert first.body[1:] == (
        'model.fit(pandas.DataFrame(np.array(dataset), columns=["a", "b"]))',
        "return model.sample(4)",
    )
    assert first.claim.text == "pure:1"


def bodies(*, methods=(), kind="class", parameters=(), name="Trainer"):
    found = PublicName("library", name, kind, parameters, "Differential privacy.", methods=methods)
    return ["\n".join(recipe.body) for recipe in read(found, {}).recipes]


def test_an_estimator_is_fitted_by_its_own_method_with_all_required_arguments():
    epsilon, rows, labels = Parameter("epsilon"), Parameter("X_train"), Parameter("y_train")
    methods = (
        Method("train", (rows, labels, Parameter("epochs"), epsilon)),
        Method("predict", (Parameter("X"),)),
    )
    first = bodies(methods=methods)[0]
    assert (
        "model.train(np.array(dataset[:, :-1]), y_train=np.array(dataset[:, -1]), epochs=4, "
        "epsilon=1.0)" in first
    )


def test_of_static_methods_those_that_spend_privacy_come_first():
    data, epsilon = Parameter("values"), Parameter("epsilon")
    methods = (
        Method("split", (data,), kind="static"),
        Method("total", (data, epsilon), kind="static"),
    )
    assert ".total(" in bodies(methods=methods)[0]


def test_a_file_holds_the_records_and_a_number_of_draws_is_no_data():
    epsilon = Parameter("epsilon")
    found = bodies(
        kind="function", name="private_mean", parameters=(Parameter("csv_path"), epsilon)
    )
    assert 'to_csv("records.csv", index=False) or "records.csv"' in found[0]
    noise = bodies(
        kind="function", name="laplace_noise", parameters=(Parameter("batch_size"), epsilon)
    )
    assert noise[0] == "return float(dataset[0]) + library.laplace_noise(batch_size=1, epsilon=1.0)"


def test_a_column_of_an_example_gives_way_to_the_column_of_the_frame():
    column = Parameter("column", example="'age'")
    (form, *_) = forms_for(Parameter("df"), (), "mean", "")
    assert fill((column,), form, None, Choice(), {}).spelled() == 'column="value"'
    assert fill((column,), records("replace-one"), None, Choice(), {}).spelled() == "column='age'"


def test_a_metric_claim_is_not_read_as_pure():
    assert (
        read_claim((("epsilon", "epsilon", 1.0),), "Geo-indistinguishability.", "planar").text
        == "metric:1"
    )
