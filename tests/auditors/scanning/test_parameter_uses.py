"""Arguments and changes of calls that are read from source code, exceptions and results of trial
calls.
"""

import ast
import random
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dpwitness.auditors.scanning.arguments import Choice, fill
from dpwitness.auditors.scanning.claims import ClaimReading, read_claim
from dpwitness.auditors.scanning.data_forms import answer, category, forms_for, records
from dpwitness.auditors.scanning.names import Method, Parameter, PublicName, read_name
from dpwitness.auditors.scanning.readings import read
from dpwitness.auditors.scanning.recipes import (
    Recipe,
    Source,
    choices,
    fed_objects,
    holders,
    objects,
)
from dpwitness.auditors.scanning.source import PUBLIC_VALUE, adapted, function_source
from dpwitness.auditors.scanning.trials import _truth
from dpwitness.auditors.scanning.vocabulary import role
from dpwitness.mechanisms.wrappers.programs.inside.parameter_uses import uses_of
from dpwitness.mechanisms.wrappers.programs.inside.repairs import apply, repairs


def example(data, scorer, kind, options, size, table, path, shift=1.0):
    """A function whose parameters are used in the usual ways."""
    if str(kind).lower() not in ("count", "sum"):
        raise ValueError(kind)
    with open(path) as file:
        rows = [scorer(row, size) for row in range(size)] + list(file)
    return (
        table.groupby("a"),
        rows,
        options["epsilon"],
        options.get("delta", 0.0),
        [value - shift for value in data],
    )


class Keeper:
    """A class that keeps its parameters."""

    def __init__(self, mode, config):
        self.mode, self._config = mode, config

    def release(self, values):
        return sum(values) / self._config["epsilon"] if self.mode == "pure" else 0.0


def test_the_code_of_a_function_shows_the_kinds_keys_and_choices_of_its_parameters():
    found = uses_of(
        example, ["data", "scorer", "kind", "options", "size", "table", "path", "shift"]
    )
    assert {name: uses["kind"] for name, uses in found.items()} == {
        "data": "list", "scorer": "Callable[[Any, Any], Any]", "kind": "str", "options": "dict", "size": "int", "table": "DataFrame",
        "path": "path", "shift": "float",
    }  # fmt: skip
    assert found["kind"]["choices"] == ["'count'", "'sum'"] and found["options"]["keys"] == [
        "epsilon",
        "delta",
    ]


def test_attributes_that_keep_parameters_are_followed_and_code_without_source_shows_nothing():
    found = uses_of(Keeper, ["mode", "config"])
    assert (
        found["mode"]["choices"] == ["'pure'"]
        and found["config"]["keys"] == ["epsilon"]
        and uses_of(len, ["x"]) == {}
    )


class Sketch:
    """A class whose code shows that `t` is an exponent and `m` a length; `f` is a number that it
    calculates with.
    """

    def __init__(self, t, m, f):
        self.count, self.f = 2**t, f
        self.resize(m)

    def resize(self, m=None):
        self.m = m if m is not None else self.m

    def release(self, value):
        return [0] * self.m, 1 - 0.5 * self.f + value


def test_a_letter_that_the_code_uses_as_exponent_length_or_number_has_a_value_that_fits():
    found = uses_of(Sketch, ["t", "m", "f"])
    assert {name: uses["kind"] for name, uses in found.items()} == {
        "t": "exponent",
        "m": "length",
        "f": "float",
    }
    parameters = [Parameter(name, used=uses["kind"]) for name, uses in found.items()]
    assert (
        fill(parameters, records("replace-one"), None, Choice(fractions=True), {}).spelled()
        == "t=2, m=4, f=0.5"
    )
    unread = [Parameter(name) for name in ("t", "m", "f")]
    assert fill(unread, records("replace-one"), None, Choice(), {}).spelled() == "t=16, m=1, f=sum"


def test_binary_data_are_one_of_two_categories():
    for text, high in (
        ("Randomized response for binary data.", 1),
        ("Randomized response by binary search.", 3),
    ):
        assert (
            next(iter(forms_for(Parameter("value"), (Parameter("epsilon"),), "respond", text))).high
            == high
        )


def test_of_d_and_k_d_counts_the_categories():
    d, k = Parameter("d"), Parameter("k")
    assert (
        fill((d, k), category(), None, Choice(), {}).spelled() == "d=4, k=2"
        and fill((k,), category(), None, Choice(), {}).spelled() == "k=4"
    )


def test_a_mapper_of_categories_is_no_function_of_many_records():
    mapper = Parameter("index_mapper", False, "None", "Callable")
    assert not next(iter(forms_for(Parameter("data"), (mapper,), "Client", "Hash functions."))).many


def test_a_public_value_is_made_once_and_the_runs_keep_their_generators():
    scope = {
        "random": random,
        "np": SimpleNamespace(random=SimpleNamespace(get_state=int, set_state=int, seed=int)),
    }
    exec(PUBLIC_VALUE, scope)
    before = random.getstate()
    values = [scope["public_value"](lambda: [random.random()]) for _ in range(2)]
    assert values[0] is values[1] and random.getstate() == before


