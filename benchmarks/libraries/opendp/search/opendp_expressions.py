"""Polars expressions, enumerated from the signatures of `polars.Expr` and kept where OpenDP accepts
them.
"""

import inspect

import opendp.prelude as dp
import polars as pl

NAMESPACES = ("", "str", "dt", "list", "arr")
AVOIDED = {
    "map_batches",
    "map_elements",
    "deserialize",
    "from_json",
    "inspect",
    "register_plugin",
    "sample",
    "shuffle",
    "hash",
    "pipe",
    "to_struct",
}
DTYPES = [
    "pl.Int64",
    "pl.Int32",
    "pl.Int8",
    "pl.UInt32",
    "pl.Float64",
    "pl.Float32",
    "pl.String",
    "pl.Boolean",
    "pl.Date",
    "pl.Datetime('us')",
    "pl.Datetime('us', 'Europe/Berlin')",
]
SCALARS = ["0", "1", "2.0", "float('nan')", "'a'", "pl.col('y')", "10"]

BY_NAME = {  # sources of values for parameters of Polars, by their names
    "value": SCALARS,
    "other": [*SCALARS[:3], "pl.col('x')", "pl.col('y')", "pl.lit(1)"],
    "exponent": ["pl.col('y')", "2"],
    "lower_bound": ["0", "0.0", "10", "2**31 - 5", "-1"],
    "upper_bound": ["1", "0.1", "10", "2**31 + 5", "2**32 - 1"],
    "breaks": ["[0.0, 1.0]"],
    "labels": ["['p', 'q', 'r']"],
    "old": ["[1]", "['a']", "[None]"],
    "new": ["[2]", "['b']", "[None]", "[1]"],
    "default": ["0", "None"],
    "format": ["'%Y-%m-%d'", "'%Y-%m-%d %H:%M:%S'"],
    "strict": ["False"],
    "by": ["pl.col('y')", "pl.col('y').drop_nulls()"],
    "null_behavior": ["'drop'"],
    "quantile": ["0.5"],
    "window_size": ["2", "'2i'"],
    "index": ["0", "5"],
    "n": ["1", "-1"],
    "pattern": ["'a'", "pl.col('y')"],
    "element": ["1"],
    "base": ["10"],
    "predicates": ["pl.col('y') > 0", "pl.col('y').is_null()"],
    "partition_by": ["'g'"],
    "length": ["1"],
    "offset": ["0"],
    "k": ["1"],
}
ALWAYS = {
    "value",
    "other",
    "lower_bound",
    "upper_bound",
    "old",
    "new",
    "format",
    "strict",
    "null_behavior",
    "predicates",
}


def methods(text):
    """Yield (name, function) of the methods of an expression, those of its namespaces included."""
    expression = evaluate(text)
    for space in NAMESPACES:
        owner = getattr(expression, space) if space else expression
        for name in sorted(dir(owner)):
            if name.startswith("_") or name in AVOIDED or name.startswith(("meta", "deprecated")):
                continue
            function = getattr(owner, name, None)
            if inspect.ismethod(function) or inspect.isfunction(function):
                yield (f"{space}.{name}" if space else name), function


def applied(text, rng, most=3):
    """Yield sources of each method applied to an expression, with arguments from the pools by the
    names of its parameters.
    """
    for name, function in methods(text):
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            continue
        for arguments in _arguments(name, parameters, rng, most):
            yield f"{text}.{name}({arguments})"


def _arguments(name, parameters, rng, most):
    pools = []
    for parameter in parameters:
        required = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        )
        key = (
            "dtype"
            if parameter.name in ("dtype", "dtypes", "return_dtype") and required
            else parameter.name
        )
        pool = DTYPES if key == "dtype" else BY_NAME.get(key, [])
        if required and not pool:
            return
        if required or (key in ALWAYS and pool):
            named = (
                ""
                if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
                else f"{parameter.name}="
            )
            pools.append([named + text for text in pool])
    if not pools:
        yield ""
        return
    total = max(map(len, pools))
    for i in range(total if len(pools) == 1 else most * 2):
        yield ", ".join(
            pool[i % len(pool)] if len(pools) == 1 else rng.choice(pool) for pool in pools
        )


BINARY = [
    "({a} + {b})",
    "({a} - {b})",
    "({a} * {b})",
    "({a} / {b})",
    "({a} // {b})",
    "({a} % {b})",
    "({a} > {b})",
    "({a} == {b})",
    "({a} ** {b})",
]


def binaries(text):
    """Yield source texts that combine an expression with literals or columns by an operator, in
    both orders.
    """
    for form in BINARY:
        for other in ("pl.lit(1)", "0.0", "pl.col('y')", "pl.lit(5)", "1"):
            yield form.format(a=text, b=other)
            yield form.format(a=other, b=text)


def evaluate(text):
    """Return the expression that a source describes."""
    return eval(text, {"pl": pl, "dp": dp, "float": float})
