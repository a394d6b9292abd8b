"""PostgreSQL servers: embedded ones, started, crashed and cleaned up here, and existing ones.

`Server` and `ExternalServer` have the same methods; `can_crash` tells them apart. Nothing here
knows of replication.
"""

from __future__ import annotations

from twopc.server.choice import choose
from twopc.server.databases import create_databases, drop_databases
from twopc.server.embedded import Prepared, Server
from twopc.server.external import ExternalServer
from twopc.server.run_directory import Leftover, sweep

__all__ = [
    "ExternalServer",
    "Leftover",
    "Prepared",
    "Server",
    "choose",
    "create_databases",
    "drop_databases",
    "sweep",
]
