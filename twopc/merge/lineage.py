"""Lineages: version vectors that record which changes a row includes. Pure.

A lineage holds, for each replica that ever changed the row, the highest of its versions that the row includes. In
messages and in the database, each entry is packed into one integer of 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Lineage = Mapping[int, int]
"""Version by replica."""

VERSION_BITS = 31
_VERSION_MASK = 2**VERSION_BITS - 1


def pack(replica: int, version: int) -> int:
    """Return one entry in its stored form."""
    return replica << VERSION_BITS | version


def unpack(entry: int) -> tuple[int, int]:
    """Return replica and version of a stored entry."""
    return entry >> VERSION_BITS, entry & _VERSION_MASK


def packed(lineage: Lineage) -> list[int]:
    """Return a lineage in its stored form."""
    return sorted(pack(replica, version) for replica, version in lineage.items())


def unpacked(entries: Iterable[int]) -> dict[int, int]:
    """Return the lineage of stored entries."""
    return dict(map(unpack, entries))


def covers(one: Lineage, other: Lineage) -> bool:
    """Return whether `one` includes every change that `other` includes."""
    return all(one.get(replica, 0) >= version for replica, version in other.items())


def joined(one: Lineage, other: Lineage) -> dict[int, int]:
    """Return the lineage that covers both."""
    return {replica: max(one.get(replica, 0), other.get(replica, 0)) for replica in {*one, *other}}


def stamped(lineage: Lineage, replica: int) -> dict[int, int]:
    """Return the lineage after a change by `replica`, whose version is one more than the highest."""
    return {**lineage, replica: max(lineage.values(), default=0) + 1}
