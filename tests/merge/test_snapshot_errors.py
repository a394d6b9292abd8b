"""Refused snapshots of partitions: each error has SQL Server's number and a remedy."""

from __future__ import annotations

import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from twopc.errors import ConfigurationError, MergeError
from twopc.merge.ladder import InitialisationMethod
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

_HOST, _LOGIN = "region = msrepl.host_name()", "owner = msrepl.suser_sname()"
_CUSTOMER = (
    "create table customer (id int primary key, region text, owner text);"
    " insert into customer select i, case i % 2 when 0 then 'north' else 'south' end, 'anna'"
    " from generate_series(1, 2000) as i"
)


@asynccontextmanager
async def _filtered(
    server: EmbeddedServer, row_filter: str | None, *subscribers: str
) -> AsyncIterator[MergeTopology]:
    async with MergeTopology(server=server, subscribers=subscribers) as topology:
        await topology.execute("pub", _CUSTOMER)
        await topology.publish("customer", row_filter=row_filter)
        yield topology


#: Row filter, values that name a partition, expected error of a snapshot of the partition, and
#: expected error of the partition itself.
NAMED: tuple[tuple[str | None, dict[str, str], str, str], ...] = (
    (None, {"host_name": "x"}, "21323", "20674"),
    ("region <> 'east'", {"login": "x"}, "21323", "20674"),
    (_HOST, {"login": "x"}, "20698", "20698"),
    (_HOST, {"host_name": "x", "login": "x"}, "20673", "20673"),
    (_LOGIN, {"host_name": "x", "login": "x"}, "20672", "20672"),
    (f"{_HOST} and {_LOGIN}", {"host_name": "x"}, "20699", "20699"),
    (_HOST, {"host_name": "a\0b"}, "NUL", "NUL"),
    (_HOST, {"host_name": "x" * 10_000}, "has 10000 characters", "has 10000 characters"),
)


@pytest.mark.parametrize("row_filter", dict.fromkeys(each[0] for each in NAMED))
async def test_partitions_that_are_named_wrongly(
    server: EmbeddedServer, tmp_path: Path, row_filter: str | None
) -> None:
    """A value that no filter uses, and a missing one that a filter uses, are refused.

    No partition is created, and no file is written.
    """
    async with _filtered(server, row_filter) as topology:
        for filtered, values, of_snapshot, of_partition in NAMED:
            if filtered == row_filter:
                with pytest.raises(ConfigurationError, match=of_snapshot):
                    await topology.snapshot(tmp_path, **values)
                with pytest.raises(ConfigurationError, match=of_partition):
                    await topology.add_partition(**values)
        assert await topology.partitions() == []
    assert not (tmp_path / "unc").exists()


async def test_a_filter_that_is_the_same_for_all(server: EmbeddedServer, tmp_path: Path) -> None:
    """If the filter is the same for all Subscribers, one snapshot serves all of them."""
    async with _filtered(server, "region = 'north'", "anna", "ben") as topology:
        report = await topology.snapshot(tmp_path)
        assert report.rows == 1000
        for name in ("anna", "ben"):
            assert (await topology.subscribe(name)).location == report.location
        await topology.assert_converged()


async def _no_folder(topology: MergeTopology, folder: Path) -> None:
    await topology.execute("pub", "update msrepl.sysmergepublications set snapshot_folder = null")


async def _a_file(topology: MergeTopology, folder: Path) -> None:
    (folder / "file").touch()
    where = str(folder / "file" / "below")
    await topology.execute(
        "pub", "update msrepl.sysmergepublications set snapshot_folder = %s", (where,)
    )


async def _closed(topology: MergeTopology, folder: Path) -> None:
    name = topology.node("pub").database
    await topology.execute("anna", f'alter database "{name}" with allow_connections false')


async def _forgotten(topology: MergeTopology, folder: Path) -> None:
    """Let `msrepl.merge_partition` return a partition that does not exist."""
    await topology.execute(
        "pub",
        "drop function msrepl.merge_partition(text, text);"
        " create function msrepl.merge_partition(text, text) returns integer language sql as 'select 77'",
    )


START_REFUSED: dict[str, tuple[Any, str]] = {
    "nobody knows where to": (_no_folder, r"no folder is known for it \(20631\): run the Snap"),
    "nothing can be written there": (_a_file, r"cannot be begun \(20632\): snapshot folder .*/file"),
    "the agent cannot connect": (_closed, r"cannot be begun \(20633\): .* connect to pub: .* again"),
    "the partition is not known": (_forgotten, r"partition 77 is not in .*\(20629\): unsubscribe"),
}  # fmt: skip


@pytest.mark.parametrize("case", START_REFUSED)
async def test_snapshots_that_a_subscriber_cannot_start(
    server: EmbeddedServer, tmp_path: Path, case: str
) -> None:
    """A snapshot that cannot be started leaves nothing at the Subscriber.

    If the partition exists, the Subscriber can be initialised with the Publisher's tables instead.
    """
    break_it, message = START_REFUSED[case]
    async with _filtered(server, _HOST, "anna") as topology:
        await topology.let_subscribers_start_snapshots()
        await topology.snapshot(tmp_path)
        await break_it(topology, tmp_path)
        with pytest.raises(MergeError, match=message):
            await topology.subscribe("anna", host_name="north")
        assert not await topology.merges("anna")
        if case == "the agent cannot connect":
            name = topology.node("pub").database
            await topology.execute("anna", f'alter database "{name}" with allow_connections true')
        if case != "the partition is not known":
            await topology.let_subscribers_start_snapshots(False)
            report = await topology.subscribe("anna", host_name="north")
            assert report.method is InitialisationMethod.SELECT


@contextmanager
def _files_up_to(size_bytes: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_a_snapshot_that_fails_while_it_is_made(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """A file that cannot be written is named (20628), and the next attempt succeeds.

    While a snapshot of a partition is made, another one is refused (20630).
    """
    async with _filtered(server, _HOST, "anna", "ben") as topology:
        await topology.let_subscribers_start_snapshots()
        await topology.snapshot(tmp_path)
        with (
            _files_up_to(4000),
            pytest.raises(
                MergeError, match=r"for anna .*\(20628\): .*bcp cannot be written: File too large"
            ),
        ):
            await topology.subscribe("anna", host_name="north")
        assert not await topology.merges("anna")

        async def beside(_: str) -> None:
            with pytest.raises(MergeError, match=r"of partition \d+ of pub \(20630\): wait"):
                await topology.snapshot(tmp_path, host_name="north")

        topology.points.arm("merge_snapshot.file_written", beside)
        first = await topology.subscribe("anna", host_name="north")
        assert first.method is InitialisationMethod.GENERATE
        second = await topology.subscribe("ben", host_name="north")
        assert (second.method, second.location) == (InitialisationMethod.APPLY, first.location)
        await topology.assert_converged()


async def test_a_partition_that_is_gone(server: EmbeddedServer, tmp_path: Path) -> None:
    """A Subscriber whose partition was deleted cannot be reinitialised from files (20629)."""
    async with _filtered(server, _HOST, "anna") as topology:
        await topology.subscribe("anna", host_name="north")
        location = (await topology.snapshot(tmp_path, host_name="south")).location
        await topology.execute(
            "pub", "delete from msrepl.msmerge_partition_groups where host_name_fn = 'north'"
        )
        with pytest.raises(MergeError, match=r"partition \d+ is not in .*\(20629\)"):
            await topology.reinitialise("anna", snapshot_location=location)
        assert await topology.execute("anna", "select count(*) from customer") == [(1000,)]
