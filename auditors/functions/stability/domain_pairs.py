"""Input spaces from domains of mechanisms: their catalogued and random pairs, at distances measured
by the input metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from dpwitness.auditors.functions.stability.exact_numbers import Incomparable
from dpwitness.auditors.functions.stability.inputs.neighbors import Group
from dpwitness.auditors.functions.stability.metrics import Metric
from dpwitness.auditors.functions.stability.search import Search
from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains import Domain
from dpwitness.core.values.json_reader import Json

_MISSES = 10_000  # random draws without a pair after which the search ends


class DomainSpace:
    """A domain as the set of inputs of a transformation."""

    size = 0  # rows are neither added nor removed by a shrink

    def __init__(self, domain: Domain, metric: Metric) -> None:
        self.domain, self.metric = domain, metric

    def contains(self, dataset: Any) -> bool:
        """Return whether a dataset belongs to the domain."""
        return self.domain.contains(dataset)

    def to_json(self) -> Json | None:
        """Return None: a witness holds its inputs, and the domain is not needed again."""
        return None

    def datasets(self) -> Iterator[Any]:
        """Yield datasets of the domain."""
        return (pair.d0 for pair in self.domain.catalogue() if pair is not None)

    def rows(self, dataset: Any) -> list[Any]:
        """Return the dataset as a single row, so that shrinking does not change it."""
        return [dataset]

    def build(self, rows: list[Any]) -> Any:
        """Return the dataset that `rows` returned as a single row."""
        return rows[0]

    def simpler_rows(self, row: Any) -> Iterator[Any]:
        """Yield nothing: the datasets of a domain are not simplified."""
        return iter(())

    def groups(self, search: Search, seed: int) -> Iterator[Group]:
        """Yield the catalogued pairs, then random ones."""
        return self._groups(chain(self.domain.catalogue(), self._draws(seed)), search)

    def _draws(self, seed: int) -> Iterator[Pair | None]:
        draws, misses, turn = self.domain.draws(np.random.default_rng(seed)), 0, 0
        while misses < _MISSES:
            pair = draws(turn)
            misses, turn = (misses + 1 if pair is None else 0), turn + 1
            yield pair

    def _groups(self, pairs: Iterable[Pair | None], search: Search) -> Iterator[Group]:
        """Yield the pairs whose distance is at most an audited one."""
        for pair in pairs:
            if pair is None:
                continue
            try:
                distance = self.metric.measure(pair.d0, pair.d1, strict=True)
            except Incomparable as error:
                search.comparison.incomparable = (
                    search.comparison.incomparable or f"input_metric {self.metric.name}: {error}"
                )
                continue
            within = next(
                (d for d in sorted(search.comparison.bounds) if not distance > d**self.metric.root),
                None,
            )
            if within is not None:
                yield Group([pair.d0, pair.d1], [(0, 1, within)])
