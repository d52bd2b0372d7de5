"""The scan of a package of typical functions (`fairground`): where it draws noise, which target each
function gets without tests and with tests, and what the audits say.
"""

import math
import re
import sys
from pathlib import Path

import pytest

from dpwitness.auditors.scanning import scan as scanning
from dpwitness.auditors.scanning.noise_map import import_root, law_of, noise_map, python_files
from dpwitness.auditors.scanning.promises import PRIVACY, promise_of, relation_of
from dpwitness.core.values.validation import InvalidArgument
from dpwitness.mechanisms.wrappers.programs.target import Target

FAIRGROUND = Path(__file__).with_name("fairground")
ONE, ANSWER = ("replace-one",), ("l1",)
BOTH, COUNTED = ("replace-one", "add-remove"), ("add-remove",)
TARGETS = {  # without tests: claim, relations, kind of domain
    "laplace_mechanism": ("pure:1", ANSWER, "Answers"),
    "gaussian_mechanism": ("approx:1,1e-05", ANSWER, "Answers"),
    "noisy_count": ("pure:1", COUNTED, "Records"),
    "noisy_sum": ("pure:1", ONE, "Records"),  # its docstring speaks of replacing one value
    "private_mean": ("pure:1", BOTH, "Records"),
    "randomized_response": ("pure:1", ONE, "Records"),
    "k_randomized_response": ("pure:1", ONE, "Records"),
    "exponential_mechanism": ("pure:1", ("linf",), "Answers"),
    "zcdp_sum": ("zcdp:0.5", BOTH, "Records"),
    "half_noise_count": ("pure:1", COUNTED, "Records"),
    "louder_noise": ("pure:1", ANSWER, "Answers"),
    "zero_epsilon_count": ("pure:1", COUNTED, "Records"),
    "mean_of_some": ("pure:1", BOTH, "Records"),
    "metric_laplace": ("metric:1", ANSWER, "Answers"),
    "leaking_sum": ("pure:1", BOTH, "Records"),
    "PrivateMeanModel_fit": ("pure:1", BOTH, "Rows"),
    "LaplaceNoise_randomise": ("pure:1", ANSWER, "Answers"),
    "Histogram_release": ("pure:1", COUNTED, "Records"),
    "Anonymizer_apply": ("pure:1", ANSWER, "Answers"),
    "keep_or_draw": ("pure:1", ONE, "Records"),
    "UnaryReport_obfuscate": ("pure:1", ONE, "Records"),
    "CohortQueries_cohort_count": ("pure:1", ANSWER, "Counts"),
    "Collector_noisy_total": ("pure:1", BOTH, "Records"),
    "sales_total": ("pure:1", BOTH, "Table"),
    "laplace_noise": ("pure:1", ANSWER, "Answers"),
}
WAITING = {  # what is missing
    "add_noise": "the claim: scale is a scale of noise",
    "needs_key": "no attribute 'noise'",
}
OTHERS = (
    "geometric_noise",
    "huber_loss",
    "clip",
    "check_epsilon",
    "epsilon_greedy",
    "gaussian_epsilon",
    "UnaryReport_attack",
)
TESTS = """
import numpy as np
import pytest

from fairground import half_noise_count, needs_key, noisy_sum
from fairground.objects import LaplaceNoise


class Key:
    def noise(self):
        return 0.0


@pytest.mark.parametrize("n", [5, 9])
def test_sums(n):
    ages = np.arange(20, 20 + n)
    assert abs(noisy_sum(ages, 0, 120, epsilon=2.0) - ages.sum()) < 1e4
    assert half_noise_count(list(range(n)), 0.5) is not None


def test_objects():
    assert LaplaceNoise(epsilon=0.25, sensitivity=2.0).randomise(3.0) is not None
    needs_key([1.0, 2.0], 1.0, Key())
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scan")
    return scanning.scanned(str(FAIRGROUND), folder=folder, seconds=60.0)


@pytest.fixture(scope="module")
def proposals(found):
    return {each.target: each for each in found.proposals}


@pytest.mark.slow_cases("laplace_mechanism")
@pytest.mark.parametrize("name", TARGETS)
def test_a_made_up_call_makes_a_target(proposals, name):
    each = proposals[name]
    assert each.source and not each.recorded, each.why
    assert (each.promise.claim, each.relations, each.domain["kind"]) == TARGETS[name]


@pytest.mark.parametrize("name", WAITING)
def test_what_is_missing_is_said(proposals, name):
    assert not proposals[name].source and WAITING[name] in proposals[name].why


def test_other_functions_are_no_mechanisms(proposals):
    ready = {name for name, each in proposals.items() if each.source}
    assert not ready & {*OTHERS}


def test_a_target_repeats_the_call(found, tmp_path):
    file = tmp_path / "targets.py"
    file.write_text(scanning.target_file(found, file))
    target = Target(str(file), "noisy_sum")
    assert str(target.claim) == "pure:1" and "replace-one" in target.guessed
    pair = next(iter(target.domain.catalogue()))
    outputs = target.sample(pair.d1, 200, __import__("numpy").random.default_rng(1))
    assert len({round(float(v), 6) for v in outputs}) > 100


def test_tests_give_the_calls(tmp_path):
    (tmp_path / "test_shop.py").write_text(TESTS)
    made = scanning.scanned(
        str(FAIRGROUND), folder=tmp_path, seconds=60.0, tests=[str(tmp_path / "test_shop.py")]
    )
    named = {each.target: each for each in made.proposals}
    summed = named["noisy_sum"]
    assert summed.recorded and summed.promise.claim == "pure:2"
    assert summed.domain["high"] == 120 and summed.domain["size"] == 5
    assert named["half_noise_count"].promise.claim == "pure:0.5"
    noise = named["LaplaceNoise_randomise"]
    assert noise.promise.claim == "pure:0.25" and "sensitivity=2.0" in noise.source
    assert named["needs_key"].why.endswith("key_store is an object of class Key")


CLINIC = """
from dataclasses import dataclass

