"""One order as messages between sessions and the Publisher.

A pure function of the events, and the common source of both sequence diagrams. The history records each
session's steps and their results; that a step reached the Publisher follows from results that only
the Publisher can have produced: rows that were changed and shipped, a refusal, a wait there, a branch
that took effect there. The work of a step at its own node is a note beside its lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twopc.sim.report.events import (
    AgentDelivery,
    AgentWork,
    AuthorNote,
    Backup,
    BranchSettlement,
    EchoDelivery,
    HistoryEvent,
    NodeIncident,
    PassedTransaction,
    Pause,
    SkippedTransaction,
    StepEnd,
    StepRefusal,
    StepStart,
    StepSuccess,
    UnsentStep,
    WaitStart,
)
from twopc.sim.report.fold import PlayedStep
from twopc.sim.report.phrases import (
    WORDS,
    call_text,
    done_text,
    happening,
    happening_style,
    refusal,
    remarks,
    settled_text,
    shorten,
    style_of,
    why,
)
from twopc.sim.report.recorded_orders import PlayedOrder
from twopc.sim.report.timeline import RECOVERY

#: Maximum number of items; of more items only a window around the first failure is drawn.
ITEMS_MAX = 60
_NODE = "node "
#: Steps that drive the agents rather than a session.
_ACTIONS = ("sync", "reinitialise", "subscribe", "unsubscribe")
#: Maximum length of an explanation; of longer ones the beginning is shown.
_WHY_MAX = 160
#: Command tags of statements that change rows.
_WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE")


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceMessage:
    """A message from one participant to another."""

    t_us: int
    """Microseconds since the order's first step."""
    source: str
    target: str
    text: str
    style: str = ""
    """Style, as of a `LaneEntry`."""
    answer: bool = False
    """Whether the message answers an earlier one."""
    lost: bool = False
    """Whether the message did not arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note beside one participant's lane."""

    t_us: int
    over: str
    text: str
    style: str = ""


Item = SequenceMessage | Note


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """Participants from left to right, and the messages between them."""

    participants: tuple[tuple[str, str], ...]
    """The name by which items refer to each participant, and the title of its lane."""
    items: tuple[Item, ...]
    before: int = 0
    """Number of items that are left out before the first."""
    behind: int = 0
    """Number of items that are left out after the last."""


def sequence(order: PlayedOrder, *, items_max: int = ITEMS_MAX) -> Diagram:
    """Return the diagram of one order."""
    participants = tuple(_participants(order))
    known = {name for name, _ in participants}
    items = [item for item in _SequenceText(order).items() if _lanes_of(item) <= known]
    first = _window(items, items_max)
    shown = items[first : first + items_max]
    return Diagram(
        participants=participants,
        items=tuple(shown),
        before=first,
        behind=len(items) - first - len(shown),
    )


def _participants(order: PlayedOrder) -> Iterator[tuple[str, str]]:
    """Yield the sessions in the order of the scenario file, with the Publisher in the middle."""
    sessions = [
        (name, f"{name} at {node}" if node else name) for name, node in order.fold.sessions.items()
    ]
    middle = (len(sessions) + 1) // 2
    yield from sessions[:middle]
    yield _lane(order.publisher), f"{order.publisher} (Publisher)"
    yield from sessions[middle:]
    for lane in dict.fromkeys(_agent_lanes(order).values()):
        if lane not in order.fold.sessions:
            yield lane, lane.removeprefix(_NODE)
    if order.fold.settlements:
        yield RECOVERY, RECOVERY


def _agent_lanes(order: PlayedOrder) -> dict[str, str]:
    """Return the lane for deliveries to each Subscriber: that of its first session, or one of its own."""
    reached = [done.node for done in order.fold.deliveries.values()]
    reached += [each.node for each in order.fold.events if isinstance(each, (Pause, Backup))]
    for done in order.fold.settlements.values():
        reached += [node for node in done.nodes if node != order.publisher]
    first = {node: name for name, node in reversed(order.fold.sessions.items())}
    return {node: first.get(node, _lane(node)) for node in reached}