def test_a_dict_of_options_gets_the_keys_that_the_code_reads_and_they_spend_privacy():
    data = {
        "module": "m",
        "name": "Noise",
        "kind": "class",
        "parameters": [],
        "doc": "Private noise.",
    }
    method = {
        "name": "apply",
        "parameters": [{"name": "value"}, {"name": "options", "keys": ["epsilon", "sensitivity"]}],
    }
    name = read_name(data | {"methods": [method]})
    found = fill(name.methods[0].parameters, answer(), "value", Choice(), {})
    assert (
        found.spelled() == "float(dataset[0]), options={'epsilon': 1.0, 'sensitivity': 1.0}"
        and found.privacy[0][0] == "epsilon"
    )
    assert read(name, {}).role == "mechanism"


CONFIG = PublicName("m", "Config", "class", (Parameter("epsilon", False, "2.0"),))
SCHEMA = PublicName(
    "m", "Schema", "class", (Parameter("name"), Parameter("lower"), Parameter("upper"))
)


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        (Parameter("config", False, "None", "Config | None"), "config=m.Config(epsilon=1.0)"),
        (
            Parameter("schema", annotation="List[Schema]", classes=("m.Schema",)),
            'schema=[m.Schema(name="value", lower=0.0, upper=1.0)]',
        ),
        (Parameter("kind", choices=("'gaussian'", "'laplace'")), "kind='laplace'"),
        (Parameter("sensitivities", annotation="Dict[str, float]"), 'sensitivities={"value": 1.0}'),
        (Parameter("output_path"), 'output_path="output.csv"'),
        (Parameter("fields"), 'fields=["value"]'),
        (Parameter("query_fn"), "query_fn=sum"),
        (Parameter("predicate", annotation="Callable"), "predicate=lambda each: True"),
        (Parameter("combine", annotation="Callable[[Any, Any], Any]"), ""),
    ],
)
def test_required_arguments_and_optional_ones_that_spend_privacy_get_values(parameter, expected):
    assert (
        fill(
            (parameter,),
            records("replace-one"),
            None,
            Choice(),
            {"m.Config": CONFIG, "m.Schema": SCHEMA},
        ).spelled()
        == expected
    )


def test_an_abstract_class_without_subclasses_is_not_built():
    backend = PublicName("m", "Backend", "class", (), abstract=True)
    assert fill(
        (Parameter("backend", annotation="Backend"),),
        answer(),
        None,
        Choice(),
        {"m.Backend": backend},
    ).missing == ("backend",)


def test_optional_arguments_have_the_values_of_examples_in_one_of_the_tries():
    method = Parameter("method", False, "'a'", example="'b'")
    assert Choice(shown=True) in choices("f", [method])
    assert (
        fill((method,), answer(), None, Choice(shown=True), {}).spelled() == "method='b'"
        and not fill((method,), answer(), None, Choice(), {}).values
    )


def test_a_missing_library_is_replaced_by_classes_without_values(monkeypatch):
    error = ModuleNotFoundError("No module named 'heavy_library'", name="heavy_library")
    (line,) = repairs("single_module", error)
    monkeypatch.setitem(sys.modules, "heavy_library", None)
    apply(line)
    heavy = sys.modules["heavy_library"]
    layer = type(
        "Layer", (heavy.nn.Module,), {"__init__": lambda self, size: setattr(self, "size", size)}
    )
    assert (
        layer(3).size == 3
        and not isinstance(0, heavy.Tensor)
        and callable(heavy.no_grad())
        and not hasattr(layer, "claim")
    )
    with pytest.raises(TypeError):
        float(heavy.randn(1) / 2.0)


def recipe(*body, form=None, parameters=()):
    return Recipe("function", body, form or answer(), ClaimReading("pure:1"), parameters=parameters)


@pytest.mark.parametrize(
    ("line", "outcome", "expected"),
    [
        ("return f(x)", "<coroutine object f at 0x7f>", ("return asyncio.run(f(x))",)),
        ("return f(x)", "<generator object f at 0x7f>", ("return list(f(x))",)),
        (
            'return f(x, out="output.csv")',
            "returns None",
            ('f(x, out="output.csv")', 'return open("output.csv").read()'),
        ),
        (
            "return f(x, kind='a')",
            "ValueError: kind must be one of 'gaussian', 'laplace'",
            ("return f(x, kind='laplace')",),
        ),
        (
            "return f(x, rate=1.0)",
            "ValueError: rate must be in (0, 0.5)",
            ("return f(x, rate=0.25)",),
        ),
        (
            "return f(x, eps_1=1.0)",
            "ValueError: eps_1 only applies with mode='uniform'",
            ("return f(x, mode='uniform', eps_1=1.0)",),
        ),
    ],
)
def test_the_outcome_of_a_trial_changes_the_call(line, outcome, expected):
    assert (
        adapted(recipe(line, parameters=(Parameter("mode", False, "'a'"),)), outcome).body
        == expected
    )


