"""Words by which libraries of differential privacy name their parameters, and the role of a
parameter that follows from its name.
"""

from __future__ import annotations

import re

from dpwitness.auditors.scanning.names import Parameter
from dpwitness.mechanisms.wrappers.arguments import LABELS, SEEDS
from dpwitness.mechanisms.wrappers.recognition import DATA, RELEASES

# role of a parameter, and the names that have it; the first that fits counts
_ROLES = (
    (
        "epsilon",
        re.compile(
            r"^(.*_)?(eps|epsilon|epsilons|privacy_budget|privacy_param|privacy_parameter|ε|(eps|epsilon)_delta)"
            r"(_total|_dp|_budget|_value|_perm|_[a-z0-9]|_per_(query|release|call|report|user|answer|column))?$"
        ),
    ),
    ("delta", re.compile(r"^(total_|target_|dp_|privacy_|budget_)?delta(_total|_dp)?$")),
    ("rho", re.compile(r"^(total_|zcdp_|target_)?rho$")),
    # of Gaussian differential privacy, where the docstring names the notion
    ("mu", re.compile(r"^(gdp_)?mu(_gdp)?$")),
    (
        "sensitivity",
        re.compile(
            r"^(.*_)?(sensitivity|sensitivities|sens|delta_f|l1_sens|l2_sens)(_l1|_l2|_bound)?$"
        ),
    ),
    (
        "lower",
        re.compile(
            r"^(lower|lower_bound|lo|low|lb|min|minimum|min_val|min_value|value_min|lower_limit|min_bound|clip_min|clip_lower|range_min|l_bound|a_min)$"
        ),
    ),
    (
        "upper",
        re.compile(
            r"^(upper|upper_bound|hi|high|ub|max|maximum|max_val|max_value|value_max|upper_limit|max_bound|clip_max|clip_upper|range_max|u_bound|a_max)$"
        ),
    ),
    (
        "bounds",
        re.compile(
            r"^((x|data|value|feature)_(bounds|range)|bounds|range|clip_range|clipping_range|clip_bounds|clamp_range|limits|interval|domain_bounds|bounds_x|bounds_y|bound)$"
        ),
    ),
    (
        "norm",
        re.compile(
            r"^(data_norm|norm|max_norm|clip|clipping|clip_norm|clipping_norm|l2_clip|l2_norm_clip|norm_bound|clipping_bound|clip_threshold|max_grad_norm|l2_norm)$"
        ),
    ),
    (
        "categories",
        re.compile(
            r"^(d|k|domain_size|size_domain|n_categories|num_categories|n_items|num_items|n_values|num_values|k_values|num_classes|n_classes|alphabet_size|n_options|num_options|card|cardinality|universe_size)$"
        ),
    ),
    (
        "category list",
        re.compile(
            r"^(categories|candidates|options|choices|values_domain|alphabet|universe|classes|outputs|output_set|items_domain|domain|domain_values|all_values|possible_values|vocabulary|vocab|dictionary|valid_values|possible_outputs)$"
        ),
    ),
    (
        "utility",
        re.compile(
            r"^(utility|utilities|scores|score_list|quality_scores|qualities|quality|utility_scores)$"
        ),
    ),
    (
        "accountant",
        re.compile(
            r"^(accountant|budget_accountant|budget_tracker|budget_manager|ledger|odometer|privacy_accountant|budget)$"
        ),
    ),
)
SCALES = (
    "scale",
    "sigma",
    "noise_scale",
    "noise_multiplier",
    "std",
    "stddev",
    "sd",
    "sigma_squared",
    "b",
    "noise_std",
    "variance",
    "noise_stddev",
    "standard_deviation",
    "std_dev",
    "stdev",
    "noise_sigma",
    "sigma2",
    "noise_variance",
)
VARIANCES = ("sigma_squared", "sigma2", "variance", "noise_variance")
COUNTS = (
    "n",
    "size",
    "length",
    "n_records",
    "num_records",
    "dataset_size",
    "data_size",
    "num_rows",
    "n_rows",
    "count_of_records",
    "total",
    "batch_size",
    "row_count",
    "record_count",
)
BUDGETS = re.compile(
    r"(budget|accountant|ledger|odometer|composition|(?<!bloom)(?<!bloom_)filter|tracker|spent|spend)",
    re.I,
)  # names of classes
# defaults
PURE_CHOICES = re.compile(
    r"^('|<\w+\.)(discrete_)?(laplac\w*|geometric|exponential|randomized_response)('|:)", re.I
)
QUERIES = re.compile(
    r"^(query|queries_fn|(query|aggregation|agg|stat|statistic)_(fn|func|function)|func|function|fn|f|statistic|stat|aggregat\w*|agg|q)$"
)

