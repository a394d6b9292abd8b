"""Prometheus metrics of a running topology: the figures of `watch`, and the agents' retries.

Served at 127.0.0.1 only. Every request queries the nodes again; only connections are kept between requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import psycopg
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from twopc.errors import ConfigurationError
from twopc.signals import stop_event
from twopc.sim.up.setup import DISTRIBUTION
from twopc.sim.up.state import State
from twopc.sim.up.watch import TopologyState, TopologyWatch

HOST = "127.0.0.1"
_ANSWER_TIMEOUT_S = 20.0
_RETRIES = """
select subscriber, count(*) from msrepl.msdistribution_history
where event = 'retry' and subscriber is not null group by 1
"""


class TopologyCollector(Collector):
    """Collects the metrics of a topology at each request.

    Args:
        watch: used on `loop` only, while this object is called from the server's threads.
    """

    def __init__(self, watch: TopologyWatch, loop: asyncio.AbstractEventLoop) -> None:
        self._watch = watch
        self._loop = loop
        self._turn = asyncio.Lock()

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        work = asyncio.run_coroutine_threadsafe(self._look(), self._loop)
        moment, retries = work.result(_ANSWER_TIMEOUT_S)
        return iter(families(moment, retries))

    async def _look(self) -> tuple[TopologyState, dict[str, int]]:
        async with self._turn:
            moment = await self._watch.look()
            if self._watch.merges:
                return moment, {}
            try:
                retries = dict(await self._watch.rows(DISTRIBUTION, _RETRIES))
            except psycopg.Error:
                retries = {}
            return moment, retries


def families(moment: TopologyState, retries: dict[str, int]) -> list[Metric]:
    """Return a topology's state as metrics; a node that did not answer has only `twopc_node_up`, with value 0."""
    up = GaugeMetricFamily("twopc_node_up", "1: the node answers.", labels=["node"])
    sessions = GaugeMetricFamily(
        "twopc_sessions", "Sessions of the application's role.", labels=["node"]
    )
    conflicts = CounterMetricFamily(
        "twopc_conflicts", "Changes of a Subscriber that the Publisher refused.", labels=["node"]
    )
    prepared = GaugeMetricFamily(
        "twopc_in_doubt", "Prepared branches of global transactions.", labels=["node"]
    )
    oldest = GaugeMetricFamily(
        "twopc_in_doubt_age_seconds", "Age of the oldest prepared branch.", labels=["node"]
    )
    for node in moment.nodes:
        up.add_metric([node.name], 0 if node.error else 1)
        if node.error:
            continue
        ages = [age for name, _, age in moment.in_doubt if name == node.name]
        sessions.add_metric([node.name], node.sessions)
        conflicts.add_metric([node.name], node.refused)
        prepared.add_metric([node.name], len(ages))
        oldest.add_metric([node.name], max(ages, default=0.0))
    lag = GaugeMetricFamily(
        "twopc_distribution_lag_seconds",
        "Age of the oldest transaction that waits for a Subscriber, or for how long log is not read.",
        labels=["subscriber"],
    )
    queue = GaugeMetricFamily(
        "twopc_distribution_queue_transactions",
        "Transactions that wait for a Subscriber.",
        labels=["subscriber"],
    )
    retry = CounterMetricFamily(
        "twopc_agent_retries",
        "How often a distribution agent tried again, as far as its history is kept.",
        labels=["subscriber"],
    )
    for agent in moment.agents:
        lag.add_metric([agent.subscriber], agent.lag_s or 0.0)
        queue.add_metric([agent.subscriber], agent.waiting_transactions)
        retry.add_metric([agent.subscriber], retries.get(agent.subscriber, 0))
    rows = GaugeMetricFamily(
        "twopc_merge_waiting_rows",
        "Changed rows that wait for the next merge session.",
        labels=["subscriber", "direction"],
    )
    for merge in moment.merges:
        if merge.rows_up is not None:
            rows.add_metric([merge.subscriber, "up"], merge.rows_up)
        rows.add_metric([merge.subscriber, "down"], merge.rows_down)
    node_families = [up, sessions, conflicts, prepared, oldest]
    return [*node_families, lag, queue, retry, rows, *_topology_families(moment)]


def _topology_families(moment: TopologyState) -> list[Metric]:
    """Return the metrics that belong to no single node."""
    unread = GaugeMetricFamily("twopc_log_unread_bytes", "The Publisher's log that is not read.")
    unread.add_metric([], moment.unread_bytes)
    blocked = GaugeMetricFamily("twopc_blocked_sessions", "Sessions that wait for a lock.")
    blocked.add_metric([], len(moment.blocked))
    down = GaugeMetricFamily(
        "twopc_process_down", "1: a server or process should run and does not.", labels=["process"]
    )
    for name in moment.missing:
        down.add_metric([name], 1)
    stopped = GaugeMetricFamily(
        "twopc_process_stopped", "1: a process lives and is suspended.", labels=["process"]
    )
    for each in moment.stopped:
        stopped.add_metric([each.process], 1)
    return [unread, blocked, down, stopped]


async def serve(state: State, *, running: Callable[[], None]) -> None:
    """Serve the metrics of a topology at its port until SIGINT or SIGTERM.

    Args:
        running: called once signals stop the server cleanly.

    Raises:
        ConfigurationError: no port is set, or it is in use.
    """
    if state.metrics_port is None:
        raise ConfigurationError("no port for metrics is set: `twopc up --metrics PORT`")
    loop, stop = asyncio.get_running_loop(), stop_event()
    async with TopologyWatch(state) as watch:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(TopologyCollector(watch, loop))
        try:
            server, thread = start_http_server(state.metrics_port, addr=HOST, registry=registry)
        except OSError as error:
            raise ConfigurationError(
                f"port {state.metrics_port} for metrics cannot be used: {error.strerror}"
            ) from None
        running()
        await stop.wait()
        await asyncio.to_thread(server.shutdown)
        thread.join()
        server.server_close()
