"""The domain of event streams: frames whose rows are in the order of their time."""

from __future__ import annotations

from dataclasses import dataclass

from dpwitness.core.domains.frames import Table


@dataclass(frozen=True, slots=True)
class Events(Table):
    """Streams of up to `size` events, in order: a list of dicts with `columns`, the number of the
    event under `time`, and a `user`.

    Under ``event`` one event is added or removed, and the others keep their order and time. Under
    ``add-remove:unit=USER`` all events of one user are added or removed.

    Parameters
    ----------
    columns, size, user, relation, per_user, frame
        Parameters of `Table`. The default relation without a user is ``event``.
    time : str
        Key of the number of an event, in increasing order.

    Raises
    ------
    InvalidArgument
        As for `Table`.
    """

    frame: str = "records"
    time: str | None = "time"

    def __post_init__(self) -> None:
        if not self.relation and self.user is None:
            object.__setattr__(self, "relation", "event")
        Table.__post_init__(self)
