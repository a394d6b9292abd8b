"""``python -m twopc.sim.up.process FOLDER KIND [NODE]``: one of the processes beside a topology's servers.

Whoever starts it has made the folder; see `parts`.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from twopc import log
from twopc.errors import TwopcError
from twopc.sim import standing
from twopc.sim.up import parts
from twopc.sim.up.state import load
from twopc.subscriber.distribution_agent import main as run_agent

_CLEAN_UP_EVERY_S = 60.0


def main(folder: str, kind: str, node: str = "") -> None:
    """Be a `parts.Part` until SIGINT or SIGTERM."""
    log.configure(level="warning", layout="text")
    state = load(Path(folder))

    def runs(*_: object) -> None:
        sys.stderr.write(f"{parts.RUNS}\n")
        sys.stderr.flush()

    if kind == "log-reader":
        asyncio.run(standing.read_log(state.dsns, running=runs))
    elif kind == "agent":
        config = asyncio.run(
            standing.agent_config(state.dsns, node, publisher=state.publisher, once=False)
        )
        run_agent(config, running=runs)
    elif kind == "resolver":
        asyncio.run(
            standing.resolve(
                state.dsns,
                coordinator=state.name,
                newcomers=state.subscribers,
                running=runs,
            )
        )
    elif kind == parts.METRICS:
        from twopc.sim.up import metrics  # with the client library of Prometheus

        asyncio.run(metrics.serve(state, running=runs))
    else:
        asyncio.run(
            standing.remove_delivered(
                state.dsns,
                every_s=_CLEAN_UP_EVERY_S,
                running=runs,
                archive_retention=timedelta(hours=state.archive_hours),
            )
        )


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except TwopcError as error:
        sys.exit(f"{error}")  # whoever starts it shows its last line