import numpy as np
import pandas as pd

rng = np.random.default_rng()
MOST = 800
ZONES = ("north", "south")


def fevers(temperatures, epsilon: float = 1.0):
    return sum(t >= 38.5 for t in temperatures) + np.random.laplace(0, 1 / epsilon)


def stays(days: list[int], epsilon: float = 1.0, longest: int = 30):
    return sum(days) + np.random.laplace(0, longest / epsilon)


def visits(numbers: list, epsilon: float = 1.0):
    return sum(min(v, MOST) for v in numbers) + np.random.laplace(0, MOST / epsilon)


def total(costs: list, epsilon: float = 1.0, cap: float = 500.0):
    return sum(min(max(c, 0), cap) for c in costs) + rng.laplace(0, cap / epsilon)


def mean(values: np.ndarray, epsilon: float = 1.0, bounds: tuple = (60.0, 200.0)) -> float:
    width = bounds[1] - bounds[0]
    return np.clip(values, *bounds).mean() + np.random.laplace(0, width / epsilon / len(values))


def oldest(ages, edges=(0, 18, 65, 120), epsilon: float = 1.0) -> int:
    counts = np.histogram(ages, bins=edges)[0]
    return int(np.argmax(counts + np.random.laplace(0, 1 / epsilon, len(counts))))


def diagnoses(codes: list[str], epsilon: float = 1.0) -> dict:
    return {k: codes.count(k) + np.random.laplace(0, 1 / epsilon) for k in ["flu", "cold"]}


def wards(frame: pd.DataFrame, epsilon: float = 1.0) -> pd.Series:
    counts = frame.groupby("ward").size().reindex(["A", "B"], fill_value=0)
    return counts + np.random.laplace(0, 1 / epsilon, len(counts))


def guarded(ages: list, epsilon: float = 1.0):
    if max(ages) > 110:
        raise ValueError("no such age")
    return sum(min(a, 100) for a in ages) + np.random.laplace(0, 100 / epsilon)


def tall(heights, t, epsilon: float = 1.0):
    heights = [h for h in heights if h < 250]
    return sum(h > t for h in heights) + np.random.laplace(0, 1 / epsilon)


def long(texts, t, epsilon: float = 1.0):
    return sum(len(each) > t for each in texts) + np.random.laplace(0, 1 / epsilon)


def batch(values, size, rng):
    \"\"\"Private sum of values in [0, 1], epsilon = 0.8.\"\"\"
    return np.clip(values, 0, 1).sum() + rng.laplace(0, 1.25, size)


def share(values: list, epsilon: float = 1.0):
    if len(values) > 90 or epsilon > 70:
        return 0.0
    return np.clip(values, 0, 1).mean() + np.random.laplace(0, 1 / epsilon / len(values))


def trips(frame: pd.DataFrame, epsilon: float = 1.0) -> dict:
    counts = frame[frame["kind"] != "test"]["zone"].value_counts()
    return {zone: counts.get(zone, 0) + np.random.laplace(0, 1 / epsilon) for zone in ZONES}


