"""Calls of published routines in the log: a call replaces the rows between its markers, or is not sent.

Pure. A call may replace its rows if the caller's snapshot saw every earlier writer of the tables that the
routine reads or writes (`twopc.proc_execution.Writers`). Of nested calls only the outermost counts; if the
outermost call is sent as rows, each inner one is judged by itself.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping

from twopc.errors import RemoteProtocolError
from twopc.proc_execution import (
    BESIDE,
    CALL_TYPE,
    DEFINITION_TYPE,
    PgSnapshot,
    ProcArticle,
    ProcCall,
    ProcType,
    Writers,
    base_of,
    beside,
)
from twopc.publisher.commands import Command

Row = Mapping[str, bytes | None]


class Brackets:
    """Tracks the calls of a transaction while the log is read.

    Args:
        calls: routines whose calls are stored, by number; calls of other routines are sent as rows.
        tables: names of tables, by the number of the article or part.
        beside_until: commit LSN up to which the rows of a call are stored beside it.
        horizon: see `Writers`.
    """

    def __init__(
        self,
        calls: Mapping[int, ProcArticle],
        tables: Mapping[int, str],
        *,
        beside_until: int,
        horizon: int,
    ) -> None:
        known = frozenset(tables.values())
        self._calls = {
            number: dataclasses.replace(
                each, reads=_declared(each.reads, known), writes=_declared(each.writes, known)
            )
            for number, each in calls.items()
        }
        self._tables = tables
        self._beside_until = beside_until
        self.writers = Writers(horizon)
        self.fallbacks: list[tuple[int, int]] = []
        """Commit LSN and routine of calls that are sent as rows because their snapshot missed a writer."""
        self.begin(0)

    def begin(self, lsn: int) -> None:
        """Begin a transaction that commits at `lsn`."""
        self._lsn = lsn
        self._open: list[int] = []
        self._sent: tuple[int, ProcArticle, ProcCall] | None = None
        self._written: set[str] | None = set()

    @property
    def silent(self) -> bool:
        """Whether the next changes are replaced by a call."""
        return self._sent is not None and self._lsn > self._beside_until

    @property
    def shift(self) -> int:
        """Number to add to an article's number, since rows beside a call have numbers of their own."""
        return BESIDE if self._sent is not None else 0

    def marked(self, row: Row, *, remarked: bool) -> tuple[Command, ...]:
        """Process a call marker; return the command of the call if a call that is sent ends.

        Args:
            remarked: whether commands of the transaction may already carry another originator.

        Raises:
            RemoteProtocolError: the markers do not match.
        """
        number = int(row["id"] or 0)
        if row["opened"] is None:
            self._open.append(number)
            if self._sent is None and not remarked:
                self._judge(number, row)
            return ()
        if not self._open or self._open.pop() != int(row["opened"]):
            raise RemoteProtocolError(
                f"the mark {number} in msrepl.call_marker ends call {row['opened']!r}, which is not the one that "
                "began last"
            )
        if self._sent is None or self._sent[0] != int(row["opened"]):
            return ()
        _, article, call = self._sent
        self._sent = None
        self._write(article.writes)
        if row["failure"] is not None:
            call = dataclasses.replace(call, failure=row["failure"].decode())
        return ((article.article_id, CALL_TYPE, 0, call.as_text().encode()),)

    def _judge(self, number: int, row: Row) -> None:
        article = self._calls.get(int(row["article_id"] or 0))
        if article is None:
            return
        if article.type is ProcType.SERIALIZABLE:
            snapshot = PgSnapshot.parse((row["snapshot"] or b"").decode())
            if not self.writers.sees_all(snapshot, article.tables):
                self.fallbacks.append((self._lsn, article.article_id))
                return
        self._sent = (number, article, ProcCall.parse((row["call"] or b"{}").decode()))

    def defined(self, body: bytes) -> tuple[Command, ...]:
        """Process a routine's new definition, or a change of its calls' meaning: later snapshots must have seen it."""
        self._written = None
        posted = json.loads(body)
        if "definition" not in posted:
            return ()
        text = json.dumps({"definition": posted["definition"]}, ensure_ascii=False)
        return ((beside(posted["article"]), DEFINITION_TYPE, 0, text.encode()),)

    # -- writers of tables ------------------------------------------------------------------------

    def made(self, codes: Iterable[int]) -> None:
        """Note the tables of the transaction's commands, given as number of the article * 100 + type."""
        if not self._calls or self._written is None:
            return
        numbers = {base_of(code // 100) for code in set(codes)}
        self._written.update(self._tables[each] for each in numbers if each in self._tables)

    def changed(self, table: str) -> None:
        """Note a changed table of which no command was made."""
        if self._written is not None:
            self._written.add(table)

    def _write(self, tables: Iterable[str] | None) -> None:
        if tables is None:
            self._written = None
        elif self._written is not None:
            self._written.update(tables)

    def commit(self, xid: int) -> None:
        """Complete the transaction, and note it as a writer.

        Raises:
            RemoteProtocolError: a call that began in the transaction did not end.
        """
        if self._open:
            raise RemoteProtocolError(
                f"transaction {xid} has call {self._open[-1]} in msrepl.call_marker begin and not end"
            )
        if not self._calls:
            self.writers.highest = max(self.writers.highest, xid)
        elif self._written is None or self._written:
            written = None if self._written is None else frozenset(self._written)
            self.writers.note(xid, written)

    def passed(self, xid: int) -> None:
        """Note a transaction that is stored already or is not to be stored, and whose tables are unknown."""
        writers = self.writers
        writers.horizon = max(writers.horizon, xid)
        writers.highest = max(writers.highest, xid)


def _declared(names: tuple[str, ...] | None, known: frozenset[str]) -> tuple[str, ...] | None:
    """Return the declared tables if all of them are known; None if one was renamed, or is no longer published."""
    return names if names is not None and known.issuperset(names) else None
