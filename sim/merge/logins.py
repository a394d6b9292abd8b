"""How merge agents log in: by passwords that are kept nowhere.

Whoever has an administrator's connection gives an agent's role a new password and logs in with it. So any number of
processes can run sessions, one after another, and no file or table holds a secret.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import AsyncConnection

from twopc.drivers.merge import neighbours
from twopc.errors import SubscriptionError
from twopc.sim.topology.nodes import Node
from twopc.sql import path

#: Another process may give the role another password before we have logged in.
_ATTEMPTS_MAX = 5
ANSWER_TIMEOUT_S = 5.0
"""After which a kept connection is given up: whoever is at its other end is silent, as behind a network that was cut."""
_KNOWN = "select from msrepl.sysmergesubscriptions where subscriber_server = %s and not is_self"


class AgentLogin:
    """The agent that works at one node for one neighbour.

    Args:
        node: where it works.
        neighbour: for whom.
    """

    def __init__(self, node: Node, neighbour: str) -> None:
        self._node = node
        self._neighbour = neighbour
        self._password: str | None = None
        self._kept: AsyncConnection[Any] | None = None

    async def make(self, admin: AsyncConnection[Any]) -> None:
        """Make its role, or give the role another password."""
        password = secrets.token_urlsafe(24)
        await neighbours.make_agent(admin, self._neighbour, password)
        self._password = password

    async def connect(
        self, settings: Mapping[str, str], application_name: str
    ) -> AsyncConnection[Any]:
        """Log in, in autocommit mode, or take up what was kept.

        Args:
            settings: of the session, the same each time.
            application_name: likewise.

        Raises:
            SubscriptionError: the two do not merge.
            psycopg.OperationalError: the node cannot be reached.
        """
        if (kept := await self._take_up()) is not None:
            return kept
        if self._password is not None:
            try:
                return await self._log_in(settings, application_name)
            except psycopg.OperationalError:
                pass  # another process has given the role another password, or nobody is there
        async with await self._node.connect() as admin:
            if not (await admin.execute(_KNOWN, (self._neighbour,))).rowcount:
                raise SubscriptionError(
                    f"{self._neighbour} does not subscribe, as {self._node.name} knows: subscribe it first"
                )
            for _ in range(_ATTEMPTS_MAX - 1):
                await self.make(admin)
                try:
                    return await self._log_in(settings, application_name)
                except psycopg.OperationalError:
                    continue
            await self.make(admin)
            return await self._log_in(settings, application_name)

    async def keep(self, connection: AsyncConnection[Any]) -> None:
        """Have the next session take up a connection: a server process that has worked before answers sooner."""
        await self.close()
        self._kept = connection

    async def close(self) -> None:
        """Disconnect what is kept; idempotent."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept.close()

    async def _take_up(self) -> AsyncConnection[Any] | None:
        """What was kept, if the server has not ended it, nor dropped the role that has logged in."""
        kept, self._kept = self._kept, None
        if kept is not None:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    await kept.execute("select session_user")
            except BaseException as error:
                await kept.close()
                if not isinstance(error, (psycopg.Error, TimeoutError)):
                    raise
                return None
        return kept

    async def _log_in(
        self, settings: Mapping[str, str], application_name: str
    ) -> AsyncConnection[Any]:
        role = neighbours.agent_role(self._node.database, self._neighbour)
        dsn = self._node.server.dsn(self._node.database, role, self._password)
        return await AsyncConnection.connect(
            dsn,
            autocommit=True,
            prepare_threshold=None,  # DISCARD ALL ends what is prepared
            application_name=application_name,
            options=path.options(dsn, settings),
        )
