"""Play transactions with random delays in virtual time, and print the history; run by a test.

The durations of messages and flushes are drawn, so that any difference in order becomes visible.
"""

from __future__ import annotations

import sys

from benchmarks.bank import Bank
from twopc.sim.model.values import Delay, ModelTiming


def main() -> None:
    """Play one seed: ``python -m tests.model.deterministic SEED``."""
    timing = ModelTiming(
        message=Delay(kind="exponential", a=0.0002), flush=Delay(kind="lognormal", a=0.0005, b=0.5)
    )
    bank = Bank(clients=12, nodes=4, history=sys.stdout, seed=int(sys.argv[1]), timing=timing)
    bank.run(150)
    bank.check()


if __name__ == "__main__":
    main()
