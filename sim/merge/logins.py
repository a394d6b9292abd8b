"""Logins of merge agents, with passwords that are stored nowhere.

A process with an administrator's connection gives an agent's role a new password and logs in with it. Any number of
processes can therefore run sessions, one after another, and no file or table holds a secret.
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

#: Maximum number of attempts, since another process may change the role's password before the login.
_ATTEMPTS_MAX = 5
ANSWER_TIMEOUT_S = 5.0
"""Timeout after which a kept connection is given up: its other end does not answer, for example after a network
failure.
"""
_KNOWN = "select from msrepl.sysmergesubscriptions where subscriber_server = %s and not is_self"


class AgentLogin:
    """The login of an agent at one node for one neighbour.

    Args:
        node: the node at which the agent works.
        neighbour: the neighbour for which it works.
    """

    def __init__(self, node: Node, neighbour: str) -> None:
        self._node = node
        self._neighbour = neighbour
        self._password: str | None = None
        self._kept: AsyncConnection[Any] | None = None

    async def make(self, admin: AsyncConnection[Any]) -> None:
        """Create the agent's role, or change its password."""
        password = secrets.token_urlsafe(24)
        await neighbours.make_agent(admin, self._neighbour, password)
        self._password = password

    async def connect(
        self, settings: Mapping[str, str], application_name: str
    ) -> AsyncConnection[Any]:
        """Log in, in autocommit mode, or reuse the kept connection.

        Args:
            settings: of the session, the same at each call.
            application_name: the same at each call.

        Raises:
            SubscriptionError: the two nodes do not merge.
            psycopg.OperationalError: the node cannot be reached.
        """
        if (kept := await self._take_up()) is not None:
            return kept
        if self._password is not None:
            try:
                return await self._log_in(settings, application_name)
            except psycopg.OperationalError:
                pass  # another process has changed the password, or the node is unreachable
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
        """Keep a connection for the next session: a backend that has worked before answers faster."""
        await self.close()
        self._kept = connection

    async def close(self) -> None:
        """Close the kept connection; idempotent."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept.close()

    async def _take_up(self) -> AsyncConnection[Any] | None:
        """Return the kept connection, unless the server has closed it or dropped its role."""
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
            prepare_threshold=None,  # DISCARD ALL drops prepared statements
            application_name=application_name,
            options=path.options(dsn, settings),
        )
