"""Two-phase commit in virtual time against a bare loop: ``python -m benchmarks.model``.

``model_ratio`` is simulated transactions per second of CPU, by real coordinators, drivers, machines and nodes and
with the history written, over those of a bare simpy loop that has as many clients, nodes, messages and forced
writes (`benchmarks.bare`; the counts are taken from the trace of our own run). ``growth_1000`` is CPU per
transaction with 1,000 clients and 100 nodes over that with 10 clients and 2 nodes. ``memory_growth`` is what the
process holds after 40,000 transactions over what it holds after 20,000.

The sides run in turns. A run is void unless money is conserved and both ends are equal.
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
    """What a run costs in messages and forced writes; the same run as the measured ones, but counted."""
    with (folder / "counted.jsonl").open("w") as history:
        bank = Bank(clients=clients, nodes=nodes, history=history, counted=True)
        bank.run(transactions)
        bank.check()
    return bank.counts


def seconds(run: Callable[[int], None], transactions: int) -> float:
    """Of CPU, for one transaction."""
    gc.collect()
    began = time.process_time()
    run(transactions)
    return (time.process_time() - began) / transactions


class Side:
    """A size that is measured, ours and bare in turns."""

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
        """Once each."""
        self.bare.append(seconds(self._bare.run, transactions))
        self.ours.append(seconds(self._bank.run, transactions))

    def end(self) -> None:
        """RuntimeError: it is void."""
        self._bank.check()
        self._file.close()

    @property
    def ratios(self) -> list[float]:
        """Of each round."""
        return [bare / ours for bare, ours in zip(self.bare, self.ours, strict=True)]


def _memory(folder: str, step: int) -> list[int]:
    """Bytes that a process of its own holds after one step and after two."""
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
    """As `_memory`, in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_memory, (str(folder), step))


def figures(small: Side, large: Side, held: list[int]) -> list[Figure]:
    """What was measured."""
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
    """Measure and report."""
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
