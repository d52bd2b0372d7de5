"""Scores of canaries: readers of files (two arrays, or a table with one row per canary), and
validation of scores and coins. Masks, indices and coins in place of scores are refused.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from dpwitness.auditors.canaries.dependent_runs import require_independent
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.validation import (
    InvalidArgument,
    import_problem,
    number_from_text,
    require_numbers,
    short_repr,
)

_SIDES = ("scores_in", "scores_out")
_OPTIONAL = ("ids_in", "ids_out", "groups")
_TRUE, _FALSE = ("1", "1.0", "true", "in", "yes"), ("0", "0.0", "false", "out", "no")


def read_score_file(path: str | Path) -> dict[str, Any]:
    """Return arguments for `audit_canaries` from a .npz, .csv or .parquet file: scores, and ids and
    groups if present.

    Raises InvalidArgument if the file cannot be read or lacks columns.
    """
    path = Path(path)
    readers = {".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise InvalidArgument(
            f"canaries: file must end in .npz, .csv or .parquet, got {path.name!r}"
        )
    if not path.is_file():
        raise InvalidArgument(f"canaries: file must exist, got {str(path)!r}")
    try:
        columns = readers[suffix](path)
    except InvalidArgument:
        raise
    except Exception as error:  # a damaged file can raise anything
        raise InvalidArgument(
            f"canaries: {path.name} must be readable: {type(error).__name__}: {str(error)[:200]}"
        ) from None
    if all(side in columns for side in _SIDES):
        other = next(
            (name for name in ("score", "included", "id", "group", "run") if name in columns), None
        )
        if other is not None:
            raise InvalidArgument(
                f"canaries: {path.name} must have {', '.join(_OPTIONAL)} as well as "
                f"scores_in and scores_out, or none of these, got {other}"
            )
        return {name: columns[name] for name in (*_SIDES, *_OPTIONAL) if name in columns}
    if not {"score", "included"} <= set(columns):
        synonyms = {
            "scores": "score",
            "include": "included",
            "mask": "included",
            "coins": "included",
            "ids": "id",
            "runs": "run",
        }
        renamed = [
            f"{name} to {synonyms[name]}"
            for name in columns
            if name in synonyms and synonyms[name] not in columns
        ]
        hint = f": rename {' and '.join(renamed)}" if renamed else ""
        raise InvalidArgument(
            f"canaries: {path.name} must have scores_in and scores_out, or score and "
            f"included, got {', '.join(columns) or 'nothing'}{hint}"
        )
    return _split_by_side(columns, path.name)


def _read_npz(path: Path) -> dict[str, Any]:
    """Return the arrays of an .npz file."""
    with np.load(path, allow_pickle=False) as contents:
        return {name: contents[name] for name in contents.files}


def _read_csv(path: Path) -> dict[str, Any]:
    """Return the columns of a .csv file. Raise InvalidArgument if a column occurs twice."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file, restkey="", restval="")
        names = list(reader.fieldnames or ())
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise InvalidArgument(
                f"canaries: {path.name} must have each column once, got {duplicate!r} "
                f"{names.count(duplicate)} times: rename one"
            )
        rows = list(reader)
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _read_parquet(path: Path) -> dict[str, Any]:
    """Return the columns of a .parquet file. Raise InvalidArgument if pyarrow is not installed."""
    try:
        from pyarrow.parquet import read_table
    except ImportError as error:
        reason = import_problem("pyarrow", error, "pip install 'dpwitness[frames]'")
        raise InvalidArgument(f"canaries: .parquet files need pyarrow: {reason}") from None
    contents = read_table(path)
    return {name: contents[name].to_pylist() for name in contents.column_names}


