"""Version vectors: which changes a row stands on. Pure.

A lineage holds, for each replica that ever changed the row, the highest of its versions that the row stands on. On
the wire and in the database each entry is packed into one integer of 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Lineage = Mapping[int, int]
"""Replica to version."""

VERSION_BITS = 31
_VERSION_MASK = 2**VERSION_BITS - 1


def pack(replica: int, version: int) -> int:
    """One entry, as it is stored."""
    return replica << VERSION_BITS | version


def unpack(entry: int) -> tuple[int, int]:
    """Replica and version of an entry."""
    return entry >> VERSION_BITS, entry & _VERSION_MASK


def packed(lineage: Lineage) -> list[int]:
    """A whole lineage as it is stored."""
    return sorted(pack(replica, version) for replica, version in lineage.items())


def unpacked(entries: Iterable[int]) -> dict[int, int]:
    """The lineage that is stored so."""
    return dict(map(unpack, entries))


def covers(one: Lineage, other: Lineage) -> bool:
    """Whether `one` includes every change that `other` includes."""
    return all(one.get(replica, 0) >= version for replica, version in other.items())


def joined(one: Lineage, other: Lineage) -> dict[int, int]:
    """The lineage that covers both."""
    return {replica: max(one.get(replica, 0), other.get(replica, 0)) for replica in {*one, *other}}


def stamped(lineage: Lineage, replica: int) -> dict[int, int]:
    """The lineage after a change by `replica`: its version is one more than any."""
    return {**lineage, replica: max(lineage.values(), default=0) + 1}
