"""Which rows of an article go to which Subscribers: plain values."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from twopc.errors import SubscriptionError

VALUE_LENGTH_MAX = 128
"""Characters of a host name or a login, as in the original."""

#: What PostgreSQL prints for a quoted text or name, or for a call of ours; nothing of ours is within quotes.
_CALLS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|msrepl\.(host_name|suser_sname)\(\)""")


class PartitionOption(IntEnum):
    """What a Subscriber may do to the partition of a row (``partition_options``)."""

    FREE = 0
    """A row may belong to several partitions, and may be moved out of the Subscriber's own."""
    KEPT = 1
    """An insert or update that would leave the row outside the Subscriber's partition fails (20703, 20733)."""
    APART = 2
    """And every row belongs to one partition at most."""
    ALONE = 3
    """And a partition has one Subscriber: whoever subscribes to it next takes its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinFilter:
    """Rows go where the rows of another table go that they belong to (``sysmergesubsetfilters``)."""

    parent: UUID
    """The other table's article."""
    parent_nickname: int
    parent_schema: str
    parent_table: str
    parent_rowguid: str
    condition: str
    """As PostgreSQL prints it, every name with its schema; columns behind the names of their tables."""
    is_key: bool
    """It is a foreign key of this table's: where a parent goes is known from rows that are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFilter:
    """A row belongs to a partition if its row filter or one of its join filters says so."""

    condition: str | None
    """The row filter as PostgreSQL prints it, every name with its schema."""
    joins: tuple[JoinFilter, ...] = ()
    is_precomputed: bool = True
    """A close works out what has changed, and what hangs on it; else everything."""
    is_timed: bool = False
    """What the filter says may change without a change of a row."""
    option: PartitionOption = PartitionOption.FREE
    realigns: bool = True
    """A row that leaves a Subscriber's partition is taken away there; else it stays, and is not brought up to date."""


def values_of(condition: str) -> frozenset[str]:
    """Which values of a Subscriber a condition looks at, as PostgreSQL prints it."""
    return frozenset(match[1] for match in _CALLS.finditer(condition) if match[1])


def with_values(condition: str, host_name: str, suser_sname: str) -> str:
    """A condition with other expressions in place of a Subscriber's values.

    Args:
        condition: as PostgreSQL prints it.
        host_name: in place of the host name, as SQL; `suser_sname`: in place of the login.
    """
    instead = {"host_name": host_name, "suser_sname": suser_sname}
    return _CALLS.sub(lambda match: instead[match[1]] if match[1] else match[0], condition)


def check_value(subscriber: str, name: str, value: str) -> str:
    """A Subscriber's value for filters.

    Raises:
        SubscriptionError: PostgreSQL cannot hold it, or it is too long.
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
    """The values by which somebody names a partition: all that filters look at, and no other.

    Args:
        used: the functions that filters call.
        what: the partition is named for, in messages.
        host_name: None: it is not named, and `login` likewise.

    Raises:
        SubscriptionError: one is named and no filter looks at it (20672, 20673), one is missing (20698, 20699), or
            cannot be one.
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
