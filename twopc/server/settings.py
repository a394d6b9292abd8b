"""Settings of an embedded server, and the reasons for them.

This module must not depend on how a server is started.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from twopc.errors import ConfigurationError

#: A setting's name as postgresql.conf accepts it; names of extensions' settings contain a dot.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)?\Z")

BASE: dict[str, str] = {
    "wal_level": "logical",
    "listen_addresses": "127.0.0.1",
    "unix_socket_permissions": "0700",
    # Many nodes may share the server, and tests open many connections.
    "max_connections": "300",
    "max_prepared_transactions": "300",
    "max_replication_slots": "64",
    "max_wal_senders": "64",
    "max_active_replication_origins": "64",
    "max_worker_processes": "32",
    "max_logical_replication_workers": "24",
    # Four servers may run on a small machine. Dynamic shared memory is in the data directory, because segments
    # that a killed server leaves in /dev/shm would stay there, and containers have little of it.
    "shared_buffers": "64MB",
    "dynamic_shared_memory_type": "mmap",
    "huge_pages": "off",
    "io_method": "sync",
    # A statement whose client has disconnected must not continue to wait for a lock.
    "client_connection_check_interval": "300ms",
    "password_encryption": "scram-sha-256",
    # Passwords are random: stretching them would only make each connection 5 ms slower.
    "scram_iterations": "1",
    "track_io_timing": "on",
    "track_wal_io_timing": "on",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d/%a ",
    "log_checkpoints": "off",
    # The text of a failed statement may hold a password.
    "log_min_error_statement": "fatal",
}

#: The data directory may be in memory, so WAL that no slot needs is removed soon.
_QUICK = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}
_DURABLE = {"fsync": "on", "full_page_writes": "on"}


def configuration(*, durable: bool, settings: Mapping[str, str], port: int, sockets: str) -> str:
    """Return the text of a configuration file; `settings` override the defaults.

    Raises `ConfigurationError` for a name or value that cannot be written in such a file.
    """
    merged = BASE | (_DURABLE if durable else _QUICK) | {"unix_socket_directories": sockets}
    merged |= dict(settings) | {"port": str(port)}
    return "".join(f"{_checked(name)} = {_quoted(name, value)}\n" for name, value in merged.items())


def _checked(name: str) -> str:
    if not _NAME.match(name):
        raise ConfigurationError(f"setting {name!r}: not the name of a PostgreSQL setting")
    return name


def _quoted(name: str, value: str) -> str:
    if any(c in value for c in "\n\r\0"):
        raise ConfigurationError(f"setting {name!r}: its value must be a single line")
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