SINGLE = (
    "value",
    "answer",
    "true_value",
    "true_answer",
    "true_count",
    "query_result",
    "result",
    "number",
    "count",
    "statistic",
    "val",
    "output",
    "scalar",
)
DATA_WORDS = frozenset(
    (
        *(*DATA, *SINGLE, "X", "array_like"),
        *(
            "column",
            "input_data",
            "sample",
            "vector",
            "vec",
            "gradient",
            "gradients",
            "grad",
            "gradient_vector",
            "responses",
            "response",
            "item",
            "word",
        ),
        *(
            "hist",
            "histogram",
            "counts",
            "true_counts",
            "original_value",
            "raw_value",
            "raw_data",
            "sensitive_value",
            "user_value",
            "user_data",
            "series",
        ),
        *(
            "user_item",
            "report",
            "points",
            "point",
            "location",
            "text",
            "v",
            "arr",
            "data_frame",
            "dataframe",
            "bit",
            "true_bit",
            "binary_value",
            "entries",
        ),
        *(
            "observations",
            "obs",
            "data_point",
            "datapoint",
            "query_answer",
            "query_value",
            "private_data",
            "sensitive_data",
            "condition_count",
            "stream",
        ),
        *(
            "numbers",
            "elements",
            "element",
            "category",
            "label_value",
            "private_value",
            "real_value",
            "exact_value",
            "real_data",
            "input_value",
            "input_array",
        ),
        *(
            "num",
            "measurement",
            "measurements",
            "values_list",
            "data_list",
            "noisy_input",
            "original",
            "param",
            "params",
            "weights_vector",
            "input_tuple",
            "f_x",
            "grads",
            "per_example_grads",
            "per_sample_grads",
            "per_example_gradients",
            "per_sample_gradients",
            "updates",
            "client_updates",
        ),
    )
)
RELEASE_METHODS = (
    *RELEASES,
    *(
        "randomise",
        "privatise",
        "quick_result",
        "randomized_response",
        "noise",
        "noisy",
        "add_noise_to",
        "mechanism",
        "sanitize",
        "sanitise",
    ),
    *(
        "obfuscate",
        "client",
        "anonymize",
        "anonymise",
        "execute",
        "compute",
        "apply",
        "perturb_value",
        "release_value",
        "get_noisy",
        "noisy_value",
    ),
    *(
        "generate",
        "sample",
        "encode",
        "transform",
        "select",
        "choose",
        "should_keep",
        "call",
        "publish",
        "process",
        "dp_release",
        "report",
    ),
    *(
        "clip_and_add_noise",
        "fit_transform",
        "noisy_count",
        "noisy_sum",
        "randomize_response",
        "report_noisy_max",
    ),
    *("estimate", "evaluate", "predict"),  # last, as these often process what was released
)
FILES = re.compile(
    r"^((input|data|csv|source|src|dataset|in)_?)?(file|path|filename|filepath|csv)(_?(path|name|file))?$|^(infile|input_csv)$"
)  # of a table of records
# a file to write
OUTPUTS = re.compile(
    r"^(out|output|outfile|save|dest|destination|target|result)s?_?(file|path|csv|filename|filepath)?$"
)
FEEDING = re.compile(
    r"^(fit|add|update|insert|append|observe|ingest|feed|record|push|collect|load|load_data|set_data|process|step)(_(?!noise)\w+)?$"
)
READING = re.compile(
    r"^(get_)?(result|results|finali[sz]e|finish|compute|release|query|value|estimate|quick_result|count|counts|mean|sum|median|quantile"
    r"|build|publish|snapshot|cardinality|frequency|frequencies|histogram|report|output|statistics|noisy)(_\w+)?$"
)
POST_PROCESSING = re.compile(
    r"aggregat|server|decod|reconstruct|post_?process|unbias|debias|plot|(^|_)metrics?$|loss$", re.I
)
DIAGNOSTIC = re.compile(
    r"estimator|variance|^var_|confidence_interval|correct|(^|_)(mse|bias|error)($|_)", re.I
)  # unless it spends epsilon
PRIVACY_WORDS = re.compile(
    r"priva|differential|\bdp\b|\bldp\b|laplace|gaussian noise|randomi[sz]ed response|noise", re.I
)
PRIVACY_NAMES = re.compile(
    r"(?-i:(?<![A-Z])L?DP(?![a-z]))|(^|[_.])(dp|ldp|private|privacy|priv|noisy|noise|laplace|gaussian|geometric|exponential|randomi[sz]ed|mechanism|privati[sz]e)|dp_|laplac|gauss|private|noise|mech",
    re.I,
)
SELECTING = re.compile(
    r"sparse.?vector|above.?threshold|noisy.?(arg)?.?max|\bsvt\b|permute.?and.?flip|exponential.?mech\w*(?= .{0,40}scores)",  # noqa: E501
    re.I,
)
PURE = re.compile(r"\bpure[- ](dp\b|differential|epsilon|ε)|\bdp is pure\b|\bstrictly pure\b", re.I)
APPROXIMATE = re.compile(
    r"approximate|gaussian (mechanism|noise)|if delta|delta ?> ?0|\((ε|eps|epsilon), ?(δ|delta)\)",
    re.I,
)
GAUSSIAN_NOTION = re.compile(r"\bGDP\b|gaussian differential(ly)? priva", re.I)
METRIC = re.compile(
    r"metric.?priv|metric[ -](local )?(dp|differential)|geo.?indist|metric.?dp|\bd_x\b|planar", re.I
)
ADD_REMOVE = re.compile(
    r"add(ing|ed)?[ -/]*(or|and|/)?[ -]*remov|unbounded (dp|differential)|presence or "
    r"absence|adding or removing|add-remove",
    re.I,
)
REPLACE_ONE = re.compile(
    r"replac(e|ing) one|substitut|swap(ping)? one|chang(e|ing) one|bounded "
    r"(dp|differential)|replace-one|change-one",
    re.I,
)
WEIGHTS = re.compile(
    r"^(w|weights?|params|parameters|model_params|theta|coef|w_\w+|\w+_weights?|(init|initial)_\w+|\w+_init)$"
)
# functions
UTILITIES = ("u", "utility_function", "utility_fn", "score_function", "score_fn", "score", "scorer")
DISTANCES = re.compile(r"^(distance|dist|metric|similarity|loss)(_?(fn|func|function|metric))?$")
# all records count
PREDICATES = re.compile(r"^(predicate|condition|cond|filter|where|mask)(_(fn|func|function))?$")
# of categories to numbers from 0 on
MAPPERS = re.compile(r"(index|item|value|category)_(mapper|map|mapping)")
EXTRACTORS = re.compile(
    r"^(value|key|partition|user|id)?_?(extractor|mapper|getter|selector|accessor)(_(fn|func|function))?$"
)
BY_HINT: tuple[tuple[str, str, str], ...] = (  # type hint, value, and module that the value needs
    (r"bool", "False", ""),
    (r"(Optional\[)?int\]?", "1", ""),
    (r"(Optional\[)?float\]?", "1.0", ""),
    (r"str", '"a"', ""),
    (r"(datetime\.)?datetime", "datetime.datetime({year}, 1, 1)", "datetime"),
    (r"(datetime\.)?date", "datetime.date({year}, 1, 1)", "datetime"),
    (r"([Dd]ict|Mapping)(\[.*)?", "{{}}", ""),
    (r"(Optional\[.*|.*\| *None|Any|typing.Any)", "None", ""),
)
COLUMN = "value"  # column of a data frame
OTHERS: tuple[tuple[str, str], ...] = (  # words of other parameters, and their values
    (r"q|quant|quantile|quantile_value", "0.5"),
    (r"percent|percentile", "50"),
    (r"percentiles|percents", "[50]"),
    (r"quantiles|qs|probs", "[0.5]"),
    (r"(num_|n_|number_of_)?bins|nbins", "2"),
    (r"bin_edges|edges|boundaries", "[{low}, {middle}, {high}]"),
    (r"threshold|cutoff", "1.0"),
    (r"dim|dims|dimension|dimensions|n_features|num_features|num_dimensions", "2"),
    (
        r"max_.*contrib.*|max_partitions.*|max_individual.*|l0|linf|contribution_bound|max_rows.*|m",
        "1",
    ),
    (r"horizon|max_steps|t|time_steps|stream_length", "16"),
    (r"steps|n_steps|num_steps|rounds|iterations|num_iterations|n_iter|epochs|max_iter", "4"),
    (r"(.*_)?(col(umn)?|field|attribute|attr)(_name)?|by|feature|variable|key", f'"{COLUMN}"'),
    (
        r"(.*_)?(col(umn)?|field|attribute|attr)s|column_names|features|variables|categorical|numeric(al)?|quasi_identifiers",
        f'["{COLUMN}"]',
    ),
    (
        r"k|n_clusters|num_clusters|n_components|num_hashes|num_hash_functions|bin_count|bucket_count|(num_|n_)buckets",
        "2",
    ),
    (
        r"repeats?|n_repeats|num_repeats|repetitions|n_runs|runs|contributions|max_count|max_per_\w+",
        "1",
    ),
    (
        r"((num|n|number_of)_)?(bits|slots|levels|layers|users|clients|parties)|sketch_size|depth|width",
        "4",
    ),
    (r"sql|(sql_)?query(_(text|string|str))?", '"SELECT COUNT(*) FROM data"'),
    (r"size|n_samples|num_samples|n_draws", "1"),
    (r"value_?0|label_?0|false_value|negative_label", '"no"'),
    (r"value_?1|label_?1|true_label|positive_label", '"yes"'),
    (
        r"utility_list",
        '[("a", "b", 1.0), ("a", "c", 2.0), ("a", "d", 2.0), ("b", "c", 2.0), ("b", "d", '
        '2.0), ("c", "d", 1.0)]',
    ),
    (r"hierarchy|tree", '[["a", "b"], ["c", "d"]]'),
    (r"lst_k|list_k|domain_sizes|ks", "[2, 3]"),
    (
        r"x_?(test|val|valid|eval|public|pub)|(test|val|eval|public)_x",
        "np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])",
    ),
    (r"y_?(test|val|valid|eval|public|pub)|(test|val|eval|public)_y", "np.array([0, 1, 1])"),
    (r"alpha|level|prob|probability|p|rate|fraction|ratio", "0.5"),
    (r"(.*_)?(id|name|label|title|description|salt)|city|country|locale", '"a"'),
)


