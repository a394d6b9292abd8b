"""Protocol points: named places in the drivers at which a test or a scenario can inject a fault.

Inactive unless armed: a driver checks `points.armed` (one attribute) and continues. This module does not depend on
the action that is armed, and never undoes a fault.

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

#: Points of transactions and recovery, in the order of a transaction that commits. ``(node)`` stands for a node's
#: name.
POINTS = (
    "coordinator.begin(node)",  # a transaction is about to begin at the Subscriber
    "coordinator.before_prepare(node)",  # PREPARE is about to be sent
    "coordinator.after_prepare(node)",  # the vote has arrived
    "coordinator.before_decision",  # the decision is about to be written to the decision log
    "coordinator.decision_logged",  # the decision is durable
    "coordinator.before_commit(node)",  # COMMIT PREPARED is about to be sent
    "coordinator.after_commit(node)",  # its acknowledgement has arrived
    "coordinator.before_rollback(node)",  # ROLLBACK, ROLLBACK PREPARED or a fence is about to be sent
    "coordinator.after_rollback(node)",  # its acknowledgement has arrived
    "coordinator.before_forget",  # decisions are about to be deleted, in the background or at close
    "coordinator.after_forget",  # the decisions are deleted
    "recovery.begin",  # a pass begins
    "recovery.epoch_fenced",  # epochs of dead processes are fenced
    "recovery.before_finish(node)",  # a branch found prepared is about to be finished
    "recovery.after_finish(node)",  # the branch is finished
    "recovery.before_forget",  # decisions and markers are about to be deleted
    "recovery.end",  # the pass has ended
)

#: Points of a distribution agent, in the order of a batch; ``(node)`` stands for a stream's number.
AGENT_POINTS = (
    "agent.opened",  # the position is known, and transactions prepared by streams are settled
    "agent.planned",  # the next transactions are known
    "agent.before_send",  # a batch, or a block of one, is about to be sent
    "agent.sent",  # the batch is sent, not acknowledged
    "agent.committed",  # a batch's commit is acknowledged
    "agent.before_prepare(node)",  # a stream's part of the batch is about to be sent, with its PREPARE
    "agent.prepared",  # every stream has prepared its part
    "agent.before_finish(node)",  # COMMIT PREPARED is about to be sent
    "agent.after_finish(node)",  # its acknowledgement has arrived
    "agent.serial",  # the rollback of a batch that streams could not apply is complete
    "agent.before_skip",  # a skip is recorded, the position not moved
    "agent.before_report",  # the position is about to be reported to the distribution database
)

#: Points of the log reader, in the order of a store.
LOG_READER_POINTS = (
    "log_reader.received",  # messages have arrived, and none of their contents is stored
    "log_reader.before_blocks",  # the transaction that stores is open
    "log_reader.streamed",  # a part of a large transaction is sent, not committed
    "log_reader.before_commit",  # the transactions are inserted, and the mark has not moved
    "log_reader.after_commit",  # the store is committed, and the slot has not advanced
    "log_reader.before_advance",  # a snapshot is logged, which lets the slot release older log
    "log_reader.after_advance",  # the slot has advanced, or was instructed to
)

#: Points of the snapshot agent, in the order of an initial copy.
SNAPSHOT_POINTS = (
    "snapshot.begin",  # the copy is announced, and no row is copied
    "snapshot.taken",  # the copy's snapshot of the Publisher is taken
    "snapshot.copied",  # the rows are sent, not committed
    "snapshot.started",  # the position from which the Subscriber receives transactions is recorded
)

#: Points of a merge agent, in the order of a session with the named Subscriber.
MERGE_POINTS = (
    "merge.greeted(node)",  # the two nodes have exchanged their marks
    "merge.upload_read(node)",  # the Subscriber has closed a generation, and its changes are read
    "merge.upload_applied(node)",  # a slice is committed at the Publisher
    "merge.upload_received(node)",  # the Publisher has marked the whole generation
    "merge.upload_acknowledged(node)",  # the Subscriber has recorded the acknowledgement
    "merge.download_read(node)",  # the Publisher has closed a generation, and its changes are read
    "merge.download_applied(node)",  # a slice is committed at the Subscriber
    "merge.download_received(node)",  # the Subscriber has marked the whole generation
    "merge.download_acknowledged(node)",  # the Publisher has recorded the acknowledgement
    "merge.cleaned(node)",  # the Publisher has removed metadata that is no longer needed
)

#: Points of a merge agent that propagates identity ranges, after `greeted`.
MERGE_RANGE_POINTS = (
    "merge.ranges_allotted(node)",  # ranges are allotted at the Publisher, not yet received at the Subscriber
    "merge.ranges_received(node)",  # the Subscriber has received the ranges
)

#: Points of a merge agent that propagates schema changes, before `greeted`.
MERGE_SCHEMA_POINTS = (
    "merge.altered(node)",  # a schema change is committed at the Subscriber
)

#: Points of the Snapshot Agent of merge replication, in the order of a run.
MERGE_SNAPSHOT_POINTS = (
    "merge_snapshot.generation_closed",  # the generation of the files' content is closed
    "merge_snapshot.file_begun",  # a part of a file is written, under a temporary name
    "merge_snapshot.file_written",  # the file is complete under its final name
    "merge_snapshot.manifest_written",  # all files are complete, and the Publisher has not recorded the snapshot
)

#: Points of the delivery of such a snapshot to the named Subscriber.
MERGE_DELIVERY_POINTS = (
    "merge_delivery.begun(node)",  # the Subscriber has recorded that it is being initialised
    "merge_delivery.file_begun(node)",  # a part of a file with rows is sent, not committed
    "merge_delivery.file_loaded(node)",  # the content of a file is committed, with the record of its delivery
    "merge_delivery.activated(node)",  # the Publisher has registered the Subscriber, which has not committed yet
)

#: Points of an append to an archive, in the order of a segment.
ARCHIVE_POINTS = (
    "archive.before_write",  # nothing is written yet
    "archive.written",  # all files of the segment are written under temporary names
    "archive.moved",  # the files have their final names, and no manifest lists them
    "archive.manifest_written",  # the next manifest is durable beside the present one
    "archive.manifest_replaced",  # the next manifest has replaced the present one
)

#: Points within a node, in the processing of a change. Only nodes in virtual time reach them.
NODE_POINTS = (
    "trigger.enter",  # the rows of a statement are about to be captured at the Subscriber
    "proc.before_compare",  # a call has arrived at the Publisher, and no row is compared
    "proc.after_apply",  # its rows are changed, the answer is not sent
)

_SHAPE = re.compile(r"(?P<name>[a-z_.]+)(?:\((?P<node>[A-Za-z0-9_.-]+)\))?\Z")
_ARM = re.compile(r"(?P<point>[^=]+)=(?P<action>kill|stop)(?:@(?P<nth>[1-9]\d*))?\Z")

#: Called at the point with its name; may be a coroutine function. The driver propagates its exceptions.
Action = Callable[[str], Awaitable[None] | None]


@dataclass(slots=True, kw_only=True)
class _Armed:
    action: Action
    nth: int
    """The arrival at which the action runs, once."""
    arrivals: int = 0


class Points:
    """The armed points of one process."""

    __slots__ = ("_actions", "armed")

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._actions: dict[str, _Armed] = {}
        self.armed = False
        """Whether any point is armed: the only check on the hot path."""
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
            ConfigurationError: the point does not exist.
        """
        if name not in KNOWN and _template(name) not in KNOWN:
            raise ConfigurationError(f"no protocol point {name!r}; there are: {', '.join(POINTS)}")
        self._actions[name] = _Armed(action=action, nth=nth)
        self.armed = True

    def disarm(self, name: str | None = None) -> None:
        """Disarm one point, or all."""
        if name is None:
            self._actions.clear()
        else:
            self._actions.pop(name, None)
        self.armed = bool(self._actions)

    async def reach(self, name: str) -> None:
        """Run the action that is armed at `name`. Call only if `armed` is true."""
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