def _lane(node: str) -> str:
    """Return a node's name among the participants, distinct from the names of sessions."""
    return f"{_NODE}{node}"


def _lanes_of(item: Item) -> set[str]:
    return {item.over} if isinstance(item, Note) else {item.source, item.target}


def _window(items: Sequence[Item], items_max: int) -> int:
    """Return the first item of a window that has the first failure in its middle."""
    if len(items) <= items_max:
        return 0
    wrong = next((at for at, item in enumerate(items) if item.style == "bad"), len(items))
    return max(0, min(wrong - items_max // 2, len(items) - items_max))


class _SequenceText:
    def __init__(self, order: PlayedOrder) -> None:
        self._order = order
        self._publisher = _lane(order.publisher)
        self._agent_lanes = _agent_lanes(order)
        self._nodes_of = order.fold.effects
        self._steps = {step.invoked.seq: step for step in order.fold.steps}
        self._running: dict[str, PlayedStep] = {}
        self._held: set[str] = set()
        """Sessions whose step will reach the Publisher, but first waits at its own node."""
        shown = (StepStart, NodeIncident)
        events = order.fold.events
        self._start_us = next((each.t_us for each in events if isinstance(each, shown)), 0)

    def items(self) -> Iterator[Item]:
        for event in self._order.fold.events:
            match event:
                case BranchSettlement() if event.seq in self._order.fold.settlements:
                    yield from self._settled(event)
                case NodeIncident(session=""):
                    text, style = happening(event), happening_style(event)
                    over = self._lane_of(event.node)
                    yield Note(t_us=self._at(event), over=over, text=text, style=style)
                case AgentWork(session=""):
                    yield self._delivered(self._order.fold.deliveries[event.seq])
                case HistoryEvent(session=""):
                    pass
                case StepStart():
                    self._running[event.session] = self._steps[event.seq]
                    yield from self._sent(self._steps[event.seq])
                case StepEnd():
                    yield from self._ended(event)
                case _:
                    yield from self._other(event)

    def _delivered(self, done: AgentWork) -> Item:
        """Return the item for a distribution agent's work on one transaction at a Subscriber."""
        lane = self._agent_lanes[done.node]
        if isinstance(done, PassedTransaction):
            text = "agent: its own is not sent back"
            return Note(t_us=self._at(done), over=lane, text=text, style="faint")
        brings, style = {
            SkippedTransaction: ("leaves out", "bad"),
            EchoDelivery: ("brings back", "bad"),
            AgentDelivery: ("brings", ""),
        }[type(done)]
        return SequenceMessage(
            t_us=self._at(done),
            source=self._publisher,
            target=lane,
            text=f"agent {brings}: {done.text}",
            style=style,
            lost=isinstance(done, SkippedTransaction),
        )

    def _settled(self, event: BranchSettlement) -> Iterator[Item]:
        """Yield a message for each node at which recovery finished a transaction, and a note with the reason."""
        done = self._order.fold.settlements[event.seq]
        style = "good" if done.outcome == "committed" else ""
        for node in done.nodes:
            target = self._publisher if node == self._order.publisher else self._agent_lanes[node]
            yield SequenceMessage(
                t_us=self._at(event),
                source=RECOVERY,
                target=target,
                text=settled_text(done),
                style=style,
            )
        yield Note(t_us=self._at(event), over=RECOVERY, text=done.reason, style="faint")

    def _lane_of(self, node: str) -> str:
        """Return the lane for notes about a node."""
        if node in ("", self._order.publisher):
            return self._publisher
        at = (name for name, where in self._order.fold.sessions.items() if where == node)
        return self._agent_lanes.get(node) or next(at, self._publisher)

    def _sent(self, step: PlayedStep) -> Iterator[Item]:
        """Yield the item for the start of a step; a local step that ends at once is one note, made at its end."""
        invoked = step.invoked
        if self._reaches(step) and self._waits_here_first(step):
            self._held.add(invoked.session)
            yield self._note(invoked, call_text(invoked))
        elif self._reaches(step):
            yield self._call(step, invoked, call_text(invoked))
        elif not _at_once(step):
            yield self._note(invoked, call_text(invoked))

    def _call(self, step: PlayedStep, moment: HistoryEvent, text: str) -> SequenceMessage:
        return SequenceMessage(
            t_us=self._at(moment),
            source=step.invoked.session,
            target=self._publisher,
            text=text,
            lost=_unreachable(step.ended),
        )

    def _ended(self, ended: StepEnd) -> Iterator[Item]:
        step = self._running.pop(ended.session, None)
        if isinstance(ended, AuthorNote):
            yield self._note(ended, f"» {ended.message}", "note")
            return
        is_done = isinstance(ended, StepSuccess)
        message = done_text(ended, self._nodes_of) if is_done else refusal(ended)
        style, name = style_of(ended), _name(step, ended)
        if step is not None and ended.session in self._held:
            self._held.discard(ended.session)
            yield self._call(step, ended, name)
        if step is not None and self._reaches(step) and not _unreachable(ended):
            yield SequenceMessage(
                t_us=self._at(ended),
                source=self._publisher,
                target=ended.session,
                text=f"{name} {message}".strip(),
                style=style,
                answer=True,
            )
        else:
            local = step is not None and _at_once(step) and not self._reaches(step)
            call = call_text(step.invoked) if step is not None and local else name
            yield self._note(ended, f"{call} {message}".strip(), style)
        if not is_done and why(ended):
            yield self._note(ended, shorten(why(ended), _WHY_MAX), "faint")

    def _other(self, event: HistoryEvent) -> Iterator[Item]:
        if isinstance(event, WaitStart):
            step = self._running.get(event.session)
            if step and event.session in self._held and self._at_publisher(event):
                self._held.discard(event.session)
                yield self._call(step, event, _name(step, event))
        for text, style in remarks(event):
            yield self._note(event, text, style)

    def _reaches(self, step: PlayedStep) -> bool:
        """Return whether a step reached the Publisher."""
        invoked, ended, publisher = step.invoked, step.ended, self._order.publisher
        waits_there = any(self._at_publisher(wait) for wait, _ in step.waits)
        if ended is None:
            return waits_there
        is_unsent = isinstance(ended, (AuthorNote, UnsentStep))
        if invoked.sql in _ACTIONS or is_unsent or ended.tag == "BEGIN":
            return False
        if invoked.node == publisher:
            return True
        if ended.tag == "COMMIT":
            return publisher in self._nodes_of.get(ended.gid, ())
        if waits_there:
            return True
        if isinstance(ended, StepRefusal) and ended.refused_as not in ("deadlock", "lock_timeout"):
            return True
        eager = self._order.header.get("shipping", "eager") == "eager"
        return eager and ended.tag.startswith(_WRITES) and bool(ended.rowcount)

    def _waits_here_first(self, step: PlayedStep) -> bool:
        return bool(step.waits) and not self._at_publisher(step.waits[0][0])

    def _at_publisher(self, waits: WaitStart) -> bool:
        return waits.wait.get("node") == self._order.publisher

    def _note(self, event: HistoryEvent, text: str, style: str = "") -> Note:
        return Note(t_us=self._at(event), over=event.session, text=text, style=style)

    def _at(self, event: HistoryEvent) -> int:
        return event.t_us - self._start_us


def _at_once(step: PlayedStep) -> bool:
    """Return whether nothing else was recorded between the start of a step and its end."""
    return step.ended is not None and step.ended.seq == step.invoked.seq + 1


def _name(step: PlayedStep | None, event: HistoryEvent) -> str:
    """Return the short name of a step that has been sent."""
    return step.invoked.sql if step is not None and step.invoked.sql in WORDS else event.step


def _unreachable(ended: StepEnd | None) -> bool:
    return ended is not None and ended.refused_as == "publisher_unreachable"
