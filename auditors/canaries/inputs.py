"""Scores of canaries: readers of files (two arrays, or a table with one row per canary), and
validation of scores and coins. Masks, indices and coins in place of scores are refused.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy.stats import binomtest

from dpwitness.auditors.canaries.dependent_runs import require_independent
from dpwitness.core.protocols import FloatArray
from dpwitness.core.values.json_reader import printable, read_bytes
from dpwitness.core.values.validation import (
    InvalidArgument,
    import_problem,
    number_from_text,
    require_numbers,
    require_that,
    short_repr,
)

_SIDES = ("scores_in", "scores_out")
_OPTIONAL = ("ids_in", "ids_out", "groups")
_TRUE, _FALSE = ("1", "1.0", "true", "in", "yes"), ("0", "0.0", "false", "out", "no")
_FILE = "canaries"


def read_score_file(path: str | Path) -> dict[str, Any]:
    """Return arguments for `audit_canaries` from a .npz, .csv or .parquet file, or for "-" from
    standard input: scores, and ids and groups if present.

    Raises InvalidArgument if the file cannot be read or lacks columns.
    """
    name = printable(Path(path).name)
    readers = {".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
    suffix = _suffix(path)
    require_that(suffix in readers, f"file must end in {', '.join(readers)}, got {name!r}", _FILE)
    require_that(path == "-" or Path(path).is_file(), f"file must exist, got {str(path)!r}", _FILE)
    try:
        with io.BytesIO(read_bytes(path)) if path == "-" else open(path, "rb") as file:
            columns = readers[suffix](file)
    except InvalidArgument:
        raise
    except Exception as error:  # a damaged file can raise anything
        raise InvalidArgument(
            f"canaries: {name} must be readable: {type(error).__name__}: {str(error)[:200]}"
        ) from None
    given = ", ".join(columns) or "nothing"
    if all(side in columns for side in _SIDES):
        require_that(
            not {"score", "included", "id", "group", "run"} & set(columns),
            f"{name} must have {', '.join(_OPTIONAL)} as well as scores_in and scores_out, "
            f"or none of these, got {given}",
            _FILE,
        )
        return {name: columns[name] for name in (*_SIDES, *_OPTIONAL) if name in columns}
    require_that(
        {"score", "included"} <= set(columns),
        f"{name} must have scores_in and scores_out, or score and included, got {given}",
        _FILE,
    )
    return _split_by_side(columns, name)


def _suffix(path: str | Path) -> str:
    """Return the suffix of a file; for standard input, that of the format of its first bytes."""
    if path != "-":
        return Path(path).suffix.lower()
    return {b"PK": ".npz", b"PA": ".parquet"}.get(read_bytes(path)[:2], ".csv")


def _read_npz(file: BinaryIO) -> dict[str, Any]:
    """Return the arrays of an .npz file."""
    with np.load(file, allow_pickle=False) as contents:
        return dict(contents)


def _read_csv(file: BinaryIO) -> dict[str, Any]:
    """Return the columns of a .csv file. Raise InvalidArgument if a column occurs twice."""
    lines = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
    names, *rows = [*filter(None, lines)] or [[]]
    require_that(
        len(set(names)) == len(names),
        f"each column must occur once, got {', '.join(names)}: rename one",
        _FILE,
    )
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def _read_parquet(file: BinaryIO) -> dict[str, Any]:
    """Return the columns of a .parquet file. Raise InvalidArgument if pyarrow is not installed."""
    try:
        from pyarrow.parquet import read_table
    except ImportError as error:
        reason = import_problem("pyarrow", error, "pip install 'dpwitness[frames]'")
        raise InvalidArgument(f"canaries: .parquet files need pyarrow: {reason}") from None
    columns: dict[str, Any] = read_table(file).to_pydict()
    return columns


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
    wrong = [text for text in texts if text not in (*_TRUE, *_FALSE)]
    exchanged = wrong and set(np.unique(scores).tolist()) == {0.0, 1.0}
    require_that(
        not exchanged,
        f"included in {name} must be 0 or 1, and score holds only these: exchange the two columns",
        _FILE,
    )
    require_that(
        not wrong,
        f"included in {name} must be 0 or 1, true or false, got {short_repr(wrong[:1])}",
        _FILE,
    )
    arrays = {key: np.asarray(columns[key]) for key in ("run", "id", "group") if key in columns}
    require_that(
        {len(texts), *map(len, arrays.values())} == {scores.size},
        f"columns of {name} must have one length, {scores.size}",
        _FILE,
    )
    included = np.array([text in _TRUE for text in texts], dtype=bool)
    labels = arrays.get("run", np.zeros(scores.size))
    parts = [labels == run for run in np.unique(labels)]

    def split(values: np.ndarray, *wanted: np.ndarray) -> Any:
        """Return the values where a mask holds, of one mask after the other, for each run."""
        contents = [np.concatenate([values[part & mask] for mask in wanted]) for part in parts]
        return contents[0] if len(parts) == 1 else contents

    arguments = {"scores_in": split(scores, included), "scores_out": split(scores, ~included)}
    if "id" in arrays:
        arguments |= {
            "ids_in": split(arrays["id"], included),
            "ids_out": split(arrays["id"], ~included),
        }
    if "group" in arrays:
        arguments["groups"] = split(arrays["group"], included, ~included)
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
    require_that(
        scores.min() < scores.max(), "scores must differ, those of each run are all equal", _OWNER
    )
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
    require_that(
        many == _is_list_of_runs(scores_out),
        "scores_in and scores_out must both be of one run, or both lists of runs",
        _OWNER,
    )

    def by_run(given: Any) -> list[Any]:
        return list(given) if many else [given]

    ins, outs = by_run(scores_in), by_run(scores_out)
    others = [
        [None] * len(ins) if each is None else by_run(each) for each in (ids_in, ids_out, groups)
    ]
    counts = [len(each) for each in (outs, *others)]
    require_that(
        set(counts) == {len(ins)},
        f"scores_out, ids_in, ids_out and groups must have as many runs as scores_in, {len(ins)}, "
        f"got {counts}",
        _OWNER,
    )
    return many, list(zip(ins, outs, *others, strict=True))


def _is_list_of_runs(scores: Any) -> bool:
    """Return whether the scores are a list of runs; zero-dimensional arrays and tensors are single
    scores.
    """
    runs = isinstance(scores, list | tuple) and bool(scores)
    return runs and all(
        isinstance(run, list | tuple | range) or getattr(run, "ndim", 0) > 0 for run in scores
    )


def _require_other_than_coins(runs: list[tuple[Any, ...]]) -> None:
    """Raise InvalidArgument if the scores of all runs only repeat the coins."""
    included, others = (
        np.unique(np.concatenate([np.asarray(run[k], dtype=float) for run in runs])) for k in (0, 1)
    )
    values = {*included.tolist(), *others.tolist()}
    if len(included) == len(others) == 1 and values in ({0.0, 1.0}, {-1.0, 1.0}):
        raise InvalidArgument(
            f"{_OWNER}: scores must not be the coins, got {included[0]:g} for each included canary "
            f"and {others[0]:g} for each other one: score what the training released, for example "
            "with prediction_scores; if these are scores, multiply them by 2"
        )


def _read_run(
    which: str, runs: int, scores_in: Any, scores_out: Any, ids_in: Any, ids_out: Any, groups: Any
) -> Canaries:
    """Return the checked canaries of one run of `runs`. `which` names the run in messages."""
    sides = [
        _one_row(name + which, side)
        for name, side in (("scores_in", scores_in), ("scores_out", scores_out))
    ]
    size_in, size_out = (side.size for side in sides)
    scores, size = np.concatenate(sides), size_in + size_out
    for name, side in zip(_SIDES, sides, strict=True):
        require_that(
            side.size or which,  # in many small runs, one side may be empty by chance
            f"{name} must be one row of at least one score, got shape {side.shape}",
            _OWNER,
        )
    hint = "; the lists look transposed: pass one list for each run, not one for each canary"
    require_that(
        size >= LEAST,
        f"scores_in and scores_out{which} must hold at least {LEAST} canaries together, got "
        f"{size}{hint if runs > LEAST else ''}",
        _OWNER,
    )
    _require_scores(scores_in, scores_out, sides, which)
    require_that(
        binomtest(size_in, size, 0.5).pvalue >= _MIN_PROBABILITY,
        f"scores_in{which} must be near half of the canaries, each included by a fair coin, got "
        f"{size_in} of {size}. Pass scores[included] and scores[~included], and draw one coin for "
        "each canary",
        _OWNER,
    )
    # a small run among others may be constant by chance
    require_that(
        which or scores.min() < scores.max(),
        f"scores must differ, all {size} are {scores[0]:g}",
        _OWNER,
    )
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
    """Raise InvalidArgument unless included and left-out canaries have one id per score, and each
    id occurs once.
    """
    require_that(
        (ids_in is None) == (ids_out is None),
        f"ids_in and ids_out{which} must be given both or not at all",
        _OWNER,
    )
    if ids_in is None:
        return
    seen: set[Any] = set()
    for name, ids, size in (("ids_in", ids_in, sizes[0]), ("ids_out", ids_out, sizes[1])):
        listed = np.atleast_1d(np.asarray(ids)).tolist()
        require_that(
            len(listed) == size,
            f"{name}{which} must have as many entries as there are scores, {size}, got "
            f"{len(listed)}",
            _OWNER,
        )
        for each in listed:
            require_that(
                isinstance(each, Hashable) and each not in seen,
                f"{name}{which} must name each canary once, as included or as left out, got "
                f"{short_repr(each)} again",
                _OWNER,
            )
            seen.add(each)


def _group_notes(groups: Any, coins: np.ndarray, which: str) -> list[str]:
    """Return a note on canaries that share a group.

    Raises InvalidArgument if the canaries of each group were included or left out together.
    """
    if groups is None:
        return []
    labels = np.asarray(groups)
    require_that(
        labels.shape == coins.shape,
        f"groups{which} must name one group per canary, scores_in first, {coins.size}, got shape "
        f"{labels.shape}",
        _OWNER,
    )
    _, group_of, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    several = sizes > 1
    if not several.any():
        return []
    inside = np.bincount(group_of, weights=coins)
    mixed_groups = np.count_nonzero((inside[several] > 0) & (inside[several] < sizes[several]))
    require_that(
        mixed_groups or 2.0 ** -float((sizes[several] - 1).sum()) >= _MIN_PROBABILITY,
        f"groups{which} must not share a coin: each of {int(several.sum())} groups is entirely "
        "included or entirely left out",
        _OWNER,
    )
    return [
        f"{int(sizes[several].sum())} canaries share {int(several.sum())} groups of up to "
        f"{int(sizes.max())}, such as a batch: the bound "
        "holds if each canary has an independent coin, but canaries that interfere with each "
        "other are harder to detect"
    ]


def _one_row(name: str, side: Any) -> FloatArray:
    """Return the included or the left-out scores as a vector. Raise InvalidArgument for a table, a
    mask, or values that are not finite numbers.
    """
    raw = _as_array(side)
    require_that(
        raw.dtype.kind != "b" or not raw.size,
        f"{name} must hold scores, got an array of True and False, such as a mask: {_CORRECT_CALL}",
        _OWNER,
    )
    if raw.dtype.kind == "f" and not np.isfinite(raw).all():
        index = int(np.flatnonzero(~np.isfinite(raw.ravel()))[0])
        raise InvalidArgument(
            f"{_OWNER}: {name} must be an array of finite numbers, got {raw.ravel()[index]} at "
            f"place {index}: find out why this canary has no score; do not drop canaries by their "
            "score"
        )
    found = require_numbers(name, side, _OWNER)
    flat = (
        ": pass its .ravel()"
        if found.size == max(found.shape)
        else ": for several runs pass a list with one array for each run"
    )
    require_that(
        found.ndim == 1,
        f"{name} must be one row of at least one score, got shape {found.shape}{flat}",
        _OWNER,
    )
    return np.asarray(found)


def _as_array(side: Any) -> np.ndarray:
    """Return the scores as an array; an empty array of objects if NumPy cannot convert them."""
    try:
        return np.asarray(side)
    except Exception:  # ragged, or any error of a class: `require_numbers` reports it
        return np.empty(0, dtype=object)


def _require_scores(scores_in: Any, scores_out: Any, sides: list[FloatArray], which: str) -> None:
    """Raise InvalidArgument if the included or the left-out scores are a mask, indices, or equal to
    the other scores.
    """
    for name, given, own, other in (
        ("scores_in", scores_in, *sides),
        ("scores_out", scores_out, *sides[::-1]),
    ):
        require_that(
            not _is_mask(own, other),
            f"{name}{which} must hold scores, got only 0 and 1, such as a mask: {_CORRECT_CALL}",
            _OWNER,
        )
        require_that(
            not _is_index(_as_array(given), own, other),
            f"{name}{which} must hold scores, got rising whole numbers, such as places of "
            f"canaries: {_CORRECT_CALL}",
            _OWNER,
        )
    if sides[0].shape != sides[1].shape:
        return
    both = f"scores_in and scores_out{which} must be of different canaries, got"
    require_that(
        not _are_complements(*sides),
        f"{both} a mask and its complement, or products of scores with them: {_CORRECT_CALL}",
        _OWNER,
    )
    one, other = (side.astype(np.float32).astype(float) for side in sides)
    equal = np.array_equal(one, other) and _log_equal_orders(one) < _LOG_COINCIDENCE
    require_that(not equal, f"{both} the same array twice: {_CORRECT_CALL}", _OWNER)


def _require_distinct_canaries(sides: list[FloatArray], which: str) -> None:
    """Raise InvalidArgument if a canary is both included and left out, or occurs several times."""
    counts = [np.unique(side, return_counts=True)[1] for side in sides]
    small, large = sorted(sides, key=len)
    require_that(
        small.size < _MIN_LEVELS
        # where nearly all scores occur once, a shared value means a shared canary
        or any(
            np.count_nonzero(each == 1) / side.size < 0.9
            for each, side in zip(counts, sides, strict=True)
        )
        or not np.isin(small, large).all(),
        f"scores_in and scores_out{which} must be of different canaries, got {small.size} scores "
        f"that occur in both: {_CORRECT_CALL}",
        _OWNER,
    )
    times = int(np.gcd.reduce(np.concatenate(counts)))
    require_that(
        times == 1 or sum(map(len, counts)) < _MIN_LEVELS,
        f"scores{which} must hold each canary once, every score occurs {times} times or a "
        "multiple: pass each run once; if these are several runs, pass lists with one array for "
        "each run",
        _OWNER,
    )


def _is_mask(own: FloatArray, other: FloatArray) -> bool:
    """Return whether a side holds exactly the values 0 and 1 while the other side's scores cannot
    come from the same score function.
    """
    if len(own) < 10 or not np.array_equal(np.unique(own), [0.0, 1.0]):
        return False
    near_half = abs(own.mean() - 0.5) < 2.5 / math.sqrt(len(own))
    # fewer scores of 0 and 1 may be chance if the other side holds whole numbers
    whole = np.array_equal(other, np.round(other))
    chance = whole and not (own.size == other.size >= 100 and near_half)
    return not (chance or np.isin(other, (0.0, 1.0)).all())


def _is_index(raw: np.ndarray, own: FloatArray, other: FloatArray) -> bool:
    """Return whether a side holds rising whole numbers, such as np.flatnonzero(included), instead
    of scores.

    The other side must hold a number that is not whole, or all other indices.
    """
    rising = own.size >= 10 and own[0] >= 0 and np.all(np.diff(own) > 0)
    if raw.dtype.kind not in "iu" or not rising:
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
