"""Rows of the third-party suite: audited targets, number of runs, and the known truth.

No row names a pair of datasets: pairs come from the domain that the target file declares. For rows
with a key K1 to K20 there are verdicts of other tools or published analyses. The suite must
reproduce these verdicts, for values and for low bits.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpwitness.auditors.density import known_laws as reference_laws
from dpwitness.benchmarks.libraries import laws as law
from dpwitness.core.datasets.pairs import Pair

INF = math.inf
KEPT = 0.0  # truth of a target that satisfies its claim; the exact parameter is not stated
THEORY = "analysis of the mechanism"
UNROUNDED = (
    "Noise is added to the answer as a 64-bit float and not rounded to a grid; neighbouring "
    "answers reach different sets of floats."
)


@dataclass(frozen=True, slots=True)
class Row:
    """Row of the third-party suite: a target and the known truth about it."""

    environment: str  # table of the file of pinned versions
    adapter: str  # file of `benchmarks/libraries`, or a program
    target: str  # function in the file, or argument of the program
    # smallest parameter that the target satisfies for values; 0 if the target satisfies its claim;
    # None if unknown
    truth: float | None = KEPT
    # whether the low bits of the outputs satisfy the claim; None if unknown
    bits: bool | None = True
    trials: int = 200_000  # total number of runs; smaller for slow targets
    pairs: int = 12  # candidate pairs from the target's domain
    law: law.Law | None = None  # function that returns the exact law of the privacy loss on a pair
    key: str = ""  # K1 to K20, or empty
    source: str = THEORY  # origin of the truth
    settled: bool = True  # whether `trials` runs are enough for the verdict
    # reason for the failure of a program. Python targets state the reason themselves.
    cause: str = ""

    @property
    def name(self) -> str:
        """Return the name of the row: key, environment and function."""
        return "-".join(
            part for part in (self.key, self.environment, self.target.replace("_", "-")) if part
        )


def _value(data: Any) -> float:
    return float(np.asarray(data, dtype=float).ravel()[0])


def _sum(data: Any) -> float:
    return float(np.sum(np.clip(np.asarray(data, dtype=float), 0.0, 1.0)))


def _present(data: Any) -> float:
    values = np.asarray(data, dtype=float)
    return float(values[~np.isnan(values)].mean()) if not np.isnan(values).all() else np.nan


_LAPLACE = law.additive(reference_laws.laplace, _value)
_SUM = law.additive(reference_laws.laplace, _sum)
_GEOMETRIC: law.Law = lambda pair: reference_laws.discrete_laplace(1)  # noqa: E731
_GAUSSIAN = law.additive(reference_laws.gaussian, _value, 3.73063)
_CLASSICAL = law.additive(reference_laws.gaussian, _value, math.sqrt(2 * math.log(1.25e5)))


def _bins_replaced(pair: Pair) -> Any:
    """Return the law of two noisy bin counts if one record is replaced: a record that changes its
    bin moves one count up, one down.
    """
    counts = [np.histogram(d, bins=2, range=(0, 1))[0] for d in (pair.d1, pair.d0)]
    return reference_laws.discrete_laplace(*(counts[0] - counts[1]).tolist())


def _unary(p: float, q: float) -> law.Law:
    return law.unary_encoding_law(p, q)


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _rows_of(environment: str, adapter: str, /, **defaults: Any) -> Any:
    """Return a function that creates rows of one environment and adapter, with the
    given defaults.
    """
    return functools.partial(Row, environment, adapter, **defaults)


_numpy = _rows_of("numpy", "numpy_targets", trials=1_000_000)
_noise = _rows_of("diffprivlib", "diffprivlib_targets", trials=400_000, bits=False)
_bit_safe = _rows_of("diffprivlib", "diffprivlib_targets", trials=400_000)
_tools = _rows_of("diffprivlib", "diffprivlib_targets", trials=200_000)
_model = _rows_of("diffprivlib", "diffprivlib_models_targets", trials=20_000, bits=None)
_opendp = _rows_of("opendp", "opendp_targets")
_pydp = _rows_of("pydp", "pydp_targets", trials=400_000)
_ldp = _rows_of("pure-ldp", "pure_ldp_targets", trials=200_000)
_ldp11 = _rows_of("pure-ldp-1.1", "pure_ldp_targets", trials=200_000)
_multi = _rows_of("multi-freq-ldpy", "multi_freq_ldpy_targets", trials=200_000)
_opacus = _rows_of("opacus", "opacus_targets")
_tumult = _rows_of("tumult", "tumult_targets", trials=100_000)
_smart = _rows_of("smartnoise", "smartnoise_targets", trials=1500, pairs=2)

_ee = _rows_of("eeprivacy", "eeprivacy_targets", trials=100_000, bits=None)
_tras = _rows_of("trasgodp", "trasgodp_targets", trials=100_000, bits=None)
_place = _rows_of("trasgodp", "trasgodp_targets", trials=10_000, pairs=6, bits=None)
_tda = _rows_of("inf-tda", "inf_tda_targets", trials=20_000, pairs=4, bits=None)
_pure = _rows_of("diffpriv-pure", "diffpriv_pure_targets", trials=100_000, bits=None)
_dpmm = _rows_of("dpmm", "dpmm_targets", trials=3000, pairs=3, bits=None)
_dpart = _rows_of("dpart", "dpart_targets", trials=3000, pairs=3, bits=None)
_privsyn = _rows_of("privsyn-core", "privsyn_targets", trials=3000, pairs=2, bits=None)
_tree = _rows_of("dpcrpy", "dpcrpy_targets", trials=100_000, pairs=6, bits=None)
_pipeline = _rows_of("pipeline-dp", "pipeline_dp_targets", trials=20_000, pairs=6, bits=None)
_synth = _rows_of("smartnoise-synth", "smartnoise_synth_targets", trials=4000, pairs=4, bits=None)
_synth5 = _rows_of(
    "smartnoise-synth-1.0.5", "smartnoise_synth_targets", trials=20_000, pairs=6, bits=None
)
_levels = _rows_of(
    "ldp-hierarchical", "ldp_hierarchical_targets", trials=100_000, pairs=6, bits=None
)

_objects = _rows_of("diffprivlib", "diffprivlib_objects_targets", bits=None)
_sessions = _rows_of("opendp", "opendp_objects_targets", trials=20_000, pairs=4)
_fresh = _rows_of("pydp", "pydp_objects_targets", trials=100_000, pairs=6)
_stdlib = _rows_of("stdlib-js", "stdlib.js", trials=400_000)
_boost = _rows_of("boost", "boost.cpp", trials=1_000_000)

_SUE, _OUE = (_logistic(0.25), 1 - _logistic(0.25)), (0.5, 1 - _logistic(0.5))
# in release 1.1.2 either of two coins sets the item's bit
_MISSED_RESET = tuple((1 - (1 - p) * (1 - q), q) for p, q in (_SUE, _OUE))


def _epsilon(p: float, q: float) -> float:
    return math.log(p * (1 - q) / (q * (1 - p)))


ROWS: tuple[Row, ...] = (
    _numpy("laplace", bits=False, law=_LAPLACE, key="K1"),
    _noise("laplace", law=_LAPLACE, key="K2"),
    _noise("gaussian", trials=2_000_000, pairs=1, law=_CLASSICAL, key="K3"),
    _bit_safe("snapping", key="K4"),
    _opendp("laplace", trials=400_000, law=_LAPLACE, key="K5"),
    _opendp("laplace_int", trials=400_000, law=_GEOMETRIC, key="K6"),
    _pydp("laplace", law=_LAPLACE, key="K7"),
    _pydp("gaussian", trials=2_000_000, pairs=1, bits=False, law=_GAUSSIAN, key="K8"),
    _ldp11("unary", truth=_epsilon(*_MISSED_RESET[0]), law=_unary(*_MISSED_RESET[0]), key="K9"),
    _ldp("unary", truth=0.5, law=_unary(*_SUE), key="K10"),
    _tools("histogram", law=_GEOMETRIC, key="K11"),
    _tools("histogram_replaced", truth=2.0, law=_bins_replaced, key="K12"),
    _model(
        "decision_tree_replaced",
        trials=100_000,
        bits=True,
        truth=2.0,
        law=law.decision_tree,
        key="K13",
    ),
    _tools("mean", bits=False, law=_SUM, key="K14"),
    _tools(
        "nanmean",
        truth=1000.0,
        bits=None,
        law=law.additive(reference_laws.laplace, _present, 0.001),
        key="K15",
    ),
    _model(
        "linear_regression",
        trials=180_000,
        truth=33.0,
        law=law.linear_regression,
        key="K16",
        source="0.99 / 0.01 in a third of epsilon",
    ),
    _model(
        "logistic_regression", trials=160_000, truth=3.2607, law=law.logistic_regression, key="K17"
    ),
    _model(
        "gaussian_nb",
        trials=60_000,
        truth=33.0,
        key="K18",
        source="a change by 101 for 1 in a third of epsilon",
    ),
    _opacus(
        "step",
        trials=200_000,
        pairs=1,
        bits=False,
        law=law.additive(reference_laws.gaussian, _value, 4.0),
        key="K19",
    ),
    _opacus(
        "epoch_shuffled",
        trials=6000,
        pairs=3,
        bits=None,
        truth=3.125,
        key="K20",
        source="simulation of the steps' law",
    ),
    # rows without a key
    _numpy("gaussian", trials=2_000_000, pairs=1, bits=False, law=_GAUSSIAN),
    _numpy("geometric", law=_GEOMETRIC),
    _numpy("randomized_response", law=law.response(4, 1.0)),
    _noise("laplace_truncated", law=_LAPLACE),
    _noise("laplace_folded"),
    _noise("laplace_bounded_domain"),
    _noise("laplace_bounded_noise"),
    _noise("staircase"),
    _noise("gaussian_analytic", trials=1_000_000, pairs=1, law=_GAUSSIAN),
    _bit_safe("geometric", law=_GEOMETRIC),
    _bit_safe("geometric_truncated", law=_GEOMETRIC),
    _bit_safe("geometric_folded"),
    _bit_safe("gaussian_discrete", trials=200_000),
    _bit_safe("geometric_large", truth=INF),
    _bit_safe("exponential"),
    _bit_safe("permute_and_flip"),
    _bit_safe("binary", law=law.response(2, 1.0)),
    _tools("mean_clipped", bits=False, law=_SUM),
    _tools("mean_missing", truth=INF, bits=None),
    _tools("sum", bits=False, law=_SUM),
    _tools("var", bits=False),
    _tools("median", bits=False),
    _tools("count_nonzero", law=_GEOMETRIC),
    _tools("histogram_weights", truth=20.0, bits=None),
    _tools("quantile_ties", trials=20_000, truth=INF, bits=None),
    _model("decision_tree", trials=60_000, bits=True),
    _model("linear_regression_symmetric", truth=None),
    _model("standard_scaler", trials=40_000),
    _model("k_means_centers", trials=6000, pairs=3, truth=INF),
    _model("k_means_inertia", trials=20_000, pairs=3, truth=INF, settled=False),
    _model("k_means_labels", trials=6000, pairs=3, truth=INF),
    _model("gaussian_nb_classes", truth=INF),
    _model("pca", trials=40_000, truth=None),
    _opendp("gaussian"),
    _opendp("gaussian_int"),
    _opendp("laplace_int_large"),
    _opendp("canonical_noise", trials=100_000),
    _opendp("noisy_max", trials=100_000),
    _opendp(
        "randomized_response_bool",
        truth=math.log(3),
        trials=100_000,
        law=law.response(2, math.log(3)),
    ),
    _opendp("randomized_response", trials=100_000, law=law.response(4, 1.0)),
    _opendp("bounded_sum", trials=100_000, law=_SUM),
    _opendp("bounded_mean", trials=100_000, law=_SUM),
    _opendp("bounded_variance", trials=100_000),
    _opendp("private_quantile", trials=100_000),
    _opendp("histogram", trials=100_000, law=_GEOMETRIC),
    _opendp("histogram_replaced", trials=100_000),
    _pydp("count", law=_GEOMETRIC),
    _pydp("bounded_sum"),
    _pydp("bounded_sum_int"),
    _pydp("bounded_sum_outside"),
    _pydp("bounded_mean"),
    _pydp("bounded_variance", truth=None),
    _pydp("bounded_deviation", truth=None),
    _pydp("maximum", trials=100_000, truth=None),
    _pydp("minimum", trials=100_000, truth=None),
    _pydp("median", trials=100_000, truth=None),
    _ldp("unary_optimised", truth=0.5, law=_unary(*_OUE)),
    _ldp11("unary_optimised", truth=_epsilon(*_MISSED_RESET[1]), law=_unary(*_MISSED_RESET[1])),
    _ldp("direct", law=law.response(4, 1.0)),
    _ldp("histogram_encoding", bits=False),
    _ldp("fast_hashing"),
    _ldp("count_mean_sketch"),
    _ldp("hadamard_sketch"),
    _ldp("hadamard_response"),
    _ldp("hadamard_mechanism", truth=INF),
    _ldp("hadamard_mechanism_values"),
    _ldp("rappor", truth=INF),
    _multi("grr", law=law.response(4, 1.0)),
    _multi("sue", law=_unary(_logistic(0.5), 1 - _logistic(0.5))),
    _multi("oue", law=_unary(0.5, 1 - _logistic(1.0))),
    _multi("subset"),
    _multi("histogram_encoding", bits=False),
    _multi("longitudinal_grr"),
    _multi("longitudinal_sue"),
    _multi("longitudinal_oue"),
    _multi("longitudinal_osue"),
    _multi("longitudinal_soue"),
    _multi("d_bit_flip"),
    _multi("sampled_attribute"),
    _multi("fake_data_one_attribute"),
    _multi("fake_data", truth=math.log(2 * (math.e - 1) + 1)),
    _opacus("step_secure", trials=300_000, bits=False, settled=False),
    _opacus("epoch_poisson", trials=3000, pairs=3, bits=None),
    _opacus(
        "expected_batch_size",
        trials=10_000,
        pairs=4,
        truth=INF,
        bits=None,
        source="a scale that depends on the number of records",
    ),
    _tumult("laplace", law=_LAPLACE),
    _tumult("geometric", law=_GEOMETRIC),
    _tumult("geometric_large", law=_GEOMETRIC),
    _tumult("gaussian", pairs=2, bits=False),
    _tumult("discrete_gaussian", pairs=2),
    _smart("count"),
    _smart("total", bits=None),
    _ee("laplace", law=_LAPLACE),
    _ee("clamped_sum"),
    _ee(
        "clamped_mean",
        truth=math.log(2) + 0.05,
        source="the noise of two records is half of that of one",
    ),
    _ee("clamped_mean_replaced"),
    _ee("clamped_mean_outside", truth=INF, source="records are not clamped, their mean is"),
    _ee("vector_mean_laplace", truth=INF),
    _ee("vector_mean_gaussian"),
    _ee("histogram"),
    _ee("median"),
    _ee(
        "quantile",
        truth=1.8,
        settled=False,
        source="scores that move by .9 and by .1 the other way, noise for 1",
    ),
    _tras("laplace"),
    _tras("gaussian"),
    _tras("randomized_response", truth=INF),
    _tras("exponential", truth=INF),
    _tras("randomized_response_all"),
    _tras("exponential_all"),
    _place("places"),
    _place("places_radius", truth=INF),
    _place("places_equal", truth=INF),
    _place("places_default", truth=INF),
    _tda("one_tuple"),
    _tda("many_tuples", truth=None),
    _pure("total"),
    _pure("total_gaussian"),
    _pure("mean"),
    _pure("count", truth=INF),
    _dpmm("privbayes_network", truth=None),
    _dpmm("privbayes_column"),
    _dpmm("pipeline_constant", truth=None),
    _dpmm("pipeline_missing", truth=INF),
    _dpart("numbers", truth=INF),
    _dpart("categories", truth=INF),
    _dpart("categories_all"),
    _privsyn("synthetic"),
    _privsyn("marginals"),
    _tree("binary"),
    _tree("honaker"),
    _tree("fda"),
    _tree("bcrg"),
    _pipeline("count_sum"),
    _pipeline("mean"),
    _pipeline("variance"),
    _pipeline("mean_missing", truth=INF),
    _pipeline("partitions"),
    _synth("covariance", trials=100_000),
    _synth("mwem", truth=INF),
    _synth("mwem_iterations", trials=1000, pairs=2, truth=None),
    _synth5("covariance", truth=INF),
    _levels("direct"),
    _levels("unary"),
    _levels("direct_one_level"),
    # objects, sessions, and programs that are not written in Python
    _objects(
        "linear_regression_object",
        trials=40_000,
        pairs=6,
        truth=33.0,
        source="0.99 / 0.01 in a third of epsilon",
    ),
    _objects(
        "gaussian_nb_object",
        trials=30_000,
        pairs=6,
        truth=33.0,
        source="a change by 101 for 1 in a third of epsilon",
    ),
    _objects("decision_tree_object", trials=20_000, pairs=6, bits=True),
    _objects("standard_scaler_object", trials=20_000, pairs=4),
    _objects(
        "budget",
        trials=20_000,
        pairs=4,
        source="four answers of a quarter of epsilon, and a refusal that no data decide",
    ),
    _sessions("adaptive_composition"),
    _sessions("privacy_filter"),
    _sessions("odometer"),
    _fresh("bounded_sum_object"),
    _fresh("count_object", law=_GEOMETRIC),
    _stdlib("laplace", bits=False, law=_LAPLACE, cause=UNROUNDED),
    _stdlib("geometric", law=_GEOMETRIC),
    _boost("laplace", bits=False, law=_LAPLACE, cause=UNROUNDED),
    _boost("geometric", law=_GEOMETRIC),
)
