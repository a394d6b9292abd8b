"""Sessions of the Merge Agent between the nodes of a topology."""

from __future__ import annotations

from psycopg import sql

from twopc.drivers.merge import neighbours, partitions, tracking
from twopc.drivers.merge.engine import Ask, MergeReport, MergeSession
from twopc.drivers.merge.schema_changes import replay
from twopc.drivers.merge.server import ServerMergeEnd
from twopc.errors import ConfigurationError
from twopc.merge.handlers import MergeHandler
from twopc.merge.schema_changes import SchemaChange
from twopc.sim.merge.wiring import MergeWiring
from twopc.sql.fragments import identifiers, qualified


class MergeSessions:
    """Runs sessions, and checks that the nodes have converged."""

    def __init__(self, wiring: MergeWiring) -> None:
        self._wiring = wiring
        self.handlers: dict[str, MergeHandler] = {}
        """Handlers called for each row that sessions propagate, by table (``name``, or ``schema.name``)."""

    async def sync(
        self, subscriber: str, *, ask: Ask | None = None, only_upload: bool = False
    ) -> MergeReport:
        """Run one session of the Merge Agent: upload the Subscriber's changes, then download the Publisher's.

        Args:
            ask: decides conflicts interactively; may be a coroutine function.
            only_upload: download nothing (the original's ExchangeType 1).

        Raises:
            MergeError: another session is in progress, an end has been replaced, or the session ended early, and
                the next one continues.
        """
        wiring = self._wiring
        wiring.node(subscriber)
        publisher = wiring.tree.publisher_of(subscriber)
        session = MergeSession(
            self._end(publisher, subscriber),
            self._end(subscriber, publisher),
            wiring.points,
            handlers=self.handlers,
            ask=ask,
            only_upload=only_upload,
            without=wiring.without,
        )
        return await session.run()

    def _end(self, node: str, other: str) -> ServerMergeEnd:
        wiring = self._wiring
        login = wiring.login(node, other)

        async def make_change(change: SchemaChange) -> None:
            async with await wiring.node(node).connect() as connection:
                await replay(connection, change, lock_timeout_ms=wiring.lock_timeout_ms)

        return ServerMergeEnd(
            node, login.connect, login.keep, make_change, lock_timeout_ms=wiring.lock_timeout_ms
        )

    async def settle(self, rounds_max: int = 10) -> int:
        """Run sessions with every Subscriber until a round changes nothing; return the number of rounds.

        Raises:
            ConfigurationError: the last of `rounds_max` rounds still changed something: failing changes are retried
                each time.
        """
        subscribed = await self._wiring.subscribed()
        for number in range(1, rounds_max + 1):
            reports = [await self.sync(subscriber) for subscriber in subscribed]
            if not any(r.uploaded or r.downloaded or r.conflicts or r.deferred for r in reports):
                return number
        raise ConfigurationError(f"the nodes still change after {rounds_max} rounds of sessions")

    async def rewound(self, node: str) -> None:
        """Notify a node that it was restored from a backup, before its applications write.

        It gets another replica number at once, so that no new change has a version that was used before the
        restore. Without this call, the next session detects the restore. In either case that session compares
        everything.

        Raises:
            SubscriptionError: the node merges with no other.
        """
        tree = self._wiring.tree
        others = tree.subscribers_of(node)
        neighbour = others[0] if node == tree.root and others else tree.publisher_of(node)
        end = self._end(node, neighbour)
        await end.open(alone=False)
        try:
            await end.rewind()
        finally:
            await end.close()

    async def agent_processes(self, subscriber: str) -> list[tuple[str, int]]:
        """Return node and PID of each end of the session in progress with a Subscriber."""
        results = []
        publisher = self._wiring.tree.publisher_of(subscriber)
        for node, other in ((publisher, subscriber), (subscriber, publisher)):
            connection = await self._wiring.admin(node)
            results += [(node, pid) for pid in await neighbours.agent_processes(connection, other)]
        return results

    async def assert_converged(self) -> None:
        """Assert that every Subscriber has the Publisher's rows in every table: of a filtered one, those of its
        partition.

        Rows that have left a partition, and stay because the article does not realign, are ignored.
        """
        wiring = self._wiring
        above = await wiring.at_root()
        subscribed = await wiring.subscribed()
        for article in await tracking.articles(above):
            table = qualified(article.schema, article.table)
            columns = identifiers([article.rowguid, *[c.name for c in article.columns]], "t")
            query = sql.SQL("select row({})::text from {} as t where {} order by 1")
            for node in subscribed:
                left = await partitions.left_behind(above, article, node)
                kept = sql.SQL("t.{} <> all ({}::uuid[])").format(
                    sql.Identifier(article.rowguid), sql.Literal(left)
                )
                belongs = await partitions.part(above, article, node)
                below = await wiring.admin(node)
                held = await below.execute(query.format(columns, table, kept))
                expected = await above.execute(query.format(columns, table, belongs))
                assert await held.fetchall() == await expected.fetchall(), (
                    f"{article.name} at {node} differs"
                )
