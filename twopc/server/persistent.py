"""A server that outlives the process that started it, with a permanent directory.

Only `stop` and `kill` end the server; any process that opens its directory can call them. This module must not
depend on the purpose of the databases.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from psycopg import conninfo

from twopc.errors import ServerError
from twopc.server.binaries import ServerUser, find_binaries, hand_over
from twopc.server.cluster import (
    SUPERUSER,
    accepts_connections,
    build_empty,
    cluster_name,
    copy_cluster,
    write_private,
    write_settings,
)
from twopc.server.databases import create_databases
from twopc.server.embedded_server import HOST, free_port, tail
from twopc.server.polling import wait_for
from twopc.server.settings import configuration
from twopc.server.supervisor import (
    end_processes,
    kill_processes,
    processes_of,
    remove_shared_memory,
)

_READY_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0
_LOG_LINES = 20

#: Started postmasters, which are reaped here if they end while this process lives.
_children: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class LastingServer:
    """The server of a directory; obtained from `create` or `open`."""

    directory: Path
    port: int
    """TCP port, which never changes; there is no socket."""
    password: str = field(repr=False)

    @classmethod
    def create(cls, directory: Path, settings: Mapping[str, str]) -> Self:
        """Create a server's directory, which must not exist. The server flushes to disk, and is not started yet.

        Args:
            settings: override `settings.BASE`.

        Raises:
            ServerError: PostgreSQL's programs are missing, or the server's user cannot enter the directory.
        """
        binaries = find_binaries()
        directory = directory.absolute()
        _check_access(directory.parent, binaries.user)
        directory.mkdir(mode=0o755)
        log = directory / "log"
        log.mkdir(mode=0o700)
        hand_over(log, binaries.user)
        data = directory / "data"
        password = copy_cluster(
            cluster_name(binaries, ""), build_empty(binaries), data, binaries.user
        )
        made = cls(directory=directory, port=free_port(), password=password)
        text = configuration(
            durable=True,
            settings={**_LOGGING, "log_directory": str(log), **settings},
            port=made.port,
            sockets="",
        )
        write_settings(data, text, binaries.user)
        known = json.dumps({"port": made.port, "password": password})
        write_private(directory / "server.json", known)
        return made

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Return the server of an existing directory, running or not.

        Raises:
            ServerError: the directory contains no server of ours.
        """
        directory = directory.absolute()
        try:
            known = json.loads((directory / "server.json").read_text(encoding="utf-8"))
            return cls(directory=directory, port=known["port"], password=known["password"])
        except (OSError, ValueError, KeyError) as error:
            raise ServerError(f"{directory} holds no server of ours: {error}") from None

    @property
    def data(self) -> Path:
        """The server's data directory."""
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """The server log, with one JSON object per line."""
        return self.directory / "log" / "server.json"

    @property
    def pid(self) -> int | None:
        """Process id of the postmaster; None if it is not running."""
        for process in processes_of(self.data):
            with suppress(Exception):  # the process has ended meanwhile
                if str(self.data) in process.cmdline():
                    return int(process.pid)
        return None

    def dsn(self, database: str, user: str = SUPERUSER, password: str | None = None) -> str:
        """Return a connection string for a database, for the superuser if no user is named."""
        return conninfo.make_conninfo(
            host=HOST,
            port=self.port,
            dbname=database,
            user=user,
            password=self.password if password is None else password,
        )

    def create_database(self, *names: str) -> None:
        """See `databases.create_databases`."""
        create_databases(self.dsn(SUPERUSER), names)

    def start(self) -> None:
        """Start the server if it is not running; it accepts connections on return. Remains of a killed server are
        removed.

        Raises:
            ServerError: the server does not start; the message gives the reason.
        """
        if self.pid is None:
            # children of a killed postmaster may live on, and prevent a new one from starting
            _end(self.data)
            remove_shared_memory(self.data)
            # No process works in the directory, but the recorded process id may now be a zombie's, or another
            # program's, which PostgreSQL would take for a running server.
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            text = self.directory / "said"
            with text.open("wb") as output:
                process = find_binaries().run("postgres", "-D", self.data, output=output)
            _children.append(process)
            self._wait_until_ready(process, text)

    def stop(self) -> None:
        """Shut the server down in order; no effect if it is not running."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, signal.SIGINT)
            with suppress(TimeoutError):
                wait_for(self._is_gone, what="the server to stop", timeout_s=_STOP_TIMEOUT_S)
        _end(self.data)

    def kill(self) -> None:
        """SIGKILL the postmaster and all its children; they have ended on return."""
        kill_processes(self.data)

    def remove(self) -> None:
        """End the server for good, and remove its directory."""
        _end(self.data)
        remove_shared_memory(self.data)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _is_gone(self) -> bool:
        _reap()
        return not processes_of(self.data)

    def _wait_until_ready(self, process: subprocess.Popen[bytes], message: Path) -> None:
        def ready() -> bool:
            if process.poll() is not None:
                text = message.read_text(encoding="utf-8", errors="replace").strip()
                text = text or tail(self.log, _LOG_LINES)
                remedy = (
                    f"; port {self.port} is another program's: end that one"
                    if "Address already in use" in text or "could not create any TCP" in text
                    else ""
                )
                raise ServerError(
                    f"the server of {self.directory} does not start{remedy}; it says:\n{text}"
                )
            return accepts_connections(self.data, process.pid)

        try:
            wait_for(ready, what="the server to be ready", timeout_s=_READY_TIMEOUT_S)
        except TimeoutError:
            self.kill()
            raise ServerError(
                f"the server of {self.directory} was not ready after {_READY_TIMEOUT_S:g} s; it says:\n"
                f"{tail(self.log, _LOG_LINES)}"
            ) from None


_LOGGING = {
    "logging_collector": "on",
    "log_destination": "jsonlog",
    "log_filename": "server.log",  # jsonlog makes it .json
    "log_rotation_age": "0",
    "log_rotation_size": "0",
    "unix_socket_directories": "",
}


def _check_access(directory: Path, user: ServerUser | None) -> None:
    """Check that the server's user can enter a directory.

    Raises:
        ServerError: the user cannot; the message names the directory and the remedy.
    """
    if user is None:
        return
    for place in (directory, *directory.parents):
        result = place.stat()
        if result.st_uid != user.uid and not result.st_mode & stat.S_IXOTH:
            raise ServerError(
                f"user {user.name}, as whom PostgreSQL runs when we are root, cannot enter {place}: choose "
                "a directory of which all parts are open to others, such as one in /var/tmp"
            )


def _end(data: Path) -> None:
    try:
        end_processes(data)
    except TimeoutError as error:
        raise ServerError(f"{error}: see why they hang in the kernel") from error
    _reap()


def _reap() -> None:
    _children[:] = [child for child in _children if child.poll() is None]
