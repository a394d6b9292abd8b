"""Target of an archive's replay: checks of its topology, and comparison of its rows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from twopc.lsn import lsn_text
from twopc.sim.replay.topology import address_of, ledger
from twopc.sim.spark import shapes
from twopc.sim.spark.archive import Archive
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.fold import newest, state_of
from twopc.sim.spark.replay.rows import as_frame, compare_states, of_node
from twopc.sim.spark.source import live_rows
from twopc.sim.spark.source.facts import connected, system_of, value_of
from twopc.sim.topology import Topology

_IDENTITY = "select identity::text from msrepl.mspublisher_databases where publisher = %s"
_LOG_ENDS = "select (pg_current_wal_flush_lsn() - '0/0')::bigint"


class ReplayTopology:
    """A topology that replaces the recorded one.

    Args:
        nodes: names and connection strings of its nodes, including the distribution database.
        names: recorded names of nodes, and the names of the nodes that replace them.
        coordinator: name of its coordinator; None: the only one.
    """

    def __init__(
        self,
        archive: Archive,
        spark: SparkSession,
        nodes: Mapping[str, str],
        names: Mapping[str, str],
        coordinator: str | None,
    ) -> None:
        self._archive, self._spark, self._nodes, self._names = archive, spark, nodes, names
        self.address = address_of(nodes, coordinator)
        self._originators = {
            int(each["id"]): str(each["srvname"]) for each in archive.manifest.originators
        }
        self.publisher = ""
        """Which of its nodes is the Publisher."""
        self._sites: list[str] = []
        self._identity = ""

    def check(self, *, force: bool) -> None:
        """Check that the target has the nodes, and is not the archive's own topology.

        Raises:
            PipelineError: the target is unsuitable.
            ConfigurationError: a node cannot be reached, or is no node of a topology.
        """

        async def look(topology: Topology) -> None:
            self.publisher = topology.publisher
            self._sites = [topology.publisher, *topology.subscribers]
            self._identity = await _identity(topology)

        self._attached(look)
        for name in self._originators.values():
            if self.name_of(name) not in self._sites:
                raise PipelineError(
                    f"transactions of {name} are to be replayed, and there is no such node: name it by "
                    f"--node {name}=DSN, or another in its place by --map {name}=NODE"
                )
        if not force and self._is_recorded():
            raise PipelineError(
                f"{self.publisher} is the Publisher that was recorded: replay onto another topology, or say "
                "--force"
            )

    def _is_recorded(self) -> bool:
        """Return whether the target's Publisher is the one that was recorded.

        Raises:
            PipelineError: this is undecidable, as the archive has no identity.
        """
        recorded = self._archive.manifest.publisher
        if recorded.identity:
            return recorded.identity == self._identity
        dsn = self._nodes[self.publisher]
        with connected(dsn, self.publisher) as connection:
            database = connection.info.dbname
            end = int(value_of(connection, _LOG_ENDS))
        same = (recorded.system, recorded.database) == (system_of(dsn, self.publisher), database)
        # a copy of a server has the same system identifier, but another log
        if same and end >= self._archive.manifest.position:
            raise PipelineError(
                f"{self._archive.name} has no identity, for it is of an earlier version, and {self.publisher} "
                "may be the Publisher that was recorded, or on a copy of its server: give the archive an "
                "identity by `twopc accumulate`, or say --force if it is another"
            )
        return False

    def begins(self, at: int) -> None:
        """Check that the Publisher's rows are those of the archive at a position.

        Raises:
            PipelineError: a row differs; the message names the first one.
        """
        with ExitStack() as until:
            result = self._compared(at, [self.publisher], until).limit(1).collect()
        if result:
            first = result[0]
            raise PipelineError(
                f"the target is not where the replay begins ({lsn_text(at)}): {first['article']} "
                f"key {', '.join(first['key'])}: {first['expected']} was expected, {first['actual']}"
            )

    def ledger(self, *, there: bool) -> None:
        """Create the tables in which replayed transactions are noted, or drop them."""
        self._attached(lambda topology: ledger(topology, self._sites, there=there))

    def differences(self, at: int, until: ExitStack) -> DataFrame:
        """Return `shapes.DIVERGENCES`: rows of any node that differ from the archive's at a position.

        Args:
            until: intermediate results are kept until this stack is closed.
        """
        known = {str(each["subscriber"]) for each in self._archive.manifest.subscriptions}
        compared = {self.publisher, *map(self.name_of, known)}
        return self._compared(at, [each for each in self._sites if each in compared], until)

    def node_of(self, originator: int | None) -> str:
        """Return the node at which an originator's transactions are carried out; None is the Publisher."""
        return self.publisher if originator is None else self.name_of(self._originators[originator])

    def name_of(self, recorded: str) -> str:
        """Return the node that replaces a recorded node."""
        return self._names.get(recorded, recorded)

    def _attached(self, work: Callable[[Topology], Awaitable[None]]) -> None:
        async def go() -> None:
            async with await self.address.attach() as topology:
                await work(topology)

        asyncio.run(go())

    def _compared(self, at: int, nodes: Sequence[str], until: ExitStack) -> DataFrame:
        """Compare the rows of nodes with the archive's, without row versions, which the target makes itself."""
        manifest = self._archive.manifest
        articles = newest([Row(**each) for each in manifest.articles], upto=at)
        frame = as_frame(self._spark, articles.values())
        expected = state_of(self._archive, self._spark, upto=at, until=until)
        result = shapes.frame(self._spark, [], shapes.DIVERGENCES)
        recorded = {name: old for old, name in self._names.items()}
        for node in nodes:
            is_publisher = node == self.publisher
            name = manifest.publisher.name if is_publisher else recorded.get(node, node)
            there = [articles[each] for each in of_node(self._archive, name) if each in articles]
            live = live_rows(self._spark, self._nodes[node], there, is_publisher=is_publisher)
            these = F.col("article_id").isin([int(each["article_id"]) for each in there])
            differ = compare_states(
                expected.where(these), live, frame.where(these), node=node, versions=False
            )
            result = result.unionByName(differ)
        return result


async def _identity(topology: Topology) -> str:
    """Return the identity of the Publisher's database from its distribution database; empty if it has none."""
    rows = await topology.execute(topology.distribution, _IDENTITY, (topology.publisher,))
    return str(rows[0][0]) if rows else ""
