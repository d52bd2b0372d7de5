"""Public constructors of OpenDP as their signatures and docstrings describe them, and values for
their parameters.
"""

import inspect
import itertools
import math
import re

import opendp.prelude as dp
from opendp_inputs import INTEGERS, integer_range, single, values

# constructors that take code, and those of data frames
SKIPPED = re.compile(r"user_|lazyframe|_expr\b")


def constructors(module):
    """Yield (name, function, parameters) of each public constructor of a module of OpenDP."""
    for name in sorted(vars(module)):
        function = getattr(module, name)
        if name.startswith("make_") and inspect.isfunction(function) and not SKIPPED.search(name):
            yield name, function, tuple(inspect.signature(function).parameters.values())


TYPES = {"f64": "f64", "f32": "f32", "String": "str", "bool": "bool"} | {
    name: name for name in INTEGERS
}


def space_of(domain):
    """Return a domain as a space (see `opendp_inputs`), read from its text; None for a domain that
    the text does not describe.
    """
    text = str(domain)
    found = re.fullmatch(r"VectorDomain\((.*?)(?:, size=(\d+))?\)", text)
    atom = _atom(found[1] if found else text)
    if atom is None:
        return None
    return (
        {"type": "vector", **atom, "size": int(found[2]) if found[2] else None}
        if found
        else {"type": "scalar", **atom}
    )


def _atom(text):
    inner = re.fullmatch(r"OptionDomain\((.*)\)", text)
    found = re.fullmatch(
        r"AtomDomain\((?:bounds=\[(.*?), (.*?)\], )?(nan=true, )?T=(\w+)\)",
        inner[1] if inner else text,
    )
    if not found or found[4] not in TYPES:
        return None
    dtype = TYPES[found[4]]
    read = int if dtype in INTEGERS else single if dtype == "f32" else float
    bounds = [read(found[1]), read(found[2])] if found[1] is not None else None
    return {"dtype": dtype, "bounds": bounds, "nan": bool(found[3]), "nullable": bool(inner)}


_METRICS = {
    "SymmetricDistance": "symmetric",
    "InsertDeleteDistance": "insert-delete",
    "ChangeOneDistance": "change-one",
    "HammingDistance": "hamming",
    "DiscreteDistance": "discrete",
    "AbsoluteDistance": "absolute",
    "L1Distance": "l1",
    "L2Distance": "l2",
    "LInfDistance": "linf",
}


def metric_of(metric):
    """Return a metric's name in dpwitness; None for one that it does not have."""
    return _METRICS.get(str(metric).partition("(")[0])


def metric_source(metric):
    """Return Python source of a metric."""
    dtype = re.search(r"\((\w+)\)|$", str(metric))[1]
    name = metric_of(metric).replace("-", "_")
    return f"dp.{name}_distance({f'T={dtype!r}' if dtype else ''})"


def source_of(domain):
    """Return Python source of a domain that `space_of` can read."""
    space = space_of(domain)
    dtype, bounds = space["dtype"], space["bounds"]
    atom = f"T={('String' if dtype == 'str' else dtype)!r}"
    atom += f", bounds={_literal(tuple(bounds))}" if bounds else ""
    atom += f", nan={space['nan']}" if dtype in ("f32", "f64") else ""
    size = f", size={space['size']}" if space.get("size") else ""
    text = f"dp.atom_domain({atom})"
    return f"dp.vector_domain({text}{size})" if space["type"] == "vector" else text


