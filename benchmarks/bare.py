"""A bare simpy loop as a yardstick: one process per node and client, one Store per node, one timeout per message
and forced write, and nothing else.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

MESSAGE_S = 0.0002
FLUSH_S = 0.0005


class BareLoop:
    """A loop with the numbers of clients, nodes, messages and forced writes of a run of the model.

    Args:
        messages: messages per transaction, in both directions; they go to the nodes in turn.
        writes: forced writes per transaction; each delays the answer to a message.
    """

    def __init__(self, *, clients: int, nodes: int, messages: int, writes: int) -> None:
        self._env = simpy.Environment()
        self._clients = clients
        self._questions = messages // 2
        self._writes = writes
        self._left = 0
        self._stores = [simpy.Store(self._env) for _ in range(nodes)]
        for store in self._stores:
            self._env.process(self._node(store))

    def run(self, transactions: int) -> None:
        """Run this number of transactions."""
        self._left = transactions
        running = [self._env.process(self._client(number)) for number in range(self._clients)]
        self._env.run(self._env.all_of(running))

    def _node(self, store: simpy.Store) -> Generator[simpy.Event, Any, None]:
        env = self._env
        while True:
            answer, written = yield store.get()
            if written:
                yield env.timeout(FLUSH_S)
            answer.succeed()

    def _client(self, number: int) -> Generator[simpy.Event, Any, None]:
        env, stores, count = self._env, self._stores, len(self._stores)
        while self._left:
            self._left -= 1
            for question in range(self._questions):
                answer = env.event()
                yield env.timeout(MESSAGE_S)
                yield stores[(number + question) % count].put((answer, question < self._writes))
                yield answer
                yield env.timeout(MESSAGE_S)
