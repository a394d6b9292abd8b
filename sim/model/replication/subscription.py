"""Installing subscriptions: triggers and functions at a Subscriber, and triggers at the Publisher.

Implements the effects of `twopc.subscriber.subscription`, `twopc.subscriber.triggers`,
`twopc.subscriber.trigger_order` and `twopc.publisher.witness`. Triggers fire in the order of their names: the
product's come first, and the row's version is stamped last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twopc.names import (
    first_trigger,
    last_trigger,
    sync_trigger_function,
    truncate_trigger,
    witness_trigger,
)
from twopc.sim.model.network import Network
from twopc.sim.model.node.heap import HeapTable
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.replication.articles import ACTS, ModelArticle
from twopc.sim.model.replication.behaviour import Behaviour
from twopc.sim.model.replication.calls import Operation
from twopc.sim.model.replication.capture import (
    Capture,
    CaptureTriggers,
    Close,
    Fill,
    Open,
    RefuseTruncate,
    Renew,
    Stamp,
)
from twopc.sim.model.replication.link import Link
from twopc.sim.model.replication.procedures import ModelProcedures
from twopc.sim.model.replication.shipping import MARKER, AnyClientsPort, Guard, Shipping
from twopc.sim.model.replication.stored_values import Witness
from twopc.sim.model.replication.versions import Births
from twopc.sim.model.sql.plpgsql import SqlTrigger
from twopc.sim.model.values import Steps

OPERATIONS: tuple[Operation, ...] = ("ins", "upd", "del")

Reach = Callable[[str, OpenTx], Steps[None]]


class ModelSubscription:
    """The subscription of one Subscriber."""

    def __init__(
        self, node: ModelNode, publisher: ModelNode, network: Network, articles: Mapping[str, ModelArticle],
        procedures: ModelProcedures, behaviour: Behaviour, births: Births, reach: Reach,
    ) -> None:  # fmt: skip
        self.node = node
        self._publisher = publisher
        self._network = network
        self._articles = articles
        self._procedures = procedures
        self._behaviour = behaviour
        self._births = births
        self._shipping = Shipping(publisher.name, node.name, behaviour, self.link)
        self._shared = CaptureTriggers(articles, self._shipping, behaviour, self.link, reach)
        self._made: list[tuple[HeapTable, Any]] = []

    def let_any_client(self, clients: AnyClientsPort) -> None:
        """Accept transactions without a coordinator from now on, as transactions of any client."""
        self._shipping.any_clients = clients

    def link(self, tx: OpenTx) -> Link:
        """Return the link of a transaction's session."""
        session = tx.session
        if session.link is None:
            session.link = Link(
                session, self._network, self._publisher, self.node.name, self._procedures.plan
            )
        result: Link = session.link
        return result

    def install(self) -> None:
        """Create all functions and triggers."""
        node, behaviour = self.node, self._behaviour
        node.add_function("msrepl.prepare_publisher", self._shipping.prepare_publisher)
        node.add_function("msrepl.reset_link", self._shipping.reset_link)
        node.add_function("msrepl.flush_log", flush_log)
        node.add_trigger(MARKER, Guard(behaviour, self._shipping))
        for article in self._articles.values():
            table = node.table(article.name)
            node.add_trigger(table.name, Stamp(_name(article, "ver"), article, table, behaviour))
            node.add_trigger(table.name, RefuseTruncate(truncate_trigger("public", article.name)))
            if article.made:
                fill = Fill(_name(article, "gen"), article, self._shared, self._shipping.fetch)
                node.add_trigger(table.name, fill)
            node.add_trigger(table.name, Renew(_name(article, "new"), article, self._births))
        self.fit()

    def fit(self) -> None:
        """Recreate the capture triggers to match the user's current triggers."""
        for table, trigger in self._made:
            table.triggers.remove(trigger)
            table.settle()

        self._made.clear()
        for article in self._articles.values():
            self._capture(article, self.node.table(article.name))

    def may_hold(self, article: ModelArticle) -> bool:
        """Return whether changes of one statement may have to wait for each other."""
        table = self.node.table(article.name)
        own = (*table.references, *table.referenced)
        return bool(
            article.references
            or article.referenced
            or any(key.on_delete in ACTS or key.on_update in ACTS for key in own)
            or any(index.deferrable for index in table.indexes)
            or any(one.when == "before row" for one in _users(table))
        )

    def _capture(self, article: ModelArticle, table: HeapTable) -> None:
        may_hold = self.may_hold(article)
        for operation in OPERATIONS:
            by_row = _by_row(table, operation)
            self._add(
                table,
                Capture(
                    _name(article, operation), operation, article, self._shared, by_row=by_row,
                    may_hold=may_hold, acts=_may_act(article, operation, before_end=by_row),
                ),
            )  # fmt: skip
            if may_hold:
                self._add(table, Open(_name(article, "open"), operation))
                if by_row:
                    self._add(
                        table, Close(_name(article, f"end_{operation}"), operation, self._shared)
                    )

    def _add(self, table: HeapTable, trigger: Any) -> None:
        self.node.add_trigger(table.name, trigger)
        self._made.append((table, trigger))


def watch_publisher(
    node: ModelNode, articles: Mapping[str, ModelArticle], behaviour: Behaviour
) -> None:
    """Create the triggers of published tables: against TRUNCATE, and a witness if triggers may change the tables."""
    for article in articles.values():
        node.add_trigger(article.name, RefuseTruncate(truncate_trigger("public", article.name)))
    may_change = any(
        _users(article.table)
        or any(
            key.child.name not in articles and (key.on_delete in ACTS or key.on_update in ACTS)
            for key in article.table.referenced
        )
        for article in articles.values()
    )
    if may_change and behaviour.witness():
        for article in articles.values():
            node.add_trigger(
                article.name, Witness(witness_trigger("public", article.name), article)
            )


def _users(table: HeapTable) -> list[Any]:
    """Return the user's triggers that fire for an application's statements."""
    return [
        one
        for one in table.triggers
        if isinstance(one, SqlTrigger) and one.fires in ("origin", "always")
    ]


def _by_row(table: HeapTable, operation: Operation) -> bool:
    """Return whether the user has an AFTER ROW trigger: such triggers fire before AFTER STATEMENT triggers."""
    return any(one.when == "after row" and operation in one.operations for one in _users(table))


def _may_act(article: ModelArticle, operation: Operation, *, before_end: bool) -> bool:
    """Return whether rows must be held although no other statement is open.

    This is the case if referential actions of the statement are still to come, or have changed the same table
    again.
    """
    return operation != "ins" and any(
        (key.on_delete if operation == "del" else key.on_update) in ACTS
        for key in article.referenced
        if before_end or (operation == "upd" and key.child is article.table)
    )


def _name(article: ModelArticle, what: str) -> str:
    name = sync_trigger_function(what, "public", article.name)
    return last_trigger(name) if what in ("new", "ver") else first_trigger(name)


def flush_log(tx: OpenTx) -> Steps[str]:
    """``select msrepl.flush_log()``: make every visible commit durable."""
    wal = tx.node.wal
    if wal.durable < wal.end:
        yield from wal.force(wal.end)
    return ""
