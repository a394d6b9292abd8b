"""The database that is examined, with helpers for queries.

This module must not depend on which queries are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from twopc.doctor.finding import Finding, RoleOfNode


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedNode:
    """The database that is examined, with the role that will be used later."""

    connection: psycopg.Connection[dict[str, Any]]
    role_of_node: RoleOfNode
    asks_for_password: bool
    """Whether the server asks for a password of a role that no special rule names."""
    registered: Mapping[str, str] | None = None
    """The slots that the distribution databases given with the Publisher know, each with the name of the Publisher's
    database; None if none was given.
    """

    @property
    def role(self) -> str:
        """Name of the role that is used."""
        return self.connection.info.user

    @property
    def database(self) -> str:
        """Name of the database."""
        return self.connection.info.dbname

    def rows(self, query: LiteralString, *parameters: object) -> list[dict[str, Any]]:
        """Return all rows of a query."""
        return self.connection.execute(query, parameters).fetchall()

    def row(self, query: LiteralString, *parameters: object) -> dict[str, Any]:
        """Return the only row of a query."""
        (row,) = self.rows(query, *parameters)
        return row

    def setting(self, name: str) -> Setting | None:
        """Return a setting with its value for this role and database; None if the server does not have it."""
        rows = self.rows(
            "SELECT name, setting, current_setting(name) AS shown, source, pending_restart"
            " FROM pg_settings WHERE name = %s",
            name,
        )
        return Setting(**rows[0]) if rows else None

    def number(self, name: str) -> int:
        """Return the value, in its base unit, of a setting that every server has."""
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
    """The value with its unit, as users write it."""
    source: str
    """Where the value was set: a configuration file, the database, the role, the client."""
    pending_restart: bool
    """Whether the configuration file has a new value that needs a restart."""

    def __str__(self) -> str:
        return self.shown + (" until the server is restarted" if self.pending_restart else "")
