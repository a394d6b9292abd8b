"""Tests of the registration of archives that contain nothing yet, beside a clean-up of the distribution database."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.fix_server import MakeDatabase
from tests.spark.source.filled import TEXT, filled, made, store
from twopc.publisher.distribution import CleanUp, clean_up
from twopc.sim.spark.archive import Archive, load
from twopc.sim.spark.archive.registration import register, release

_STORED = "select count(*) from msrepl.msrepl_commands where xact_seqno > '0/60'"


def clean(dsn: str) -> CleanUp:
    """Clean up."""

    async def go() -> CleanUp:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            return await clean_up(connection)

    return asyncio.run(go())


def stored(dsn: str) -> int:
    """Return the number of stored commands after the filled ones."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(_STORED).fetchone()
    assert row is not None
    return int(row[0])


def test_what_is_committed_before_the_registration_is_kept(
    make_database: MakeDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No clean-up comes between the reading of an archive's first position and its registration."""

    def late(archive: Archive, dsn: str) -> None:
        with ThreadPoolExecutor(1) as pool:  # beside the event loop of this thread
            pool.submit(store, dsn, made(112, (1, 7, 0, TEXT))).result()
            cleaned.append(pool.submit(clean, dsn).result())
        register(archive, dsn)

    cleaned: list[CleanUp] = []
    monkeypatch.setattr(load, "register", late)
    with filled(make_database()) as dsn:
        wanted = load.LoadRequest(dsn=dsn, start="here")
        archive = load.opened(tmp_path / "a", wanted)
        assert [each.held for each in cleaned] == [True]
        assert (archive.manifest.first, stored(dsn)) == (96, 1)
        assert not clean(dsn).held
        assert stored(dsn) == 1, "clean-up waits for the archive"


def test_an_empty_archive_that_begins_later_is_reported(
    make_database: MakeDatabase, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with filled(make_database()) as dsn:
        wanted = load.LoadRequest(dsn=dsn)
        archive = load.opened(tmp_path / "a", wanted)
        assert release(archive, dsn)
        assert clean(dsn).transactions > 0
        assert (archive.manifest.first, caplog.messages) == (0, [])
        assert load.opened(archive.folder, wanted).manifest.first == 96
    (message,) = caplog.messages
    assert "begins later: clean-up did not wait for it" in message