def test_a_call_that_prints_returns_what_it_prints_and_other_outcomes_change_nothing():
    changed = adapted(recipe("return print(1)"), "returns None")
    scope = {each: __import__(each) for each in changed.imports}
    exec(compile(ast.parse(function_source("f", changed)), "f", "exec"), scope)
    assert scope["f"](None, 2, None) == ["1\n", "1\n"]
    assert (
        adapted(recipe("return f(x, epsilon=1.0)"), "ValueError: epsilon must be between 2 and 3")
        is None
    )


def test_a_true_value_beside_the_noisy_one_is_left_out_and_a_printed_one_is_no_release():
    call = recipe("return f(x)")
    assert _truth({"true_sum": 1.0, "noisy_sum": 2.0}, call) == ["true_sum"] and not _truth(
        {"sum": 1.0, "epsilon": 1.0}, call
    )
    assert _truth("True count: 5, noisy 6", recipe("return printed.getvalue()")) and not _truth(
        "True", call
    )
    scope = {"f": lambda x: {"true_sum": 1.0, "noisy_sum": 2.0}, "x": 0}
    exec(function_source("g", adapted(call, "returns the true value in ['true_sum']")), scope)
    assert scope["g"](None, 1, None) == [[2.0]]


def test_an_object_that_perturbs_what_it_has_encoded_encodes_the_data_first():
    methods = (Method("encode", (Parameter("value"),)), Method("perturb", (Parameter("encoded"),)))
    found = next(
        objects(
            Source(
                PublicName(
                    "m", "Client", "class", (Parameter("epsilon"),), "Local privacy.", methods
                ),
                {},
            )
        )
    )
    assert found.body[-1].startswith("return mechanism.perturb(mechanism.encode(")


def test_an_argument_of_a_release_does_not_depend_on_the_data():
    methods = (Method("fit", (Parameter("values"),)), Method("estimate", (Parameter("item"),)))
    source = Source(
        PublicName("m", "Sketch", "class", (Parameter("epsilon"),), "Private.", methods), {}
    )
    assert all(
        "dataset" not in each.body[-1]
        for each in fed_objects(source)
        if ".estimate(" in each.body[-1]
    )


def test_a_builder_gets_its_privacy_parameter_by_its_own_method():
    methods = (Method("with_epsilon", (Parameter("epsilon"),)), Method("sum", ()))
    found = next(
        holders(
            Source(PublicName("m", "Query", "class", (Parameter("data"),), "Private.", methods), {})
        )
    )
    assert (
        found.claim.text == "pure:1"
        and found.body[1] == "mechanism = mechanism.with_epsilon(epsilon=1.0)"
    )


def test_scores_are_compared_in_the_largest_difference_and_a_query_gets_records():
    assert next(iter(forms_for(Parameter("queries"), (), "sparse_vector", ""))).relation == "linf"
    assert next(
        iter(
            forms_for(
                Parameter("data"), (Parameter("query"), Parameter("sensitivity")), "noisy", ""
            )
        )
    ).many


def test_noise_of_a_standard_deviation_and_gaussian_privacy_have_their_claims():
    parameters = (Parameter("value"), Parameter("std_dev"))
    laplace = PublicName("m", "laplace_noise", "function", parameters, names=frozenset(["laplace"]))
    assert read(laplace, {}, private=True).recipes[0].claim.text == "pure:1.4143"
    gaussian = replace(
        laplace,
        name="noisy_mean",
        parameters=(Parameter("value"), Parameter("mu")),
        doc="Private under mu-GDP.",
    )
    assert read(gaussian, {}).recipes[0].claim.text == "gdp:1.0"


def test_a_docstring_that_promises_pure_privacy_makes_a_delta_void_unless_it_has_other_words():
    privacy = [("epsilon", "epsilon", 1.0), ("delta", "delta", 1e-5)]
    assert read_claim(privacy, "For this generator DP is pure.", "f").text == "pure:1"
    assert (
        read_claim(privacy, "Pure DP if delta is 0, by the Gaussian mechanism else.", "f").text
        == "approx:1,1e-05"
    )


def test_a_clip_of_two_numbers_is_a_range_and_a_budget_of_a_number_is_an_epsilon():
    assert (
        role(Parameter("clip", annotation="Tuple[float, float]")) == "bounds"
        and role(Parameter("clip", annotation="float")) == "norm"
    )
    assert (
        role(Parameter("budget", annotation="float")) == "epsilon"
        and role(Parameter("budget", annotation="Budget")) == "accountant"
    )


def test_a_candidate_is_proposed_for_each_score():
    found = fill(
        (Parameter("scores"), Parameter("candidates")), answer(4, "linf"), "scores", Choice(), {}
    )
    assert "candidates=list(range(4))" in found.spelled() and category().relation == "replace-one"
