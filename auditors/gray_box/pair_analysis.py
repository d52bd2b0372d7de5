"""Examination of one pair under the trace: recordings, replays, and findings from their differences.

Where all noise comes from primitives that see the data, both runs share the primitives' outputs, and the code causes every difference.
Where noise is drawn without the data and added later, control flow and output may depend on data and noise together. Then a difference is
a finding only if it occurs whatever the noise, in enough runs to rule out chance under the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpwitness.auditors.black_box.environment_errors import check_exception_text
from dpwitness.auditors.gray_box.alignment import Alignment, align
from dpwitness.auditors.gray_box.calls import Calls, inner_scales, record_count
from dpwitness.auditors.gray_box.noise_laws import NoiseLaw, noise_law
from dpwitness.auditors.gray_box.orientation import always, close, describe_replay_difference, sides
from dpwitness.auditors.gray_box.pair_trace import FOR_ALL_NOISE, Seen
from dpwitness.auditors.gray_box.sessions import TraceSession
from dpwitness.auditors.results.trace_result import Finding
from dpwitness.mechanisms.core.json_reader import Json
from dpwitness.mechanisms.data.pairs import Pair
from dpwitness.mechanisms.privacy import Claim

_REPEATS = 12  # recordings that must agree before a shift counts as more than chance
_RECORDINGS = 3
_LONG_RUN = 20_000  # runs with more calls are recorded once only
_LEVEL = 1e-4  # probability under the claim below which an observation is not chance
_MAX_RECORDINGS = 21  # largest number of recordings per side to rule out chance
_DIVERGENCE_SCORE = 1.5  # score of a pair on which the runs diverge, in units of the claim
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
    """Runner of recordings and replays of one session, which also counts the runs.

    Parameters
    ----------
    session : Tracing
        The recording session.
    claim : Claim
        The claim on the current pair.
    seed : int
        Root seed.
    seeded : bool
        Whether the seed should decide all randomness.
    asked : tuple of str
        Names of the primitives that the user gave.
    """

    session: TraceSession
    claim: Claim
    seed: int
    seeded: bool
    asked: tuple[str, ...] = ()
    promise: Claim | None = None  # the user's claim, from which `claim` is derived for the current pair
    runs: int = 0
    cpu: float = 0.0

    def record(self, dataset: Any) -> Json:
        """Record one run on the dataset."""
        self.runs += 1
        found = self.session.record(dataset, self._next_seed())
        self.cpu += found["seconds"]
        return found

    def replay(self, key: int, dataset: Any, *, left_out: Any = None, brief: bool = False) -> Json:
        """Replay a recording on the dataset."""
        self.runs += 1
        found = self.session.replay(key, dataset, self._next_seed(), None, left_out, brief)
        self.cpu += found["seconds"]
        return found

    def _next_seed(self) -> int:
        """Return a new seed for each run."""
        return (self.seed << 20) + self.runs

    def _set_claim_on(self, pair: Pair) -> None:
        """Set the claim to the promise on this pair."""
        self.promise = self.promise or self.claim
        self.claim = self.promise.on(pair)

    def glance(self, pair: Pair) -> float:
        """Return a score of how bad a pair looks after one recording and one replay. A search over pairs maximizes the score."""
        self._set_claim_on(pair)
        first, second, left_out = sides(pair)
        recorded = self.record(first)
        replayed = self.replay(recorded["key"], second, left_out=left_out)
        calls = Calls(replayed["table"])
        loose = calls.loose()
        seen = Seen(pair, calls)
        if loose and replayed["output"]:
            self._align(seen, recorded, replayed, second, left_out)
        self._compute_loss(seen, first)
        seen.findings += list(calls.findings())
        reached = seen.loss / self.claim.parameter
        worst = 0.0 if math.isnan(reached) else min(reached, 1e6)
        if not loose and (replayed["differences"] or replayed["output"]):
            worst = max(worst, _DIVERGENCE_SCORE)
        elif (replayed["output"] or replayed["differences"]) and not seen.calls.moved:
            # only the distance of the outputs is left as a score
            a, b = (np.asarray(side["numbers"], dtype=float) for side in (recorded, replayed))
            worst = max(worst, 0.9 * bool(replayed["differences"]))
            worst += float(np.tanh(np.nan_to_num(np.abs(a - b)).max(initial=0.0))) * 1e-3 if a.shape == b.shape else 1e-3
        return worst + 0.1 * len(seen.findings)

    def examine(self, pair: Pair) -> Seen:
        """Return all evidence from recordings of one pair."""
        self._set_claim_on(pair)
        first, second, left_out = sides(pair)
        recordings = [self.record(first)]
        again = self.replay(recordings[0]["key"], first)
        unseen = describe_replay_difference(again) or not recordings[0]["calls"]  # two runs of whole numbers may be equal by chance
        if unseen and self.session.uncompile():
            recordings = [self.record(first)]
            again = self.replay(recordings[0]["key"], first)
        faithful = not describe_replay_difference(again)
        many = recordings[0]["calls"] > _LONG_RUN
        recordings += [self.record(first) for _ in range(0 if many else _RECORDINGS - 1)]
        replays = [self.replay(recorded["key"], second, left_out=left_out) for recorded in recordings]
        drawn = inner_scales([replayed["table"] for replayed in replays])
        seen = Seen(pair, Calls(replays[0]["table"], drawn_scale=drawn))
        self._add_source_findings(seen, recordings, replays, again, faithful, first)
        raised = {run["raised"] for run in (*recordings, *replays)}
        if "" not in raised:
            seen.notes.append(f"every run raises: {next(iter(raised))}")
        if not faithful:
            return seen
        if seen.calls.loose():
            self._add_loose_findings(seen, recordings, replays, first, second, left_out)
        else:
            self._add_strict_findings(seen, replays)
        worst = seen
        for replayed in replays[1:]:
            other = Seen(pair, Calls(replayed["table"], seen.calls.moved, drawn))
            self._compute_loss(other, first)
            if not seen.calls.moved and other.priced and np.nan_to_num(other.loss) > np.nan_to_num(worst.loss):
                worst = other
        self._compute_loss(seen, first)
        if worst is not seen and np.nan_to_num(worst.loss) > np.nan_to_num(seen.loss):
            seen.calls, seen.loss = worst.calls, worst.loss
        for finding in seen.calls.findings():
            seen.add(finding.kind, finding.told, finding.where)
        self._add_loss_findings(seen)
        self._confirm_coupled(seen, recordings, first, second, left_out)
        return seen

    def _add_source_findings(
        self, seen: Seen, recordings: list[Json], replays: list[Json], again: Json, faithful: bool, dataset: Any
    ) -> None:
        """Add findings for randomness that the record does not contain, or that the seed does not decide."""
        names = set(seen.calls.table["names"])
        if not faithful:
            told = describe_replay_difference(again)
            past = self.session.past(recordings[0]["key"], dataset, self._next_seed())
            by = f"; drawn past the primitives: {', '.join(past)}" if past else "; it is none of the generators that are known"
            uncalled = [name for name in self.asked if not any(n.endswith(name) for n in names)]
            cached = f"; never called: {', '.join(uncalled)}, which may be kept under another name" if uncalled else ""
            seen.add("SOURCE", f"two runs on one dataset with the same record differ: {told}{by}{cached}")
        elif self.asked and not any(n.endswith(name) for name in self.asked for n in names):
            told = f"no call was recorded of {', '.join(self.asked)}: kept under another name, or not used"
            if names:
                seen.notes.append(f"{told}; calls were recorded of {', '.join(sorted(names))}")
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

    def _add_strict_findings(self, seen: Seen, replays: list[Json]) -> None:
        """Add findings for runs that share all noise: the code causes every difference."""
        for replayed in replays:
            seen.priced &= not replayed["lost"]
            for each in replayed["differences"]:
                seen.add(_KINDS[each["kind"]], each["told"], each["where"])
            raises = replayed["output"].startswith("raises")
            if raises:
                check_exception_text("one dataset", replayed["output"].partition("only: ")[2])
            if replayed["output"] and (raises or not replayed["lost"]):  # after a lost call, the runs no longer share their noise
                told = "it " + replayed["output"] if raises else f"with the same noise {replayed['output']}"
                seen.add("EXCEPTION" if raises else "OUTPUT", told)

    def _align(self, seen: Seen, recorded: Json, replayed: Json, dataset: Any, left_out: Any) -> bool:
        """Try to align the recording with the other dataset. Return whether an alignment was found."""

        def shifted(shifts: list[Any]) -> Json:
            self.runs += 1
            return self.session.replay(recorded["key"], dataset, self._next_seed(), shifts, left_out, True)

        found = align(shifted, recorded, replayed, seen.calls)
        if isinstance(found, str):
            seen.add("OUTPUT", found)
        if not isinstance(found, Alignment):
            return False
        seen.calls = replace(seen.calls, moved=found.moved)
        others = self._other_draws_matter(recorded, replayed, seen.calls, dataset, left_out)  # noise that may hide a part of the loss
        least = found.only or found.normal or (self.claim.is_pure and not found.some)  # whether no other alignment costs less
        seen.priced = least and not others
        return True

    def _other_draws_matter(self, recorded: Json, replayed: Json, calls: Calls, dataset: Any, left_out: Any) -> bool:
        """Return whether draws other than noise of a known law change the output. A seed for another generator does not."""
        others = [i for i in range(len(calls)) if calls.source(i) and not calls.free(i)]
        if not others:
            return False
        self.runs += 1
        shifts = [(*calls.place(i), np.ones(int(calls.table["size"][i]))) for i in others]
        found = self.session.replay(recorded["key"], dataset, self._next_seed(), shifts, left_out, True)
        return bool(found["differences"] or found["raised"] or not np.array_equal(found["numbers"], replayed["numbers"], equal_nan=True))

    def _alignment_holds(self, seen: Seen, recordings: list[Json], replays: list[Json], first: Any, second: Any, left_out: Any) -> bool:
        """Return whether other recordings have alignments of the same size, and noise has the same effect on both sides.

        `seen` is aligned by the first recording.
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
        """Return whether another recording is aligned by shifts of the same sizes as `seen`."""
        other = Seen(seen.pair, Calls(replayed["table"]))
        if replayed["differences"] or not self._align(other, recorded, replayed, second, left_out):
            return False
        sizes = [np.sort(np.abs(np.concatenate([*side.calls.moved.values(), [0.0]]))) for side in (seen, other)]
        return sizes[0].shape == sizes[1].shape and close(*sizes)

    def _alignment_repeats(self, seen: Seen, first: Any, second: Any, left_out: Any) -> bool:
        """Return whether all of some new recordings are aligned like `seen`, or all outputs differ by one constant.

        Two recordings may agree by chance.
        """
        recordings = [self.record(first) for _ in range(_REPEATS)]
        replays = [self.replay(recorded["key"], second, left_out=left_out) for recorded in recordings]
        gaps = [np.asarray(a["numbers"], float) - np.asarray(b["numbers"], float) for a, b in zip(recordings, replays, strict=True)]
        if all(gap.shape == gaps[0].shape and close(gap, gaps[0]) for gap in gaps):
            return True
        return all(self._moves_alike(seen, a, b, second, left_out) for a, b in zip(recordings, replays, strict=True))

    def _same_slopes(self, calls: Calls, recorded: Json, first: Any, second: Any, left_out: Any) -> bool:
        """Return whether each number of the output moves equally on both sides if all draws move together."""
        slopes = []
        for dataset, leave in ((first, None), (second, left_out)):
            found = []
            for step in (0.0, 1.0, 3.0):
                by = [(*calls.place(i), np.full(int(calls.table["size"][i]), step)) for i in range(len(calls)) if calls.free(i) and step]
                self.runs += 1
                found.append(np.asarray(self.session.replay(recorded["key"], dataset, self._next_seed(), by, leave, True)["numbers"]))
            if len({f.shape for f in found}) > 1 or not close((found[1] - found[0]) * 3, found[2] - found[0]):
                return False
            slopes.append(found[1] - found[0])
        return slopes[0].shape == slopes[1].shape and close(*slopes)

    def _noise_law_on(self, recordings: list[Json], dataset: Any) -> NoiseLaw | str:
        """Return the law of the noise on one dataset, as in `noise_law`; two recordings must agree."""

        def own(recorded: Json) -> Callable[[list[Any] | None], Json]:
            def replayed(shifts: list[Any] | None) -> Json:
                self.runs += 1
                return self.session.replay(recorded["key"], dataset, self._next_seed(), shifts, None, shifts is not None)

            return replayed

        found, again = (noise_law(own(recorded), recorded) for recorded in recordings[:2])
        if isinstance(found, str) or isinstance(again, str):
            return "mixed" if "mixed" in (found, again) else "unknown"
        return found if found.repeats(again) else "mixed"

    def _compare_laws(self, seen: Seen, recordings: list[Json], first: Any, second: Any) -> bool:
        """Compare the laws of the noise on both datasets, if known. Return whether the laws are equal and the remaining shift is known.

        If the laws are equal, differences of coupled runs are not findings, and `seen` gets the loss of the remaining shift. If the laws
        differ, the differences are findings. If a law is unknown, the differences are suspicions, which an audit may confirm.
        """
        while len(recordings) < 2:
            recordings.append(self.record(first))
        law, other = self._noise_law_on(recordings, first), self._noise_law_on([self.record(second), self.record(second)], second)
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
            seen.add("OUTPUT", "no shift of the noise explains the difference of the outputs")
            return False
        seen.calls = replace(law.calls, moved=found.moved)
        seen.priced = found.only or found.normal or (self.claim.is_pure and not found.some)
        return True

    def _confirm_coupled(self, seen: Seen, recordings: list[Json], first: Any, second: Any, left_out: Any) -> None:
        """Keep findings from coupled runs of plain generators only if the laws of the noise confirm them."""
        if not seen.plain() or not (seen.coupled() or (seen.calls.moved and any(f.kind == "LOSS" for f in seen.findings))):
            return
        if not seen.laws:
            self._compare_laws(seen, recordings, first, second)
            if seen.laws in ("same", "different"):
                seen.findings = [f for f in seen.findings if f.kind != "LOSS"]
                seen.notes = [note for note in seen.notes if not note.startswith(("the loss of ", "data and noise are mixed"))]
                self._compute_loss(seen, first)
                self._add_loss_findings(seen)
        if seen.laws in ("mixed", "unknown"):
            coupled = seen.coupled()
            if seen.laws == "mixed" and seen.calls.moved and not self._alignment_repeats(seen, first, second, left_out):
                coupled += [f for f in seen.findings if f.kind == "LOSS"]
            seen.findings = [f for f in seen.findings if f not in coupled]
            seen.suspicions += coupled

    def _add_loose_findings(self, seen: Seen, recordings: list[Json], replays: list[Json], first: Any, second: Any, left_out: Any) -> None:
        """Add findings for noise that is drawn without the data: differences that neither a shift of the noise nor chance explains."""
        differ = [(a, b) for a, b in zip(recordings, replays, strict=True) if b["output"] or b["differences"]]
        if not differ:
            return
        for a, b in differ[:2]:
            if b["differences"] or not self._align(seen, a, b, second, left_out):
                continue
            rest = [(c, d) for c, d in zip(recordings, replays, strict=True) if c is not a]
            if (
                self._alignment_holds(seen, [a, *(c for c, _ in rest)], [b, *(d for _, d in rest)], first, second, left_out)
                or seen.findings
            ):
                return
        if seen.plain() and not seen.laws:
            self._compare_laws(seen, recordings, first, second)
        if seen.laws == "different":
            for each in (each for replayed in replays for each in replayed["differences"]):
                seen.add(_KINDS[each["kind"]], each["told"], each["where"])
        if seen.laws in ("same", "different"):
            return
        rounds, sure = self._rounds_needed()
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
            found.append(Finding(name, f"{each['told']}{FOR_ALL_NOISE}", each["where"]))
        for finding in found:
            seen.add(finding.kind, finding.told, finding.where, certain=sure)
        if not found:
            seen.notes.append("data and noise are mixed in ways that the trace cannot take apart: an audit by runs says more here")
            seen.priced = False

    def _rounds_needed(self) -> tuple[int, bool]:
        """Return the number of recordings per side that rule out chance under the claim, and whether this number is allowed.

        The observation is "always this value on D1, never on D0". Its probability in n runs on each dataset is at most (p (1 - p /
        e^epsilon))^n.
        """
        epsilon = self.claim.parameter if self.claim.bounds_epsilon else max(1.0, self.claim.parameter)
        p = min(1.0, 0.5 * math.exp(min(epsilon, 50.0)))
        most = p * (1 - p * math.exp(-min(epsilon, 50.0)))
        need = math.ceil(math.log(_LEVEL) / math.log(most)) if most < 1 else _MAX_RECORDINGS + 1
        return min(max(need, _RECORDINGS), _MAX_RECORDINGS), need <= _MAX_RECORDINGS

    def _compute_loss(self, seen: Seen, dataset: Any) -> None:
        """Set the composed loss and the charged epsilon of `seen`, with notes on what is not counted."""
        losses, _ = seen.calls.losses()
        if seen.calls.loose() and not seen.calls.moved:
            losses.unknown.append("noise that is drawn apart from the data")
        seen.loss, seen.charged = losses.parameter(self.claim), seen.calls.charged()
        if losses.unknown:
            names = ", ".join(sorted(set(losses.unknown))[:3])
            note = f"the loss of {names} is not known"
            if note not in seen.notes:
                seen.notes.append(note)
        if seen.calls.subsampled(record_count(dataset)):
            seen.priced = False
            note = "records are drawn: the loss is that of one subsample, amplification by sampling is not counted"
            if note not in seen.notes:
                seen.notes.append(note)

    def _add_loss_findings(self, seen: Seen) -> None:
        """Add findings if the composed loss exceeds the claim, or the epsilon that was charged to the accountant."""
        reached, claimed = seen.loss, self.claim.parameter
        slack = 1 + (1e-3 if seen.calls.moved else 1e-6)  # a shift of noise is computed from outputs, which may be rounded
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
