"""Protocol points: named places in the drivers where a test or a scenario may put a fault.

Off unless armed: a driver asks `points.armed` (one attribute) and goes on. It knows nothing of what
is armed there, and a fault is never taken back here.

The environment variable ``TWOPC_ARM`` arms points of a process from outside, for crash tests::

    TWOPC_ARM="coordinator.decision_logged=kill; recovery.before_finish(pub)=stop@2"

``kill`` ends this process by SIGKILL, ``stop`` halts it by SIGSTOP; ``@n`` waits for the n-th arrival.
"""

from __future__ import annotations

import inspect
import os
import re
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from twopc.errors import ConfigurationError

#: Every point, in the order of a transaction that commits. ``(node)`` stands for a node's name.
POINTS = (
    "coordinator.begin(node)",  # a transaction is about to begin at the Subscriber
    "coordinator.before_prepare(node)",  # PREPARE is about to be sent
    "coordinator.after_prepare(node)",  # the vote has arrived
    "coordinator.before_decision",  # the decision is about to go to the decision log
    "coordinator.decision_logged",  # the decision is durable
    "coordinator.before_commit(node)",  # COMMIT PREPARED is about to be sent
    "coordinator.after_commit(node)",  # its acknowledgement has arrived
    "coordinator.before_rollback(node)",  # ROLLBACK, ROLLBACK PREPARED or a fence is about to be sent
    "coordinator.after_rollback(node)",  # its acknowledgement has arrived
    "coordinator.before_forget",  # decisions are about to be deleted, in the background or at the end
    "coordinator.after_forget",  # they are deleted
    "recovery.begin",  # a pass begins
    "recovery.epoch_fenced",  # epochs of dead processes are fenced
    "recovery.before_finish(node)",  # a branch found prepared is about to be finished
    "recovery.after_finish(node)",  # it is finished
    "recovery.before_forget",  # decisions and markers are about to be deleted
    "recovery.end",  # the pass is over
)

#: Those of a distribution agent, in the order of a batch; ``(node)`` stands for a stream's number.
AGENT_POINTS = (
    "agent.opened",  # the position is known, and what streams had prepared is settled
    "agent.planned",  # the next transactions are known
    "agent.before_send",  # a batch, or a block of one, is about to be sent
    "agent.sent",  # it is sent, not acknowledged
    "agent.committed",  # a batch's commit is acknowledged
    "agent.before_prepare(node)",  # a stream's part is about to be sent, with its PREPARE
    "agent.prepared",  # every stream has prepared its part
    "agent.before_finish(node)",  # COMMIT PREPARED is about to be sent
    "agent.after_finish(node)",  # its acknowledgement has arrived
    "agent.serial",  # nothing is left of a batch that streams could not bring
    "agent.before_skip",  # a skip is recorded, the position not moved
    "agent.before_report",  # the distribution database is about to be told the position
)

#: Those of the log reader, in the order of a store.
LOG_READER_POINTS = (
    "log_reader.received",  # messages have arrived, nothing is stored of them
    "log_reader.before_blocks",  # a transaction is open that will store
    "log_reader.streamed",  # a part of a large transaction is sent, not committed
    "log_reader.before_commit",  # the transactions are there too, the mark has not moved
    "log_reader.after_commit",  # all is stored, the slot has not moved
    "log_reader.before_advance",  # a snapshot is logged, by which the slot can let go of older log
    "log_reader.after_advance",  # the slot has moved, or was told to
)

#: Those of whoever makes a Subscriber's copy, in the order of one.
SNAPSHOT_POINTS = (
    "snapshot.begin",  # it is known that the Subscriber is about to get a copy, and nothing is copied
    "snapshot.taken",  # what the copy sees of the Publisher is fixed
    "snapshot.copied",  # the rows are sent, and not committed
    "snapshot.started",  # it is entered from where on the Subscriber gets what comes
)

#: Those of a merge agent, in the order of a session with that Subscriber.
MERGE_POINTS = (
    "merge.greeted(node)",  # the two ends know each other, and how far they are
    "merge.upload_read(node)",  # the Subscriber has closed a generation, and its changes are read
    "merge.upload_applied(node)",  # a slice is committed at the Publisher
    "merge.upload_received(node)",  # the Publisher has marked the whole generation
    "merge.upload_acknowledged(node)",  # the Subscriber knows of it
    "merge.download_read(node)",  # the Publisher has closed a generation, and its changes are read
    "merge.download_applied(node)",  # a slice is committed at the Subscriber
    "merge.download_received(node)",  # the Subscriber has marked the whole generation
    "merge.download_acknowledged(node)",  # the Publisher knows of it
    "merge.cleaned(node)",  # the Publisher has forgotten what nobody needs any more
)

#: Those of a merge agent that brings identity ranges, after `greeted`.
MERGE_RANGE_POINTS = (
    "merge.ranges_allotted(node)",  # identity ranges are allotted at the Publisher, and are not at the Subscriber yet
    "merge.ranges_received(node)",  # they are at the Subscriber
)

