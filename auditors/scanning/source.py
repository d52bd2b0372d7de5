"""Source text of target functions: the same text is tried, written to the target file, and audited.

`adapted` changes a call by the outcome of its trial: columns that a data frame lacks, values that
an exception lists, results that are coroutines or iterators, and outputs that are printed or
written to a file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from dpwitness.auditors.scanning.arguments import EPSILON, OUTPUT_FILE
from dpwitness.auditors.scanning.recipes import Recipe
from dpwitness.auditors.scanning.vocabulary import COLUMN, role

PUBLIC_VALUE = '''_made = {}


def public_value(make):
    """Return the value of `make`, made once with a fixed seed: a public value, which is the same in all runs."""
    code = make.__code__
    if code not in _made:
        states = random.getstate(), np.random.get_state()
        random.seed(0)
        np.random.seed(0)
        try:
            _made[code] = make()
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
    return _made[code]
'''  # noqa: E501


def file_header(
    imports: Sequence[str],
    docstring: str,
    *,
    root: str = "",
    preamble: str = "",
    safe: bool = False,
) -> str:
    """Return the first lines of a target file: docstring, imports.

    Parameters
    ----------
    imports : sequence of str
        Modules to import.
    docstring : str
        Docstring of the file; empty for none.
    root : str
        Folder to import from, relative to the file; empty for an installed package.
    preamble : str
        Lines before the imports (`Discovered.preamble`).
    safe : bool
        Whether an import that fails is passed over.
    """
    lines = ['"""' + docstring + '"""', ""] if docstring else []
    lines += [*(["import os"] if root else []), "import random", *(["import sys"] if root else [])]
    lines += ["", "import numpy as np"]
    if root:
        lines += [
            "",
            "sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "
            f"{root!r}))",
        ]
    lines += ["", preamble, ""] if preamble else []
    # of modules, and of names that another name hides (``module:name``)
    statements = {
        f"from {each.partition(':')[0]} import {each.partition(':')[2]}"
        if ":" in each
        else f"import {each}"
        for each in imports
        if each
    }
    for line in sorted(statements):
        lines += ["try:", f"    {line}", "except Exception:", "    pass"] if safe else [line]
    return "\n".join(lines) + "\n"


def function_source(name: str, recipe: Recipe, comments: Sequence[str] = ()) -> str:
    """Return the source of a target function ``name(dataset, size, rng)`` for a recipe, with an
    argument `epsilon` if possible.
    """
    body = open_epsilon(recipe)
    lines = [
        *(f"# {comment}" for comment in comments),
        f"def {name}(dataset, size, rng{f', epsilon={EPSILON!r}' if body else ''}):",
        "    def run():",
        *(f"        {line}" for line in body or recipe.body),
        "",
        "    return [run() for _ in range(size)]",
    ]
    return "\n".join(lines) + "\n"


def open_epsilon(recipe: Recipe) -> tuple[str, ...]:
    """Return the lines of a recipe with the name `epsilon` in place of its value; empty unless the
    call has exactly one such argument.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from dpwitness.auditors.scanning.names import Parameter
    >>> recipe = SimpleNamespace(body=("return f(x, eps=1.0)",), parameters=(Parameter("eps"),),
    ...     spent=())
    >>> open_epsilon(recipe)
    ('return f(x, eps=epsilon)',)
    """
    names = {parameter.name for parameter in recipe.parameters if role(parameter) == "epsilon"}
    calls = [
        node for node in ast.walk(ast.parse("\n".join(recipe.body))) if isinstance(node, ast.Call)
    ]
    spelled = [keyword for call in calls for keyword in call.keywords if keyword.arg in names]
    if (
        recipe.spent
        or "public_value(" in "".join(recipe.body)
        or len(spelled) != 1
        or not isinstance(spelled[0].value, ast.Constant)
        or spelled[0].value.value != EPSILON
    ):
        return ()
    value, lines = spelled[0].value, list(recipe.body)
    line = lines[value.lineno - 1].encode()  # columns are counted in bytes
    lines[value.lineno - 1] = (
        line[: value.col_offset] + b"epsilon" + line[value.end_col_offset :]
    ).decode()
    return tuple(lines)


def spent_source(name: str, recipe: Recipe) -> str:
    """Return the source of the function that returns the claim as the library computes it."""
    lines = [f"def _{name}_claim():", '    """Return the claim that the library computes."""']
    return "\n".join([*lines, *(f"    {line}" for line in recipe.spent)]) + "\n"


_NAMED = re.compile(
    r"KeyError: ['\"]?(?:None of "
    r"\[Index\()?\[?(?P<key>.+)|'DataFrame' object has no attribute (?P<attribute>'\w+')"
    r"|(?i:columns?\b.{0,40}(?:not found|not in|missing|required|do(?:es)? not "
    r"exist)|missing.{0,30}columns?"
    r"|must (?:have|contain).{0,20}columns?"
    r"|ColumnNotFoundError)(?P<rest>.*)"
)
_UNQUOTED = re.compile(r"[Cc]olumn not found: (\w+)")
_QUOTED = re.compile(r"['\"`]([A-Za-z_][\w .\-]{0,40})['\"`]")
_DATES = re.compile(r"(^|_)(date|datetime|day|time|timestamp|month|year)s?($|_)|_at$", re.I)
_IDS = re.compile(r"(^|_)(id|uid|user|customer|person|index|key)s?($|_)|Id$", re.I)
_TEXTS = re.compile(
    r"(^|_)(type|name|categor\w*|city|country|region|state|gender|sex|status|label|class|group|code|zip|job|race)($|_)",
    re.I,
)


def missing_columns(error: str) -> tuple[str, ...]:
    """Return the columns that an exception says are missing; empty for another exception.

    Examples
    --------
    >>> missing_columns("KeyError: 'city'"), missing_columns("KeyError: ['age', 'sex'] not in index")
    (('city',), ('age', 'sex'))
    >>> missing_columns("ValueError: missing required columns: ['age']"), missing_columns("ValueError: epsilon must be positive")
    (('age',), ())
    >>> missing_columns("KeyError: 'Column not found: Activity'")
    ('Activity',)
    """  # noqa: E501
    found = _NAMED.search(error)
    if found is None:
        return ()
    if plain := _UNQUOTED.search(error):
        return (plain[1],)
    text = (
        error[found.start() :]
        if found["rest"] is not None
        else found["attribute"] or f"'{found['key']}"
    )
    return tuple(dict.fromkeys(_QUOTED.findall(text)))[:8]


def column_values(column: str, recipe: Recipe) -> str:
    """Return the expression of the values of a column: by the argument of the same name, else by
    the name of the column.
    """
    same = re.search(rf'\b{re.escape(column)}=("[^"]*")', " ".join(recipe.body), re.I)
    if same:
        return same[1]
    if _DATES.search(column):
        return 'pandas.Timestamp("2020-03-02")'
    if _IDS.search(column):
        return "range(len(dataset))"
    own = re.match(rf'pandas\.DataFrame\(\{{"{COLUMN}": (.*?)\}}\)(\.assign|$)', recipe.form.data)
    return (
        '"a"'
        if _TEXTS.search(column)
        else own[1]
        if own
        else "np.array(dataset)[..., 0] if np.ndim(dataset) > 1 else np.array(dataset)"
    )


def with_columns(recipe: Recipe, columns: Sequence[str]) -> Recipe:
    """Return the recipe with a data frame that has more columns."""
    spelled = ", ".join(f"{name!r}: {column_values(name, recipe)}" for name in columns)
    data, more = f"{recipe.form.data}.assign(**{{{spelled}}})", ", ".join(columns)
    body = tuple(line.replace(recipe.form.data, data) for line in recipe.body)
    joint = ", " if "with the columns" in recipe.form.what else ", with the columns "
    return replace(
        recipe,
        body=body,
        form=replace(recipe.form, data=data, what=f"{recipe.form.what}{joint}{more}"),
    )


def adapted(recipe: Recipe, outcome: str) -> Recipe | None:
    """Return the recipe after the change that the outcome of its trial suggests: an exception, or
    what it returns; None without one.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> _with_listed_value(("return f(x, kind='a')",), "ValueError: kind must be 'sum' or 'mean'")
    ("return f(x, kind='sum')",)
    >>> _with_listed_value(("return f(x, rate=1.0)",), "ValueError: rate must lie between 0 and 1")
    ('return f(x, rate=0.5)',)
    """
    # a data frame, to which columns can be added
    columns = (
        [each for each in missing_columns(outcome) if f"{each!r}: " not in recipe.form.data]
        if recipe.form.data.startswith("pandas.DataFrame(")
        and any(recipe.form.data in line for line in recipe.body)
        else []
    )
    if columns:
        return with_columns(recipe, columns) if recipe.form.data.count(": ") <= 12 else None
    *before, last = recipe.body
    call = last.strip().removeprefix("return ")
    if "<coroutine object" in outcome:
        return replace(
            recipe,
            body=(*before, f"return asyncio.run({call})"),
            imports=(*recipe.imports, "asyncio"),
        )
    if re.search(
        r"<(generator|map|zip|filter|itertools\.\w+|dict_\w+|\w*iterator) object", outcome
    ):
        return replace(recipe, body=(*before, f"return list({call})"))
    if outcome == "returns None" and "return " in last:
        if OUTPUT_FILE in last or any(OUTPUT_FILE in line for line in before):
            return replace(recipe, body=(*before, call, f"return open({OUTPUT_FILE}).read()"))
        lines = (
            "printed = io.StringIO()",
            "with contextlib.redirect_stdout(printed):",
            f"    {call}",
            "return printed.getvalue()",
        )
        return replace(
            recipe, body=(*before, *lines), imports=(*recipe.imports, "contextlib", "io")
        )
    if (
        parts := re.match(r"returns the true value in (\[.*\])", outcome)
    ) and "printed" not in last:
        released = (
            f"released = vars(output) if hasattr(output := {call}, '__dict__') else dict(output)"
        )
        return replace(
            recipe,
            body=(
                *before,
                released,
                f"return [released[name] for name in released if name not in {parts[1]}]",
            ),
        )
    changed = _with_suggested_option(recipe, outcome) or _with_listed_value(recipe.body, outcome)
    return replace(recipe, body=changed) if changed else None


_LISTED = re.compile(
    r"(?i)\b(one of|must be|either|among|in|supported|available|valid|allowed|expected|choose|options?|use)\b(?P<rest>.*)"  # noqa: E501
)
_INTERVAL = re.compile(
    r"(?i)(?:between|\bin\b|range)\D{0,12}?(?P<low>-?\d+(?:\.\d+)?)\s*(?:and|,|to)\s*(?P<high>-?\d+(?:\.\d+)?)"
)
_LEAST = re.compile(r"(?i)(?:at least|greater than|larger than|>=?)\s*(?P<low>\d+)")


def _with_suggested_option(recipe: Recipe, error: str) -> tuple[str, ...]:
    """Return the lines of a call with one more option, which an exception spells as
    ``option='value'``; empty if it spells none.
    """
    optional = [p.name for p in recipe.parameters if not p.required]
    for name, value in re.findall(r"(\w+)\s?=\s?('\w+'|\"\w+\"|True|False|\d+)", error):
        for number, line in enumerate(recipe.body):
            call = re.search(r"[(, ](\w+)=", line)
            if (
                name in optional
                and call
                and f"{name}=" not in line
                and re.search(rf"\b{call[1]}\b", error)
            ):
                changed = f"{line[: call.start() + 1]}{name}={value}, {line[call.start() + 1 :]}"
                return (*recipe.body[:number], changed, *recipe.body[number + 1 :])
    return ()


def _with_listed_value(body: Sequence[str], error: str) -> tuple[str, ...]:
    """Return the lines of a call with another value of the argument that an exception is about;
    empty if it lists no value.
    """
    calls = [node for node in ast.walk(ast.parse("\n".join(body))) if isinstance(node, ast.Call)]
    given = [
        each
        for call in calls
        for each in call.keywords
        if each.arg and isinstance(each.value, ast.Constant)
    ]
    kinds = [each for each in given if not re.search("eps|delta|rho|sens", each.arg or "")]
    for keyword in kinds:
        old = keyword.value.value  # type: ignore[attr-defined]
        named = re.search(rf"\b{re.escape(keyword.arg or '')}\b", error)
        new: object = None
        if isinstance(old, str) and (named or repr(old) in error or f'"{old}"' in error):
            listed = _LISTED.search(error)
            options = [
                each
                for each in _QUOTED.findall(listed["rest"] if listed else "")
                if each not in (old, keyword.arg)
            ]
            new = next(
                (each for each in options if "laplace" in each.lower()),
                options[0] if options else None,
            )
        elif isinstance(old, float | int) and not isinstance(old, bool) and named:
            inside, least = _INTERVAL.search(error), _LEAST.search(error)
            new = (
                (float(inside["low"]) + float(inside["high"])) / 2
                if inside
                else int(least["low"]) + 1
                if least
                else None
            )
        if new is not None and new != old:
            lines, value = list(body), keyword.value
            line = lines[value.lineno - 1].encode()  # columns are counted in bytes
            lines[value.lineno - 1] = (
                line[: value.col_offset] + repr(new).encode() + line[value.end_col_offset :]
            ).decode()
            return tuple(lines)
    return ()
