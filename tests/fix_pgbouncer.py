"""A real pgbouncer in transaction mode in front of a database.

Tests are skipped, with the reason, if the program is not installed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from psycopg import conninfo

from twopc.server.polling import wait_for

#: Debian installs it where only root's search path looks.
_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))

_SETTINGS = """\
[databases]
{database} = host={host} port={port} dbname={database}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
default_pool_size = {pool}
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
server_reset_query = DISCARD ALL
server_reset_query_always = {reset_always}
logfile = {log}
pidfile = {pid}
"""

MakePooler = Callable[..., str]


def find() -> str | None:
    """Return the path of the program, or None."""
    return shutil.which("pgbouncer", path=_PLACES)


def _wait_until_it_answers(process: subprocess.Popen[Any], dsn: str) -> None:
    def answers() -> bool:
        assert process.poll() is None, f"pgbouncer ended with {process.returncode}"
        try:
            psycopg.connect(dsn, connect_timeout=30).close()
        except psycopg.OperationalError:
            return False
        return True

    wait_for(answers, what="pgbouncer to answer", timeout_s=60)


@pytest.fixture
def make_pooler() -> Iterator[MakePooler]:
    """Return a function that starts a pooler: ``make_pooler(dsn, pool=2)`` returns the DSN through it.

    Options: ``pool``, how many server sessions its clients share; ``reset_always``, whether the server session is reset
    after every transaction.
    """
    program = find()
    if program is None:
        pytest.skip("no program pgbouncer here (Debian: apt-get install pgbouncer)")
    started: list[subprocess.Popen[Any]] = []
    directories = ExitStack()

    def make(dsn: str, *, pool: int = 2, reset_always: bool = False) -> str:
        parts = conninfo.conninfo_to_dict(dsn)
        # not pytest's directory, which other users cannot enter
        directory = Path(directories.enter_context(TemporaryDirectory(prefix="twopc-pgbouncer-")))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            listen = probe.getsockname()[1]
        users = directory / "users"
        users.write_text(f'"{parts["user"]}" "{parts["password"]}"\n', encoding="utf-8")
        settings = directory / "pgbouncer.ini"
        settings.write_text(
            _SETTINGS.format(
                database=parts["dbname"],
                host=parts["host"],
                port=parts["port"],
                listen=listen,
                users=users,
                pool=pool,
                reset_always=int(reset_always),
                log=directory / "log",
                pid=directory / "pid",
            ),
            encoding="utf-8",
        )
        identity: dict[str, Any] = {}
        if os.geteuid() == 0:  # it refuses to run as root
            for path in (directory, users, settings):
                shutil.chown(path, "nobody")
            identity = {"user": "nobody", "extra_groups": []}
        process = subprocess.Popen(
            [program, str(settings)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **identity,
        )
        started.append(process)
        through = conninfo.make_conninfo(
            host="127.0.0.1",
            port=listen,
            dbname=parts["dbname"],
            user=parts["user"],
            password=parts["password"],
        )

        _wait_until_it_answers(process, through)
        return through

    yield make
    for process in started:
        process.terminate()
        process.wait(10)
    directories.close()
