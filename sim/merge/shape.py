"""The shape of a topology of merge replication: the Subscribers of each Publisher. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twopc import names
from twopc.errors import ConfigurationError, SubscriptionError


class MergeTree:
    """One topmost Publisher, Subscribers, and republishers, which are both.

    Args:
        children: Subscribers of each node that publishes.

    Raises:
        ConfigurationError: a name is invalid or occurs twice, or the nodes are not all below one.
    """

    def __init__(self, children: Mapping[str, Sequence[str]]) -> None:
        below = [name for each in children.values() for name in each]
        for node in (*children, *below):
            if not names.is_node_name(node):
                raise ConfigurationError(
                    f"node {node!r}: use 1 to 63 of the characters A-Z a-z 0-9 _ . -"
                )
        tops = [name for name in children if name not in below]
        if len(set(below)) < len(below) or not tops:
            raise ConfigurationError("two nodes have one name, or one subscribes at two Publishers")
        if len(tops) > 1:
            raise ConfigurationError(
                f"{' and '.join(tops)} subscribe nowhere: one Publisher is above all others"
            )
        self.root = tops[0]
        self._publishers = {name: parent for parent, each in children.items() for name in each}
        order = [self.root]
        for name in order:
            order += children.get(name, ())
        if missing := sorted({*children} - {*order}):
            raise ConfigurationError(f"{', '.join(missing)} subscribe in a circle")
        self.subscribers: tuple[str, ...] = tuple(order[1:])
        """Subscribers, each after its Publisher."""
        self.publishers: tuple[str, ...] = tuple(
            name for name in order if name == self.root or children.get(name)
        )
        """Nodes at which others may subscribe, the topmost first."""

    @property
    def upwards(self) -> tuple[str, ...]:
        """Subscribers, each before its Publisher, and otherwise in the given order."""
        return tuple(sorted(self.subscribers, key=lambda name: -self._depth(name)))

    def _depth(self, name: str) -> int:
        return 0 if name == self.root else 1 + self._depth(self._publishers[name])

    def publisher_of(self, subscriber: str) -> str:
        """Return the Publisher of a node.

        Raises:
            ConfigurationError: there is no such node.
            SubscriptionError: the node is the topmost Publisher.
        """
        if subscriber == self.root:
            raise SubscriptionError(f"{subscriber} is the Publisher: name a Subscriber")
        if subscriber not in self._publishers:
            raise ConfigurationError(
                f"no node {subscriber!r}; nodes are {', '.join((self.root, *self.subscribers))}"
            )
        return self._publishers[subscriber]

    def subscribers_of(self, publisher: str) -> tuple[str, ...]:
        """Return the Subscribers of a node."""
        return tuple(name for name in self.subscribers if self._publishers[name] == publisher)
