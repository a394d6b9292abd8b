"""An order in sentences: reads, writes, waits, refusals with their reasons, and the outcomes.

A pure function of the order's events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from twopc.sim.report.breaches import lost_text
from twopc.sim.report.changes import VersionChange
from twopc.sim.report.dependencies import across_nodes, is_locking_read
from twopc.sim.report.event_records import is_load
from twopc.sim.report.events import (
    AgentWork,
    AuthorNote,
    Backup,
    BranchSettlement,
    Deadlock,
    DoubtfulStep,
    EchoDelivery,
    HistoryEvent,
    InfeasibleOrder,
    NodeIncident,
    NoticeArrival,
    Outage,
    PassedTransaction,
    QueuedStep,
    Remark,
    SessionOutcome,
    SkippedTransaction,
    Standstill,
    StepEnd,
    StepError,
    StepRefusal,
    StepRollback,
    StepStart,
    StepSuccess,
    StepTimeout,
    TableLook,
    UnsentStep,
    WaitAnswer,
    WaitStart,
)
from twopc.sim.report.fold import Fold, Settlement, causal
from twopc.sim.report.merge_reports import brings
from twopc.sim.report.merge_sessions import (
    conflict_text,
    generations,
    lineage_text,
    sentence,
    why_text,
)
from twopc.sim.report.phrases import (
    happening,
    notices,
    rows_text,
    settled_text,
    shorten,
)
from twopc.sim.report.sentences import (
    did,
    listed,
    made_text,
    one_line,
    refused_because,
    transaction_of,
    waits_for,
    wants,
)

_ACTIONS = ("begin", "commit", "rollback", "sync", "reinitialise", "subscribe", "unsubscribe")
#: Changes of a subscription, by the tag of the record.
_SUBSCRIPTIONS = {
    "REINITIALISE": "has {} copied anew",
    "SUBSCRIBE": "has {} subscribe: it gets a copy, and everything that comes after it",
    "UNSUBSCRIBE": "has {} leave: its rows stay as they are",
}
_OUTCOMES = {"committed": "committed", "rolled back": "was rolled back", "in doubt": "is in doubt"}
#: Maximum length of a server's message.
_MESSAGE_MAX = 240


def story(fold: Fold) -> list[str]:
    """Return the sentences of one order, beginning with the initial rows; of a load, its figures in sentences."""
    if is_load(fold.records):
        from twopc.sim.report import load  # loads the histograms: most runs have no load

        return load.sentences(load.of(fold.records))
    return [_sentence(text) for text in _StoryText(fold).all()]


def _code(ended: StepEnd) -> str:
    return f" with {ended.sqlstate}" if ended.sqlstate else ""


def _short(message: str) -> str:
    return shorten(message, _MESSAGE_MAX)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentence(text: str) -> str:
    """Return the text with a full stop; the case of its first letter stays, as it may be a session's name."""
    text = text.strip()
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


