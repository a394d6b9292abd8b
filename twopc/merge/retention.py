"""Retention of the metadata of changed rows, and which node may remove it. Pure; the SQL function is
``merge_clean_up``.

The Publisher removes metadata that is older than the publication's retention and has reached every Subscriber that
has not expired. A Subscriber removes only metadata that its Publisher has removed: otherwise it would appear to
have changed rows without having seen the Publisher's versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twopc.errors import MergeError
from twopc.merge.marks import Marks

RETENTION_DAYS = 14
"""Default retention of a publication; 0 keeps all metadata, and no subscription expires."""
GRACE_DAYS = 1
"""Days for which metadata is kept beyond the time after which a subscription expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedGeneration:
    """A closed generation, with the properties that clean-up needs."""

    number: int
    closed_s: float
    """Time at which the generation was closed."""
    known_by: int | None = None
    """The first generation of the Publisher that includes this one and all earlier ones; None if none is known to,
    or this node is the Publisher.
    """


def forgettable(
    generations: Iterable[ClosedGeneration],
    *,
    acknowledged: Iterable[int],
    before_s: float | None,
    publisher_cleaned: int | None,
) -> int:
    """Return the generation up to which a node may remove metadata; 0 for none.

    Args:
        acknowledged: for each Subscriber that has not expired, the last generation that it has confirmed.
        before_s: at the topmost Publisher, the time before which all metadata may be removed; None if none may.
        publisher_cleaned: at a Subscriber, the generation up to which its Publisher has removed metadata; None if
            the node is not a Subscriber.
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
    """Check that neither node has removed metadata of changes that the other has not received.

    Raises:
        MergeError: the subscription has expired (21072), or an end names a generation that is no longer kept
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