def role(parameter: Parameter) -> str:
    """Return the role of a parameter, by its name: epsilon, delta, rho, sensitivity, lower, upper,
    bounds, norm and others.
    """
    word = parameter.word
    if word in ("budget", "total_budget") and parameter.hint in ("float", "number"):
        return "epsilon"
    if word in SEEDS or word in ("random_seed", "rand", "random", "secure_rng", "prf", "numpy_rng"):
        return "seed"
    for name, pattern in _ROLES:
        if pattern.match(word):
            return (
                "bounds"
                if name == "norm"
                and re.match(r"(typing\.)?[Tt]uple|Sequence", parameter.annotation)
                else name
            )
    if word in SCALES:
        return "scale"
    if word in LABELS:
        return "labels"
    if word in DATA_WORDS or parameter.name == "X":
        return "data"
    return "size" if word in COUNTS else "other"


def is_query(parameter: Parameter) -> bool:
    """Return whether the name of a parameter says that it is a function of the data, and the code
    does not calculate with it.
    """
    return bool(QUERIES.match(parameter.word)) and parameter.used not in (
        "exponent",
        "length",
        "int",
        "float",
    )


def default_number(parameter: Parameter) -> float | None:
    """Return the default of a parameter as a number; None if it is not a number."""
    try:
        return float(parameter.default or "")
    except ValueError:
        return None


def is_tolerance(parameter: Parameter) -> bool:
    """Return whether a parameter that is named epsilon is a numerical tolerance, by its default."""
    found = default_number(parameter)
    return found is not None and 0 <= found <= 1e-3
