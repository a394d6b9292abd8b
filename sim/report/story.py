"""An order told in sentences: who read what, wrote, waited, was refused and why, and how it all ended.

A pure function of the order's records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from twopc.sim.report.breaches import lost_text
from twopc.sim.report.causes import because_of
from twopc.sim.report.changes import VersionChange
from twopc.sim.report.dependencies import across_nodes, is_locking_read
from twopc.sim.report.fold import AgentDelivery, Fold, Settlement, causal
from twopc.sim.report.history import ENDS, HistoryRecord
from twopc.sim.report.merge_reports import brings, reports
from twopc.sim.report.merge_sessions import (
    conflict_text,
    generations,
    lineage_text,
    sentence,
    why_text,
)
from twopc.sim.report.phrases import (
    backup_text,
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

__all__ = ["because_of", "story"]

_ACTIONS = ("begin", "commit", "rollback", "sync", "reinitialise", "subscribe", "unsubscribe")
#: What has become of a subscription, by the tag of its record.
_SUBSCRIPTIONS = {
    "REINITIALISE": "has {} copied anew",
    "SUBSCRIBE": "has {} subscribe: it gets a copy, and everything that comes after it",
    "UNSUBSCRIBE": "has {} leave: its rows stay as they are",
}
_OUTCOMES = {"committed": "committed", "rolled back": "was rolled back", "in doubt": "is in doubt"}
#: Characters of a server's message.
_MESSAGE_MAX = 240


def story(fold: Fold) -> list[str]:
    """The sentences of one order, the first how everything stood before it; of a load, what it came to."""
    if any(record.kind == "load" for record in reversed(fold.records)):
        from twopc.sim.report import load  # loads the histograms: most runs have no load

        return load.sentences(load.of(fold.records))
    telling = _StoryText(fold)
    return [_sentence(text) for text in telling.all()]


def _code(record: HistoryRecord) -> str:
    return f" with {record.sqlstate}" if record.sqlstate else ""


def _short(message: str) -> str:
    return shorten(message, _MESSAGE_MAX)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentence(text: str) -> str:
    """With an end; names of sessions stay as they are written."""
    text = text.strip()
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


class _StoryText:
    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._records = causal(fold.records)
        self._changes = fold.changes
        self._sql = {
            (record.session, record.step): record.sql
            for record in fold.records
            if record.kind == "invoke"
        }
        self._introduced: set[str] = set()
        self._waits_told: set[tuple[str, str]] = set()
        self._order = fold.about

    def all(self) -> Iterator[str]:
        yield from self._opening()
        of_agents = self._fold.deliveries
        before: HistoryRecord | None = None
        for is_delivery, records in groupby(self._records, lambda each: each.seq in of_agents):
            if is_delivery:
                yield from self._delivered([of_agents[each.seq] for each in records])
                continue
            for record in records:
                yield from self._one(record, before)
                before = record
        yield from self._ending()

    # -- before and after --------------------------------------------------------------------------

    def _opening(self) -> Iterator[str]:
        data: Mapping[str, Any] = (self._order.data if self._order else None) or {}
        twin = data.get("twin") or {}
        if twin:
            protections = sorted(twin.get("protections", ())) or ["something"]
            verb = "is" if len(protections) == 1 else "are"
            must = f", and {twin['must_fail']} must fail" if twin.get("must_fail") else ""
            yield f"Here {listed(protections)} {verb} switched off{must}"
        cell = data.get("cell") or {}
        if cell:
            yield f"Played with {listed([f'{key} = {value}' for key, value in cell.items()])}"
        for text in self._tables("initial"):
            yield f"At first {text}"

    def _ending(self) -> Iterator[str]:
        ends = [
            f"{record.session} {_OUTCOMES[record.message]}"
            for record in self._records
            if record.kind == "outcome" and record.message in _OUTCOMES
        ]
        if ends:
            yield f"So {listed(ends)}"
        for text in self._tables("final"):
            yield f"At the end {text}"
        for node, gid in self._fold.left_prepared:
            yield f"Branch {gid} is still prepared at {node}"

    def _tables(self, moment: str) -> Iterator[str]:
        """What each table holds; nodes that hold the same together."""
        results: dict[str, dict[str, list[str]]] = {}
        nodes: dict[str, None] = {}
        for record in self._fold.looks(moment):
            nodes[record.node] = None
            text = _short(rows_text(record.rows or ()))
            table = str((record.data or {})["table"])
            results.setdefault(table, {}).setdefault(text, []).append(record.node)
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

    def _one(self, record: HistoryRecord, before: HistoryRecord | None) -> Iterator[str]:
        if record.kind == "state":
            yield from self._seen(record)
        elif not record.session or record.kind == "outcome":
            yield from self._of_the_run(record)
        elif record.kind == "blocked":
            yield from self._blocked(record, before)
        elif record.kind in ENDS:
            yield from self._ended(record)
        elif record.kind == "queued":
            yield f"{self._step(record)} must be queued: {record.message}"
        elif record.kind == "waited":
            yield f"At this moment {self._step(record)} is {self._whether_blocked(record)}"
        elif record.kind == "deadlock":
            cycle = "; ".join((record.data or {}).get("cycle", ()))
            yield f"That is a deadlock across nodes: {cycle}. {self._step(record)} is cancelled"
        elif record.kind == "stuck":
            yield f"No session can proceed: {record.message}"
        elif record.kind == "infeasible":
            yield f"The order ends here: {record.message or 'the next step belongs to a blocked session'}"
        elif record.kind == "notice":
            yield f"{record.session} receives: {notices(record)}"
        elif record.kind == "info" and record.message:
            yield f"{self._step(record) if record.step else record.session}: {record.message}"

    def _of_the_run(self, record: HistoryRecord) -> Iterator[str]:
        on = (record.data or {}).get("on")
        if record.kind == "outage":
            now = "accepts no connections from now on" if on else "accepts connections again"
            yield f"{record.node} {now}"
        elif record.kind == "paused":
            yield f"The agent of {record.node} is {'paused' if on else 'resumed'}"
        elif record.kind == "backup":
            yield backup_text(record)
        elif record.kind == "fault":
            yield f"F{happening(record).removeprefix('✗ ').removeprefix('f')}"
        elif record.seq in self._fold.settlements:
            yield self._settled(self._fold.settlements[record.seq])
        elif record.kind == "blocked":
            yield f"An agent {waits_for(record.wait or {})}"
        elif record.kind == "ok" and brings(record):
            yield from self._merged(record)
        elif record.kind in ("error", "timed_out", "rejected") and record.step:
            node = self._agent_at(record)
            message = record.message.removeprefix(f"{node}: ")
            yield f"The agent of {node} stops: {_short(message)}"
            yield from self._generations(record)

    def _merged(self, record: HistoryRecord) -> Iterator[str]:
        """What merge sessions did, and what they met."""
        who = f"By {self._step(record)} the" if record.session else "A"
        for report in reports(record):
            yield sentence(report, who)
        yield from self._generations(record)
        for conflict in self._fold.merge_conflicts.get(record.seq, ()):
            yield f"It records a conflict: {conflict_text(conflict)}"
            yield from filter(None, (_capital(lineage_text(conflict)), why_text(conflict)))

    def _generations(self, record: HistoryRecord) -> Iterator[str]:
        """What merge sessions did to generations."""
        for each in self._fold.merge_sessions.get(record.seq, ()):
            yield from (moved.sentence for moved in generations(each))

    def _settled(self, done: Settlement) -> str:
        """What recovery has done with a transaction that nobody else would end."""
        does = settled_text(done).removeprefix("✓ ")
        return f"Recovery {does} at {listed(done.nodes)}: {done.reason}"

    def _seen(self, record: HistoryRecord) -> Iterator[str]:
        """The changes that a look shows and that no commit tells: of those whose outcome their sessions do not know.

        What merge sessions bring is told by them.
        """
        if self._fold.is_merging:
            return
        made: dict[str, list[VersionChange]] = {}
        for change in self._changes.seen_at(record.seq):
            author = change.author
            if change.initial or (author is not None and author.is_told):
                continue
            if author is not None:
                whose = f"{author.name} has committed at {record.node}"
            elif change.perhaps:
                names = " or ".join(one.name for one in change.perhaps)
                whose = f"One of these has committed at {record.node}: {names}"
            else:
                whose = f"Another transaction has committed at {record.node}"
            made.setdefault(whose, []).append(change)
        for whose, changes in made.items():
            yield f"{whose}: {made_text(changes)}"

    def _agent_at(self, record: HistoryRecord) -> str:
        return str((record.data or {}).get("at") or record.node or "the Subscriber")

    def _whether_blocked(self, record: HistoryRecord) -> str:
        return "blocked" if (record.data or {}).get("blocked") else "not blocked"

    def _who(self, record: HistoryRecord) -> str:
        """A session, the first time with its node."""
        if record.session in self._introduced:
            return record.session
        self._introduced.add(record.session)
        return f"{record.session}, at {record.node}," if record.node else record.session

    def _step(self, record: HistoryRecord) -> str:
        sql = self._sql.get((record.session, record.step), "")
        name = sql if sql in ("commit", "rollback", "begin") else record.step
        return f"{record.session}'s {name}" if name else record.session

    def _blocked(self, record: HistoryRecord, before: HistoryRecord | None) -> Iterator[str]:
        """That it waits; that the one it waits for is prepared by now depends on when one looks."""
        wait = record.wait or {}
        lines = (record.step, str(wait.get("session")))
        if lines in self._waits_told:
            return
        self._waits_told.add(lines)
        if before is None or before.kind != "invoke" or before.step != record.step:
            yield f"{self._step(record)} {waits_for(wait)}"
            return
        sql = self._sql.get((record.session, record.step), "")
        yield f"{self._who(record)} {wants(sql)} ({one_line(sql)}): {record.step} {waits_for(wait)}"

    def _ended(self, record: HistoryRecord) -> Iterator[str]:
        sql = self._sql.get((record.session, record.step), "")
        if record.kind == "ok":
            yield from self._ok(record, sql)
        elif record.kind == "explain":
            yield f"Note: {one_line(record.message)}"
        elif record.kind == "rejected":
            kind = str((record.conflict or {}).get("kind")).replace("_", " ")
            why = refused_because(record, self._fold)
            joint = ": it was " if why.startswith("cancelled") else ", because "
            yield f"{self._sent(record, sql)} is refused ({kind}){joint}{why}"
        elif record.kind == "error":
            yield f"{self._sent(record, sql)} fails{_code(record)}: {_short(record.message)}"
            yield from self._generations(record)
        elif record.kind == "rolled_back":
            left = "" if record.gid in self._fold.effects else "; it has no effect at any node"
            yield f"{record.session}'s transaction is rolled back: it was {record.message}{left}"
        elif record.kind == "skipped":
            yield f"{self._step(record)} is not sent: {record.message}"
        elif record.kind == "in_doubt":
            yield f"{self._step(record)} is in doubt: it may or may not have been committed ({record.message})"
        elif record.kind == "timed_out":
            yield f"{self._step(record)} is cancelled: {record.message}"

    def _has_waited(self, record: HistoryRecord) -> bool:
        wait = self._fold.waits.get(record.step)
        return wait is not None and wait.seq < record.seq

    def _sent(self, record: HistoryRecord, sql: str) -> str:
        """The step with its SQL, unless that has been told when it began to wait."""
        if self._has_waited(record) or sql in _ACTIONS:
            return self._step(record)
        return f"{self._who(record)} {wants(sql)} ({one_line(sql)}): {record.step}"

    def _ok(self, record: HistoryRecord, sql: str) -> Iterator[str]:
        if record.tag == "SYNC":
            yield from self._merged(record)
        if record.tag in ("BEGIN", "SYNC"):
            return
        if record.tag == "ROLLBACK":
            back = "" if sql in ("", "rollback") else f": {one_line(sql)}"
            yield f"{record.session} rolls back{back}"
        elif record.tag in _SUBSCRIPTIONS:
            yield f"{record.session} {_SUBSCRIPTIONS[record.tag].format(record.node)}"
        elif record.tag == "COMMIT":
            yield f"{record.session} commits{self._effect(record)}"
        else:
            yield self._done(record, sql) + (self._effect(record) if self._made(record) else "")
        yield from self._lost(record)

    def _lost(self, record: HistoryRecord) -> Iterator[str]:
        """What was overwritten unseen by a transaction that was let through."""
        for author in self._changes.authors:
            for stale in self._fold.stale(author)[:1] if author.seq == record.seq else ():
                because, however = lost_text(self._fold, stale)
                yield f"That is a lost update: {because}" + (f"; {however}" if however else "")
        because, however = across_nodes(self._fold, until=record.seq)
        if because:
            yield f"That is write skew over two nodes: {because}. {_capital(however)}"

    def _done(self, record: HistoryRecord, sql: str) -> str:
        if self._has_waited(record):
            return f"{self._step(record)} goes on: it {did(sql, record)}"
        text = f"{self._who(record)} {did(sql, record)}"
        if sql:
            text += f" ({one_line(sql)})"
        if is_locking_read(sql) and record.node not in self._fold.nodes[:1]:
            text += f", and locks it in the copy at {record.node} alone"
        return text + (", and commits at once" if self._made(record) else "")

    def _effect(self, record: HistoryRecord) -> str:
        """Where a transaction takes effect, and what has become of the rows."""
        nodes = listed(list(self._fold.effects.get(record.gid, ())) or [record.node])
        made = self._made(record)
        return f", at {nodes}" + (f": {made_text(made)}" if made else "")

    def _made(self, record: HistoryRecord) -> list[VersionChange]:
        """The rows that a transaction changed, of the record that says that it was committed."""
        for author in self._changes.authors:
            if author.seq == record.seq:
                return self._changes.made_by(author)
        return []

    # -- agents ------------------------------------------------------------------------------------

    def _delivered(self, several: Sequence[AgentDelivery]) -> Iterator[str]:
        """Deliveries of one sync: a transaction that goes to several Subscribers in one sentence."""
        places: dict[tuple[str, str, str], list[str]] = {}
        for done in several:
            whose = transaction_of(done.record.gid, done.origin, self._changes.authors)
            what = f"{whose} ({_short(done.commands)})"
            if done.kind == "skip":
                what += f", with what failed left out: {done.record.message}"
            places.setdefault((done.kind, what, done.seqno), []).append(done.node)
        for (kind, what, _), nodes in places.items():
            if kind == "suppress":
                yield f"To {listed(nodes)} {what} is not sent back: it came from there"
            elif kind == "echo":
                yield f"To {listed(nodes)} {what} comes back, though it came from there: an echo"
            else:
                yield f"The agents deliver {what} to {listed(nodes)}"
