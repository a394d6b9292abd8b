"""A server that was already running: used through its DSN, never started or stopped.

This module must not depend on processes and files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, Self

import psycopg
from psycopg import conninfo

from twopc.errors import ConfigurationError
from twopc.server.connection_strings import plain_dsn
from twopc.server.databases import Answer, create_databases, drop_databases

_CONNECT_TIMEOUT_S = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalServer:
    """A server that is run by others; the role of the DSN need not be a superuser."""

    can_crash: ClassVar[bool] = False
    """Whether `crash`, `kill` and `restart` work."""

    conninfo: str = field(repr=False)  # it may hold a password
    where: str
    """Host and port, for messages."""

    @classmethod
    def from_dsn(cls, dsn: str) -> Self:
        """Return the server that a URI or a ``key=value`` string names, without connecting.

        Raises `ServerError` if the text is neither.
        """
        plain = plain_dsn(dsn)
        parameters = conninfo.conninfo_to_dict(plain)
        place = parameters.get("host") or parameters.get("hostaddr") or "the local socket"
        return cls(conninfo=plain, where=f"{place}:{parameters.get('port') or 5432}")

    def dsn(self, database: str, user: str | None = None, password: str | None = None) -> str:
        """Return a connection string for a database of the server, as another role if given."""
        changes: dict[str, Any] = {"dbname": database}
        if user is not None:
            changes |= {"user": user, "password": password}
        return conninfo.make_conninfo(self.conninfo, **changes)

    def superuser_dsn(self, database: str) -> str:
        """Return `dsn` with the role of the given DSN, the most privileged one available."""
        return self.dsn(database)

    def is_running(self) -> bool:
        """Return whether a connection succeeds within three seconds."""
        try:
            psycopg.connect(self.conninfo, connect_timeout=_CONNECT_TIMEOUT_S).close()
        except psycopg.OperationalError:
            return False
        return True

    def create_database(self, *names: str, template: str | None = None) -> None:
        """See `databases.create_databases`."""
        create_databases(self.conninfo, names, template)

    def drop_database(self, *names: str, may_roll_back: Answer | None = None) -> None:
        """See `databases.drop_databases`."""
        drop_databases(self.conninfo, names, may_roll_back=may_roll_back)

    def crash(self) -> NoReturn:
        """Raise `ConfigurationError`."""
        self._refuse("crashed")

    def kill(self) -> NoReturn:
        """Raise `ConfigurationError`."""
        self._refuse("killed")

    def restart(self) -> NoReturn:
        """Raise `ConfigurationError`."""
        self._refuse("restarted")

    def stop(self) -> None:
        """Do nothing: the server is stopped by its owner."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigurationError(
            f"the server at {self.where} was not started by us and is not {what}:"
            " use an embedded server for this (give no DSN)"
        )
