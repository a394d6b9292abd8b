"""Plays in virtual time what chance has a part in, and prints every line of its history; run by a test.

Messages and flushes take drawn times, so that a different order of anything shows.
"""

from __future__ import annotations

import sys

from benchmarks.bank import Bank
from twopc.sim.model.values import Delay, ModelTiming


def main() -> None:
    """``python -m tests.model.deterministic SEED``"""
    timing = ModelTiming(
        message=Delay(kind="exponential", a=0.0002), flush=Delay(kind="lognormal", a=0.0005, b=0.5)
    )
    bank = Bank(clients=12, nodes=4, history=sys.stdout, seed=int(sys.argv[1]), timing=timing)
    bank.run(150)
    bank.check()


if __name__ == "__main__":
    main()
