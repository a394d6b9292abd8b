"""A connection that sends statements in groups: one message out, all answers back.

Uses libpq's pipeline mode, watched by the event loop. A group is answered as a whole; further groups may be sent
before the first is answered. The module must not know what the statements mean.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, pq

from twopc.drivers.channel import ERRORS, Channel
from twopc.drivers.lean import report
from twopc.sql import path
from twopc.subscriber.distribution_agent import ports
from twopc.subscriber.distribution_agent.ports import LostError

_SYNC: Final = pq.ExecStatus.PIPELINE_SYNC
_SKIPPED: Final = pq.ExecStatus.PIPELINE_ABORTED
_names = iter(range(1, 2**62))


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A statement that a connection prepares at its first use. Parameters and results are text by default."""

    text: str
    binary: bool = False
    """Whether parameters and results are in binary format."""
    kept: bool = True
    """Whether the statement is prepared; False if it is used only once."""
    name: bytes = field(default_factory=lambda: b"msrepl_%d" % next(_names))


Query = tuple[Statement, Sequence[bytes | None]]


@dataclass(slots=True, kw_only=True)
class PipeAnswer(ports.StepsAnswer):
    """Results of a group of statements."""

    results: list[pq.abc.PGresult] = field(default_factory=list)
    """Results of the statements before the first one that failed."""

    def rows(self, place: int) -> list[tuple[str | None, ...]]:
        """Return the rows of one statement, as text."""
        result = self.results[place]
        return [
            tuple(
                None if (value := result.get_value(row, column)) is None else value.decode()
                for column in range(result.nfields)
            )
            for row in range(result.ntuples)
        ]

    def tag(self, place: int) -> bytes:
        """Return the command tag of one statement."""
        return self.results[place].command_status or b""


@dataclass(slots=True, eq=False)
class _Group:
    done: asyncio.Future[PipeAnswer]
    complete: Callable[[PipeAnswer], None] | None
    answer: PipeAnswer = field(default_factory=PipeAnswer)
    coming: deque[tuple[int, bytes | None]] = field(default_factory=deque)
    """For each outstanding result: the place of its statement, and the statement's name if it is a prepare."""


def _seen(done: asyncio.Future[PipeAnswer]) -> None:
    """Retrieve the exception of a group's future, so that a failure nobody awaits is not logged by asyncio."""
    if not done.cancelled():
        done.exception()


def _constraint(result: pq.abc.PGresult) -> str:
    fields = (
        pq.DiagnosticField.SCHEMA_NAME,
        pq.DiagnosticField.TABLE_NAME,
        pq.DiagnosticField.CONSTRAINT_NAME,
    )
    return ".".join((result.error_field(each) or b"").decode() for each in fields).strip(".")


class Pipe(Channel):
    """Groups of statements over one connection.

    Args:
        connection: in autocommit mode, used exclusively by the pipe from now on.
        on_notify: called immediately for notifications, while the event loop runs.
    """

    def __init__(
        self, connection: AsyncConnection[Any], on_notify: Callable[[], None] | None = None
    ) -> None:
        super().__init__(connection)
        self.pgconn.enter_pipeline_mode()
        self._on_notify = on_notify
        self._groups: deque[_Group] = deque()
        self._prepared: set[bytes] = set()
        self.watch(self._readable)

    @classmethod
    async def connect(
        cls, dsn: str, *, on_notify: Callable[[], None] | None = None, **options: str
    ) -> Pipe:
        """Connect with `options` as session settings, by default with the search path `path.PATH`.

        Settings that determine the text of values are left to `options`.
        """
        settings = " ".join(f"-c {name}={value}" for name, value in options.items())
        connection = await AsyncConnection.connect(
            path.kept_alive(dsn),
            autocommit=True,
            options=f"{path.options(dsn, path.LASTING)} {settings}".strip(),
        )
        return cls(connection, on_notify)

    @property
    def pid(self) -> int:
        """Process ID of the backend."""
        return self.pgconn.backend_pid

    def send(
        self, *queries: Query, complete: Callable[[PipeAnswer], None] | None = None
    ) -> asyncio.Future[PipeAnswer]:
        """Send a group; return a future of its answer. Answers arrive in the order of sending.

        The future raises `LostError` if the connection is lost before.

        Args:
            complete: called with the answer before the future is resolved.
        """
        group = _Group(self._loop.create_future(), complete)
        group.done.add_done_callback(_seen)
        if self.lost:
            group.done.set_exception(LostError(self.lost))
            return group.done
        pgconn = self.pgconn
        self._groups.append(group)
        try:
            for place, (statement, params) in enumerate(queries):
                if statement.kept and statement.name not in self._prepared:
                    pgconn.send_prepare(statement.name, statement.text.encode())
                    self._prepared.add(statement.name)
                    group.coming.append((place, statement.name))
                code = 1 if statement.binary else 0
                formats = [code] * len(params)
                if statement.kept:
                    pgconn.send_query_prepared(statement.name, params, formats, code)
                else:
                    pgconn.send_query_params(statement.text.encode(), params, None, formats, code)
                group.coming.append((place, None))
            pgconn.pipeline_sync()
            self._write()
        except psycopg.Error as error:
            self._lose(str(error))
        return group.done

    async def run(self, *queries: Query) -> PipeAnswer:
        """Send a group and wait for its answer."""
        return await self.send(*queries)

    def _readable(self) -> None:
        pgconn = self.pgconn
        try:
            pgconn.consume_input()
            while self._groups and not pgconn.is_busy():
                result = pgconn.get_result()
                if result is not None:
                    self._take(result)
                elif pgconn.status != pq.ConnStatus.OK:
                    break
            if self._on_notify is not None and pgconn.notifies() is not None:
                while pgconn.notifies() is not None:
                    pass
                self._on_notify()
        except psycopg.Error as error:
            self._lose(str(error))
            return
        if pgconn.status != pq.ConnStatus.OK:
            self._lose(pgconn.get_error_message() or "the server closed the connection")

    def _take(self, result: pq.abc.PGresult) -> None:
        group = self._groups[0]
        answer = group.answer
        if result.status == _SYNC:
            self._groups.popleft()
            if group.complete is not None:
                group.complete(answer)
            if not group.done.done():
                group.done.set_result(answer)
            return
        place, name = group.coming.popleft() if group.coming else (-1, None)
        if result.status in ERRORS:
            answer.failure = report(result)
            answer.failed_at = place
            answer.constraint = _constraint(result)
        if result.status in ERRORS or result.status == _SKIPPED:
            if name is not None:
                self._prepared.discard(name)
        elif name is None:
            answer.results.append(result)

    def _lose(self, reason: str) -> None:
        super()._lose(reason)
        while self._groups:
            group = self._groups.popleft()
            if not group.done.done():
                group.done.set_exception(LostError(self.lost))
        if self._on_notify is not None:
            self._on_notify()  # wake those who wait for notifications: none will arrive

    async def close(self) -> None:
        """Close the connection; unanswered groups fail. Idempotent."""
        if not self.lost:
            self._lose("the connection was closed")
        await super().close()
