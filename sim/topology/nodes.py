"""Nodes: databases on embedded or existing servers, with the roles that work in them.

Independent of articles and subscriptions.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg
from psycopg import AsyncConnection, conninfo, sql

from twopc import names
from twopc.doctor.checks import version_finding
from twopc.drivers.database import DURABLE
from twopc.errors import ConfigurationError, ServerError
from twopc.server import EmbeddedServer, ExternalServer
from twopc.server.connection_strings import plain_dsns
from twopc.server.early_start import start_in_thread
from twopc.sim.topology import roles
from twopc.sim.topology.roles import admin_of
from twopc.sql import path
from twopc.sql.passwords import verifier
from twopc.sql.render import compose
from twopc.together import together

AnyServer = EmbeddedServer | ExternalServer

_count = itertools.count(1)

#: Kinds of our login roles, which are the same on every server of a topology, with their additional role attribute.
_ROLES = {"app": "", "coordinator": "", "logreader": "replication", "agent": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One database of a topology."""

    name: str
    """Name of the node in the topology, and of its branches in gids."""
    kind: str
    """``publisher``, ``subscriber`` or ``distribution``."""
    server: AnyServer = field(repr=False)
    database: str
    app_role: str
    """The application's role: not a superuser, with privileges on the tables only."""
    app_password: str = field(repr=False)
    coordinator_role: str
    coordinator_password: str = field(repr=False)
    logreader_role: str
    """The log reader's role: reads the Publisher's log, writes the distribution database."""
    logreader_password: str = field(repr=False)
    agent_role: str
    """The distribution agents' role: reads the distribution database and applies commands at Subscribers."""
    agent_password: str = field(repr=False)
    embedded: bool = True
    given_dsn: str = field(default="", repr=False)
    """The administrator's connection string, if one was given; other nodes on the same server may have another."""
    attached: bool = False
    """Whether the node existed already, with the administrator's role in place of every role of ours."""

    @property
    def dsn(self) -> str:
        """The administrator's connection string."""
        return self.given_dsn or self.server.superuser_dsn(self.database)

    @property
    def app_dsn(self) -> str:
        """The application's connection string."""
        return self._dsn_of(self.app_role, self.app_password)

    @property
    def coordinator_dsn(self) -> str:
        """The connection string of the coordinator's role."""
        return self._dsn_of(self.coordinator_role, self.coordinator_password)

    @property
    def logreader_dsn(self) -> str:
        """The connection string of the log reader's role."""
        return self._dsn_of(self.logreader_role, self.logreader_password)

    @property
    def agent_dsn(self) -> str:
        """The connection string of the agents' role."""
        return self._dsn_of(self.agent_role, self.agent_password)

    def _dsn_of(self, role: str, password: str) -> str:
        return self.dsn if self.attached else self.server.dsn(self.database, role, password)

    async def connect(self) -> AsyncConnection[Any]:
        """Open an administrator's connection in autocommit mode, whose commits survive a crash of the server."""
        connection = await AsyncConnection.connect(
            path.kept_alive(self.dsn),
            autocommit=True,
            options=path.options(self.dsn, path=None),
        )
        try:
            await connection.execute(DURABLE)
        except BaseException:
            await connection.close()
            raise
        return connection

    @property
    def link_options(self) -> dict[str, str]:
        """Connection options with which another server reaches this node: host, port and database."""
        parts = conninfo.conninfo_to_dict(self.dsn)
        return {k: str(parts[k]) for k in ("host", "hostaddr", "port", "dbname") if parts.get(k)}


