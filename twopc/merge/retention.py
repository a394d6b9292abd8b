"""How long metadata of changed rows is kept, and which node may remove what. Pure; the SQL twin is ``merge_clean_up``.

The Publisher removes what is older than the publication's retention and has reached every Subscriber that has not
expired. A Subscriber removes only what its Publisher has removed: otherwise it would seem to have changed rows without
having seen what the Publisher holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twopc.errors import MergeError
from twopc.merge.marks import Marks

RETENTION_DAYS = 14
"""Of a publication, unless it is set; 0 keeps everything, and no subscription expires."""
GRACE_DAYS = 1
"""How much longer metadata is kept than a subscription lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedGeneration:
    """A closed generation, as far as clean-up is concerned."""

    number: int
    closed_s: float
    """When."""
    known_by: int | None = None
    """The first generation of the Publisher that holds all of this one and of those before it; None: none is known
    to, or this node is the Publisher."""


def forgettable(
    generations: Iterable[ClosedGeneration],
    *,
    acknowledged: Iterable[int],
    before_s: float | None,
    publisher_cleaned: int | None,
) -> int:
    """The generation up to which a node may forget what it knows; 0: nothing.

    Args:
        acknowledged: for each Subscriber that has not expired, the last generation that it has confirmed.
        before_s: at the topmost Publisher, the time before which everything may be forgotten; None: nothing may.
        publisher_cleaned: at a Subscriber, the generation up to which its Publisher has forgotten; None: it is not
            one.
    """
    confirmed = min(acknowledged, default=None)
    numbers = [
        each.number
        for each in generations
        if (confirmed is None or each.number <= confirmed)
        and (
            (before_s is not None and each.closed_s <= before_s)
            if publisher_cleaned is None
            else each.known_by is not None and each.known_by <= publisher_cleaned
        )
    ]
    return max(numbers, default=0)


def check_age(publisher: str, above: Marks, subscriber: str, below: Marks) -> None:
    """Refuse a session between two nodes of which one has forgotten what the other has not heard of.

    Raises:
        MergeError: the subscription has expired (21072), or an end names a generation that is not kept any more
            (21333).
    """
    if above.is_expired:
        raise MergeError(
            f"the subscription of {subscriber} to {publisher} has expired: it had no session for longer than the "
            "publication's retention, and rows have changed since (21072): reinitialise it",
            node=publisher,
            number=21072,
        )
    for name, marks, other_name, other in (
        (subscriber, below, publisher, above),
        (publisher, above, subscriber, below),
    ):
        received = marks.known_from if marks.received is None else marks.received.number
        if received < other.cleaned:
            raise MergeError(
                f"{name} was restored from a backup that is older than what {other_name} still knows: its last "
                f"generation from there is not kept any more (21333): reinitialise {subscriber}",
                node=other_name,
                number=21333,
            )
