"""Addresses of nodes for clients in the form of their driver: a DSN, a URL, Django's settings.

Independent of topologies and of the clients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote, urlencode

from psycopg import conninfo

from twopc.errors import ConfigurationError
from twopc.server import EmbeddedServer
from twopc.sim.topology.nodes import Node

#: Drivers that accept no `application_name` in SQLAlchemy's URLs, with the alternative.
_NAME_OUTSIDE_URL = {
    "asyncpg": 'create_async_engine(url, connect_args={{"server_settings": {{"application_name": "{name}"}}}})'
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddress:
    """A database and the credentials to connect with; over TCP for embedded servers, which every driver supports."""

    dsn: str = field(repr=False)
    """Connection string for libpq, with all given parameters."""
    host: str
    port: str
    database: str
    user: str
    password: str = field(repr=False)
    application_name: str = ""

    @classmethod
    def of_application(cls, node: Node, *, application_name: str = "") -> Self:
        """Return a node's address for the application's role."""
        dsn = node.app_dsn
        if isinstance(node.server, EmbeddedServer):
            dsn = node.server.dsn(node.database, node.app_role, node.app_password, tcp=True)
        return cls._of(dsn, application_name)

    @classmethod
    def of_administrator(cls, node: Node) -> Self:
        """Return a node's address for the role that creates tables."""
        dsn = node.dsn
        if isinstance(node.server, EmbeddedServer):
            dsn = node.server.dsn(node.database, tcp=True)
        return cls._of(dsn, "twopc template")

    @classmethod
    def _of(cls, dsn: str, application_name: str) -> Self:
        parts = {key: str(value) for key, value in conninfo.conninfo_to_dict(dsn).items()}
        return cls(
            dsn=conninfo.make_conninfo(dsn, application_name=application_name or None),
            host=parts.get("host", ""),
            port=parts.get("port", ""),
            database=parts.get("dbname", ""),
            user=parts.get("user", ""),
            password=parts.get("password", ""),
            application_name=application_name,
        )

    def url(self, driver: str) -> str:
        """Return SQLAlchemy's URL, ``postgresql+driver://…``; a plain ``postgresql://…`` if no driver is named.

        Raises:
            ConfigurationError: an `application_name` that this driver does not accept in a URL.
        """
        if self.application_name and driver in _NAME_OUTSIDE_URL:
            text = _NAME_OUTSIDE_URL[driver].format(name=self.application_name)
            raise ConfigurationError(
                f"application_name={self.application_name!r}: SQLAlchemy's {driver} takes none from a URL; leave "
                f"it out and say {text}"
            )
        who, database = quote(self.user, safe=""), quote(self.database, safe="")
        if self.password:
            who += f":{quote(self.password, safe='')}"
        host, query = self.host, {}
        if host.startswith("/"):
            query["host"], host = host, ""
        if self.application_name:
            query["application_name"] = self.application_name
        where = host + (f":{self.port}" if self.port else "")
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        more = f"?{urlencode(query, quote_via=quote)}" if query else ""
        return f"{scheme}://{who}@{where}/{database}{more}"

    def django(self) -> dict[str, Any]:
        """Return an entry of Django's ``DATABASES``."""
        options = {"application_name": self.application_name} if self.application_name else {}
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": self.database,
            "USER": self.user,
            "PASSWORD": self.password,
            "HOST": self.host,
            "PORT": self.port,
            "OPTIONS": options,
        }
