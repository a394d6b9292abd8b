"""Two-phase commit in virtual time against a bare loop: ``python -m benchmarks.model``.

``model_ratio`` is simulated transactions per CPU second, by real coordinators, drivers, machines and nodes and with
the history written, over those of a bare simpy loop with the same numbers of clients, nodes, messages and forced
writes (`benchmarks.bare`; the numbers come from the trace of our own run). ``growth_1000`` is CPU time per
transaction with 1,000 clients and 100 nodes over that with 10 clients and 2 nodes. ``memory_growth`` is the memory of
the process after 40,000 transactions over that after 20,000.

Both sides run in turns. A run is void unless money is conserved and both ends are equal.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.bank import Bank, Counts
from benchmarks.bare import BareLoop
from benchmarks.figures import Figure, median, report, spread

SMALL = (10, 2)
LARGE = (1_000, 100)
MEMORY_STEP = 20_000


def counted(clients: int, nodes: int, transactions: int, folder: Path) -> Counts:
    """Return the messages and forced writes of a run; it is the same run as the measured ones, but counted."""
    with (folder / "counted.jsonl").open("w") as history:
        bank = Bank(clients=clients, nodes=nodes, history=history, counted=True)
        bank.run(transactions)
        bank.check()
    return bank.counts


def seconds(run: Callable[[int], None], transactions: int) -> float:
    """Return the CPU seconds per transaction."""
    gc.collect()
    began = time.process_time()
    run(transactions)
    return (time.process_time() - began) / transactions


class Side:
    """One size of the system, measured in turns with the model and the bare loop."""

    def __init__(self, clients: int, nodes: int, folder: Path) -> None:
        self.counts = counted(clients, nodes, max(400, 4 * clients), folder)
        self._file = (folder / f"{clients}.jsonl").open("w")
        self._bank = Bank(clients=clients, nodes=nodes, history=self._file)
        self._bare = BareLoop(
            clients=clients, nodes=nodes, messages=round(self.counts.messages_each),
            writes=round(self.counts.writes_each),
        )  # fmt: skip
        self.ours: list[float] = []
        self.bare: list[float] = []
        self._bank.run(2 * clients)
        self._bare.run(2 * clients)

    def round(self, transactions: int) -> None:
        """Measure each once."""
        self.bare.append(seconds(self._bare.run, transactions))
        self.ours.append(seconds(self._bank.run, transactions))

    def end(self) -> None:
        """Check the result.

        Raises:
            RuntimeError: the run is void.
        """
        self._bank.check()
        self._file.close()

    @property
    def ratios(self) -> list[float]:
        """The ratio of each round."""
        return [bare / ours for bare, ours in zip(self.bare, self.ours, strict=True)]


def _memory(folder: str, step: int) -> list[int]:
    """Return the bytes that this process holds after one step and after two."""
    found = []
    with (Path(folder) / "memory.jsonl").open("w") as history:
        bank = Bank(clients=SMALL[0], nodes=SMALL[1], history=history)
        for _ in range(2):
            bank.run(step)
            gc.collect()
            found.append(psutil.Process().memory_info().rss)
        bank.check()
    return found


def memory(folder: Path, step: int) -> list[int]:
    """Return the result of `_memory` in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_memory, (str(folder), step))


def figures(small: Side, large: Side, held: list[int]) -> list[Figure]:
    """Return the figures."""
    ours, many = median(small.ours), median(large.ours)
    return [
        Figure(
            name="model_ratio", value=median(small.ratios), unit="", target=0.16, better="higher",
            detail={
                "rounds": spread(small.ratios), "ours_us": round(ours * 1e6), "bare_us": round(median(small.bare) * 1e6),
                "messages": round(small.counts.messages_each, 1), "forced_writes": round(small.counts.writes_each, 1),
            },
        ),
        Figure(
            name="growth_1000", value=many / ours, unit="", target=1.3, better="lower",
            detail={"large_us": round(many * 1e6), "bare_growth": round(median(large.bare) / median(small.bare), 2)},
        ),
        Figure(
            name="memory_growth", value=held[1] / held[0], unit="", target=1.1, better="lower",
            detail={"mb": f"{held[0] / 1e6:.0f} to {held[1] / 1e6:.0f}"},
        ),
    ]  # fmt: skip


def main() -> None:
    """Measure, and report the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transactions", type=int, default=4_000, help="of each round")
    parser.add_argument("--memory-step", type=int, default=MEMORY_STEP)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        small, large = Side(*SMALL, folder), Side(*LARGE, folder)
        for _ in range(options.rounds):
            small.round(options.transactions)
            large.round(options.transactions)
        small.end()
        large.end()
        report("Model", figures(small, large, memory(folder, options.memory_step)))


if __name__ == "__main__":
    main()
