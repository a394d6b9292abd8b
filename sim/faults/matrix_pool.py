"""A pool of processes for jobs, each with its own servers or model.

A process works on one job at a time and gets the next when it has answered. Jobs are opaque to the pool.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from twopc.errors import ServerError

#: Runs in a process of its own: answers the jobs that arrive over the wire until `END`.
Serve = Callable[[Any, Connection], None]
END = None
_END_S = 60

_context = multiprocessing.get_context("spawn")


class ProcessPool:
    """A number of processes; a context manager that leaves none behind.

    Args:
        serve: function that each process runs; of a module.
        setup: its first argument, which must be picklable.
        workers: number of processes.
    """

    def __init__(self, serve: Serve, setup: Any, workers: int) -> None:
        self._serve = serve
        self._setup = setup
        self._count = max(1, workers)
        self._processes: dict[Connection, multiprocessing.context.SpawnProcess] = {}

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for wire in self._processes:
            try:
                wire.send(END)
            except (BrokenPipeError, ConnectionResetError):
                continue  # it has ended already
        for wire, process in self._processes.items():
            process.join(_END_S)
            if process.is_alive():
                process.kill()
                process.join()
            wire.close()

    def results(self, jobs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield each job with its answer, in the order of completion.

        Raises:
            ServerError: a process has ended unexpectedly.
        """
        left = iter(jobs)
        busy: dict[Connection, Any] = {}
        for wire in [*self._processes]:
            self._give(wire, left, busy)
        while len(self._processes) < self._count:
            job = next(left, None)
            if job is None:
                break
            wire = self._start()
            wire.send(job)
            busy[wire] = job
        while busy:
            ready = wait([*busy])
            for wire in [each for each in busy if each in ready]:
                job = busy.pop(wire)
                try:
                    answer = wire.recv()
                except (EOFError, ConnectionResetError) as error:
                    raise ServerError(
                        f"the process that played {job} has ended; stderr tells why"
                    ) from error
                self._give(wire, left, busy)
                yield job, answer

    def _give(self, wire: Connection, left: Iterator[Any], busy: dict[Connection, Any]) -> None:
        job = next(left, None)
        if job is not None:
            wire.send(job)
            busy[wire] = job

    def _start(self) -> Connection:
        wire, other = _context.Pipe()
        # Not a daemon, since it has child processes; when this process ends, its wire ends, and so does the
        # process.
        process = _context.Process(target=_run, args=(self._serve, self._setup, other))
        process.start()
        other.close()
        self._processes[wire] = process
        return wire


def _run(serve: Serve, setup: Any, wire: Connection) -> None:
    try:
        serve(setup, wire)
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        return  # the parent process is gone
