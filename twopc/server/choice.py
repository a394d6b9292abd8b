"""Which server is meant by one word: an embedded one, one of programs that are installed, or one that runs.

It must not know what for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from twopc.server.embedded_server import ClusterContents, EmbeddedServer
from twopc.server.external import ExternalServer

EMBEDDED = "embedded"
#: As a URL begins, or one whose scheme was left out: ``user:password@host``.
_URL = re.compile(r"[^/]*://|[^/]+:.*@")


def kind_of(choice: str) -> Literal["embedded", "directory", "url"]:
    """What a choice names: embedded (that is also the empty one), a directory or a connection string."""
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
    """The server that a choice names: started by us, or running before us.

    Args:
        choice: ``embedded`` or nothing; a directory with PostgreSQL's programs; or a connection string.
        durable, settings, prepared: as `EmbeddedServer.start`; not for a server that runs already.

    Raises:
        ServerError: there is none, or none can be started; the message says what helps.
    """
    if kind_of(choice) == "url":
        return ExternalServer.from_dsn(choice)
    programs = Path(choice) if kind_of(choice) == "directory" else None
    return EmbeddedServer.start(
        durable=durable, settings=settings, prepared=prepared, programs=programs
    )
