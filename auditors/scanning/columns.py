"""Columns that a function expects of its data frame: read from the exceptions of trial calls, and filled by their names."""

from __future__ import annotations

import re
from dataclasses import replace

from dpwitness.auditors.scanning.recipes import Recipe

_NAMED = re.compile(
    r"KeyError: ['\"]?(?:None of \[Index\()?\[?(?P<key>.+)|'DataFrame' object has no attribute (?P<attribute>'\w+')"
    r"|(?i:columns?\b.{0,40}(?:not found|not in|missing|required|do(?:es)? not exist)|missing.{0,30}columns?|must (?:have|contain).{0,20}columns?"
    r"|ColumnNotFoundError)(?P<rest>.*)"
)
_QUOTED = re.compile(r"['\"`]([A-Za-z_][\w .\-]{0,40})['\"`]")
_DATES = re.compile(r"(^|_)(date|datetime|day|time|timestamp|month|year)s?($|_)|_at$", re.I)
_IDS = re.compile(r"(^|_)(id|uid|user|customer|person|index|key)s?($|_)|Id$", re.I)
_TEXTS = re.compile(r"(^|_)(type|name|categor\w*|city|country|region|state|gender|sex|status|label|class|group|code|zip|job|race)($|_)", re.I)


def has_frame(recipe: Recipe) -> bool:
    """Return whether the call receives a data frame, to which columns can be added."""
    return recipe.form.data.startswith("pandas.DataFrame(") and any(recipe.form.data in line for line in recipe.body)


def missing_columns(error: str) -> tuple[str, ...]:
    """Return the columns that an exception says are missing; empty for another exception.

    Examples
    --------
    >>> missing_columns("KeyError: 'city'"), missing_columns("KeyError: \"['age', 'sex'] not in index\"")
    (('city',), ('age', 'sex'))
    >>> missing_columns("ValueError: missing required columns: ['age']"), missing_columns("ValueError: epsilon must be positive")
    (('age',), ())
    """
    found = _NAMED.search(error)
    if found is None:
        return ()
    text = error[found.start() :] if found["rest"] is not None else found["attribute"] or f"'{found['key']}"
    return tuple(dict.fromkeys(_QUOTED.findall(text)))[:8]


def column_values(column: str, recipe: Recipe) -> str:
    """Return the expression of the values of a column: by the argument of the same name, else by the name of the column."""
    same = re.search(rf'\b{re.escape(column)}=("[^"]*")', " ".join(recipe.body), re.I)
    if same:
        return same[1]
    if _DATES.search(column):
        return 'pandas.Timestamp("2020-03-02")'
    if _IDS.search(column):
        return "range(len(dataset))"
    return '"a"' if _TEXTS.search(column) else "np.array(dataset)[..., 0] if np.ndim(dataset) > 1 else np.array(dataset)"


def open_frame(recipe: Recipe) -> Recipe:
    """Return the recipe with a data frame to which a trial adds columns."""
    added = ".assign(**{name: eval(text, dict(globals(), dataset=dataset)) for name, text in columns.items()})"
    return _replaced(recipe, f"{recipe.form.data}{added}") if has_frame(recipe) else recipe


def with_columns(recipe: Recipe, columns: dict[str, str]) -> Recipe:
    """Return the recipe with a data frame that has more columns, as expressions."""
    spelled = ", ".join(f"{name!r}: {text}" for name, text in columns.items())
    changed = _replaced(recipe, f"{recipe.form.data}.assign(**{{{spelled}}})")
    return replace(changed, form=replace(changed.form, what=f"{recipe.form.what}, with the columns {', '.join(columns)}"))


def _replaced(recipe: Recipe, data: str) -> Recipe:
    body = tuple(line.replace(recipe.form.data, data) for line in recipe.body)
    return replace(recipe, body=body, form=replace(recipe.form, data=data))