def visitors(visits: list[tuple[str, int]], epsilon: float = 1.0):
    users = {user for user, minutes in visits if minutes > 5}
    return len(users) + np.random.laplace(0, 1 / epsilon)


def bill(frame: pd.DataFrame, epsilon: float = 1.0) -> dict:
    used = {t: frame.loc[frame["tariff"] == t, "kwh"].sum() for t in ("day", "night")}
    return {t: used[t] + np.random.laplace(0, 1 / epsilon) for t in used}


@dataclass
class Counter:
    epsilon: float
    limit: int = 5

    def count(self, events: list[str]) -> float:
        return len(events) + np.random.laplace(0, 1 / self.epsilon)


class Survey:
    \"\"\"Randomized response, epsilon-DP.\"\"\"

    def __init__(self, epsilon: float = 1.0):
        self.epsilon = epsilon

    def report(self, smokes: bool) -> bool:
        return smokes if np.random.random() < 0.73 else not smokes
"""


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    (folder / "clinic.py").write_text(CLINIC)
    made = scanning.scanned(str(folder / "clinic.py"), folder=folder, seconds=60.0)
    return {each.target: each for each in made.proposals}


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("fevers", -math.inf, 39.0),  # beyond what the code compares with
        ("stays", -math.inf, 30.0),  # up to what the scale is made for
        ("visits", -math.inf, 801.0),
        ("total", 0.0, 501.0),
        ("mean", 60.0, 200.0),  # within the bounds that a default states
        ("oldest", 0.0, 121.0),
        ("guarded", -math.inf, 110.0),
    ],
)
def test_made_up_data_reach_the_limits_of_the_code(clinic, name, low, high):
    domain = clinic[name].domain
    assert domain["low"] >= low and domain["high"] >= high
    exact = name in ("stays", "mean", "guarded")
    assert not exact or domain["high"] == high


@pytest.mark.parametrize(
    ("name", "call"), [("tall", "t=140.85"), ("long", "t=0.5"), ("batch", "size=1,")]
)
def test_a_made_up_number_has_the_meaning_of_its_parameter(clinic, name, call):
    assert call in clinic[name].source


@pytest.mark.slow
def test_wrong_functions_are_suspected_and_right_ones_are_not(found, tmp_path):
    """False-failure probability: each suspicion was confirmed on fresh runs, at 1e-4 together."""
    wrong = {"half_noise_count", "mean_of_some", "leaking_sum", "PrivateMeanModel_fit"}
    outcomes = scanning.audits(
        found, tmp_path / "t.py", python=None, folder=tmp_path, memory=0.0, seconds=60.0,
        clock="wall", seed=0, progress=lambda line: None,
    )  # fmt: skip
    verdicts = {each.proposal.target: each.verdict for each in outcomes}
    suspected = {name for name, verdict in verdicts.items() if verdict == "SUSPECT"}
    assert wrong - {"PrivateMeanModel_fit"} <= suspected <= wrong  # which needs more runs
    assert set(verdicts) == {each.target for each in found.proposals if each.source}


def test_the_map_has_each_place_with_its_scale(found):
    text = (FAIRGROUND / "__init__.py").read_text().splitlines()
    drawn = [
        i for i, line in enumerate(text, 1) if re.search(r"\.(laplace|normal|geometric)\(", line)
    ]
    sites = [site for site in found.found.sites if site.file.name == "__init__.py"]
    assert {*drawn} <= {site.line for site in sites}
    scales = {site.function: site.scale for site in sites}
    assert scales["fairground.noisy_sum"] == "(upper - lower) / epsilon"


MODULE = """
from numpy.random import default_rng as make

import secrets as s
from .noise import Drawn as Other, draw


def helper(x):
    return x + draw(1 / x)


class Release(Other):
    def __init__(self, epsilon):
        self.rng = make()

    def total(self, data):
        return sum(data) + self._noise()


def pick(items):
    return s.choice(items)


def quiet(items):
    return sorted(items)
"""
NOISE = """
import random


def draw(scale):
    return random.gauss(0, scale)


class Drawn:
    def _noise(self):
        return draw(2.0)
