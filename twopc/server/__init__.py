"""PostgreSQL servers: embedded ones, which are started, crashed and cleaned up here, and existing ones.

`EmbeddedServer` and `ExternalServer` have the same methods; `can_crash` distinguishes them. The package is
independent of replication.
"""

from __future__ import annotations

from twopc.server.choice import choose
from twopc.server.databases import create_databases, drop_databases
from twopc.server.embedded_server import ClusterContents, EmbeddedServer
from twopc.server.external import ExternalServer
from twopc.server.run_directory import Leftover, sweep

__all__ = [
    "ClusterContents",
    "EmbeddedServer",
    "ExternalServer",
    "Leftover",
    "choose",
    "create_databases",
    "drop_databases",
    "sweep",
]
