"""SQL text of all objects that a publication creates at the Publisher, except the procedures.

Pure. `twopc.publisher.publication` executes the text.
"""

from __future__ import annotations

from psycopg import sql

from twopc import names
from twopc.articles import Table
from twopc.sql.catalog_texts import PINNED
from twopc.sql.fragments import SALT, qualified
from twopc.sql.render import compose, render
from twopc.sql.table_role import path_is_kept


def owner_role(database: str) -> str:
    """Return the role that owns the product's objects in a database: it cannot log in, and is not a superuser."""
    return names.role("owner", database)


def shared_objects(owner: sql.Identifier) -> list[str]:
    """Return the texts of the objects at a Publisher that do not depend on an article."""
    return [
        render("twopc.publisher", "catalog", owner=owner),
        render("twopc.publisher", "filtered_articles", owner=owner),
        render("twopc.publisher", "sysprocarticles", owner=owner),
        render("twopc.publisher", "log_message", owner=owner),
        render("twopc.publisher", "call_marker", owner=owner),
        render(
            "twopc.publisher",
            "filter_rows",
            owner=owner,
            path_is_kept=path_is_kept("of a row filter"),
        ),
        render("twopc", "branch_marker", owner=owner),
        render("twopc", "raise_conflict", owner=owner),
        render("twopc", "raise_stale", owner=owner),
        render("twopc", "table_structure", owner=owner, pinned=PINNED),
        render("twopc", "touched_tables", owner=owner),
        render(
            "twopc",
            "fingerprints",
            owner=owner,
            pinned=PINNED,
            more=sql.SQL("\n{}").format(compose("twopc.publisher", "identity_fingerprints")),
        ),
        render("twopc", "missing_fingerprint", owner=owner),
        render("twopc", "refuse_truncate_function", owner=owner),
        render("twopc.publisher", "await_branches", owner=owner),
        render("twopc.publisher", "defer_keys", owner=owner),
        render("twopc.publisher", "touched_row", owner=owner),
        render("twopc.publisher", "raise_triggered", owner=owner),
        render("twopc.publisher", "check_touched", owner=owner),
        render("twopc.publisher", "witness", owner=owner),
        render(
            "twopc.publisher",
            "version_trigger_function",
            owner=owner,
            owner_name=sql.Literal(owner.as_string(None)[1:-1]),
            salt=SALT,
        ),
        render("twopc.publisher", "ddl_guard_function", owner=owner),
        render("twopc", "ddl_guard_triggers"),
        *_call_objects(owner),
    ]


def _call_objects(owner: sql.Identifier) -> list[str]:
    """Return the texts of the objects that calls of published routines need."""
    return [
        render(
            "twopc.publisher",
            "proc_schema",
            owner=owner,
            owner_name=sql.Literal(owner.as_string(None)[1:-1]),
        ),
        *(
            render("twopc.publisher", name, owner=owner)
            for name in (
                "forget_calls",
                "open_bracket",
                "close_bracket",
                "call_settings",
                "proc_fit_body",
            )
        ),
        *(
            render("twopc.publisher", name, owner=owner, pinned=PINNED)
            for name in ("proc_obstacle", "proc_described", "proc_redefined")
        ),
        # the guard redefines routines that belong to users
        render("twopc.publisher", "proc_ddl_guard", owner=sql.SQL("current_user"), pinned=PINNED),
    ]


def trigger_texts(table: Table, role: str) -> list[str]:
    """Return the texts of the Publisher's triggers: row versions on the table, TRUNCATE on each partition as well.

    Args:
        role: role with whose privileges Subscribers' changes are made.
    """
    truncate = sql.Identifier(names.truncate_trigger(table.schema, table.name))
    other_versions = any(
        trigger.before and trigger.row and (trigger.insert or trigger.update)
        for trigger in (*table.triggers, *table.partition_triggers)
    )
    return [
        render(
            "twopc.publisher",
            "version_trigger",
            trigger=sql.Identifier(names.version_trigger(table.schema, table.name)),
            table=qualified(table.schema, table.name),
            role=sql.Literal(role),
            more=sql.SQL(", 'keep none'" if other_versions else ""),
        ),
        *(
            render(
                "twopc", "refuse_truncate_trigger", trigger=truncate, table=qualified(schema, name)
            )
            for schema, name in ((table.schema, table.name), *table.partitions)
        ),
    ]