"""


def test_a_docstring_is_read_as_one_line(tmp_path):
    """A phrase that is broken at the end of a line is a phrase."""
    doc = '"""Count under differential\n    privacy, if we add or\n    remove one record."""'
    (tmp_path / "one.py").write_text(f"def count(values):\n    {doc}\n    return len(values)\n")
    function = noise_map(tmp_path, [tmp_path / "one.py"]).functions["one.count"]
    assert relation_of(function.doc) == "add-remove" and PRIVACY.search(function.doc)


def test_noise_is_reached_through_imports_and_bases(tmp_path):
    (tmp_path / "kit").mkdir()
    for name, text in (("__init__", ""), ("release", MODULE), ("noise", NOISE)):
        (tmp_path / "kit" / f"{name}.py").write_text(text)
    place = tmp_path / "kit"
    found = noise_map(import_root(place), python_files(place))
    assert [(site.call, site.scale) for site in found.sites] == [
        ("random.gauss", "scale"),
        ("secrets.choice", ""),
    ]
    reaching = {each.path for each in found.public()}
    assert reaching == {
        "kit.noise.draw",
        "kit.release.helper",
        "kit.release.Release.total",
        "kit.release.pick",
    }


@pytest.mark.parametrize(
    ("call", "root", "law"),
    [
        ("numpy.random.laplace", "", "laplace"),
        ("numpy.random.default_rng", "", ""),
        ("numpy.random.seed", "", ""),
        ("torch.randn_like", "", "gaussian"),
        ("torch.nn.Linear", "", ""),
        ("scipy.stats.laplace.rvs", "", "noise"),
        ("jax.random.normal", "", "gaussian"),
        ("secrets.randbelow", "", "noise"),
        ("diffprivlib.mechanisms.Laplace", "", "opaque"),
        ("opendp.measurements.make_laplace", "", "opaque"),
        ("?.laplace", "self.source", "laplace"),
        ("?.choice", "self._rng", "choice"),
        ("?.choice", "menu", ""),
    ],
)
def test_a_call_has_its_law(call, root, law):
    assert law_of(call, root)[0] == law


@pytest.mark.parametrize(
    ("names", "values", "laws", "doc", "claim"),
    [
        (["data", "epsilon"], {"epsilon": 0.5}, ["laplace"], "", "pure:0.5"),
        (["x", "eps", "delta"], {"eps": 1.0, "delta": 1e-6}, ["gaussian"], "", "approx:1,1e-06"),
        (["x", "epsilon", "delta"], {"epsilon": 1.0, "delta": 0.0}, ["laplace"], "", "pure:1"),
        (["x", "epsilon"], {"epsilon": 1.0}, ["gaussian"], "", ""),
        (["x", "rho"], {"rho": 0.25}, ["gaussian"], "", "zcdp:0.25"),
        (["x", "mu"], {"mu": 0.5}, ["gaussian"], "Gaussian differential privacy", "gdp:0.5"),
        (["x", "mu"], {"mu": 0.5}, ["gaussian"], "the mean", ""),
        (["x", "sigma"], {"sigma": 2.0}, ["gaussian"], "", ""),
        (["x", "epsilon_1", "epsilon_2"], {"epsilon_1": 1.0}, ["laplace"], "", ""),
        (["x", "epsilon"], {"epsilon": 1e-8}, ["uniform"], "", ""),
        (["x", "epsilon"], {"epsilon": 1.0}, ["laplace"], "geo-indistinguishable", "metric:1"),
        (["x"], {}, ["laplace"], "A sum that is private with epsilon = 0.5.", "pure:0.5"),
        (["x"], {}, ["gaussian"], "epsilon = 1, delta = 1e-6", "approx:1,1e-06"),
        (["x"], {}, ["laplace"], "epsilon is 1 by day; epsilon is 2 by night", ""),
        (["x", "epsilon"], {}, ["laplace"], "epsilon of 2 for most uses", ""),
    ],
)
def test_a_promise_is_read_from_standard_words(names, values, laws, doc, claim):
    found = promise_of(names, values, laws, doc)
    assert found.claim == claim and found.because


@pytest.mark.parametrize(
    ("doc", "relation"),
    [
        ("Neighbors differ by adding or removing one row.", "add-remove"),
        ("The sum when one record is substituted.", "replace-one"),
        ("Replacing one value changes it by 1.", "replace-one"),
        ("Add-remove or replace-one.", ""),
        ("A sum.", ""),
    ],
)
def test_a_relation_is_read_if_the_docstring_names_one(doc, relation):
    assert relation_of(doc) == relation


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("no_such_package", "no module or distribution of this name"),
        ("a b c", "needs a file, a folder or a package"),
        (f"{FAIRGROUND}:nothing", "has no function 'nothing'"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path, what, message):
    with pytest.raises(InvalidArgument, match=message):
        scanning.scanned(what, folder=tmp_path, seconds=10.0)


def test_an_installed_package_is_found_in_another_interpreter():
    (place,) = scanning.located("pip:main", sys.executable)
    assert place.name == "pip"
