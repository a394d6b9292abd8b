"""The choice of a server by one argument: an embedded one, one with installed programs, or a running one.

This module must not depend on the server's purpose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from twopc.server.embedded_server import ClusterContents, EmbeddedServer
from twopc.server.external import ExternalServer

EMBEDDED = "embedded"
#: Beginning of a URL, or of one without its scheme: ``user:password@host``.
_URL = re.compile(r"[^/]*://|[^/]+:.*@")


def kind_of(choice: str) -> Literal["embedded", "directory", "url"]:
    """Return the kind of a choice: embedded (also for an empty text), a directory or a connection string."""
    if choice in ("", EMBEDDED):
        return "embedded"
    return "url" if "=" in choice or _URL.match(choice) else "directory"


def choose(
    choice: str,
    *,
    durable: bool = False,
    settings: Mapping[str, str] | None = None,
    prepared: ClusterContents | None = None,
) -> EmbeddedServer | ExternalServer:
    """Return the server that a choice names, which is started unless it is already running.

    Args:
        choice: ``embedded`` or empty; a directory with PostgreSQL's programs; or a connection string.
        durable, settings, prepared: as for `EmbeddedServer.start`; ignored for a running server.

    Raises:
        ServerError: the server does not exist, or cannot be started; the message gives remedies.
    """
    if kind_of(choice) == "url":
        return ExternalServer.from_dsn(choice)
    programs = Path(choice) if kind_of(choice) == "directory" else None
    return EmbeddedServer.start(
        durable=durable, settings=settings, prepared=prepared, programs=programs
    )
