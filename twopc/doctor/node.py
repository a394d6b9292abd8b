"""The database that is examined, and short ways to ask it.

It must not know what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from twopc.doctor.finding import Finding, RoleOfNode


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedNode:
    """The database that is looked at, through the role that will work there."""

    connection: psycopg.Connection[dict[str, Any]]
    role_of_node: RoleOfNode
    asks_for_password: bool
    """Whether the server wants a password of a role that no special rule knows."""
    registered: frozenset[str] | None = None
    """The slots that the distribution databases know which were named too; None: none was."""

    @property
    def role(self) -> str:
        """The role that looks."""
        return self.connection.info.user

    @property
    def database(self) -> str:
        """The database's name."""
        return self.connection.info.dbname

    def rows(self, query: LiteralString, *parameters: object) -> list[dict[str, Any]]:
        """All rows of a query."""
        return self.connection.execute(query, parameters).fetchall()

    def row(self, query: LiteralString, *parameters: object) -> dict[str, Any]:
        """The only row of a query."""
        (row,) = self.rows(query, *parameters)
        return row

    def setting(self, name: str) -> Setting | None:
        """A setting as it is for this role here; None if this server does not have it."""
        rows = self.rows(
            "SELECT name, setting, current_setting(name) AS shown, source, pending_restart"
            " FROM pg_settings WHERE name = %s",
            name,
        )
        return Setting(**rows[0]) if rows else None

    def number(self, name: str) -> int:
        """The value of a setting that every server has, in its base unit."""
        setting = self.setting(name)
        assert setting is not None
        return int(setting.setting)


Check = Callable[[ExaminedNode], Iterator[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row of ``pg_settings``."""

    name: str
    setting: str
    """The value in the base unit."""
    shown: str
    """The value as people write it."""
    source: str
    """Who set it: a configuration file, the database, the role, the client."""
    pending_restart: bool
    """Whether the configuration file has another value already."""

    def __str__(self) -> str:
        return self.shown + (" until the server is restarted" if self.pending_restart else "")
