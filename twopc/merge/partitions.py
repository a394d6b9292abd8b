"""Filters that decide which rows of an article go to which Subscribers: plain values."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from twopc.errors import SubscriptionError

VALUE_LENGTH_MAX = 128
"""Maximum number of characters of a host name or a login, as in the original."""

#: Quoted texts and names, and calls of our functions, as PostgreSQL prints them; matching quotes first ensures
#: that no call is found within them.
_CALLS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|msrepl\.(host_name|suser_sname)\(\)""")


class PartitionOption(IntEnum):
    """Changes that a Subscriber may make to a row's partition (``partition_options``)."""

    FREE = 0
    """A row may belong to several partitions, and may be moved out of the Subscriber's own."""
    KEPT = 1
    """An insert or update that would leave the row outside the Subscriber's partition fails (20703, 20733)."""
    APART = 2
    """As `KEPT`; in addition, every row belongs to one partition at most."""
    ALONE = 3
    """As `APART`; in addition, a partition has one Subscriber: the next that subscribes to it replaces the previous
    one.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinFilter:
    """A filter by which rows follow the partitions of rows of another table (``sysmergesubsetfilters``)."""

    parent: UUID
    """The other table's article."""
    parent_nickname: int
    parent_schema: str
    parent_table: str
    parent_rowguid: str
    condition: str
    """The condition as PostgreSQL prints it, with schema-qualified names and columns qualified by their tables'
    names.
    """
    is_key: bool
    """Whether the condition is a foreign key of this table: the partitions of a parent are then known from existing
    rows.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFilter:
    """The filters of an article: a row belongs to a partition if the row filter or one of the join filters holds."""

    condition: str | None
    """The row filter as PostgreSQL prints it, with schema-qualified names."""
    joins: tuple[JoinFilter, ...] = ()
    is_precomputed: bool = True
    """Whether closing a generation evaluates only changed rows and the rows that depend on them, not all rows."""
    is_timed: bool = False
    """Whether the filter's result may change without a change of a row."""
    option: PartitionOption = PartitionOption.FREE
    realigns: bool = True
    """Whether a row that leaves a Subscriber's partition is removed there; otherwise it stays and is no longer
    updated.
    """


def values_of(condition: str) -> frozenset[str]:
    """Return the names of a Subscriber's values that a condition uses, given as PostgreSQL prints it."""
    return frozenset(match[1] for match in _CALLS.finditer(condition) if match[1])


def with_values(condition: str, host_name: str, suser_sname: str) -> str:
    """Return a condition with other expressions in place of a Subscriber's values.

    Args:
        condition: as PostgreSQL prints it.
        host_name: SQL expression for the host name.
        suser_sname: SQL expression for the login.
    """
    instead = {"host_name": host_name, "suser_sname": suser_sname}
    return _CALLS.sub(lambda match: instead[match[1]] if match[1] else match[0], condition)


def check_value(subscriber: str, name: str, value: str) -> str:
    """Return a Subscriber's value for filters.

    Raises:
        SubscriptionError: PostgreSQL cannot hold the value, or it is too long.
    """
    if "\0" in value:
        raise SubscriptionError(f"{subscriber}: {name} holds a NUL character, which no text can")
    if len(value) > VALUE_LENGTH_MAX:
        raise SubscriptionError(
            f"{subscriber}: {name} has {len(value)} characters, and may have {VALUE_LENGTH_MAX}"
        )
    return value


def check_named(
    used: Set[str], what: str, host_name: str | None, login: str | None
) -> dict[str, str]:
    """Return the values that identify a partition: those that filters use, and no others.

    Args:
        used: the functions that filters call.
        what: purpose of the partition, for messages.
        host_name: the host name; None if not given.
        login: the login; None if not given.

    Raises:
        SubscriptionError: a value is given that no filter uses (20672, 20673), one is missing (20698, 20699), or
            one is not valid.
    """
    values = {}
    for name, function, value, if_unused, if_missing in (
        ("host_name", "host_name", host_name, 20672, 20698),
        ("login", "suser_sname", login, 20673, 20699),
    ):
        if function not in used and value is not None:
            raise SubscriptionError(
                f"{what}: no filter looks at msrepl.{function}(), and {name} is {value!r} ({if_unused}): leave it out"
            )
        if function in used and value is None:
            raise SubscriptionError(
                f"{what}: filters look at msrepl.{function}(), and {name} is missing ({if_missing}): name it as well"
            )
        values[name] = check_value(what, name, value or "")
    return values
