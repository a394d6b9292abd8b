"""The publication at the topmost Publisher of a topology: merged tables and their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twopc.drivers.merge import neighbours
from twopc.errors import ConfigurationError
from twopc.merge.articles import MergeArticle, options_of
from twopc.merge.protections import MergeProtection
from twopc.merge.ranges import IdentityRanges
from twopc.merge.schema_changes import SchemaChange
from twopc.publisher.merge import publication, schema_changes
from twopc.publisher.merge.filters import Filters, Join
from twopc.sim.merge.wiring import MergeWiring
from twopc.sim.topology.grants import grant_tables


class MergePublication:
    """The articles, which are changed at the topmost Publisher.

    A change of columns reaches each Subscriber with its next session.
    """

    def __init__(self, wiring: MergeWiring) -> None:
        self._wiring = wiring

    async def publish(
        self,
        table: str,
        *,
        schema: str = "public",
        tracking: str = "row",
        rowguid: str | None = None,
        row_filter: str | None = None,
        join: Join | Sequence[Join] = (),
        precomputed: bool = True,
        partition: int = 0,
        realigns: bool = True,
        identity: IdentityRanges | None = None,
        **options: Any,
    ) -> MergeArticle:
        """Merge a table of the Publisher; see `twopc.publisher.merge.publication.publish`.

        Args:
            row_filter: assigns rows to Subscribers: a condition over the columns, in which ``msrepl.host_name()``
                and ``msrepl.suser_sname()`` are a Subscriber's values.
            join: rows belong to the partitions of the rows of another article to which they refer.
            partition: a `PartitionOption`: how a Subscriber may change the partition of a row.
            realigns: False: rows that leave a Subscriber's partition stay there, and are no longer updated.
            identity: the ranges from which nodes draw the values of its identity or serial column; None:
                Subscribers supply values themselves.
            precomputed: False: partitions are evaluated for all rows each time, not only for changed ones.
            options: how its conflicts and failures are handled; see `twopc.merge.articles.options_of`.

        Raises:
            ConfigurationError: there are subscriptions, which would not receive the table.
            ArticleError: the table cannot be merged.
        """
        if MergeProtection.RESOLVER in self._wiring.without:
            options["resolver"] = None
        if MergeProtection.COMPENSATION in self._wiring.without:
            options["compensate"] = False
        connection = await self._wiring.at_root()
        if subscribed := await neighbours.subscriber_names(connection):
            raise ConfigurationError(
                f"table {schema}.{table}: {', '.join(subscribed)} subscribe already, and would not get it: "
                "unsubscribe first"
            )
        article = await publication.publish(
            connection,
            schema,
            table,
            tracking_level=tracking,
            rowguid=rowguid,
            options=options_of(f"table {schema}.{table}", **options),
            filters=Filters(
                row_filter=row_filter,
                joins=(join,) if isinstance(join, Join) else join,
                precomputed=precomputed,
                partition=partition,
                realigns=realigns,
            ),
            identity=identity,
            without=self._wiring.without,
        )
        await grant_tables(
            connection, schema, table, self._wiring.node(self._wiring.tree.root).app_role
        )
        return article

    async def unpublish(self, table: str, *, schema: str = "public") -> None:
        """Unpublish a table: the Publisher's table is restored to its state before, with its rows.

        Raises:
            ConfigurationError: there are subscriptions.
            ArticleError: the table is not merged.
        """
        connection = await self._wiring.at_root()
        if subscribed := await neighbours.subscriber_names(connection):
            raise ConfigurationError(
                f"table {schema}.{table}: {', '.join(subscribed)} subscribe to it: unsubscribe first"
            )
        await publication.unpublish(connection, schema, table)

    async def add_column(
        self, table: str, column: str, type_: str, *, default: str | None = None
    ) -> SchemaChange:
        """Add a column to a merged table; see `twopc.publisher.merge.schema_changes.add_column`.

        Raises:
            ArticleError: the column cannot be added; nothing is changed.
        """
        root = await self._wiring.at_root()
        return await schema_changes.add_column(root, table, column, type_, default=default)

    async def drop_column(self, table: str, column: str) -> SchemaChange:
        """Drop a column of a merged table; see `twopc.publisher.merge.schema_changes.drop_column`.

        Raises:
            ArticleError: the column cannot be dropped; nothing is changed.
        """
        return await schema_changes.drop_column(await self._wiring.at_root(), table, column)

    async def widen_column(self, table: str, column: str, type_: str) -> SchemaChange:
        """Widen the type of a merged table's column; see `twopc.publisher.merge.schema_changes.widen_column`.

        Raises:
            ArticleError: the column cannot have that type; nothing is changed.
        """
        root = await self._wiring.at_root()
        return await schema_changes.widen_column(root, table, column, type_)
