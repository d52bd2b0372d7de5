"""Accountants: searches, figures below 0, and answers that are not numbers."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpwitness import InvalidArgument
from dpwitness.accounting import MECHANISMS, audit_accountant

VIOLATED, NOT_REFUTED, ERROR = "VIOLATED", "NOT_REFUTED", "ERROR"


def verdict(function, mechanism, returns, **options):
    return audit_accountant(
        function, mechanism, returns, **({"evaluations": 60, "seconds": 60.0} | options)
    ).verdict.value


def gaussian_delta(sigma, epsilon):
    return norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * norm.cdf(
        -0.5 / sigma - epsilon * sigma
    )


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


# deltas at which some exact epsilons are negative
LARGE = {"sigma": (0.3, 50), "delta": (0.05, 0.9)}


def exact(sigma, delta):
    return brentq(
        lambda epsilon: gaussian_delta(sigma, epsilon) - delta, -10, 400, xtol=1e-14, rtol=1e-14
    )


def audited(function, returns="epsilon", names=None, ranges=LARGE):
    return audit_accountant(
        function, "gaussian", returns, names, ranges=ranges, evaluations=30, seconds=60
    )


def test_true_negative_epsilons_are_explained():
    found = audited(exact)
    assert found.verdict.value == "NOT_REFUTED"
    assert found.exact == pytest.approx(exact(**found.at), abs=1e-9)
    (note,) = (note for note in found.notes if "negative" in note)
    assert "not too low" in note and "1 - e^epsilon" in note
    assert not any("rounding" in note for note in found.notes)


def test_an_accountant_that_returns_0_instead_is_right_and_not_loose():
    found = audited(lambda sigma, delta: max(exact(sigma, delta), 0.0))
    assert found.verdict.value == "NOT_REFUTED" and found.notes == ()


@pytest.mark.parametrize(
    ("wrong", "deficit"),
    [
        (lambda sigma, delta: exact(sigma, delta) - 1e-6, 1e-6),
        # wrong only where epsilon is negative
        (lambda sigma, delta: min(exact(sigma, delta), 2 * exact(sigma, delta)), None),
        (lambda sigma, delta: -abs(exact(sigma, delta)), None),
        (lambda sigma, delta: math.log1p(-delta), None),  # the infimum over all mechanisms
        (lambda sigma, delta: -2.293, None),
        (lambda sigma, delta: -math.inf, None),
        (lambda sigma, delta: -0.0, None),
    ],
)
def test_negative_epsilons_that_are_too_low(wrong, deficit):
    found = audited(wrong)
    assert found.verdict.value == "VIOLATED", found.headline()
    truth = exact(**found.at)
    assert found.exact == pytest.approx(truth if truth > 0 or found.figure < 0 else 0, abs=1e-9)
    assert deficit is None or found.exact - found.figure == pytest.approx(deficit, rel=1e-3)
    assert any("needs a delta of at least" in note for note in found.notes) == (found.figure < 0)


def test_a_negative_epsilon_where_the_exact_one_is_negative_too():
    found = audited(lambda sigma, delta: -2.293, ranges={"sigma": (40, 50), "delta": (0.5, 0.8)})
    assert found.verdict.value == "VIOLATED"
    assert found.figure == -2.293 < found.exact < math.log(0.5) + 0.1


def test_a_negative_epsilon_at_delta_0_is_too_low():
    found = audit_accountant(
        lambda scale: -2.293, "laplace", "epsilon", ranges={"scale": (1e3, 1e4)}, evaluations=20
    )
    assert (
        found.verdict.value == "VIOLATED"
        and "where the exact one is at least 0.00" in found.headline()
    )


@pytest.mark.parametrize(
    ("returns", "names"),
    [
        ("delta", {"sigma": "sigma", "epsilon": "epsilon"}),
        ("rdp", {"sigma": "sigma", "order": "order"}),
        ("zcdp", {"sigma": "sigma"}),
        ("mu", {"sigma": "sigma"}),
        ("noise", {"epsilon": "epsilon", "delta": "delta"}),
    ],
)
@pytest.mark.parametrize("figure", [-0.3, -1e-11, -math.inf])
def test_other_figures_are_never_negative(returns, names, figure):
    """Deltas of 1e-190 are at most rounding away from 0, but not from -0.3."""
    ranges = {"sigma": (1, 1), "epsilon": (30, 30)} if returns == "delta" else {}
    found = audited(lambda **at: figure, returns, names, ranges)
    assert found.verdict.value == "VIOLATED", found.headline()


def test_the_note_on_rounding_states_the_measured_deficit():
    found = audited(
        lambda sigma, epsilon: -1e-17, "delta", None, {"sigma": (1, 1), "epsilon": (9, 10)}
    )
    assert found.verdict.value == "NOT_REFUTED"
    (note,) = found.notes
    stated = float(note.partition("at most ")[2].split()[0])
    assert 1e-17 < stated <= 1e-15


@pytest.mark.parametrize(
    "answer",
    [
        True,
        np.bool_(True),
        "3",
        b"3",
        3j,
        np.complex128(3),
        np.array(3j),
        None,
        [3.0],
        10**400,
        math.nan,
    ],
)
def test_answers_that_are_not_real_numbers_are_failed_calls(answer):
    found = audited(lambda sigma, delta: answer)
    assert found.verdict.value == "ERROR" and found.failed == 30
    assert "returned" in found.headline()


@pytest.mark.parametrize(
    "kind",
    [
        np.float64,
        np.float32,
        np.longdouble,
        np.array,
        Decimal,
        Fraction,
        lambda x: np.int64(math.ceil(x)),
        lambda x: math.ceil(x),
    ],
)
def test_numbers_of_other_types_are_read(kind):
    found = audited(lambda sigma, delta: kind(float(np.float32(exact(sigma, delta) + 1e-4))))
    assert found.verdict.value == "NOT_REFUTED" and found.compared == 30, found.headline()


@pytest.mark.parametrize("answer", [math.inf, True, "2", 10**400])
def test_filters_that_return_no_count(answer):
    found = audit_accountant(
        lambda epsilons, deltas, epsilon, delta: answer, "privacy-filter", "admitted", evaluations=5
    )
    assert found.verdict.value == "ERROR" and "returned" in found.headline()


@pytest.mark.parametrize(
    ("mechanism", "ranges"),
    [("gaussian", {"delta": (0.1, 2)}), ("composition", {"delta0": (0.5, 3)}), ("subsampled-gaussian", {"q": (0.5, 2)}),
     ("gaussian", {"steps": (0.1, 5)})],
)  # fmt: skip
def test_parameters_outside_their_domain_are_refused(mechanism, ranges):
    """Composed with delta0 = 3, the formula of the exact figure would accuse a right accountant."""
    (name,) = ranges
    names = {
        p: p
        for p in {
            "gaussian": ["sigma"],
            "composition": ["epsilon0"],
            "subsampled-gaussian": ["sigma", "q"],
        }[mechanism]
    }
    with pytest.raises(InvalidArgument, match=rf"ranges\['{name}'\] must be"):
        audit_accountant(
            lambda **at: math.inf,
            mechanism,
            "epsilon",
            names | {name: name, "delta": "delta"},
            ranges=ranges,
        )
