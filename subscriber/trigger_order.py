"""Order of triggers: which form the capture triggers take beside a user's, and when they cannot fire first.

Pure: from tables as the catalogs describe them to forms and obstacles.

PostgreSQL fires triggers of one kind by name, and every AFTER ROW trigger before any AFTER STATEMENT
trigger. The capture triggers must be first (seed 002); otherwise changes made by a user's trigger would reach the
Publisher before the change that caused them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from twopc.articles import Table, UserTrigger

#: Per operation: the statement, and the original's error number for "not the first trigger".
OPERATIONS = {"ins": ("INSERT", 21128), "upd": ("UPDATE", 21129), "del": ("DELETE", 21130)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A user's trigger that keeps a capture trigger, or one that stamps versions, from firing in its place."""

    number: int
    """The original's error number: 21128 INSERT, 21129 UPDATE, 21130 DELETE."""
    table: str
    trigger: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"trigger {self.trigger!r} of table {self.table} {self.reason} ({self.number}): "
            f"{self.remedy}, then `twopc activate` the subscription"
        )


def concerns(trigger: UserTrigger, operation: str) -> bool:
    """Return whether a trigger fires for the operation."""
    return {"ins": trigger.insert, "upd": trigger.update, "del": trigger.delete}[operation]


def by_row(table: Table, operation: str) -> bool:
    """Return whether the capture trigger must be AFTER ROW, as users' AFTER ROW triggers fire before others."""
    return any(
        t.row and not t.before and concerns(t, operation) for t in table.triggers
    ) and not _has_no_row_form(table)


def _has_no_row_form(table: Table) -> bool:
    """Return whether PostgreSQL refuses transition tables to row triggers of the table."""
    return table.kind == "p" or table.is_partition or table.inherits


def obstacles(
    table: Table,
    partitions: Sequence[Table],
    trigger_name: Callable[[str], str],
) -> tuple[Obstacle, ...]:
    """Return all obstacles on a table and its partitions.

    Args:
        trigger_name: returns the product's trigger name for an operation, and for ``new`` and ``ver`` (the row
            version).
    """
    results: list[Obstacle] = []
    for each in (table, *partitions):
        for operation in OPERATIONS:
            results += _late_capture(each, operation, trigger_name(operation))
        results += _late_stamp(each, trigger_name)
    return tuple(dict.fromkeys(results))


def _late_capture(table: Table, operation: str, own: str) -> Iterable[Obstacle]:
    verb, number = OPERATIONS[operation]
    name = f"{table.schema}.{table.name}"
    rows = by_row(table, operation)
    for trigger in table.triggers:
        if trigger.before or not concerns(trigger, operation):
            continue
        if trigger.row and not rows:
            yield Obstacle(
                number=number,
                table=name,
                trigger=trigger.name,
                reason=f"is an AFTER ROW trigger of {verb} on a partition or child table, where ours "
                "cannot fire before it",
                remedy="drop it or make it AFTER STATEMENT",
            )
        elif trigger.row == rows and _sorts_before(trigger.name, own):
            yield Obstacle(
                number=number,
                table=name,
                trigger=trigger.name,
                reason=f"fires before our trigger of {verb}, which must be the first",
                remedy=f"rename it so that it sorts after {own!r}, or drop it",
            )


def _late_stamp(table: Table, trigger_name: Callable[[str], str]) -> Iterable[Obstacle]:
    for operation, own in (("ins", trigger_name("new")), ("upd", trigger_name("ver"))):
        verb, number = OPERATIONS[operation]
        for trigger in table.triggers:
            if not (trigger.before and trigger.row and concerns(trigger, operation)):
                continue
            if _sorts_before(own, trigger.name):
                yield Obstacle(
                    number=number,
                    table=f"{table.schema}.{table.name}",
                    trigger=trigger.name,
                    reason=f"fires after our trigger of {verb} that gives a row its version",
                    remedy=f"rename it so that it sorts before {own!r}, or drop it",
                )


def _sorts_before(first: str, second: str) -> bool:
    """Return whether a trigger name sorts before another in the server's order: by bytes."""
    return first.encode() < second.encode()
