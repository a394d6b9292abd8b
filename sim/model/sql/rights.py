"""Rights to define objects, of owners and superusers as in PostgreSQL.

Rights to rows, and to call routines, are not checked.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from twopc.sim.model.node.constraints import bare
from twopc.sim.model.node.heap import HeapTable
from twopc.sim.model.values import SqlError

#: Rights to a table that are checked; an application has none of them unless they are granted.
_OF_TABLES = frozenset({"maintain", "trigger", "truncate"})


def is_superuser(tx: Any) -> bool:
    """Whether a transaction's role is a superuser."""
    return tx.session_user in tx.node.superusers


def owns(tx: Any, table: HeapTable) -> bool:
    """Whether a transaction's role may change a table's definition."""
    return is_superuser(tx) or table.owner == tx.session_user


def must_own(tx: Any, table: HeapTable, what: str = "table") -> None:
    """Raise 42501 if a transaction's role may not change a table's definition or comment.

    Args:
        what: word for the table in the server's message.
    """
    if not owns(tx, table):
        raise SqlError("42501", f"must be owner of {what} {bare(table)}")


def grant(tx: Any, table: HeapTable, given: Collection[str], roles: Collection[str]) -> None:
    """Execute GRANT on a table; without effect, as with the server's warning, if the role is not the owner."""
    if owns(tx, table):
        for right in _OF_TABLES if "all" in given else _OF_TABLES & {*given}:
            table.granted.setdefault(right, set()).update(roles)


def has(tx: Any, table: HeapTable, right: str) -> bool:
    """Whether a transaction's role has one of the rights that are checked."""
    roles = table.granted.get(right, ())
    return owns(tx, table) or "public" in roles or tx.session_user in roles


def must_have(tx: Any, table: HeapTable, right: str) -> None:
    """Raise 42501 if a transaction's role lacks one of the rights that are checked."""
    if not has(tx, table, right):
        raise SqlError("42501", f"permission denied for table {bare(table)}")


def must_be_superuser(tx: Any, message: str) -> None:
    """Raise 42501 with this message if a transaction's role is not a superuser."""
    if not is_superuser(tx):
        raise SqlError("42501", message)