def _literal(value):
    """Return Python source of a value, where repr does not do (infinities)."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_literal, value)) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return repr(value)


def _bounds(dtype):
    if dtype in INTEGERS:
        low, high = integer_range(dtype)
        return [
            pair
            for pair in ((0, 1), (-1, 1), (1, 3), (0, high), (low + 1, high), (high - 5, high))
            if pair[0] >= low
        ]
    if dtype in ("f32", "f64"):
        return [
            (0.0, 1.0),
            (-1.0, 1.0),
            (0.1, 0.3),
            (1.0, 1.0),
            (-1e30, 1e30),
            (0.0, 1e8),
            (-math.inf, math.inf),
        ]
    return []


def _ordered(dtype):
    found = [v for v in values({"dtype": dtype}) if not (isinstance(v, float) and math.isinf(v))]
    if dtype in INTEGERS or dtype in ("f32", "f64"):
        found = sorted(set(found))
    return [found[:1], found[:3], found[1:4]]


_SUMMANDS = [f'"{kind}<{T}>"' for kind in ("Sequential", "Pairwise") for T in ("f32", "f64")]


def parameter_values(name, default, dtype):
    """Return sources of values to try for a parameter, by the name of the parameter and the type of
    the data's elements.
    """
    numeric = dtype if dtype in INTEGERS or dtype in ("f32", "f64") else "i32"
    cast = ['"i32"', '"i64"', '"u8"', '"f64"', '"f32"', '"bool"', '"String"']
    found = {
        "bounds": list(map(_literal, _bounds(numeric))),
        "size": ["1", "2", "3"],
        "size_limit": ["1", "2", "5"],
        "ddof": ["0", "1"],
        "leaf_count": ["1", "2", "4", "5", "32"],
        "branching_factor": ["2", "3", "4"],
        "alpha": ["0.0", "0.3", "0.5", "1.0"],
        "null_category": ["True", "False"],
        "S": _SUMMANDS,
        "MO": [
            '"L1Distance<i32>"',
            '"L2Distance<f64>"',
            '"L1Distance<f64>"',
            '"InsertDeleteDistance"',
            '"SymmetricDistance"',
        ],
        "TOA": cast,
        "TO": cast[:5],
        "TV": cast[:3],
        "T": [f'"{numeric}"'],
        "separator": ['","', '"a"'],
        "constant": list(map(_literal, values({"dtype": dtype})[:4])),
        "value": list(map(_literal, values({"dtype": dtype})[:3])),
        "null": list(map(_literal, values({"dtype": dtype})[:2])),
    }
    lists = {"categories": dtype, "edges": numeric, "candidates": numeric}
    if name in lists:
        return list(map(_literal, _ordered(lists[name])))
    if name in found:
        return found[name] + (
            [""] if default is not inspect.Parameter.empty and not found[name] else []
        )
    return [""] if default is not inspect.Parameter.empty else []


def calls(name, parameters, dtype, most=120):
    """Yield sources of the keyword arguments of a constructor after its domain and metric; nothing
    for a parameter without values.
    """
    pools = []
    for parameter in parameters:
        if parameter.name in ("input_domain", "input_metric"):
            continue
        options = parameter_values(parameter.name, parameter.default, dtype)
        pools.append([f"{parameter.name}={text}" if text else "" for text in options])
    for chosen in itertools.islice(itertools.product(*pools), most):
        yield ", ".join(filter(None, chosen))


def start_spaces():
    """Yield sources of pairs of a domain and a metric, from the public constructors of both."""
    for dtype in ("i32", "i64", "u8", "f64", "f32", "String", "bool"):
        kind = TYPES[dtype]
        for bounds, nan, size in itertools.product(
            [None, *_bounds(kind)], (False, True), (None, 1, 2, 3, 5)
        ):
            if nan and (kind not in ("f32", "f64") or bounds):
                continue
            atom = f"T='{dtype}'" + (f", bounds={_literal(bounds)}" if bounds else "")
            atom += f", nan={nan}" if kind in ("f32", "f64") else ""
            domain = f"dp.vector_domain(dp.atom_domain({atom})" + (
                f", size={size})" if size else ")"
            )
            for metric in (
                "symmetric_distance",
                "insert_delete_distance",
                "change_one_distance",
                "hamming_distance",
            ):
                if size or metric in ("symmetric_distance", "insert_delete_distance"):
                    yield domain, f"dp.{metric}()"
            if kind in INTEGERS or kind in ("f32", "f64"):
                for metric in ("l1_distance", "l2_distance", "linf_distance"):
                    yield domain, f"dp.{metric}(T='{dtype}')"
        if kind in INTEGERS or kind in ("f32", "f64"):
            nan = ", nan=False" if kind in ("f32", "f64") else ""
            yield f"dp.atom_domain(T='{dtype}'{nan})", f"dp.absolute_distance(T='{dtype}')"


NAMESPACE = {"dp": dp}