def _credentials(roles: Mapping[str, str], passwords: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a node that hold its roles and their passwords."""
    return {f"{kind}_role": role for kind, role in roles.items()} | {
        f"{kind}_password": password for kind, password in passwords.items()
    }


def fresh_name() -> str:
    """Return a name for a topology that no other process on this machine uses at the same time."""
    return f"t{os.getpid()}_{next(_count)}"


async def in_thread(function: Any, *arguments: Any, **keywords: Any) -> Any:
    """Run a blocking function of `twopc.server` in a thread, without blocking the event loop."""
    return await asyncio.to_thread(partial(function, *arguments, **keywords))


class Nodes:
    """Creates and drops the nodes of one topology."""

    def __init__(
        self,
        *,
        name: str,
        kinds: Mapping[str, str],
        dsns: Mapping[str, str],
        servers: str,
        server: AnyServer | None,
        durable: bool,
        distribute: bool,
    ) -> None:
        """Create no node yet. `kinds` maps node names to kinds, the Publisher first; see `Topology` for the rest."""
        unknown = sorted(set(dsns) - set(kinds))
        if unknown:
            raise ConfigurationError(
                f"DSN given for {unknown[0]!r}, which is no node; nodes are {', '.join(kinds)}"
            )
        if servers not in ("one", "each"):
            raise ConfigurationError(f"servers={servers!r}: use 'one' or 'each'")
        self.name = name
        self._roles = {kind: names.role(kind, name) for kind in _ROLES}
        self._kinds = kinds
        self._dsns = plain_dsns(dsns)
        self._each = servers == "each"
        self._given = server
        self._durable = durable
        self._distribute = distribute
        self._own: list[EmbeddedServer] = []
        # roles belong to a server, so nodes on the same server must share its object
        self._existing: dict[str, ExternalServer] = {}
        self.nodes: dict[str, Node] = {}

    @property
    def has_servers(self) -> bool:
        """Whether this object has started servers, which it alone stops."""
        return bool(self._own)

    async def create(self) -> None:
        """Start servers, create databases and roles.

        Raises:
            ServerError: a server cannot be started or reached, or a privilege is missing.
        """
        servers = await self._servers()
        passwords = {kind: self._password(role) for kind, role in self._roles.items()}
        for node, kind in self._kinds.items():
            server, embedded = servers[node]
            given = self._dsns.get(node)
            database = (
                str(conninfo.conninfo_to_dict(given).get("dbname") or "postgres")
                if given
                else names.bounded(f"{self.name}_{node}")
            )
            self.nodes[node] = Node(
                name=node,
                kind=kind,
                server=server,
                database=database,
                given_dsn=conninfo.make_conninfo(given, dbname=database) if given else "",
                embedded=embedded,
                **_credentials(self._roles, passwords),
            )
        await together(*(self._prepare_server(own, passwords) for own in self._by_server()))

    def _by_server(self) -> list[list[Node]]:
        """Return the nodes of each server."""
        results: dict[int, list[Node]] = {}
        for node in self.nodes.values():
            results.setdefault(id(node.server), []).append(node)
        return list(results.values())

    def _password(self, role: str) -> str:
        """Return the password of one of our roles.

        On existing servers, every process that is given the same DSNs must derive the same password, or processes
        would lock each other out. The DSNs' passwords must not be derivable from it.
        """
        given = [
            str(conninfo.conninfo_to_dict(d).get("password") or "") for d in self._dsns.values()
        ]
        if not given or not all(given):
            return secrets.token_urlsafe(24)
        salt = f"{self.name}\0{role}".encode()
        return hashlib.scrypt(
            "\0".join(sorted(given)).encode(), salt=salt, n=2**14, r=8, p=1, dklen=24
        ).hex()

    async def attach(self, unreachable: Collection[str] = ()) -> None:
        """Attach to existing nodes. The administrator's role replaces each of our roles that does not exist.

        Args:
            unreachable: nodes that are known, and are not queried for their roles.
        """
        await together(
            *(
                self._attach(name, dsn, ask=name not in unreachable)
                for name, dsn in self._dsns.items()
            )
        )
        self.nodes = {name: self.nodes[name] for name in self._dsns}

    async def _attach(self, name: str, dsn: str, *, ask: bool = True) -> None:
        parts, server = conninfo.conninfo_to_dict(dsn), ExternalServer.from_dsn(dsn)
        role = str(parts.get("user") or "")
        there: set[str] = set()
        if ask:
            async with await AsyncConnection.connect(
                dsn, autocommit=True, options=path.options(dsn)
            ) as admin:
                there = await self._existing_roles(admin)
        roles = {kind: each if each in there else role for kind, each in self._roles.items()}
        database = str(parts.get("dbname") or role or "postgres")
        self.nodes[name] = Node(
            name=name,
            kind=self._kinds[name],
            server=self._existing.setdefault(server.where, server),
            database=database,
            given_dsn=conninfo.make_conninfo(dsn, dbname=database),
            embedded=False,
            attached=True,
            **_credentials(roles, dict.fromkeys(_ROLES, "")),
        )

    async def admit(self, name: str, like: str) -> None:
        """Create our roles, without passwords, on the server of an attached node, if node `like` has our roles."""
        node, own = self.nodes[name], self._roles
        if not node.attached or self.nodes[like].app_role != own["app"]:
            return
        async with await node.connect() as admin:
            for kind in ("app", "coordinator", "agent"):
                rows = await admin.execute("select from pg_roles where rolname = %s", (own[kind],))
                if not rows.rowcount:
                    await admin.execute(
                        sql.SQL("create role {} login").format(sql.Identifier(own[kind]))
                    )
            await admin.execute(
                compose("twopc", "grant_replica", role=sql.Identifier(own["agent"]))
            )
        await self._attach(name, self._dsns[name])

    async def _servers(self) -> dict[str, tuple[AnyServer, bool]]:
        results: dict[str, tuple[AnyServer, bool]] = {}
        shared = self._given
        fresh = [n for n in self._kinds if n not in self._dsns]
        requested: list[str] = []
        if self._given is None and fresh:
            # the distribution database is on the Publisher's server, as is usual for SQL Server
            requested = (
                [n for n in fresh if self._kinds[n] != "distribution"] if self._each else fresh[:1]
            )
            requested = requested or fresh[:1]
            started = await together(*(self._start() for _ in requested))
            by_name = dict(zip(requested, started, strict=True))
            shared = started[0]
        else:
            by_name = {}
        for node in self._kinds:
            if node in self._dsns:
                external = ExternalServer.from_dsn(self._dsns[node])
                results[node] = (self._existing.setdefault(external.where, external), False)
            else:
                assert shared is not None
                results[node] = (by_name.get(node, shared), True)
        return results

    async def _start(self) -> EmbeddedServer:
        server = await start_in_thread(partial(EmbeddedServer.start, durable=self._durable))
        # recorded at once, for the case that another server cannot be started
        self._own.append(server)
        return server

    async def _existing_roles(self, admin: AsyncConnection[Any]) -> set[str]:
        """Return those of our roles that a server has."""
        cursor = await admin.execute(
            "select rolname from pg_roles where rolname = any (%s)", (list(self._roles.values()),)
        )
        return {role for (role,) in await cursor.fetchall()}

    async def _prepare_server(self, own: Sequence[Node], passwords: Mapping[str, str]) -> None:
        """Create the roles and databases of the server of these nodes, which are all that it has."""
        server = own[0].server
        try:
            admin = await admin_of(own)
        except psycopg.OperationalError as error:
            names = [repr(node.name) for node in own]
            where = f"node {names[0]}" if len(names) == 1 else f"nodes {', '.join(names)}"
            raise ServerError(f"{where} cannot be reached: {error}") from None
        async with admin:
            await _check_fit(admin, own)
            kinds = {node.kind for node in own}
            there = await self._existing_roles(admin)
            texts: list[sql.Composable] = []
            for kind, role in self._roles.items():
                if not self._distribute and kind not in ("app", "coordinator"):
                    continue
                verb = "alter" if role in there else "create"
                attribute = _ROLES[kind] if "publisher" in kinds else ""
                texts.append(
                    sql.SQL(f"{verb} role {{}} login {attribute} password {{}}").format(
                        sql.Identifier(role), verifier(admin, role, passwords[kind])
                    )
                )
            if self._distribute and "subscriber" in kinds:
                texts.append(
                    compose("twopc", "grant_replica", role=sql.Identifier(self._roles["agent"]))
                )
            await admin.execute(sql.SQL(";").join(texts))
        fresh = [node.database for node in own if node.embedded]
        if fresh:
            await in_thread(server.create_database, *fresh)

    async def drop(self, may_roll_back: Any) -> None:
        """Drop databases and roles and stop servers; existing databases are kept."""
        if self._own:
            await together(*(in_thread(server.stop) for server in self._own))
            return
        for own in self._by_server():
            databases = [node.database for node in own if node.embedded]
            if databases and own[0].server.is_running():
                drop = own[0].server.drop_database
                await in_thread(drop, *databases, may_roll_back=may_roll_back)
        await self.drop_roles()

    async def drop_roles(self) -> None:
        """Drop our roles on running servers.

        Raises:
            ConfigurationError: a role has objects or privileges in a database that is not a node; nothing is
                dropped.
        """
        running = [own for own in self._by_server() if await in_thread(own[0].server.is_running)]
        for own in running:
            await roles.refuse_elsewhere(own, self._roles_of(own))
        for own in running:
            await roles.drop(own, self._roles_of(own))

    def _roles_of(self, own: Sequence[Node]) -> list[str]:
        """Return our roles on the server of these nodes."""
        results = {*self._roles.values()}
        for node in own:
            # in databases that are kept, uninstalling has dropped these roles; those of other topologies
            # are not ours
            if node.embedded:
                results.add(names.role("owner", node.database))
            if node.kind == "publisher" and node.embedded:
                results |= {
                    names.role("link", node.database, other)
                    for other, kind in self._kinds.items()
                    if kind == "subscriber"
                }
        return sorted(results)


async def _check_fit(connection: AsyncConnection[Any], nodes: Sequence[Node]) -> None:
    """Refuse a server on which no transaction could ever commit; all other checks are the doctor's.

    Raises:
        ServerError: names the nodes and the command that corrects the server.
    """
    cursor = await connection.execute(
        "select current_setting('max_prepared_transactions')::int, current_setting('server_version_num')::int"
    )
    [(prepared, version)] = await cursor.fetchall()
    where = " and ".join(repr(node.name) for node in nodes)
    finding = version_finding(version)
    if finding.level == "error":
        raise ServerError(f"node {where}: {finding.what} {finding.state}: {finding.remedy}")
    if prepared == 0:
        raise ServerError(
            f"node {where}: max_prepared_transactions is 0, so nothing can be prepared: "
            "ALTER SYSTEM SET max_prepared_transactions = 200; -- and restart the server"
        )
