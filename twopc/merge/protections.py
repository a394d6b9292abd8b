"""Protections of merge replication that can be left out, to show what they protect from. Pure."""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum


class MergeProtection(StrEnum):
    """Each is a parameter of what it protects; nothing in the product leaves one out."""

    DEFERRAL = "deferral"
    """A download leaves a row that the Subscriber has changed since its upload."""
    LINEAGE = "lineage"
    """An upload that brings what was superseded at the Publisher changes nothing."""
    GENERATION_SNAPSHOT = "generation_snapshot"
    """A generation is a snapshot: a transaction that commits late belongs to the next one."""
    COLUMN_VERSIONS = "column_versions"
    """Of two rows that are merged each gives the columns that it has changed."""
    PRIORITY = "priority"
    """A server subscription's changes have its priority."""
    RESOLVER = "resolver"
    """An article's own resolver decides its conflicts."""
    COMPENSATION = "compensation"
    """Where an article compensates for errors, a change that fails is undone where it was made."""
    LOSERS = "losers"
    """The row that has lost a conflict is kept."""
    KEY_CHECKS = "key_checks"
    """Foreign keys are checked for agents, too."""
    GUID_CHECK = "guid_check"
    """A node that does not know a generation which its neighbour has from it was restored from a backup, so everything
    is compared."""
    SCHEMA = "schema"
    """A session has the Subscriber make schema changes before any row travels."""
    PAST_MAPPINGS = "past_mappings"
    """A row that has left a Subscriber's partition leaves the Subscriber."""
    PAST_TOUCHED = "past_touched"
    """What a Subscriber has sent, and does not belong to it, leaves it again."""
    CHILDREN_FOLLOW = "children_follow"
    """The rows below a row that comes into a partition, or leaves it, follow it."""
    FILE_COMMIT = "file_commit"
    """The rows of a file of a snapshot, and the note that it has been delivered, are one commit."""
    IDENTITY_RANGES = "identity_ranges"
    """Each node draws identity values from ranges of its own."""
    SNAPSHOT_GENERATION = "snapshot_generation"
    """The generation with which a Subscriber begins is the one that its snapshot is."""


NOTHING_LEFT_OUT: Set[MergeProtection] = frozenset()
