"""A state machine of Hypothesis over a topology that merges: changes anywhere, sessions that are cut off, and nodes that
are restored from backups.

Rules may be added in a subclass.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from hypothesis.strategies import SearchStrategy, data, fixed_dictionaries, sampled_from
from psycopg import sql

from twopc.drivers.points import MERGE_POINTS
from twopc.errors import MergeError
from twopc.sim.testing.merge_doubles import TestMerge

#: Where a session may be cut off.
_POINTS = tuple(each.removesuffix("(node)") for each in MERGE_POINTS)
#: Of a Subscriber whose Publisher does not know any more what it should send, or whom.
_ANEW = ("21333", "subscribe anew")


class MergeMachine(RuleBasedStateMachine):
    """Rows of one table are inserted, updated, deleted and inserted again, at any node; sessions carry them.

    A test gives it the topology, and calls it::

        class Customers(MergeMachine):
            table = "customer"
            columns = {"phone": sampled_from(["1", "2"]), "credit": integers(0, 9)}

        def test_customers(twopc_merge):
            Customers.play(twopc_merge)

    Every example begins with the topology as it was made. In the end, after sessions until nothing comes any more,
    all nodes must have the same rows, and no change may be lost but those that went with a backup.
    """

    __test__ = False  # not a test, whatever its name says

    table: ClassVar[str]
    """``table`` or ``schema.table``. Its primary key is an integer column; new rows get keys that no other has."""
    key: ClassVar[str] = "id"
    """That column."""
    columns: ClassVar[dict[str, SearchStrategy[Any]]]
    """What is inserted into the other columns, and updated."""
    rowguid: ClassVar[str] = "rowguid"
    """The column by which merge replication knows rows."""

    merge: ClassVar[TestMerge]

    @classmethod
    def play(cls, merge: TestMerge, **settings: Any) -> None:
        """Let Hypothesis play it.

        Args:
            settings: of Hypothesis, as ``max_examples=20, stateful_step_count=10``.

        Raises:
            AssertionError: something that must hold does not; Hypothesis tells the shortest way to it.
        """
        from hypothesis import HealthCheck, seed
        from hypothesis import settings as make
        from hypothesis.stateful import run_state_machine_as_test

        cls.merge = merge
        chosen = {
            "deadline": None,
            "max_examples": 20,
            "stateful_step_count": 10,
            "suppress_health_check": [HealthCheck.too_slow],
        }
        machine = seed(merge.seed)(cls) if merge.seed else cls
        run_state_machine_as_test(machine, settings=make(**{**chosen, **settings}))

    def __init__(self) -> None:
        super().__init__()
        self.merge.renew()
        self._last_key = 1_000_000
        self._deleted: list[tuple[str, int, Any]] = []
        """Node, key and rowguid."""
        self._backed_up: set[str] = set()

    @property
    def _where(self) -> sql.Identifier:
        schema, _, table = self.table.rpartition(".")
        return sql.Identifier(schema or "public", table)

    def _keys(self, node: str) -> list[int]:
        """Of the rows that a node has."""
        query = sql.SQL("select {0} as key from {1} order by 1").format(
            sql.Identifier(self.key), self._where
        )
        return [row["key"] for row in self.merge.execute(node, query)]

    def _values(self, choice: Any) -> dict[str, Any]:
        values: dict[str, Any] = choice.draw(fixed_dictionaries(self.columns))
        return values

    def _insert(self, node: str, values: dict[str, Any]) -> None:
        query = sql.SQL("insert into {} ({}) values ({})").format(
            self._where,
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join([sql.Placeholder()] * len(values)),
        )
        self.merge.execute(node, query, list(values.values()))

    def node(self, choice: Any) -> str:
        """Any node."""
        drawn: str = choice.draw(sampled_from(self.merge.nodes))
        return drawn

    @rule(choice=data())
    def insert(self, choice: Any) -> None:
        """A new row, at any node."""
        self._last_key += 1
        self._insert(self.node(choice), {self.key: self._last_key, **self._values(choice)})

    @rule(choice=data())
    def update(self, choice: Any) -> None:
        """Some columns of some row, at any node that has one."""
        node = self.node(choice)
        if not (keys := self._keys(node)):
            return
        values = self._values(choice)
        column = choice.draw(sampled_from(sorted(values)))
        query = sql.SQL("update {} set {} = %s where {} = %s").format(
            self._where, sql.Identifier(column), sql.Identifier(self.key)
        )
        self.merge.execute(node, query, (values[column], choice.draw(sampled_from(keys))))

    @rule(choice=data())
    def delete(self, choice: Any) -> None:
        """Some row, at any node that has one."""
        node = self.node(choice)
        if not (keys := self._keys(node)):
            return
        key = choice.draw(sampled_from(keys))
        query = sql.SQL("delete from {} where {} = %s returning {} as guid").format(
            self._where, sql.Identifier(self.key), sql.Identifier(self.rowguid)
        )
        [row] = self.merge.execute(node, query, (key,))
        self._deleted.append((node, key, row["guid"]))

    @precondition(lambda self: bool(self._deleted))
    @rule(choice=data())
    def insert_again(self, choice: Any) -> None:
        """A row that was deleted, with its key and rowguid, where it was deleted; unless it is there again."""
        node, key, guid = choice.draw(sampled_from(self._deleted))
        if key not in self._keys(node):
            self._insert(node, {self.key: key, self.rowguid: guid, **self._values(choice)})

    @rule(choice=data())
    def sync(self, choice: Any) -> None:
        """A session with any Subscriber."""
        self._session(choice.draw(sampled_from(self.merge.subscribers)))

    @rule(choice=data())
    def sync_cut_off(self, choice: Any) -> None:
        """A session that is cut off, if it comes to a point that is drawn; else it does its work."""
        subscriber = choice.draw(sampled_from(self.merge.subscribers))
        self._session(subscriber, at=choice.draw(sampled_from(_POINTS)))

    @rule(choice=data())
    def back_up(self, choice: Any) -> None:
        """Any node, in place of its backup before."""
        node = self.node(choice)
        self.merge.back_up(node)
        self._backed_up.add(node)

    @precondition(lambda self: bool(self._backed_up))
    @rule(choice=data())
    def restore_backup(self, choice: Any) -> None:
        """Any node that has a backup; nobody is told."""
        node = choice.draw(sampled_from(sorted(self._backed_up)))
        self.merge.restore_backup(node)
        self._deleted = [each for each in self._deleted if each[0] != node]

    def _session(self, subscriber: str, at: str | None = None) -> None:
        """A session, cut off at a point if one is named; a Subscriber that has to begin anew does."""
        try:
            if at is None:
                self.merge.sync(subscriber)
            else:
                self.merge.sync_until(subscriber, at=at)
        except MergeError as error:
            if not any(each in str(error) for each in _ANEW):
                raise
            self.merge.call(self.merge.topology.reinitialise, subscriber)

    def teardown(self) -> None:
        """Sessions until nothing comes any more; then all nodes are equal, and no change that a node has is lost."""
        for subscriber in self.merge.subscribers:
            self._session(subscriber)
        self.merge.rounds()
        self.merge.assert_converged()
        self.merge.assert_nothing_lost()
