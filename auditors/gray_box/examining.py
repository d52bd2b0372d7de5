"""One pair under the trace: recordings, replays, and what of their differences is a finding.

Where all noise comes from primitives that see the data, both runs share what they return, and every difference is one of the code. Where
noise is drawn apart and added later, control flow and output may depend on data and noise together: then a difference is a finding only if
it is there whatever the noise is, often enough that the claim rules it out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpwitness.auditors.black_box.environment import check_told
from dpwitness.auditors.gray_box.alignment import Alignment, align
from dpwitness.auditors.gray_box.calls import Calls, inner_scales, records_in
from dpwitness.auditors.gray_box.noise_laws import NoiseLaw, noise_law
from dpwitness.auditors.gray_box.seen import WHATEVER, Seen
from dpwitness.auditors.gray_box.sessions import Tracing
from dpwitness.auditors.gray_box.sides import always, close, sides, unlike
from dpwitness.auditors.results.trace_result import Finding
from dpwitness.mechanisms.terms.notions import Claim
from dpwitness.mechanisms.terms.pairs import Pair
from dpwitness.mechanisms.terms.reading import Json

_REPEATS = 12  # recordings that must agree before a shift is no chance
_RECORDINGS = 3
_LONG = 20_000  # calls of a run that is recorded once only
_LEVEL = 1e-4  # probability under the claim of what is taken for no chance
_MOST = 21  # recordings a side that may be made to rule out chance
_DIVERGES = 1.5  # how bad a pair looks on which runs diverge, in units of the claim
_KINDS = {
    "more calls": "CALLS",
    "fewer calls": "CALLS",
    "other call": "CALLS",
    "scale": "SCALE",
    "shape": "SHAPE",
    "parameter": "PARAMETER",
}
_SYSTEM = ("os.urandom", "secrets.randbits", "random.SystemRandom.random", "random.SystemRandom.getrandbits")


@dataclass(slots=True)
class Examiner:
    """Runs recordings and replays of one session; counts its runs.

    Parameters
    ----------
    session : Tracing
    claim : Claim
    seed : int
    seeded : bool
        Whether the seed is meant to decide everything.
    asked : tuple of str
        Names of the primitives that the user gave.
    """

    session: Tracing
    claim: Claim
    seed: int
    seeded: bool
    asked: tuple[str, ...] = ()
    promise: Claim | None = None  # of which the claim is what it is on the pair that is looked at
    runs: int = 0
    cpu: float = 0.0

    def record(self, dataset: Any) -> Json:
        self.runs += 1
        found = self.session.record(dataset, self._seed())
        self.cpu += found["seconds"]
        return found

    def replay(self, key: int, dataset: Any, *, left_out: Any = None, brief: bool = False) -> Json:
        self.runs += 1
        found = self.session.replay(key, dataset, self._seed(), None, left_out, brief)
        self.cpu += found["seconds"]
        return found

    def _seed(self) -> int:
        return (self.seed << 20) + self.runs

    def _hold_to(self, pair: Pair) -> None:
        """From here on the claim is what is promised on this pair."""
        self.promise = self.promise or self.claim
        self.claim = self.promise.on(pair)

    def glance(self, pair: Pair) -> float:
        """How bad a pair looks after one recording and one replay: what a search over pairs climbs by."""
        self._hold_to(pair)
        first, second, left_out = sides(pair)
        recorded = self.record(first)
        replayed = self.replay(recorded["key"], second, left_out=left_out)
        calls = Calls(replayed["table"])
        loose = calls.loose()
        seen = Seen(pair, calls)
        if loose and replayed["output"]:
            self._align(seen, recorded, replayed, second, left_out)
        self._price(seen, first)
        seen.findings += list(calls.findings())
        reached = seen.loss / self.claim.parameter
        worst = 0.0 if math.isnan(reached) else min(reached, 1e6)
        if not loose and (replayed["differences"] or replayed["output"]):
            worst = max(worst, _DIVERGES)
        elif (replayed["output"] or replayed["differences"]) and not seen.calls.moved:  # nothing to go by but how far the outputs are apart
            a, b = (np.asarray(side["numbers"], dtype=float) for side in (recorded, replayed))
            worst = max(worst, 0.9 * bool(replayed["differences"]))
            worst += float(np.tanh(np.nan_to_num(np.abs(a - b)).max(initial=0.0))) * 1e-3 if a.shape == b.shape else 1e-3
        return worst + 0.1 * len(seen.findings)

    def examine(self, pair: Pair) -> Seen:
        """All that recordings of one pair show."""
        self._hold_to(pair)
        first, second, left_out = sides(pair)
        recordings = [self.record(first)]
        again = self.replay(recordings[0]["key"], first)
        unseen = unlike(again) or not recordings[0]["calls"]  # two runs of whole numbers may be alike by luck
        if unseen and self.session.uncompile():
            recordings = [self.record(first)]
            again = self.replay(recordings[0]["key"], first)
        faithful = not unlike(again)
        many = recordings[0]["calls"] > _LONG
        recordings += [self.record(first) for _ in range(0 if many else _RECORDINGS - 1)]
        replays = [self.replay(recorded["key"], second, left_out=left_out) for recorded in recordings]
        drawn = inner_scales([replayed["table"] for replayed in replays])
        seen = Seen(pair, Calls(replays[0]["table"], drawn_scale=drawn))
        self._sources(seen, recordings, replays, again, faithful, first)
        raised = {run["raised"] for run in (*recordings, *replays)}
        if "" not in raised:
            seen.notes.append(f"every run raises: {next(iter(raised))}")
        if not faithful:
            return seen
        if seen.calls.loose():
            self._loose(seen, recordings, replays, first, second, left_out)
        else:
            self._strict(seen, replays)
        worst = seen
        for replayed in replays[1:]:
            other = Seen(pair, Calls(replayed["table"], seen.calls.moved, drawn))
            self._price(other, first)
            if not seen.calls.moved and other.priced and np.nan_to_num(other.loss) > np.nan_to_num(worst.loss):
                worst = other
        self._price(seen, first)
        if worst is not seen and np.nan_to_num(worst.loss) > np.nan_to_num(seen.loss):
            seen.calls, seen.loss = worst.calls, worst.loss
        for finding in seen.calls.findings():
            seen.add(finding.kind, finding.told, finding.where)
        self._judge(seen)
        self._weigh(seen, recordings, first, second, left_out)
        return seen

    def _sources(self, seen: Seen, recordings: list[Json], replays: list[Json], again: Json, faithful: bool, dataset: Any) -> None:
        """Randomness that the record does not hold, or the seed does not decide."""
        names = set(seen.calls.table["names"])
        if not faithful:
            told = unlike(again)
            past = self.session.past(recordings[0]["key"], dataset, self._seed())
            by = f"; drawn past the primitives: {', '.join(past)}" if past else "; it is none of the generators that are known"
            missed = [name for name in self.asked if not any(n.endswith(name) for n in names)]
            cached = f"; never called: {', '.join(missed)}, which may be kept under another name" if missed else ""
            seen.add("SOURCE", f"two runs on one dataset with the same record differ: {told}{by}{cached}")
        elif self.asked and not any(n.endswith(name) for name in self.asked for n in names):
            told = f"no call was recorded of {', '.join(self.asked)}: kept under another name, or not used"
            if names:
                seen.notes.append(f"{told}; called were {', '.join(sorted(names))}")
            elif not any(run["calls"] for run in (*recordings, *replays)):
                seen.add("SOURCE", told)
        if not self.seeded:
            return
        for where in recordings[0]["unseeded"]:
            seen.add("SOURCE", f"{where} is made without a seed")
        for i in range(len(seen.calls)):
            if seen.calls.name(i) in _SYSTEM:
                seen.add("SOURCE", f"{seen.calls.name(i)}: the seed does not decide what it gives", seen.calls.where(i))
        keys = [recorded["key"] for recorded in recordings]
        for told in self.session.constant(keys[0], keys[1:]) if len(keys) > 1 else ():
            seen.add("SOURCE", f"{told} gives the same numbers under every seed")

    def _strict(self, seen: Seen, replays: list[Json]) -> None:
        """Both runs shared all noise: what differs is the code's."""
        for replayed in replays:
            seen.priced &= not replayed["lost"]
            for each in replayed["differences"]:
                seen.add(_KINDS[each["kind"]], each["told"], each["where"])
            raises = replayed["output"].startswith("raises")
            if raises:
                check_told("one dataset", replayed["output"].partition("only: ")[2])
            if replayed["output"] and (raises or not replayed["lost"]):  # after the first call that differs, noise is shared no more
                told = "it " + replayed["output"] if raises else f"with the same noise {replayed['output']}"
                seen.add("EXCEPTION" if raises else "OUTPUT", told)

    def _align(self, seen: Seen, recorded: Json, replayed: Json, dataset: Any, left_out: Any) -> bool:
        def shifted(shifts: list[Any]) -> Json:
            self.runs += 1
            return self.session.replay(recorded["key"], dataset, self._seed(), shifts, left_out, True)

        found = align(shifted, recorded, replayed, seen.calls)
        if isinstance(found, str):
            seen.add("OUTPUT", found)
        if not isinstance(found, Alignment):
            return False
        seen.calls = replace(seen.calls, moved=found.moved)
        others = self._influences(recorded, replayed, seen.calls, dataset, left_out)  # noise that may hide some of it
        least = found.only or found.normal or (self.claim.is_pure and not found.some)  # of all ways the one that costs least
        seen.priced = least and not others
        return True

    def _influences(self, recorded: Json, replayed: Json, calls: Calls, dataset: Any, left_out: Any) -> bool:
        """Whether draws that are no noise of a known law have a part in the output; a seed for another generator has none."""
        others = [i for i in range(len(calls)) if calls.source(i) and not calls.free(i)]
        if not others:
            return False
        self.runs += 1
        shifts = [(*calls.place(i), np.ones(int(calls.table["size"][i]))) for i in others]
        found = self.session.replay(recorded["key"], dataset, self._seed(), shifts, left_out, True)
        return bool(found["differences"] or found["raised"] or not np.array_equal(found["numbers"], replayed["numbers"], equal_nan=True))

    def _holds(self, seen: Seen, recordings: list[Json], replays: list[Json], first: Any, second: Any, left_out: Any) -> bool:
        """Whether other recordings are aligned by as much, where they can be, and noise counts as much on both sides.

        The first recording is the one that `seen` is aligned by.
        """
        for recorded, replayed in list(zip(recordings, replays, strict=True))[1:2]:
            if self._moves_alike(seen, recorded, replayed, second, left_out):
                return True
        aligned = seen.calls
        seen.calls = replace(aligned, moved={})
        if self._compare_laws(seen, recordings, first, second):
            return True
        if seen.laws in ("mixed", "unknown") and self._same_slopes(aligned, recordings[0], first, second, left_out):
            seen.calls = aligned
            return True
        return False

    def _moves_alike(self, seen: Seen, recorded: Json, replayed: Json, second: Any, left_out: Any) -> bool:
        """Whether another recording is aligned by shifts of the same sizes as `seen`."""
        other = Seen(seen.pair, Calls(replayed["table"]))
        if replayed["differences"] or not self._align(other, recorded, replayed, second, left_out):
            return False
        sizes = [np.sort(np.abs(np.concatenate([*side.calls.moved.values(), [0.0]]))) for side in (seen, other)]
        return sizes[0].shape == sizes[1].shape and close(*sizes)

    def _repeats(self, seen: Seen, first: Any, second: Any, left_out: Any) -> bool:
        """Whether new recordings are all aligned as `seen` is, or all outputs differ by one constant: two of them may do so by chance."""
        recordings = [self.record(first) for _ in range(_REPEATS)]
        replays = [self.replay(recorded["key"], second, left_out=left_out) for recorded in recordings]
        gaps = [np.asarray(a["numbers"], float) - np.asarray(b["numbers"], float) for a, b in zip(recordings, replays, strict=True)]
        if all(gap.shape == gaps[0].shape and close(gap, gaps[0]) for gap in gaps):
            return True
        return all(self._moves_alike(seen, a, b, second, left_out) for a, b in zip(recordings, replays, strict=True))

    def _same_slopes(self, calls: Calls, recorded: Json, first: Any, second: Any, left_out: Any) -> bool:
        """Whether each number of the output moves as much on both sides when all draws move together."""
        slopes = []
        for dataset, leave in ((first, None), (second, left_out)):
            found = []
            for step in (0.0, 1.0, 3.0):
                by = [(*calls.place(i), np.full(int(calls.table["size"][i]), step)) for i in range(len(calls)) if calls.free(i) and step]
                self.runs += 1
                found.append(np.asarray(self.session.replay(recorded["key"], dataset, self._seed(), by, leave, True)["numbers"]))
            if len({f.shape for f in found}) > 1 or not close((found[1] - found[0]) * 3, found[2] - found[0]):
                return False
            slopes.append(found[1] - found[0])
        return slopes[0].shape == slopes[1].shape and close(*slopes)

    def _law(self, recordings: list[Json], dataset: Any) -> NoiseLaw | str:
        """The law of the noise on one dataset, as `noise_law`; two recordings must agree."""

        def own(recorded: Json) -> Callable[[list[Any] | None], Json]:
            def replayed(shifts: list[Any] | None) -> Json:
                self.runs += 1
                return self.session.replay(recorded["key"], dataset, self._seed(), shifts, None, shifts is not None)

            return replayed

        found, again = (noise_law(own(recorded), recorded) for recorded in recordings[:2])
        if isinstance(found, str) or isinstance(again, str):
            return "mixed" if "mixed" in (found, again) else "unknown"
        return found if found.repeats(again) else "mixed"

    def _compare_laws(self, seen: Seen, recordings: list[Json], first: Any, second: Any) -> bool:
        """Compare the laws of the noise on both datasets, where they are known.

        Of one law, the differences of coupled runs are not findings: `seen` has the price of the shift that remains. Of two laws, they are
        findings. Where the laws are not known, they are suspicions, which an audit may confirm. Returns whether the law is the same.
        """
        while len(recordings) < 2:
            recordings.append(self.record(first))
        law, other = self._law(recordings, first), self._law([self.record(second), self.record(second)], second)
        if isinstance(law, str) or isinstance(other, str):
            seen.laws = "mixed" if "mixed" in (law, other) else "unknown"
            return False
        seen.calls = replace(law.calls, moved={}) if seen.calls.moved else seen.calls
        if not law.same_noise(other):
            seen.laws = "different"
            a, b = law.deviations(), other.deviations()
            k = int(np.argmax(np.abs(a - b))) if a.shape == b.shape and not close(a, b) else None
            scales = "" if k is None else f" has scale {a[k]:.6g} on one side and {b[k]:.6g} on the other"
            seen.add("SCALE", f"number {k or 0} of the output: its noise{scales or ' has another law on each side'}")
            return False
        seen.laws, seen.findings = "same", [f for f in seen.findings if f not in seen.coupled()]
        found = law.alignment(other)
        if found is None:
            seen.add("OUTPUT", "the outputs differ by what no shift of the noise explains")
            return False
        seen.calls = replace(law.calls, moved=found.moved)
        seen.priced = found.only or found.normal or (self.claim.is_pure and not found.some)
        return True

    def _weigh(self, seen: Seen, recordings: list[Json], first: Any, second: Any, left_out: Any) -> None:
        """Keep findings from coupled runs of plain generators only where the laws of the noise confirm them."""
        if not seen.plain() or not (seen.coupled() or (seen.calls.moved and any(f.kind == "LOSS" for f in seen.findings))):
            return
        if not seen.laws:
            self._compare_laws(seen, recordings, first, second)
            if seen.laws in ("same", "different"):
                seen.findings = [f for f in seen.findings if f.kind != "LOSS"]
                seen.notes = [note for note in seen.notes if not note.startswith(("the loss of ", "data and noise are mixed"))]
                self._price(seen, first)
                self._judge(seen)
        if seen.laws in ("mixed", "unknown"):
            coupled = seen.coupled()
            if seen.laws == "mixed" and seen.calls.moved and not self._repeats(seen, first, second, left_out):
                coupled += [f for f in seen.findings if f.kind == "LOSS"]
            seen.findings = [f for f in seen.findings if f not in coupled]
            seen.suspicions += coupled

    def _loose(self, seen: Seen, recordings: list[Json], replays: list[Json], first: Any, second: Any, left_out: Any) -> None:
        """Noise is drawn apart from the data: differences that no shift of the noise explains, and no chance."""
        differ = [(a, b) for a, b in zip(recordings, replays, strict=True) if b["output"] or b["differences"]]
        if not differ:
            return
        for a, b in differ[:2]:
            if b["differences"] or not self._align(seen, a, b, second, left_out):
                continue
            rest = [(c, d) for c, d in zip(recordings, replays, strict=True) if c is not a]
            if self._holds(seen, [a, *(c for c, _ in rest)], [b, *(d for _, d in rest)], first, second, left_out) or seen.findings:
                return
        if seen.plain() and not seen.laws:
            self._compare_laws(seen, recordings, first, second)
        if seen.laws == "different":
            for each in (each for replayed in replays for each in replayed["differences"]):
                seen.add(_KINDS[each["kind"]], each["told"], each["where"])
        if seen.laws in ("same", "different"):
            return
        rounds, sure = self._rounds()
        own = recordings + [self.record(first) for _ in range(rounds - len(recordings))]
        others = [self.record(second) for _ in range(rounds)]
        found = list(always(own, others))
        keys, other_keys = [r["key"] for r in own], [r["key"] for r in others]
        across = {tuple(each) for each in self.session.varies(keys[0], other_keys[:1], left_out)}
        within = {tuple(each) for each in (*self.session.varies(keys[0], keys[1:]), *self.session.varies(other_keys[0], other_keys[1:]))}
        kinds = {kind for kind, *_ in within}
        told = {_KINDS[each["kind"]]: each for replayed in replays for each in replayed["differences"]}
        for kind, stream, index in sorted(across - within):
            name = "CALLS" if kind == "calls" else kind.upper()
            if "calls" in kinds:
                continue
            each = told.get(name, {"told": f"call {index} of stream {stream or 'main'} differs", "where": ""})
            found.append(Finding(name, f"{each['told']}{WHATEVER}", each["where"]))
        for finding in found:
            seen.add(finding.kind, finding.told, finding.where, certain=sure)
        if not found:
            seen.notes.append("data and noise are mixed in ways that the trace cannot take apart: an audit by runs says more here")
            seen.priced = False

    def _rounds(self) -> tuple[int, bool]:
        """Recordings a side after which "always this, never that" is no chance under the claim; whether so many may be made.

        The chance that all of n runs on D1 give one value and all of n on D0 another is at most (p (1 - p / e^epsilon))^n.
        """
        epsilon = self.claim.parameter if self.claim.bounds_epsilon else max(1.0, self.claim.parameter)
        p = min(1.0, 0.5 * math.exp(min(epsilon, 50.0)))
        most = p * (1 - p * math.exp(-min(epsilon, 50.0)))
        need = math.ceil(math.log(_LEVEL) / math.log(most)) if most < 1 else _MOST + 1
        return min(max(need, _RECORDINGS), _MOST), need <= _MOST

    def _price(self, seen: Seen, dataset: Any) -> None:
        losses, _ = seen.calls.losses()
        if seen.calls.loose() and not seen.calls.moved:
            losses.unknown.append("noise that is drawn apart from the data")
        seen.loss, seen.charged = losses.parameter(self.claim), seen.calls.charged()
        if losses.unknown:
            names = ", ".join(sorted(set(losses.unknown))[:3])
            note = f"the loss of {names} is not known"
            if note not in seen.notes:
                seen.notes.append(note)
        if seen.calls.subsampled(records_in(dataset)):
            seen.priced = False
            note = "records are drawn: the loss is that of one subsample, amplification by sampling is not counted"
            if note not in seen.notes:
                seen.notes.append(note)

    def _judge(self, seen: Seen) -> None:
        """The composed loss against the claim, and against what the accountant was told."""
        reached, claimed = seen.loss, self.claim.parameter
        slack = 1 + (1e-3 if seen.calls.moved else 1e-6)  # a shift of noise is found from outputs, which may be rounded
        if reached > claimed * slack:
            at = f" at delta = {self.claim.delta_budget:g}" if self.claim.delta_budget else ""
            told = "no finite bound" if math.isinf(reached) else f"{self.claim.symbol} = {reached:.6g}"
            seen.add("LOSS", f"the losses of the calls compose to {told}{at}, claimed {claimed:.6g}", certain=seen.priced)
        pure = self.claim.bounds_epsilon and not math.isnan(seen.charged)
        if pure and seen.priced and reached > seen.charged * slack:
            seen.add("ACCOUNT", f"accountants were told of epsilon = {seen.charged:.6g}, the calls compose to {reached:.6g}")
        calls = seen.calls
        kinds = {calls.law(i) for i in range(len(calls))}
        poisson = any(s == "poisson" for s in calls.table["samplings"])
        rates = [calls.table["rate"][i] for i in range(len(calls)) if calls.law(i) == "spend"]
        if poisson and "permutation" in kinds and any(r < 1 for r in rates):
            seen.add("ACCOUNT", "the accountant assumes that each step draws every record by its own coin; a permutation is drawn instead")
        noise = [calls.table["noise"][i] for i in range(len(calls)) if calls.law(i) == "spend" and calls.table["noise"][i] > 0]
        drawn = sum(calls.law(i) == "gaussian" and not calls.source(i) for i in range(len(calls)))
        if noise and 0 < drawn != len(noise):
            seen.add("ACCOUNT", f"the accountant was told of {len(noise)} noisy steps, noise was drawn {drawn} times")
