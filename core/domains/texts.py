"""The domain of lists of texts, one per person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.random import Generator

from dpwitness.core.datasets.pairs import Pair
from dpwitness.core.domains.base import Domain
from dpwitness.core.domains.fields import MAX_ENTRIES, items, sized
from dpwitness.core.domains.pair_patterns import PLACES
from dpwitness.core.values.validation import InvalidArgument, require, short_repr


@dataclass(frozen=True, slots=True)
class Texts(Domain):
    """`size` texts of up to `longest` words from `words`, separated by spaces; neighbors by
    ``replace-one`` or ``add-remove``.

    Parameters
    ----------
    size : int
        Number of texts; the largest number under ``add-remove``.
    words : tuple of str
        Distinct words without spaces.
    longest : int
        Largest number of words in a text.
    relation : {"replace-one", "add-remove"}
        Neighboring relation.

    Raises
    ------
    InvalidArgument
        If a parameter is out of range, or a word contains spaces.
    """

    size: int
    words: tuple[str, ...] = ("a", "b", "c")
    longest: int = 8
    relation: str = "replace-one"
    has_integers = unordered = True

    def __post_init__(self) -> None:
        require(self).integer("size", "longest", most=MAX_ENTRIES).one_of(
            "relation", ["replace-one", "add-remove"]
        )
        words = items("words", self.words, "Texts")
        if (
            not words
            or not all(isinstance(word, str) and word and " " not in word for word in words)
            or len(set(words)) < len(words)
        ):
            raise InvalidArgument(
                "Texts: words must be distinct non-empty texts without spaces, got "
                f"{short_repr(self.words)}"
            )
        object.__setattr__(self, "words", tuple(words))

    def contains(self, dataset: Any) -> bool:
        """Return whether the dataset is a list with an allowed number of texts of these words."""
        if not isinstance(dataset, list | tuple) or not sized(
            len(dataset), self.size, self.relation
        ):
            return False
        return all(isinstance(text, str) and self._fits(text) for text in dataset)

    def _fits(self, text: str) -> bool:
        """Return whether a text has only allowed words, and at most `longest` of them."""
        parts = text.split(" ") if text else []
        return len(parts) <= self.longest and set(parts) <= set(self.words)

    def changed(
        self, crowd: Sequence[str], before: str, after: str, turn: int, why: str
    ) -> Pair | None:
        """Return the pair that changes one text among others, in a place that depends on `turn`."""
        where, place = PLACES[turn % 3]
        at = place(len(crowd))
        first = list(crowd) if self.relation == "add-remove" else [*crowd[:at], before, *crowd[at:]]
        return self.pair(first, [*crowd[:at], after, *crowd[at:]], f"{why}, {where}")

    def catalogue(self) -> Iterable[Pair | None]:
        """Yield fixed pairs: a text of one repeated word, of all words or of none, among others
        that are empty, equal or of all words.
        """
        first, last = self.words[0], self.words[-1]
        every = " ".join((self.words * self.longest)[: self.longest])
        changes = {
            "one word to another": (first, last),
            "nothing to one word many times": ("", " ".join([last] * self.longest)),
            "one word many times to another": (
                " ".join([first] * self.longest),
                " ".join([last] * self.longest),
            ),
            "nothing to all words": ("", every),
            "one word to nothing": (first, ""),
        }
        crowds = {
            "others empty": [""],
            "others alike": [first],
            "others of all words": [every],
            "others in turn": list(self.words),
        }
        turn = 0
        for among, texts in crowds.items():
            crowd = [texts[i % len(texts)] for i in range(self.size - 1)]
            for why, (before, after) in changes.items():
                yield self.changed(crowd, before, after, turn, f"{why}, {among}")
                turn += 1

    def random_pair(self, rng: Generator, turn: int, corners: bool) -> Pair | None:
        """Return a random pair of texts with random words; in corners all texts have the largest
        number of words.
        """

        def text() -> str:
            count = self.longest if corners else int(rng.integers(self.longest + 1))
            return (
                " ".join(self.words[i] for i in rng.choice(len(self.words), count)) if count else ""
            )

        crowd = [text() for _ in range(self.size - 1)]
        return self.changed(crowd, text(), text(), turn, f"drawn {turn}: random words")

    def simplifications(self, pair: Pair) -> Iterator[Pair | None]:
        """Yield the pair with all common texts made empty."""
        common = set(pair.d0) & set(pair.d1) - {""}
        if common:
            sides = [
                ["" if text in common else text for text in side] for side in (pair.d0, pair.d1)
            ]
            yield self.pair(sides[0], sides[1], pair.why)

    @property
    def records(self) -> int:
        return self.size
