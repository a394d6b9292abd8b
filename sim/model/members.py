"""Subscribers of a model: the tables and objects of a Subscriber, and how it joins or leaves during a run.

Implements `subscribe`, `unsubscribe` and `reinitialise` of `twopc.sim.topology.subscriptions`. When a Subscriber
leaves, its
tables stay with their rows; only the product's objects on them are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twopc.errors import ConfigurationError, SubscriptionError
from twopc.sim.model.builder import blaming
from twopc.sim.model.distribution.copies import Seen, nobody
from twopc.sim.model.distribution.system_distribution import Distribution
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.replication import articles
from twopc.sim.model.replication.articles import ModelArticle
from twopc.sim.model.replication.shipping import MARKER
from twopc.sim.model.replication.subscription import ModelSubscription
from twopc.sim.model.replication.versions import Births
from twopc.sim.model.sql.plpgsql import SqlTrigger
from twopc.sim.model.values import ModelSpec, Steps, SubscriberSpec


class Members:
    """The Subscribers of one model.

    Args:
        subscription: creates the triggers and functions of a Subscriber, if it may change rows.
    """

    def __init__(
        self, spec: ModelSpec, nodes: Mapping[str, ModelNode], *, published: Mapping[str, ModelArticle], births: Mapping[str, Births],
        subscription: Callable[[SubscriberSpec], ModelSubscription | None],
        subscriptions: dict[str, ModelSubscription],
    ) -> None:  # fmt: skip
        self._spec = spec
        self._nodes = nodes
        self._published = published
        self._births = births
        self._subscription = subscription
        self._subscriptions = subscriptions
        self._specs = {one.name: one for one in spec.subscribers}
        self.distribution: Distribution | None = None
        self.now: set[str] = {one.name for one in spec.subscribers if not one.joins_later}
        """Names of the present Subscribers."""
        self._copied: set[str] = set()
        """Names of nodes that have the tables, whether they subscribe or not."""

    def has_tables(self, name: str) -> bool:
        """Whether a node subscribes or has subscribed before."""
        return name in self._copied

    # -- tables and objects of a Subscriber, outside of virtual time -----------------------------------

    def begin(self, name: str) -> None:
        """Set up a Subscriber that subscribes before the run begins."""
        node, role = self._nodes[name], articles.link_role(name)
        self._make_tables(name)
        for article in self._published.values():
            articles.fill(article, node, role)
        self._make_objects(name)

    def _make_tables(self, name: str) -> None:
        if name not in self._copied:
            articles.make_copies(self._published, self._nodes[name], self._births[name])
            for table in self._spec.tables:
                for at, text in enumerate(table.procedures):
                    with blaming("tables", table.name, "procedures", at):
                        self._nodes[name].define(text)
            self._copied.add(name)

    def _make_objects(self, name: str) -> None:
        one, node = self._specs[name], self._nodes[name]
        subscription = self._subscription(one)
        session = node.connect("postgres", "definition")
        for at, text in enumerate(one.sql):
            with blaming("subscribers", one.name, "sql", at):
                node.define(text, session)
        session.close()
        if subscription is not None:
            subscription.fit()  # the product's triggers are ordered before the new ones

    def _remove_objects(self, name: str) -> None:
        node = self._nodes[name]
        for table in (*self._published, MARKER):
            there = node.table(table)
            there.triggers[:] = [one for one in there.triggers if isinstance(one, SqlTrigger)]
            there.settle()
        node.plans.forget()
        self._subscriptions.pop(name, None)
        self.now.discard(name)

    # -- during a run ----------------------------------------------------------------------------------

    def join(self, name: str, seen: Seen = nobody) -> Steps[None]:
        """Subscribe a node: an initial copy, and then all later changes.

        Raise SubscriptionError, SqlError or RequestLostError.
        """
        node, distribution = self._nodes[name], self.require_distribution()
        if name in self.now:
            raise SubscriptionError(f"{name!r} subscribes already (21058): unsubscribe it first")
        self._make_tables(name)
        for table in self._published:
            if any(True for _ in node.table(table).rows()):
                raise SubscriptionError(
                    f"table {table} at {name!r} is not empty: the initial copy would mix with its rows;"
                    " empty it first"
                )
        distribution.announce(self._specs[name])
        try:
            distribution.check_procedures(name)
            yield from distribution.bring(name, seen)
        except BaseException:
            distribution.forget(name)
            raise
        self._make_objects(name)
        self.now.add(name)

    def leave(self, name: str, seen: Seen = nobody) -> Steps[None]:
        """Remove a Subscriber's subscription; its rows stay. Raise LockTimeoutError or SubscriptionError."""
        if name not in self.now:
            raise SubscriptionError(f"{name!r} does not subscribe: subscribe it first")
        yield from self.require_distribution().close_down(
            name, seen, lambda: self._remove_objects(name)
        )

    def reinitialise(self, name: str, seen: Seen = nobody) -> Steps[None]:
        """Replace all rows of a Subscriber during the run. Raise LockTimeoutError or SubscriptionError."""
        yield from self.require_distribution().reinitialise(name, seen)

    def require_distribution(self) -> Distribution:
        """Return the distribution. Raise ConfigurationError if there is none."""
        if self.distribution is None:
            raise ConfigurationError(
                f"{self._spec.publisher!r} distributes nothing: the topology was made without"
            )
        return self.distribution
