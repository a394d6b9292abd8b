"""The program ``python -m twopc.sim.up.process FOLDER KIND [NODE]``: one of the processes beside a topology's
servers.

The folder must exist; see `parts`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

from twopc import log
from twopc.drivers.merge.engine import MergeReport
from twopc.errors import MergeError, TwopcError
from twopc.sim import agent_processes
from twopc.sim.merge.agent import keep_merging
from twopc.sim.merge.attachment import attach
from twopc.sim.up import parts
from twopc.sim.up.state import State, load
from twopc.subscriber.distribution_agent import main as run_agent

_CLEAN_UP_EVERY_S = 60.0


def main(folder: str, kind: str, node: str = "") -> None:
    """Run a `parts.TopologyPart` until SIGINT or SIGTERM."""
    log.configure(level="warning", layout="text")
    state = load(Path(folder))

    def runs(*_: object) -> None:
        sys.stderr.write(f"{parts.RUNS}\n")
        sys.stderr.flush()

    if kind == "log-reader":
        asyncio.run(agent_processes.read_log(state.dsns, running=runs))
    elif kind == "agent":
        config = asyncio.run(
            agent_processes.agent_config(state.dsns, node, publisher=state.publisher, once=False)
        )
        run_agent(config, running=runs)
    elif kind == "resolver":
        asyncio.run(
            agent_processes.resolve(
                state.dsns,
                coordinator=state.name,
                newcomers=state.subscribers,
                running=runs,
            )
        )
    elif kind == parts.MERGE_AGENT:
        asyncio.run(_merge(state, node, runs))
    elif kind == parts.METRICS:
        from twopc.sim.up import metrics  # imports prometheus_client

        asyncio.run(metrics.serve(state, running=runs))
    else:
        asyncio.run(
            agent_processes.remove_delivered(
                state.dsns,
                every_s=_CLEAN_UP_EVERY_S,
                running=runs,
                archive_retention=timedelta(hours=state.archive_hours),
            )
        )


async def _merge(state: State, subscriber: str, runs: Callable[[], None]) -> None:
    """Run sessions with a Subscriber; log failed sessions and those with conflicts."""

    def tell(outcome: MergeReport | MergeError) -> None:
        if isinstance(outcome, MergeError) or outcome.conflicts or outcome.retried:
            sys.stderr.write(f"{outcome}\n")
            sys.stderr.flush()

    async with await attach(state.dsns, partly=True) as topology:
        await keep_merging(
            partial(topology.sync, subscriber),
            agent_processes.stopped_by_signals(runs),
            every_s=state.merge_every_s or 0,
            tell=tell,
        )


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except TwopcError as error:
        sys.exit(f"{error}")  # `parts.start` shows its last line
