"""Installation of the coordinator's objects in the databases: created by an administrator, used by the
coordinator's role.

Independent of articles and links; the table of branch markers belongs to Publisher and Subscribers and already
exists at a participant.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.sql.render import render

Connection = AsyncConnection[Any]

_DECISION_LOG = (
    "coordinator",
    "coordinator_epoch",
    "living_epoch",
    "decision",
    "heuristic_outcome",
)
_DECISION_LOG_FUNCTIONS = ("open_epoch", "resume_epoch", "fence_epochs", "log_decisions")
_PARTICIPANT = (
    "coordinator_key",
    "introduce_coordinator",
    "fence_branch",
    "forget_branches",
    "release_branches",
    "forget_epoch",
)


async def install_decision_log(
    connection: Connection, coordinator_role: str, name: str | None = None
) -> None:
    """Create the decision log in the distribution database. Idempotent.

    Args:
        name: name of the topology, by which an operator finds the log.
    """
    coordinator = sql.Identifier(coordinator_role)
    async with connection.transaction():
        schema = sql.SQL("create schema if not exists {}").format(sql.Identifier(names.SCHEMA))
        texts = (
            schema.as_string(None),
            *(render("twopc", table) for table in _DECISION_LOG),
            *(render("twopc", each, coordinator=coordinator) for each in _DECISION_LOG_FUNCTIONS),
            render("twopc", "decision_log_grants", coordinator=coordinator),
        )
        await connection.execute(";\n".join(texts).encode())
        if name is not None:
            await connection.execute(
                "insert into msrepl.coordinator values (%s) on conflict do nothing", (name,)
            )


async def install_participant(
    connection: Connection, owner_role: str, coordinator_role: str
) -> None:
    """Create the objects that settle branches in a participant's database, which has the branch markers already.
    Idempotent.
    """
    async with connection.transaction():
        texts = participant_texts(owner_role, coordinator_role)
        await connection.execute(";\n".join(texts).encode())


def participant_texts(owner_role: str, coordinator_role: str) -> list[str]:
    """Return the statements that `install_participant` executes."""
    owner, coordinator = sql.Identifier(owner_role), sql.Identifier(coordinator_role)
    return [
        *(render("twopc", function, owner=owner) for function in _PARTICIPANT),
        render("twopc", "participant_grants", coordinator=coordinator),
    ]
