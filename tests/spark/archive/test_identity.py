"""Tests of an archive's identity, which distinguishes similar servers. They need no Spark."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

from tests.spark.replay.recorded import distributed
from twopc.sim.spark.archive import Archive, load, show
from twopc.sim.spark.errors import ArchiveError, PipelineError
from twopc.sim.spark.replay.target import ReplayTopology
from twopc.sim.spark.source.facts import system_of
from twopc.sim.topology import Topology

NO_SPARK = cast("SparkSession", None)
ANOTHER = "00000000-0000-0000-0000-000000000001"


async def published(make_topology: Callable[..., Awaitable[Topology]]) -> Topology:
    topology = await make_topology(subscribers=("north",))
    await topology.execute("pub", "create table t (id int primary key)")
    await topology.publish("t")
    await topology.subscribe("north")
    return topology


def known(archive: Archive, **changes: Any) -> Archive:
    """Return the archive with changes in what it knows of its Publisher."""
    publisher = dataclasses.replace(archive.manifest.publisher, **changes)
    return archive.replaced(archive.manifest.next(publisher=publisher))


async def test_an_archive_has_its_publishers_identity(
    make_topology: Callable[..., Awaitable[Topology]], tmp_path: Path
) -> None:
    recorded, other = await published(make_topology), await published(make_topology)

    def work() -> None:
        wanted = load.LoadRequest(dsn=distributed(recorded)["distribution"], base=False)
        archive = load.opened(tmp_path / "a", wanted)
        identity = archive.manifest.publisher.identity
        assert identity == wanted.facts().publisher.identity != ""
        assert f"  identity {identity}" in [*show.lines(archive)]

        def check(of: Topology, **changes: Any) -> None:
            held = known(Archive.open(tmp_path / "a"), identity=identity, **changes)
            ReplayTopology(held, NO_SPARK, distributed(of), {}, None).check(force=False)

        with pytest.raises(PipelineError, match="pub is the Publisher that was recorded: replay"):
            check(recorded)
        # a copy of the server whose log extends further is another Publisher
        system = system_of(distributed(other)["pub"], "pub")
        there = conninfo_to_dict(other.node("pub").dsn)["dbname"]
        check(other, system=system, database=there)

        # an archive without an identity cannot be checked, and gets one with the next append
        old = known(Archive.open(tmp_path / "a"), identity="")
        assert any("no identity" in line for line in show.lines(old))
        with pytest.raises(PipelineError, match="a has no identity, for it is of an earlier ver"):
            ReplayTopology(old, NO_SPARK, distributed(other), {}, None).check(force=False)
        ReplayTopology(old, NO_SPARK, distributed(other), {}, None).check(force=True)
        load.based(load.opened(tmp_path / "a", wanted), NO_SPARK, wanted, lambda *_: None)
        assert Archive.open(tmp_path / "a").manifest.publisher.identity == identity

        known(Archive.open(tmp_path / "a"), identity=ANOTHER)
        with pytest.raises(ArchiveError, match=rf"is of pub \(identity {ANOTHER}\); this is pub"):
            load.opened(tmp_path / "a", wanted)

    await asyncio.to_thread(work)
