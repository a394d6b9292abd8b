"""A server that was running before us: used through its DSN, never started or stopped.

It must not know anything of processes and files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, NoReturn, Self

import psycopg
from psycopg import conninfo

from twopc.errors import ConfigurationError, ServerError
from twopc.server.databases import Answer, create_databases, drop_databases

_CONNECT_TIMEOUT_S = 3
#: SQLAlchemy's URLs name the driver: ``postgresql+psycopg://``.
_DRIVER = re.compile(r"\A(postgres(?:ql)?)\+\w+(?=://)")
_URI = re.compile(r"\Apostgres(?:ql)?://(?P<authority>[^/?]*)(?P<path>[^?]*)")
_PORT_MAX = 65535
_NUMBER = re.compile(r"-?[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalServer:
    """A server that somebody else runs; the role of the DSN may be a superuser or not."""

    can_crash: ClassVar[bool] = False
    """Whether `crash`, `kill` and `restart` work."""

    conninfo: str = field(repr=False)  # it may hold a password
    where: str
    """Host and port, for people."""

    @classmethod
    def from_dsn(cls, dsn: str) -> Self:
        """The server that a URI or a ``key=value`` string names; does not connect.

        Raises `ServerError` if it is neither.
        """
        plain = plain_dsn(dsn)
        parameters = conninfo.conninfo_to_dict(plain)
        place = parameters.get("host") or parameters.get("hostaddr") or "the local socket"
        return cls(conninfo=plain, where=f"{place}:{parameters.get('port') or 5432}")

    def dsn(self, database: str, user: str | None = None, password: str | None = None) -> str:
        """A connection string for a database there, as another role if one is named."""
        changes: dict[str, Any] = {"dbname": database}
        if user is not None:
            changes |= {"user": user, "password": password}
        return conninfo.make_conninfo(self.conninfo, **changes)

    def superuser_dsn(self, database: str) -> str:
        """As `dsn`, with the role of the DSN: the most that we have here."""
        return self.dsn(database)

    def is_running(self) -> bool:
        """Whether it lets us in within three seconds."""
        try:
            psycopg.connect(self.conninfo, connect_timeout=_CONNECT_TIMEOUT_S).close()
        except psycopg.OperationalError:
            return False
        return True

    def create_database(self, *names: str, template: str | None = None) -> None:
        """As `databases.create_databases`."""
        create_databases(self.conninfo, names, template)

    def drop_database(self, *names: str, may_roll_back: Answer | None = None) -> None:
        """As `databases.drop_databases`."""
        drop_databases(self.conninfo, names, may_roll_back=may_roll_back)

    def crash(self) -> NoReturn:
        """Raises `ConfigurationError`."""
        self._refuse("crashed")

    def kill(self) -> NoReturn:
        """Raises `ConfigurationError`."""
        self._refuse("killed")

    def restart(self) -> NoReturn:
        """Raises `ConfigurationError`."""
        self._refuse("restarted")

    def stop(self) -> None:
        """Leave it running: whoever started it will stop it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigurationError(
            f"the server at {self.where} was not started by us and is not {what}:"
            " use an embedded server for this (give no DSN)"
        )


def plain_dsn(dsn: str) -> str:
    """A connection string as libpq takes it: of a URL with the name of a driver, without that name.

    Raises:
        ServerError: it is no connection string, or a password in it is not escaped. The message has no part of it.
    """
    plain = _DRIVER.sub(r"\1", dsn)
    try:
        parameters = conninfo.conninfo_to_dict(plain)
    except (psycopg.Error, UnicodeError):
        parameters = None
    # What libpq says quotes the string, which may hold a password: neither shown nor chained.
    if parameters is None or not _is_escaped(plain) or not _has_numbers(parameters):
        raise ServerError(
            "the DSN is not a connection string: write it as postgresql://user@host:port/database"
            " or as key=value pairs, with %-escapes or quotes where a value needs them, a number as port, and"
            " parameters of libpq (sslmode, not ssl)"
        ) from None
    return plain


def plain_dsns(nodes: Mapping[str, str]) -> dict[str, str]:
    """Connection strings of nodes; raises `ServerError` as `plain_dsn`, with the node's name."""
    results: dict[str, str] = {}
    for name, dsn in nodes.items():
        try:
            results[name] = plain_dsn(dsn)
        except ServerError as error:
            raise ServerError(f"node {name!r}: {error}") from None
    return results


def parse_dsn(dsn: str) -> dict[str, Any]:
    """The parameters of a connection string; raises `ServerError` as `plain_dsn`."""
    return dict(conninfo.conninfo_to_dict(plain_dsn(dsn)))


def _is_escaped(dsn: str) -> bool:
    """Of a URI: no character of the user or the password is taken for the end of them, or for their beginning."""
    uri = _URI.match(dsn)
    return uri is None or (uri["authority"].count("@") <= 1 and "@" not in uri["path"])


def _has_numbers(parameters: Mapping[str, Any]) -> bool:
    """No port is something else, as the password of ``postgresql://user:password/database``."""
    timeout = str(parameters.get("connect_timeout") or "0")
    return _NUMBER.fullmatch(timeout) is not None and all(
        _NUMBER.fullmatch(port) is not None and int(port) <= _PORT_MAX
        for port in str(parameters.get("port") or "").split(",")
        if port
    )
