"""Registration of an archive at its distribution database: clean-up waits for it, as for a Subscriber."""

from __future__ import annotations

import psycopg

from twopc.log import get_logger
from twopc.lsn import lsn_text
from twopc.sim.spark.archive import Archive
from twopc.sim.spark.source.facts import connected
from twopc.sql.render import render

_log = get_logger(__name__)

_REGISTER = """
insert into msrepl.msrepl_archives as a (publisher_database_id, archive, folder, position)
values (%s, %s, %s, %s::pg_lsn)
on conflict (publisher_database_id, archive) do update
set folder = excluded.folder, position = excluded.position, appended_at = clock_timestamp()
"""
_RELEASE = "delete from msrepl.msrepl_archives where archive = %s"


def register(archive: Archive, dsn: str) -> None:
    """Have the distribution database keep the commands after the archive's position, which must be durable.

    If the role has only read access, a warning is logged and clean-up does not wait for the archive.

    Raises:
        PipelineError: the distribution database cannot be reached.
    """
    manifest = archive.manifest
    with connected(dsn, "the distribution database") as connection:
        try:
            row = connection.execute("select to_regclass('msrepl.msrepl_archives')").fetchone()
            if row == (None,):  # a database from before archives were registered
                connection.execute(render("twopc.publisher", "msrepl_archives").encode())
            place = (manifest.publisher.number, manifest.id, str(archive.folder))
            connection.execute(_REGISTER, (*place, lsn_text(manifest.position)))
        except (
            psycopg.errors.ReadOnlySqlTransaction,
            psycopg.errors.InsufficientPrivilege,
        ) as error:
            _log.warning("clean-up does not wait for this archive", reason=str(error))


def release(archive: Archive, dsn: str) -> bool:
    """Remove the archive's registration, so that clean-up no longer waits for it; return whether it was registered.

    Raises:
        PipelineError: the distribution database cannot be reached.
    """
    with connected(dsn, "the distribution database") as connection:
        return bool(connection.execute(_RELEASE, (archive.manifest.id,)).rowcount)
