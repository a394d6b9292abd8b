"""Observation of an order that is played on a model: a moment for each event, with the state at each moment.

The kernel reports messages, the history reports the work of sessions and agents; the state of the model is read at
each report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import simpy

from twopc.drivers.points import Points
from twopc.sim.explore.session_states import SessionStates
from twopc.sim.explore.wire.runs import StateDelta, WireArrival, WireMessage, WireMoment
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.system import LOG
from twopc.sim.model.values import Cause, Delay, Label
from twopc.sim.report.event_records import event_of
from twopc.sim.report.events import (
    AgentDelivery,
    AgentWork,
    AuthorNote,
    BranchMarkers,
    BranchSettlement,
    ConflictNote,
    HistoryEvent,
    InfeasibleOrder,
    MergeSessionEnd,
    NodeIncident,
    NoticeArrival,
    OrderEnd,
    OrderJudgement,
    OrderStart,
    PassedTransaction,
    PreparedBranches,
    QueryAnswer,
    Remark,
    SessionOutcome,
    SkippedTransaction,
    Standstill,
    StepEnd,
    StepStart,
    StepSuccess,
    TableLook,
    UncommittedRows,
    WaitEnd,
    WaitStart,
)
from twopc.sim.report.history import History, HistoryRecord, OrderHistory
from twopc.sim.report.merge_sessions import conflict_text
from twopc.sim.report.phrases import done_text, happening, holder, notices, refusal, why

#: Maximum number of moments; a longer run is watched up to this moment and then only at its end.
MOMENTS_MAX = 1_500
_TEXT_MAX = 160
_TRAVELS = {Cause.MESSAGE: "message", Cause.REPLY: "reply"}
#: Events without a moment: looks, and events that are shown elsewhere.
_SILENT = (
    OrderStart,
    TableLook,
    UncommittedRows,
    PreparedBranches,
    BranchMarkers,
    QueryAnswer,
    SessionOutcome,
    OrderJudgement,
    Remark,
    OrderEnd,
)
#: Verbs for the work of an agent on a transaction.
_VERBS: Mapping[type[AgentWork], str] = {
    AgentDelivery: "delivers",
    PassedTransaction: "passes over",
    SkippedTransaction: "leaves out",
}
#: Actors that poll for work.
_BACKGROUND = (":recovery", ":deadlocks")
#: Messages with which connections and processes maintain themselves.
_HOUSEKEEPING = re.compile(
    "connect|look for|settings|find the position|settle streams|the next transactions|end of the log|read the mark"
    "|report the position|(open|read|fence|resume) (an )?epochs?|read decisions|reset|select (msrepl|pg_catalog)"
    "|discard"
)

#: Points that a merge session reaches after it has brought rows.
_BROUGHT = re.compile(r"merge\.(?P<way>upload|download)_applied\((?P<node>.+)\)")
#: Processes that work for one Subscriber, by their names in the model.
_PROCESSES = {"agent": "agent", "snapshot": "snapshot agent", "resolver": "resolver"}
#: Time for which messages are shown that take no time in the model.
_AT_ONCE_MS = 0.001

Look = Callable[[], dict[str, dict[str, Any]]]


class WatchedKernel(SimpyKernel):
    """A kernel that reports each message when it is sent. Time passes as in any other kernel."""

    labelled = True

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.sent: Callable[[Label, float], None] | None = None
        """Called for each message with its label and its travel time in seconds."""

    def delay(self, duration: Delay | float, label: Label) -> simpy.Event:
        """Delay as in `SimpyKernel`, and report a message."""
        seconds = self.draw(duration, label.actor) if isinstance(duration, Delay) else duration
        event = super().delay(seconds, label)
        if label.cause in _TRAVELS and self.sent is not None:
            self.sent(label, seconds)
        return event


class WatchedHistory(OrderHistory):
    """The history of an order that reports each record."""

    def __init__(self, history: History, case: str, clock: Callable[[], int]) -> None:
        super().__init__(history, case, clock)
        self.wrote: Callable[[HistoryRecord], None] | None = None

    def write(self, kind: str, **fields: Any) -> HistoryRecord:
        """Write a record as in `OrderHistory`, and report it."""
        record = super().write(kind, **fields)
        if self.wrote is not None:
            self.wrote(record)
        return record


class WatchedPoints(Points):
    """Points that report each arrival; armed actions run as usual."""

    def __init__(self) -> None:
        self.came: Callable[[str], None] | None = None
        """Called with the name of each point that is reached."""
        super().__init__()

    @property  # every arrival is reported, whether the point is armed or not
    def armed(self) -> bool:
        """Whether points must be reached: always, as every arrival is reported."""
        return True

    @armed.setter
    def armed(self, _: bool) -> None:
        """Ignore the new value."""

    async def reach(self, name: str) -> None:
        """Report an arrival and run the armed actions as in `Points`."""
        if self.came is not None:
            self.came(name)
        await super().reach(name)


@dataclass(slots=True)
class Watch:
    """The observations of one order.

    Args:
        look: returns the current state, by key; see `twopc.sim.explore.wire.runs.WireRun.states`.
        now: returns the seconds since the order began.
        whose: returns the session for which the model is working; empty if for none.
        places: the names of the nodes and of the decision log, which receive messages.
        publishers: the Publisher of each Subscriber.
    """

    look: Look
    now: Callable[[], float]
    whose: Callable[[], str]
    sessions: SessionStates
    places: frozenset[str]
    publishers: Mapping[str, str]
    moments: list[WireMoment] = field(default_factory=list)
    states: list[StateDelta] = field(default_factory=list)
    messages: list[WireMessage] = field(default_factory=list)
    arrivals: list[WireArrival] = field(default_factory=list)
    at_record: dict[int, int] = field(default_factory=dict)
    """The moment to which each record belongs, by the record's number."""
    _last: dict[str, dict[str, Any]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _under_way: dict[int, WireMessage] = field(default_factory=dict)

    # -- what happens --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Record the moment before the first step."""
        self._moment("initial", "before the first step", "", always=True)

    def message(self, label: Label, seconds: float) -> None:
        """Record a message that has been sent."""
        what, _, receiver = label.what.rpartition(" → ")
        if not what or _HOUSEKEEPING.match(what):
            return
        others = sorted({LOG if each == "log" else each for each in label.touches} - {receiver})
        reply = label.cause is Cause.REPLY
        # a reply is sent by a place; a request is not, except by a node to another node
        others.sort(key=lambda each: (each in self.places) != reply)
        sender = others[0] if others else label.actor
        sent_ms = self.now() * 1000
        message: WireMessage = {
            "sender": place_name(sender),
            "receiver": place_name(receiver),
            "kind": "reply" if reply else "message",
            "text": "the decision" if what == "1 decisions" else _short(what),
            "sent_ms": round(sent_ms, 3),
            "arrives_ms": round(sent_ms + seconds * 1000, 3),
        }
        if label.actor.endswith(_BACKGROUND):
            self._moment("message", self._sent_text(message), "", always=False)
            return
        self._sent(message)
        self._moment(str(message["kind"]), self._sent_text(message), "", always=True)

    def arrived(self, point: str) -> None:
        """Record that a point of the protocol was reached."""
        self._merged(point)
        self._moment("point", f"at {point}", "", always=False)
        self._counts[point] = nth = self._counts.get(point, 0) + 1
        self.arrivals.append(
            {
                "point": point,
                "nth": nth,
                "at_ms": round(self.now() * 1000, 3),
                "moment": len(self.moments) - 1,
                "session": self.whose(),
            }
        )

    def _merged(self, point: str) -> None:
        """Record a message for the rows that a merge session brought: no connection of the model carries them."""
        match = _BROUGHT.fullmatch(point)
        above = self.publishers.get(match["node"]) if match is not None else None
        if match is None or above is None:
            return
        ends = (match["node"], above) if match["way"] == "upload" else (above, match["node"])
        now_ms = round(self.now() * 1000, 3)
        self._sent(
            {
                "sender": ends[0],
                "receiver": ends[1],
                "kind": "message",
                "text": f"rows that {ends[0]} has changed",
                "sent_ms": now_ms,
                "arrives_ms": now_ms + _AT_ONCE_MS,
            }
        )

    def _sent(self, message: WireMessage) -> None:
        self.messages.append(message)
        self._under_way[len(self.messages)] = message

    @staticmethod
    def _sent_text(message: WireMessage) -> str:
        return f"{message['sender']} → {message['receiver']}: {message['text']}"

    def record(self, record: HistoryRecord) -> None:
        """Record the moment of a record of the history."""
        event = event_of(record)
        self.sessions.see(event)
        if not isinstance(event, _SILENT):
            self._moment(*_text_of(event), event.step, always=True)
        self.at_record[record.seq] = len(self.moments) - 1

    def end(self) -> None:
        """Record the moment at the end of the order."""
        self._under_way.clear()
        self._moment("end", "everything is over", "", always=True)

    # -- how it stands -------------------------------------------------------------------------------

    def _moment(self, event: str, text: str, step: str, *, always: bool) -> None:
        """Record a moment; unless `always`, only if more than messages in transit has changed since the last one."""
        if len(self.moments) >= MOMENTS_MAX and event != "end":
            return
        now_ms = self.now() * 1000
        state = self.look()
        self.sessions.look(state)
        for number, message in [*self._under_way.items()]:
            if message["arrives_ms"] <= now_ms:
                del self._under_way[number]
            else:
                state[f"message/{number}"] = dict(message)
        last = self._last
        delta: StateDelta = {
            key: value for key, value in state.items() if last.get(key) != value
        } | {key: None for key in last if key not in state}
        if not always and all(key.startswith("message/") for key in delta):
            return
        self._last = state
        self.states.append(delta)
        self.moments.append(
            {
                "at_ms": round(now_ms, 3),
                "event": event,
                "text": text,
                "step": step,
                "changed": [*delta],
            }
        )


def _text_of(event: HistoryEvent) -> tuple[str, str]:
    """Return the name and the text of an event's moment."""
    who, what, node = event.session or "the agents", event.step or event.kind, event.node
    match event:
        case StepStart():
            sql = " ".join(event.sql.split())
            return "sent", f"{who} sends {what}" + (f": {_short(sql)}" if sql != what else "")
        case WaitStart():
            return "waits", f"{what} waits for {holder(event.wait)}"
        case StepEnd():
            return "ended", f"{what} {end_text(event)}".strip()
        case NodeIncident():
            return event.kind, happening(event)
        case AgentWork():
            commands = "; ".join(event.commands) or "nothing"
            return event.kind, f"the agent of {node} {_VERBS[type(event)]}: {_short(commands)}"
        case MergeSessionEnd():
            return event.kind, f"the merge session of {node} is over"
        case ConflictNote():
            return event.kind, conflict_text(event)
        case BranchSettlement():
            return event.kind, f"recovery finishes a branch at {node}: {event.outcome}"
        case NoticeArrival():
            return event.kind, f"{who} receives {notices(event)}"
        case WaitEnd():
            return event.kind, f"{what} waits no longer"
        case InfeasibleOrder() | Standstill():  # the message names the step
            return event.kind, event.message
    return event.kind, f"{what} {event.message}".strip()


def end_text(ended: StepEnd) -> str:
    """Return the end of a step, in short."""
    if isinstance(ended, (StepSuccess, AuthorNote)):
        return done_text(ended, {}) or "✓"
    return f"{refusal(ended)}: {_short(why(ended))}" if why(ended) else refusal(ended)


def place_name(name: str) -> str:
    """Return ``coordinator`` for ``coordinator:explorer:1``, ``agent of sub1`` for ``agent:sub1``."""
    kind, _, rest = name.partition(":")
    if kind == "coordinator":
        return "coordinator"
    if kind in _PROCESSES and rest:
        return f"{_PROCESSES[kind]} of {rest.partition(':')[0]}"
    if kind in ("session", "client") and rest:
        return rest
    if kind in ("log_reader", "reader"):
        return "log reader"
    return LOG if name == "log" else name


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_MAX else f"{line[: _TEXT_MAX - 1]}…"
