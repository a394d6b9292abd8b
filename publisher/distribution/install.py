"""Create the tables of a distribution database, and grant rights on them to roles.

The tables belong to the administrator who creates them. Nothing is granted to PUBLIC.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.sql.render import render

Connection = AsyncConnection[Any]

#: Tables and routines, in the order of creation.
TABLES = (
    "mspublisher_databases",
    "msrepl_originators",
    "msarticles",
    "msarticle_shapes",
    "mssubscriptions",
    "msdistribution_agents",
    "mssubscription_positions",
    "msrepl_blocks",
    "transactions_between",
    "commands_between",
    "msrepl_transactions",
    "msrepl_archives",
    "msrepl_commands",
    "msdistribution_history",
    "mstracer_history",
    "registry_changed",
    "article_shaped",
    "refuse_store",
    "log_was_read",
    "part_was_read",
    "drop_parts",
    "keep_stored",
)


def install_texts(logreader_role: str, *agent_roles: str) -> list[str]:
    """Return the statements that `install` executes."""
    return [
        *(render("twopc.publisher", table) for table in TABLES),
        render("twopc.publisher", "logreader_grants", logreader=sql.Identifier(logreader_role)),
        *(
            render("twopc.publisher", "agent_grants", agent=sql.Identifier(role))
            for role in agent_roles
        ),
    ]


async def install(connection: Connection, logreader_role: str, *agent_roles: str) -> None:
    """Create the distribution tables, which may be in the Publisher's own database. Idempotent.

    Args:
        connection: an administrator's.
        logreader_role: existing role that appends transactions and commands.
        agent_roles: existing roles that read them and report the positions delivered.
    """
    async with connection.transaction():
        await connection.execute(
            sql.SQL("create schema if not exists {}").format(sql.Identifier(names.SCHEMA))
        )
        texts = install_texts(logreader_role, *agent_roles)
        await connection.execute(";\n".join(texts).encode())
