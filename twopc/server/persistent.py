"""A server of ours that outlives the process that has started it, on a directory that stays.

Nobody ends it but `stop` and `kill`; whoever opens its directory again can. It must not know what its databases
are for.
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
from twopc.server.binaries import ServerUser, find_binaries
from twopc.server.cluster import (
    SETTINGS_FILE,
    SUPERUSER,
    build_empty,
    cluster_name,
    copy_cluster,
)
from twopc.server.databases import create_databases
from twopc.server.embedded_server import HOST, free_port
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
_READY = (["ready   "], ["standby "])

#: Not reaped elsewhere if they end while we live.
_children: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class LastingServer:
    """The server of a directory; `create` or `open` gives it."""

    directory: Path
    port: int
    """The TCP port, always the same; there is no socket."""
    password: str = field(repr=False)

    @classmethod
    def create(cls, directory: Path, settings: Mapping[str, str]) -> Self:
        """Make a server's directory, which must not be there. It flushes to disk, and does not run yet.

        Args:
            settings: on top of `settings.BASE`.

        Raises:
            ServerError: there are no programs, or no place.
        """
        binaries = find_binaries()
        directory = directory.absolute()
        _check_way(directory.parent, binaries.user)
        directory.mkdir(mode=0o755)
        log = directory / "log"
        log.mkdir(mode=0o700)
        if binaries.user is not None:
            os.chown(log, binaries.user.uid, binaries.user.gid)
        data = directory / "data"
        password = copy_cluster(
            cluster_name(binaries, ""), build_empty(binaries), data, binaries.user
        )
        made = cls(directory=directory, port=free_port(), password=password)
        conf = data / SETTINGS_FILE
        conf.write_text(
            configuration(
                durable=True,
                settings={**_LOGGING, "log_directory": str(log), **settings},
                port=made.port,
                sockets="",
            ),
            encoding="utf-8",
        )
        if binaries.user is not None:
            os.chown(conf, binaries.user.uid, binaries.user.gid)
        known = directory / "server.json"
        known.touch(mode=0o600)
        known.write_text(json.dumps({"port": made.port, "password": password}), encoding="utf-8")
        return made

    @classmethod
    def open(cls, directory: Path) -> Self:
        """The server of a directory that is there, running or not.

        Raises:
            ServerError: there is none.
        """
        directory = directory.absolute()
        try:
            known = json.loads((directory / "server.json").read_text(encoding="utf-8"))
            return cls(directory=directory, port=known["port"], password=known["password"])
        except (OSError, ValueError, KeyError) as error:
            raise ServerError(f"{directory} holds no server of ours: {error}") from None

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """What it complains of, a JSON object a line."""
        return self.directory / "log" / "server.json"

    @property
    def pid(self) -> int | None:
        """The postmaster's; None if it does not run."""
        for process in processes_of(self.data):
            with suppress(Exception):  # gone meanwhile
                if str(self.data) in process.cmdline():
                    return int(process.pid)
        return None

    def dsn(self, database: str, user: str = SUPERUSER, password: str | None = None) -> str:
        """A connection string for a database, the superuser's if no user is named."""
        return conninfo.make_conninfo(
            host=HOST,
            port=self.port,
            dbname=database,
            user=user,
            password=self.password if password is None else password,
        )

    def create_database(self, *names: str) -> None:
        """As `databases.create_databases`."""
        create_databases(self.dsn(SUPERUSER), names)

    def start(self) -> None:
        """Start it if it does not run; it accepts connections on return. What a killed one has left is cleared.

        Raises:
            ServerError: it does not start; says why.
        """
        if self.pid is None:
            _end(self.data)  # its children may live on, and keep a new one out
            remove_shared_memory(self.data)
            # Nobody works in the directory, but its number may be a zombie's by now, or another program's:
            # PostgreSQL would take that for a server that runs.
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            text = self.directory / "said"
            with text.open("wb") as output:
                process = find_binaries().run("postgres", "-D", self.data, output=output)
            _children.append(process)
            self._wait_until_ready(process, text)

    def stop(self) -> None:
        """Shut it down in order; harmless if it does not run."""
        pid = self.pid
        if pid is not None:
            os.kill(pid, signal.SIGINT)
            with suppress(TimeoutError):
                wait_for(self._is_gone, what="the server to stop", timeout_s=_STOP_TIMEOUT_S)
        _end(self.data)

    def kill(self) -> None:
        """SIGKILL the postmaster and all its children; they are gone on return."""
        kill_processes(self.data)

    def remove(self) -> None:
        """End it for good, and remove its directory."""
        _end(self.data)
        remove_shared_memory(self.data)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _is_gone(self) -> bool:
        _reap()
        return not processes_of(self.data)

    def _wait_until_ready(self, process: subprocess.Popen[bytes], message: Path) -> None:
        pidfile = self.data / "postmaster.pid"

        def ready() -> bool:
            if process.poll() is not None:
                text = message.read_text(encoding="utf-8", errors="replace").strip() or _tail(
                    self.log
                )
                remedy = (
                    f"; port {self.port} is another program's: end that one"
                    if "Address already in use" in text or "could not create any TCP" in text
                    else ""
                )
                raise ServerError(
                    f"the server of {self.directory} does not start{remedy}; it says:\n{text}"
                )
            with suppress(FileNotFoundError):
                lines = pidfile.read_text(encoding="utf-8").splitlines()
                return lines[:1] == [str(process.pid)] and lines[7:8] in _READY
            return False

        try:
            wait_for(ready, what="the server to be ready", timeout_s=_READY_TIMEOUT_S)
        except TimeoutError:
            self.kill()
            raise ServerError(
                f"the server of {self.directory} was not ready after {_READY_TIMEOUT_S:g} s; it says:\n"
                f"{_tail(self.log)}"
            ) from None


_LOGGING = {
    "logging_collector": "on",
    "log_destination": "jsonlog",
    "log_filename": "server.log",  # jsonlog makes it .json
    "log_rotation_age": "0",
    "log_rotation_size": "0",
    "unix_socket_directories": "",
}


def _check_way(directory: Path, user: ServerUser | None) -> None:
    """Refuse a place that the server's user cannot come to.

    Raises:
        ServerError: names the directory, and the remedy.
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


def _tail(path: Path, lines: int = 20) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    except OSError:
        return ""
    return "\n".join(text)
