"""Protections of merge replication that can be left out, to show the errors that they prevent. Pure."""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum


class MergeProtection(StrEnum):
    """Protections, each a parameter of the code concerned; the product itself leaves none out."""

    DEFERRAL = "deferral"
    """A download defers a row that the Subscriber has changed since its upload."""
    LINEAGE = "lineage"
    """An upload of a version that the Publisher has superseded changes nothing."""
    GENERATION_SNAPSHOT = "generation_snapshot"
    """A generation is bounded by a snapshot: a transaction that commits late belongs to the next one."""
    COLUMN_VERSIONS = "column_versions"
    """When two rows are merged, each contributes the columns that it has changed."""
    PRIORITY = "priority"
    """A server subscription's changes have its priority."""
    RESOLVER = "resolver"
    """An article's own resolver decides its conflicts."""
    COMPENSATION = "compensation"
    """If an article compensates for errors, a change that fails is undone where it was made."""
    LOSERS = "losers"
    """The row that lost a conflict is kept."""
    KEY_CHECKS = "key_checks"
    """Foreign keys are checked for agents' changes, too."""
    GUID_CHECK = "guid_check"
    """A node that does not know a generation which its neighbour received from it was restored from a backup, so
    all rows are compared.
    """
    SCHEMA = "schema"
    """In a session, the Subscriber performs schema changes before any row is sent."""
    PAST_MAPPINGS = "past_mappings"
    """A row that has left a Subscriber's partition is deleted at the Subscriber."""
    PAST_TOUCHED = "past_touched"
    """A row that a Subscriber has sent and that does not belong to its partition is deleted there."""
    CHILDREN_FOLLOW = "children_follow"
    """Child rows follow a row that enters a partition, or leaves it."""
    FILE_COMMIT = "file_commit"
    """The rows of a snapshot's file, and the record of its delivery, are one commit."""
    IDENTITY_RANGES = "identity_ranges"
    """Each node draws identity values from ranges of its own."""
    SNAPSHOT_GENERATION = "snapshot_generation"
    """A Subscriber begins with the generation of its snapshot."""


NOTHING_LEFT_OUT: Set[MergeProtection] = frozenset()
