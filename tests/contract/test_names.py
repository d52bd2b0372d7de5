"""Public names: each exists, is documented in the reference, has its signature, and is what `from
dpwitness import *` shows.
"""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import dpwitness as dpw

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
MODULES = (
    "accounting",
    "canaries",
    "claims",
    "domains",
    "executors",
    "metamorphic",
    "results",
    "stability",
    "wrap",
)
TOP = {
    "ApproxDP", "GDP", "InvalidArgument", "Pair", "PureDP", "RDP", "Target", "Verdict", "ZCDP", "audit", "audit_canaries", "audit_outputs",
    "audit_sensitivity", "audit_stability", "audit_utility", "certify", "check_mechanism", "compare", "one_run", "parametrize_with_checks",
    "parse_claim", "plan", "plot", "replay", "trace",
}  # fmt: skip
ARGUMENTS = {  # arguments that programs pass by name
    "audit": "claim pair domain trials seconds clock confidence seed executor name store "
    "sequential find stop bits time_limit trace causes",
    "certify": "pair claim trials confidence seed",
    "trace": "pair claim domain trials confidence seed",
    "audit_canaries": "confidence seed delta inclusion guesses",
    "audit_stability": "d_in seconds seed visible_errors",
    "audit_sensitivity": "norm seed seconds evaluations",
    "audit_utility": "runs confidence seed",
    "check_mechanism": "pair seed trials seconds expected_failures checks",
    "replay": "mechanism allow trials confidence seed",
    "plan": "find trials power confidence mechanism pair",
}
MECHANISMS = (
    "Laplace Gaussian Geometric TruncatedGeometric NoisyHistogram RandomizedResponse Rappor "
    "ExponentialMechanism PermuteAndFlip NoisyMax "
    "AboveThreshold SparseVector BrokenSparseVector LaplaceVector PrefixSums GradientSteps "
    "LogisticOutputPerturbation "
    "LogisticObjectivePerturbation GLMOutputPerturbation GLMObjectivePerturbation "
    "PrivateRidge SimplexSampling PrivateFTRL "
    "MirrorAveraging ConvexObjectivePerturbation TestDataIndependentLearner "
    "TestDataDependentLearner PrivateInteractivePrediction "
    "KernelLearner zoo paper_zoo"
)


def test_the_top_level_has_these_names():
    shown = {name for name in dir(dpw) if not name.startswith("_")}
    assert shown >= TOP | set(MODULES) and all(getattr(dpw, name) is not None for name in TOP)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_module_lists_names_that_exist_and_have_a_docstring(name):
    module = importlib.import_module(f"dpwitness.{name}")
    assert module.__doc__ and module.__all__
    for each in module.__all__:
        assert inspect.getdoc(getattr(module, each)) or not callable(getattr(module, each)), each


def test_every_documented_name_exists():
    names = re.findall(
        r"auto(?:function|class|exception):: dpwitness\.([\w.]+)",
        REFERENCE.read_text(encoding="utf-8"),
    )
    assert len(names) > 60
    for name in names:
        module, _, last = f"dpwitness.{name}".rpartition(".")
        try:
            found = getattr(importlib.import_module(module), last)
        except ModuleNotFoundError:  # a method of a class
            above, _, owner = module.rpartition(".")
            found = getattr(getattr(importlib.import_module(above), owner), last)
        assert callable(found), name


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_function_takes_the_arguments_that_programs_pass_by_name(name):
    function = getattr(dpw, name)
    taken = set(inspect.signature(function).parameters)
    if "others" in taken:
        taken |= set(function.__globals__["OtherSettings"].__annotations__)
    assert set(ARGUMENTS[name].split()) <= taken


def test_every_mechanism_has_its_name():
    from dpwitness import mechanisms

    for name in MECHANISMS.split():
        assert callable(getattr(mechanisms, name))


def test_every_specimen_states_its_truth_or_its_pair():
    from dpwitness import mechanisms as m

    assert len(m.zoo()) == 32 and len(m.paper_zoo()) == 59
    assert all(specimen.claim is not None for specimen in m.zoo().values())
    assert all(paper.pairs for paper in m.paper_zoo().values())


def test_verdicts_and_claims_have_these_words():
    words = [
        "VIOLATED",
        "SUSPECT",
        "NOT_REFUTED",
        "CERTIFIED",
        "SUPPORTED",
        "INCONCLUSIVE",
        "ERROR",
    ]
    assert sorted(each.value for each in dpw.Verdict) == sorted(words)
    for text in (
        "pure:1",
        "approx:1,1e-05",
        "zcdp:0.5",
        "rdp:2,1",
        "rdp:2=1,4=2.5",
        "gdp:1.5",
        "group:2,pure:0.5",
        "dpsgd:0.01,1.1,1000,1e-05",
    ):
        claim = dpw.parse_claim(text)
        assert dpw.parse_claim(str(claim)) == claim
    assert dpw.parse_claim("pure:1") == dpw.PureDP(1.0) and dpw.parse_claim(
        "approx:1,0.1"
    ) == dpw.ApproxDP(1.0, 0.1)


def test_a_claim_states_its_curve():
    """The largest true-positive rate at false-positive rate .1, by hand."""
    for claim, expected in [
        (dpw.PureDP(1.0), 0.27182818284590454),
        (dpw.ApproxDP(1.0, 0.05), 0.32182818284590454),
        (dpw.GDP(1.0), 0.389143),
    ]:
        assert float(1 - claim.tradeoff(0.1)) == pytest.approx(expected, rel=1e-5) or float(
            claim.tradeoff(0.1)
        ) == pytest.approx(expected, rel=1e-5)
