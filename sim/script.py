"""The script of a subscription: everything that a Subscriber must run, as one SQL text.

It corresponds to sp_script_synctran_commands (seed 002): for a subscription that is not initialised by us (sync
type "none"), whose tables and rows are at the Subscriber already, row versions included. The link's password is not
in the text; it is supplied by the caller of `twopc.subscriber.subscription.addsynctriggers`, or set manually after
running the script with psql.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncClientCursor, AsyncConnection, AsyncCursor, sql

from twopc.subscriber.objects import LinkAddress, owner_role, user_mapping_text
from twopc.subscriber.trigger_order import Obstacle
from twopc.subscriber.triggers import BranchNames

#: Statements without lasting effect; calls of functions of schema msrepl have one.
_READ_ONLY = re.compile(r"(?:select(?! msrepl\.)|with|show|set)\b", re.IGNORECASE)

_HEAD = """\
-- Subscription of {subscriber} to {publisher}, sync type "none": run it in database {database} as a superuser.
--
--   psql --single-transaction --set ON_ERROR_STOP=1 --file THIS_FILE
--
-- The tables are there already, with the Publisher's rows and row versions. Then tell the link its password
-- (at the Publisher: ALTER ROLE {role} PASSWORD ...):
--
--   {mapping};
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncScript:
    """The script of one subscription, with the link's credentials."""

    text: str
    role: str
    """Role of the link at the Publisher."""
    obstacles: tuple[Obstacle, ...] = ()
    """Triggers of the user that would fire before ours, because of which the subscription begins inactive."""
    password: str = field(repr=False)


class Trial(AsyncConnection[Any]):
    """A connection that records the statements that change something; run in a transaction that is rolled back,
    they are the script.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.texts: list[str] = []

    async def execute(self, query: Any, params: Any = None, **options: Any) -> AsyncCursor[Any]:
        """See `psycopg.AsyncConnection.execute`; record a statement that changes something."""
        text = AsyncClientCursor(self).mogrify(query, params).strip()
        cursor = await super().execute(query, params, **options)
        if not _READ_ONLY.match(text):
            self.texts.append(text)
        return cursor


def script_synctran_commands(
    commands: Sequence[str], *, database: str, sites: BranchNames, link: LinkAddress
) -> str:
    """Return the script, made of the recorded commands.

    Args:
        database: the Subscriber's.
    """
    mapping = user_mapping_text(sql.Identifier(owner_role(database)), link.role, "...")
    head = _HEAD.format(
        subscriber=sites.subscriber,
        publisher=sites.publisher,
        database=database,
        role=link.role,
        mapping=mapping,
    )
    return head + "".join(f"\n{each.strip().removesuffix(';')};\n" for each in commands)
