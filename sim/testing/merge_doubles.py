"""Topologies of merge replication as tests use them: `MergeBed`, for blocking calls and for any event loop.

The methods not defined in this module are those of `MergeBed`, by name.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from twopc.sim.report.history import HistoryRecord
from twopc.sim.testing.asynchronous import AsyncTestSession, AwaitedCaller
from twopc.sim.testing.bench import Bench, BlockingCaller
from twopc.sim.testing.merge_bed import MergeBed
from twopc.sim.testing.session import TestSession


class TestMerge(BlockingCaller):
    """A Publisher and its Subscribers that merge, for one test.

    Every method of `twopc.sim.testing.merge_bed.MergeBed` is available, without ``await``.
    """

    __test__ = False  # not a test, despite its name

    def __init__(self, bench: Bench, bed: MergeBed, *, seed: int = 0) -> None:
        super().__init__(bench)
        self.bed = bed
        self.seed = seed
        """Seed of all random choices in this test."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.bed, name)
        if not inspect.iscoroutinefunction(value):
            return value

        @functools.wraps(value)
        def called(*arguments: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            return self.call(value, *arguments, **options)

        return called

    def session(self, node: str, *, name: str = "", isolation: str | None = None) -> TestSession:
        """See `MergeBed.session`."""
        __tracebackhide__ = True
        return TestSession(self, self.call(self.bed.session, node, name=name, isolation=isolation))

    @property
    def history(self) -> list[HistoryRecord]:
        """Records of the sessions so far."""
        return self.bed.surroundings.recorder.records

    def left_prepared(self) -> list[str]:
        """Return an empty list: merge replication prepares no transactions."""
        return []

    def faults_not_reached(self) -> list[str]:
        """Return an empty list: `interrupted` raises if its point is not reached."""
        return []

    def renew(self) -> None:
        """Drop the databases, and create new ones in the initial state."""
        __tracebackhide__ = True
        self.call(self.bed.renew, self._bench.fresh_name())

    def __repr__(self) -> str:
        return f"<{self.bed.publisher} and {', '.join(self.bed.subscribers)}, which merge>"


class AsyncTestMerge(AwaitedCaller):
    """The equivalent of `TestMerge` whose methods are awaited on any asyncio event loop."""

    __test__ = False  # not a test, despite its name

    blocking: TestMerge

    async def session(
        self, node: str, *, name: str = "", isolation: str | None = None
    ) -> AsyncTestSession:
        """See `MergeBed.session`."""
        live = await self.call(self.blocking.bed.session, node, name=name, isolation=isolation)
        return AsyncTestSession(self, live)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.blocking.bed, name)
        if not inspect.iscoroutinefunction(value):
            return value

        @functools.wraps(value)
        async def called(*arguments: Any, **options: Any) -> Any:
            return await self.call(value, *arguments, **options)

        return called

    def __repr__(self) -> str:
        return repr(self.blocking)
