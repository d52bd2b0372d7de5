"""Calls of one trace as columns: distances of the inputs, declared sensitivities and budgets, and
privacy losses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dpwitness.auditors.traces.call_losses import NORM, Call, Losses, add, distance, together
from dpwitness.auditors.traces.evidence import Finding, TracedCall
from dpwitness.core.claims import GDP
from dpwitness.core.protocols.mechanism import FloatArray
from dpwitness.core.values.json_reader import Json
from dpwitness.mechanisms.wrappers.recording.primitives import LOCATION_LAWS

_ADDITIVE = ("laplace", "geometric", "gaussian", "discrete_gaussian")


@dataclass(frozen=True, eq=False)
class Calls:
    """Columns of the table of calls that `recording.session.Session.replay` returns."""

    table: Json
    # shifts of noise drawn without the data that give the same output
    moved: dict[int, FloatArray] = field(default_factory=dict)
    # scale used inside a primitive, at a line, if not as declared
    drawn_scale: dict[tuple[str, str], float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.table["primitive"])

    def name(self, i: int) -> str:
        return str(self.table["names"][self.table["primitive"][i]])

    def law(self, i: int) -> str:
        return str(self.table["laws"][self.table["primitive"][i]])

    def source(self, i: int) -> bool:
        return bool(self.table["sources"][self.table["primitive"][i]])

    def norm(self, i: int) -> str:
        reported = str(self.table["norms"][self.table["primitive"][i]])
        law = self.law(i)
        return (
            reported
            or NORM.get(law)
            or ("linf" if law in ("exponential_mechanism", "permute_and_flip") else "l1")
        )

    def where(self, i: int) -> str:
        file, line = self.table["file"][i], int(self.table["line"][i])
        return f"{file}:{line}" if file else ""

    def output(self, i: int) -> FloatArray | None:
        found = self.table["drawn"][i]
        return None if found is None else np.atleast_1d(np.asarray(found, dtype=float))

    def scale(self, i: int) -> Any:
        """Return the scale of the noise that is actually drawn."""
        return self.drawn_scale.get((self.name(i), self.where(i)), self.table["scale"][i])

    def free(self, i: int) -> bool:
        """Return whether the call draws noise without the data, which the code adds to something
        later.
        """
        alone = self.source(i) or math.isnan(self.table["linf"][i])
        return (
            self.law(i) in LOCATION_LAWS
            and alone
            and not self.table["linf"][i] > 0
            and not self.table["alone"][i]
        )

    def loose(self) -> bool:
        """Return whether the output may depend on data and noise together in ways that no input of
        a call shows.

        This is the case if noise is drawn without the data, or if no mechanism is called and other
        draws are made without the data.
        """
        kinds = [i for i in self.kinds() if self.law(i) != "spend"]
        alone = (
            bool(kinds)
            and all(self.source(i) for i in kinds)
            and any(math.isnan(self.table["linf"][i]) for i in kinds)
        )
        return alone or any(self.free(i) for i in range(len(self)))

    def kinds(self) -> list[int]:
        """Return the index of one call of each primitive."""
        return (
            np.unique(np.asarray(self.table["primitive"], dtype=int), return_index=True)[1].tolist()
            if len(self)
            else []
        )

    def subsampled(self, records: int | None) -> bool:
        """Return whether records are sampled. The computed loss is then the loss of one subsample,
        without amplification.
        """
        for i in range(len(self)):
            law = self.law(i)
            if law in ("permutation", "poisson_sample") or (
                law == "choice" and math.isnan(self.table["linf"][i])
            ):
                return True
            coins = law in ("uniform", "binomial") and self.source(i)
            if coins and records is not None and self.table["size"][i] == records > 1:
                return True
        return False

    def call(self, i: int) -> Call:
        """Return the numbers of one call, from the table and the shifts of the noise."""
        if i in self._known_calls:
            return self._known_calls[i]
        t, moved, norm = (self.table, self.moved.get(i), self.norm(i))
        if moved is not None:
            moves = np.abs(moved)
        else:
            reported, size = t["moves"][i], t["linf"][i]
            moves = (
                np.atleast_1d(np.asarray(reported, dtype=float))
                if reported is not None
                else np.array([] if math.isnan(size) else [size])
            )
        scale = t["size"][i] if self.law(i) == "binomial" else self.scale(i)
        declared = (t[key][i] for key in ("sensitivity", "epsilon", "delta"))
        sensitivity, epsilon, delta = (
            value if isinstance(value, float) else float(np.max(value)) for value in declared
        )
        description = float(moves[0]) if moves.size == 1 else distance(moves, norm)
        found = Call(
            moves,
            description,
            scale,
            sensitivity,
            epsilon,
            delta,
            inputs=t["inputs"][i],
            alone=int(t["alone"][i]),
        )
        self._known_calls[i] = found
        return found

    @cached_property
    def _known_calls(self) -> dict[int, Call]:
        return {}

    @cached_property
    def losses(self) -> tuple[Losses, list[float]]:
        """Losses of all calls together, and each call's loss at delta = 0."""
        losses, each = Losses(), [0.0] * len(self)
        moving = np.asarray(self.table["linf"]) > 0
        moving |= np.asarray(self.table["alone"]) > 0
        moving |= np.array([v is not None for v in self.table["inputs"]], dtype=bool)
        for i in range(len(self)):
            if moving[i] or i in self.moved:
                each[i] = add(losses, self.name(i), self.law(i), self.call(i))
        return losses, each

    def charged(self) -> float:
        """Return the sum of the epsilons that were charged to accountants; NaN if there
        were none.
        """
        reported = [self.table["epsilon"][i] for i in range(len(self)) if self.law(i) == "spend"]
        known = [epsilon for epsilon in reported if not math.isnan(epsilon)]
        return float(sum(known)) if known else math.nan

    def account_faults(self) -> Iterator[str]:
        """Yield descriptions of assumptions of an accountant that the calls break."""
        kinds = [self.law(i) for i in range(len(self))]
        spends = [i for i, kind in enumerate(kinds) if kind == "spend"]
        poisson = any(s == "poisson" for s in self.table["samplings"])
        if poisson and "permutation" in kinds and any(self.table["rate"][i] < 1 for i in spends):
            yield (
                "the accountant assumes that each step draws every record by its own coin; a "
                "permutation is drawn instead"
            )
        noisy = sum(self.table["noise"][i] > 0 for i in spends)
        drawn = sum(kind == "gaussian" and not self.source(i) for i, kind in enumerate(kinds))
        if noisy and 0 < drawn != noisy:
            yield f"the accountant received {noisy} noisy steps, but noise was drawn {drawn} times"

    def summary(self) -> tuple[TracedCall, ...]:
        """Return one row per primitive and line, in the order of the first calls."""
        groups: dict[tuple[str, str], list[int]] = {}
        for i in range(len(self)):
            groups.setdefault((self.name(i), self.where(i)), []).append(i)
        _, each = self.losses
        rows = []
        for (name, where), members in groups.items():
            first, calls = members[0], [self.call(i) for i in members]
            distances = [c.distance if c.moves.size else math.nan for c in calls]
            furthest = members[int(np.argmax(np.nan_to_num(np.array(distances))))]
            known = [d for d in distances if not math.isnan(d)]
            scales = [
                c.scale if isinstance(c.scale, float) else float(np.min(c.scale)) for c in calls
            ]
            rows.append(
                TracedCall(
                    name,
                    self.law(first),
                    where,
                    len(members),
                    self.norm(first),
                    max(known, default=math.nan),
                    together(known, self.norm(first)),
                    max(
                        (c.sensitivity for c in calls if not math.isnan(c.sensitivity)),
                        default=math.nan,
                    ),
                    min(scales) if self.law(first) in LOCATION_LAWS else math.nan,
                    float(sum(each[i] for i in members)),
                    str(self.table["text"][furthest]),
                    any(i in self.moved for i in members),
                )
            )
        return tuple(rows)

    def findings(self) -> Iterator[Finding]:
        """Yield findings of single calls: inputs that move too far, noise that is too small, and
        shared noise.
        """
        reported: set[tuple[str, str, str]] = set()
        declared = np.array([float(np.max(v)) for v in self.table["sensitivity"]], dtype=float)
        for i in sorted(  # largest change of input first
            np.flatnonzero(~np.isnan(declared)).tolist(),
            key=lambda i: -float(np.nan_to_num(self.table["linf"][i])),
        ):
            for finding in (
                self._sensitivity_finding(i),
                self._noise_finding(i),
                self._shared_noise_finding(i),
            ):
                if (
                    finding is not None
                    and (finding.kind, self.name(i), finding.where) not in reported
                ):
                    reported.add((finding.kind, self.name(i), finding.where))
                    yield finding

    def _shared_noise_finding(self, i: int) -> Finding | None:
        """Return a finding if a call makes fewer draws than it adds noise to: differences of such
        numbers have no noise.
        """
        inner = self.table["inner"][i]
        if inner is None or self.law(i) not in _ADDITIVE or inner[2] >= inner[3]:
            return None
        return Finding(
            "NOISE",
            f"{self.name(i)}: {int(inner[2])} draw for {int(inner[3])} numbers: they share "
            "their noise",
            self.where(i),
        )

    def _sensitivity_finding(self, i: int) -> Finding | None:
        """Return a finding if the input moves by more than the declared sensitivity."""
        call = self.call(i)
        moved = {"l1": call.moves.size, "l2": math.sqrt(call.moves.size)}.get(self.norm(i), 1.0)
        most = call.sensitivity * (1 + 1e-9) + moved * float(self.table["rounding"][i])
        if not call.moves.size or not call.distance > most:
            return None
        description = (
            f"input moves by {call.distance:.6g} ({self.norm(i)}), declared {call.sensitivity:.6g}"
        )
        return Finding("SENSITIVITY", f"{self.name(i)}: {description}", self.where(i))

    def _noise_finding(self, i: int) -> Finding | None:
        """Return a finding if the noise is smaller than declared or smaller than the declared
        sensitivity and budget need.
        """
        law, call = self.law(i), self.call(i)
        if law not in _ADDITIVE:
            return None
        declared_scale, scale = float(np.min(self.table["scale"][i])), float(np.min(call.scale))
        if scale < declared_scale * (1 - 1e-6):
            return Finding(
                "NOISE",
                f"{self.name(i)}: noise of scale {scale:.6g} is drawn, {declared_scale:.6g} "
                "is declared",
                self.where(i),
            )
        if math.isnan(call.epsilon) or math.isnan(scale) or not call.sensitivity > 0:
            return None
        if law in ("laplace", "geometric"):
            slack = -math.log1p(-call.delta) if 0 < call.delta < 1 else 0.0
            needed_scale = (
                call.sensitivity / (call.epsilon + slack) if call.epsilon + slack > 0 else math.inf
            )
            too_small = scale < needed_scale * (1 - 1e-6)
        elif call.delta > 0:
            needed_scale = math.nan
            too_small = scale <= 0 or float(
                GDP(call.sensitivity / scale).delta(call.epsilon)
            ) > call.delta * (1 + 1e-3)
        else:
            return None
        if not too_small:
            return None
        needs = f", which need {needed_scale:.6g}" if not math.isnan(needed_scale) else ""
        budget = f"epsilon {call.epsilon:.6g}" + (
            f" and delta {call.delta:.3g}" if call.delta > 0 else ""
        )
        return Finding(
            "NOISE",
            f"{self.name(i)}: scale {scale:.6g} for sensitivity {call.sensitivity:.6g}, "
            f"{budget}{needs}",
            self.where(i),
        )


