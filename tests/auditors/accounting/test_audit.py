"""Audits of accountants that are right, wrong, loose or broken."""

import json
import math

import numpy as np
import pytest
from scipy.stats import norm

from dpwitness.accounting import MECHANISMS, audit_accountant
from dpwitness.core.values.validation import InvalidArgument

VIOLATED, NOT_REFUTED, ERROR = "VIOLATED", "NOT_REFUTED", "ERROR"


def verdict(function, mechanism, returns, **options):
    return audit_accountant(
        function, mechanism, returns, **({"evaluations": 60, "seconds": 60.0} | options)
    ).verdict.value


def gaussian_delta(sigma, epsilon):
    return norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * norm.cdf(
        -0.5 / sigma - epsilon * sigma
    )


def binomial_rdp(sigma, q, order):
    terms = [
        math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1) + k * math.log(q) + (order - k) * math.log1p(-q)
        + k * (k - 1) / (2 * sigma**2)
        for k in range(order + 1)
    ]  # fmt: skip
    return max(float(np.logaddexp.reduce(terms)) / (order - 1), 0.0)


def test_a_right_delta_is_not_refuted_and_a_wrong_one_is():
    assert verdict(gaussian_delta, "gaussian", "delta") == NOT_REFUTED
    found = audit_accountant(
        lambda sigma, epsilon: 0.99 * gaussian_delta(sigma, epsilon),
        "gaussian",
        "delta",
        evaluations=60,
    )
    assert found.verdict.value == VIOLATED
    assert found.exact == pytest.approx(found.figure / 0.99, rel=1e-9)
    assert found.evidence == "proved"


def test_the_tolerance_is_one_part_in_a_thousand_million():
    """A figure 5e-10 too low is allowed; one 2e-9 too low is a violation."""
    for factor, expected in ((1 - 5e-10, NOT_REFUTED), (1 - 2e-9, VIOLATED)):
        rate = lambda sigma, order, factor=factor: factor * order / (2 * sigma**2)  # noqa: E731
        assert (
            verdict(rate, "gaussian", "rdp", parameters={"sigma": "sigma", "order": "order"})
            == expected
        )


def test_subsampled_rdp_at_integer_orders():
    wide = {"sigma": (0.5, 100), "q": (1e-3, 0.99)}
    right = lambda sigma, q, order: binomial_rdp(sigma, q, math.ceil(order))  # noqa: E731
    rounded = lambda sigma, q, order: binomial_rdp(sigma, q, max(math.floor(order), 2))  # noqa: E731
    assert (
        verdict(right, "subsampled-gaussian", "rdp", ranges=wide | {"order": (1.1, 60)})
        == NOT_REFUTED
    )
    assert (
        verdict(rounded, "subsampled-gaussian", "rdp", ranges=wide | {"order": (1.1, 60)})
        == VIOLATED
    )


def test_a_limit_theorem_is_not_a_bound():
    """The mu of the central limit theorem for DP-SGD is below the exact one (Bu, Dong, Long and Su
    2020 call it approximate).
    """
    clt = lambda sigma, q, steps: q * math.sqrt(steps * math.expm1(sigma**-2))  # noqa: E731
    found = audit_accountant(
        clt,
        "subsampled-gaussian",
        "mu",
        ranges={"sigma": (0.5, 5), "steps": (1, 1)},
        evaluations=60,
    )
    assert found.verdict.value == VIOLATED
    # narrowed to round numbers
    assert all(value == float(f"{value:.1g}") for value in found.at.values())


def test_calibrated_noise():
    classic = lambda epsilon, delta: math.sqrt(2 * math.log(1.25 / delta)) / epsilon  # noqa: E731
    assert (
        verdict(classic, "gaussian", "noise", ranges={"epsilon": (1e-3, 1), "delta": (1e-12, 0.5)})
        == NOT_REFUTED
    )
    assert verdict(classic, "gaussian", "noise") == VIOLATED


def test_constants_of_the_code_are_tried():
    """No usual value and few random ones are 777: without the constant, 400 calls miss it."""

    def rare(mu, steps):
        return mu * math.sqrt(steps - 1 if steps == 777 else steps)

    found = audit_accountant(rare, "gdp", "mu", evaluations=1000, ranges={"mu": (1, 1)})
    assert found.verdict.value == "VIOLATED" and found.at["steps"] == 777


