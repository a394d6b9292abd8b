"""M26, M27: A standby of one of the rig's servers, which takes over its address when it dies.

The standby is created from a base backup, and streams from its primary. It does not depend on the
databases' contents.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Self

import psycopg

from tests.grid.rig import Rig
from twopc.server import EmbeddedServer
from twopc.server.binaries import find_binaries
from twopc.server.polling import wait_for

_NAME = "standby"
_numbers = itertools.count(1)
#: Parts of a running server's directory that are its own, or that the stream brings.
_OWN = ("postmaster.pid", "postmaster.opts", "pgsql_tmp*", "backup_label")
_EMPTY = ("pg_wal", "pg_replslot", "pg_dynshmem", "pg_notify", "pg_stat_tmp", "pg_subtrans")
_SYNC = "select 1 from pg_stat_replication where application_name = %s and sync_state in ('sync', 'quorum')"
_STREAMS = "select 1 from pg_stat_replication where application_name = %s and state = 'streaming'"
_ALL_THERE = """
select 1 from pg_stat_replication where application_name = %s and replay_lsn >= pg_current_wal_lsn()
"""


def _not_copied(directory: str, names: list[str]) -> set[str]:
    if Path(directory).name in _EMPTY:
        return set(names)
    return {name for name in names if any(fnmatch(name, own) for own in _OWN)}


def _copied(source: str, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # removed meanwhile, which the WAL records
        shutil.copy2(source, target)


class Standby(EmbeddedServer):
    """A server that streams from another; created by `follow`."""

    _slot = ""

    @classmethod
    def follow(cls, primary: EmbeddedServer) -> Self:
        """Copy a running server, and stream from it; the standby is read-only on return.

        Raises:

            ServerError: the server cannot be copied, or the standby does not start.
        """
        conninfo = primary.dsn("postgres", tcp=True)
        slot = f"{_NAME}_{next(_numbers)}"
        server = cls(
            binaries=find_binaries(),
            durable=False,
            settings={
                "primary_conninfo": f"{conninfo} application_name={_NAME}",
                "primary_slot_name": slot,
            },
        )
        server._slot = slot
        try:
            server._password = primary._password
            server._copy(primary)
            server._launch_anywhere()
        except BaseException:
            server.stop()
            raise
        return server

    def _copy(self, primary: EmbeddedServer) -> None:
        """Take a base backup by SQL functions, because the wheel does not contain pg_basebackup."""
        with psycopg.connect(primary.dsn("postgres"), autocommit=True) as connection:
            connection.execute(
                "select pg_create_physical_replication_slot(%s, true)", (self._slot,)
            )
            place = connection.execute("show data_directory").fetchone()
            assert place is not None
            connection.execute("select pg_backup_start(%s, true)", (self._slot,))
            shutil.copytree(
                place[0], self._run.data, symlinks=True, ignore=_not_copied, copy_function=_copied
            )
            stopped = connection.execute("select labelfile from pg_backup_stop(false)").fetchone()
            assert stopped is not None
        (self._run.data / "backup_label").write_text(stopped[0], encoding="utf-8")
        (self._run.data / "standby.signal").touch()
        user = self._binaries.user
        if user is not None:
            for path in (self._run.data, *self._run.data.rglob("*")):
                os.chown(path, user.uid, user.gid, follow_symlinks=False)

    def starve(self) -> None:
        """Stop the stream, so that the standby does not receive later changes of its primary."""
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute("alter system set primary_conninfo = ''")
            connection.execute("select pg_reload_conf()")
            wait_for(
                lambda: not connection.execute("select 1 from pg_stat_wal_receiver").fetchall(),
                what="the stream to end",
                timeout_s=20,
            )

    def take_over(self, primary: EmbeddedServer) -> None:
        """Promote the standby, and move it to the address of its dead primary."""
        assert not primary.is_running()
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute("select pg_promote(true, 60)")
            connection.execute("alter system reset primary_conninfo")
        self._shut_down()
        places = "unix_socket_directories"  # the primary may have taken over from another standby
        inherited = primary._settings.get(places, str(primary.socket_dir))
        self._settings = {places: f"{inherited}, {self.socket_dir}"}
        self.port = primary.port
        self.restart()


class Followed:
    """One of the rig's servers, with a standby.

    Args:

        rig: open.
        node: whose server is followed.
        synchronous: every commit waits until the standby has it.
    """

    def __init__(self, rig: Rig, node: str, *, synchronous: bool) -> None:
        self._rig = rig
        self._node = node
        self.standby = Standby.follow(rig.servers[node])
        self._is_over = False
        wait_for(
            lambda: rig.fetch(node, _STREAMS, (_NAME,)), what="the standby to stream", timeout_s=30
        )
        if synchronous:
            rig.fetch(node, f"alter system set synchronous_standby_names = '{_NAME}'")
            rig.fetch(node, "select pg_reload_conf()")
            wait_for(
                lambda: rig.fetch(node, _SYNC, (_NAME,)),
                what="the standby to be synchronous",
                timeout_s=30,
            )

    def starve(self) -> None:
        """Wait until the standby has all changes so far, then stop its stream."""
        wait_for(
            lambda: self._rig.fetch(self._node, _ALL_THERE, (_NAME,)),
            what="the standby to have everything",
            timeout_s=30,
        )
        self.standby.starve()

    def fail_over(self) -> None:
        """Kill the primary, and let the standby take its place."""
        old = self._rig.servers[self._node]
        old.kill()
        self.standby.take_over(old)
        self._rig.replace(self._node, self.standby)
        self._rig.fetch(self._node, "alter system reset synchronous_standby_names")
        self._rig.fetch(self._node, "select pg_reload_conf()")
        self._is_over = True

    def close(self) -> None:
        """Stop the standby, unless it belongs to the rig by now."""
        if not self._is_over:
            self.standby.stop()
