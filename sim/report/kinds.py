"""The kinds of refusal with their other names: SQLSTATE, SQL Server's number, PostgreSQL's conflicts.

SQLSTATEs and numbers are those of `twopc.errors`; the third name is the one under which PostgreSQL 18 counts the
same conflict in ``pg_stat_subscription_stats``.
"""

from __future__ import annotations

from collections.abc import Mapping

from twopc.errors import KINDS

#: PostgreSQL's names for the conflict in logical replication, none if it does not arise there; and its meaning.
KINDS_TABLE: Mapping[str, tuple[tuple[str, ...], str]] = {
    "version_mismatch": (
        ("update_origin_differs",),
        "the row has changed at the Publisher since this copy of it was made",
    ),
    "row_missing": (
        ("update_missing", "delete_missing"),
        "the row is not at the Publisher any more",
    ),
    "delete_stale": (
        ("delete_origin_differs",),
        "the row that is to be deleted has changed at the Publisher since this copy was made",
    ),
    "insert_exists": (("insert_exists",), "a row with this key is at the Publisher already"),
    "update_exists": (("update_exists",), "another row at the Publisher has the new key already"),
    "multiple_unique": (
        ("multiple_unique_conflicts",),
        "the row clashes with several rows at the Publisher, by different unique keys",
    ),
    "fk_violation": ((), "a foreign key at the Publisher forbids it"),
    "not_in_partition": ((), "the row would be outside what this Subscriber receives"),
    "suppressed": ((), "a trigger at the Publisher kept the row from being changed"),
    "serialization_failure": (
        (),
        "the row has changed since the transaction's view of the data; at serializable also: what concurrent "
        "transactions of this node have read and changed may have no serial order",
    ),
    "deadlock": ((), "transactions wait for each other in a ring, on one node or across several"),
    "lock_timeout": ((), "a lock was not given in time"),
    "publisher_unreachable": ((), "the Publisher did not answer; nothing was left there"),
}


def markdown() -> str:
    """Return the table of kinds as the documentation shows it."""
    lines = [
        "| kind | what it means | SQLSTATE | SQL Server | PostgreSQL 18 |",
        "|---|---|---|---|---|",
    ]
    for name, (sqlstate, number) in KINDS.items():
        postgres, sentence = KINDS_TABLE[name]
        conflicts = ", ".join(f"`{each}`" for each in postgres) or "–"
        lines.append(f"| `{name}` | {sentence} | {sqlstate} | {number or '–'} | {conflicts} |")
    return "\n".join(lines) + "\n"
