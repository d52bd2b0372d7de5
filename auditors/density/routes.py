"""Choice of the strongest route from a mechanism and a pair to the law of the privacy loss:
enumeration, composition, quadrature.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpwitness.auditors.density.composition import compose, content_key
from dpwitness.auditors.density.cubature import integrate
from dpwitness.auditors.density.density_check import fills_space
from dpwitness.auditors.events.outputs import encode
from dpwitness.auditors.statistics.loss_law import EnclosedLaw, LossLaw, atoms, unaccounted_mass
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.protocols.capabilities import (
    HasAtoms,
    HasBreakpoints,
    HasFactors,
    HasSupport,
    has_capability,
    log_density_at,
)
from dpwitness.core.protocols.mechanism import FloatArray, WhiteBox

# runs per side that show the form of outputs if the mechanism offers no support
_SAMPLE_SIZE = 4096
_NEGLIGIBLE = 1e-13  # rounding error of a sum of a thousand masses


def loss_law(mechanism: Any, pair: Pair) -> LossLaw | None:
    """Return the law of the privacy loss of `pair`, or None if no exact route applies.

    The law is exact if the outputs can be enumerated. Otherwise, it is the lower end of
    `enclosed_law`, whose distance from the truth does not matter to any audit.
    """
    found = enclosed_law(mechanism, pair)
    return None if found is None else found.lower


_CACHE: OrderedDict[Any, EnclosedLaw | None] = OrderedDict()
_NO_ATOMS: FloatArray = np.empty(0)


def enclosed_law(mechanism: Any, pair: Pair, atoms: FloatArray = _NO_ATOMS) -> EnclosedLaw | None:
    """Return laws below and above the privacy loss of `pair` by the strongest route that applies,
    or None.

    Routes: enumeration of the support; composition of independent factors; quadrature in one to
    three dimensions, with discrete columns enumerated. `atoms` are known atoms, for outputs that
    are one number. The last 16 results are cached by content.
    """
    key = content_key(mechanism, pair.d0, pair.d1, atoms)
    if key is None:
        return law_of(mechanism, pair.d0, pair.d1, atoms)
    if key not in _CACHE:
        _CACHE[key] = law_of(mechanism, pair.d0, pair.d1, atoms)
        while len(_CACHE) > 16:
            _CACHE.popitem(last=False)
    _CACHE.move_to_end(key)
    return _CACHE[key]


def law_of(mechanism: Any, d0: Any, d1: Any, atoms: FloatArray = _NO_ATOMS) -> EnclosedLaw | None:
    """Return the enclosed law for two datasets that need not be neighbors, such as the datasets of
    a factor.
    """
    if not has_capability(mechanism, WhiteBox):
        return None
    if has_capability(mechanism, HasSupport):
        rows = np.concatenate([np.asarray(mechanism.support(d), dtype=float) for d in (d0, d1)])
        return _enumerated(
            mechanism, np.unique(rows.reshape(len(rows), -1), axis=0), d0, d1, "enumeration"
        )
    if has_capability(mechanism, HasFactors):
        found = composed(mechanism.factors(d0, d1))
        if found is not None:
            return found
    return _integrated(mechanism, d0, d1, atoms)


def composed(factors: Sequence[tuple[Any, Any, Any]]) -> EnclosedLaw | None:
    """Enclose the law of the sum of the losses of factors (mechanism, d0, d1); None if some factor
    has no exact law.
    """
    known: dict[Any, tuple[EnclosedLaw, int]] = {}
    for number, (mechanism, d0, d1) in enumerate(factors):
        key = content_key(mechanism, d0, d1) or number
        law = known[key][0] if key in known else law_of(mechanism, d0, d1)
        if law is None:
            return None
        known[key] = law, known[key][1] + 1 if key in known else 1
    return compose(list(known.values()))


def _enumerated(mechanism: Any, rows: FloatArray, d0: Any, d1: Any, route: str) -> EnclosedLaw:
    """Return the law of finitely many outputs."""
    law = atoms(*(log_density_at(mechanism, rows, d) for d in (d1, d0)))
    unseen_p, unseen_q = max(0.0, 1 - math.fsum(law.p)), max(0.0, 1 - math.fsum(law.q))
    unseen = max(unseen_p, unseen_q)
    missing = unseen if unseen > _NEGLIGIBLE * max(1.0, 1e-3 * len(rows)) else 0.0
    label = "enclosure" if missing else "exact"
    return EnclosedLaw(
        law,
        replace(law, unseen_p=unseen_p, unseen_q=unseen_q),
        f"{route} of {len(rows)} outputs",
        label,
        missing=missing,
    )


def _integrated(mechanism: Any, d0: Any, d1: Any, atoms: FloatArray) -> EnclosedLaw | None:
    """Return the law by quadrature over the continuous columns, for each combination of the other
    columns, or None.
    """
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0x1A3,)))
    parts = [
        encode(mechanism.sample(d, _SAMPLE_SIZE, rng), _SAMPLE_SIZE).unsigned() for d in (d0, d1)
    ]
    if (
        len(np.unique(np.concatenate([part.codes for part in parts]))) > 1
        or parts[0].values.shape != parts[1].values.shape
    ):
        return None
    rows = np.concatenate([part.values for part in parts])
    if not np.all(np.isfinite(rows)):
        return None
    if rows.shape[1] == 1:
        at = np.unique(np.concatenate([atoms, _atoms_of(mechanism, rows[:, 0], d0, d1)]))
        others = rows[~np.isin(rows[:, 0], at)]
        if 0 < len(at) <= 64 and len(others) > len(rows) // 64:
            rest = _quadrature(mechanism, others, np.zeros(1, dtype=bool), d0, d1)
            return (
                None
                if rest is None
                else _with_atoms(_enumerated(mechanism, at[:, None], d0, d1, "").lower, rest)
            )
    distinct = np.array([len(np.unique(column)) for column in rows.T])
    discrete = distinct <= len(rows) // 32
    if discrete.all():
        seen = np.unique(rows, axis=0)
        return (
            _enumerated(mechanism, seen, d0, d1, "enumeration of those seen:")
            if len(seen) <= len(rows) // 8
            else None
        )
    if np.count_nonzero(~discrete) > 3 or np.any(distinct[~discrete] < len(rows) // 2):
        return None
    if not all(
        fills_space(mechanism, d, part.values, ~discrete, rng)
        for d, part in zip((d0, d1), parts, strict=True)
    ):
        return None
    return _quadrature(mechanism, rows, discrete, d0, d1)


def _atoms_of(mechanism: Any, column: FloatArray, d0: Any, d1: Any) -> FloatArray:
    """Return the atoms of outputs that are one number: atoms that the mechanism names, and numbers
    that were drawn twice.
    """
    named = (
        [np.ravel(mechanism.atoms(d)) for d in (d0, d1)]
        if has_capability(mechanism, HasAtoms)
        else []
    )
    values, counts = np.unique(column, return_counts=True)
    return np.unique(np.concatenate([values[counts > 1], *named]))


def _with_atoms(part: LossLaw, rest: EnclosedLaw) -> EnclosedLaw:
    """Return the law of a density together with separate atoms. The density's law counts the atoms'
    mass as unseen.
    """

    def added(law: LossLaw) -> LossLaw:
        """Return `law` with the atoms added."""
        least, most = law.extremes or (math.inf, -math.inf)
        some = np.maximum(part.p, part.q) > 0
        extremes = (
            min(least, float(part.loss[some].min(initial=np.inf))),
            max(most, float(part.loss[some].max(initial=-np.inf))),
        )
        unseen = [
            max(0.0, u - float(m.sum())) if u else 0.0
            for u, m in ((law.unseen_p, part.p), (law.unseen_q, part.q))
        ]
        loss, p, q = (
            np.concatenate([getattr(law, name), getattr(part, name)]) for name in ("loss", "p", "q")
        )
        return LossLaw.of(loss, p, q, unseen[0], unseen[1], extremes)

    def refine(losses: Sequence[float]) -> EnclosedLaw:
        return _with_atoms(part, rest.refined(losses))

    route = f"{rest.route} and {len(part.loss)} atoms"
    lower, upper = added(rest.lower), added(rest.upper)
    return EnclosedLaw(
        lower,
        upper,
        route,
        rest.label,
        rest.dimension,
        unaccounted_mass(lower, upper),
        refine if rest.refine else None,
    )


def _quadrature(
    mechanism: Any, rows: FloatArray, discrete: NDArray[np.bool_], d0: Any, d1: Any
) -> EnclosedLaw | None:
    """Return the law by quadrature near the sampled outputs.

    Integrates over the columns that are not `discrete`, for each combination of the discrete
    columns.
    """
    prefixes = np.unique(rows[:, discrete], axis=0)
    if len(prefixes) > 64:
        return None
    breaks = None
    if has_capability(mechanism, HasBreakpoints):
        breaks = np.unique(np.concatenate([np.ravel(mechanism.breakpoints(d)) for d in (d0, d1)]))

    def log_densities(points: FloatArray, which: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        full = np.empty((len(points), rows.shape[1]))
        full[:, discrete], full[:, ~discrete] = prefixes[which], points
        return log_density_at(mechanism, full, d1), log_density_at(mechanism, full, d0)

    return integrate(log_densities, rows[:, ~discrete], len(prefixes), breaks)
