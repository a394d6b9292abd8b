"""An embedded PostgreSQL server: started on a copy of a cached cluster, crashed and restarted on demand, and ended
with its owner, even if the owner is killed.

This module must not depend on the purpose of the databases.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from psycopg import conninfo

from twopc.errors import ServerError
from twopc.log import get_logger
from twopc.server.binaries import Binaries, find_binaries
from twopc.server.cache import FileLock
from twopc.server.cluster import (
    SUPERUSER,
    accepts_connections,
    build_empty,
    cluster_name,
    copy_cluster,
    write_private,
    write_settings,
)
from twopc.server.databases import Answer, create_databases, drop_databases
from twopc.server.run_directory import RunDirectory, sweep
from twopc.server.settings import configuration
from twopc.server.supervisor import kill_processes

logger = get_logger(__name__)

HOST = "127.0.0.1"
_READY_TIMEOUT_S = 60.0  # includes crash recovery
_STOP_TIMEOUT_S = 30.0
_PORT_TIMEOUT_S = 10.0
_POLL_S = 0.002
#: Below the ports that systems assign to clients, one of which could take the server's port while it is down.
_PORTS = range(15000, 32000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterContents:
    """Contents of a cached cluster beyond an empty one: databases, roles, extensions."""

    key: str
    """Identifies the contents; must change whenever `prepare` would make different contents."""
    prepare: Callable[[EmbeddedServer], None]
    """Function that makes the contents, on a server that is then stopped and cached."""


class EmbeddedServer:
    """A running embedded server; started by `start`, ended by `stop` or the end of a ``with`` block.

    In coroutines, call every method that waits by ``anyio.to_thread.run_sync``. A forked child may connect, but
    neither owns nor ends the server.
    """

    can_crash: ClassVar[bool] = True
    """Whether `crash`, `kill` and `restart` work."""

    host: ClassVar[str] = HOST
    """Address at which the server listens, in addition to the socket."""

    def __init__(
        self,
        *,
        binaries: Binaries,
        durable: bool,
        settings: Mapping[str, str],
        programs: Path | None = None,
    ) -> None:
        """Called by `start` only."""
        self._binaries = binaries
        self._programs = programs
        self._durable = durable
        self._settings = dict(settings)
        self._owner_pid = os.getpid()
        self._password = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self.port = 0
        """TCP port; unchanged by a restart."""
        self._run = RunDirectory(binaries.user, lasting=durable)
        _owned.add(self)

    @classmethod
    def start(
        cls,
        *,
        durable: bool = False,
        settings: Mapping[str, str] | None = None,
        prepared: ClusterContents | None = None,
        programs: Path | None = None,
    ) -> Self:
        """Start a server; it accepts connections on return.

        Without `durable` the server may be in memory, and nothing is flushed: it survives its own crashes, not the
        machine's. `settings` override `settings.BASE`. Files and processes that killed runs left behind are removed
        first. `programs` is the directory of PostgreSQL's programs, instead of those that `binaries.find_binaries`
        finds. Raises `ServerError` if no server can be started.
        """
        began = time.monotonic()
        try:
            sweep()
        except (OSError, ServerError) as error:
            logger.warning("leftovers not removed", error=str(error))
        binaries = find_binaries(programs)
        server = cls(binaries=binaries, durable=durable, settings=settings or {}, programs=programs)
        try:
            name, build = server._recipe(prepared)
            server._password = copy_cluster(name, build, server._run.data, binaries.user)
            server._launch_anywhere()
        except BaseException:
            server.stop()
            raise
        logger.debug(
            "server started",
            pid=server.pid,
            port=server.port,
            directory=str(server.directory),
            ms=round((time.monotonic() - began) * 1000),
        )
        return server

    @property
    def pid(self) -> int:
        """Process id of the postmaster; of the last one if it is not running."""
        assert self._process is not None
        return self._process.pid

    @property
    def supervisor_pid(self) -> int:
        """Process id of the supervisor, which ends the server when this process dies."""
        return self._run.supervisor_pid

    @property
    def directory(self) -> Path:
        """The run directory, which contains the data directory and the server log."""
        return self._run.path

    @property
    def socket_dir(self) -> Path:
        """The directory of the server's Unix socket, which only the server's user and root can enter."""
        return self._run.sockets

    def dsn(
        self,
        database: str,
        user: str | None = None,
        password: str | None = None,
        *,
        tcp: bool = False,
    ) -> str:
        """Return a connection string for a database, over the socket or `tcp`; for the superuser if `user` is None."""
        return conninfo.make_conninfo(
            host=self.host if tcp else str(self.socket_dir),
            port=self.port,
            dbname=database,
            user=SUPERUSER if user is None else user,
            password=self._password if user is None else password,
        )

    def superuser_dsn(self, database: str) -> str:
        """Return a superuser's connection string for a database; it contains the password."""
        return self.dsn(database)

    def create_database(self, *names: str, template: str | None = None) -> None:
        """See `databases.create_databases`."""
        create_databases(self.dsn(SUPERUSER), names, template)

    def drop_database(self, *names: str, may_roll_back: Answer | None = None) -> None:
        """See `databases.drop_databases`."""
        drop_databases(self.dsn(SUPERUSER), names, may_roll_back=may_roll_back)

    def is_running(self) -> bool:
        """Return whether the postmaster is running."""
        return self._process is not None and self._process.poll() is None

    def crash(self) -> None:
        """Stop the server as a crash would (immediate shutdown): nothing is flushed, and connections are broken."""
        if self._signal(signal.SIGQUIT):
            self._wait_for_end()
        logger.debug("server crashed", port=self.port)

    def shut_down(self) -> None:
        """Stop the server with a fast shutdown: sessions are ended, and all data is written; `restart` starts it
        again.
        """
        self._shut_down()
        logger.debug("server shut down", port=self.port)

    def kill(self) -> None:
        """SIGKILL the postmaster and all its children; they have ended on return."""
        self._kill_all()
        logger.debug("server killed", port=self.port)

    def restart(self) -> None:
        """Start the server again on the same port and socket, after a fast shutdown if it is running."""
        if self._stopped:
            raise ServerError("the server was stopped and its directory removed: start another one")
        self._shut_down()
        self._launch(_PORT_TIMEOUT_S)
        logger.debug("server restarted", pid=self.pid, port=self.port)

    def stop(self) -> None:
        """End the server for good and remove all its files from this machine; idempotent."""
        if self._stopped or os.getpid() != self._owner_pid:
            return
        self._stopped = True
        _owned.discard(self)
        self.crash()  # the data is removed anyway
        self._run.remove()
        logger.debug("server stopped", port=self.port)

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines of the server log."""
        return tail(self._run.logfile, lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.is_running() else "down"
        return f"<Server {self.host}:{self.port} {state}>"

    def _recipe(
        self, prepared: ClusterContents | None
    ) -> tuple[str, Callable[[Path, FileLock], None]]:
        if prepared is None:
            return cluster_name(self._binaries, ""), build_empty(self._binaries)
        prepare = prepared.prepare

        def build(directory: Path, _lock: FileLock) -> None:
            with EmbeddedServer.start(
                durable=self._durable, settings=self._settings, programs=self._programs
            ) as server:
                prepare(server)
                server._shut_down()
                # Copied, not moved, because the source may be in memory, and so that the copy belongs to the
                # current user, not to the server's user.
                shutil.copytree(server._run.data, directory / "data", symlinks=True)
                write_private(directory / "password", server._password)

        return cluster_name(self._binaries, prepared.key), build

    def _launch_anywhere(self) -> None:
        """Launch on a free port; try other ports if another program takes the port first."""
        attempts = 20
        for attempt in range(attempts):
            self.port = free_port()
            try:
                return self._launch(0)
            except _PortTakenError:
                if attempt == attempts - 1:
                    raise
        return None

    def _launch(self, port_timeout_s: float) -> None:
        """Start the postmaster and wait until it accepts connections."""
        text = configuration(
            durable=self._durable,
            settings=self._settings,
            port=self.port,
            sockets=str(self.socket_dir),
        )
        write_settings(self._run.data, text, self._binaries.user)
        end = time.monotonic() + port_timeout_s
        while True:
            with self._run.logfile.open("ab") as log:
                start = log.tell()
                self._process = self._binaries.run("postgres", "-D", self._run.data, output=log)
            if self._is_ready():
                return
            text = self._run.logfile.read_bytes()[start:].decode(errors="replace").strip()
            if "Address already in use" not in text:
                raise ServerError(f"PostgreSQL did not start; it says:\n{text}")
            if time.monotonic() >= end:
                raise _PortTakenError(
                    f"port {self.port} of {self.host} was taken by another program: end that one"
                )

    def _is_ready(self) -> bool:
        """Wait until the postmaster accepts connections; return False if it ends before."""
        assert self._process is not None
        end = time.monotonic() + _READY_TIMEOUT_S
        while time.monotonic() < end:
            if accepts_connections(self._run.data, self._process.pid):
                return True
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_POLL_S)
                return False
        self._kill_all()
        raise ServerError(
            f"PostgreSQL was not ready after {_READY_TIMEOUT_S:g} s; it says:\n{self.log_tail()}"
        )

    def _shut_down(self) -> None:
        """Stop the server with a fast shutdown: all data is on disk, and the data directory stays."""
        if self._signal(signal.SIGINT):
            self._wait_for_end()

    def _signal(self, number: signal.Signals) -> bool:
        """Send a signal to the postmaster; return False if it is not running."""
        if self._process is None or not self.is_running():
            return False
        self._process.send_signal(number)
        return True

    def _wait_for_end(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            logger.warning("server does not stop, killed", port=self.port)
            self._kill_all()

    def _kill_all(self) -> None:
        try:
            kill_processes(self._run.data)
        except TimeoutError as error:
            raise ServerError(f"{error}: see why they hang in the kernel") from error
        if self._process is not None:
            self._process.wait(_STOP_TIMEOUT_S)


class _PortTakenError(ServerError):
    """Another program listens on the port."""


def tail(path: Path, lines: int) -> str:
    """Return the last lines of a text file; empty if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def free_port() -> int:
    """Return a port on which no program listens at this moment, outside the range that systems assign to clients."""
    chance = random.SystemRandom()  # not seeded: concurrent runs must not choose the same ports
    for _ in range(1000):
        port = chance.choice(_PORTS)
        with socket.socket() as probe:
            # As PostgreSQL does: a port whose last connections are still lingering counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind((HOST, port))
                return port
    raise ServerError(f"no free port on {HOST} between {_PORTS.start} and {_PORTS.stop - 1}")


_owned: weakref.WeakSet[EmbeddedServer] = weakref.WeakSet()


def _let_go_of_all() -> None:
    for server in list(_owned):
        server._run.let_go()
    _owned.clear()


# Otherwise the pipe to the supervisor would stay open in a forked child, and the server would outlive its owner.
os.register_at_fork(after_in_child=_let_go_of_all)
