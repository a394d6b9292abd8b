"""Connection strings as they are given: checked, and made libpq's, before anything reads them.

It must not know what is at the other end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import conninfo

from twopc.errors import ServerError

#: After how many seconds a server is given up that does not answer at all, unless its connection string says.
CONNECT_TIMEOUT_S = 5
#: SQLAlchemy's URLs name the driver: ``postgresql+psycopg://``.
_DRIVER = re.compile(r"\A(postgres(?:ql)?)\+\w+(?=://)")
_URI = re.compile(r"\Apostgres(?:ql)?://(?P<authority>[^/?]*)(?P<path>[^?]*)")
_PORT_MAX = 65535
_NUMBER = re.compile(r"-?[0-9]{1,9}")


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
    """No port, nor the timeout, is something else, as the password of ``postgresql://user:password/database``."""
    timeout = str(parameters.get("connect_timeout") or "0")
    return _NUMBER.fullmatch(timeout) is not None and all(
        _NUMBER.fullmatch(port) is not None and int(port) <= _PORT_MAX
        for port in str(parameters.get("port") or "").split(",")
        if port
    )


def bounded(dsn: str) -> str:
    """A connection string, as `plain_dsn` returns it, with a time after which a server is given up."""
    given: dict[str, Any] = dict(conninfo.conninfo_to_dict(dsn))
    return conninfo.make_conninfo(**{"connect_timeout": CONNECT_TIMEOUT_S, **given})


def bounded_dsns(nodes: Mapping[str, str]) -> dict[str, str]:
    """Connection strings of nodes, each as `bounded` returns it; raises `ServerError` as `plain_dsns`."""
    return {name: bounded(dsn) for name, dsn in plain_dsns(nodes).items()}