class _StoryText:
    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._events = causal(fold.events)
        self._changes = fold.changes
        self._sql = {(each.session, each.step): each.sql for each in fold.of(StepStart)}
        self._introduced: set[str] = set()
        self._waits_told: set[tuple[str, str]] = set()

    def all(self) -> Iterator[str]:
        yield from self._opening()
        of_agents = self._fold.deliveries
        before: HistoryEvent | None = None
        for is_delivery, events in groupby(self._events, lambda each: each.seq in of_agents):
            if is_delivery:
                yield from self._delivered([of_agents[each.seq] for each in events])
                continue
            for event in events:
                yield from self._one(event, before)
                before = event
        yield from self._ending()

    # -- before and after --------------------------------------------------------------------------

    def _opening(self) -> Iterator[str]:
        twin = self._fold.twin
        if twin:
            protections = sorted(twin.get("protections", ())) or ["something"]
            verb = "is" if len(protections) == 1 else "are"
            must = f", and {twin['must_fail']} must fail" if twin.get("must_fail") else ""
            yield f"Here {listed(protections)} {verb} switched off{must}"
        cell = [f"{key} = {value}" for key, value in self._fold.cell.items()]
        if cell:
            yield f"Played with {listed(cell)}"
        for text in self._tables("initial"):
            yield f"At first {text}"

    def _ending(self) -> Iterator[str]:
        ends = [
            f"{each.session} {_OUTCOMES[each.message]}"
            for each in self._events
            if isinstance(each, SessionOutcome) and each.message in _OUTCOMES
        ]
        if ends:
            yield f"So {listed(ends)}"
        for text in self._tables("final"):
            yield f"At the end {text}"
        for node, gid in self._fold.left_prepared:
            yield f"Branch {gid} is still prepared at {node}"

    def _tables(self, moment: str) -> Iterator[str]:
        """Yield the content of each table; nodes with equal content share a part of the sentence."""
        results: dict[str, dict[str, list[str]]] = {}
        nodes: dict[str, None] = {}
        for look in self._fold.looks(moment):
            nodes[look.node] = None
            text = _short(rows_text(look.rows))
            results.setdefault(look.table, {}).setdefault(text, []).append(look.node)
        for table, contents in results.items():
            parts = [
                text if len(at) == len(nodes) else f"{text} at {listed(at)}"
                for text, at in contents.items()
            ]
            where = " at every node" if len(contents) == 1 and len(nodes) > 1 else ""
            if list(contents) == ["no rows"]:
                yield f"{table} is empty{where}"
            else:
                yield f"{table} holds {'; '.join(parts)}{where}"

    # -- what happens ------------------------------------------------------------------------------

    def _one(self, event: HistoryEvent, before: HistoryEvent | None) -> Iterator[str]:
        match event:
            case TableLook():
                yield from self._seen(event)
            case HistoryEvent(session="") | SessionOutcome():
                yield from self._of_the_run(event)
            case WaitStart():
                yield from self._blocked(event, before)
            case StepEnd():
                yield from self._ended(event)
            case QueuedStep():
                yield f"{self._step(event)} must be queued: {event.message}"
            case WaitAnswer():
                how = "blocked" if event.is_blocked else "not blocked"
                yield f"At this moment {self._step(event)} is {how}"
            case Deadlock():
                cycle = "; ".join(event.cycle)
                yield f"That is a deadlock across nodes: {cycle}. {self._step(event)} is cancelled"
            case Standstill():
                yield f"No session can proceed: {event.message}"
            case InfeasibleOrder():
                why = event.message or "the next step belongs to a blocked session"
                yield f"The order ends here: {why}"
            case NoticeArrival():
                yield f"{event.session} receives: {notices(event)}"
            case Remark() if event.message:
                yield f"{self._step(event) if event.step else event.session}: {event.message}"

    def _of_the_run(self, event: HistoryEvent) -> Iterator[str]:
        match event:
            case Outage(is_on=True):
                yield f"{event.node} accepts no connections from now on"
            case Outage() | Backup():
                yield happening(event)
            case NodeIncident():
                yield _capital(happening(event).removeprefix("✗ "))
            case BranchSettlement() if event.seq in self._fold.settlements:
                yield self._settled(self._fold.settlements[event.seq])
            case WaitStart():
                yield f"An agent {waits_for(event.wait)}"
            case StepSuccess() if brings(event):
                yield from self._merged(event)
            case StepError() | StepTimeout() | StepRefusal() if event.step:
                node = event.at or event.node or "the Subscriber"
                message = event.message.removeprefix(f"{node}: ")
                yield f"The agent of {node} stops: {_short(message)}"
                yield from self._generations(event)

    def _merged(self, ended: StepEnd) -> Iterator[str]:
        """Yield the work of merge sessions and the conflicts that they recorded."""
        who = f"By {self._step(ended)} the" if ended.session else "A"
        for report in ended.merge:
            yield sentence(report, who)
        yield from self._generations(ended)
        for conflict in self._fold.merge_conflicts.get(ended.seq, ()):
            yield f"It records a conflict: {conflict_text(conflict)}"
            yield from filter(None, (_capital(lineage_text(conflict)), why_text(conflict)))

    def _generations(self, ended: StepEnd) -> Iterator[str]:
        """Yield the changes of merge sessions to generations."""
        for each in self._fold.merge_sessions.get(ended.seq, ()):
            yield from (moved.sentence for moved in generations(each))

    def _settled(self, done: Settlement) -> str:
        """Describe how recovery finished a transaction."""
        does = settled_text(done).removeprefix("✓ ")
        return f"Recovery {does} at {listed(done.nodes)}: {done.reason}"

    def _seen(self, look: TableLook) -> Iterator[str]:
        """Yield the changes that a look shows and no commit explains: those of transactions whose outcome is
        unknown to
        their sessions.

        Rows that merge sessions brought are described with the sessions.
        """
        if self._fold.is_merging:
            return
        made: dict[str, list[VersionChange]] = {}
        for change in self._changes.seen_at(look.seq):
            author = change.author
            if change.initial or (author is not None and author.is_told):
                continue
            if author is not None:
                whose = f"{author.name} has committed at {look.node}"
            elif change.perhaps:
                names = " or ".join(one.name for one in change.perhaps)
                whose = f"One of these has committed at {look.node}: {names}"
            else:
                whose = f"Another transaction has committed at {look.node}"
            made.setdefault(whose, []).append(change)
        for whose, changes in made.items():
            yield f"{whose}: {made_text(changes)}"

    def _who(self, event: HistoryEvent) -> str:
        """Return a session's name, the first time with its node."""
        if event.session in self._introduced:
            return event.session
        self._introduced.add(event.session)
        return f"{event.session}, at {event.node}," if event.node else event.session

    def _step(self, event: HistoryEvent) -> str:
        sql = self._sql.get((event.session, event.step), "")
        name = sql if sql in ("commit", "rollback", "begin") else event.step
        return f"{event.session}'s {name}" if name else event.session

    def _blocked(self, event: WaitStart, before: HistoryEvent | None) -> Iterator[str]:
        """Yield a wait once; whether the holder has been prepared meanwhile depends on the time of the observation."""
        lines = (event.step, event.holder)
        if lines in self._waits_told:
            return
        self._waits_told.add(lines)
        if not isinstance(before, StepStart) or before.step != event.step:
            yield f"{self._step(event)} {waits_for(event.wait)}"
            return
        sql = self._sql.get((event.session, event.step), "")
        yield f"{self._who(event)} {wants(sql)} ({one_line(sql)}): {event.step} {waits_for(event.wait)}"

    def _ended(self, ended: StepEnd) -> Iterator[str]:
        sql, message = self._sql.get((ended.session, ended.step), ""), ended.message
        match ended:
            case StepSuccess():
                yield from self._ok(ended, sql)
            case AuthorNote():
                yield f"Note: {one_line(message)}"
            case StepRefusal():
                kind = str(ended.conflict.get("kind")).replace("_", " ")
                why = refused_because(ended, self._fold)
                joint = ": it was " if why.startswith("cancelled") else ", because "
                yield f"{self._sent(ended, sql)} is refused ({kind}){joint}{why}"
            case StepError():
                yield f"{self._sent(ended, sql)} fails{_code(ended)}: {_short(message)}"
                yield from self._generations(ended)
            case StepRollback():
                left = "" if ended.gid in self._fold.effects else "; it has no effect at any node"
                yield f"{ended.session}'s transaction is rolled back: it was {message}{left}"
            case UnsentStep():
                yield f"{self._step(ended)} is not sent: {message}"
            case DoubtfulStep():
                step = self._step(ended)
                yield f"{step} is in doubt: it may or may not have been committed ({message})"
            case StepTimeout():
                yield f"{self._step(ended)} is cancelled: {message}"

    def _has_waited(self, ended: StepEnd) -> bool:
        wait = self._fold.waits.get(ended.step)
        return wait is not None and wait.seq < ended.seq

    def _sent(self, ended: StepEnd, sql: str) -> str:
        """Return the step with its SQL, or without it if the SQL was shown when the step began to wait."""
        if self._has_waited(ended) or sql in _ACTIONS:
            return self._step(ended)
        return f"{self._who(ended)} {wants(sql)} ({one_line(sql)}): {ended.step}"

    def _ok(self, ended: StepEnd, sql: str) -> Iterator[str]:
        if ended.tag == "SYNC":
            yield from self._merged(ended)
        if ended.tag in ("BEGIN", "SYNC"):
            return
        if ended.tag == "ROLLBACK":
            back = "" if sql in ("", "rollback") else f": {one_line(sql)}"
            yield f"{ended.session} rolls back{back}"
        elif ended.tag in _SUBSCRIPTIONS:
            yield f"{ended.session} {_SUBSCRIPTIONS[ended.tag].format(ended.node)}"
        elif ended.tag == "COMMIT":
            yield f"{ended.session} commits{self._effect(ended)}"
        else:
            yield self._done(ended, sql) + (self._effect(ended) if self._made(ended) else "")
        yield from self._lost(ended)

    def _lost(self, ended: StepEnd) -> Iterator[str]:
        """Yield the lost updates and the write skew of a transaction that committed."""
        for author in self._changes.authors:
            for stale in self._fold.stale(author)[:1] if author.seq == ended.seq else ():
                because, however = lost_text(self._fold, stale)
                yield f"That is a lost update: {because}" + (f"; {however}" if however else "")
        because, however = across_nodes(self._fold, until=ended.seq)
        if because:
            yield f"That is write skew over two nodes: {because}. {_capital(however)}"

    def _done(self, ended: StepEnd, sql: str) -> str:
        if self._has_waited(ended):
            return f"{self._step(ended)} goes on: it {did(sql, ended)}"
        text = f"{self._who(ended)} {did(sql, ended)}"
        if sql:
            text += f" ({one_line(sql)})"
        if is_locking_read(sql) and ended.node not in self._fold.nodes[:1]:
            text += f", and locks it in the copy at {ended.node} alone"
        return text + (", and commits at once" if self._made(ended) else "")

    def _effect(self, ended: StepEnd) -> str:
        """Return the nodes at which a transaction took effect, and its changes."""
        nodes = listed(list(self._fold.effects.get(ended.gid, ())) or [ended.node])
        made = self._made(ended)
        return f", at {nodes}" + (f": {made_text(made)}" if made else "")

    def _made(self, ended: StepEnd) -> list[VersionChange]:
        """Return the changes of the transaction that this event committed."""
        for author in self._changes.authors:
            if author.seq == ended.seq:
                return self._changes.made_by(author)
        return []

    # -- agents ------------------------------------------------------------------------------------

    def _delivered(self, several: Sequence[AgentWork]) -> Iterator[str]:
        """Yield the deliveries of one sync; a transaction for several Subscribers is one sentence."""
        places: dict[tuple[type[AgentWork], str, str], list[str]] = {}
        for done in several:
            whose = transaction_of(done.gid, done.origin, self._changes.authors)
            what = f"{whose} ({_short(done.text)})"
            if isinstance(done, SkippedTransaction):
                what += f", with what failed left out: {done.message}"
            places.setdefault((type(done), what, done.seqno), []).append(done.node)
        for (kind, what, _), nodes in places.items():
            if kind is PassedTransaction:
                yield f"To {listed(nodes)} {what} is not sent back: it came from there"
            elif kind is EchoDelivery:
                yield f"To {listed(nodes)} {what} comes back, though it came from there: an echo"
            else:
                yield f"The agents deliver {what} to {listed(nodes)}"