def test_a_loose_figure_is_a_note():
    found = audit_accountant(lambda rho, delta: rho + 2 * math.sqrt(rho * math.log(1 / delta)), "zcdp", "epsilon",
                             ranges={"delta": (1e-9, 1e-3)}, evaluations=60)  # fmt: skip
    assert found.verdict.value == NOT_REFUTED
    assert any(note.startswith("loose: up to") for note in found.notes)
    assert found.loosest["figure"] > 1.1 * found.loosest["exact"]


def test_exceptions_and_nan_are_skipped_and_counted():
    def partial(sigma, order):
        if order < 100:
            raise OverflowError("too small")
        return order / sigma**2 / 2 if order > 200 else math.nan

    found = audit_accountant(partial, "gaussian", "rdp", evaluations=60)
    assert found.verdict.value == NOT_REFUTED
    assert found.failed > 0
    assert any("OverflowError: too small" in note for note in found.notes)
    broken = audit_accountant(lambda sigma, order: None, "gaussian", "rdp", evaluations=20)
    assert broken.verdict.value == ERROR
    assert "returned NoneType, not a number" in broken.headline()


def test_rounding_in_double_precision_is_a_note():
    """The difference of two normal probabilities has an absolute error of 1e-17, which is a large
    part of a tiny delta.
    """
    found = audit_accountant(
        gaussian_delta,
        "gaussian",
        "delta",
        ranges={"sigma": (1, 1), "epsilon": (7, 12)},
        evaluations=60,
    )
    assert found.verdict.value == NOT_REFUTED
    assert found.compared == 60


def test_witness_and_document_are_plain_json():
    found = audit_accountant(
        lambda epsilons, deltas, delta: max(epsilons),
        "heterogeneous-composition",
        "epsilon",
        evaluations=60,
    )
    assert found.verdict.value == VIOLATED
    assert json.loads(json.dumps(found.witness))["kind"] == "accountant"
    assert json.loads(json.dumps(found.to_json()))["figure"] == found.figure


def test_the_seed_repeats_the_search():
    low = lambda epsilon0, delta: epsilon0 / 2  # noqa: E731
    first, second = (
        audit_accountant(low, "composition", "epsilon", evaluations=40, seed=3) for _ in range(2)
    )
    assert dict(first.at) == dict(second.at)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("gauss", "delta"), {}, "mechanism must be"),
        (("gaussian", "eps"), {}, "returns must be"),
        (("composition", "noise"), {}, "has no noise parameter"),
        (
            ("gaussian", "rdp"),
            {"parameters": {"sigma": "sigma"}},
            "parameters must name an argument for order",
        ),
        (
            ("gaussian", "rdp"),
            {"parameters": {"sigma": "s", "order": "order"}},
            "must be one of sigma",
        ),
        (("gaussian", "rdp"), {"ranges": {"sigma": (2, 1)}}, "with 0 < low <= high"),
        (
            ("gaussian", "rdp"),
            {"ranges": {"q": (0.1, 1)}},
            "ranges must name parameters of the function",
        ),
    ],
)
def test_arguments_that_do_not_fit(arguments, options, words):
    with pytest.raises(InvalidArgument, match=words):
        audit_accountant(lambda sigma, order: 1.0, *arguments, **options)


@pytest.mark.slow
def test_every_mechanism_accepts_its_own_exact_figures():
    """A sound accountant, the exact epsilon itself, is never refuted; 1 % below it is."""
    from dpwitness.auditors.functions.accounting.mechanisms import exact_figure
    from dpwitness.auditors.functions.accounting.search import question_of

    few = {
        "gaussian": 12,
        "laplace": 3,
        "composition": 4,
        "subsampled-response": 12,
        "discrete-gaussian": 4,
        "zcdp": 12,
        "geometric": 4,
    }
    for mechanism, evaluations in few.items():
        names = {p.name: p.name for p in MECHANISMS[mechanism].parameters} | {"delta": "delta"}
        question, _ = question_of(lambda **at: 0.0, mechanism, "epsilon", names)
        for factor, expected in ((1.0, NOT_REFUTED), (0.99, VIOLATED)):
            claimed = lambda factor=factor, question=question, **at: (  # noqa: E731
                factor * exact_figure("epsilon", question.reference, at)
            )
            assert (
                verdict(claimed, mechanism, "epsilon", parameters=names, evaluations=evaluations)
                == expected
            ), mechanism
