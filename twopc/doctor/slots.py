"""Checks of the replication slots of a Publisher, and whether the distribution database knows them.

A check yields findings and changes nothing, and any role may run it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

from psycopg import sql

from twopc.doctor.finding import Finding, alter_system, statement
from twopc.doctor.node import ExaminedNode
from twopc.names import SLOT_PREFIX

_EXTRA_SLOTS = 10


def replication_slots(node: ExaminedNode) -> Iterator[Finding]:
    """Check that a slot and a WAL sender are available to the log reader, and that no slot is lost."""
    if node.role_of_node != "publisher":
        return
    counts: tuple[tuple[LiteralString, LiteralString], ...] = (
        ("max_replication_slots", "SELECT count(*) AS used FROM pg_replication_slots"),
        ("max_wal_senders", "SELECT count(*) AS used FROM pg_stat_replication"),
    )
    for name, count in counts:
        used = node.row(count)["used"]
        total = node.number(name)
        if used < total:
            yield Finding(level="ok", what=name, state=f"{total}, {used} in use")
        else:
            yield Finding(
                level="error",
                what=name,
                state=f"{total}, all in use: there is none for the log reader",
                remedy=alter_system(name, str(total + _EXTRA_SLOTS), restart=True),
            )
    for slot in node.rows(
        "SELECT slot_name, coalesce(invalidation_reason, wal_status) AS reason"
        " FROM pg_replication_slots"
        " WHERE database = current_database() AND wal_status = 'lost'"
    ):
        drop = "SELECT pg_drop_replication_slot({}); -- then subscribe anew"
        yield Finding(
            level="error",
            what=f"slot {slot['slot_name']}",
            state=f"lost ({slot['reason']}): what it had not read is gone",
            remedy=statement(drop, sql.Literal(slot["slot_name"])),
        )
    yield from _unregistered(node)


def _unregistered(node: ExaminedNode) -> Iterator[Finding]:
    """Check for slots of ours that no distribution database knows, which retain the log for ever."""
    for slot in node.rows(
        "SELECT slot_name, active, pg_size_pretty(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery()"
        " THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn)) AS kept"
        " FROM pg_replication_slots"
        " WHERE database = current_database() AND NOT temporary"
        " AND wal_status <> 'lost' AND starts_with(slot_name, %s) ORDER BY slot_name",
        SLOT_PREFIX,
    ):
        name, kept = slot["slot_name"], f"{slot['kept']} of log kept"
        drop = statement("SELECT pg_drop_replication_slot({});", sql.Literal(name))
        if name in (node.registered or ()) or (slot["active"] and node.registered is None):
            yield Finding(level="ok", what=f"slot {name}", state=kept)
        elif node.registered is None:
            yield Finding(
                level="warning",
                what=f"slot {name}",
                state=f"not in use now, {kept}",
                remedy="add --node distribution=DSN to see whether it is registered there; if it is"
                f" not:\n{drop}",
            )
        else:
            yield Finding(
                level="error",
                what=f"slot {name}",
                state=f"registered nowhere in the distribution database, {kept}",
                remedy=f"{drop} -- unless another distribution database has it",
            )