#: Those of a merge agent that brings schema changes, before `greeted`.
MERGE_SCHEMA_POINTS = (
    "merge.altered(node)",  # a schema change is committed at the Subscriber
)

#: Those of the Snapshot Agent of merge replication, in the order of a run.
MERGE_SNAPSHOT_POINTS = (
    "merge_snapshot.generation_closed",  # what the files hold is fixed
    "merge_snapshot.file_begun",  # a part of a file is written, under another name
    "merge_snapshot.file_written",  # the file is there, and known to be whole
    "merge_snapshot.manifest_written",  # all are there, and the Publisher does not know of it yet
)

#: Those of whoever delivers such a snapshot to that Subscriber.
MERGE_DELIVERY_POINTS = (
    "merge_delivery.begun(node)",  # the Subscriber knows that it is being initialised
    "merge_delivery.file_begun(node)",  # a part of a file with rows is sent, and not committed
    "merge_delivery.file_loaded(node)",  # what a file holds is committed, and that it is there
    "merge_delivery.activated(node)",  # the Publisher has entered the Subscriber, which has not committed yet
)

#: Those of whoever appends to an archive, in the order of a segment.
ARCHIVE_POINTS = (
    "archive.before_write",  # nothing is written yet
    "archive.written",  # its files are written aside, and belong together
    "archive.moved",  # they are in place, and in no manifest
    "archive.manifest_written",  # the next manifest is durable beside the present one
    "archive.manifest_replaced",  # it is the manifest
)

#: Those within a node, of a change on its way. Only nodes in virtual time come to them.
NODE_POINTS = (
    "trigger.enter",  # the rows of a statement are about to be captured at the Subscriber
    "proc.before_compare",  # a call has arrived at the Publisher, nothing is compared
    "proc.after_apply",  # its rows are changed, the answer is not sent
)

_SHAPE = re.compile(r"(?P<name>[a-z_.]+)(?:\((?P<node>[A-Za-z0-9_.-]+)\))?\Z")
_ARM = re.compile(r"(?P<point>[^=]+)=(?P<action>kill|stop)(?:@(?P<nth>[1-9]\d*))?\Z")

#: Called at the point with its name; may be a coroutine function. What it raises, the driver raises.
Action = Callable[[str], Awaitable[None] | None]


@dataclass(slots=True, kw_only=True)
class _Armed:
    action: Action
    nth: int
    """Acts at the n-th arrival, and once."""
    arrivals: int = 0


class Points:
    """What is armed in one process."""

    __slots__ = ("_actions", "armed")

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._actions: dict[str, _Armed] = {}
        self.armed = False
        """True while anything is armed: the only thing that the hot path looks at."""
        for entry in (environment or {}).get("TWOPC_ARM", "").split(";"):
            if entry.strip():
                self._arm_text(entry.strip())

    def _arm_text(self, entry: str) -> None:
        match = _ARM.match(entry)
        if match is None:
            raise ConfigurationError(
                f"TWOPC_ARM: {entry!r} is not <point>=kill or <point>=stop, with @n for the n-th time"
            )
        sign = signal.SIGKILL if match["action"] == "kill" else signal.SIGSTOP
        self.arm(
            match["point"].strip(),
            lambda _: os.kill(os.getpid(), sign),
            nth=int(match["nth"] or 1),
        )

    def arm(self, name: str, action: Action, *, nth: int = 1) -> None:
        """Run `action` at the `nth` arrival at the point `name`, once.

        Raises:
            ConfigurationError: there is no such point.
        """
        if name not in KNOWN and _template(name) not in KNOWN:
            raise ConfigurationError(f"no protocol point {name!r}; there are: {', '.join(POINTS)}")
        self._actions[name] = _Armed(action=action, nth=nth)
        self.armed = True

    def disarm(self, name: str | None = None) -> None:
        """Take one point's action away, or all."""
        if name is None:
            self._actions.clear()
        else:
            self._actions.pop(name, None)
        self.armed = bool(self._actions)

    async def reach(self, name: str) -> None:
        """Run what is armed at `name`. Call only if `armed`."""
        results = self._actions.get(name)
        if results is None:
            return
        results.arrivals += 1
        if results.arrivals != results.nth:
            return
        self.disarm(name)
        result = results.action(name)
        if inspect.isawaitable(result):
            await result


def _template(name: str) -> str:
    shape = _SHAPE.match(name)
    return f"{shape['name']}(node)" if shape is not None and shape["node"] else name


KNOWN = frozenset(
    (
        *POINTS,
        *LOG_READER_POINTS,
        *AGENT_POINTS,
        *SNAPSHOT_POINTS,
        *MERGE_POINTS,
        *MERGE_RANGE_POINTS,
        *MERGE_SCHEMA_POINTS,
        *MERGE_SNAPSHOT_POINTS,
        *MERGE_DELIVERY_POINTS,
        *ARCHIVE_POINTS,
        *NODE_POINTS,
    )
)
