"""A state machine of Hypothesis over a topology of merge replication: changes at any node, interrupted sessions,
and nodes that are restored from backups.

Subclasses may add rules.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from hypothesis.strategies import SearchStrategy, data, fixed_dictionaries, sampled_from
from psycopg import sql

from twopc.drivers.points import MERGE_POINTS
from twopc.errors import MergeError
from twopc.sim.testing.machine import run_machine
from twopc.sim.testing.merge_doubles import TestMerge

#: Points at which a session may be interrupted.
_POINTS = tuple(each.removesuffix("(node)") for each in MERGE_POINTS)
#: Messages for a Subscriber that has to be reinitialised because its Publisher was restored.
_REINITIALISE_MESSAGES = ("21333", "subscribe anew")


class MergeMachine(RuleBasedStateMachine):
    """Inserts, updates, deletes and reinserts rows of one table at any node; sessions propagate the changes.

    A test passes the topology to `play`::

        class Customers(MergeMachine):
            table = "customer"
            columns = {"phone": sampled_from(["1", "2"]), "credit": integers(0, 9)}

        def test_customers(twopc_merge):
            Customers.play(twopc_merge)

    Every example begins with the topology in its initial state. At the end, after sessions until none changes
    anything, all nodes must have the same rows, and no change may be lost except by the restoring of a backup.
    """

    __test__ = False  # not a test, despite its name

    table: ClassVar[str]
    """``table`` or ``schema.table``. Its primary key is an integer column; new rows get keys that no other row has."""
    key: ClassVar[str] = "id"
    """The primary key's column."""
    columns: ClassVar[dict[str, SearchStrategy[Any]]]
    """Strategies for the values of the other columns, by column."""
    rowguid: ClassVar[str] = "rowguid"
    """The column by which merge replication identifies rows."""

    merge: ClassVar[TestMerge]

    @classmethod
    def play(cls, merge: TestMerge, **settings: Any) -> None:
        """Run the state machine with Hypothesis.

        Args:
            settings: of Hypothesis, as ``max_examples=20, stateful_step_count=10``.

        Raises:
            AssertionError: an invariant is violated; Hypothesis shows the shortest failing example.
        """
        cls.merge = merge
        run_machine(cls, merge.seed, settings)

    def __init__(self) -> None:
        super().__init__()
        self.merge.renew()
        self._last_key = 1_000_000
        self._deleted: list[tuple[str, int, Any]] = []
        """Node, key and rowguid of each deleted row."""
        self._backed_up: set[str] = set()

    @property
    def _where(self) -> sql.Identifier:
        schema, _, table = self.table.rpartition(".")
        return sql.Identifier(schema or "public", table)

    def _keys(self, node: str) -> list[int]:
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
        """Draw a node."""
        drawn: str = choice.draw(sampled_from(self.merge.nodes))
        return drawn

    @rule(choice=data())
    def insert(self, choice: Any) -> None:
        """Insert a new row at any node."""
        self._last_key += 1
        self._insert(self.node(choice), {self.key: self._last_key, **self._values(choice)})

    @rule(choice=data())
    def update(self, choice: Any) -> None:
        """Update a column of a row at any node that has rows."""
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
        """Delete a row at any node that has rows."""
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
        """Reinsert a deleted row, with its key and rowguid, at the node where it was deleted, unless the key exists
        there.
        """
        node, key, guid = choice.draw(sampled_from(self._deleted))
        if key not in self._keys(node):
            self._insert(node, {self.key: key, self.rowguid: guid, **self._values(choice)})

    @rule(choice=data())
    def sync(self, choice: Any) -> None:
        """Run a session with any Subscriber."""
        self._session(choice.draw(sampled_from(self.merge.subscribers)))

    @rule(choice=data())
    def sync_cut_off(self, choice: Any) -> None:
        """Run a session that is interrupted at a drawn point; it runs to its end if it does not reach the point."""
        subscriber = choice.draw(sampled_from(self.merge.subscribers))
        self._session(subscriber, at=choice.draw(sampled_from(_POINTS)))

    @rule(choice=data())
    def back_up(self, choice: Any) -> None:
        """Back up any node, replacing its earlier backup."""
        node = self.node(choice)
        self.merge.back_up(node)
        self._backed_up.add(node)

    @precondition(lambda self: bool(self._backed_up))
    @rule(choice=data())
    def restore_backup(self, choice: Any) -> None:
        """Restore any node that has a backup, without notifying other nodes."""
        node = choice.draw(sampled_from(sorted(self._backed_up)))
        self.merge.restore_backup(node)
        self._deleted = [each for each in self._deleted if each[0] != node]

    def _session(self, subscriber: str, at: str | None = None) -> None:
        """Run a session, interrupted at a point if one is named; reinitialise the Subscriber if necessary."""
        try:
            if at is None:
                self.merge.sync(subscriber)
            else:
                self.merge.sync_until(subscriber, at=at)
        except MergeError as error:
            if not any(each in str(error) for each in _REINITIALISE_MESSAGES):
                raise
            self.merge.call(self.merge.topology.reinitialise, subscriber)

    def teardown(self) -> None:
        """Run sessions until none changes anything; check that all nodes are equal, and no change of a node is
        lost.
        """
        for subscriber in self.merge.subscribers:
            self._session(subscriber)
        self.merge.rounds()
        self.merge.assert_converged()
        self.merge.assert_nothing_lost()