def inner_scales(tables: list[Json]) -> dict[tuple[str, str], float]:
    """Return the scale that primitives use inside, where all recordings agree on the scale and the
    scale differs from the declared one.
    """
    seen: dict[tuple[str, str], list[tuple[float, float, bool]]] = {}
    for calls in map(Calls, tables):
        for i, inner in enumerate(calls.table["inner"]):
            if inner is not None and calls.law(i) in _ADDITIVE and not math.isnan(inner[1]):
                scale = calls.table["scale"][i]
                same = inner[0] == calls.law(i) and isinstance(scale, float)
                seen.setdefault((calls.name(i), calls.where(i)), []).append(
                    (float(inner[1]), scale if same else math.nan, same)
                )
    found = {}
    for key, values in seen.items():
        ratios = np.array(
            [
                drawn / declared_scale
                for drawn, declared_scale, same in values
                if same and declared_scale > 0
            ]
        )
        if (
            len(ratios) == len(values) >= 3
            and np.ptp(ratios) <= 1e-6 * ratios.max()
            and abs(ratios[0] - 1) > 1e-6
        ):
            found[key] = min(drawn for drawn, _, _ in values)
    return found


def record_count(dataset: Any) -> int | None:
    """Return the number of records of a dataset, or None if the dataset is not a sequence of
    records.
    """
    if (
        isinstance(dataset, Mapping)
        or not hasattr(dataset, "__len__")
        or isinstance(dataset, str | bytes)
    ):
        return None
    return len(dataset)