def _split_by_side(columns: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the columns of a table as arguments for `audit_canaries`, split by side and by run."""
    try:
        scores = np.asarray(
            [
                number_from_text(value.strip()) if isinstance(value, str) else float(value)
                for value in columns["score"]
            ]
        )
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"canaries: score in {name} must be numbers: {error}") from None
    texts = [str(value).strip().lower() for value in columns["included"]]
    wrong = next((i for i, text in enumerate(texts) if text not in (*_TRUE, *_FALSE)), None)
    if wrong is not None and set(np.unique(scores).tolist()) == {0.0, 1.0}:
        raise InvalidArgument(
            f"canaries: included in {name} must be 0 or 1, and score holds only these: "
            "exchange the two columns"
        )
    if wrong is not None:
        raise InvalidArgument(
            f"canaries: included in {name} must be 0 or 1, true or false, got "
            f"{str(columns['included'][wrong])[:40]!r}"
        )
    included = np.array([text in _TRUE for text in texts], dtype=bool)
    if any(
        len(columns[key]) != scores.size
        for key in ("included", "run", "id", "group")
        if key in columns
    ):
        raise InvalidArgument(f"canaries: columns of {name} must have one length, {scores.size}")
    labels = np.asarray(columns["run"]) if "run" in columns else np.zeros(scores.size)
    parts = [labels == run for run in np.unique(labels)]

    def split(values: np.ndarray, wanted: np.ndarray) -> Any:
        contents = [values[part & wanted] for part in parts]
        return contents[0] if len(parts) == 1 else contents

    arguments = {"scores_in": split(scores, included), "scores_out": split(scores, ~included)}
    if "id" in columns:
        ids = np.asarray(columns["id"])
        arguments |= {"ids_in": split(ids, included), "ids_out": split(ids, ~included)}
    if "group" in columns:
        groups = np.asarray(columns["group"])
        by_run = [
            np.concatenate([groups[part & included], groups[part & ~included]]) for part in parts
        ]
        arguments["groups"] = by_run[0] if len(parts) == 1 else by_run
    return arguments


LEAST = 10  # canaries of a run
_MIN_PROBABILITY = 1e-6  # probability under fair coins below which the coins are refused
_OWNER = "audit_canaries"
_CORRECT_CALL = "pass scores[included] as scores_in and scores[~included] as scores_out"
_LOG_COINCIDENCE = math.log(1e-9)  # log-probability below which equal sides are not a coincidence
_MIN_LEVELS = 30  # distinct scores whose counts all share a factor with probability below 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Canaries:
    """Canaries of all runs: scores, standardized within each run, coins, number of runs, and notes
    for the result.
    """

    scores: FloatArray
    coins: np.ndarray
    runs: int
    notes: tuple[str, ...]


def read(
    scores_in: Any, scores_out: Any, ids_in: Any = None, ids_out: Any = None, groups: Any = None
) -> Canaries:
    """Return the checked scores and coins of one run, or of a list of runs, from the arguments of
    `audit_canaries`.

    Raises InvalidArgument if a score, a name or a group is invalid.
    """
    many, runs = _split_by_run(scores_in, scores_out, ids_in, ids_out, groups)
    read_runs = [
        _read_run(f" of run {i}" if many else "", len(runs), *run) for i, run in enumerate(runs)
    ]
    _require_other_than_coins(runs)
    names = [
        None if a is None else [*np.asarray(a).tolist(), *np.asarray(b).tolist()]
        for _, _, a, b, _ in runs
    ]
    raw_scores = [
        np.concatenate([np.asarray(side, dtype=float) for side in run[:2]]) for run in runs
    ]
    require_independent([(run.scores, run.coins) for run in read_runs], names, raw_scores)
    scores = np.concatenate([run.scores for run in read_runs])
    coins = np.concatenate([run.coins for run in read_runs])
    if scores.min() == scores.max():
        raise InvalidArgument(f"{_OWNER}: scores must differ, those of each run are all equal")
    return Canaries(
        scores,
        coins,
        len(runs),
        tuple(dict.fromkeys(note for run in read_runs for note in run.notes)),
    )


def _split_by_run(
    scores_in: Any, scores_out: Any, ids_in: Any, ids_out: Any, groups: Any
) -> tuple[bool, list[tuple[Any, ...]]]:
    """Return whether the arguments are lists of runs, and the five arguments of each run. Raise
    InvalidArgument if their numbers of runs differ.
    """
    for name, side in (("scores_in", scores_in), ("scores_out", scores_out)):
        # a table is neither one run nor a list of runs
        if not isinstance(side, list | tuple) and getattr(side, "ndim", 1) > 1:
            _one_row(name, side)
    many = _is_list_of_runs(scores_in)
    if many != _is_list_of_runs(scores_out):
        raise InvalidArgument(
            f"{_OWNER}: scores_in and scores_out must both be of one run, or both lists of runs"
        )
    ins, outs = (list(side) if many else [side] for side in (scores_in, scores_out))
    if len(ins) != len(outs) or not ins:
        raise InvalidArgument(
            f"{_OWNER}: scores_out must have as many runs as scores_in, {len(ins)}, got {len(outs)}"
        )
    others = [
        (list(each) if many else [each]) if each is not None else [None] * len(ins)
        for each in (ids_in, ids_out, groups)
    ]
    if any(len(each) != len(ins) for each in others):
        raise InvalidArgument(
            f"{_OWNER}: ids_in, ids_out and groups must have as many runs as scores_in, {len(ins)}"
        )
    return many, list(zip(ins, outs, *others, strict=True))


def _require_other_than_coins(runs: list[tuple[Any, ...]]) -> None:
    """Raise InvalidArgument if the scores of all runs only repeat the coins."""
    values = [
        set(np.unique(np.concatenate([np.asarray(run[k], dtype=float) for run in runs])).tolist())
        for k in (0, 1)
    ]
    if all(len(each) == 1 for each in values) and values[0] | values[1] in (
        {0.0, 1.0},
        {-1.0, 1.0},
    ):
        raise InvalidArgument(
            f"{_OWNER}: scores must not be the coins, got {values[0].pop():g} for each included "
            f"canary and {values[1].pop():g} for each other one: score what the training "
            "released, for example with prediction_scores; if these are scores, multiply them by 2"
        )


def _is_list_of_runs(scores: Any) -> bool:
    """Return whether the scores are a list of runs; zero-dimensional arrays and tensors are single
    scores.
    """
    runs = isinstance(scores, list | tuple) and bool(scores)
    return runs and all(
        isinstance(run, list | tuple | range) or getattr(run, "ndim", 0) > 0 for run in scores
    )


def _read_run(
    which: str, runs: int, scores_in: Any, scores_out: Any, ids_in: Any, ids_out: Any, groups: Any
) -> Canaries:
    """Return the checked canaries of one run of `runs`. `which` names the run in messages."""
    sides = []
    for name, side in (("scores_in", scores_in), ("scores_out", scores_out)):
        found = _one_row(name + which, side)
        if found.size == 0 and not which:  # in many small runs, one side may be empty by chance
            raise InvalidArgument(
                f"{_OWNER}: {name}{which} must be one row of at least one score, got shape "
                f"{found.shape}"
            )
        sides.append(found)
    size_in, size_out = (side.size for side in sides)
    size = size_in + size_out
    if size < LEAST:
        hint = "; the lists look transposed: pass one list for each run, not one for each canary"
        raise InvalidArgument(
            f"{_OWNER}: scores_in and scores_out{which} must hold at least {LEAST} canaries "
            f"together, got {size}{hint if runs > LEAST else ''}"
        )
    _require_scores(scores_in, scores_out, sides, which)
    if binomtest(size_in, size, 0.5).pvalue < _MIN_PROBABILITY:
        raise InvalidArgument(
            f"{_OWNER}: scores_in{which} must be near half of the canaries, each included by "
            f"a fair coin, got {size_in} of {size}. "
            "Pass scores[included] and scores[~included], and draw one coin for each canary"
        )
    scores = np.concatenate(sides)
    # a small run among others may be constant by chance
    if not which and scores.min() == scores.max():
        raise InvalidArgument(f"{_OWNER}: scores must differ, all {size} are {scores[0]:g}")
    _require_distinct_canaries(sides, which)
    _require_unique_ids(ids_in, ids_out, (size_in, size_out), which)
    coins, notes = np.arange(size) < size_in, list[str]()
    _, times = np.unique(scores, return_counts=True)
    tied = int(times[times > 1].sum())
    if tied > 0.1 * size:
        notes.append(
            f"{tied} of {size} scores occur more than once: equal scores are ordered at random; if "
            "one canary was entered several times, the coins are not independent"
        )
    notes += _group_notes(groups, coins, which)
    if size_in == size_out and size >= 1000:
        notes.append(
            "as many canaries were included as left out: treated as chance; always including "
            "exactly half is not a fair coin"
        )
    # in units of the middle half around the median, runs are comparable
    if np.abs(scores).max() > 1e300:  # differences may overflow
        scores = scores * 2.0**-60
    low, middle, high = np.quantile(scores, [0.25, 0.5, 0.75])
    unit = (high - low) or float(np.std(scores)) or float(np.ptp(scores)) or 1.0
    return Canaries(np.asarray((scores - middle) / unit), coins, 1, tuple(notes))


def _require_unique_ids(ids_in: Any, ids_out: Any, sizes: tuple[int, int], which: str) -> None:
    """Raise InvalidArgument unless both sides have one id per score, and each id occurs once."""
    if ids_in is None and ids_out is None:
        return
    if ids_in is None or ids_out is None:
        raise InvalidArgument(
            f"{_OWNER}: ids_in and ids_out{which} must be given both or not at all"
        )
    seen: set[Any] = set()
    for name, ids, size in (("ids_in", ids_in, sizes[0]), ("ids_out", ids_out, sizes[1])):
        listed = np.asarray(ids).tolist()
        if not isinstance(listed, list) or len(listed) != size:
            got = len(listed) if isinstance(listed, list) else 1
            raise InvalidArgument(
                f"{_OWNER}: {name}{which} must have as many entries as there are scores, "
                f"{size}, got {got}"
            )
        for each in listed:
            if isinstance(each, list | dict | set):
                raise InvalidArgument(
                    f"{_OWNER}: {name}{which} must be one name per canary, got {short_repr(each)}"
                )
            if each in seen:
                raise InvalidArgument(
                    f"{_OWNER}: {name}{which} must name each canary once, on one side, got "
                    f"{short_repr(each)} again"
                )
            seen.add(each)


def _group_notes(groups: Any, coins: np.ndarray, which: str) -> list[str]:
    """Return a note on canaries that share a group.

    Raises InvalidArgument if the canaries of each group were included or left out together.
    """
    if groups is None:
        return []
    labels = np.asarray(groups)
    if labels.shape != coins.shape:
        raise InvalidArgument(
            f"{_OWNER}: groups{which} must name one group per canary, scores_in first, "
            f"{coins.size}, got shape {labels.shape}"
        )
    _, group_of, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    several = sizes > 1
    if not several.any():
        return []
    inside = np.bincount(group_of, weights=coins)
    mixed_groups = np.count_nonzero((inside[several] > 0) & (inside[several] < sizes[several]))
    if mixed_groups == 0 and 2.0 ** -float((sizes[several] - 1).sum()) < _MIN_PROBABILITY:
        raise InvalidArgument(
            f"{_OWNER}: groups{which} must not share a coin: each of {int(several.sum())} "
            "groups is entirely included or entirely left out"
        )
    return [
        f"{int(sizes[several].sum())} canaries share {int(several.sum())} groups of up to "
        f"{int(sizes.max())}, such as a batch: the bound "
        "holds if each canary has an independent coin, but canaries that interfere with each "
        "other are harder to detect"
    ]


def _one_row(name: str, side: Any) -> FloatArray:
    """Return the scores of one side as a vector. Raise InvalidArgument for a table, a mask, or
    values that are not finite numbers.
    """
    raw = _as_array_or_none(side)
    if raw is not None and raw.dtype.kind == "b" and raw.size:
        raise InvalidArgument(
            f"{_OWNER}: {name} must hold scores, got an array of True and False, such as a "
            f"mask: {_CORRECT_CALL}"
        )
    if raw is not None and raw.dtype.kind == "f" and not np.isfinite(raw).all():
        index = int(np.flatnonzero(~np.isfinite(raw.ravel()))[0])
        raise InvalidArgument(
            f"{_OWNER}: {name} must be an array of finite numbers, got {raw.ravel()[index]} at "
            f"place {index}: find out why this canary has no score; do not drop canaries by their "
            "score"
        )
    found = require_numbers(name, side, _OWNER)
    if found.ndim > 1:
        flat = (
            ": pass its .ravel()"
            if found.size == max(found.shape)
            else ": for several runs pass a list with one array for each run"
        )
        raise InvalidArgument(
            f"{_OWNER}: {name} must be one row of at least one score, got shape {found.shape}{flat}"
        )
    return np.asarray(found)


def _as_array_or_none(side: Any) -> np.ndarray | None:
    """Return the scores as an array, or None if NumPy cannot convert them."""
    try:
        return np.asarray(side)
    except (
        Exception
    ):  # ragged, or an object that cannot be converted: `require_numbers` reports the error
        return None


def _require_scores(scores_in: Any, scores_out: Any, sides: list[FloatArray], which: str) -> None:
    """Raise InvalidArgument if a side holds a mask, indices, or the same scores as the
    other side.
    """
    for k, (name, given) in enumerate((("scores_in", scores_in), ("scores_out", scores_out))):
        own, other = sides[k], sides[1 - k]
        if _is_mask(own, other):
            raise InvalidArgument(
                f"{_OWNER}: {name}{which} must hold scores, got only 0 and 1, such as a "
                f"mask: {_CORRECT_CALL}"
            )
        if _is_index(_as_array_or_none(given), own, other):
            raise InvalidArgument(
                f"{_OWNER}: {name}{which} must hold scores, got rising whole numbers, such "
                f"as places of canaries: {_CORRECT_CALL}"
            )
    if sides[0].shape != sides[1].shape:
        return
    if _are_complements(*sides):
        raise InvalidArgument(
            f"{_OWNER}: scores_in and scores_out{which} must be of different canaries, got a "
            "mask and its complement, "
            f"or products of scores with them: {_CORRECT_CALL}"
        )
    rounded = [side.astype(np.float32).astype(float) for side in sides]
    if np.array_equal(rounded[0], rounded[1]) and _log_equal_orders(rounded[0]) < _LOG_COINCIDENCE:
        raise InvalidArgument(
            f"{_OWNER}: scores_in and scores_out{which} must be of different canaries, got "
            f"the same array twice: {_CORRECT_CALL}"
        )


def _require_distinct_canaries(sides: list[FloatArray], which: str) -> None:
    """Raise InvalidArgument if a canary is on both sides or occurs several times."""
    small, large = sorted(sides, key=lambda side: side.size)
    if (
        small.size >= _MIN_LEVELS
        # where nearly all scores occur once, a shared value means a shared canary
        and min(_share_of_singles(small), _share_of_singles(large)) >= 0.9
        and np.isin(small, large).all()
    ):
        name, other = (
            ("scores_in", "scores_out") if small is sides[0] else ("scores_out", "scores_in")
        )
        raise InvalidArgument(
            f"{_OWNER}: {name}{which} must hold other canaries than {other}, got "
            f"{small.size} scores that occur in both: {_CORRECT_CALL}"
        )
    counts = [np.unique(side, return_counts=True)[1] for side in sides]
    times = int(np.gcd.reduce(np.concatenate(counts)))
    if times > 1 and sum(len(each) for each in counts) >= _MIN_LEVELS:
        raise InvalidArgument(
            f"{_OWNER}: scores{which} must hold each canary once, every score occurs {times} "
            "times or a multiple: pass each run once; if these are several runs, pass lists with "
            "one array for each run"
        )


def _is_mask(own: FloatArray, other: FloatArray) -> bool:
    """Return whether a side holds exactly the values 0 and 1 while the other side's scores cannot
    come from the same score function.
    """
    if (
        len(own) < 10
        or not np.array_equal(np.unique(own), [0.0, 1.0])
        or np.isin(other, (0.0, 1.0)).all()
    ):
        return False
    if np.any(other != np.round(other)):
        return True
    near_half = abs(own.mean() - 0.5) < 2.5 / math.sqrt(len(own))
    # fewer scores of 0 and 1 may be chance if the other side holds whole numbers
    return bool(own.size == other.size >= 100 and near_half)


def _is_index(raw: np.ndarray | None, own: FloatArray, other: FloatArray) -> bool:
    """Return whether a side holds rising whole numbers, such as np.flatnonzero(included), instead
    of scores.

    The other side must hold a number that is not whole, or all other indices.
    """
    if (
        raw is None
        or raw.dtype.kind not in "iu"
        or own.size < 10
        or own[0] < 0
        or np.any(np.diff(own) <= 0)
    ):
        return False
    both = np.sort(np.concatenate([own, other]))
    complementary = np.all(np.diff(other) > 0) and np.array_equal(both, np.arange(both.size))
    return bool(complementary or np.any(other != np.round(other)))


def _are_complements(one: FloatArray, two: FloatArray) -> bool:
    """Return whether two arrays are complementary beyond chance.

    Exactly one of the arrays is zero at each place, or the sum of the arrays is constant.
    """
    is_zero = one == 0
    masked = is_zero.any() and not is_zero.all() and np.array_equal(is_zero, two != 0)
    with np.errstate(over="ignore", invalid="ignore"):
        constant_sum = np.ptp(one) > 0 and np.ptp(one + two) == 0
    return bool((masked or constant_sum) and _log_equal_orders(one) < _LOG_COINCIDENCE)


def _log_equal_orders(scores: FloatArray) -> float:
    """Return the log-probability that two independent random orders of these scores are equal."""
    counts = np.unique(scores, return_counts=True)[1]
    return sum(math.lgamma(n + 1) for n in counts[counts > 1]) - math.lgamma(scores.size + 1)


def _share_of_singles(scores: FloatArray) -> float:
    """Return the share of scores that occur exactly once."""
    counts = np.unique(scores, return_counts=True)[1]
    return float(np.count_nonzero(counts == 1)) / scores.size
