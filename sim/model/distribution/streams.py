"""A batch over several sessions at once: each prepares its part, then all are finished, that with the position
first. Any failure, or one stream that waits for another, ends the attempt with nothing left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import simpy

from sim.model.distribution.apply import Call
from sim.model.distribution.loads import Bring, Load, Move, call_of
from sim.model.distribution.processes import Connection, Process, at_once, outcome
from sim.model.distribution.target import Target
from sim.model.node.session import NodeSession
from sim.model.words import LostError, SqlError, Steps
from twopc.proc_execution import CALL_TYPE, DEFINITION_TYPE

#: How often it is looked whether streams wait for each other, while any of them has not answered.
_LOOK_S = 0.05
_CANCELED = "57014"


class FallbackError(Exception):
    """The batch could not be brought so; nothing of it is left anywhere."""


def spread(load: Load, streams: int) -> dict[int, list[Call]]:
    """The calls of a batch by stream, in the Publisher's order within each."""
    parts: dict[int, list[Call]] = {}
    if any(command.type in (CALL_TYPE, DEFINITION_TYPE) for command, _ in load.commands):
        streams = 1  # a call may touch any row
    for command, hashkey in load.commands:
        parts.setdefault(hashkey % streams, []).append(call_of(command))
    return parts


class Streams:
    """Brings batches over all sessions of a target."""

    def __init__(self, process: Process, target: Target) -> None:
        self._process = process
        self._target = target

    def take(self, load: Load) -> Steps[None]:
        """Bring one. FallbackError; LostError: opening the target again settles what is left."""
        process, target, upto = self._process, self._target, load.batch.upto
        parts = spread(load, len(target.lines))
        parts.setdefault(0, [])
        sent: dict[int, simpy.Process] = {}
        for stream in sorted(parts):
            yield from process.reach(f"agent.before_prepare({stream})")
            work = self._part(target.lines[stream], stream, upto, parts[stream])
            sent[stream] = process.spawn(outcome(work), f"stream {stream}")
        blocked = yield from self._answers(sent, upto)
        errors = {stream: said for stream, one in sent.items() if (said := _error(one)) is not None}
        refusals = [error for error in errors.values() if isinstance(error, SqlError)]
        for error in errors.values():
            if not isinstance(error, SqlError):
                raise error
        if refusals:
            yield from self._abandon(sent, upto)
            if blocked:
                raise FallbackError("one stream waited for another")
            # what stopped the others is the reason, not that they were stopped
            reason = min(refusals, key=lambda one: one.sqlstate == _CANCELED)
            raise FallbackError(str(reason))
        yield from process.reach("agent.prepared")
        yield from self._finish(sorted(parts), upto)

    def _part(self, line: Connection, stream: int, upto: int, calls: Sequence[Call]) -> Steps[None]:
        target = self._target

        def work(session: NodeSession) -> Steps[None]:
            yield from session.execute("begin")
            if not stream:
                yield from target.do(session, Move(was=target.position, becomes=upto))
            yield from target.do(session, Bring(calls=tuple(calls)))
            result = yield from session.execute(f"prepare transaction '{target.gid(upto, stream)}'")
            if result.tag != "PREPARE TRANSACTION":
                raise SqlError("25P02", "a stream could not prepare its part")

        yield from line.ask(work, f"part of stream {stream}")

    def _answers(self, sent: dict[int, simpy.Process], upto: int) -> Steps[bool]:
        """Until every stream has answered; whether one was stopped because it waited for another."""
        kernel, blocked, stopped = self._process.kernel, False, False
        while any(not one.processed for one in sent.values()):
            waiting = {stream: one for stream, one in sent.items() if not one.processed}
            look = self._process.sleep(_LOOK_S, "look at the streams")
            came = yield simpy.AnyOf(kernel.env, [*waiting.values(), look])
            done = [one for one in waiting.values() if one in came]
            if not look.processed:
                kernel.cancel(look)
            left = {stream for stream, one in waiting.items() if not one.processed}
            if left and not stopped and any(_error(one) is not None for one in done):
                stopped = True  # the others need not come to their end, and might never
                yield from self._cancel(left)
            elif not done:
                stuck = self._stuck({*sent}, upto)
                if stuck:
                    blocked = True
                    yield from self._cancel(stuck)
        return blocked

    def _stuck(self, streams: set[int], upto: int) -> set[int]:
        """Streams that wait for another one, running or prepared."""
        target = self._target
        pids = {target.lines[stream].session.pid: stream for stream in sorted(streams)}
        gids = {target.gid(upto, stream) for stream in sorted(streams)}
        return {
            pids[wait.pid]
            for wait in target.node.waits()
            if wait.pid in pids and (wait.holder_pid in pids or wait.holder_gid in gids)
        }

    def _cancel(self, streams: set[int]) -> Steps[None]:
        target = self._target
        assert target.watch is not None

        def work(_: NodeSession) -> Steps[None]:
            for stream in sorted(streams):
                target.lines[stream].session.cancel()
            return (yield from at_once(None))

        yield from target.watch.ask(work, "cancel streams")

    def _abandon(self, sent: dict[int, simpy.Process], upto: int) -> Steps[None]:
        """Leave nothing of the batch; all streams have answered. LostError: it is not sure."""
        for stream, one in sorted(sent.items()):
            prepared = _error(one) is None
            text = (
                f"rollback prepared '{self._target.gid(upto, stream)}'" if prepared else "rollback"
            )
            try:
                yield from self._target.lines[stream].run(text)
            except SqlError as error:
                raise LostError(f"a stream cannot be rolled back: {error}") from error

    def _finish(self, streams: list[int], upto: int) -> Steps[None]:
        """Commit every stream's part, that with the position first."""
        target, process = self._target, self._process
        for group in ([0], [stream for stream in streams if stream]):
            for stream in group:
                yield from process.reach(f"agent.before_finish({stream})")
                try:
                    yield from target.lines[stream].run(
                        f"commit prepared '{target.gid(upto, stream)}'"
                    )
                except SqlError as error:
                    raise LostError(f"a stream cannot be committed: {error}") from error
            if group == [0]:
                target.position = upto
            for stream in group:
                yield from process.reach(f"agent.after_finish({stream})")


def _error(sent: simpy.Process) -> Exception | None:
    """What a stream has met."""
    said: Any = sent.value
    error: Exception | None = said[0]
    return error
