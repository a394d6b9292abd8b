"""Connection strings: validated, and converted to libpq's syntax, before any other use.

This module must not depend on the server at the other end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import conninfo

from twopc.errors import ServerError

#: Seconds after which a connection attempt fails if the server does not answer, unless the connection string sets
#: a timeout.
CONNECT_TIMEOUT_S = 5
#: SQLAlchemy's URLs name the driver: ``postgresql+psycopg://``.
_DRIVER = re.compile(r"\A(postgres(?:ql)?)\+\w+(?=://)")
_URI = re.compile(r"\Apostgres(?:ql)?://(?P<authority>[^/?]*)(?P<path>[^?]*)")
_PORT_MAX = 65535
_NUMBER = re.compile(r"-?[0-9]{1,9}")


def plain_dsn(dsn: str) -> str:
    """Return a connection string in libpq's syntax; the name of a driver is removed from a URL.

    Raises:
        ServerError: the text is not a connection string, or a password in it is not escaped. The message contains
            no part of the text.
    """
    plain = _DRIVER.sub(r"\1", dsn)
    try:
        parameters = conninfo.conninfo_to_dict(plain)
    except (psycopg.Error, UnicodeError):
        parameters = None
    # libpq's message quotes the string, which may contain a password, so the message is neither shown nor
    # chained.
    if parameters is None or not _is_escaped(plain) or not _has_numbers(parameters):
        raise ServerError(
            "the DSN is not a connection string: write it as postgresql://user@host:port/database"
            " or as key=value pairs, with %-escapes or quotes where a value needs them, a number as port, and"
            " parameters of libpq (sslmode, not ssl)"
        ) from None
    return plain


def plain_dsns(nodes: Mapping[str, str]) -> dict[str, str]:
    """Return `plain_dsn` of each node's connection string; raise `ServerError` with the node's name."""
    results: dict[str, str] = {}
    for name, dsn in nodes.items():
        try:
            results[name] = plain_dsn(dsn)
        except ServerError as error:
            raise ServerError(f"node {name!r}: {error}") from None
    return results


def parse_dsn(dsn: str) -> dict[str, Any]:
    """Return the parameters of a connection string; raise `ServerError` as `plain_dsn` does."""
    return dict(conninfo.conninfo_to_dict(plain_dsn(dsn)))


def _is_escaped(dsn: str) -> bool:
    """Return whether, in a URI, no character of the user or the password can be mistaken for a delimiter."""
    uri = _URI.match(dsn)
    return uri is None or (uri["authority"].count("@") <= 1 and "@" not in uri["path"])


def _has_numbers(parameters: Mapping[str, Any]) -> bool:
    """Return whether port and timeout are numbers; a port may be a misplaced password, as in
    ``postgresql://user:password/database``.
    """
    timeout = str(parameters.get("connect_timeout") or "0")
    return _NUMBER.fullmatch(timeout) is not None and all(
        _NUMBER.fullmatch(port) is not None and int(port) <= _PORT_MAX
        for port in str(parameters.get("port") or "").split(",")
        if port
    )


def bounded(dsn: str) -> str:
    """Return a connection string from `plain_dsn` with a connection timeout, unless it has one."""
    given: dict[str, Any] = dict(conninfo.conninfo_to_dict(dsn))
    return conninfo.make_conninfo(**{"connect_timeout": CONNECT_TIMEOUT_S, **given})


def bounded_dsns(nodes: Mapping[str, str]) -> dict[str, str]:
    """Return `bounded` of each node's connection string; raise `ServerError` as `plain_dsns` does."""
    return {name: bounded(dsn) for name, dsn in plain_dsns(nodes).items()}
