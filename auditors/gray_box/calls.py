"""The calls of one trace, column by column: how far their inputs move, what they declare, what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpwitness.auditors.gray_box.losses import NORM, Call, Losses, add, distance, together
from dpwitness.auditors.results.trace_result import Finding, TracedCall
from dpwitness.mechanisms.recording.primitives import LOCATION
from dpwitness.mechanisms.terms.notions import GDP
from dpwitness.mechanisms.terms.protocol import FloatArray
from dpwitness.mechanisms.terms.reading import Json

_ROUNDING = 1e-9  # relative: what a sensitivity, or a scale, may be missed by
_SELECTS = ("permutation", "poisson_sample")
_ADDITIVE = ("laplace", "geometric", "gaussian", "discrete_gaussian")
Place = tuple[str, int]  # stream, index in it


@dataclass(slots=True)
class Calls:
    """The table that a replay returns, as columns.

    Parameters
    ----------
    table : dict
        Of `recording.session.Session.replay`.
    moved : dict
        For calls whose noise is drawn apart from the data: how far the noise has to move for the same output, entry by entry.
    drawn_scale : dict
        Scale with which a primitive, at a line, draws inside, where that is not what it says.
    """

    table: Json
    moved: dict[Place, FloatArray] = field(default_factory=dict)
    drawn_scale: dict[tuple[str, str], float] = field(default_factory=dict)
    _priced: tuple[Losses, list[float]] | None = field(default=None, init=False)
    _calls: dict[int, Call] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self.table["primitive"])

    def name(self, i: int) -> str:
        return str(self.table["names"][self.table["primitive"][i]])

    def law(self, i: int) -> str:
        return str(self.table["laws"][self.table["primitive"][i]])

    def source(self, i: int) -> bool:
        return bool(self.table["sources"][self.table["primitive"][i]])

    def norm(self, i: int) -> str:
        told = str(self.table["norms"][self.table["primitive"][i]])
        law = self.law(i)
        return told or NORM.get(law) or ("linf" if law in ("exponential_mechanism", "permute_and_flip") else "l1")

    def place(self, i: int) -> Place:
        return str(self.table["stream"][i]), int(self.table["index"][i])

    def where(self, i: int) -> str:
        file, line = self.table["file"][i], int(self.table["line"][i])
        return f"{file}:{line}" if file else ""

    def drawn(self, i: int) -> FloatArray | None:
        found = self.table["drawn"][i]
        return None if found is None else np.atleast_1d(np.asarray(found, dtype=float))

    def scale(self, i: int) -> Any:
        """The scale that the noise is drawn with."""
        return self.drawn_scale.get((self.name(i), self.where(i)), self.table["scale"][i])

    def free(self, i: int) -> bool:
        """Whether noise is drawn there that knows no data and is added to something later."""
        alone = self.source(i) or math.isnan(self.table["linf"][i])
        return self.law(i) in LOCATION and alone and not self.table["linf"][i] > 0 and not self.table["alone"][i]

    def loose(self) -> bool:
        """Whether the output may depend on data and noise together in ways that no input of a call shows.

        That is so where noise is drawn apart from the data; of other draws that know no data, where no mechanism is called.
        """
        kinds = [i for i in self.kinds() if self.law(i) != "spend"]
        alone = bool(kinds) and all(self.source(i) for i in kinds) and any(math.isnan(self.table["linf"][i]) for i in kinds)
        return alone or any(self.free(i) for i in range(len(self)))

    def kinds(self) -> list[int]:
        """One call of each primitive."""
        return np.unique(np.asarray(self.table["primitive"], dtype=int), return_index=True)[1].tolist() if len(self) else []

    def subsampled(self, records: int | None) -> bool:
        """Whether records are drawn: the loss of what follows is then that of one subsample, without amplification."""
        for i in range(len(self)):
            law = self.law(i)
            if law in _SELECTS or (law == "choice" and math.isnan(self.table["linf"][i])):
                return True
            if (
                law in ("uniform", "binomial")
                and self.source(i)
                and records is not None
                and records > 1
                and self.table["size"][i] == records
            ):
                return True
        return False

    def call(self, i: int) -> Call:
        """The numbers of one call."""
        found = self._calls.get(i)
        if found is None:
            found = self._calls[i] = self._call(i)
        return found

    def _call(self, i: int) -> Call:
        t, moved, norm = self.table, self.moved.get(self.place(i)) if self.moved else None, self.norm(i)
        if moved is not None:
            moves = np.abs(moved)
        else:
            told, size = t["moves"][i], t["linf"][i]
            moves = np.atleast_1d(np.asarray(told, dtype=float)) if told is not None else np.array([] if size != size else [size])
        scale = t["size"][i] if self.law(i) == "binomial" else self.scale(i)
        declared = (t[key][i] for key in ("sensitivity", "epsilon", "delta"))
        sensitivity, epsilon, delta = (value if isinstance(value, float) else float(np.max(value)) for value in declared)
        far = float(moves[0]) if moves.size == 1 else distance(moves, norm)
        return Call(moves, far, scale, sensitivity, epsilon, delta, inputs=t["inputs"][i], alone=int(t["alone"][i]))

    def losses(self) -> tuple[Losses, list[float]]:
        """The losses of all calls, and that of each at delta = 0."""
        if self._priced is not None:
            return self._priced
        losses, each = Losses(), [0.0] * len(self)
        moving = np.asarray(self.table["linf"]) > 0
        moving |= np.asarray(self.table["alone"]) > 0
        moving |= np.array([v is not None for v in self.table["inputs"]], dtype=bool)
        for i in range(len(self)):
            if moving[i] or self.place(i) in self.moved:
                each[i] = add(losses, self.name(i), self.law(i), self.call(i))
        self._priced = losses, each
        return losses, each

    def charged(self) -> float:
        """Sum of the epsilons that accountants were told; NaN if none was told any."""
        told = [self.table["epsilon"][i] for i in range(len(self)) if self.law(i) == "spend" and not math.isnan(self.table["epsilon"][i])]
        return float(sum(told)) if told else math.nan

    def summary(self) -> tuple[TracedCall, ...]:
        """Calls of one primitive from one line as one row, first to last."""
        groups: dict[tuple[str, str], list[int]] = {}
        for i in range(len(self)):
            groups.setdefault((self.name(i), self.where(i)), []).append(i)
        _, each = self.losses()
        rows = []
        for (name, where), members in groups.items():
            first, calls = members[0], [self.call(i) for i in members]
            distances = [c.distance if c.moves.size else math.nan for c in calls]
            known = [d for d in distances if not math.isnan(d)]
            scales = [c.scale if isinstance(c.scale, float) else float(np.min(c.scale)) for c in calls]
            rows.append(
                TracedCall(
                    name,
                    self.law(first),
                    where,
                    len(members),
                    self.norm(first),
                    max(known, default=math.nan),
                    together(known, self.norm(first)),
                    max((c.sensitivity for c in calls if not math.isnan(c.sensitivity)), default=math.nan),
                    min(scales) if self.law(first) in LOCATION else math.nan,
                    float(sum(each[i] for i in members)),
                    self._input(members, distances),
                    any(self.place(i) in self.moved for i in members),
                )
            )
        return tuple(rows)

    def _input(self, members: list[int], distances: list[float]) -> str:
        """What the call that moves furthest was given on D1 and on D0."""
        furthest = members[int(np.argmax(np.nan_to_num(np.array(distances))))]
        return str(self.table["told"][furthest])

    def findings(self) -> Iterator[Finding]:
        """What the calls show by themselves: inputs that move too far, noise that is too small."""
        told: set[tuple[str, str, str]] = set()
        for i in self._suspects():
            for finding in (self._too_far(i), self._too_small(i), self._shared(i)):
                if finding is not None and (finding.kind, self.name(i), finding.where) not in told:
                    told.add((finding.kind, self.name(i), finding.where))
                    yield finding

    def _shared(self, i: int) -> Finding | None:
        """Fewer draws than numbers that get noise: differences of the numbers have none."""
        inner = self.table["inner"][i]
        if inner is None or self.law(i) not in _ADDITIVE or inner[2] >= inner[3]:
            return None
        return Finding("NOISE", f"{self.name(i)}: {int(inner[2])} draw for {int(inner[3])} numbers: they share their noise", self.where(i))

    def _suspects(self) -> list[int]:
        declares = ~np.isnan(np.array([float(np.max(v)) for v in self.table["sensitivity"]], dtype=float))
        return sorted(np.flatnonzero(declares).tolist(), key=lambda i: -float(np.nan_to_num(self.table["linf"][i])))

    def _too_far(self, i: int) -> Finding | None:
        call = self.call(i)
        moved = {"l1": call.moves.size, "l2": math.sqrt(call.moves.size)}.get(self.norm(i), 1.0)
        if not call.moves.size or not call.distance > call.sensitivity * (1 + _ROUNDING) + moved * float(self.table["rounding"][i]):
            return None
        far = f"input moves by {call.distance:.6g} ({self.norm(i)}), declared {call.sensitivity:.6g}"
        return Finding("SENSITIVITY", f"{self.name(i)}: {far}", self.where(i))

    def _too_small(self, i: int) -> Finding | None:
        law, call = self.law(i), self.call(i)
        if law not in _ADDITIVE:
            return None
        said, scale = float(np.min(self.table["scale"][i])), float(np.min(call.scale))
        if scale < said * (1 - 1e-6):
            return Finding("NOISE", f"{self.name(i)}: noise of scale {scale:.6g} is drawn, {said:.6g} is declared", self.where(i))
        if math.isnan(call.epsilon) or math.isnan(scale) or not call.sensitivity > 0:
            return None
        if law in ("laplace", "geometric"):
            slack = -math.log1p(-call.delta) if 0 < call.delta < 1 else 0.0
            need = call.sensitivity / (call.epsilon + slack) if call.epsilon + slack > 0 else math.inf
            short = scale < need * (1 - 1e-6)
        elif call.delta > 0:
            need = math.nan
            short = scale <= 0 or float(GDP(call.sensitivity / scale).delta(call.epsilon)) > call.delta * (1 + 1e-3)
        else:
            return None
        if not short:
            return None
        needs = f", which need {need:.6g}" if not math.isnan(need) else ""
        budget = f"epsilon {call.epsilon:.6g}" + (f" and delta {call.delta:.3g}" if call.delta > 0 else "")
        return Finding("NOISE", f"{self.name(i)}: scale {scale:.6g} for sensitivity {call.sensitivity:.6g}, {budget}{needs}", self.where(i))


def inner_scales(tables: list[Json]) -> dict[tuple[str, str], float]:
    """Scale of the noise that primitives draw inside, where it is the same in every recording and not what they declare."""
    seen: dict[tuple[str, str], list[tuple[float, float, bool]]] = {}
    for calls in map(Calls, tables):
        for i, inner in enumerate(calls.table["inner"]):
            if inner is not None and calls.law(i) in _ADDITIVE and not math.isnan(inner[1]):
                scale = calls.table["scale"][i]
                same = inner[0] == calls.law(i) and isinstance(scale, float)
                seen.setdefault((calls.name(i), calls.where(i)), []).append((float(inner[1]), scale if same else math.nan, same))
    found = {}
    for key, values in seen.items():
        ratios = np.array([drawn / said for drawn, said, same in values if same and said > 0])
        if len(ratios) == len(values) >= 3 and np.ptp(ratios) <= 1e-6 * ratios.max() and abs(ratios[0] - 1) > 1e-6:
            found[key] = min(drawn for drawn, _, _ in values)
    return found


def records_in(dataset: Any) -> int | None:
    """Number of records, where a dataset is a sequence of them."""
    if isinstance(dataset, Mapping) or not hasattr(dataset, "__len__") or isinstance(dataset, str | bytes):
        return None
    return len(dataset)
